/* The memory that processes share, its lock, FIFOs, and copies between processes. */
#include "fabric.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static fabric *shared;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *folder;

static void make_lock(fabric *made)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&made->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static void map(void)
{
    char path[256];
    folder = getenv("FAKE_VERBS_FABRIC");
    if (folder == NULL)
        abort();
    snprintf(path, sizeof path, "%s/fabric", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool first = fd >= 0;
    if (!first)
        fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || ftruncate(fd, sizeof *shared) != 0)
        abort();
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shared == MAP_FAILED)
        abort();
    if (first) {
        make_lock(shared);
        shared->numbers = 100;
        atomic_store(&shared->ready, 1);
    }
    while (!atomic_load(&shared->ready))
        usleep(100);
}

fabric *fake_fabric(void)
{
    pthread_once(&once, map);
    return shared;
}

const char *fake_folder(void)
{
    (void)fake_fabric();
    return folder;
}

void fake_lock(void)
{
    if (pthread_mutex_lock(&fake_fabric()->lock) == EOWNERDEAD) /* its tables may be half written, but stay usable */
        pthread_mutex_consistent(&fake_fabric()->lock);
}

void fake_unlock(void)
{
    pthread_mutex_unlock(&fake_fabric()->lock);
}

uint32_t fake_number(void)
{
    return ++shared->numbers;
}

static void name(pid_t pid, uint32_t number, char path[256])
{
    snprintf(path, 256, "%s/%d.%u", folder, (int)pid, number);
}

int fake_fifo(uint32_t number, char path[256])
{
    name(getpid(), number, path);
    if (mkfifo(path, 0600) != 0)
        return -1;
    return open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC); /* itself a writer: never at its end */
}

void fake_ring(pid_t pid, uint32_t number, const void *text, size_t bytes)
{
    char path[256];
    name(pid, number, path);
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)!write(fd, text, bytes);
    close(fd);
}

size_t fake_slot(const void *table, size_t count, size_t bytes, size_t used, size_t pid)
{
    for (size_t i = 0; i < count; i++) {
        const char *slot = (const char *)table + i * bytes;
        pid_t owner;
        memcpy(&owner, slot + pid, sizeof owner);
        if (!slot[used] || (kill(owner, 0) != 0 && errno == ESRCH))
            return i;
    }
    return SIZE_MAX;
}

bool fake_copy(pid_t pid, uint64_t to, const void *from, size_t bytes)
{
    struct iovec own = {(void *)(uintptr_t)from, bytes}, other = {(void *)(uintptr_t)to, bytes};
    if (bytes == 0)
        return true;
    if (pid == getpid()) {
        memmove((void *)(uintptr_t)to, from, bytes);
        return true;
    }
    return process_vm_writev(pid, &own, 1, &other, 1, 0) == (ssize_t)bytes;
}

bool fake_fetch(pid_t pid, void *to, uint64_t from, size_t bytes)
{
    struct iovec own = {to, bytes}, other = {(void *)(uintptr_t)from, bytes};
    if (bytes == 0)
        return true;
    if (pid == getpid()) {
        memmove(to, (void *)(uintptr_t)from, bytes);
        return true;
    }
    return process_vm_readv(pid, &own, 1, &other, 1, 0) == (ssize_t)bytes;
}

__attribute__((visibility("default"))) fake_faults *fake_verbs_faults(void)
{
    return &fake_fabric()->faults;
}

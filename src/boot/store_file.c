/*
 * A store in a directory: one file a key. A file appears under its final name with its whole content or not at all
 * (written under a temporary name, then renamed without replacing), so a reader never sees half a value, and a key that
 * is set twice is noticed. Waiting is by inotify plus short, jittered looks: network file systems send no events.
 * The files stay until the caller removes the directory, since a slower rank may still have to read them.
 */
#include <hocket/store.h>

#include "base/clock.h"
#include "base/error.h"
#include "boot/store_made.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_NAME_BYTES = 3 * HKI_STORE_KEY_MAX + 1 };

typedef struct file_store {
    hki_made_store made;
    int directory;
    char path[]; /* as the caller gave it: for inotify and errors */
} file_store;

/* '/' and '%' are escaped, and a leading '.', which marks temporary files. */
static void file_name(const char *key, char name[FILE_NAME_BYTES])
{
    static const char digits[] = "0123456789ABCDEF";
    char *out = name;
    for (const char *in = key; *in; in++) {
        if (*in == '/' || *in == '%' || (*in == '.' && in == key)) {
            *out++ = '%';
            *out++ = digits[*in >> 4];
            *out++ = digits[*in & 15];
        } else {
            *out++ = *in;
        }
    }
    *out = '\0';
}

static hk_status write_all(int file, const void *value, size_t bytes)
{
    const char *next = value;
    while (bytes > 0) {
        ssize_t written = write(file, next, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return hki_error_errno(HK_ERR_SYSTEM, written < 0 ? errno : ENOSPC, "cannot write to the file store");
        next += written;
        bytes -= (size_t)written;
    }
    return HK_OK;
}

/* Gives the file its final name unless that exists. Not every file system knows RENAME_NOREPLACE (NFS does not). */
static int publish(int directory, const char *temporary, const char *name)
{
    if (renameat2(directory, temporary, directory, name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno;
    return linkat(directory, temporary, directory, name, 0) == 0 ? 0 : errno;
}

static hk_status write_temporary(const file_store *store, const char *temporary, const void *value, size_t bytes)
{
    int file = openat(store->directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return hki_error_errno(HK_ERR_SYSTEM, errno, "cannot create a file in store %s", store->path);
    hk_status status = write_all(file, value, bytes);
    if (close(file) != 0 && status == HK_OK)
        status = hki_error_errno(HK_ERR_SYSTEM, errno, "cannot write to store %s", store->path);
    return status;
}

static hk_status file_set(void *context, const char *key, const void *value, size_t bytes)
{
    static atomic_uint serial;
    file_store *store = context;
    HK_TRY(hki_store_check(key, bytes));
    char name[FILE_NAME_BYTES], temporary[80];
    file_name(key, name);
    /* Pids may coincide between hosts that share the directory; the clock and O_EXCL settle that. */
    snprintf(temporary, sizeof temporary, ".new-%d-%u-%llx", (int)getpid(), atomic_fetch_add(&serial, 1),
             (unsigned long long)hki_now());
    hk_status status = write_temporary(store, temporary, value, bytes);
    if (status == HK_OK) {
        int failure = publish(store->directory, temporary, name);
        if (failure == EEXIST)
            status = hki_error(HK_ERR_REFUSED, "key %s is set already in store %s", key, store->path);
        else if (failure != 0)
            status = hki_error_errno(HK_ERR_SYSTEM, failure, "cannot publish key %s in store %s", key, store->path);
    }
    unlinkat(store->directory, temporary, 0);
    return status;
}

static hk_status read_all(int file, const char *key, void *value, size_t *bytes)
{
    struct stat about;
    if (fstat(file, &about) != 0)
        return hki_error_errno(HK_ERR_SYSTEM, errno, "cannot look at key %s", key);
    if (!S_ISREG(about.st_mode) || about.st_uid != geteuid())
        return hki_error(HK_ERR_REFUSED, "key %s of the file store is not a file of this user", key);
    size_t length = (size_t)about.st_size, have = 0;
    if (length > *bytes)
        return hki_error(HK_ERR_TRUNCATED, "key %s holds %zu bytes, more than the %zu that fit", key, length, *bytes);
    while (have < length) {
        ssize_t got = read(file, (char *)value + have, length - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return hki_error_errno(HK_ERR_SYSTEM, got < 0 ? errno : EIO, "cannot read key %s", key);
        have += (size_t)got;
    }
    *bytes = have;
    return HK_OK;
}

/* HK_ERR_TIMEOUT, without a recorded text, while the key is not there. */
static hk_status try_get(const file_store *store, const char *key, const char *name, void *value, size_t *bytes)
{
    int file = openat(store->directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0 && errno == ENOENT)
        return HK_ERR_TIMEOUT;
    if (file < 0)
        return hki_error_errno(HK_ERR_SYSTEM, errno, "cannot open key %s of store %s", key, store->path);
    hk_status status = read_all(file, key, value, bytes);
    close(file);
    return status;
}

/* Waits for the directory to change, or 10 to 30 ms: ranks that look at a network file system should not all look at
 * once. Without inotify (-1) it just waits. */
static void wait_for_change(int events, uint64_t left_ns)
{
    uint64_t jittered_ms = 10 + hki_now() / 1000 % 20;
    uint64_t left_ms = left_ns / 1000000 + 1;
    struct pollfd descriptor = {.fd = events, .events = POLLIN};
    poll(&descriptor, events >= 0 ? 1 : 0, (int)(left_ms < jittered_ms ? left_ms : jittered_ms));
    char drained[4096];
    if (events >= 0)
        while (read(events, drained, sizeof drained) > 0)
            ;
}

static hk_status file_get(void *context, const char *key, void *value, size_t *bytes, double timeout)
{
    file_store *store = context;
    char name[FILE_NAME_BYTES];
    HK_TRY(hki_store_check(key, 0));
    file_name(key, name);
    hk_status status = try_get(store, key, name, value, bytes);
    if (status != HK_ERR_TIMEOUT || timeout <= 0)
        return status;
    uint64_t deadline = hki_now() + (uint64_t)((timeout < 1e9 ? timeout : 1e9) * 1e9);
    int events = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (events >= 0)
        inotify_add_watch(events, store->path, IN_MOVED_TO | IN_CREATE);
    for (;;) {
        status = try_get(store, key, name, value, bytes);
        uint64_t now = hki_now();
        if (status != HK_ERR_TIMEOUT || now >= deadline)
            break;
        wait_for_change(events, deadline - now);
    }
    if (events >= 0)
        close(events);
    return status == HK_ERR_TIMEOUT
               ? hki_error(status, "key %s was not set in store %s within %g s", key, store->path, timeout)
               : status;
}

static void file_free(hki_made_store *made)
{
    file_store *store = (file_store *)made;
    close(store->directory);
    free(store);
}

/* The job key goes through the store, so only its owner may be able to write there. */
static hk_status open_directory(const char *path, int *directory)
{
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return hki_error_errno(HK_ERR_SYSTEM, errno, "cannot make directory %s for a store", path);
    int opened = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (opened < 0)
        return hki_error_errno(HK_ERR_SYSTEM, errno, "cannot open directory %s of a store", path);
    struct stat about;
    if (fstat(opened, &about) != 0 || about.st_uid != geteuid() || (about.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        close(opened);
        return hki_error(HK_ERR_REFUSED,
                         "directory %s of a store must belong to this user, and nobody else may write "
                         "there",
                         path);
    }
    *directory = opened;
    return HK_OK;
}

hk_status hk_store_file(const char *directory, hk_store **store)
{
    if (!directory || !store)
        return hki_error(HK_ERR_ARGUMENT, "hk_store_file: %s is NULL", directory ? "store" : "directory");
    size_t path_bytes = strlen(directory) + 1;
    file_store *made = calloc(1, sizeof *made + path_bytes);
    if (!made)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a store");
    memcpy(made->path, directory, path_bytes);
    hk_status status = open_directory(directory, &made->directory);
    if (status != HK_OK) {
        free(made);
        return status;
    }
    made->made.store = (hk_store){.size = sizeof(hk_store), .context = made, .set = file_set, .get = file_get};
    made->made.free = file_free;
    *store = &made->made.store;
    return HK_OK;
}

#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static size_t whole_pages(size_t bytes)
{
    return (bytes + HKI_PAGE - 1) / HKI_PAGE * HKI_PAGE;
}

hki_layout hki_layout_of(uint32_t local_ranks)
{
    size_t bells = ((size_t)local_ranks + 63) / 64 * sizeof(uint64_t);
    hki_layout layout = {.ranks = local_ranks, .slots = local_ranks + HKI_SPARE_SLOTS};
    layout.credits = whole_pages(sizeof(hki_control) + bells);
    layout.rings = layout.credits + whole_pages(local_ranks * sizeof(hki_credit));
    layout.slot_pool = layout.rings + local_ranks * sizeof(hki_ring);
    layout.bytes = layout.slot_pool + (size_t)layout.slots * HKI_SLOT_BYTES;
    return layout;
}

int hki_memfd_create(const char *name, size_t bytes)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

bool hki_memfd_sound(int fd, size_t bytes)
{
    struct stat status;
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(fd, &status) == 0 && status.st_size >= 0 &&
           (size_t)status.st_size >= bytes;
}

int hki_segment_populate(hki_segment *segment, size_t offset, size_t bytes)
{
    if (fallocate(segment->fd, 0, (off_t)offset, (off_t)bytes) != 0)
        return errno;
    /* Older kernels lack it: then the pages are faulted in one by one. */
    (void)madvise(segment->base + offset, bytes, MADV_POPULATE_WRITE);
    return 0;
}

int hki_segment_create(hki_segment *segment, uint32_t local_ranks)
{
    hki_layout layout = hki_layout_of(local_ranks);
    int fd = hki_memfd_create("hocket", layout.bytes);
    if (fd < 0)
        return errno;
    void *base = mmap(NULL, layout.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        int error = errno;
        close(fd);
        return error;
    }
    (void)madvise(base, layout.bytes, MADV_DONTFORK);
    *segment = (hki_segment){.layout = layout, .fd = fd, .base = base};
    int error = hki_segment_populate(segment, 0, layout.rings);
    if (error != 0)
        hki_segment_release(segment);
    return error;
}

int hki_segment_attach(hki_segment *segment, int fd, uint32_t local_ranks)
{
    hki_layout layout = hki_layout_of(local_ranks);
    if (!hki_memfd_sound(fd, layout.bytes))
        return EBADMSG;
    unsigned char *base = mmap(NULL, layout.bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return errno;
    if (mprotect(base, layout.slot_pool, PROT_READ | PROT_WRITE) != 0) {
        int error = errno;
        munmap(base, layout.bytes);
        return error;
    }
    (void)madvise(base, layout.bytes, MADV_DONTFORK);
    *segment = (hki_segment){.layout = layout, .fd = -1, .base = base};
    return 0;
}

void hki_segment_release(hki_segment *segment)
{
    if (segment->base != NULL)
        munmap(segment->base, segment->layout.bytes);
    if (segment->fd >= 0)
        close(segment->fd);
    segment->base = NULL;
    segment->fd = -1;
}

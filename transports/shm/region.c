/*
 * Memory of hk_alloc: regions, each a memfd that peers can map, cut into pieces. Small pieces share a region, so that
 * many of them cost few descriptors and few mappings; a large one has its own. First fit; a region without pieces is
 * given back, but for one that small pieces share.
 */
#include "shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { SHARED_PAGES = 4096, OWN_PAGES = 512 }; /* 16 MiB; from 2 MiB on a piece has a region of its own. Guesses. */

/* ---- regions ---- */

static void region_release(hk_transport *transport, hki_region *region)
{
    for (uint32_t i = 0; i < transport->local_ranks; i++)
        if ((region->due[i / 64] >> i % 64 & 1) != 0)
            transport->gifts_due--;
    if (region->base != NULL) {
        atomic_store_explicit(hki_freed_word(region->base, region->bytes), 1, memory_order_release);
        munmap(region->base, region->bytes + HKI_PAGE);
    }
    if (region->fd >= 0)
        close(region->fd);
    free(region->piece);
    free(region);
}

/* errno after a failed call; never 0. */
static int failure(void)
{
    int error = errno;
    return error != 0 ? error : EIO;
}

/* The memory: allocated only as pieces are, but for the page behind it. Returns 0 or an errno. */
static int region_map(hki_region *region)
{
    region->fd = hki_memfd_create("hocket-memory", region->bytes + HKI_PAGE);
    if (region->fd < 0 || fallocate(region->fd, 0, (off_t)region->bytes, HKI_PAGE) != 0)
        return failure();
    void *base = mmap(NULL, region->bytes + HKI_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, region->fd, 0);
    if (base == MAP_FAILED)
        return failure();
    region->base = base;
    (void)madvise(base, region->bytes + HKI_PAGE, MADV_DONTFORK);
    return 0;
}

/* NULL with errno. Both bitmaps lie behind the struct; a word more than needed is harmless. */
static hki_region *region_new(hk_transport *transport, size_t pages)
{
    size_t words = transport->local_ranks / 64 + 1;
    hki_region *region = calloc(1, sizeof *region + 2 * words * sizeof(uint64_t));
    if (region == NULL)
        return NULL;
    region->given = (uint64_t *)(void *)(region + 1);
    region->due = region->given + words;
    region->fd = -1;
    region->pages = pages;
    region->bytes = pages * HKI_PAGE;
    region->piece = calloc(pages, sizeof *region->piece);
    int error = region->piece == NULL ? ENOMEM : region_map(region);
    if (error != 0) {
        region_release(transport, region);
        errno = error;
        return NULL;
    }
    region->id = ++transport->next_region;
    region->next = transport->regions;
    transport->regions = region;
    return region;
}

/* ---- pieces ---- */

/* First page of the first gap of that many pages; region->pages when there is none. */
static size_t find_gap(const hki_region *region, size_t pages)
{
    size_t run = 0;
    for (size_t page = 0; page < region->pages;) {
        if (region->piece[page] != 0) {
            page += region->piece[page];
            run = 0;
            continue;
        }
        page++;
        if (++run == pages)
            return page - pages;
    }
    return region->pages;
}

/* Takes the pages: present, zero and faulted in. NULL with errno. A first touch costs up to 16 µs a page, populating
 * less than 1 µs. */
static void *piece_take(hki_region *region, size_t page, size_t pages)
{
    size_t offset = page * HKI_PAGE, bytes = pages * HKI_PAGE;
    if (fallocate(region->fd, 0, (off_t)offset, (off_t)bytes) != 0)
        return NULL;
    (void)madvise(region->base + offset, bytes, MADV_POPULATE_WRITE);
    size_t used = page < region->fresh ? region->fresh - page : 0;
    memset(region->base + offset, 0, (used < pages ? used : pages) * HKI_PAGE);
    if (page + pages > region->fresh)
        region->fresh = page + pages;
    region->piece[page] = pages;
    region->pieces++;
    return region->base + offset;
}

static void *piece_anywhere(hk_transport *transport, size_t pages)
{
    hki_region *region = NULL;
    if (pages < OWN_PAGES)
        for (region = transport->regions; region != NULL; region = region->next) {
            size_t page = region->pages == SHARED_PAGES ? find_gap(region, pages) : region->pages;
            if (page < region->pages)
                return piece_take(region, page, pages);
        }
    region = region_new(transport, pages < OWN_PAGES ? SHARED_PAGES : pages);
    if (region == NULL)
        return NULL;
    void *memory = piece_take(region, 0, pages);
    if (memory == NULL) {
        int error = errno;
        transport->regions = region->next;
        region_release(transport, region);
        errno = error;
    }
    return memory;
}

void *hki_shm_alloc(hk_transport *transport, size_t bytes)
{
    const hk_transport_services *services = transport->services;
    size_t pages = bytes == 0 ? 1 : bytes / HKI_PAGE + (bytes % HKI_PAGE != 0);
    errno = ENOMEM;
    void *memory = bytes <= SIZE_MAX / 4 ? piece_anywhere(transport, pages) : NULL;
    if (memory == NULL)
        services->error(services->core, HK_ERR_NO_MEMORY, "shared memory of %zu bytes: %s", bytes, strerror(errno));
    return memory;
}

/* Whether another region stands ready for small pieces. */
static bool another_shared(const hk_transport *transport, const hki_region *region)
{
    for (const hki_region *other = transport->regions; other != NULL; other = other->next)
        if (other != region && other->pages == SHARED_PAGES)
            return true;
    return false;
}

bool hki_shm_free(hk_transport *transport, void *memory)
{
    for (hki_region **at = &transport->regions; *at != NULL; at = &(*at)->next) {
        hki_region *region = *at;
        uintptr_t offset = (uintptr_t)memory - (uintptr_t)region->base;
        if ((uintptr_t)memory < (uintptr_t)region->base || offset >= region->bytes)
            continue;
        if (offset % HKI_PAGE != 0 || region->piece[offset / HKI_PAGE] == 0)
            return false;
        region->piece[offset / HKI_PAGE] = 0;
        if (--region->pieces == 0 && (region->pages != SHARED_PAGES || another_shared(transport, region))) {
            *at = region->next;
            region_release(transport, region);
        }
        return true;
    }
    return false;
}

hki_region *hki_region_of(const hk_transport *transport, const void *memory, size_t bytes)
{
    uintptr_t address = (uintptr_t)memory;
    for (hki_region *region = transport->regions; region != NULL; region = region->next) {
        uintptr_t base = (uintptr_t)region->base;
        if (address >= base && address - base <= region->bytes && bytes <= region->bytes - (address - base))
            return region;
    }
    return NULL;
}

void hki_region_release_all(hk_transport *transport)
{
    while (transport->regions != NULL) {
        hki_region *region = transport->regions;
        transport->regions = region->next;
        region_release(transport, region);
    }
}

/*
 * Pulling: a peer reads this rank's memory itself, either through a mapping of memory that hk_alloc made here
 * (region.c), or by process_vm_readv from any memory.
 */
#include "shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

enum { LARGEST_GET = 1 << 30 }; /* the kernel moves less than 2 GiB a call */

/* ---- the owner's side ---- */

/* The peer may sleep on a futex, which a datagram does not end. */
static void gift_sent(hk_link *link)
{
    hki_full_fence();
    if (atomic_load_explicit(link->out.sleep, memory_order_relaxed) != HKI_AWAKE)
        hki_shm_wake(link);
}

static void give(hk_link *link, hki_region *region)
{
    uint32_t index = (uint32_t)link->peer.local_index;
    uint64_t bit = UINT64_C(1) << index % 64;
    uint64_t *given = &region->given[index / 64], *due = &region->due[index / 64];
    if ((*given & bit) != 0)
        return;
    *given |= bit;
    if (hki_connect_give(link, region)) {
        gift_sent(link);
        return;
    }
    *due |= bit;
    link->transport->gifts_due++;
}

void hki_memory_progress(hk_transport *transport)
{
    for (hki_region *region = transport->regions; region != NULL; region = region->next)
        for (uint32_t i = 0; transport->gifts_due > 0 && i < transport->local_ranks; i++) {
            uint64_t bit = UINT64_C(1) << i % 64;
            hk_link *link = transport->link[i];
            if ((region->due[i / 64] & bit) == 0)
                continue;
            if (link->state == HK_LINK_UP && !hki_connect_give(link, region))
                continue;
            region->due[i / 64] &= ~bit;
            transport->gifts_due--;
            if (link->state == HK_LINK_UP)
                gift_sent(link);
        }
}

hk_transport_result hki_shm_describe(hk_link *link, const void *memory, size_t bytes, hk_remote *remote,
                                     uint32_t *protocols)
{
    hk_transport *transport = link->transport;
    if (link->state > HK_LINK_UP)
        return HK_TRANSPORT_LOST;
    if (link->state == HK_LINK_CONNECTING) {
        hki_connect_need(link);
        hki_connect_progress(transport);
        if (link->state != HK_LINK_UP)
            return HK_TRANSPORT_AGAIN;
    }
    uint32_t offered = 0;
    hki_region *region = NULL;
    if ((transport->protocols & HK_TRANSPORT_MAP) != 0)
        region = hki_region_of(transport, memory, bytes);
    if (region != NULL) {
        give(link, region);
        offered |= HK_TRANSPORT_MAP;
    }
    if ((transport->protocols & HK_TRANSPORT_GET) != 0 && bytes >= transport->get_bytes &&
        atomic_load_explicit(&link->out.credit->get_refused, memory_order_relaxed) == 0)
        offered |= HK_TRANSPORT_GET;
    if (offered == 0)
        return HK_TRANSPORT_REFUSED;
    *protocols = offered;
    remote->word[0] = region != NULL ? region->id : 0;
    remote->word[1] = region != NULL ? (uint64_t)((uintptr_t)memory - (uintptr_t)region->base) : 0;
    remote->word[2] = (uintptr_t)memory;
    remote->word[3] = bytes;
    return HK_TRANSPORT_OK;
}

/* ---- the reader's side: maps ---- */

void hki_memory_received(hk_link *link, uint64_t id, size_t bytes, int fd)
{
    bool sound =
        id != 0 && bytes > 0 && bytes % HKI_PAGE == 0 && bytes <= SIZE_MAX / 4 && hki_memfd_sound(fd, bytes + HKI_PAGE);
    hki_mapping *mapping = sound ? calloc(1, sizeof *mapping + (bytes / HKI_PAGE / 64 + 1) * sizeof(uint64_t)) : NULL;
    void *base = mapping != NULL ? mmap(NULL, bytes + HKI_PAGE, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    close(fd);
    if (base == MAP_FAILED) {
        free(mapping);
        hki_shm_end(link, HK_LINK_LOST, "memory %llu of rank %d (%zu bytes) cannot be mapped: %s",
                    (unsigned long long)id, (int)link->peer.rank, bytes, sound ? strerror(errno) : "malformed");
        return;
    }
    (void)madvise(base, bytes + HKI_PAGE, MADV_DONTFORK);
    mapping->next = link->mappings;
    mapping->id = id;
    mapping->base = base;
    mapping->bytes = bytes;
    link->mappings = mapping;
}

static void mapping_release(hki_mapping *mapping)
{
    munmap(mapping->base, mapping->bytes + HKI_PAGE);
    free(mapping);
}

void hki_memory_sweep(hk_link *link)
{
    hki_mapping **at = &link->mappings;
    while (*at != NULL) {
        hki_mapping *mapping = *at;
        if (atomic_load_explicit(hki_freed_word(mapping->base, mapping->bytes), memory_order_acquire) == 0) {
            at = &mapping->next;
            continue;
        }
        *at = mapping->next;
        mapping_release(mapping);
    }
}

void hki_memory_release_link(hk_link *link)
{
    while (link->mappings != NULL) {
        hki_mapping *mapping = link->mappings;
        link->mappings = mapping->next;
        mapping_release(mapping);
    }
}

static hki_mapping *mapping_of(const hk_link *link, uint64_t id)
{
    for (hki_mapping *mapping = link->mappings; mapping != NULL; mapping = mapping->next)
        if (mapping->id == id)
            return mapping;
    return NULL;
}

/* Sets the bits of [first, end); returns whether all were set before. */
static bool mark(uint64_t *bits, size_t first, size_t end)
{
    bool all = true;
    while (first < end) {
        size_t low = first % 64, count = end - first < 64 - low ? end - first : 64 - low;
        uint64_t mask = (count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1) << low;
        all = all && (bits[first / 64] & mask) == mask;
        bits[first / 64] |= mask;
        first += count;
    }
    return all;
}

/* Faults pages in many at a time, before they are first read: one by one each costs about 7 µs. Only what the peer has
 * described: what lies between its pieces may not be allocated. */
static void populate(hki_mapping *mapping, size_t offset, size_t bytes)
{
    size_t first = offset / HKI_PAGE, end = (offset + bytes + HKI_PAGE - 1) / HKI_PAGE;
    if (!mark(mapping->seen, first, end))
        (void)madvise(mapping->base + first * HKI_PAGE, (end - first) * HKI_PAGE, MADV_POPULATE_READ);
}

hk_transport_result hki_shm_map(hk_link *link, const hk_remote *remote, size_t bytes, const void **memory)
{
    uint64_t id = remote->word[0], offset = remote->word[1];
    if (id == 0)
        return HK_TRANSPORT_REFUSED;
    hki_mapping *mapping = mapping_of(link, id);
    if (mapping == NULL) {
        hki_memory_sweep(link);
        hki_connect_progress(link->transport);
        mapping = mapping_of(link, id);
    }
    if (mapping == NULL)
        return link->state <= HK_LINK_UP ? HK_TRANSPORT_AGAIN : HK_TRANSPORT_LOST;
    if (offset > mapping->bytes || bytes > mapping->bytes - offset) {
        hki_shm_distrust(link, "rank %d described memory outside of what it shares", (int)link->peer.rank);
        return HK_TRANSPORT_LOST;
    }
    populate(mapping, offset, bytes);
    *memory = mapping->base + offset;
    link->transport->counts.maps++;
    link->transport->counts.map_bytes += bytes;
    return HK_TRANSPORT_OK;
}

/* ---- the reader's side: copies ---- */

/* Never asked for again on this pair; the peer sees it, and stops offering. */
static hk_transport_result refuse_get(hk_link *link, const char *why)
{
    const hk_transport_services *services = link->transport->services;
    link->get = HKI_GET_REFUSED;
    atomic_store_explicit(&link->in.credit->get_refused, 1, memory_order_relaxed);
    services->log(services->core, HK_LOG_INFO, "shm: process_vm_readv from rank %d (process %d) is not possible: %s",
                  (int)link->peer.rank, (int)link->peer.pid, why);
    return HK_TRANSPORT_REFUSED;
}

/* Copies one piece and, in the same call, the nonce: whatever process has this id now, it is the peer, or the copy is
 * not used. NULL, or why it did not work. */
static const char *copy_piece(hk_link *link, uint64_t address, void *destination, size_t bytes)
{
    const hki_control *control = hki_segment_control(&link->segment);
    uint64_t nonce = control->nonce, found = ~nonce;
    struct iovec local[2] = {{destination, bytes}, {&found, sizeof found}};
    struct iovec remote[2] = {{(void *)(uintptr_t)address, bytes},
                              {(void *)(uintptr_t)control->nonce_address, sizeof found}};
    ssize_t got = process_vm_readv(link->peer.pid, local, 2, remote, 2, 0);
    if (got < 0)
        return strerror(errno);
    if ((size_t)got != bytes + sizeof found)
        return "the copy was cut short";
    return found == nonce ? NULL : "the process is not the peer that it was";
}

hk_transport_result hki_shm_get(hk_link *link, const hk_remote *remote, uint64_t offset, void *destination,
                                size_t bytes)
{
    if (!link->readable)
        return link->state <= HK_LINK_UP ? HK_TRANSPORT_AGAIN : HK_TRANSPORT_LOST;
    if (link->get == HKI_GET_REFUSED)
        return HK_TRANSPORT_REFUSED;
    if (offset > remote->word[3] || bytes > remote->word[3] - offset)
        return HK_TRANSPORT_REFUSED;
    const char *why = NULL;
    if (link->get == HKI_GET_UNTRIED) {
        uint64_t nothing;
        why = copy_piece(link, remote->word[2], &nothing, 0);
        if (why != NULL)
            return refuse_get(link, why);
        link->get = HKI_GET_WORKS;
    }
    for (size_t done = 0; done < bytes && why == NULL;) {
        size_t piece = bytes - done < LARGEST_GET ? bytes - done : LARGEST_GET;
        why = copy_piece(link, remote->word[2] + offset + done, (char *)destination + done, piece);
        done += piece;
    }
    if (why != NULL)
        return refuse_get(link, why);
    link->transport->counts.gets++;
    link->transport->counts.get_bytes += bytes;
    return HK_TRANSPORT_OK;
}

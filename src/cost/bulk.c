#include "cost/bulk.h"

#include <stdlib.h>

#include "base/error.h"
#include "sched/model.h"

/* Ranks that may run anywhere are taken to have as much of a cache as the two by which that was measured. */
enum { WHOLE = 1024, UNKNOWN_SHARERS = 2 };

/* Of a buffer: parts of a vector that has as many as there are ranks, on the average of ranks. */
static uint64_t parts_of(const hki_promise *promise, unsigned buffer, uint32_t ranks)
{
    uint64_t on_one = promise->form[buffer] == HKI_FORM_OWN ? 1 : ranks;
    return promise->where[buffer] == HKI_ON_NONE ? 0 : promise->where[buffer] == HKI_ON_ROOT ? on_one / ranks : on_one;
}

uint64_t hki_bulk_data(hki_collective collective, uint32_t ranks, uint64_t bytes)
{
    const hki_promise *promise = hki_promise_of(collective);
    uint64_t parts = parts_of(promise, 0, ranks) + parts_of(promise, 1, ranks);
    unsigned __int128 data = (unsigned __int128)bytes * parts / ranks;
    return data > UINT64_MAX / 2 ? UINT64_MAX / 2 : (uint64_t)data;
}

/* Most ranks of one of a host's last caches. counts: room for as many as there are, all 0 for every host. */
static uint32_t most_of_a_cache(const hki_cluster *cluster, uint32_t caches, uint32_t *counts)
{
    uint32_t most = 1;
    for (uint32_t rank = 0; rank < cluster->rank_count; rank++) {
        const hki_seat *seat = &cluster->seats[rank];
        if (seat->l3 == HKI_TOPOLOGY_NO_CACHE)
            continue;
        uint32_t count = ++counts[(size_t)seat->host * caches + seat->l3];
        most = count > most ? count : most;
    }
    return most;
}

hk_status hki_bulk_sharers(const hki_cluster *cluster, uint32_t *sharers)
{
    uint32_t caches = 0;
    *sharers = 1;
    for (uint32_t rank = 0; rank < cluster->rank_count; rank++) {
        uint16_t l3 = cluster->seats[rank].l3;
        if (l3 != HKI_TOPOLOGY_NO_CACHE && l3 >= caches)
            caches = l3 + 1u;
        if (l3 == HKI_TOPOLOGY_NO_CACHE && cluster->hosts[cluster->seats[rank].host].ranks > 1)
            *sharers = UNKNOWN_SHARERS;
    }
    if (caches == 0)
        return HK_OK;
    uint32_t *counts = calloc((size_t)cluster->host_count * caches, sizeof *counts);
    if (!counts)
        return hki_error(HK_ERR_NO_MEMORY, "no memory to count ranks by caches");
    uint32_t most = most_of_a_cache(cluster, caches, counts);
    free(counts);
    *sharers = most > *sharers ? most : *sharers;
    return HK_OK;
}

uint32_t hki_bulk_part(const hki_bulk_figures *bulk, uint64_t data)
{
    if (bulk->full == 0 || data <= bulk->from)
        return 0;
    if (data >= bulk->full)
        return WHOLE;
    return (uint32_t)((unsigned __int128)(data - bulk->from) * WHOLE / (bulk->full - bulk->from));
}

static void add_to_link(hki_link_figures *link, uint32_t part)
{
    for (uint32_t i = 0; i < link->ranges; i++) {
        link->range[i].beta_ps += link->bulk.beta_ps * part / WHOLE;
        link->range[i].core_ps += link->bulk.core_ps * part / WHOLE;
    }
}

/* Of the links, the nearest whose ranks meet in memory tells how much of a copy's data caches hold. */
static uint32_t part_of_copies(const hki_figures *figures, uint64_t data)
{
    for (int link = HKI_LINK_CORE; link <= HKI_LINK_HOST; link++)
        if (figures->link[link].bulk.full)
            return hki_bulk_part(&figures->link[link].bulk, data);
    return 0;
}

const hki_figures *hki_bulk_figures_for(const hki_figures *figures, uint64_t data, hki_figures *room)
{
    uint32_t parts[HKI_LINK_CLASSES], copies = part_of_copies(figures, data), any = copies;
    for (int link = 0; link < HKI_LINK_CLASSES; link++)
        any |= parts[link] = hki_bulk_part(&figures->link[link].bulk, data);
    if (!any)
        return figures;
    *room = *figures;
    for (int link = 0; link < HKI_LINK_CLASSES; link++)
        add_to_link(&room->link[link], parts[link]);
    room->copy_ps += room->copy_bulk_ps * copies / WHOLE;
    room->copy_far_ps += room->copy_bulk_ps * copies / WHOLE;
    return room;
}

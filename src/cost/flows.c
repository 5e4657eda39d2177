#include "cost/flows.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum {
    PART_BITS = 20, /* of a byte that `left` counts */
    BLOCK = HKI_FLOW_BLOCK
};

static inline uint32_t blocks_of(uint32_t most)
{
    return most / BLOCK + 1;
}

static uint64_t full_ps(hki_resource resource, const hki_figures *figures)
{
    uint64_t rate = resource.rate;
    if (!rate && resource.kind == HKI_RESOURCE_MEMORY)
        rate = figures->memory_rate;
    if (!rate && (resource.kind == HKI_RESOURCE_NIC_OUT || resource.kind == HKI_RESOURCE_NIC_IN))
        rate = figures->nic_rate;
    return hki_rate_ps(rate);
}

/* Whether a resource can be in the way at all. */
static bool counts(hki_resource resource, const hki_figures *figures)
{
    bool nic = resource.kind == HKI_RESOURCE_NIC_OUT || resource.kind == HKI_RESOURCE_NIC_IN;
    return nic || full_ps(resource, figures) > 0;
}

static inline bool ends_before(const hki_flow_end *a, const hki_flow_end *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

/* What a flow that ends otherwise than before means to what is known of its block. */
static void set_end(hki_flows *flows, uint32_t slot, hki_flow_end end)
{
    uint32_t *first = &flows->first[slot / BLOCK];
    flows->ends[slot] = end;
    if (*first == slot)
        *first = UINT32_MAX;
    else if (*first != UINT32_MAX && ends_before(&end, &flows->ends[*first]))
        *first = slot;
    if (flows->soonest == slot)
        flows->soonest_known = false;
    else if (flows->soonest_known && (flows->soonest == UINT32_MAX || ends_before(&end, &flows->ends[flows->soonest])))
        flows->soonest = end.at == UINT64_MAX ? flows->soonest : slot;
}

hk_status hki_flows_open(hki_flows *flows, const hki_cluster *cluster, const hki_figures *figures, uint32_t most)
{
    uint32_t resources = hki_cluster_resources(cluster);
    *flows = (hki_flows){.cluster = cluster,
                         .shared = calloc((size_t)resources + 1, sizeof *flows->shared),
                         .shared_count = resources,
                         .flows = calloc((size_t)most + 1, sizeof *flows->flows),
                         .spare = malloc(((size_t)most + 1) * sizeof *flows->spare),
                         .dirty = malloc(((size_t)most + 1) * sizeof *flows->dirty),
                         .ends = malloc((size_t)blocks_of(most) * BLOCK * sizeof *flows->ends),
                         .first = malloc(blocks_of(most) * sizeof *flows->first),
                         .capacity = most};
    if (!flows->shared || !flows->flows || !flows->spare || !flows->dirty || !flows->ends || !flows->first) {
        hki_flows_close(flows);
        return hki_error(HK_ERR_NO_MEMORY, "no memory to price flows among %u ranks", cluster->rank_count);
    }
    for (uint32_t i = 0; i < resources; i++) {
        hki_resource resource = hki_cluster_resource(cluster, i);
        flows->shared[i].full_ps = counts(resource, figures) ? full_ps(resource, figures) : UINT64_MAX;
    }
    hki_flows_reset(flows);
    return HK_OK;
}

void hki_flows_reset(hki_flows *flows)
{
    uint32_t most = flows->capacity;
    for (uint32_t i = 0; i < most; i++)
        flows->spare[i] = most - 1 - i;
    flows->spare_count = most;
    for (uint32_t i = 0; i < flows->used; i++)
        flows->flows[i].dirty = false;
    flows->dirty_count = flows->used = 0;
    for (uint32_t i = 0; i < blocks_of(most) * BLOCK; i++)
        flows->ends[i] = (hki_flow_end){.at = UINT64_MAX};
    for (uint32_t i = 0; i < blocks_of(most); i++)
        flows->first[i] = i * BLOCK;
    for (uint32_t i = 0; i < flows->shared_count; i++) {
        flows->shared[i].count = 0;
        flows->shared[i].least_ps = UINT64_MAX;
    }
    flows->soonest_known = false;
}

void hki_flows_close(hki_flows *flows)
{
    for (uint32_t i = 0; flows->shared && i < flows->shared_count; i++)
        free(flows->shared[i].flows);
    free(flows->shared);
    free(flows->flows);
    free(flows->spare);
    free(flows->dirty);
    free(flows->ends);
    free(flows->first);
    *flows = (hki_flows){0};
}

static void mark(hki_flows *flows, uint32_t slot)
{
    if (!flows->flows[slot].dirty)
        flows->dirty[flows->dirty_count++] = slot;
    flows->flows[slot].dirty = true;
}

/* All that pass a resource are to be looked at, unless so many do not get in each other's way there. */
static void mark_all(hki_flows *flows, const hki_shared *shared, uint32_t passing)
{
    bool limits = shared->full_ps ? passing * shared->full_ps > shared->least_ps : passing > 1;
    for (uint32_t i = 0; limits && i < shared->count; i++)
        mark(flows, shared->flows[i]);
}

static bool enter(hki_flows *flows, hki_flow *flow, uint32_t slot, uint32_t resource)
{
    hki_shared *shared = &flows->shared[resource];
    if (shared->full_ps == UINT64_MAX)
        return true;
    if (shared->count == shared->capacity) {
        uint32_t capacity = 2 * shared->capacity + 8;
        uint32_t *grown = realloc(shared->flows, capacity * sizeof *grown);
        if (!grown)
            return false;
        shared->flows = grown;
        shared->capacity = capacity;
    }
    flow->resources[flow->resource_count] = resource;
    flow->places[flow->resource_count++] = shared->count;
    shared->flows[shared->count++] = slot;
    if (flow->own_ps < shared->least_ps)
        shared->least_ps = flow->own_ps;
    mark_all(flows, shared, shared->count);
    mark(flows, slot);
    return true;
}

static void leave(hki_flows *flows, const hki_flow *flow, uint32_t which)
{
    uint32_t resource = flow->resources[which], place = flow->places[which];
    hki_shared *shared = &flows->shared[resource];
    uint32_t moved = shared->flows[--shared->count];
    shared->flows[place] = moved;
    hki_flow *other = &flows->flows[moved];
    for (uint32_t i = 0; i < other->resource_count; i++)
        if (other->resources[i] == resource)
            other->places[i] = place;
    mark_all(flows, shared, shared->count + 1);
}

uint32_t hki_flows_start(hki_flows *flows, uint32_t from, uint32_t to, uint64_t bytes, uint64_t own_ps, uint64_t begin,
                         uint32_t owner)
{
    uint32_t route[HKI_ROUTE_MOST];
    uint64_t hops;
    if (flows->spare_count == 0)
        return UINT32_MAX;
    uint32_t slot = flows->spare[--flows->spare_count];
    if (slot >= flows->used)
        flows->used = slot + 1;
    hki_flow *flow = &flows->flows[slot];
    *flow =
        (hki_flow){.left = bytes << PART_BITS, .since = begin, .own_ps = own_ps, .owner = owner, .dirty = flow->dirty};
    uint32_t count = hki_cluster_route(flows->cluster, from, to, route, &hops);
    for (uint32_t i = 0; i < count; i++)
        if (!enter(flows, flow, slot, flows->instead ? flows->instead[route[i]] : route[i]))
            return UINT32_MAX;
    mark(flows, slot);
    return slot;
}

void hki_flows_end(hki_flows *flows, uint32_t slot)
{
    hki_flow *flow = &flows->flows[slot];
    for (uint32_t i = 0; i < flow->resource_count; i++)
        leave(flows, flow, i);
    flow->resource_count = 0;
    flow->owner = UINT32_MAX;
    set_end(flows, slot, (hki_flow_end){.at = UINT64_MAX});
    flows->spare[flows->spare_count++] = slot;
}

static uint64_t pace_of(const hki_flows *flows, const hki_flow *flow)
{
    uint64_t pace = flow->own_ps;
    for (uint32_t i = 0; i < flow->resource_count; i++) {
        const hki_shared *shared = &flows->shared[flow->resources[i]];
        uint64_t share = shared->count * (shared->full_ps ? shared->full_ps : flow->own_ps);
        pace = share > pace ? share : pace;
    }
    return pace;
}

/* What has passed by now at the pace so far no longer counts. */
static void settle(hki_flow *flow, uint64_t now)
{
    if (now <= flow->since)
        return;
    unsigned __int128 passed = (unsigned __int128)(now - flow->since) << (PART_BITS + 10);
    uint64_t units = flow->pace_ps ? (uint64_t)(passed / flow->pace_ps) : flow->left;
    flow->left -= units < flow->left ? units : flow->left;
    flow->since = now;
}

void hki_flows_settle(hki_flows *flows, uint64_t now, uint64_t *order)
{
    while (flows->dirty_count) {
        uint32_t slot = flows->dirty[--flows->dirty_count];
        hki_flow *flow = &flows->flows[slot];
        flow->dirty = false;
        if (flow->owner == UINT32_MAX)
            continue;
        uint64_t pace = pace_of(flows, flow);
        if (flow->pace_ps == pace)
            continue;
        if (flow->pace_ps)
            settle(flow, now);
        flow->pace_ps = pace;
        uint64_t end = flow->since + (uint64_t)(((unsigned __int128)flow->left * pace) >> (PART_BITS + 10));
        set_end(flows, slot, (hki_flow_end){end > now ? end : now, (*order)++});
    }
}

static uint32_t first_of_block(const hki_flows *flows, uint32_t block)
{
    uint32_t first = block * BLOCK;
    for (uint32_t slot = first + 1; slot < (block + 1) * BLOCK; slot++)
        if (ends_before(&flows->ends[slot], &flows->ends[first]))
            first = slot;
    return first;
}

uint32_t hki_flows_first(hki_flows *flows)
{
    if (flows->soonest_known)
        return flows->soonest;
    uint32_t first = 0;
    for (uint32_t block = 0; block * BLOCK < flows->used || block == 0; block++) {
        if (flows->first[block] == UINT32_MAX)
            flows->first[block] = first_of_block(flows, block);
        if (block == 0 || ends_before(&flows->ends[flows->first[block]], &flows->ends[first]))
            first = flows->first[block];
    }
    flows->soonest = flows->ends[first].at == UINT64_MAX ? UINT32_MAX : first;
    flows->soonest_known = true;
    return flows->soonest;
}

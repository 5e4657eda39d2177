#include "sim/flows.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "sched/intervals.h"

static const double ps_a_second = 1e12;

/* ---- resources ---- */

/* Bytes a picosecond of the fastest link of classes first … last; infinite where bytes take no time. */
static double fastest_link(const hki_figures *figures, hki_link_class first, hki_link_class last)
{
    double fastest = 0;
    for (unsigned link = first; link <= last; link++)
        for (uint32_t i = 0; i < figures->link[link].ranges; i++) {
            uint64_t beta = figures->link[link].range[i].beta_ps;
            fastest = fmax(fastest, beta ? 1024.0 / (double)beta : INFINITY);
        }
    return fastest;
}

/* No fewer than can pass a resource at once: a rank sends one message at a time, and receives one. */
static double most_flows(const hki_cluster *cluster, const hki_resource *resource)
{
    bool nic = resource->kind == HKI_RESOURCE_NIC_OUT || resource->kind == HKI_RESOURCE_NIC_IN;
    return nic ? cluster->hosts[resource->index].ranks : cluster->rank_count;
}

static void open_resource(const hki_model *model, uint32_t number, hki_sim_resource *made)
{
    const hki_figures *figures = model->figures;
    hki_resource resource = hki_cluster_resource(model->cluster, number);
    bool memory = resource.kind == HKI_RESOURCE_MEMORY;
    bool nic = resource.kind == HKI_RESOURCE_NIC_OUT || resource.kind == HKI_RESOURCE_NIC_IN;
    uint64_t rate = resource.rate ? resource.rate : memory ? figures->memory_rate : nic ? figures->nic_rate : 0;
    made->rate = (double)rate / ps_a_second;
    made->fastest = !rate    ? INFINITY
                    : memory ? fastest_link(figures, HKI_LINK_CORE, HKI_LINK_LOOPBACK)
                             : fastest_link(figures, HKI_LINK_TCP, HKI_LINK_VERBS);
    made->share = INFINITY;
    made->limits = rate ? made->rate < made->fastest * most_flows(model->cluster, &resource) : nic;
}

hk_status hki_sim_flows_open(const hki_model *model, hki_sim_flows *flows)
{
    uint32_t ranks = model->cluster->rank_count;
    *flows = (hki_sim_flows){.resource_count = hki_cluster_resources(model->cluster)};
    flows->resources = calloc(flows->resource_count, sizeof *flows->resources);
    flows->flows = calloc(ranks, sizeof *flows->flows);
    flows->heap = malloc(ranks * sizeof *flows->heap);
    flows->stale = malloc(ranks * sizeof *flows->stale);
    flows->dirty = malloc(flows->resource_count * sizeof *flows->dirty);
    if (!flows->resources || !flows->flows || !flows->heap || !flows->stale || !flows->dirty) {
        hki_sim_flows_close(flows);
        return hki_error(HK_ERR_NO_MEMORY, "no memory for the shared links of %u ranks", ranks);
    }
    for (uint32_t i = 0; i < flows->resource_count; i++) {
        open_resource(model, i, &flows->resources[i]);
        flows->limits = flows->limits || flows->resources[i].limits;
    }
    return HK_OK;
}

void hki_sim_flows_close(hki_sim_flows *flows)
{
    for (uint32_t i = 0; flows->resources && i < flows->resource_count; i++)
        free(flows->resources[i].flows);
    free(flows->resources);
    free(flows->flows);
    free(flows->heap);
    free(flows->stale);
    free(flows->dirty);
    *flows = (hki_sim_flows){0};
}

bool hki_sim_flows_matter(const hki_sim_flows *flows, const uint32_t *resources, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (flows->resources[resources[i]].limits)
            return true;
    return false;
}

/* ---- the heap: flows by end, then by rank ---- */

static bool before(const hki_sim_flows *flows, uint32_t left, uint32_t right)
{
    uint64_t a = flows->flows[left].end, b = flows->flows[right].end;
    return a != b ? a < b : left < right;
}

static void put(hki_sim_flows *flows, uint32_t at, uint32_t rank)
{
    flows->heap[at] = rank;
    flows->flows[rank].heap = at;
}

static void sift_up(hki_sim_flows *flows, uint32_t rank)
{
    uint32_t at = flows->flows[rank].heap;
    while (at > 0 && before(flows, rank, flows->heap[(at - 1) / 2])) {
        put(flows, at, flows->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put(flows, at, rank);
}

static void sift_down(hki_sim_flows *flows, uint32_t rank)
{
    uint32_t at = flows->flows[rank].heap;
    while (2 * at + 1 < flows->heap_count) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < flows->heap_count && before(flows, flows->heap[child + 1], flows->heap[child]))
            child++;
        if (!before(flows, flows->heap[child], rank))
            break;
        put(flows, at, flows->heap[child]);
        at = child;
    }
    put(flows, at, rank);
}

/* ---- flows ---- */

static void mark_dirty(hki_sim_flows *flows, uint32_t resource)
{
    if (!flows->resources[resource].dirty)
        flows->dirty[flows->dirty_count++] = resource;
    flows->resources[resource].dirty = true;
}

static void mark_stale(hki_sim_flows *flows, uint32_t rank)
{
    if (!flows->flows[rank].stale)
        flows->stale[flows->stale_count++] = rank;
    flows->flows[rank].stale = true;
}

static bool join(hki_sim_flows *flows, uint32_t rank, uint32_t number, uint64_t now)
{
    hki_sim_resource *resource = &flows->resources[number];
    hki_sim_flow *flow = &flows->flows[rank];
    uint32_t *members = hki_grow(resource->flows, &resource->capacity, resource->count + UINT64_C(1), sizeof *members);
    if (!members)
        return false;
    resource->flows = members;
    flow->resource[flow->count] = number;
    flow->place[flow->count++] = resource->count;
    if (resource->count == 0)
        resource->busy_since = now;
    members[resource->count++] = rank;
    if (resource->most < resource->count)
        resource->most = resource->count;
    mark_dirty(flows, number);
    return true;
}

static void leave(hki_sim_flows *flows, const hki_sim_flow *flow, uint32_t i, uint64_t now)
{
    hki_sim_resource *resource = &flows->resources[flow->resource[i]];
    uint32_t last = resource->flows[--resource->count];
    resource->flows[flow->place[i]] = last;
    if (resource->count == 0)
        resource->busy_ps += now - resource->busy_since;
    hki_sim_flow *moved = &flows->flows[last];
    for (uint32_t k = 0; k < moved->count; k++)
        if (moved->resource[k] == flow->resource[i])
            moved->place[k] = flow->place[i];
    mark_dirty(flows, flow->resource[i]);
}

bool hki_sim_flows_begin(hki_sim_flows *flows, uint32_t rank, uint64_t now, uint64_t bytes, uint64_t ps,
                         const uint32_t *resources, uint32_t count)
{
    hki_sim_flow *flow = &flows->flows[rank];
    double work = ps ? (double)ps : 1; /* bytes that take no time by themselves: only the resource matters */
    *flow = (hki_sim_flow){
        .left = work, .work = work, .bytes = (double)bytes, .settled = now, .end = UINT64_MAX, .stale = flow->stale};
    for (uint32_t i = 0; i < count; i++)
        if (flows->resources[resources[i]].limits && !join(flows, rank, resources[i], now))
            return false;
    flow->heap = flows->heap_count++;
    sift_up(flows, rank);
    mark_stale(flows, rank);
    return true;
}

/* The speed that the shares of its resources allow. */
static double allowed_speed(const hki_sim_flows *flows, const hki_sim_flow *flow)
{
    double speed = 1;
    for (uint32_t i = 0; i < flow->count; i++) {
        const hki_sim_resource *resource = &flows->resources[flow->resource[i]];
        speed = fmin(speed, resource->rate > 0 ? resource->share * flow->work / flow->bytes : resource->share);
    }
    return speed;
}

static void work_out(hki_sim_flows *flows, uint32_t rank, uint64_t now)
{
    hki_sim_flow *flow = &flows->flows[rank];
    double speed = allowed_speed(flows, flow);
    flow->stale = false;
    if (speed == flow->speed)
        return;
    flow->left -= flow->speed * (double)(now - flow->settled);
    flow->settled = now;
    flow->speed = speed;
    uint64_t end = now + (uint64_t)llround(fmax(flow->left, 0) / speed);
    bool earlier = end < flow->end;
    flow->end = end;
    if (earlier)
        sift_up(flows, rank);
    else
        sift_down(flows, rank);
}

/* The share that its flows have now; whoever it may slow down or speed up is to be worked out. */
static void share_out(hki_sim_flows *flows, hki_sim_resource *resource)
{
    double share = INFINITY;
    if (resource->count)
        share = (resource->rate > 0 ? resource->rate : 1) / resource->count;
    bool matters = share != resource->share && fmin(share, resource->share) < resource->fastest;
    resource->share = share;
    resource->dirty = false;
    for (uint32_t i = 0; matters && i < resource->count; i++)
        mark_stale(flows, resource->flows[i]);
}

void hki_sim_flows_settle(hki_sim_flows *flows, uint64_t now)
{
    for (uint32_t i = 0; i < flows->dirty_count; i++)
        share_out(flows, &flows->resources[flows->dirty[i]]);
    flows->dirty_count = 0;
    for (uint32_t i = 0; i < flows->stale_count; i++)
        if (flows->flows[flows->stale[i]].count)
            work_out(flows, flows->stale[i], now);
        else
            flows->flows[flows->stale[i]].stale = false;
    flows->stale_count = 0;
}

uint64_t hki_sim_flows_next(const hki_sim_flows *flows)
{
    return flows->heap_count ? flows->flows[flows->heap[0]].end : UINT64_MAX;
}

uint32_t hki_sim_flows_end(hki_sim_flows *flows, uint64_t now)
{
    uint32_t rank = flows->heap[0], last = flows->heap[--flows->heap_count];
    if (last != rank) {
        flows->flows[last].heap = 0;
        sift_down(flows, last);
    }
    hki_sim_flow *flow = &flows->flows[rank];
    for (uint32_t i = 0; i < flow->count; i++)
        leave(flows, flow, i, now);
    flow->count = 0;
    return rank;
}

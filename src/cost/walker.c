/* The memory of walks, and their beginning. */
#include <stdlib.h>

#include "base/error.h"
#include "cost/walk_state.h"

struct hki_walker {
    const hki_cluster *cluster;
    const hki_figures *figures;
    step_state *steps;
    rank_state *ranks;
    hki_crowding *crowded;
    uint32_t *turns;
    uint32_t step_capacity, rank_capacity;
    hki_events events;
    hki_flows flows; /* of so many ranks; 0: not yet opened */
};

hk_status hki_walker_new(const hki_cluster *cluster, const hki_figures *figures, hki_walker **walker)
{
    hki_walker *made = calloc(1, sizeof *made);
    if (!made)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for prices");
    made->cluster = cluster;
    made->figures = figures;
    *walker = made;
    return HK_OK;
}

void hki_walker_free(hki_walker *walker)
{
    if (!walker)
        return;
    hki_flows_close(&walker->flows);
    hki_events_free(&walker->events);
    free(walker->steps);
    free(walker->ranks);
    free(walker->crowded);
    free(walker->turns);
    free(walker);
}

/* ---- the beginning of a walk ---- */

/* Of every rank; where some stand for all, the host that is most crowded counts. */
static void find_crowding(walk *w)
{
    const hki_cluster *cluster = w->model->cluster;
    hki_crowding worst = {.capacity = 1};
    for (uint32_t host = 0; w->paths && host < cluster->host_count; host++) {
        hki_crowding crowd = hki_crowding_of(w->model, host);
        if (crowd.ranks * worst.capacity > worst.ranks * crowd.capacity)
            worst = crowd;
    }
    for (uint32_t i = 0; i < w->traces->count; i++)
        w->crowded[i] = w->paths ? worst : hki_crowding_of(w->model, cluster->seats[w->traces->rank[i]].host);
}

/* Range, pace and latency of a message. */
static void look_up(walk *w, uint32_t send)
{
    const hki_trace_step *step = &w->traces->steps[send];
    step_state *state = &w->steps[send];
    uint32_t from = w->traces->rank[step->rank], route[HKI_ROUTE_MOST];
    hki_link_class link;
    if (w->paths) {
        link = w->paths[send].link;
        state->hops_ps = w->paths[send].hops_ps;
    } else {
        link = hki_cluster_link(w->model->cluster, from, step->peer);
        hki_cluster_route(w->model->cluster, from, step->peer, route, &state->hops_ps);
    }
    state->range = hki_figures_range(&w->model->figures->link[link], w->bytes[send]);
    state->beta_ps = state->range->beta_ps ? state->range->beta_ps : 1;
    state->alone_ps = hki_bytes_ps(w->bytes[send], state->beta_ps);
}

/* Every step behind a RECV of its rank waits for one more. */
static void put_in_order(walk *w)
{
    const hki_traces *traces = w->traces;
    if (w->model->cluster->host_count > 1)
        return;
    for (uint32_t i = 0; i < hki_traces_steps(traces); i++)
        if (traces->steps[i].verb == HKI_VERB_SEND && w->steps[i].range->rendezvous)
            return;
    w->in_order = true;
    for (uint32_t rank = 0; rank < traces->count; rank++) {
        bool behind = false;
        for (uint32_t i = traces->first[rank]; i < traces->first[rank + 1]; i++) {
            w->steps[i].waits += behind;
            behind = behind || receives(&traces->steps[i]);
        }
    }
}

static hk_status make_room(hki_walker *walker, uint32_t steps, uint32_t ranks)
{
    if (steps > walker->step_capacity) {
        free(walker->steps);
        walker->steps = malloc(steps * sizeof *walker->steps);
        walker->step_capacity = walker->steps ? steps : 0;
    }
    if (ranks > walker->rank_capacity) {
        free(walker->ranks);
        free(walker->crowded);
        free(walker->turns);
        walker->ranks = malloc(ranks * sizeof *walker->ranks);
        walker->crowded = malloc(ranks * sizeof *walker->crowded);
        walker->turns = malloc(2 * (size_t)ranks * sizeof *walker->turns);
        walker->rank_capacity = walker->ranks && walker->crowded && walker->turns ? ranks : 0;
    }
    return walker->step_capacity >= steps && walker->rank_capacity >= ranks
               ? HK_OK
               : hki_error(HK_ERR_NO_MEMORY, "no memory to price a schedule of %u steps", steps);
}

static hk_status open_flows(hki_walker *walker, uint32_t ranks)
{
    if (walker->flows.capacity >= ranks) {
        hki_flows_reset(&walker->flows);
        return HK_OK;
    }
    hki_flows_close(&walker->flows);
    return hki_flows_open(&walker->flows, walker->cluster, walker->figures, ranks);
}

hk_status hki_walk_open(hki_walker *walker, walk *w)
{
    const hki_traces *traces = w->traces;
    const list empty = {NONE, NONE};
    uint32_t steps = hki_traces_steps(traces);
    HK_TRY(make_room(walker, steps, traces->count));
    if (!w->paths)
        HK_TRY(open_flows(walker, traces->count));
    w->steps = walker->steps;
    w->ranks = walker->ranks;
    w->crowded = walker->crowded;
    w->turns[0] = walker->turns;
    w->turns[1] = walker->turns + traces->count;
    w->events = &walker->events;
    w->flows = &walker->flows;
    w->flows->instead = w->instead;
    hki_events_clear(w->events);
    for (uint32_t i = 0; i < steps; i++)
        w->steps[i] = (step_state){.waits = traces->steps[i].waits, .flow = NONE};
    for (uint32_t i = 0; i < traces->count; i++)
        w->ranks[i] = (rank_state){.sends = empty, .waiting = empty, .held = empty};
    for (uint32_t i = 0; i < steps; i++)
        if (traces->steps[i].verb == HKI_VERB_SEND)
            look_up(w, i);
    find_crowding(w);
    put_in_order(w);
    return HK_OK;
}

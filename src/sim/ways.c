/* Who may send: every rank has one way out and one way in, and shares what lies between. */
#include "sim/engine_internal.h"

/* ---- lists of steps ---- */

static void append(engine *run, list *to, uint32_t step)
{
    run->steps[step].next = NONE;
    run->steps[step].previous = to->tail;
    if (to->tail == NONE)
        to->head = step;
    else
        run->steps[to->tail].next = step;
    to->tail = step;
}

static void take_out(engine *run, list *from, uint32_t step)
{
    uint32_t next = run->steps[step].next, previous = run->steps[step].previous;
    if (previous == NONE)
        from->head = next;
    else
        run->steps[previous].next = next;
    if (next == NONE)
        from->tail = previous;
    else
        run->steps[next].previous = previous;
}

/* What the message passes; returns how many resources. */
static uint32_t route(const engine *run, uint32_t send, uint32_t *resources)
{
    uint64_t hops_ps;
    if (!run->routes)
        return 0;
    return hki_cluster_route(run->sim->model.cluster, own_rank(run, send), run->steps[send].peer, resources, &hops_ps);
}

static void count_load(engine *run, uint32_t send, const uint32_t *resources, uint32_t count)
{
    uint64_t bytes = run->sim->world.works[run->steps[send].work].bytes;
    for (uint32_t i = 0; run->sim->loads && i < count; i++)
        run->sim->loads[resources[i]].bytes += bytes;
}

/* The core of one end moves the message, if it has to. */
static void move(engine *run, uint32_t rank, uint32_t step, uint64_t core_ps)
{
    if (core_ps) {
        hki_sim_job_add(run, rank, step, MOVE);
        return;
    }
    times_of(run, step)->core = run->now;
    hki_sim_seen(run, rank, step);
}

/* Both ways are the message's. */
static void flows(engine *run, uint32_t send)
{
    uint32_t to = run->steps[send].peer, resources[HKI_ROUTE_MOST];
    const hki_sim_message_cost *cost = cost_of(run, send);
    run->ranks[to].receiving = send;
    uint32_t count = route(run, send, resources);
    count_load(run, send, resources, count);
    bool shared =
        run->sim->world.works[run->steps[send].work].bytes > 0 && hki_sim_flows_matter(&run->flows, resources, count);
    if (shared)
        at(run, run->now + cost->overhead_ps, BEGINS, send);
    else
        at(run, run->now + cost->overhead_ps + cost->bytes_ps, FLOWN, send);
    move(run, to, run->steps[send].match, cost->core_ps);
}

static void leaves(engine *run, uint32_t send)
{
    uint32_t receive = run->steps[send].match, from = run->steps[receive].peer, to = run->steps[send].peer;
    const hki_sim_message_cost *cost = cost_of(run, send);
    times_of(run, send)->moved = run->now;
    take_out(run, &run->ranks[from].leaving, send);
    run->ranks[from].sending = send;
    move(run, from, send, cost->core_ps);
    if (cost->rendezvous)
        take_out(run, &run->ranks[to].coming, receive);
    if (run->ranks[to].receiving == NONE) {
        flows(run, send);
        return;
    }
    run->steps[send].state |= HELD;
    append(run, &run->ranks[to].held, send);
    at(run, run->now + cost->overhead_ps + cost->bytes_ps, OUT_FREE, send);
}

void hki_sim_on_begins(engine *run, uint32_t send)
{
    uint32_t resources[HKI_ROUTE_MOST];
    uint64_t bytes = run->sim->world.works[run->steps[send].work].bytes;
    uint32_t count = route(run, send, resources);
    if (!hki_sim_flows_begin(&run->flows, run->steps[send].peer, run->now, bytes, cost_of(run, send)->bytes_ps,
                             resources, count))
        run->no_memory = true;
}

void hki_sim_on_out_free(engine *run, uint32_t send)
{
    uint32_t from = own_rank(run, send);
    times_of(run, send)->last = run->now;
    run->ranks[from].sending = NONE;
    note_out(run, from);
    if (!cost_of(run, send)->rendezvous)
        hki_sim_gone(run, from, send);
}

void hki_sim_on_flown(engine *run, uint32_t send)
{
    uint32_t to = run->steps[send].peer;
    uint64_t later = latency(run, send);
    run->ranks[to].receiving = NONE;
    note_in(run, to);
    if (!is(run, send, HELD))
        hki_sim_on_out_free(run, send);
    if (later)
        at(run, run->now + later, ARRIVES, send);
    else
        hki_sim_arrives(run, send);
}

/* ---- who is next ---- */

void hki_sim_wants_out(engine *run, uint32_t rank, uint32_t send)
{
    append(run, &run->ranks[rank].leaving, send);
    note_out(run, rank);
}

/* One that must ask waits in the receiver's list as well, once both have made their steps. */
void hki_sim_agree(engine *run, uint32_t send)
{
    append(run, &run->ranks[run->steps[send].peer].coming, run->steps[send].match);
    note_in(run, run->steps[send].peer);
}

/* Whether a message of the sender's list may leave: it need not ask, or the receiver agrees. */
static bool may_leave(const engine *run, uint32_t send)
{
    if (!cost_of(run, send)->rendezvous)
        return true;
    return is(run, run->steps[send].match, MADE) && run->ranks[run->steps[send].peer].receiving == NONE;
}

static void use_way_out(engine *run, uint32_t rank)
{
    const rank_state *state = &run->ranks[rank];
    for (uint32_t send = state->leaving.head; send != NONE && state->sending == NONE; send = run->steps[send].next)
        if (may_leave(run, send)) {
            leaves(run, send);
            return;
        }
}

static void use_way_in(engine *run, uint32_t rank)
{
    rank_state *state = &run->ranks[rank];
    if (state->receiving != NONE)
        return;
    uint32_t send = state->held.head;
    if (send != NONE) {
        take_out(run, &state->held, send);
        flows(run, send);
        return;
    }
    for (uint32_t receive = state->coming.head; receive != NONE; receive = run->steps[receive].next)
        if (run->ranks[run->steps[receive].peer].sending == NONE) {
            leaves(run, run->steps[receive].match);
            return;
        }
}

/* Those who were kept waiting in a way in come first; then senders choose, then receivers. */
void hki_sim_use_ways(engine *run)
{
    for (uint32_t i = 0; i < run->in_count; i++)
        if (run->ranks[run->in_notes[i]].held.head != NONE)
            use_way_in(run, run->in_notes[i]);
    for (uint32_t i = 0; i < run->out_count; i++) {
        run->ranks[run->out_notes[i]].out_noted = false;
        use_way_out(run, run->out_notes[i]);
    }
    for (uint32_t i = 0; i < run->in_count; i++) {
        run->ranks[run->in_notes[i]].in_noted = false;
        use_way_in(run, run->in_notes[i]);
    }
    run->out_count = run->in_count = 0;
}

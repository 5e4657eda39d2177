/*
 * The event loop. A rank posts its messages one after another, and beside that its core does one job after
 * another: it moves bytes, copies, reduces. Messages that can leave wait in two lists, the sender's and, where the
 * receiver must agree, the receiver's, for both ways to be free. What is to be worked out after all events of one time
 * (who leaves next, who shares what) is noted and done then, so that the order of simultaneous events matters little.
 */
#include "sim/engine.h"

#include <stdlib.h>

#include "base/error.h"
#include "sched/intervals.h"
#include "sim/flows.h"
#include "sim/queue.h"

enum { NONE = HKI_SIM_NO_STEP };
enum { MADE = HKI_SIM_MADE, GONE = HKI_SIM_GONE, MOVED = HKI_SIM_MOVED, HELD = HKI_SIM_HELD };

/* Kinds of events; each has a step, or a rank. */
typedef enum event_kind {
    POSTED,   /* rank: the message's step that it was making */
    JOB_DONE, /* rank: its core's job */
    BEGINS,   /* SEND: its bytes begin to pass what is shared */
    FLOWN,    /* SEND: they have passed; the way in is free again, and that out if it waited for the receiver's */
    OUT_FREE, /* SEND that the receiver holds up: the way out is free again */
    ARRIVES,  /* SEND: is at the receiver */
    SEEN,     /* RECV: its core has moved it, and sees the last byte */
    KINDS
} event_kind;

typedef struct list {
    uint32_t head, tail;
} list;

/* What a rank has to do: make a step (of messages: post it), move a message's bytes, reduce what has arrived. */
typedef enum job_kind { MAKE, MOVE, REDUCE } job_kind;

typedef struct job {
    uint32_t step, next;
    job_kind kind;
} job;

typedef struct rank_state {
    list posts;         /* messages' steps to be made, the first being made; numbers of jobs */
    list jobs;          /* of its core, likewise: beside posting it moves, copies and reduces */
    list leaving;       /* SENDs that are made and have not left */
    list coming;        /* RECVs of messages that ask first, both ends made */
    list held;          /* SENDs to here that have left without asking */
    uint32_t sending;   /* the SEND that uses the way out, or NONE */
    uint32_t receiving; /* the SEND that uses the way in, or NONE */
    bool out_noted, in_noted;
} rank_state;

typedef struct engine {
    hki_sim *sim;
    hki_sim_step *steps;
    rank_state *ranks;
    job *jobs;
    uint32_t job_count, job_capacity, free_job;
    hki_sim_queue queue;
    hki_sim_flows flows;
    uint64_t now;
    uint32_t completed;
    uint32_t *out_notes, out_count; /* ranks one of whose ways has become free, or has a new message */
    uint32_t *in_notes, in_count;
    bool routes; /* must be looked up for each message */
    bool no_memory;
} engine;

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

/* ---- events and notes ---- */

static void at(engine *run, uint64_t ps, event_kind kind, uint32_t subject)
{
    if (!hki_sim_queue_add(&run->queue, (hki_sim_event){ps, (uint64_t)subject * KINDS + kind}))
        run->no_memory = true;
}

static void note_out(engine *run, uint32_t rank)
{
    if (!run->ranks[rank].out_noted)
        run->out_notes[run->out_count++] = rank;
    run->ranks[rank].out_noted = true;
}

static void note_in(engine *run, uint32_t rank)
{
    if (!run->ranks[rank].in_noted)
        run->in_notes[run->in_count++] = rank;
    run->ranks[rank].in_noted = true;
}

static hki_sim_times *times_of(const engine *run, uint32_t step)
{
    static _Thread_local hki_sim_times nobody;
    return run->sim->times ? &run->sim->times[step] : &nobody;
}

/* The rank whose step a message's is. */
static uint32_t own_rank(const engine *run, uint32_t step)
{
    return run->steps[run->steps[step].match].peer;
}

/* Of a message, at either of its ends. */
static const hki_sim_message_cost *cost_of(const engine *run, uint32_t step)
{
    return hki_sim_message(&run->sim->costs, &run->steps[step]);
}

/* ---- jobs ---- */

static uint32_t new_job(engine *run)
{
    uint32_t number = run->free_job;
    if (number != NONE) {
        run->free_job = run->jobs[number].next;
        return number;
    }
    job *jobs = hki_grow(run->jobs, &run->job_capacity, run->job_count + UINT64_C(1), sizeof *jobs);
    if (!jobs) {
        run->no_memory = true;
        return NONE;
    }
    run->jobs = jobs;
    return run->job_count++;
}

/* Begins with the first job of a list. */
static void start_job(engine *run, uint32_t rank, const list *jobs)
{
    const hki_sim_costs *costs = &run->sim->costs;
    const job *first = &run->jobs[jobs->head];
    const hki_sim_step *step = &run->steps[first->step];
    uint64_t ps = 0;
    if (first->kind == MAKE)
        ps = hki_sim_make_ps(costs, rank, step);
    else if (first->kind == REDUCE)
        ps = hki_sim_reduce_ps(costs, rank, step);
    else
        ps = hki_sim_move_ps(costs, rank, hki_sim_message(costs, step));
    at(run, run->now + ps, jobs == &run->ranks[rank].posts ? POSTED : JOB_DONE, rank);
}

static void add_job(engine *run, uint32_t rank, uint32_t step, job_kind kind)
{
    bool posts = kind == MAKE && hki_sim_is_message(&run->steps[step]);
    list *jobs = posts ? &run->ranks[rank].posts : &run->ranks[rank].jobs;
    uint32_t number = new_job(run);
    if (number == NONE)
        return;
    run->jobs[number] = (job){step, NONE, kind};
    if (jobs->tail != NONE)
        run->jobs[jobs->tail].next = number;
    jobs->tail = number;
    if (jobs->head != NONE)
        return;
    jobs->head = number;
    start_job(run, rank, jobs);
}

static void complete(engine *run, uint32_t rank, uint32_t step)
{
    hki_sim *sim = run->sim;
    run->completed++;
    if (run->steps[step].verb != HKI_VERB_SEND)
        times_of(run, step)->last = run->now;
    sim->rank_end[rank] = run->now;
    if (sim->last == NONE || run->now > sim->total_ps) {
        sim->total_ps = run->now;
        sim->last = step;
    }
    uint32_t behind = run->steps[step + 1].successor;
    for (uint32_t i = run->steps[step].successor; i < behind; i++) {
        uint32_t successor = sim->world.successors[i];
        if (--run->steps[successor].next == 0)
            add_job(run, rank, successor, MAKE);
    }
}

/* ---- messages ---- */

/* One that must ask waits in the receiver's list as well, once both have made their steps. */
static void agree(engine *run, uint32_t send)
{
    append(run, &run->ranks[run->steps[send].peer].coming, run->steps[send].match);
    note_in(run, run->steps[send].peer);
}

/* The message is here, and its RECV made. */
static void received(engine *run, uint32_t rank, uint32_t receive)
{
    if (run->steps[receive].verb == HKI_VERB_RECV_REDUCE)
        add_job(run, rank, receive, REDUCE);
    else
        complete(run, rank, receive);
}

static bool is(const engine *run, uint32_t step, uint32_t state)
{
    return (run->steps[step].state & state) == state;
}

/* A message's end on this rank has become what was missing of MADE, GONE and MOVED. */
static void proceed(engine *run, uint32_t rank, uint32_t step)
{
    if (!is(run, step, MADE | GONE | MOVED))
        return;
    if (run->steps[step].verb == HKI_VERB_SEND)
        complete(run, rank, step);
    else
        received(run, rank, step);
}

static void gone(engine *run, uint32_t rank, uint32_t step)
{
    run->steps[step].state |= GONE;
    proceed(run, rank, step);
}

static void arrives(engine *run, uint32_t send)
{
    uint32_t receive = run->steps[send].match;
    times_of(run, receive)->moved = run->now;
    if (!is(run, send, GONE)) /* it had asked first */
        gone(run, own_rank(run, send), send);
    gone(run, run->steps[send].peer, receive);
}

static void made(engine *run, uint32_t rank, uint32_t step)
{
    hki_sim_step *here = &run->steps[step];
    times_of(run, step)->made = run->now;
    here->state |= MADE;
    if (!hki_sim_is_message(here)) {
        times_of(run, step)->moved = times_of(run, step)->core = run->now;
        complete(run, rank, step);
        return;
    }
    bool sends = here->verb == HKI_VERB_SEND;
    uint32_t send = sends ? step : here->match;
    bool rendezvous = cost_of(run, step)->rendezvous;
    if (sends) {
        append(run, &run->ranks[rank].leaving, send);
        note_out(run, rank);
    }
    if (rendezvous && is(run, here->match, MADE))
        agree(run, send);
    else
        proceed(run, rank, step);
}

static void seen(engine *run, uint32_t rank, uint32_t step)
{
    run->steps[step].state |= MOVED;
    proceed(run, rank, step);
}

/* What of a message's latency occupies nobody. */
static uint64_t latency(const engine *run, uint32_t send)
{
    const hki_sim_message_cost *cost = cost_of(run, send);
    uint32_t from = own_rank(run, send), to = run->steps[send].peer;
    return cost->alpha_ps - cost->overhead_ps + hki_sim_hops_ps(&run->sim->costs, from, to) +
           hki_sim_turn_ps(&run->sim->costs, to);
}

/* The core of a message's end has moved it; a receiver sees that with the message's latency. */
static void moved(engine *run, uint32_t rank, uint32_t step)
{
    const hki_sim_step *here = &run->steps[step];
    times_of(run, step)->core = run->now;
    uint64_t later = here->verb == HKI_VERB_SEND ? 0 : latency(run, here->match);
    if (later)
        at(run, run->now + later, SEEN, step);
    else
        seen(run, rank, step);
}

static void job_done(engine *run, uint32_t rank, list *jobs)
{
    uint32_t number = jobs->head;
    job done = run->jobs[number];
    if (done.kind == MAKE)
        made(run, rank, done.step);
    else if (done.kind == MOVE)
        moved(run, rank, done.step);
    else
        complete(run, rank, done.step);
    jobs->head = run->jobs[number].next; /* not earlier: what it leads to is to wait behind it */
    if (jobs->head == NONE)
        jobs->tail = NONE;
    else
        start_job(run, rank, jobs);
    run->jobs[number].next = run->free_job;
    run->free_job = number;
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
        add_job(run, rank, step, MOVE);
        return;
    }
    times_of(run, step)->core = run->now;
    seen(run, rank, step);
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

static void begins(engine *run, uint32_t send)
{
    uint32_t resources[HKI_ROUTE_MOST];
    uint64_t bytes = run->sim->world.works[run->steps[send].work].bytes;
    uint32_t count = route(run, send, resources);
    if (!hki_sim_flows_begin(&run->flows, run->steps[send].peer, run->now, bytes, cost_of(run, send)->bytes_ps,
                             resources, count))
        run->no_memory = true;
}

static void out_free(engine *run, uint32_t send)
{
    uint32_t from = own_rank(run, send);
    times_of(run, send)->last = run->now;
    run->ranks[from].sending = NONE;
    note_out(run, from);
    if (!cost_of(run, send)->rendezvous)
        gone(run, from, send);
}

static void flown(engine *run, uint32_t send)
{
    uint32_t to = run->steps[send].peer;
    uint64_t later = latency(run, send);
    run->ranks[to].receiving = NONE;
    note_in(run, to);
    if (!is(run, send, HELD))
        out_free(run, send);
    if (later)
        at(run, run->now + later, ARRIVES, send);
    else
        arrives(run, send);
}

/* ---- ways ---- */

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
static void use_ways(engine *run)
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

/* ---- the loop ---- */

static void handle(engine *run, event_kind kind, uint32_t subject)
{
    switch (kind) {
    case POSTED:
        job_done(run, subject, &run->ranks[subject].posts);
        break;
    case JOB_DONE:
        job_done(run, subject, &run->ranks[subject].jobs);
        break;
    case BEGINS:
        begins(run, subject);
        break;
    case FLOWN:
        flown(run, subject);
        break;
    case OUT_FREE:
        out_free(run, subject);
        break;
    case ARRIVES:
        arrives(run, subject);
        break;
    case SEEN:
        seen(run, own_rank(run, subject), subject);
        break;
    case KINDS:
        break;
    }
}

static void loop(engine *run)
{
    while (!run->no_memory) {
        uint64_t next = run->queue.count ? run->queue.items[0].ps : UINT64_MAX;
        uint64_t flow = hki_sim_flows_next(&run->flows);
        bool later = (next < flow ? next : flow) > run->now;
        if (later && (run->out_count || run->in_count)) {
            use_ways(run);
        } else if (later && (run->flows.stale_count || run->flows.dirty_count)) {
            hki_sim_flows_settle(&run->flows, run->now);
        } else if (flow < next) {
            run->now = flow;
            run->sim->events++;
            flown(run, run->ranks[hki_sim_flows_end(&run->flows, flow)].receiving);
        } else if (next < UINT64_MAX) {
            hki_sim_event event = hki_sim_queue_take(&run->queue);
            run->now = event.ps;
            run->sim->events++;
            handle(run, (event_kind)(event.tag % KINDS), (uint32_t)(event.tag / KINDS));
        } else {
            return;
        }
    }
}

static void begin(engine *run)
{
    const hki_sim_world *world = &run->sim->world;
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        const list empty = {NONE, NONE};
        run->ranks[rank] = (rank_state){.posts = empty,
                                        .jobs = empty,
                                        .leaving = empty,
                                        .coming = empty,
                                        .held = empty,
                                        .sending = NONE,
                                        .receiving = NONE};
    }
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        for (uint32_t step = world->first[rank]; step < world->first[rank + 1]; step++)
            if (run->steps[step].next == 0) /* which is a number of steps still */
                add_job(run, rank, step, MAKE);
}

/* Whether there was memory, and every step came to its end. */
static hk_status result(const engine *run)
{
    const hki_sim_world *world = &run->sim->world;
    if (run->no_memory)
        return hki_error(HK_ERR_NO_MEMORY, "no memory to simulate %u ranks", world->ranks);
    if (run->completed == world->step_count)
        return HK_OK;
    return hki_error(HK_ERR_INTERNAL, "%u of %u steps of %s among %u ranks wait for each other",
                     world->step_count - run->completed, world->step_count, run->sim->algorithm->name, world->ranks);
}

static hk_status open_run(engine *run)
{
    uint32_t ranks = run->sim->world.ranks;
    HK_TRY(hki_sim_flows_open(&run->sim->model, &run->flows));
    run->ranks = malloc(ranks * sizeof *run->ranks);
    run->out_notes = malloc(ranks * sizeof *run->out_notes);
    run->in_notes = malloc(ranks * sizeof *run->in_notes);
    if (!run->ranks || !run->out_notes || !run->in_notes)
        return hki_error(HK_ERR_NO_MEMORY, "no memory to simulate %u ranks", ranks);
    run->routes = run->flows.limits || run->sim->loads;
    return HK_OK;
}

hk_status hki_sim_engine_run(hki_sim *sim)
{
    engine run = {.sim = sim, .steps = sim->world.steps, .free_job = NONE};
    hk_status status = open_run(&run);
    if (status == HK_OK) {
        begin(&run);
        loop(&run);
        status = result(&run);
        if (sim->last != NONE)
            sim->total_ps += hki_sim_turn_ps(&sim->costs, hki_sim_world_rank(&sim->world, sim->last));
    }
    for (uint32_t i = 0; status == HK_OK && sim->loads && i < run.flows.resource_count; i++) {
        const hki_sim_resource *resource = &run.flows.resources[i];
        sim->loads[i].limits = resource->limits;
        sim->loads[i].busy_ps = resource->busy_ps;
        sim->loads[i].most = resource->most;
    }
    hki_sim_flows_close(&run.flows);
    hki_sim_queue_free(&run.queue);
    free(run.jobs);
    free(run.ranks);
    free(run.out_notes);
    free(run.in_notes);
    return status;
}

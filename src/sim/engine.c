/*
 * The event loop. A rank posts its messages one after another, and beside that its core does one job after
 * another: it moves bytes, copies, reduces. Messages that can leave wait in two lists, the sender's and, where the
 * receiver must agree, the receiver's, for both ways to be free. What is to be worked out after all events of one time
 * (who leaves next, who shares what) is noted and done then, so that the order of simultaneous events matters little.
 */
#include <stdlib.h>

#include "base/error.h"
#include "sim/engine_internal.h"

static void let_go(engine *run, uint32_t rank, uint32_t step)
{
    if (--run->steps[step].next == 0)
        hki_sim_job_add(run, rank, step, MAKE);
}

/* In program order: what lies behind a RECV, up to and with the next one. */
static void let_go_behind(engine *run, uint32_t rank, uint32_t recv)
{
    uint32_t end = run->sim->world.first[rank + 1];
    for (uint32_t step = recv + 1; step < end; step++) {
        let_go(run, rank, step);
        if (hki_sim_receives(&run->steps[step]))
            break;
    }
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
    for (uint32_t i = run->steps[step].successor; i < behind; i++)
        let_go(run, rank, sim->world.successors[i]);
    if (sim->in_order && hki_sim_receives(&run->steps[step]))
        let_go_behind(run, rank, step);
}

/* ---- messages ---- */

/* The message is here, and its RECV made. */
static void received(engine *run, uint32_t rank, uint32_t receive)
{
    const hki_sim_step *here = &run->steps[receive];
    if (here->verb == HKI_VERB_RECV_REDUCE && !hki_sim_reduce_moving_ps(&run->sim->costs, rank, here))
        hki_sim_job_add(run, rank, receive, REDUCE);
    else
        complete(run, rank, receive);
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

void hki_sim_gone(engine *run, uint32_t rank, uint32_t step)
{
    run->steps[step].state |= GONE;
    proceed(run, rank, step);
}

void hki_sim_arrives(engine *run, uint32_t send)
{
    uint32_t receive = run->steps[send].match;
    times_of(run, receive)->moved = run->now;
    if (!is(run, send, GONE)) /* it had asked first */
        hki_sim_gone(run, own_rank(run, send), send);
    hki_sim_gone(run, run->steps[send].peer, receive);
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
    if (sends)
        hki_sim_wants_out(run, rank, send);
    if (rendezvous && is(run, here->match, MADE))
        hki_sim_agree(run, send);
    else
        proceed(run, rank, step);
}

void hki_sim_seen(engine *run, uint32_t rank, uint32_t step)
{
    run->steps[step].state |= MOVED;
    proceed(run, rank, step);
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
        hki_sim_seen(run, rank, step);
}

static void job_done(engine *run, uint32_t rank, list *jobs)
{
    job done = run->jobs[jobs->head];
    if (done.kind == MAKE)
        made(run, rank, done.step);
    else if (done.kind == MOVE)
        moved(run, rank, done.step);
    else
        complete(run, rank, done.step);
    hki_sim_job_next(run, rank, jobs); /* not earlier: what it leads to is to wait behind it */
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
        hki_sim_on_begins(run, subject);
        break;
    case FLOWN:
        hki_sim_on_flown(run, subject);
        break;
    case OUT_FREE:
        hki_sim_on_out_free(run, subject);
        break;
    case ARRIVES:
        hki_sim_arrives(run, subject);
        break;
    case SEEN:
        hki_sim_seen(run, own_rank(run, subject), subject);
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
            hki_sim_use_ways(run);
        } else if (later && (run->flows.stale_count || run->flows.dirty_count)) {
            hki_sim_flows_settle(&run->flows, run->now);
        } else if (flow < next) {
            run->now = flow;
            run->sim->events++;
            hki_sim_on_flown(run, run->ranks[hki_sim_flows_end(&run->flows, flow)].receiving);
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

/* Unless a message is a rendezvous every step behind a RECV of its rank waits for one more (`next` is a number of steps
 * still). */
static void put_in_order(engine *run)
{
    const hki_sim_world *world = &run->sim->world;
    if (run->sim->model.cluster->host_count > 1)
        return;
    for (uint32_t step = 0; step < world->step_count; step++)
        if (run->steps[step].verb == HKI_VERB_SEND && cost_of(run, step)->rendezvous)
            return;
    run->sim->in_order = true;
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        bool behind = false;
        for (uint32_t step = world->first[rank]; step < world->first[rank + 1]; step++) {
            run->steps[step].next += behind;
            behind = behind || hki_sim_receives(&run->steps[step]);
        }
    }
}

static void begin(engine *run)
{
    const hki_sim_world *world = &run->sim->world;
    put_in_order(run);
    run->now = hki_price_begin(run->sim->model.figures, run->sim->call.collective);
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
                hki_sim_job_add(run, rank, step, MAKE);
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

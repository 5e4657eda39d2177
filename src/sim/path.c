/*
 * The critical path: from the step that ends last back to time 0, always to what the present thing had waited for. The
 * engine keeps no causes: times tell them. What began at time t had waited for whatever ended at t, among the few
 * things that can be its cause: a step that it depends on, the job that its rank did before, a message that used the
 * same way.
 */
#include "sim/sim.h"

#include <stdlib.h>

#include "base/error.h"
#include "sched/intervals.h"
#include "sim/engine.h"

/* Where on its life a step is looked at, from the end back. */
typedef enum moment {
    AT_END,
    AT_CORE,  /* its core had moved the message */
    AT_FLOWN, /* SEND: the bytes had passed, and the ways were free again */
    AT_MOVED, /* SEND: the message left; RECV: it arrived */
    AT_MADE,
    AT_START /* of everything */
} moment;

typedef struct walk {
    const hki_sim *sim;
    hki_sim_path *path;
    uint32_t step;
    moment where;
    bool no_memory;
} walk;

static const hki_sim_step *step_of(const walk *at, uint32_t step)
{
    return &at->sim->world.steps[step];
}

static bool is_send(const walk *at, uint32_t step)
{
    return step_of(at, step)->verb == HKI_VERB_SEND;
}

static uint32_t rank_of(const walk *at, uint32_t step)
{
    const hki_sim_step *here = step_of(at, step);
    return hki_sim_is_message(here) ? step_of(at, here->match)->peer : here->peer;
}

static const hki_sim_message_cost *cost_of(const walk *at, uint32_t step)
{
    return hki_sim_message(&at->sim->costs, step_of(at, step));
}

static bool held(const walk *at, uint32_t send)
{
    return step_of(at, send)->state & HKI_SIM_HELD;
}

static uint64_t hops_of(const walk *at, uint32_t send)
{
    return hki_sim_hops_ps(&at->sim->costs, rank_of(at, send), step_of(at, send)->peer);
}

/* What of a message's latency occupies nobody, but for the receiver's turn. */
static uint64_t latency_of(const walk *at, uint32_t send)
{
    const hki_sim_message_cost *cost = cost_of(at, send);
    return cost->alpha_ps - cost->overhead_ps + hops_of(at, send);
}

static uint64_t turn_of(const walk *at, uint32_t rank)
{
    return hki_sim_turn_ps(&at->sim->costs, rank);
}

/* ---- legs ---- */

/* Adds a leg, from the end backwards, unless it takes no time. */
static void add_leg(walk *at, hki_sim_leg leg)
{
    hki_sim_path *path = at->path;
    bool message = leg.kind == HKI_SIM_LEG_MESSAGE || leg.kind == HKI_SIM_LEG_WAY;
    if (leg.begin_ps == leg.end_ps && !message)
        return;
    hki_sim_leg *legs = hki_grow(path->legs, &path->capacity, path->count + UINT64_C(1), sizeof *legs);
    if (!legs) {
        at->no_memory = true;
        return;
    }
    path->legs = legs;
    legs[path->count++] = leg;
    path->messages += message;
    path->alpha_ps += leg.alpha_ps;
    path->beta_ps += leg.beta_ps;
    path->gamma_ps += leg.gamma_ps;
    path->copy_ps += leg.copy_ps;
    path->local_ps += leg.local_ps;
    path->contention_ps += leg.contention_ps;
}

/* A message from begin to end, of which `alpha`, nβ and `turn` are its own; the rest it waited for what it shares. */
static void add_message(walk *at, hki_sim_leg_kind kind, uint32_t send, uint64_t begin, uint64_t end, uint64_t alpha,
                        uint64_t turn)
{
    uint64_t beta = cost_of(at, send)->bytes_ps, whole = end - begin;
    add_leg(at, (hki_sim_leg){.kind = kind,
                              .step = send,
                              .rank = rank_of(at, send),
                              .peer = step_of(at, send)->peer,
                              .begin_ps = begin,
                              .end_ps = end,
                              .alpha_ps = alpha,
                              .beta_ps = beta,
                              .local_ps = turn,
                              .contention_ps = whole - alpha - beta - turn});
}

/* What a rank does; `own` of it is nβ of a move (and nγ of what it reduces as it moves it), a copy, or nγ. */
static void add_job(walk *at, hki_sim_leg_kind kind, uint64_t begin, uint64_t end, uint64_t own)
{
    uint32_t rank = rank_of(at, at->step);
    bool copies = step_of(at, at->step)->verb == HKI_VERB_COPY, moves = kind == HKI_SIM_LEG_MOVE;
    uint64_t reduced = moves ? hki_sim_reduce_moving_ps(&at->sim->costs, rank, step_of(at, at->step)) : own;
    add_leg(at, (hki_sim_leg){.kind = kind,
                              .step = at->step,
                              .rank = rank,
                              .peer = rank,
                              .begin_ps = begin,
                              .end_ps = end,
                              .beta_ps = moves ? own - reduced : 0,
                              .gamma_ps = copies ? 0 : reduced,
                              .copy_ps = copies ? own : 0,
                              .local_ps = end - begin - own});
}

/* ---- causes ---- */

/* What the core took to move a message's end. */
static uint64_t move_ps(const walk *at, uint32_t step)
{
    return hki_sim_move_ps(&at->sim->costs, rank_of(at, step), step_of(at, step));
}

typedef bool (*cause_test)(const walk *at, uint32_t candidate, uint64_t ps);

/* The step of the rank that passes the test, the nearest to `near` first, itself included: HKI_SIM_NO_STEP if there is
 * none. */
static uint32_t find_step(const walk *at, uint32_t rank, uint32_t near, uint64_t ps, cause_test test)
{
    uint32_t first = at->sim->world.first[rank], behind = at->sim->world.first[rank + 1];
    for (uint32_t distance = 0; near >= first + distance || near + distance < behind; distance++) {
        if (near >= first + distance && test(at, near - distance, ps))
            return near - distance;
        if (near + distance < behind && test(at, near + distance, ps))
            return near + distance;
    }
    return HKI_SIM_NO_STEP;
}

/* A step that at->step waits for and that ended then. */
static bool is_forerunner(const walk *at, uint32_t candidate, uint64_t ps)
{
    if (hki_sim_end(at->sim, candidate) != ps || candidate >= at->step)
        return false;
    if (at->sim->in_order && hki_sim_receives(step_of(at, candidate)))
        return true;
    uint32_t behind = at->sim->world.steps[candidate + 1].successor;
    for (uint32_t i = step_of(at, candidate)->successor; i < behind; i++)
        if (at->sim->world.successors[i] == at->step)
            return true;
    return false;
}

static bool was_made(const walk *at, uint32_t candidate, uint64_t ps)
{
    return at->sim->times[candidate].made == ps &&
           hki_sim_make_ps(&at->sim->costs, rank_of(at, candidate), step_of(at, candidate)) > 0;
}

static bool was_reduced(const walk *at, uint32_t candidate, uint64_t ps)
{
    return step_of(at, candidate)->verb == HKI_VERB_RECV_REDUCE && at->sim->times[candidate].last == ps &&
           hki_sim_reduce_ps(&at->sim->costs, rank_of(at, candidate), step_of(at, candidate)) > 0;
}

/* A SEND that gave the way out free then. */
static bool had_left(const walk *at, uint32_t candidate, uint64_t ps)
{
    return is_send(at, candidate) && at->sim->times[candidate].last == ps && at->sim->times[candidate].moved < ps;
}

/* A message into this rank that gave the way in free then. */
static bool had_come(const walk *at, uint32_t candidate, uint64_t ps)
{
    const hki_sim_step *here = step_of(at, candidate);
    return hki_sim_receives(here) && hki_sim_flown(at->sim, here->match) == ps &&
           at->sim->times[here->match].moved < ps;
}

static bool was_moved(const walk *at, uint32_t candidate, uint64_t ps)
{
    const hki_sim_step *here = step_of(at, candidate);
    if (!hki_sim_is_message(here) || at->sim->times[candidate].core != ps)
        return false;
    return move_ps(at, candidate) > 0;
}

static bool was_posted(const walk *at, uint32_t candidate, uint64_t ps)
{
    return hki_sim_is_message(step_of(at, candidate)) && was_made(at, candidate, ps);
}

static bool was_computed(const walk *at, uint32_t candidate, uint64_t ps)
{
    return !hki_sim_is_message(step_of(at, candidate)) && was_made(at, candidate, ps);
}

static bool go_to_step(walk *at, uint32_t rank, uint64_t ps, cause_test test, moment where)
{
    uint32_t found = find_step(at, rank, at->step, ps, test);
    if (found == HKI_SIM_NO_STEP)
        return false;
    at->step = found;
    at->where = where;
    return true;
}

/* Goes on with what the rank's core did until then, if there is something. */
static bool go_to_job(walk *at, uint32_t rank, uint64_t ps)
{
    return go_to_step(at, rank, ps, was_computed, AT_MADE) || go_to_step(at, rank, ps, was_moved, AT_CORE) ||
           go_to_step(at, rank, ps, was_reduced, AT_END);
}

/* ---- one step back ---- */

/* Before it was made: it waited for another step, or its rank was busy, or nothing was before. */
static void back_from_made(walk *at)
{
    const hki_sim_step *here = step_of(at, at->step);
    uint32_t rank = rank_of(at, at->step);
    uint64_t end = at->sim->times[at->step].made, ps = hki_sim_make_ps(&at->sim->costs, rank, here);
    uint64_t step_ps = hki_sim_turns(at->sim->model.cluster, rank, at->sim->model.figures->step_ps);
    add_job(at, HKI_SIM_LEG_MAKE, end - ps, end, ps - step_ps);
    if (go_to_step(at, rank, end - ps, is_forerunner, AT_END))
        return;
    bool busy =
        hki_sim_is_message(here) ? go_to_step(at, rank, end - ps, was_posted, AT_MADE) : go_to_job(at, rank, end - ps);
    if (!busy || end == ps)
        at->where = AT_START;
}

/* Before it left, a SEND waited until it was made, the receiver agreed, or a way was free. */
static void back_from_leaving(walk *at)
{
    const hki_sim_times *times = at->sim->times;
    uint32_t send = at->step, receive = step_of(at, send)->match;
    uint64_t left = times[send].moved;
    bool rendezvous = cost_of(at, send)->rendezvous;
    at->where = AT_MADE;
    if (times[send].made == left)
        return;
    if (rendezvous && times[receive].made == left) {
        at->step = receive;
        return;
    }
    uint32_t other = find_step(at, rank_of(at, send), send, left, had_left);
    if (other != HKI_SIM_NO_STEP && held(at, other)) {
        add_message(at, HKI_SIM_LEG_WAY, other, times[other].moved, left, cost_of(at, other)->overhead_ps, 0);
        at->step = other;
        at->where = AT_MOVED;
        return;
    }
    if (other == HKI_SIM_NO_STEP) {
        uint32_t come = find_step(at, rank_of(at, receive), receive, left, had_come);
        other = come == HKI_SIM_NO_STEP ? come : step_of(at, come)->match;
    }
    if (other == HKI_SIM_NO_STEP)
        return;
    at->step = other;
    at->where = AT_FLOWN;
}

/* The message that a held one waited for in the receiver's way in: the last one through before it. */
static uint32_t ahead_of(const walk *at, uint32_t send)
{
    uint32_t rank = step_of(at, send)->peer, found = HKI_SIM_NO_STEP;
    uint64_t flown = hki_sim_flown(at->sim, send), latest = 0;
    for (uint32_t i = at->sim->world.first[rank]; i < at->sim->world.first[rank + 1]; i++) {
        const hki_sim_step *here = step_of(at, i);
        if (here->verb != HKI_VERB_RECV && here->verb != HKI_VERB_RECV_REDUCE)
            continue;
        uint64_t other = hki_sim_flown(at->sim, here->match);
        if (other < flown && other >= latest) {
            latest = other;
            found = here->match;
        }
    }
    return found;
}

/* Before a message's bytes had passed (or, `arrived`, had arrived), it was on its way, or was held up by another. */
static void back_from_flown(walk *at, uint32_t send, bool arrived)
{
    const hki_sim_message_cost *cost = cost_of(at, send);
    uint32_t ahead = held(at, send) ? ahead_of(at, send) : HKI_SIM_NO_STEP, to = step_of(at, send)->peer;
    uint64_t begin = ahead == HKI_SIM_NO_STEP ? at->sim->times[send].moved : hki_sim_flown(at->sim, ahead);
    if (arrived)
        add_message(at, HKI_SIM_LEG_MESSAGE, send, begin, at->sim->times[step_of(at, send)->match].moved,
                    cost->overhead_ps + latency_of(at, send), turn_of(at, to));
    else
        add_message(at, HKI_SIM_LEG_WAY, send, begin, hki_sim_flown(at->sim, send), cost->overhead_ps, 0);
    at->step = ahead == HKI_SIM_NO_STEP ? send : ahead;
    at->where = ahead == HKI_SIM_NO_STEP ? AT_MOVED : AT_FLOWN;
}

/* Before the core had moved it, a message left, or was let in; or the core was busy. */
static void back_from_core(walk *at)
{
    uint32_t step = at->step, send = is_send(at, step) ? step : step_of(at, step)->match;
    uint64_t end = at->sim->times[step].core, ps = move_ps(at, step);
    uint32_t ahead = send != step && held(at, send) ? ahead_of(at, send) : HKI_SIM_NO_STEP;
    uint64_t begin = ahead == HKI_SIM_NO_STEP ? at->sim->times[send].moved : hki_sim_flown(at->sim, ahead);
    add_job(at, HKI_SIM_LEG_MOVE, end - ps, end, ps);
    if (end - ps != begin && go_to_job(at, rank_of(at, step), end - ps))
        return;
    at->step = ahead == HKI_SIM_NO_STEP ? send : ahead;
    at->where = ahead == HKI_SIM_NO_STEP ? AT_MOVED : AT_FLOWN;
}

/* When a receiver's core has moved a message, and sees the last byte. */
static uint64_t seen_of(const walk *at, uint32_t receive)
{
    return at->sim->times[receive].core + latency_of(at, step_of(at, receive)->match) +
           turn_of(at, rank_of(at, receive));
}

/* Before a SEND was complete its core had moved it, or the message was gone. */
static void back_from_sent(walk *at)
{
    const hki_sim_times *times = &at->sim->times[at->step];
    uint64_t end = hki_sim_end(at->sim, at->step);
    if (times->core == end && move_ps(at, at->step) > 0) {
        at->where = AT_CORE;
    } else if (cost_of(at, at->step)->rendezvous) {
        back_from_flown(at, at->step, true);
    } else if (held(at, at->step)) {
        add_message(at, HKI_SIM_LEG_WAY, at->step, times->moved, end, cost_of(at, at->step)->overhead_ps, 0);
        at->where = AT_MOVED;
    } else {
        at->where = AT_FLOWN;
    }
}

/* Whether the reduction of a RECV_REDUCE waited for nothing but its message, its making and its moving. */
static bool could_begin(const walk *at, uint64_t ps)
{
    const hki_sim_times *times = &at->sim->times[at->step];
    return ps == times->made || ps == seen_of(at, at->step) || ps == times->moved;
}

/* The latest of what a RECV needed. */
static void back_from_ready(walk *at, uint64_t ready)
{
    const hki_sim_times *times = &at->sim->times[at->step];
    uint32_t send = step_of(at, at->step)->match;
    if (times->moved == ready) {
        at->where = AT_MOVED;
    } else if (seen_of(at, at->step) == ready && move_ps(at, at->step) > 0) {
        uint64_t turn = turn_of(at, rank_of(at, at->step));
        add_leg(at, (hki_sim_leg){.kind = HKI_SIM_LEG_MESSAGE,
                                  .step = send,
                                  .rank = rank_of(at, send),
                                  .peer = rank_of(at, at->step),
                                  .begin_ps = times->core,
                                  .end_ps = ready,
                                  .alpha_ps = ready - times->core - turn,
                                  .local_ps = turn});
        at->where = AT_CORE;
    } else {
        at->where = AT_MADE;
    }
}

/* Before its end a step was made; or a message had come, was moved, and was reduced. */
static void back_from_end(walk *at)
{
    const hki_sim_step *here = step_of(at, at->step);
    uint32_t rank = rank_of(at, at->step);
    uint64_t ready = hki_sim_end(at->sim, at->step);
    if (!hki_sim_is_message(here)) {
        at->where = AT_MADE;
        return;
    }
    if (is_send(at, at->step)) {
        back_from_sent(at);
        return;
    }
    if (here->verb == HKI_VERB_RECV_REDUCE && !hki_sim_reduce_moving_ps(&at->sim->costs, rank, here)) {
        uint64_t reduce = hki_sim_reduce_ps(&at->sim->costs, rank, here);
        add_job(at, HKI_SIM_LEG_REDUCE, ready - reduce, ready, reduce);
        ready -= reduce;
        if (!could_begin(at, ready) && go_to_job(at, rank, ready))
            return;
    }
    back_from_ready(at, ready);
}

static void back(walk *at)
{
    switch (at->where) {
    case AT_END:
        back_from_end(at);
        break;
    case AT_CORE:
        back_from_core(at);
        break;
    case AT_MADE:
        back_from_made(at);
        break;
    case AT_MOVED:
        if (is_send(at, at->step))
            back_from_leaving(at);
        else
            back_from_flown(at, step_of(at, at->step)->match, true);
        break;
    case AT_FLOWN:
        back_from_flown(at, at->step, false);
        break;
    case AT_START:
        break;
    }
}

static void reverse(hki_sim_path *path)
{
    for (uint32_t i = 0; i < path->count / 2; i++) {
        hki_sim_leg swapped = path->legs[i];
        path->legs[i] = path->legs[path->count - 1 - i];
        path->legs[path->count - 1 - i] = swapped;
    }
}

hk_status hki_sim_path_find(const hki_sim *sim, hki_sim_path *path)
{
    *path = (hki_sim_path){0};
    if (!sim->times)
        return hki_error(HK_ERR_ARGUMENT, "a critical path needs a recorded simulation");
    walk at = {.sim = sim, .path = path, .step = sim->last, .where = sim->last == HKI_SIM_NO_STEP ? AT_START : AT_END};
    if (at.where == AT_END)
        add_job(&at, HKI_SIM_LEG_TURN, hki_sim_end(sim, sim->last), sim->total_ps, 0);
    while (at.where != AT_START && !at.no_memory)
        back(&at);
    uint64_t begin = hki_price_begin(sim->model.figures, sim->call.collective);
    if (begin && at.step != HKI_SIM_NO_STEP)
        add_leg(&at, (hki_sim_leg){.kind = HKI_SIM_LEG_MAKE,
                                   .step = at.step,
                                   .rank = rank_of(&at, at.step),
                                   .peer = rank_of(&at, at.step),
                                   .end_ps = begin,
                                   .local_ps = begin});
    if (at.no_memory) {
        hki_sim_path_free(path);
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a critical path of %u legs", path->count);
    }
    reverse(path);
    return HK_OK;
}

void hki_sim_path_free(hki_sim_path *path)
{
    free(path->legs);
    *path = (hki_sim_path){0};
}

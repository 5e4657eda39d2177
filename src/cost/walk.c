/*
 * The walk: events in a heap by time. Every time carries along what it consists of, so that the end's parts are those
 * of the critical path. The simulator follows the same rules in a loop of its own: sim/README.md says why.
 */
#include "base/error.h"
#include "cost/walk_state.h"

static void push(walk *w, uint64_t at, event_kind kind, uint32_t what)
{
    if (!hki_events_push(w->events, (hki_event){.at = at, .what = what, .kind = (uint8_t)kind}))
        w->no_memory = true;
}

/* ---- lists ---- */

static void append(walk *w, list *to, uint32_t step, int which)
{
    w->steps[step].next[which] = NONE;
    w->steps[step].previous[which] = to->tail;
    if (to->tail == NONE)
        to->head = step;
    else
        w->steps[to->tail].next[which] = step;
    to->tail = step;
}

static void take_out(walk *w, list *from, uint32_t step, int which)
{
    uint32_t next = w->steps[step].next[which], previous = w->steps[step].previous[which];
    if (previous == NONE)
        from->head = next;
    else
        w->steps[previous].next[which] = next;
    if (next == NONE)
        from->tail = previous;
    else
        w->steps[next].previous[which] = previous;
}

/* ---- the core of a rank ---- */

static inline rank_state *rank_of(walk *w, uint32_t step)
{
    return &w->ranks[w->traces->steps[step].rank];
}

/* How much longer a rank's core takes for what takes so long on a core of its own: others have their turns. */
static inline uint64_t turns_of(const walk *w, uint32_t rank, uint64_t ps)
{
    return hki_crowded_ps(&w->crowded[rank], ps) - ps;
}

static inline void spend_step(const walk *w, uint32_t rank, hki_moment *to)
{
    hki_spend_alpha(to, w->model->figures->step_ps);
    hki_spend_turns(to, turns_of(w, rank, w->model->figures->step_ps));
}

static inline void spend_moving(const walk *w, uint32_t rank, uint64_t ps, hki_moment *to)
{
    hki_spend_beta(to, ps);
    hki_spend_contention(to, turns_of(w, rank, ps));
}

static inline void spend_reducing(const walk *w, uint32_t rank, uint64_t ps, hki_moment *to)
{
    hki_spend_gamma(to, ps);
    hki_spend_contention(to, turns_of(w, rank, ps));
}

/* The core moves bytes, as soon as it can: returns when it has. */
static hki_moment move_bytes(walk *w, uint32_t rank, const hki_moment *from, uint64_t bytes, uint64_t core_ps)
{
    if (!core_ps || !bytes)
        return *from;
    rank_state *r = &w->ranks[rank];
    hki_moment moved = *hki_later(from, &r->core);
    spend_moving(w, rank, hki_bytes_ps(bytes, core_ps), &moved);
    r->core = moved;
    return moved;
}

static bool reduces_coming(const walk *w, uint32_t recv)
{
    const hki_trace_step *step = &w->traces->steps[recv];
    return hki_reduces_coming(&w->crowded[step->rank], w->steps[step->mate].range->core_ps);
}

/* The core reduces what has come, as soon as it can: returns when it has. */
static hki_moment reduce_bytes(walk *w, uint32_t recv, const hki_moment *from)
{
    rank_state *r = &w->ranks[w->traces->steps[recv].rank];
    uint64_t gamma = w->model->figures->gamma_ps[w->model->type][w->model->operators];
    hki_moment reduced = *hki_later(from, &r->core);
    spend_reducing(w, w->traces->steps[recv].rank, hki_bytes_ps(w->bytes[recv], gamma), &reduced);
    r->core = reduced;
    return reduced;
}

/* Counts a step that is complete. */
static void count_done(walk *w, uint32_t index)
{
    const hki_trace_step *step = &w->traces->steps[index];
    step_state *state = &w->steps[index];
    /* What was received has come in one round more than its SEND had behind it. */
    bool came = receives(step) && (w->bytes[index] || step->signal);
    if (came && w->steps[step->mate].rounds >= state->rounds)
        state->rounds = w->steps[step->mate].rounds + 1;
    if (state->rounds > w->rounds)
        w->rounds = state->rounds;
    w->complete++;
    if (state->mark.at > w->end.at || w->complete == 1) {
        w->end = state->mark;
        w->last = step->rank;
    }
}

/* Whether some step waits for this one. */
static inline bool is_awaited(const walk *w, const hki_trace_step *step)
{
    return step->successor_count > 0 || (w->in_order && receives(step));
}

static void complete_at(walk *w, uint32_t index, const hki_moment *when)
{
    w->steps[index].mark = *when;
    if (is_awaited(w, &w->traces->steps[index]))
        push(w, when->at, DONE, index);
    else
        count_done(w, index);
}

/* COPY and REDUCE. */
static void compute(walk *w, uint32_t index)
{
    const hki_trace_step *step = &w->traces->steps[index];
    const hki_figures *figures = w->model->figures;
    rank_state *r = &w->ranks[step->rank];
    hki_moment end = *hki_later(&w->steps[index].ready, &r->core);
    spend_step(w, step->rank, &end);
    if (step->verb == HKI_VERB_COPY) {
        spend_moving(w, step->rank, hki_copy_time(figures, w->bytes[index]), &end);
    } else if (step->operands > 1) {
        uint64_t one = hki_bytes_ps(w->bytes[index], figures->gamma_ps[w->model->type][w->model->operators]);
        spend_reducing(w, step->rank, (step->operands - 1) * one, &end);
    }
    r->core = end;
    complete_at(w, index, &end);
}

static void become_ready(walk *w, uint32_t index)
{
    const hki_trace_step *step = &w->traces->steps[index];
    step_state *state = &w->steps[index];
    if (w->bytes[index] == 0 && !step->signal) {
        complete_at(w, index, &state->ready);
    } else if (step->verb == HKI_VERB_COPY || step->verb == HKI_VERB_REDUCE) {
        compute(w, index);
    } else {
        rank_state *r = &w->ranks[step->rank];
        state->mark = *hki_later(&state->ready, &r->maker);
        spend_step(w, step->rank, &state->mark);
        r->maker = state->mark;
        /* Nobody waits until a RECV of what comes by itself is made, and that takes no part in reductions. */
        if (step->verb == HKI_VERB_RECV && !(state->phase & HERE) && !w->steps[step->mate].range->rendezvous)
            state->phase |= POSTED;
        else
            push(w, state->mark.at, MADE, index);
    }
}

/* ---- messages ---- */

static inline uint64_t free_latency(const hki_range_figures *range)
{
    return range->alpha_ps > range->overhead_ps ? range->alpha_ps - range->overhead_ps : 0;
}

/* The same where some ranks stand for all: chains of messages take quick and slow links in turn, while the ways of the
 * ranks at slow ones are occupied in every round. What takes longer decides, the mean of whole messages or that. */
static uint64_t mean_latency(const walk *w, uint32_t send)
{
    const step_state *state = &w->steps[send];
    const hki_path *path = &w->paths[send];
    uint64_t sum = 0, occupied = state->range->overhead_ps + state->alone_ps;
    if (path->parts[path->link] == HKI_PATH_PARTS)
        return free_latency(state->range);
    for (int link = 0; link < HKI_LINK_CLASSES; link++) {
        if (!path->parts[link])
            continue;
        const hki_range_figures *range = hki_figures_range(&w->model->figures->link[link], w->bytes[send]);
        sum += path->parts[link] * (range->alpha_ps + hki_bytes_ps(w->bytes[send], range->beta_ps));
    }
    sum /= HKI_PATH_PARTS;
    return sum > occupied ? sum - occupied : 0;
}

/* Of a message's latency, what occupies nobody: a crowded receiver is not there when it comes. */
static void spend_latency(const walk *w, uint32_t send, hki_moment *to)
{
    const step_state *state = &w->steps[send];
    const hki_crowding *crowd = &w->crowded[w->traces->steps[w->traces->steps[send].mate].rank];
    uint64_t free = w->paths ? mean_latency(w, send) : free_latency(state->range);
    hki_spend_alpha(to, free + state->hops_ps);
    hki_spend_turns(to, crowd->turn_ps);
}

/* Where a rank stands for all, beside the messages of others. */
static uint64_t flow_time(const walk *w, uint32_t send)
{
    const step_state *state = &w->steps[send];
    if (!w->paths || w->bytes[send] == 0)
        return state->alone_ps;
    const hki_path *path = &w->paths[send];
    uint64_t own_ps = path->crowd * state->beta_ps, crowd_ps = path->crowd_ps > own_ps ? path->crowd_ps : own_ps;
    uint64_t shared = hki_bytes_ps(w->mean[send], crowd_ps);
    return shared > state->alone_ps ? shared : state->alone_ps;
}

/* Begins to flow: both ways are taken. */
static void begin_flow(walk *w, uint32_t send, uint64_t now)
{
    const hki_trace_step *step = &w->traces->steps[send];
    step_state *state = &w->steps[send];
    uint32_t receiver = w->traces->steps[step->mate].rank;
    rank_state *to = &w->ranks[receiver];
    state->left = *hki_later(&state->left, &to->in);
    to->in_busy = true;
    hki_moment moved = move_bytes(w, receiver, &state->left, w->bytes[send], state->range->core_ps);
    if (w->traces->steps[step->mate].verb == HKI_VERB_RECV_REDUCE && reduces_coming(w, step->mate))
        moved = reduce_bytes(w, step->mate, &moved);
    spend_latency(w, send, &moved); /* the last byte is seen so late */
    w->steps[step->mate].moved = moved;
    uint64_t begin = now + state->range->overhead_ps;
    if (w->paths || w->bytes[send] == 0) {
        push(w, begin + flow_time(w, send), FLOWN, send);
        state->flow = NONE;
        return;
    }
    state->flow =
        hki_flows_start(w->flows, w->traces->rank[step->rank], step->peer, w->bytes[send], state->beta_ps, begin, send);
    if (state->flow == NONE)
        w->no_memory = true;
}

/* Sends a posted message off if it can go now. */
static bool try_leave(walk *w, uint32_t send, uint64_t now)
{
    const hki_trace_step *step = &w->traces->steps[send];
    step_state *state = &w->steps[send], *other = &w->steps[step->mate];
    rank_state *from = rank_of(w, send), *to = rank_of(w, step->mate);
    bool rendezvous = state->range->rendezvous;
    if (from->out_busy || (rendezvous && (to->in_busy || !(other->phase & POSTED))))
        return false;
    take_out(w, &from->sends, send, 0);
    if (rendezvous)
        take_out(w, &to->waiting, send, 1);
    state->phase |= LEFT;
    from->out_busy = true;
    state->left = *hki_later(&state->mark, &from->out);
    if (rendezvous)
        state->left = *hki_later(&state->left, &other->mark);
    state->moved = move_bytes(w, step->rank, &state->left, w->bytes[send], state->range->core_ps);
    if (to->in_busy) {
        append(w, &to->held, send, 1);
        state->phase |= HELD;
        hki_moment out = state->left;
        hki_spend_alpha(&out, state->range->overhead_ps);
        hki_spend_beta(&out, state->alone_ps);
        from->out = out;
        complete_at(w, send, hki_later(&out, &state->moved));
        push(w, out.at, OUT, step->rank);
        return true;
    }
    begin_flow(w, send, now);
    return true;
}

/* Has a rank look, once all has happened that happens at this moment, what can leave by its way out (0), or come in by
 * its way in (1): what gets free later at the same moment must not make it choose another message than is first. */
static void note(walk *w, uint32_t rank, int way)
{
    if (!w->ranks[rank].noted[way])
        w->turns[way][w->turn_count[way]++] = rank;
    w->ranks[rank].noted[way] = true;
}

static void free_out(walk *w, uint32_t rank)
{
    w->ranks[rank].out_busy = false;
    note(w, rank, 0);
}

static void free_in(walk *w, uint32_t rank, uint64_t now)
{
    rank_state *r = &w->ranks[rank];
    r->in_busy = false;
    note(w, rank, 1);
    if (r->held.head != NONE) {
        uint32_t send = r->held.head;
        take_out(w, &r->held, send, 1);
        begin_flow(w, send, now);
    }
}

static void leave_from(walk *w, uint32_t rank, uint64_t now)
{
    rank_state *r = &w->ranks[rank];
    for (uint32_t send = r->sends.head; send != NONE && !r->out_busy;) {
        uint32_t next = w->steps[send].next[0];
        try_leave(w, send, now);
        send = next;
    }
}

static void leave_to(walk *w, uint32_t rank, uint64_t now)
{
    rank_state *r = &w->ranks[rank];
    for (uint32_t send = r->waiting.head; send != NONE && !r->in_busy;) {
        uint32_t next = w->steps[send].next[1];
        try_leave(w, send, now);
        send = next;
    }
}

/* Senders choose first. */
static void take_turns(walk *w, uint64_t now)
{
    for (uint32_t i = 0; i < w->turn_count[0]; i++) {
        w->ranks[w->turns[0][i]].noted[0] = false;
        leave_from(w, w->turns[0][i], now);
    }
    for (uint32_t i = 0; i < w->turn_count[1]; i++) {
        w->ranks[w->turns[1][i]].noted[1] = false;
        leave_to(w, w->turns[1][i], now);
    }
    w->turn_count[0] = w->turn_count[1] = 0;
}

/* Of a rendezvous that both ends have posted. */
static void agree(walk *w, uint32_t send)
{
    uint32_t receiver = w->traces->steps[w->traces->steps[send].mate].rank;
    append(w, &w->ranks[receiver].waiting, send, 1);
    note(w, receiver, 1);
}

/* A message is here and its RECV is posted. */
static void finish_receive(walk *w, uint32_t recv)
{
    const hki_trace_step *step = &w->traces->steps[recv];
    step_state *state = &w->steps[recv];
    hki_moment end = *hki_later(&state->mark, &state->moved);
    if (step->verb == HKI_VERB_RECV_REDUCE && !reduces_coming(w, recv))
        end = reduce_bytes(w, recv, &end);
    complete_at(w, recv, &end);
}

static void on_made(walk *w, uint32_t index)
{
    const hki_trace_step *step = &w->traces->steps[index];
    step_state *state = &w->steps[index];
    rank_state *r = &w->ranks[step->rank];
    state->phase |= POSTED;
    if (step->verb == HKI_VERB_SEND) {
        r->sent += w->bytes[index];
        r->sending_ps += state->range->overhead_ps + state->alone_ps;
        r->messages++;
        append(w, &r->sends, index, 0);
        note(w, step->rank, 0);
        if (state->range->rendezvous && (w->steps[step->mate].phase & POSTED))
            agree(w, index);
    } else if (state->phase & HERE) {
        finish_receive(w, index);
    } else if (w->steps[step->mate].phase == POSTED && w->steps[step->mate].range->rendezvous) {
        agree(w, step->mate);
    }
}

/* The message has passed: frees the ways, and knows when it arrives. */
static void on_flown(walk *w, uint32_t send, uint64_t now)
{
    const hki_trace_step *step = &w->traces->steps[send];
    step_state *state = &w->steps[send];
    uint32_t receiver = w->traces->steps[step->mate].rank;
    if (state->flow != NONE)
        hki_flows_end(w->flows, state->flow);
    hki_moment end = state->left, arrival;
    hki_spend_alpha(&end, state->range->overhead_ps);
    hki_spend_beta(&end, state->alone_ps);
    if (now > end.at)
        hki_spend_contention(&end, now - end.at);
    arrival = end;
    spend_latency(w, send, &arrival);
    state->left = arrival;
    push(w, arrival.at, ARRIVED, send);
    w->ranks[receiver].in = end;
    bool held = state->phase & HELD;
    if (!held) {
        w->ranks[step->rank].out = end;
        if (!state->range->rendezvous)
            complete_at(w, send, hki_later(&end, &state->moved));
        free_out(w, step->rank);
    }
    free_in(w, receiver, now);
}

static void on_arrived(walk *w, uint32_t send)
{
    uint32_t recv = w->traces->steps[send].mate;
    step_state *state = &w->steps[send], *other = &w->steps[recv];
    if (state->range->rendezvous)
        complete_at(w, send, hki_later(&state->left, &state->moved));
    other->moved = *hki_later(&state->left, &other->moved);
    other->phase |= HERE;
    if (other->phase & POSTED)
        finish_receive(w, recv);
}

static void let_go(walk *w, uint32_t index, const hki_moment *now, uint32_t rounds)
{
    step_state *state = &w->steps[index];
    state->ready = *hki_later(&state->ready, now);
    if (rounds > state->rounds)
        state->rounds = rounds;
    if (--state->waits == 0)
        become_ready(w, index);
}

/* In program order: what lies behind a RECV, up to and with the next one. */
static void let_go_behind(walk *w, uint32_t recv, const hki_moment *now)
{
    const hki_trace_step *steps = w->traces->steps;
    uint32_t end = w->traces->first[steps[recv].rank + 1];
    for (uint32_t i = recv + 1; i < end; i++) {
        bool last = receives(&steps[i]);
        let_go(w, i, now, w->steps[recv].rounds);
        if (last)
            break;
    }
}

static void on_done(walk *w, uint32_t index)
{
    const hki_trace_step *step = &w->traces->steps[index];
    const hki_moment *end = &w->steps[index].mark;
    count_done(w, index);
    uint32_t rounds = w->steps[index].rounds;
    const uint32_t *successors = w->traces->successors + step->first_successor;
    for (uint32_t i = 0; i < step->successor_count; i++)
        let_go(w, successors[i], end, rounds);
    if (w->in_order && receives(step))
        let_go_behind(w, index, end);
}

/* ---- the whole ---- */

static void handle(walk *w, const hki_event *e)
{
    switch ((event_kind)e->kind) {
    case MADE:
        on_made(w, e->what);
        break;
    case OUT:
        free_out(w, e->what);
        break;
    case FLOWN:
        on_flown(w, e->what, e->at);
        break;
    case ARRIVED:
        on_arrived(w, e->what);
        break;
    case DONE:
        on_done(w, e->what);
        break;
    }
}

/* The next that happens: an event, or the end of a flow. */
static bool next_event(walk *w, hki_event *next)
{
    uint32_t slot = w->paths ? NONE : hki_flows_first(w->flows);
    if (slot == NONE)
        return hki_events_pop(w->events, next);
    const hki_flow_end *end = &w->flows->ends[slot];
    *next = (hki_event){.at = end->at, .order = end->order, .what = w->flows->flows[slot].owner, .kind = FLOWN};
    return !hki_events_are_before(w->events, next) || hki_events_pop(w->events, next);
}

/* Whether nothing else happens at this moment. */
static bool is_over(walk *w, uint64_t now)
{
    uint32_t slot = w->paths ? NONE : hki_flows_first(w->flows);
    return hki_events_next(w->events) > now && (slot == NONE || w->flows->ends[slot].at > now);
}

static void run(walk *w)
{
    const hki_traces *traces = w->traces;
    for (uint32_t i = 0; i < hki_traces_steps(traces); i++)
        if (w->steps[i].waits == 0)
            become_ready(w, i);
    hki_event next;
    while (!w->no_memory && !w->is_beyond && next_event(w, &next)) {
        w->is_beyond = next.at > w->limit_ps;
        handle(w, &next);
        bool flows_changed = !w->paths && w->flows->dirty_count;
        if ((!w->turn_count[0] && !w->turn_count[1] && !flows_changed) || !is_over(w, next.at))
            continue;
        /* All that happens at this moment has: messages leave, and flows get new ends. */
        take_turns(w, next.at);
        if (!w->paths)
            hki_flows_settle(w->flows, next.at, &w->events->order);
    }
}

static void report(const walk *w, hki_price *price)
{
    hki_moment end = w->end;
    hki_spend_turns(&end, w->crowded[w->last].turn_ps);
    *price = (hki_price){.total_ps = end.at,
                         .alpha_ps = hki_alpha_of(&end),
                         .beta_ps = end.beta,
                         .gamma_ps = end.gamma,
                         .contention_ps = end.contention + end.turns,
                         .turns_ps = end.turns,
                         .rounds = w->rounds};
    for (uint32_t i = 0; i < w->traces->count; i++) {
        const rank_state *r = &w->ranks[i];
        price->bytes_sent = r->sent > price->bytes_sent ? r->sent : price->bytes_sent;
        price->floor_ps = r->sending_ps > price->floor_ps ? r->sending_ps : price->floor_ps;
        price->messages_sent = r->messages > price->messages_sent ? r->messages : price->messages_sent;
    }
}

hk_status hki_walk(hki_walker *walker, const hki_model *model, const hki_traces *traces, const uint64_t *bytes,
                   const uint64_t *mean, const hki_path *paths, const uint32_t *instead, uint64_t limit_ps,
                   hki_price *price)
{
    walk w = {.model = model,
              .traces = traces,
              .bytes = bytes,
              .mean = mean,
              .paths = paths,
              .instead = instead,
              .limit_ps = limit_ps};
    HK_TRY(hki_walk_open(walker, &w));
    run(&w);
    if (w.no_memory)
        return hki_error(HK_ERR_NO_MEMORY, "no memory to price a schedule");
    if (w.is_beyond) {
        *price = (hki_price){.total_ps = HKI_PRICE_BEYOND};
        return HK_OK;
    }
    if (w.complete < hki_traces_steps(traces))
        return hki_error(HK_ERR_INTERNAL, "%u of %u steps never end", hki_traces_steps(traces) - w.complete,
                         hki_traces_steps(traces));
    report(&w, price);
    return HK_OK;
}

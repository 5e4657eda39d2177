#include "cost/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { NO_STEP = UINT32_MAX };

void hki_traces_free(hki_traces *traces)
{
    if (!traces)
        return;
    for (int i = 0; i < 2; i++)
        free((void *)(uintptr_t)traces->grid[i].edges);
    free(traces->rank);
    free(traces->first);
    free(traces->steps);
    free(traces->successors);
    free(traces);
}

/* ---- from schedules ---- */

/* What grows while ranks are added. */
typedef struct builder {
    hki_traces *traces;
    uint32_t steps, step_capacity, successors, successor_capacity;
} builder;

static bool make_room(void **items, uint32_t *capacity, uint64_t needed, size_t size)
{
    if (needed <= *capacity)
        return true;
    uint64_t wanted = needed + needed / 2 + 16;
    void *grown = wanted <= UINT32_MAX ? realloc(*items, wanted * size) : NULL;
    if (!grown)
        return false;
    *items = grown;
    *capacity = (uint32_t)wanted;
    return true;
}

/* Of a step without an operand of its own kind, the span that tells its length. */
static const hki_span *length_of(const hki_step *step)
{
    return step->verb == HKI_VERB_SEND ? &step->source : &step->destination;
}

static hki_trace_step trace_step(const hki_step *step, uint32_t rank)
{
    const hki_span *span = length_of(step);
    bool message = step->verb != HKI_VERB_COPY && step->verb != HKI_VERB_REDUCE;
    return (hki_trace_step){.blocks = span->blocks,
                            .rank = rank,
                            .peer = step->peer,
                            .mate = NO_STEP,
                            .operands = step->verb == HKI_VERB_REDUCE ? step->source_count : 1,
                            .waits = step->dep_count,
                            .verb = step->verb,
                            .of = span->of,
                            .signal = message && span->blocks.count == 0};
}

/* Turns "waits for" into "is waited for by". */
static bool add_successors(builder *to, const hki_schedule *schedule)
{
    uint64_t needed = (uint64_t)to->successors + schedule->dep_count;
    if (!make_room((void **)&to->traces->successors, &to->successor_capacity, needed, sizeof(uint32_t)))
        return false;
    hki_trace_step *steps = to->traces->steps + to->steps;
    for (uint32_t i = 0; i < schedule->dep_count; i++)
        steps[schedule->deps[i]].successor_count++;
    uint32_t next = to->successors;
    for (uint32_t i = 0; i < schedule->step_count; i++) {
        steps[i].first_successor = next;
        next += steps[i].successor_count;
        steps[i].successor_count = 0;
    }
    for (uint32_t i = 0; i < schedule->step_count; i++)
        for (uint32_t k = 0; k < schedule->steps[i].dep_count; k++) {
            hki_trace_step *before = &steps[schedule->deps[schedule->steps[i].first_dep + k]];
            to->traces->successors[before->first_successor + before->successor_count++] = to->steps + i;
        }
    to->successors = next;
    return true;
}

/* Keeps the grids of the first rank that has them: all ranks' blocks are as long. */
static bool keep_grids(hki_traces *traces, const hki_schedule *schedule)
{
    for (int i = 0; i < 2; i++) {
        hki_grid *grid = &traces->grid[i];
        if (grid->cut != HKI_CUT_NONE || schedule->grid[i].cut == HKI_CUT_NONE)
            continue;
        *grid = schedule->grid[i];
        grid->edges = NULL;
        if (schedule->grid[i].cut != HKI_CUT_FRACTION)
            continue;
        size_t bytes = ((size_t)grid->parts + 1) * sizeof *grid->edges;
        hki_fraction *edges = malloc(bytes);
        if (!edges)
            return false;
        memcpy(edges, schedule->grid[i].edges, bytes);
        grid->edges = edges;
    }
    return true;
}

static bool add_rank(builder *to, const hki_schedule *schedule, uint32_t index)
{
    uint64_t needed = (uint64_t)to->steps + schedule->step_count;
    if (!keep_grids(to->traces, schedule) ||
        !make_room((void **)&to->traces->steps, &to->step_capacity, needed, sizeof(hki_trace_step)))
        return false;
    for (uint32_t i = 0; i < schedule->step_count; i++)
        to->traces->steps[to->steps + i] = trace_step(&schedule->steps[i], index);
    if (!add_successors(to, schedule))
        return false;
    to->steps += schedule->step_count;
    to->traces->first[index + 1] = to->steps;
    return true;
}

/* ---- the two ends of messages ---- */

static bool is_message(const hki_trace_step *step)
{
    return step->verb != HKI_VERB_COPY && step->verb != HKI_VERB_REDUCE;
}

/* Index of a rank among those traced; NO_STEP if it is not. */
static uint32_t traced(const hki_traces *traces, uint32_t rank)
{
    if (traces->count == traces->ranks)
        return rank;
    for (uint32_t i = 0; i < traces->count; i++)
        if (traces->rank[i] == rank)
            return i;
    return NO_STEP;
}

/* Messages that wait for their other end: a chain of steps for every (sender, receiver), hashed. Messages of a pair are
 * in the same order at both ends, so the first that waits is the one. */
typedef struct pairing {
    uint32_t *heads, *tails, *following; /* steps; chains by slot, following by step */
    uint64_t *keys;                      /* 0: free */
    uint32_t mask;
} pairing;

static uint32_t slot_of(pairing *table, uint32_t from, uint32_t to)
{
    uint64_t key = ((uint64_t)from + 1) << 32 | to;
    uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t slot = (uint32_t)(hash >> 32) & table->mask;
    while (table->keys[slot] && table->keys[slot] != key)
        slot = (slot + 1) & table->mask;
    if (!table->keys[slot]) {
        table->keys[slot] = key;
        table->heads[slot] = NO_STEP;
    }
    return slot;
}

static void wait_for_end(pairing *table, uint32_t slot, uint32_t step)
{
    table->following[step] = NO_STEP;
    if (table->heads[slot] == NO_STEP)
        table->heads[slot] = step;
    else
        table->following[table->tails[slot]] = step;
    table->tails[slot] = step;
}

static uint32_t moved_by(hki_motion motion, uint32_t at, uint32_t by, uint32_t size)
{
    if (motion == HKI_STILL)
        return at;
    return motion == HKI_BY_SHIFT ? (at + by) % size : at ^ by;
}

static uint32_t moved_back(hki_motion motion, uint32_t at, uint32_t by, uint32_t size)
{
    return moved_by(motion, at, motion == HKI_BY_SHIFT ? size - by : by, size);
}

uint32_t hki_moved(const hki_symmetry *by, uint32_t ranks, uint32_t rank, uint32_t to)
{
    uint32_t rows = ranks / by->width;
    return moved_by(by->row, rank / by->width, to / by->width, rows) * by->width +
           moved_by(by->place, rank % by->width, to % by->width, by->width);
}

/* The other way round. */
static uint32_t seen_from(const hki_symmetry *by, uint32_t ranks, uint32_t rank, uint32_t from)
{
    uint32_t rows = ranks / by->width;
    return moved_back(by->row, rank / by->width, from / by->width, rows) * by->width +
           moved_back(by->place, rank % by->width, from % by->width, by->width);
}

/* The slot of a message, the same at both ends: that of the sender's counterpart among those traced. */
static uint32_t slot_of_message(const hki_traces *traces, pairing *table, const hki_trace_step *step)
{
    uint32_t own = traces->rank[step->rank];
    const hki_symmetry *by = &traces->symmetry;
    if (step->verb == HKI_VERB_SEND)
        return slot_of(table, own, step->peer);
    if (!by->width)
        return slot_of(table, step->peer, own);
    return slot_of(table, seen_from(by, traces->ranks, step->peer, step->peer),
                   seen_from(by, traces->ranks, own, step->peer));
}

/* A SEND meets the first waiting RECV of its pair, or waits itself: the chain of a pair holds ends of one kind. */
static void meet(hki_traces *traces, pairing *table, uint32_t index)
{
    hki_trace_step *step = &traces->steps[index];
    bool sends = step->verb == HKI_VERB_SEND;
    uint32_t slot = slot_of_message(traces, table, step);
    uint32_t other = table->heads[slot];
    if (other == NO_STEP || (traces->steps[other].verb == HKI_VERB_SEND) == sends) {
        wait_for_end(table, slot, index);
        return;
    }
    table->heads[slot] = table->following[other];
    step->mate = other;
    traces->steps[other].mate = index;
}

static bool pairing_open(pairing *table, uint32_t steps)
{
    uint32_t capacity = 64;
    while (capacity < steps + steps / 2 && capacity < UINT32_C(1) << 31)
        capacity *= 2;
    *table = (pairing){.heads = malloc(capacity * sizeof *table->heads),
                       .tails = malloc(capacity * sizeof *table->tails),
                       .following = malloc(((size_t)steps + 1) * sizeof *table->following),
                       .keys = calloc(capacity, sizeof *table->keys),
                       .mask = capacity - 1};
    return table->heads && table->tails && table->following && table->keys;
}

static void pairing_close(pairing *table)
{
    free(table->heads);
    free(table->tails);
    free(table->following);
    free(table->keys);
}

/* What a rank exchanges with ranks that are not traced: its sends meet its own receives. */
static void mirror(hki_traces *traces, uint32_t index)
{
    uint32_t send = traces->first[index], recv = send, end = traces->first[index + 1];
    for (;;) {
        for (; send < end; send++) {
            const hki_trace_step *step = &traces->steps[send];
            if (step->verb == HKI_VERB_SEND && traced(traces, step->peer) == NO_STEP)
                break;
        }
        for (; recv < end; recv++) {
            const hki_trace_step *step = &traces->steps[recv];
            if (step->verb != HKI_VERB_SEND && is_message(step) && traced(traces, step->peer) == NO_STEP)
                break;
        }
        if (send == end || recv == end)
            return;
        traces->steps[send].mate = recv;
        traces->steps[recv++].mate = send++;
    }
}

static hk_status find_mates(hki_traces *traces, const hki_algorithm *algorithm)
{
    uint32_t steps = hki_traces_steps(traces);
    pairing table;
    bool opened = pairing_open(&table, steps);
    for (uint32_t i = 0; opened && i < steps; i++)
        if (is_message(&traces->steps[i]) && traced(traces, traces->steps[i].peer) != NO_STEP)
            meet(traces, &table, i);
    pairing_close(&table);
    if (!opened)
        return hki_error(HK_ERR_NO_MEMORY, "no memory to price %s", algorithm->name);
    for (uint32_t i = 0; traces->count < traces->ranks && i < traces->count; i++)
        mirror(traces, i);
    for (uint32_t i = 0; i < steps; i++)
        if (is_message(&traces->steps[i]) && traces->steps[i].mate == NO_STEP)
            return hki_error(HK_ERR_INTERNAL, "%s: a message between ranks %u and %u of %u has one end only",
                             algorithm->name, traces->rank[traces->steps[i].rank], traces->steps[i].peer,
                             traces->ranks);
    return HK_OK;
}

/* By a symmetry. HK_ERR_UNSUPPORTED: not all messages have another end so. */
static hk_status find_mates_by_symmetry(hki_traces *traces, const hki_algorithm *algorithm)
{
    uint32_t steps = hki_traces_steps(traces), alone = 0;
    pairing table;
    bool opened = pairing_open(&table, steps);
    for (uint32_t i = 0; i < steps; i++)
        traces->steps[i].mate = NO_STEP;
    for (uint32_t i = 0; opened && i < steps; i++)
        if (is_message(&traces->steps[i]))
            meet(traces, &table, i);
    pairing_close(&table);
    if (!opened)
        return hki_error(HK_ERR_NO_MEMORY, "no memory to price %s", algorithm->name);
    for (uint32_t i = 0; i < steps; i++)
        alone += is_message(&traces->steps[i]) && traces->steps[i].mate == NO_STEP;
    return alone ? HK_ERR_UNSUPPORTED : HK_OK;
}

enum { SYMMETRIES = 4 }; /* rows by shift or exchange, places likewise */

/* Those there may be, by number; false: not of so many ranks. */
static bool symmetry_of(uint32_t ranks, uint32_t width, hki_excerpt excerpt, int number, hki_symmetry *symmetry)
{
    hki_motion row = number & 1 ? HKI_BY_EXCHANGE : HKI_BY_SHIFT, place = number & 2 ? HKI_BY_EXCHANGE : HKI_BY_SHIFT;
    uint32_t rows = ranks / width;
    if (excerpt == HKI_FIRST_PLACES)
        row = HKI_STILL;
    if (excerpt == HKI_FIRST_ROW)
        place = HKI_STILL;
    *symmetry = (hki_symmetry){width, row, place};
    return (row != HKI_BY_EXCHANGE || (rows & (rows - 1)) == 0) &&
           (place != HKI_BY_EXCHANGE || (width & (width - 1)) == 0) && (row != HKI_STILL || !(number & 1)) &&
           (place != HKI_STILL || !(number & 2));
}

/* Which symmetries, as bits, let a rank do what the one traced does that they take to it, with peers so moved. */
static hk_status check_rank(const hki_traces *traces, const hki_algorithm *algorithm, const hki_call *call,
                            uint32_t rank, uint32_t first, const hki_symmetry all[SYMMETRIES], unsigned *possible)
{
    const hki_trace_step *steps = traces->steps + traces->first[first];
    uint32_t count = traces->first[first + 1] - traces->first[first];
    hki_call of_rank = *call;
    hki_builder *writer = NULL;
    const hki_schedule *schedule;
    of_rank.rank = rank;
    of_rank.in_place = HKI_SEPARATE;
    hk_status status = hki_algorithm_look(algorithm, &of_rank, true, &writer, &schedule);
    if (status == HK_OK && schedule->step_count != count)
        *possible = 0;
    for (uint32_t i = 0; status == HK_OK && *possible && i < count; i++) {
        if (steps[i].verb != schedule->steps[i].verb)
            *possible = 0;
        for (int k = 0; k < SYMMETRIES && is_message(&steps[i]); k++)
            if (*possible >> k & 1 && hki_moved(&all[k], traces->ranks, steps[i].peer, rank) != schedule->steps[i].peer)
                *possible &= ~(1u << k);
    }
    hki_builder_free(writer);
    return status;
}

/* Looks at ranks that differ in most bits, and at the ends of the first row; of first places at the last of each row.
 */
static hk_status check_others(const hki_traces *traces, const hki_algorithm *algorithm, const hki_call *call,
                              uint32_t width, hki_excerpt excerpt, const hki_symmetry all[SYMMETRIES],
                              unsigned *possible)
{
    uint32_t rows = traces->ranks / width;
    const uint32_t looked_at[] = {rows / 2 * width, traces->ranks - 1, width / 2};
    hk_status status = HK_OK;
    uint32_t others = excerpt == HKI_FIRST_RANK ? 3 : excerpt == HKI_FIRST_ROW ? 2 : 0;
    for (uint32_t i = 0; i < others && *possible && status == HK_OK; i++) {
        uint32_t first = excerpt == HKI_FIRST_ROW ? looked_at[i] % width : 0;
        status = check_rank(traces, algorithm, call, looked_at[i], first, all, possible);
    }
    for (uint32_t row = 0; row < rows && excerpt == HKI_FIRST_PLACES && *possible && status == HK_OK; row++)
        status = check_rank(traces, algorithm, call, (row + 1) * width - 1, row, all, possible);
    return status;
}

static hk_status find_symmetry(hki_traces *traces, const hki_algorithm *algorithm, const hki_call *call, uint32_t width,
                               hki_excerpt excerpt)
{
    hki_symmetry all[SYMMETRIES];
    unsigned possible = 0;
    for (int i = 0; i < SYMMETRIES; i++)
        possible |= symmetry_of(traces->ranks, width, excerpt, i, &all[i]) ? 1u << i : 0;
    HK_TRY(check_others(traces, algorithm, call, width, excerpt, all, &possible));
    for (int i = 0; i < SYMMETRIES; i++) {
        traces->symmetry = all[i];
        hk_status status = possible >> i & 1 ? find_mates_by_symmetry(traces, algorithm) : HK_ERR_UNSUPPORTED;
        if (status != HK_ERR_UNSUPPORTED)
            return status;
    }
    return hki_error(HK_ERR_UNSUPPORTED, "%s: no part of the ranks tells what all do", algorithm->name);
}

/* ---- making ---- */

static hk_status add_all(builder *to, const hki_algorithm *algorithm, const hki_call *call)
{
    hki_call of_rank = *call;
    hki_builder *writer = NULL;
    hk_status status = HK_OK;
    of_rank.in_place = HKI_SEPARATE;
    for (uint32_t i = 0; i < to->traces->count && status == HK_OK; i++) {
        const hki_schedule *schedule;
        of_rank.rank = to->traces->rank[i];
        status = hki_algorithm_look(algorithm, &of_rank, false, &writer, &schedule);
        if (status == HK_OK && !add_rank(to, schedule, i))
            status = hki_error(HK_ERR_NO_MEMORY, "no memory to price %s among %u ranks", algorithm->name, call->ranks);
    }
    hki_builder_free(writer);
    return status;
}

/* The traces of the ranks that are listed, or of the first; messages have no other end yet. */
static hk_status make(const hki_algorithm *algorithm, const hki_call *call, const uint32_t *ranks, uint32_t count,
                      hki_traces **result)
{
    hki_traces *traces = calloc(1, sizeof *traces);
    builder to = {.traces = traces};
    if (traces) {
        *traces = (hki_traces){.ranks = call->ranks,
                               .count = count,
                               .rank = malloc(count * sizeof *traces->rank),
                               .first = calloc((size_t)count + 1, sizeof *traces->first)};
    }
    hk_status status = traces && traces->rank && traces->first
                           ? HK_OK
                           : hki_error(HK_ERR_NO_MEMORY, "no memory to price %s", algorithm->name);
    for (uint32_t i = 0; i < count && status == HK_OK; i++)
        traces->rank[i] = ranks ? ranks[i] : i;
    if (status == HK_OK)
        status = add_all(&to, algorithm, call);
    if (status != HK_OK) {
        hki_traces_free(traces);
        return status;
    }
    traces->bytes = sizeof *traces + count * 2 * sizeof(uint32_t) + to.step_capacity * sizeof(hki_trace_step) +
                    to.successor_capacity * sizeof(uint32_t);
    *result = traces;
    return HK_OK;
}

static hk_status keep(hki_traces *made, hk_status status, hki_traces **traces)
{
    if (status == HK_OK)
        *traces = made;
    else
        hki_traces_free(made);
    return status;
}

hk_status hki_traces_new(const hki_algorithm *algorithm, const hki_call *call, const uint32_t *ranks, uint32_t count,
                         hki_traces **traces)
{
    hki_traces *made = NULL;
    HK_TRY(make(algorithm, call, ranks, count, &made));
    return keep(made, find_mates(made, algorithm), traces);
}

hk_status hki_traces_new_excerpt(const hki_algorithm *algorithm, const hki_call *call, uint32_t width,
                                 hki_excerpt excerpt, hki_traces **traces)
{
    uint32_t rows = call->ranks / width, *firsts = NULL;
    uint32_t count = excerpt == HKI_FIRST_ROW ? width : excerpt == HKI_FIRST_PLACES ? rows : 1;
    hki_traces *made = NULL;
    if (excerpt == HKI_FIRST_PLACES) {
        firsts = malloc(rows * sizeof *firsts);
        if (!firsts)
            return hki_error(HK_ERR_NO_MEMORY, "no memory to price %s", algorithm->name);
        for (uint32_t row = 0; row < rows; row++)
            firsts[row] = row * width;
    }
    hk_status status = make(algorithm, call, firsts, count, &made);
    free(firsts);
    HK_TRY(status);
    return keep(made, find_symmetry(made, algorithm, call, width, excerpt), traces);
}

/* ---- lengths ---- */

/* The length of any block in bytes if all are as long, or are to be taken so; 0: they differ. */
static uint64_t equal_blocks(const hki_traces *traces, const hki_sizes *sizes, unsigned of)
{
    const hki_grid *grid = &traces->grid[of];
    if (grid->cut == HKI_CUT_NONE)
        return 0;
    bool shares = grid->cut == HKI_CUT_COUNTS || grid->cut == HKI_CUT_ONE;
    if (shares && grid->segments == 1)
        return sizes->count * sizes->element_bytes;
    if (traces->count == traces->ranks)
        return 0;
    uint64_t blocks = shares ? grid->segments : hki_grid_blocks(grid);
    uint64_t bytes = sizes->count * sizes->element_bytes;
    return bytes ? (bytes + blocks - 1) / blocks : 0;
}

static uint64_t range_bytes(const hki_layout *layout, const hki_range *range, uint32_t element_bytes)
{
    uint64_t elements = 0;
    for (uint32_t i = 0, first, count; hki_range_next(range, &i, &first, &count);)
        elements += hki_layout_edge(layout, first + count) - hki_layout_edge(layout, first);
    return elements * element_bytes;
}

/* What is cut on lines has at least one, or nothing: where lengths are equalised, all have one. */
static uint64_t at_least_a_line(const hki_traces *traces, const hki_sizes *sizes, unsigned of, uint64_t bytes)
{
    enum { LINE = 64 };
    const hki_grid *grid = &traces->grid[of];
    uint64_t whole = sizes->count * sizes->element_bytes;
    if (traces->count == traces->ranks || (grid->cut != HKI_CUT_EVEN && grid->cut != HKI_CUT_FRACTION))
        return bytes;
    uint64_t least = whole < LINE ? whole : LINE;
    bytes = bytes < least ? least : bytes;
    return bytes < whole ? bytes : whole;
}

uint64_t hki_step_bytes(const hki_step *step, const hki_layout layout[2], uint32_t element_bytes)
{
    const hki_span *span = length_of(step);
    return span->blocks.count ? range_bytes(&layout[span->of], &span->blocks, element_bytes) : 0;
}

void hki_traces_measure(const hki_traces *traces, const hki_sizes *sizes, uint64_t *bytes, uint64_t *mean)
{
    const hki_schedule cuts = {.grid = {traces->grid[0], traces->grid[1]}};
    hki_layout layout[2];
    uint64_t block[2];
    for (unsigned i = 0; i < 2; i++) {
        hki_layout_init(&layout[i], &cuts, sizes, i);
        block[i] = equal_blocks(traces, sizes, i);
    }
    uint32_t steps = hki_traces_steps(traces);
    for (uint32_t i = 0; i < steps; i++) {
        const hki_trace_step *step = &traces->steps[i];
        if (step->signal || sizes->count == 0)
            mean[i] = 0;
        else if (block[step->of])
            mean[i] = block[step->of] * step->blocks.count;
        else
            mean[i] = range_bytes(&layout[step->of], &step->blocks, sizes->element_bytes);
        bytes[i] = mean[i] && block[step->of] ? at_least_a_line(traces, sizes, step->of, mean[i]) : mean[i];
    }
    /* A rank may send more or less than it receives: what arrives is as long as what it stands for. */
    for (uint32_t i = 0; traces->count < traces->ranks && i < steps; i++)
        if (is_message(&traces->steps[i]) && traces->steps[i].verb != HKI_VERB_SEND)
            bytes[i] = bytes[traces->steps[i].mate];
}

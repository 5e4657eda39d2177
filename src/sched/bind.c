#include "sched/bind.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sched/intervals.h"
#include "sched/layout.h"

/* What is known while one schedule is bound. */
typedef struct binding {
    const hki_schedule *schedule;
    const hki_sizes *sizes;
    hki_layout layout[2];
    uint64_t *starts[2]; /* sums of per-part counts */
    uint64_t *slots;     /* sizes of the scratch slots, then their offsets */
    uint64_t *bytes;     /* length of each step */
    uint32_t *kept;      /* number of each step in the bound program; HKI_NO_STEP: dropped */
    uint32_t kept_count;
    uint64_t piece_limit; /* no fewer than the pieces needed */
    uint64_t scratch_bytes;
    hki_numbers waits;   /* only if steps are dropped: what each step waits for, dropped ones replaced … */
    uint32_t *wait_ends; /* … step s's being waits[wait_ends[s - 1] …) up to wait_ends[s] */
} binding;

/* Working memory that a small schedule takes from the stack. */
typedef struct workspace {
    size_t used;
    char *memory, *heap;
    uint64_t stack[512];
} workspace;

/* ---- spans as pieces ---- */

/* Walks the pieces of a span that are not empty, adjacent ones merged. */
typedef struct cursor {
    const binding *bind;
    const hki_span *span;
    uint32_t position;    /* in the range */
    uint32_t block, left; /* rest of the current run of blocks */
    bool packed_taken;
    hki_piece piece; /* the current one; bytes == 0: the end */
    hki_piece ahead; /* the first raw piece behind it; bytes == 0: none */
} cursor;

static bool is_packed(const hki_span *span)
{
    return span->buffer == HKI_SCRATCH && span->slots == 1;
}

static uint64_t blocks_bytes(const binding *bind, unsigned of, uint32_t first, uint32_t count)
{
    const hki_layout *layout = &bind->layout[of];
    return (hki_layout_edge(layout, first + count) - hki_layout_edge(layout, first)) * bind->sizes->element_bytes;
}

static uint64_t span_bytes(const binding *bind, const hki_span *span)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0, first, count; hki_range_next(&span->blocks, &i, &first, &count);)
        bytes += blocks_bytes(bind, span->of, first, count);
    return bytes;
}

/* The next piece that is not empty, not merged; bytes == 0 at the end. */
static hki_piece raw_piece(cursor *at)
{
    const hki_span *span = at->span;
    const binding *bind = at->bind;
    if (is_packed(span)) {
        bool taken = at->packed_taken;
        at->packed_taken = true;
        return taken ? (hki_piece){0} : (hki_piece){bind->slots[span->slot], span_bytes(bind, span), HKI_SCRATCH};
    }
    while (at->left || hki_range_next(&span->blocks, &at->position, &at->block, &at->left)) {
        uint32_t block = at->block;
        uint32_t count = span->buffer == HKI_SCRATCH ? 1 : hki_layout_run(&bind->layout[span->of], block, at->left);
        uint64_t bytes = blocks_bytes(bind, span->of, block, count);
        at->block += count;
        at->left -= count;
        if (bytes == 0)
            continue;
        uint64_t offset = span->buffer == HKI_SCRATCH
                              ? bind->slots[span->slot + block - span->blocks.base]
                              : hki_layout_place(&bind->layout[span->of], block) * bind->sizes->element_bytes;
        return (hki_piece){offset, bytes, span->buffer};
    }
    return (hki_piece){0};
}

static void advance(cursor *at)
{
    at->piece = at->ahead;
    if (at->piece.bytes == 0)
        return;
    for (;;) {
        at->ahead = raw_piece(at);
        if (at->ahead.bytes == 0 || at->ahead.offset != at->piece.offset + at->piece.bytes)
            return;
        at->piece.bytes += at->ahead.bytes;
    }
}

static cursor begin(const binding *bind, const hki_span *span)
{
    cursor at = {.bind = bind, .span = span};
    at.ahead = raw_piece(&at);
    advance(&at);
    return at;
}

/* Takes `bytes` from the current piece. */
static hki_piece take(cursor *at, uint64_t bytes)
{
    hki_piece taken = {at->piece.offset, bytes, at->piece.base};
    at->piece.offset += bytes;
    at->piece.bytes -= bytes;
    if (at->piece.bytes == 0)
        advance(at);
    return taken;
}

/* No fewer than the pieces of a span. */
static uint64_t piece_limit(const binding *bind, const hki_span *span)
{
    if (is_packed(span))
        return 1;
    if (span->buffer == HKI_SCRATCH || bind->layout[span->of].displacements)
        return span->blocks.count;
    uint64_t runs = 0;
    for (uint32_t i = 0, first, count; hki_range_next(&span->blocks, &i, &first, &count);)
        runs++;
    return runs;
}

/* ---- first pass: lengths ---- */

/* Enlarges the slots that a span uses to what lies in them. */
static void size_slots(binding *bind, const hki_span *span, uint64_t bytes)
{
    if (span->buffer != HKI_SCRATCH || span->blocks.count == 0)
        return;
    if (is_packed(span)) {
        if (bind->slots[span->slot] < bytes)
            bind->slots[span->slot] = bytes;
        return;
    }
    for (uint32_t i = 0, first, count; hki_range_next(&span->blocks, &i, &first, &count);)
        for (uint32_t block = first; block < first + count; block++) {
            uint64_t *slot = &bind->slots[span->slot + block - span->blocks.base];
            uint64_t block_bytes = blocks_bytes(bind, span->of, block, 1);
            if (*slot < block_bytes)
                *slot = block_bytes;
        }
}

/* Where a step's operands are: destination first where it has one, then sources. */
static const hki_span *operand_of(const hki_schedule *schedule, const hki_step *step, uint32_t operand)
{
    bool writes = step->verb != HKI_VERB_SEND;
    if (writes && operand == 0)
        return &step->destination;
    return step->verb == HKI_VERB_REDUCE ? &schedule->sources[step->first_source + operand - 1] : &step->source;
}

static uint32_t operand_count(const hki_step *step)
{
    switch ((hki_verb)step->verb) {
    case HKI_VERB_SEND:
    case HKI_VERB_RECV:
        return 1;
    case HKI_VERB_COPY:
    case HKI_VERB_RECV_REDUCE:
        return 2;
    case HKI_VERB_REDUCE:
        break;
    }
    return step->source_count + 1;
}

/* Measures a step, and whether it stays: without length only signals do. */
static hk_status measure_step(binding *bind, uint32_t index)
{
    const hki_step *step = &bind->schedule->steps[index];
    uint32_t operands = operand_count(step);
    uint64_t edges = 1, length = 0;
    for (uint32_t i = 0; i < operands; i++) {
        const hki_span *span = operand_of(bind->schedule, step, i);
        uint64_t bytes = span_bytes(bind, span);
        if (i > 0 && bytes != length)
            return hki_error(HK_ERR_INTERNAL,
                             "operand %u of step %u on rank %u of %u has %llu bytes where the others have %llu", i,
                             index, bind->schedule->rank, bind->schedule->ranks, (unsigned long long)bytes,
                             (unsigned long long)length);
        length = bytes;
        size_slots(bind, span, bytes);
        uint64_t pieces = piece_limit(bind, span);
        edges += pieces ? pieces - 1 : 0;
    }
    bool signal = operand_of(bind->schedule, step, 0)->blocks.count == 0 && operands == 1;
    bind->bytes[index] = length;
    bind->kept[index] = length || signal ? bind->kept_count++ : HKI_NO_STEP;
    if (length)
        bind->piece_limit += edges * operands;
    return HK_OK;
}

/* Slots begin on cache lines: turns their sizes into offsets. */
static hk_status place_slots(binding *bind)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < bind->schedule->slots; i++) {
        uint64_t bytes = bind->slots[i];
        bind->slots[i] = offset;
        offset += (bytes + 63) & ~UINT64_C(63);
        if (bytes > INT64_MAX || offset > INT64_MAX)
            return hki_error(HK_ERR_COUNT, "scratch memory of rank %u would exceed 2^63 bytes", bind->schedule->rank);
    }
    bind->scratch_bytes = offset;
    return HK_OK;
}

static hk_status measure(binding *bind)
{
    for (uint32_t i = 0; i < bind->schedule->step_count; i++)
        HK_TRY(measure_step(bind, i));
    return place_slots(bind);
}

/* ---- dependencies ---- */

/* What a step waits for, by the schedule's numbers. */
static const uint32_t *waits_of(const binding *bind, uint32_t step, uint32_t *count)
{
    if (!bind->wait_ends) {
        *count = bind->schedule->steps[step].dep_count;
        return bind->schedule->deps + bind->schedule->steps[step].first_dep;
    }
    uint32_t first = step ? bind->wait_ends[step - 1] : 0;
    *count = bind->wait_ends[step] - first;
    return bind->waits.items + first;
}

static bool wait_once(binding *bind, uint32_t *waiter, uint32_t step, uint32_t dep)
{
    if (waiter[dep] == step + 1)
        return true;
    waiter[dep] = step + 1;
    return hki_numbers_add(&bind->waits, dep);
}

/* Replaces dropped steps, in what the others wait for, by what those waited for. */
static bool bridge_dropped(binding *bind, uint32_t *ends, uint32_t *waiter)
{
    const hki_schedule *schedule = bind->schedule;
    bind->wait_ends = ends;
    memset(waiter, 0, schedule->step_count * sizeof *waiter);
    for (uint32_t s = 0; s < schedule->step_count; s++) {
        const hki_step *step = &schedule->steps[s];
        for (uint32_t i = 0; i < step->dep_count; i++) {
            uint32_t dep = schedule->deps[step->first_dep + i], count = 0;
            if (bind->kept[dep] != HKI_NO_STEP) {
                if (!wait_once(bind, waiter, s, dep))
                    return false;
                continue;
            }
            waits_of(bind, dep, &count);
            uint32_t first = dep ? ends[dep - 1] : 0;
            for (uint32_t k = 0; k < count; k++)
                if (!wait_once(bind, waiter, s, bind->waits.items[first + k]))
                    return false;
        }
        ends[s] = bind->waits.count;
    }
    return true;
}

static uint32_t count_waits(const binding *bind)
{
    uint32_t total = 0, count;
    for (uint32_t s = 0; s < bind->schedule->step_count; s++)
        if (bind->kept[s] != HKI_NO_STEP) {
            waits_of(bind, s, &count);
            total += count;
        }
    return total;
}

/* Turns "waits for" round into successors. */
static void link_successors(const binding *bind, hki_bound *bound)
{
    uint32_t count, steps = bind->schedule->step_count;
    for (uint32_t s = 0; s < steps; s++) {
        if (bind->kept[s] == HKI_NO_STEP)
            continue;
        const uint32_t *waits = waits_of(bind, s, &count);
        bound->steps[bind->kept[s]].waits = count;
        for (uint32_t i = 0; i < count; i++)
            bound->steps[bind->kept[waits[i]]].successor_count++;
    }
    uint32_t first = 0;
    for (uint32_t i = 0; i < bound->step_count; i++) {
        bound->steps[i].first_successor = first;
        first += bound->steps[i].successor_count;
        bound->steps[i].successor_count = 0;
    }
    for (uint32_t s = 0; s < steps; s++) {
        if (bind->kept[s] == HKI_NO_STEP)
            continue;
        const uint32_t *waits = waits_of(bind, s, &count);
        for (uint32_t i = 0; i < count; i++) {
            hki_bound_step *dep = &bound->steps[bind->kept[waits[i]]];
            bound->successors[dep->first_successor + dep->successor_count++] = bind->kept[s];
        }
    }
}

/* ---- second pass: pieces ---- */

/* Cuts all operands at common edges, stores the pieces of operand k from pieces[k · stride] on (with pieces == NULL it
 * only counts), and returns how many each has. `at` are cursors at the beginning. */
static uint32_t cut_together(cursor *at, uint32_t operands, hki_piece *pieces, uint32_t stride)
{
    uint32_t count = 0;
    for (; at[0].piece.bytes; count++) {
        uint64_t bytes = at[0].piece.bytes;
        for (uint32_t k = 1; k < operands; k++)
            if (at[k].piece.bytes < bytes)
                bytes = at[k].piece.bytes;
        for (uint32_t k = 0; k < operands; k++) {
            hki_piece piece = take(&at[k], bytes);
            if (pieces)
                pieces[(size_t)k * stride + count] = piece;
        }
    }
    return count;
}

/* Stores the pieces of a step from pieces[next] on; returns the number behind them. */
static uint32_t place_pieces(const binding *bind, const hki_step *step, hki_bound_step *bound, hki_piece *pieces,
                             uint32_t next, cursor *cursors)
{
    uint32_t operands = operand_count(step);
    bool single = true;
    for (uint32_t k = 0; k < operands; k++) {
        cursors[k] = begin(bind, operand_of(bind->schedule, step, k));
        single = single && cursors[k].ahead.bytes == 0;
    }
    uint32_t stride = 1;
    if (operands > 1 && !single) {
        stride = cut_together(cursors, operands, NULL, 0);
        for (uint32_t k = 0; k < operands; k++)
            cursors[k] = begin(bind, operand_of(bind->schedule, step, k));
    }
    uint32_t each = cut_together(cursors, operands, pieces + next, stride), sources = operands - 1;
    bound->destination_count = each;
    bound->destination = next;
    bound->source = next + each;
    bound->source_count = each * sources;
    if (step->verb == HKI_VERB_SEND) {
        bound->source = next;
        bound->source_count = each;
        bound->destination_count = 0;
        sources = 1;
    }
    bound->operands = sources;
    return next + each * operands;
}

static uint32_t most_operands(const hki_schedule *schedule)
{
    uint32_t most = 2;
    for (uint32_t i = 0; schedule->source_count && i < schedule->step_count; i++)
        if (operand_count(&schedule->steps[i]) > most)
            most = operand_count(&schedule->steps[i]);
    return most;
}

static void fill_steps(const binding *bind, hki_bound *bound, cursor *cursors)
{
    uint32_t next = 0;
    for (uint32_t s = 0; s < bind->schedule->step_count; s++) {
        if (bind->kept[s] == HKI_NO_STEP)
            continue;
        const hki_step *step = &bind->schedule->steps[s];
        hki_bound_step *out = &bound->steps[bind->kept[s]];
        *out = (hki_bound_step){.verb = step->verb, .flags = step->flags, .peer = step->peer, .ordinal = step->ordinal};
        out->bytes = bind->bytes[s];
        next = place_pieces(bind, step, out, bound->pieces, next, cursors);
        bool message = step->verb != HKI_VERB_COPY && step->verb != HKI_VERB_REDUCE;
        if (message && out->bytes > bound->largest_message)
            bound->largest_message = out->bytes;
    }
    bound->piece_count = next;
}

/* ---- the whole ---- */

/* Takes `bytes` from the workspace, or, before it has been opened, only adds them up. */
static void *work(workspace *space, size_t bytes)
{
    char *at = space->memory ? space->memory + space->used : NULL;
    space->used += (bytes + 7) & ~(size_t)7;
    return at;
}

static size_t starts_bytes(const hki_layout *layout)
{
    return layout->counts && !layout->starts ? ((size_t)layout->grid->parts + 1) * sizeof(uint64_t) : 0;
}

/* Hands out all working memory; called once to measure it and once to take it. */
static void lay_out(binding *bind, workspace *space, cursor **cursors, uint32_t **scratch)
{
    size_t steps = bind->schedule->step_count;
    bind->starts[0] = work(space, starts_bytes(&bind->layout[0]));
    bind->starts[1] = work(space, starts_bytes(&bind->layout[1]));
    bind->slots = work(space, bind->schedule->slots * sizeof *bind->slots);
    bind->bytes = work(space, steps * sizeof *bind->bytes);
    *cursors = work(space, most_operands(bind->schedule) * sizeof **cursors);
    bind->kept = work(space, steps * sizeof *bind->kept);
    *scratch = work(space, 2 * steps * sizeof **scratch);
}

static hk_status open_workspace(binding *bind, workspace *space, cursor **cursors, uint32_t **scratch)
{
    lay_out(bind, space, cursors, scratch);
    space->memory = (char *)space->stack;
    if (space->used > sizeof space->stack) {
        space->heap = malloc(space->used);
        if (!space->heap)
            return hki_error(HK_ERR_NO_MEMORY, "no memory to bind a schedule of %u steps", bind->schedule->step_count);
        space->memory = space->heap;
    }
    space->used = 0;
    lay_out(bind, space, cursors, scratch);
    if (bind->schedule->slots)
        memset(bind->slots, 0, bind->schedule->slots * sizeof *bind->slots);
    return HK_OK;
}

static hk_status open_layouts(binding *bind)
{
    static const char *const names[2] = {"input", "output"};
    for (unsigned i = 0; i < 2; i++)
        if (!hki_layout_fits(&bind->layout[i], bind->sizes->element_bytes))
            return hki_error(HK_ERR_COUNT, "the %s of rank %u would exceed 2^63 bytes", names[i], bind->schedule->rank);
    for (unsigned i = 0; i < 2; i++) {
        if (!bind->layout[i].counts)
            continue;
        uint64_t sum = 0;
        for (uint32_t part = 0; part < bind->layout[i].grid->parts; part++) {
            bind->starts[i][part] = sum;
            sum += bind->layout[i].counts[part];
        }
        bind->starts[i][bind->layout[i].grid->parts] = sum;
        bind->layout[i].starts = bind->starts[i];
    }
    return HK_OK;
}

/* One allocation: the object, its steps, pieces and successors. */
static hki_bound *allocate(const binding *bind, uint32_t waits)
{
    if (bind->piece_limit > UINT32_MAX)
        return NULL;
    size_t bytes = sizeof(hki_bound) + bind->kept_count * sizeof(hki_bound_step) +
                   (size_t)bind->piece_limit * sizeof(hki_piece) + waits * sizeof(uint32_t);
    hki_bound *bound = malloc(bytes);
    if (!bound)
        return NULL;
    *bound = (hki_bound){.step_count = bind->kept_count, .scratch_bytes = bind->scratch_bytes, .memory = bytes};
    bound->steps = (hki_bound_step *)(bound + 1);
    bound->pieces = (hki_piece *)(bound->steps + bind->kept_count);
    bound->successors = (uint32_t *)(bound->pieces + bind->piece_limit);
    return bound;
}

static hk_status bind_in(binding *bind, cursor *cursors, uint32_t *scratch, hki_bound **result)
{
    uint32_t steps = bind->schedule->step_count;
    HK_TRY(open_layouts(bind));
    HK_TRY(measure(bind));
    bool bridged = bind->kept_count == steps || bridge_dropped(bind, scratch, scratch + steps);
    hki_bound *bound = bridged ? allocate(bind, count_waits(bind)) : NULL;
    if (!bound)
        return hki_error(HK_ERR_NO_MEMORY, "no memory to bind a schedule of %u steps", steps);
    fill_steps(bind, bound, cursors);
    link_successors(bind, bound);
    *result = bound;
    return HK_OK;
}

hk_status hki_bind(const hki_schedule *schedule, const hki_sizes *sizes, hki_bound **bound)
{
    binding bind = {.schedule = schedule, .sizes = sizes};
    hki_layout_init(&bind.layout[0], schedule, sizes, HKI_INPUT);
    hki_layout_init(&bind.layout[1], schedule, sizes, HKI_OUTPUT);
    workspace space;
    space.used = 0;
    space.memory = NULL;
    space.heap = NULL;
    cursor *cursors;
    uint32_t *scratch;
    hk_status status = open_workspace(&bind, &space, &cursors, &scratch);
    if (status == HK_OK)
        status = bind_in(&bind, cursors, scratch, bound);
    hki_numbers_free(&bind.waits);
    free(space.heap);
    return status;
}

void hki_bound_free(hki_bound *bound)
{
    free(bound);
}

#include "sched/builder.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sched/counters.h"
#include "sched/intervals.h"

/* What the builder knows of a step beside the step itself. Steps that no later step waits for yet form a ring, from
 * which a fence takes its dependencies: note 0 is its head, step s has note s + 1, and a note outside the ring points
 * to itself. */
typedef struct note {
    uint32_t previous, next;
    uint32_t waiter; /* the last step + 1 that was found to wait for this one: avoids naming it twice */
    uint32_t depth;  /* longest chain of messages that ends with this step */
} note;

struct hki_builder {
    hki_shape shape;
    hki_schedule *schedule; /* steps, sources and deps grow in it */
    uint32_t step_capacity, source_capacity, dep_capacity;
    hki_intervals touched[3];               /* by hki_buffer; INPUT blocks that lie in OUTPUT are looked up there */
    hki_numbers input_reads, output_writes; /* all of them, where the buffers overlap as a whole */
    hki_counters counters;
    hki_numbers by_verb[5]; /* steps of each verb, for windows */
    note *notes;
    uint32_t note_capacity;
    hki_numbers before; /* what the step being added waits for */
    uint32_t window;    /* of the next step; 0: none */
    bool fence;         /* the next step waits for all */
    bool loose;         /* no step waits for another: hki_builder_loose */
    hk_status status;
};

void hki_builder_no_memory(hki_builder *builder)
{
    if (builder->status == HK_OK)
        builder->status = hki_error(HK_ERR_NO_MEMORY, "no memory for a schedule of %u steps among %u ranks",
                                    builder->schedule->step_count, builder->shape.ranks);
}

/* Copies the edges of a grid, which the schedule will own. */
static bool copy_edges(hki_grid *grid)
{
    if (grid->cut != HKI_CUT_FRACTION) {
        grid->edges = NULL;
        return true;
    }
    size_t bytes = ((size_t)grid->parts + 1) * sizeof *grid->edges;
    hki_fraction *edges = malloc(bytes);
    if (edges)
        memcpy(edges, grid->edges, bytes);
    grid->edges = edges;
    return edges != NULL;
}

void hki_builder_free(hki_builder *builder)
{
    if (!builder)
        return;
    for (int i = 0; i < 3; i++)
        hki_intervals_free(&builder->touched[i]);
    for (int i = 0; i < 5; i++)
        hki_numbers_free(&builder->by_verb[i]);
    hki_numbers_free(&builder->input_reads);
    hki_numbers_free(&builder->output_writes);
    hki_numbers_free(&builder->before);
    hki_counters_free(&builder->counters);
    free(builder->notes);
    hki_schedule_free(builder->schedule);
    free(builder);
}

/* An empty schedule of this shape in the memory of the one before. */
static void clear(hki_builder *builder, const hki_shape *shape)
{
    hki_schedule *schedule = builder->schedule;
    for (int i = 0; i < 3; i++)
        hki_intervals_clear(&builder->touched[i]);
    for (int i = 0; i < 5; i++)
        builder->by_verb[i].count = 0;
    builder->input_reads.count = builder->output_writes.count = builder->before.count = 0;
    hki_counters_clear(&builder->counters);
    builder->notes[0] = (note){0};
    builder->window = 0;
    builder->fence = builder->loose = false;
    builder->status = HK_OK;
    *schedule = (hki_schedule){.collective = shape->collective,
                               .ranks = shape->ranks,
                               .rank = shape->rank,
                               .root = shape->root,
                               .grid = {builder->shape.grid[0], builder->shape.grid[1]},
                               .alias = shape->alias,
                               .linear = true,
                               .steps = schedule->steps,
                               .sources = schedule->sources,
                               .deps = schedule->deps};
}

bool hki_builder_renew(hki_builder *builder, const hki_shape *shape)
{
    for (int i = 0; i < 2; i++)
        free((void *)(uintptr_t)builder->schedule->grid[i].edges);
    builder->shape = *shape;
    bool copied = copy_edges(&builder->shape.grid[0]);
    copied = copy_edges(&builder->shape.grid[1]) && copied;
    clear(builder, shape);
    return copied;
}

hki_builder *hki_builder_new(const hki_shape *shape)
{
    hki_builder *builder = calloc(1, sizeof *builder);
    if (!builder)
        return NULL;
    for (int i = 0; i < 3; i++)
        hki_intervals_init(&builder->touched[i]);
    builder->schedule = calloc(1, sizeof *builder->schedule);
    builder->notes = calloc(1, sizeof *builder->notes);
    builder->note_capacity = 1;
    if (!builder->schedule || !builder->notes || !hki_builder_renew(builder, shape)) {
        hki_builder_free(builder);
        return NULL;
    }
    return builder;
}

const hki_shape *hki_builder_shape(const hki_builder *builder)
{
    return &builder->shape;
}

uint32_t hki_scratch_slots(hki_builder *builder, uint32_t count)
{
    uint32_t first = builder->schedule->slots;
    builder->schedule->slots += count;
    return first;
}

uint32_t hki_scratch_slot(hki_builder *builder)
{
    return hki_scratch_slots(builder, 1);
}

/* ---- what a step touches ---- */

static bool add_all(hki_numbers *to, const hki_numbers *from)
{
    for (uint32_t i = 0; i < from->count; i++)
        if (!hki_numbers_add(to, from->items[i]))
            return false;
    return true;
}

static bool touch_interval(hki_builder *builder, unsigned space, uint32_t first, uint32_t count, uint32_t step,
                           bool write)
{
    hki_intervals *map = &builder->touched[space];
    return write ? hki_intervals_write(map, first, count, step, &builder->before)
                 : hki_intervals_read(map, first, count, step, &builder->before);
}

/* A read of INPUT matters only where the same bytes may be written as OUTPUT. */
static bool read_input(hki_builder *builder, uint32_t first, uint32_t count, uint32_t step)
{
    const hki_alias *alias = &builder->shape.alias;
    uint64_t begin = first > alias->input ? first : alias->input;
    uint64_t end = (uint64_t)first + count, alias_end = (uint64_t)alias->input + alias->count;
    if (end > alias_end)
        end = alias_end;
    if (begin >= end)
        return true;
    return touch_interval(builder, HKI_OUTPUT, alias->output + (uint32_t)begin - alias->input, (uint32_t)(end - begin),
                          step, false);
}

/* Where INPUT and OUTPUT overlap in an unknown way, every read of the one conflicts with every write of the other. */
static bool touch_overlap(hki_builder *builder, unsigned buffer, uint32_t step, bool write)
{
    if (!builder->shape.alias.whole || buffer == HKI_SCRATCH)
        return true;
    if (buffer == HKI_INPUT)
        return hki_numbers_add(&builder->input_reads, step) && add_all(&builder->before, &builder->output_writes);
    return !write ||
           (hki_numbers_add(&builder->output_writes, step) && add_all(&builder->before, &builder->input_reads));
}

static bool touch(hki_builder *builder, const hki_span *span, uint32_t step, bool write)
{
    if (span->blocks.count == 0)
        return true;
    if (!touch_overlap(builder, span->buffer, step, write))
        return false;
    if (span->buffer == HKI_SCRATCH && span->slots == 1)
        return touch_interval(builder, HKI_SCRATCH, span->slot, 1, step, write);
    bool aliased = !builder->shape.alias.whole && builder->shape.alias.count > 0;
    if (span->buffer == HKI_INPUT && !aliased)
        return true;
    uint32_t offset = span->buffer == HKI_SCRATCH ? span->slot - span->blocks.base : 0;
    for (uint32_t i = 0, first, count; hki_range_next(&span->blocks, &i, &first, &count);)
        if (!(span->buffer == HKI_INPUT ? read_input(builder, first, count, step)
                                        : touch_interval(builder, span->buffer, first + offset, count, step, write)))
            return false;
    return true;
}

/* ---- adding a step ---- */

static bool check_span(hki_builder *builder, const hki_span *span, const char *role)
{
    const char *fault = hki_span_fault(builder->shape.grid, builder->schedule->slots, span);
    if (fault)
        builder->status =
            hki_error(HK_ERR_INTERNAL,
                      "the %s of step %u on rank %u of %u %s (blocks %u + %u of ring "
                      "%u + %u, slot %u)",
                      role, builder->schedule->step_count, builder->shape.rank, builder->shape.ranks, fault,
                      span->blocks.first, span->blocks.count, span->blocks.base, span->blocks.wrap, span->slot);
    return !fault;
}

/* Makes room for one more step. */
static bool reserve_step(hki_builder *builder)
{
    hki_schedule *schedule = builder->schedule;
    uint64_t needed = (uint64_t)schedule->step_count + 1;
    hki_step *steps = hki_grow(schedule->steps, &builder->step_capacity, needed, sizeof *steps);
    if (!steps)
        return false;
    schedule->steps = steps;
    note *notes = hki_grow(builder->notes, &builder->note_capacity, needed + 1, sizeof *notes);
    if (!notes)
        return false;
    builder->notes = notes;
    return true;
}

/* The steps that a fence or a window makes the next step wait for. */
static bool wait_as_asked(hki_builder *builder, hki_verb verb)
{
    const hki_numbers *same = &builder->by_verb[verb];
    if (builder->window && builder->window <= same->count &&
        !hki_numbers_add(&builder->before, same->items[same->count - builder->window]))
        return false;
    for (uint32_t at = builder->notes[0].next; builder->fence && at; at = builder->notes[at].next)
        if (!hki_numbers_add(&builder->before, at - 1))
            return false;
    builder->window = 0;
    builder->fence = false;
    return true;
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

/* Most lists are of two or three, and nearly in order. */
static void sort_numbers(uint32_t *items, uint32_t count)
{
    enum { FEW = 16 };
    if (count > FEW) {
        qsort(items, count, sizeof *items, compare_numbers);
        return;
    }
    for (uint32_t i = 1; i < count; i++) {
        uint32_t moved = items[i], k = i;
        for (; k > 0 && items[k - 1] > moved; k--)
            items[k] = items[k - 1];
        items[k] = moved;
    }
}

static bool waits_for(const hki_schedule *schedule, uint32_t step, uint32_t dep)
{
    const hki_step *at = &schedule->steps[step];
    for (uint32_t i = 0; i < at->dep_count; i++)
        if (schedule->deps[at->first_dep + i] == dep)
            return true;
    return false;
}

/* Leaves out dependencies that another one waits for anyway: every one costs the executor time in every call. Long
 * lists, as of a reduction of all ranks' data, are left alone: looking would cost more than it saves. */
static void prune_implied(hki_schedule *schedule, hki_step *step)
{
    enum { MOST_PRUNED = 8 };
    uint32_t *deps = schedule->deps + step->first_dep, kept = 0;
    if (step->dep_count > MOST_PRUNED)
        return;
    for (uint32_t i = 0; i < step->dep_count; i++) {
        bool implied = false;
        for (uint32_t k = i + 1; k < step->dep_count && !implied; k++)
            implied = schedule->steps[deps[k]].dep_count <= MOST_PRUNED && waits_for(schedule, deps[k], deps[i]);
        if (!implied)
            deps[kept++] = deps[i];
    }
    schedule->dep_count -= step->dep_count - kept;
    step->dep_count = kept;
}

/* Gives the new step its dependencies, each once and in order, and takes them out of the ring of unawaited steps. */
static bool settle_dependencies(hki_builder *builder, hki_step *step, uint32_t index)
{
    hki_schedule *schedule = builder->schedule;
    uint64_t needed = (uint64_t)schedule->dep_count + builder->before.count;
    uint32_t *deps = hki_grow(schedule->deps, &builder->dep_capacity, needed, sizeof *deps);
    if (!deps && needed)
        return false;
    schedule->deps = deps;
    step->first_dep = schedule->dep_count;
    note *own = &builder->notes[index + 1];
    for (uint32_t i = 0; i < builder->before.count; i++) {
        uint32_t dep = builder->before.items[i];
        note *other = &builder->notes[dep + 1];
        if (dep == index || other->waiter == index + 1)
            continue;
        other->waiter = index + 1;
        builder->notes[other->previous].next = other->next;
        builder->notes[other->next].previous = other->previous;
        other->previous = other->next = dep + 1;
        own->depth = own->depth > other->depth ? own->depth : other->depth;
        deps[schedule->dep_count++] = dep;
    }
    builder->before.count = 0;
    step->dep_count = schedule->dep_count - step->first_dep;
    if (step->dep_count > 1) {
        sort_numbers(deps + step->first_dep, step->dep_count);
        prune_implied(schedule, step);
    }
    return true;
}

/* Numbers a message and notes the peer. */
static bool number_message(hki_builder *builder, hki_step *step, note *own)
{
    if (step->verb == HKI_VERB_COPY || step->verb == HKI_VERB_REDUCE)
        return true;
    hki_counter *counter = hki_counters_of(&builder->counters, step->peer);
    if (!counter)
        return false;
    step->ordinal = counter->messages[step->verb == HKI_VERB_SEND ? 0 : 1]++;
    own->depth++;
    if (own->depth > builder->schedule->rounds)
        builder->schedule->rounds = own->depth;
    return true;
}

static void close_step(hki_builder *builder, uint32_t index)
{
    note *notes = builder->notes;
    note *own = &notes[index + 1];
    own->previous = notes[0].previous;
    own->next = 0;
    notes[own->previous].next = index + 1;
    notes[0].previous = index + 1;
    builder->schedule->step_count++;
}

static bool touch_sources(hki_builder *builder, const hki_step *step, const hki_span *sources, uint32_t index)
{
    if (step->verb != HKI_VERB_REDUCE)
        return touch(builder, &step->source, index, false);
    for (uint32_t i = 0; i < step->source_count; i++)
        if (!touch(builder, &sources[i], index, false))
            return false;
    return true;
}

/* Appends a step; reads come before writes, so that a step that works in place depends on its forerunners only. */
static void add_step(hki_builder *builder, hki_step step, const hki_span *sources)
{
    uint32_t index = builder->schedule->step_count;
    if (!reserve_step(builder)) {
        hki_builder_no_memory(builder);
        return;
    }
    if (builder->loose) {
        builder->schedule->steps[index] = step;
        builder->schedule->step_count++;
        return;
    }
    note *own = &builder->notes[index + 1];
    *own = (note){.previous = index + 1, .next = index + 1};
    if (!wait_as_asked(builder, (hki_verb)step.verb) || !touch_sources(builder, &step, sources, index) ||
        !touch(builder, &step.destination, index, true) || !settle_dependencies(builder, &step, index) ||
        !number_message(builder, &step, own) || !hki_numbers_add(&builder->by_verb[step.verb], index)) {
        hki_builder_no_memory(builder);
        return;
    }
    builder->schedule->steps[index] = step;
    close_step(builder, index);
}

/* The rank of a peer of a group, or a failure. */
static bool find_peer(hki_builder *builder, const hki_group *group, uint32_t peer, uint32_t *rank)
{
    uint32_t ranks = builder->shape.ranks;
    *rank = peer < group->size ? hki_group_rank(group, peer) : ranks;
    if (*rank >= ranks || *rank == builder->shape.rank)
        builder->status =
            hki_error(HK_ERR_INTERNAL, "step %u on rank %u of %u has member %u of a group of %u, which is no peer",
                      builder->schedule->step_count, builder->shape.rank, ranks, peer, group->size);
    return builder->status == HK_OK;
}

static bool check_destination(hki_builder *builder, const hki_span *destination)
{
    if (!check_span(builder, destination, "destination"))
        return false;
    if (destination->buffer == HKI_INPUT && destination->blocks.count)
        builder->status = hki_error(HK_ERR_INTERNAL, "step %u on rank %u of %u writes to INPUT",
                                    builder->schedule->step_count, builder->shape.rank, builder->shape.ranks);
    return builder->status == HK_OK;
}

void hki_send(hki_builder *builder, const hki_group *group, uint32_t peer, hki_span source)
{
    hki_step step = {.verb = HKI_VERB_SEND, .source = source};
    if (builder->status == HK_OK && find_peer(builder, group, peer, &step.peer) &&
        check_span(builder, &source, "source"))
        add_step(builder, step, NULL);
}

void hki_recv(hki_builder *builder, const hki_group *group, uint32_t peer, hki_span destination)
{
    hki_step step = {.verb = HKI_VERB_RECV, .destination = destination};
    if (builder->status == HK_OK && find_peer(builder, group, peer, &step.peer) &&
        check_destination(builder, &destination))
        add_step(builder, step, NULL);
}

void hki_recv_reduce(hki_builder *builder, const hki_group *group, uint32_t peer, hki_span destination, hki_span local,
                     bool incoming_left, bool finish)
{
    hki_step step = {.verb = HKI_VERB_RECV_REDUCE, .destination = destination, .source = local};
    step.flags = (uint8_t)((finish ? HKI_FINISH : 0u) | (incoming_left ? HKI_INCOMING_LEFT : 0u));
    if (builder->status == HK_OK && find_peer(builder, group, peer, &step.peer) &&
        check_span(builder, &local, "local operand") && check_destination(builder, &destination))
        add_step(builder, step, NULL);
}

void hki_copy(hki_builder *builder, hki_span destination, hki_span source, bool finish)
{
    hki_step step = {.verb = HKI_VERB_COPY, .destination = destination, .source = source};
    step.flags = finish ? HKI_FINISH : 0;
    if (builder->status == HK_OK && check_span(builder, &source, "source") && check_destination(builder, &destination))
        add_step(builder, step, NULL);
}

void hki_reduce(hki_builder *builder, hki_span destination, const hki_span *sources, uint32_t count, bool finish)
{
    hki_schedule *schedule = builder->schedule;
    hki_step step = {.verb = HKI_VERB_REDUCE, .destination = destination, .source_count = count};
    step.flags = finish ? HKI_FINISH : 0;
    step.first_source = schedule->source_count;
    if (count == 0 && builder->status == HK_OK)
        builder->status = hki_error(HK_ERR_INTERNAL, "step %u on rank %u of %u reduces nothing", schedule->step_count,
                                    builder->shape.rank, builder->shape.ranks);
    for (uint32_t i = 0; i < count && builder->status == HK_OK; i++)
        check_span(builder, &sources[i], "operand");
    if (builder->status != HK_OK || !check_destination(builder, &destination))
        return;
    uint64_t needed = (uint64_t)schedule->source_count + count;
    hki_span *grown = hki_grow(schedule->sources, &builder->source_capacity, needed, sizeof *grown);
    if (!grown) {
        hki_builder_no_memory(builder);
        return;
    }
    schedule->sources = grown;
    memcpy(grown + schedule->source_count, sources, count * sizeof *sources);
    schedule->source_count += count;
    add_step(builder, step, sources);
}

void hki_fence(hki_builder *builder)
{
    builder->fence = true;
}

void hki_window(hki_builder *builder, uint32_t back)
{
    builder->window = back;
}

/* ---- the end ---- */

/* Gives back what an array grew too much; a failure to shrink is none. */
static void *trim(void *array, uint32_t count, size_t size)
{
    if (count == 0) {
        free(array);
        return NULL;
    }
    void *trimmed = realloc(array, count * size);
    return trimmed ? trimmed : array;
}

static bool list_peers(hki_builder *builder)
{
    hki_schedule *schedule = builder->schedule;
    const hki_counters *counters = &builder->counters;
    if (counters->count == 0)
        return true;
    schedule->peers = malloc(counters->count * sizeof *schedule->peers);
    if (!schedule->peers)
        return false;
    for (uint32_t i = 0; i < counters->capacity; i++)
        if (counters->entries[i].used)
            schedule->peers[schedule->peer_count++] = counters->entries[i].peer;
    sort_numbers(schedule->peers, schedule->peer_count);
    return true;
}

static size_t edges_bytes(const hki_grid *grid)
{
    return grid->edges ? ((size_t)grid->parts + 1) * sizeof *grid->edges : 0;
}

hki_schedule *hki_builder_finish(hki_builder *builder, hk_status *status)
{
    if (!list_peers(builder))
        hki_builder_no_memory(builder);
    *status = builder->status;
    hki_schedule *schedule = NULL;
    if (builder->status == HK_OK) {
        schedule = builder->schedule;
        builder->schedule = NULL;
        schedule->steps = trim(schedule->steps, schedule->step_count, sizeof *schedule->steps);
        schedule->sources = trim(schedule->sources, schedule->source_count, sizeof *schedule->sources);
        schedule->deps = trim(schedule->deps, schedule->dep_count, sizeof *schedule->deps);
        schedule->bytes = sizeof *schedule + schedule->step_count * sizeof *schedule->steps +
                          schedule->source_count * sizeof *schedule->sources +
                          schedule->dep_count * sizeof *schedule->deps +
                          schedule->peer_count * sizeof *schedule->peers + edges_bytes(&schedule->grid[0]) +
                          edges_bytes(&schedule->grid[1]);
    }
    hki_builder_free(builder);
    return schedule;
}

void hki_builder_loose(hki_builder *builder)
{
    builder->loose = true;
}

const hki_schedule *hki_builder_view(const hki_builder *builder, hk_status *status)
{
    *status = builder->status;
    return builder->status == HK_OK ? builder->schedule : NULL;
}

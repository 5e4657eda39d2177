/*
 * Races: any two steps of a rank that touch the same bytes, at least one writing, must be ordered by the dependencies
 * alone. It is enough to compare each read with the last write of a cell, and each write with the reads since, or with
 * the last write where nobody has read: the rest follows by transitivity. A cell is a block of OUTPUT, an INPUT block
 * that is the same bytes as one, or a scratch slot.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sched/dump.h"
#include "sched/intervals.h"
#include "sched/verify_internal.h"

#define NO_CELL UINT32_MAX
#define NONE UINT32_MAX

typedef struct reader {
    uint32_t step, next;
} reader;

typedef struct hazards {
    hki_verifier *verifier;
    const hki_schedule *schedule;
    uint32_t rank;
    uint32_t outputs;           /* cells of OUTPUT come first, then those of SCRATCH */
    uint32_t *writer, *readers; /* per cell: last writer, list of readers since */
    reader *list;               /* cells of those lists */
    uint32_t list_count, list_capacity;
    uint32_t *before;         /* before[s] = t + 1: s is known to be ordered before t */
    uint32_t *visited, visit; /* of the current search */
    hki_numbers stack;
    hki_numbers input_reads, output_writes; /* where the buffers overlap as a whole */
} hazards;

/* The memory cell of the i-th block of a span, which has the index `block`. */
static uint32_t cell_of(const hazards *h, const hki_span *span, uint32_t block)
{
    const hki_alias *alias = &h->schedule->alias;
    switch ((hki_buffer)span->buffer) {
    case HKI_OUTPUT:
        return block;
    case HKI_SCRATCH:
        return h->outputs + (span->slots == 1 ? span->slot : span->slot + (block - span->blocks.base));
    case HKI_INPUT:
        break;
    }
    bool same = !alias->whole && block >= alias->input && block - alias->input < alias->count;
    return same ? alias->output + (block - alias->input) : NO_CELL;
}

static bool is_packed(const hki_span *span)
{
    return span->buffer == HKI_SCRATCH && span->slots == 1;
}

/* Walks the cells of a span; one slot is one cell however much is packed into it. */
static bool next_cell(const hazards *h, const hki_span *span, hki_walk *walk, uint32_t *cell, uint32_t *block)
{
    if ((is_packed(span) && walk->i > 0) || !hki_walk_next(walk, block))
        return false;
    *cell = cell_of(h, span, *block);
    return true;
}

/* Searches the dependencies of `late` for `early`, among steps no earlier than that. -1: out of memory. */
static int search(hazards *h, uint32_t early, uint32_t late)
{
    const hki_schedule *schedule = h->schedule;
    h->visit++;
    h->stack.count = 0;
    if (!hki_numbers_add(&h->stack, late))
        return -1;
    while (h->stack.count) {
        const hki_step *step = &schedule->steps[h->stack.items[--h->stack.count]];
        for (uint32_t i = 0; i < step->dep_count; i++) {
            uint32_t dep = schedule->deps[step->first_dep + i];
            if (dep < early || h->visited[dep] == h->visit)
                continue;
            h->visited[dep] = h->visit;
            h->before[dep] = late + 1;
            if (dep == early)
                return 1;
            if (!hki_numbers_add(&h->stack, dep))
                return -1;
        }
    }
    return 0;
}

static hk_status require_order(hazards *h, uint32_t early, uint32_t late, uint32_t block)
{
    if (early == late || h->before[early] == late + 1)
        return HK_OK;
    int found = search(h, early, late);
    if (found < 0)
        return hki_verify_no_memory(h->verifier);
    if (found)
        return HK_OK;
    char text[280];
    hki_step_text(h->schedule, early, text, sizeof text);
    return hki_verify_fail(h->verifier, HKI_FAULT_RACE, h->rank, late, block, "it does not wait for step {%s}", text);
}

static hk_status touch_read(hazards *h, uint32_t step, uint32_t cell, uint32_t block)
{
    if (h->writer[cell] != NONE) {
        hk_status status = require_order(h, h->writer[cell], step, block);
        if (status != HK_OK)
            return status;
    }
    if (h->readers[cell] != NONE && h->list[h->readers[cell]].step == step)
        return HK_OK;
    reader *grown = hki_grow(h->list, &h->list_capacity, (uint64_t)h->list_count + 1, sizeof *grown);
    if (!grown)
        return hki_verify_no_memory(h->verifier);
    h->list = grown;
    grown[h->list_count] = (reader){step, h->readers[cell]};
    h->readers[cell] = h->list_count++;
    return HK_OK;
}

/* Sets *in_place if the step itself reads the cell. */
static hk_status touch_write(hazards *h, uint32_t step, uint32_t cell, uint32_t block, bool *in_place)
{
    if (h->writer[cell] == step)
        return hki_verify_fail(h->verifier, HKI_FAULT_STRUCTURE, h->rank, step, block, "it is written twice");
    hk_status status = HK_OK;
    if (h->readers[cell] == NONE && h->writer[cell] != NONE)
        status = require_order(h, h->writer[cell], step, block);
    for (uint32_t at = h->readers[cell]; at != NONE && status == HK_OK; at = h->list[at].next) {
        if (h->list[at].step == step)
            *in_place = true;
        status = require_order(h, h->list[at].step, step, block);
    }
    h->writer[cell] = step;
    h->readers[cell] = NONE;
    return status;
}

/* A step may write over what it reads only block for block. */
static hk_status check_in_place(hazards *h, uint32_t index)
{
    const hki_step *step = &h->schedule->steps[index];
    for (uint32_t k = 0; k < hki_source_count(step); k++) {
        const hki_span *source = hki_source(h->schedule, step, k);
        hki_walk from = hki_walk_begin(&source->blocks), to = hki_walk_begin(&step->destination.blocks);
        for (uint32_t cell, block, target, other; next_cell(h, source, &from, &cell, &block);) {
            bool paired = next_cell(h, &step->destination, &to, &target, &other);
            if (cell != NO_CELL && h->writer[cell] == index &&
                (!paired || cell != target || is_packed(source) != is_packed(&step->destination)))
                return hki_verify_fail(h->verifier, HKI_FAULT_STRUCTURE, h->rank, index, block,
                                       "a source overlaps the destination at another place");
        }
    }
    return HK_OK;
}

/* Where the buffers overlap in an unknown way, every INPUT read conflicts with every OUTPUT write. */
static hk_status check_overlap(hazards *h, uint32_t index)
{
    const hki_step *step = &h->schedule->steps[index];
    bool reads = false, writes = step->verb != HKI_VERB_SEND && step->destination.buffer == HKI_OUTPUT &&
                                 step->destination.blocks.count;
    for (uint32_t k = 0; k < hki_source_count(step); k++) {
        const hki_span *source = hki_source(h->schedule, step, k);
        reads = reads || (source->buffer == HKI_INPUT && source->blocks.count);
    }
    if (reads && writes)
        return hki_verify_fail(h->verifier, HKI_FAULT_RACE, h->rank, index, HKI_NOWHERE,
                               "it reads INPUT and writes OUTPUT, which overlap");
    if ((reads && !hki_numbers_add(&h->input_reads, index)) || (writes && !hki_numbers_add(&h->output_writes, index)))
        return hki_verify_no_memory(h->verifier);
    const hki_numbers *others = reads ? &h->output_writes : &h->input_reads;
    hk_status status = HK_OK;
    for (uint32_t i = 0; (reads || writes) && i < others->count && status == HK_OK; i++)
        status = require_order(h, others->items[i], index, HKI_NOWHERE);
    return status;
}

static hk_status check_step(hazards *h, uint32_t index)
{
    const hki_step *step = &h->schedule->steps[index];
    hk_status status = HK_OK;
    uint32_t cell, block;
    bool in_place = false;
    for (uint32_t i = 0; i < step->dep_count; i++)
        h->before[h->schedule->deps[step->first_dep + i]] = index + 1;
    for (uint32_t k = 0; k < hki_source_count(step) && status == HK_OK; k++) {
        const hki_span *source = hki_source(h->schedule, step, k);
        hki_walk walk = hki_walk_begin(&source->blocks);
        while (status == HK_OK && next_cell(h, source, &walk, &cell, &block))
            if (cell != NO_CELL)
                status = touch_read(h, index, cell, block);
    }
    hki_walk walk = hki_walk_begin(&step->destination.blocks);
    while (step->verb != HKI_VERB_SEND && status == HK_OK && next_cell(h, &step->destination, &walk, &cell, &block))
        status = touch_write(h, index, cell, block, &in_place);
    if (status == HK_OK && in_place)
        status = check_in_place(h, index);
    if (status == HK_OK && h->schedule->alias.whole)
        status = check_overlap(h, index);
    return status;
}

static bool allocate(hazards *h)
{
    size_t cells = h->outputs + (size_t)h->schedule->slots + 1, steps = (size_t)h->schedule->step_count + 1;
    h->writer = malloc(cells * sizeof *h->writer);
    h->readers = malloc(cells * sizeof *h->readers);
    h->before = calloc(steps, sizeof *h->before);
    h->visited = calloc(steps, sizeof *h->visited);
    if (!h->writer || !h->readers || !h->before || !h->visited)
        return false;
    memset(h->writer, 0xff, cells * sizeof *h->writer);
    memset(h->readers, 0xff, cells * sizeof *h->readers);
    return true;
}

static hk_status check_rank(hki_verifier *verifier, uint32_t rank)
{
    const hki_schedule *schedule = verifier->schedules[rank];
    hazards h = {.verifier = verifier, .schedule = schedule, .rank = rank};
    h.outputs = schedule->grid[HKI_OUTPUT].cut == HKI_CUT_NONE ? 0 : hki_grid_blocks(&schedule->grid[HKI_OUTPUT]);
    hk_status status = allocate(&h) ? HK_OK : hki_verify_no_memory(verifier);
    for (uint32_t step = 0; status == HK_OK && step < schedule->step_count; step++)
        status = check_step(&h, step);
    free(h.writer);
    free(h.readers);
    free(h.before);
    free(h.visited);
    free(h.list);
    hki_numbers_free(&h.stack);
    hki_numbers_free(&h.input_reads);
    hki_numbers_free(&h.output_writes);
    return status;
}

hk_status hki_verify_hazards(hki_verifier *verifier)
{
    hk_status status = HK_OK;
    for (uint32_t rank = 0; rank < verifier->ranks && status == HK_OK; rank++)
        status = check_rank(verifier, rank);
    return status;
}

#include "sched/verify_memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static void clear(hki_cell *cells, size_t count)
{
    memset(cells, 0xff, count * sizeof *cells);
}

uint32_t hki_output_blocks(const hki_schedule *schedule)
{
    return schedule->grid[HKI_OUTPUT].cut == HKI_CUT_NONE ? 0 : hki_grid_blocks(&schedule->grid[HKI_OUTPUT]);
}

/* Puts into OUTPUT what is there before the collective starts. */
static void fill_output(const hki_verifier *verifier, const hki_schedule *schedule, hki_rank_memory *memory)
{
    const hki_alias *alias = &schedule->alias;
    if (verifier->promise->output_in && schedule->rank == schedule->root)
        for (uint32_t block = 0; block < hki_output_blocks(schedule); block++)
            memory->output[block] =
                (hki_cell){(uint32_t)hki_block_identity(schedule, HKI_OUTPUT, block), schedule->rank, 0};
    for (uint32_t i = 0; !alias->whole && i < alias->count; i++)
        memory->output[alias->output + i] =
            (hki_cell){(uint32_t)hki_block_identity(schedule, HKI_INPUT, alias->input + i), schedule->rank, 0};
}

/* Enlarges slots[k + 1] to the number of blocks that a span puts into slot k. */
static void count_cells(const hki_span *span, size_t *slots)
{
    if (span->buffer != HKI_SCRATCH || span->blocks.count == 0)
        return;
    if (span->slots == 1) {
        if (slots[span->slot + 1] < span->blocks.count)
            slots[span->slot + 1] = span->blocks.count;
        return;
    }
    hki_walk walk = hki_walk_begin(&span->blocks);
    for (uint32_t block; hki_walk_next(&walk, &block);) {
        size_t *slot = &slots[span->slot + (block - span->blocks.base) + 1];
        if (*slot == 0)
            *slot = 1;
    }
}

static size_t lay_out_slots(const hki_schedule *schedule, size_t *slots)
{
    for (uint32_t i = 0; i < schedule->step_count; i++) {
        const hki_step *step = &schedule->steps[i];
        if (step->verb != HKI_VERB_SEND)
            count_cells(&step->destination, slots);
        for (uint32_t k = 0; k < hki_source_count(step); k++)
            count_cells(hki_source(schedule, step, k), slots);
    }
    for (uint32_t slot = 0; slot < schedule->slots; slot++)
        slots[slot + 1] += slots[slot];
    return slots[schedule->slots];
}

hk_status hki_memory_init(hki_verifier *verifier, uint32_t rank, hki_rank_memory *memory, uint64_t *cells)
{
    static const uint64_t most_cells = (UINT64_C(8) << 30) / sizeof(hki_cell);
    const hki_schedule *schedule = verifier->schedules[rank];
    memory->slots = calloc((size_t)schedule->slots + 1, sizeof *memory->slots);
    if (!memory->slots)
        return hki_verify_no_memory(verifier);
    size_t scratch = lay_out_slots(schedule, memory->slots), outputs = hki_output_blocks(schedule);
    *cells += scratch + outputs;
    if (*cells > most_cells)
        return hki_error(HK_ERR_NO_MEMORY, "verifying %s for %" PRIu32 " ranks would need more than 8 GiB",
                         hki_promise_name(schedule->collective), verifier->ranks);
    memory->output = malloc((outputs + 1) * sizeof *memory->output);
    memory->scratch = malloc((scratch + 1) * sizeof *memory->scratch);
    if (!memory->output || !memory->scratch)
        return hki_verify_no_memory(verifier);
    clear(memory->output, outputs);
    clear(memory->scratch, scratch);
    fill_output(verifier, schedule, memory);
    return HK_OK;
}

void hki_memory_free(hki_rank_memory *memory)
{
    free(memory->output);
    free(memory->scratch);
    free(memory->slots);
}

/* ---- reading and writing one block ---- */

hki_operand hki_operand_begin(hki_verifier *verifier, hki_rank_memory *memories, uint32_t rank, uint32_t step,
                              const hki_span *span)
{
    return (hki_operand){.verifier = verifier,
                         .memory = &memories[rank],
                         .schedule = verifier->schedules[rank],
                         .span = span,
                         .rank = rank,
                         .step = step,
                         .walk = hki_walk_begin(&span->blocks)};
}

static hki_cell *scratch_cell(const hki_operand *at, uint32_t block)
{
    const hki_rank_memory *memory = at->memory;
    if (at->span->slots == 1)
        return &memory->scratch[memory->slots[at->span->slot] + at->walk.i - 1];
    return &memory->scratch[memory->slots[at->span->slot + (block - at->span->blocks.base)]];
}

static hk_status read_input(const hki_operand *at, uint32_t block, hki_cell *result)
{
    const hki_schedule *schedule = at->schedule;
    const hki_alias *alias = &schedule->alias;
    *result = (hki_cell){(uint32_t)hki_block_identity(schedule, HKI_INPUT, block), at->rank, 0};
    if (!hki_significant(schedule, HKI_INPUT))
        return hki_verify_fail(at->verifier, HKI_FAULT_INPUT_INSIGNIFICANT, at->rank, at->step, block,
                               "the caller may have given no buffer");
    bool clobbered = alias->whole && at->memory->output_written;
    if (!alias->whole && block >= alias->input && block - alias->input < alias->count) {
        const hki_cell *same = &at->memory->output[alias->output + (block - alias->input)];
        clobbered = same->block != result->block || same->value != result->value;
    }
    if (clobbered)
        return hki_verify_fail(at->verifier, HKI_FAULT_INPUT_CLOBBERED, at->rank, at->step, block,
                               "an earlier step has written to the same bytes as OUTPUT");
    return HK_OK;
}

hk_status hki_operand_read(hki_operand *at, hki_cell *result, bool *more)
{
    uint32_t block;
    *more = hki_walk_next(&at->walk, &block);
    if (!*more)
        return HK_OK;
    if (at->span->buffer == HKI_INPUT)
        return read_input(at, block, result);
    if (at->span->buffer == HKI_OUTPUT) {
        *result = at->memory->output[block];
    } else {
        *result = *scratch_cell(at, block);
        if (result->value != HKI_NO_VALUE &&
            result->length != hki_block_length_class(at->schedule, at->span->of, block))
            return hki_verify_fail(at->verifier, HKI_FAULT_LENGTH, at->rank, at->step, block,
                                   "a block of another length lies there in the slot");
    }
    if (result->value == HKI_NO_VALUE)
        return hki_verify_fail(at->verifier, HKI_FAULT_UNDEFINED, at->rank, at->step, block,
                               "no step has put anything there");
    return HK_OK;
}

/* What lies behind the written blocks in a packed slot moves when one of those gets another length. */
static void forget_rest(const hki_operand *at)
{
    const hki_rank_memory *memory = at->memory;
    size_t from = memory->slots[at->span->slot] + at->span->blocks.count, to = memory->slots[at->span->slot + 1];
    clear(&memory->scratch[from], to - from);
}

hk_status hki_operand_write(hki_operand *at, hki_cell content)
{
    uint32_t block;
    if (!hki_walk_next(&at->walk, &block))
        return HK_OK;
    if (at->span->buffer == HKI_OUTPUT) {
        if (!hki_significant(at->schedule, HKI_OUTPUT))
            return hki_verify_fail(at->verifier, HKI_FAULT_OUTPUT_INSIGNIFICANT, at->rank, at->step, block,
                                   "the caller may have given no buffer");
        at->memory->output[block] = content;
        at->memory->output_written = true;
        return HK_OK;
    }
    hki_cell *target = scratch_cell(at, block);
    content.length = (uint32_t)hki_block_length_class(at->schedule, at->span->of, block);
    bool moved = at->span->slots == 1 && target->value != HKI_NO_VALUE && target->length != content.length;
    *target = content;
    if (moved)
        forget_rest(at);
    return HK_OK;
}

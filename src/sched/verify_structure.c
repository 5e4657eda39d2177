/* Structure: every step is well formed by itself, and all ranks cut their buffers alike. */
#include <inttypes.h>

#include "sched/verify_internal.h"

static hk_status check_header(hki_verifier *verifier, uint32_t rank)
{
    const hki_schedule *schedule = verifier->schedules[rank], *first = verifier->schedules[0];
    if (schedule->rank != rank || schedule->ranks != verifier->ranks || schedule->collective != first->collective ||
        schedule->root != first->root || schedule->root >= verifier->ranks)
        return hki_verify_fail(verifier, HKI_FAULT_STRUCTURE, rank, HKI_NOWHERE, HKI_NOWHERE,
                               "the schedule is of rank %" PRIu32 " of %" PRIu32 ", %s, root %" PRIu32, schedule->rank,
                               schedule->ranks, hki_promise_name(schedule->collective), schedule->root);
    return HK_OK;
}

static hk_status check_grids(hki_verifier *verifier, uint32_t rank, const hki_grid **reference)
{
    const hki_schedule *schedule = verifier->schedules[rank];
    for (unsigned buffer = 0; buffer < 2; buffer++) {
        const char *fault = hki_grid_fault(schedule, buffer, *reference);
        if (!fault && schedule->grid[buffer].cut == HKI_CUT_NONE && hki_significant(schedule, buffer))
            fault = "has no grid although it is significant";
        if (fault)
            return hki_verify_fail(verifier, HKI_FAULT_GRID, rank, HKI_NOWHERE, HKI_NOWHERE, "%s %s",
                                   buffer == HKI_INPUT ? "INPUT" : "OUTPUT", fault);
        if (schedule->grid[buffer].cut != HKI_CUT_NONE)
            *reference = &schedule->grid[buffer];
    }
    const hki_alias *alias = &schedule->alias;
    if (!alias->whole && alias->count &&
        ((uint64_t)alias->input + alias->count > hki_grid_blocks(&schedule->grid[HKI_INPUT]) ||
         (uint64_t)alias->output + alias->count > hki_grid_blocks(&schedule->grid[HKI_OUTPUT])))
        return hki_verify_fail(verifier, HKI_FAULT_GRID, rank, HKI_NOWHERE, HKI_NOWHERE,
                               "the in-place blocks exceed the grids");
    return HK_OK;
}

static hk_status check_span(hki_verifier *verifier, uint32_t rank, uint32_t step, const hki_span *span)
{
    const hki_schedule *schedule = verifier->schedules[rank];
    const char *fault = hki_span_fault(schedule->grid, schedule->slots, span);
    if (fault)
        return hki_verify_fail(verifier, HKI_FAULT_STRUCTURE, rank, step, HKI_NOWHERE, "a span %s", fault);
    return HK_OK;
}

/* All operands of a step must have equally many blocks of equal lengths. */
static hk_status check_lengths(hki_verifier *verifier, uint32_t rank, uint32_t index, const hki_span *destination,
                               const hki_span *source)
{
    const hki_schedule *schedule = verifier->schedules[rank];
    if (destination->blocks.count != source->blocks.count)
        return hki_verify_fail(verifier, HKI_FAULT_LENGTH, rank, index, HKI_NOWHERE,
                               "the destination has %" PRIu32 " blocks, a source %" PRIu32, destination->blocks.count,
                               source->blocks.count);
    hki_walk to = hki_walk_begin(&destination->blocks), from = hki_walk_begin(&source->blocks);
    for (uint32_t a, b; hki_walk_next(&to, &a) && hki_walk_next(&from, &b);)
        if (hki_block_length_class(schedule, destination->of, a) != hki_block_length_class(schedule, source->of, b))
            return hki_verify_fail(verifier, HKI_FAULT_LENGTH, rank, index, a,
                                   "it is not sure to be as long as block %" PRIu32 " of the source", b);
    return HK_OK;
}

static hk_status check_operands(hki_verifier *verifier, uint32_t rank, uint32_t index)
{
    const hki_schedule *schedule = verifier->schedules[rank];
    const hki_step *step = &schedule->steps[index];
    if (step->verb == HKI_VERB_REDUCE &&
        (step->source_count == 0 || (uint64_t)step->first_source + step->source_count > schedule->source_count))
        return hki_verify_fail(verifier, HKI_FAULT_STRUCTURE, rank, index, HKI_NOWHERE, "it has no sources");
    hk_status status = HK_OK;
    if (step->verb != HKI_VERB_SEND)
        status = check_span(verifier, rank, index, &step->destination);
    if (status == HK_OK && step->verb != HKI_VERB_SEND && step->destination.buffer == HKI_INPUT &&
        step->destination.blocks.count)
        status = hki_verify_fail(verifier, HKI_FAULT_INPUT_WRITTEN, rank, index,
                                 hki_range_index(&step->destination.blocks, 0), "INPUT belongs to the caller");
    for (uint32_t i = 0; i < hki_source_count(step) && status == HK_OK; i++) {
        status = check_span(verifier, rank, index, hki_source(schedule, step, i));
        if (status == HK_OK && step->verb != HKI_VERB_SEND)
            status = check_lengths(verifier, rank, index, &step->destination, hki_source(schedule, step, i));
    }
    return status;
}

static hk_status check_step(hki_verifier *verifier, uint32_t rank, uint32_t index)
{
    const hki_schedule *schedule = verifier->schedules[rank];
    const hki_step *step = &schedule->steps[index];
    const char *fault = NULL;
    if (step->verb > HKI_VERB_REDUCE)
        fault = "it has no verb";
    else if (hki_is_message(step) && (step->peer >= verifier->ranks || step->peer == rank))
        fault = "its peer is no other rank";
    else if ((uint64_t)step->first_dep + step->dep_count > schedule->dep_count)
        fault = "its dependencies exceed the list";
    else if ((step->flags & HKI_FINISH) && (step->verb == HKI_VERB_SEND || step->verb == HKI_VERB_RECV))
        fault = "a send or receive cannot finish anything";
    for (uint32_t i = 0; !fault && i < step->dep_count; i++)
        if (schedule->deps[step->first_dep + i] >= index)
            fault = "it depends on itself or a later step";
    if (fault)
        return hki_verify_fail(verifier, HKI_FAULT_STRUCTURE, rank, HKI_NOWHERE, HKI_NOWHERE, "step %" PRIu32 ": %s",
                               index, fault);
    return check_operands(verifier, rank, index);
}

hk_status hki_verify_structure(hki_verifier *verifier)
{
    const hki_grid *reference = NULL;
    for (uint32_t rank = 0; rank < verifier->ranks; rank++) {
        hk_status status = check_header(verifier, rank);
        if (status == HK_OK)
            status = check_grids(verifier, rank, &reference);
        for (uint32_t step = 0; status == HK_OK && step < verifier->schedules[rank]->step_count; step++)
            status = check_step(verifier, rank, step);
        if (status != HK_OK)
            return status;
    }
    return HK_OK;
}

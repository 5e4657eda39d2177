/*
 * Bruck's all-to-all: the block that goes i ranks ahead travels the binary digits of i; in round k every rank sends all
 * blocks with digit k set in one message. ceil(log2 P) rounds, but every block is sent once for each digit: n/2 log2 P
 * bytes, for small blocks. Equal counts only. Blocks wait in OUTPUT at the place of their distance ahead, and end at
 * that of their distance behind. J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby, 1997.
 */
#include "algo/generators.h"

/* Blocks at distances first, first + 1, … (count of them, in runs every stride) ahead of this rank. */
static hki_span blocks_ahead(const hki_region *output, const hki_call *call, uint32_t first, uint32_t count,
                             uint32_t run, uint32_t stride)
{
    hki_span span = hki_all(output);
    span.blocks.first = hki_ahead(call->ranks, call->rank, first);
    span.blocks.count = count;
    span.blocks.run = run;
    span.blocks.stride = stride;
    return span;
}

/* How many numbers below ranks have the binary digit of weight `digit`. */
static uint32_t with_digit(uint32_t ranks, uint32_t digit)
{
    uint32_t rest = ranks % (2 * digit);
    return ranks / (2 * digit) * digit + (rest > digit ? rest - digit : 0);
}

/* Distances ahead become distances behind: what is at i changes places with what is at P-i. */
static void reverse(hki_builder *builder, const hki_call *call, const hki_region *output)
{
    uint32_t half = (call->ranks - 1) / 2;
    if (half == 0)
        return;
    hki_span near = blocks_ahead(output, call, 1, half, half, half);
    hki_span far = blocks_ahead(output, call, call->ranks - 1, half, 1, call->ranks - 1); /* P-1, P-2, … */
    hki_span kept = hki_in_slot(hki_scratch_slot(builder), near);
    hki_copy(builder, kept, near, false);
    hki_copy(builder, near, far, false);
    hki_copy(builder, far, kept, false);
}

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks), output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_place(builder, hki_all(&output), hki_all(&input), false);
    uint32_t slots = hki_scratch_slots(builder, 2);
    for (uint32_t digit = 1, round = 0; digit < call->ranks; digit *= 2, round++) {
        hki_span moving = blocks_ahead(&output, call, digit, with_digit(call->ranks, digit), digit, 2 * digit);
        hki_span arrival = hki_in_slot(slots + round % 2, moving);
        hki_send(builder, &everyone, hki_ahead(call->ranks, call->rank, digit), moving);
        hki_recv(builder, &everyone, hki_behind(call->ranks, call->rank, digit), arrival);
        hki_copy(builder, moving, arrival, false);
    }
    reverse(builder, call, &output);
}

static double sent(const hki_call *call)
{
    uint64_t blocks = 0;
    for (uint32_t digit = 1; digit < call->ranks; digit *= 2)
        blocks += with_digit(call->ranks, digit);
    return (double)blocks / call->ranks;
}

const hki_algorithm hki_algorithm_alltoall_bruck = {
    .name = "bruck",
    .summary = "blocks travel the binary digits of their distance",
    .source = "Bruck et al. 1997",
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = hki_form_log,
    .sent = sent,
    .rounds_text = "ceil(log2 P)",
    .sent_text = "n/2 log2 P",
    .scratch_text = "3n/2",
    .alike = hki_all_alike,
};

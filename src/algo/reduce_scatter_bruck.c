/*
 * Reversed Bruck reduce-scatter (the pattern that NCCL's PAT truncates): the share that is i ranks ahead travels the
 * binary digits of i, the highest first, and partial results for the same share meet on the way. ceil(log2 P) rounds
 * and (P-1)/P of the vector sent by each rank, for any P: the fewest rounds at the fewest bytes. J. Bruck, C.-T. Ho, S.
 * Kipnis, E. Upfal, D. Weathersby, 1997 (as all-gather); S. Jeaugey: PAT, 2025.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    uint32_t ranks = call->ranks, rank = call->rank, top = 1u << (hki_log2_ceil(ranks) - 1);
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, ranks);
    hki_region result = hki_result_region(builder, call, &input);
    hki_region sums = ranks > 2 ? hki_scratch_like(builder, &input) : result; /* of the first `top` shares ahead */
    const hki_region *values = &input;
    for (uint32_t distance = top; distance >= 1; distance /= 2) {
        uint32_t count = distance < ranks - distance ? distance : ranks - distance;
        uint32_t to = hki_ahead(ranks, rank, distance), from = hki_behind(ranks, rank, distance);
        hki_send(builder, &everyone, to, hki_shares(values, to, count));
        hki_recv_reduce(builder, &everyone, from, distance == 1 ? hki_all(&result) : hki_shares(&sums, rank, count),
                        hki_shares(values, rank, count), from < rank, distance == 1);
        if (count < distance) { /* the top round of a P that is no power of two: nothing came for some shares */
            uint32_t first = hki_ahead(ranks, rank, count);
            hki_copy(builder, hki_shares(&sums, first, distance - count), hki_shares(&input, first, distance - count),
                     false);
        }
        values = &sums;
    }
    hki_result_deliver(builder, &result);
}

const hki_algorithm hki_algorithm_reduce_scatter_bruck = {
    .name = "bruck",
    .summary = "Bruck's all-gather backwards: partial results meet at halving distances",
    .source = "Bruck et al. 1997; Jeaugey 2025 (PAT)",
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = hki_form_log,
    .sent = hki_form_all_but_one,
    .rounds_text = "ceil(log2 P)",
    .sent_text = "(P-1)/P n",
    .scratch_text = "n/2 ... n",
    .alike = hki_all_alike,
};

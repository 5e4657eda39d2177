/*
 * Reversed Bruck reduce-scatter (the pattern that NCCL's PAT truncates): the share that is i ranks ahead travels the
 * binary digits of i, the highest first, and partial results for the same share meet on the way. ceil(log2 P) rounds
 * and (P-1)/P of the vector sent by each rank, for any P: the fewest rounds at the fewest bytes. J. Bruck, C.-T. Ho, S.
 * Kipnis, E. Upfal, D. Weathersby, 1997 (as all-gather); S. Jeaugey: PAT, 2025.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks);
    hki_region result = hki_result_region(builder, call, &input);
    hki_region sums = call->ranks > 2 ? hki_scratch_like(builder, &input) : result;
    hki_bruck_reduce_scatter(builder, &everyone, 2, &input, &sums, hki_all(&result), true);
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

/*
 * Recursive multiplying all-reduce: recursive doubling among up to four partners a round, who all exchange whole
 * vectors and reduce them in one pass. Fewer rounds than doubling, more bytes: for small vectors where starting
 * messages side by side is cheap. Ranks beyond the largest product of fours, threes and twos are folded. Rank order is
 * kept. M. Ruefenacht, M. Bull, S. Booth: Generalisation of recursive doubling for AllReduce, 2017.
 */
#include "algo/generators.h"

enum { RADIX = 4 }; /* three messages at a time: a guess, between the two of doubling and the P of flat */

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, 1);
    hki_multiplying_allreduce(builder, &everyone, RADIX, hki_all(&input), hki_all(&output), true);
}

static double rounds(const hki_call *call)
{
    uint32_t core = hki_smooth_floor(call->ranks, RADIX);
    return hki_factors(core, RADIX).count + (core == call->ranks ? 0 : 2);
}

static double sent(const hki_call *call)
{
    uint32_t core = hki_smooth_floor(call->ranks, RADIX);
    hki_radices radices = hki_factors(core, RADIX);
    double vectors = core == call->ranks ? 0 : 1;
    for (uint32_t i = 0; i < radices.count; i++)
        vectors += radices.radix[i] - 1;
    return vectors;
}

const hki_algorithm hki_algorithm_allreduce_recursive_multiplying = {
    .name = "recursive_multiplying",
    .summary = "whole vectors exchanged among up to four partners a round",
    .source = "Ruefenacht, Bull, Booth 2017",
    .keeps_order = true,
    .cut = hki_cut_whole,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "log4 P (+2 when folded)",
    .sent_text = "3n log4 P (+n when folded)",
    .scratch_text = "3n log4 P",
    .alike = hki_alike_in_pairs,
};

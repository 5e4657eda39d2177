/*
 * K-nomial all-reduce: scatter-reduce among up to four partners a round, then the same backwards as all-gather. As few
 * bytes as Rabenseifner's algorithm in half its rounds. Ranks beyond the largest product of fours, threes and twos are
 * folded: two rounds and a vector more.
 * UCC calls it SRA k-nomial; the radix-2 case is Rabenseifner 2004.
 */
#include "algo/generators.h"

enum { RADIX = 4 }; /* as UCC's default; not measured here */

static void cut(const hki_call *call, hki_shape *shape)
{
    hki_cut_vector(call, shape, hki_smooth_floor(call->ranks, RADIX), 1);
}

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    uint32_t core = hki_smooth_floor(call->ranks, RADIX);
    hki_region input = hki_whole(builder, HKI_INPUT, core), output = hki_whole(builder, HKI_OUTPUT, core);
    hki_knomial_allreduce(builder, &everyone, RADIX, &input, &output);
}

static double rounds(const hki_call *call)
{
    uint32_t core = hki_smooth_floor(call->ranks, RADIX);
    return 2.0 * hki_factors(core, RADIX).count + (core == call->ranks ? 0 : 2);
}

static double sent(const hki_call *call)
{
    uint32_t core = hki_smooth_floor(call->ranks, RADIX);
    return 2.0 * (core - 1) / core + (core == call->ranks ? 0 : 1);
}

const hki_algorithm hki_algorithm_allreduce_knomial = {
    .name = "knomial",
    .summary = "scatter-reduce and all-gather among up to four partners a round",
    .source = "Rabenseifner 2004; UCC",
    .cut = cut,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "2 log4 P (+2 when folded)",
    .sent_text = "2(P-1)/P n (+n when folded)",
    .scratch_text = "n",
    .alike = hki_alike_in_pairs,
};

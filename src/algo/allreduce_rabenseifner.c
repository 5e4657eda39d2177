/*
 * Rabenseifner's all-reduce: reduce-scatter by recursive halving, all-gather by recursive doubling. 2 log2 P rounds,
 * 2(P-1)/P of the vector sent by each rank, when P is a power of two. Ranks beyond one first hand over their vector and
 * get the result at the end: two rounds and a vector more. Partial results lie in OUTPUT.
 * R. Rabenseifner: Optimization of collective reduction operations, 2004.
 */
#include "algo/generators.h"

static void cut(const hki_call *call, hki_shape *shape)
{
    hki_cut_vector(call, shape, hki_smooth_floor(call->ranks, 2), 1);
}

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    uint32_t core = hki_smooth_floor(call->ranks, 2);
    hki_region input = hki_whole(builder, HKI_INPUT, core), output = hki_whole(builder, HKI_OUTPUT, core);
    hki_knomial_allreduce(builder, &everyone, 2, &input, &output);
}

static double rounds(const hki_call *call)
{
    uint32_t log = hki_log2_floor(call->ranks);
    return 2.0 * log + (call->ranks == 1u << log ? 0 : 2);
}

static double sent(const hki_call *call)
{
    uint32_t core = hki_smooth_floor(call->ranks, 2);
    return 2.0 * (core - 1) / core + (core == call->ranks ? 0 : 1);
}

const hki_algorithm hki_algorithm_allreduce_rabenseifner = {
    .name = "rabenseifner",
    .summary = "recursive halving, then recursive doubling",
    .source = "Rabenseifner 2004",
    .cut = cut,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "2 log2 P (+2 unless P = 2^k)",
    .sent_text = "2(P-1)/P n (+n unless P = 2^k)",
    .scratch_text = "none",
    .alike = hki_alike_in_pairs,
};

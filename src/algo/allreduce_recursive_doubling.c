/*
 * Recursive doubling all-reduce: in round k, partners at distance 2^k exchange whole vectors and both add. log2 P
 * rounds and n log2 P bytes sent by each rank. Ranks beyond a power of two first hand their vector to a neighbour and
 * get the result from it: two more rounds. Values alternate between OUTPUT and scratch, so that no exchange waits for
 * itself; only neighbouring ranges of ranks are combined, so rank order is kept. R. Thakur, R. Rabenseifner, W. Gropp:
 * Optimization of collective communication operations in MPICH, 2005.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, 1);
    hki_multiplying_allreduce(builder, &everyone, 2, hki_all(&input), hki_all(&output), true);
}

static double rounds(const hki_call *call)
{
    uint32_t log = hki_log2_floor(call->ranks);
    return log + (call->ranks == 1u << log ? 0 : 2);
}

static double sent(const hki_call *call)
{
    uint32_t log = hki_log2_floor(call->ranks);
    return log + (call->ranks == 1u << log ? 0 : 1);
}

const hki_algorithm hki_algorithm_allreduce_recursive_doubling = {
    .name = "recursive_doubling",
    .summary = "whole vectors exchanged at doubling distances",
    .source = "Thakur, Rabenseifner, Gropp 2005",
    .keeps_order = true,
    .cut = hki_cut_whole,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "log2 P (+2 unless P = 2^k)",
    .sent_text = "n log2 P (+n unless P = 2^k)",
    .scratch_text = "n (2n in place)",
    .alike = hki_alike_in_pairs,
};

/*
 * Reduce, then broadcast, both on the binomial tree of rank 0: 2 log2 P rounds; rank 0 sends n log2 P. The baseline
 * that others must beat. Every subtree is a contiguous range of ranks, so rank order is kept. Partial results lie in
 * OUTPUT.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, 1);
    hki_tree tree = hki_tree_knomial(call->ranks, 0, call->rank, 2);
    hki_tree_reduce(builder, &everyone, &tree, hki_all(&input), hki_all(&output), true);
    hki_tree_broadcast(builder, &everyone, &tree, hki_all(&output));
}

static double rounds(const hki_call *call)
{
    return hki_log2_ceil(call->ranks) + hki_tree_knomial_depth(call->ranks, 2);
}

const hki_algorithm hki_algorithm_allreduce_reduce_broadcast = {
    .name = "reduce_broadcast",
    .summary = "binomial reduce to rank 0, binomial broadcast from it",
    .source = "MPI implementations' baseline",
    .keeps_order = true,
    .cut = hki_cut_whole,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_log,
    .rounds_text = "2 log2 P",
    .sent_text = "n log2 P",
    .scratch_text = "none",
};

/*
 * Binomial tree broadcast (minimum spanning tree): in every round all ranks that have the vector send it on. At most
 * ceil(log2 P) hops; the root sends the vector ceil(log2 P) times, the farthest subtrees first.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region output = hki_whole(builder, HKI_OUTPUT, 1);
    hki_tree tree = hki_tree_knomial(call->ranks, call->root, call->rank, 2);
    hki_tree_broadcast_segments(builder, &everyone, &tree, &output, 1);
}

static double rounds(const hki_call *call)
{
    return hki_tree_knomial_depth(call->ranks, 2);
}

const hki_algorithm hki_algorithm_broadcast_binomial = {
    .name = "binomial",
    .summary = "binomial tree",
    .source = "Thakur, Rabenseifner, Gropp 2005",
    .cut = hki_cut_whole,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_log,
    .rounds_text = "log2 P hops",
    .sent_text = "n ceil(log2 P)",
    .scratch_text = "none",
};

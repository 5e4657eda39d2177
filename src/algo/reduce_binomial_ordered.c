/*
 * Ordered binomial tree reduce: one binomial tree over the ranks above the root and one over those below, so that only
 * neighbouring ranges are combined, the lower one as left operand: rank order is kept for any root. The root receives
 * up to 2 log2 P messages; the vector is sent once by every other rank.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, 1), output = {0};
    if (call->rank == call->root)
        output = hki_whole(builder, HKI_OUTPUT, 1);
    hki_tree tree = hki_tree_ordered(call->ranks, call->root, call->rank);
    hki_tree_reduce_segments(builder, &everyone, &tree, &input, call->rank == call->root ? &output : NULL, 1, true);
}

/* The root takes its children one after another, and its farthest subtree is ready in time for the last. */
static double rounds(const hki_call *call)
{
    return hki_log2_ceil(call->ranks - call->root) + hki_log2_ceil(call->root + 1);
}

const hki_algorithm hki_algorithm_reduce_binomial_ordered = {
    .name = "binomial_ordered",
    .summary = "binomial trees on either side of the root, in rank order",
    .source = "binomial tree, two-sided",
    .keeps_order = true,
    .cut = hki_cut_whole,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_one,
    .rounds_text = "log2(P-root) + log2(root+1)",
    .sent_text = "n",
    .scratch_text = "n",
};

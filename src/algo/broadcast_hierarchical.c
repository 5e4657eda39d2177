/*
 * Broadcast with one leader a group: binomial among the leaders of the coarsest groups, then of the finer ones within
 * each, so that the vector crosses into every host once. In segments, which follow one another down the tree. N. T.
 * Karonis et al.: Exploiting hierarchy in parallel computer networks to optimize collective operation performance,
 * 2000.
 */
#include "algo/hierarchy.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region output = hki_whole(builder, HKI_OUTPUT, 1);
    hki_tree tree = hki_hierarchy_tree(call, hki_top(call), call->root);
    hki_tree_broadcast_segments(builder, &everyone, &tree, &output, call->segments);
}

static double rounds(const hki_call *call)
{
    return hki_hierarchy_depth(call) + call->segments - 1;
}

const hki_algorithm hki_algorithm_broadcast_hierarchical = {
    .name = "hierarchical",
    .summary = "segments down binomial trees of groups' leaders, then within groups",
    .source = "Karonis et al. 2000",
    .segmented = true,
    .hierarchical = true,
    .cut = hki_cut_whole_segments,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_hierarchy_children,
    .rounds_text = "log2 of each level's groups, added (+S-1)",
    .sent_text = "n a child",
    .scratch_text = "none",
};

/*
 * Reduce with one leader a group: binomial within the finest groups, then among their leaders, and so on, so that
 * every host sends one vector. In segments, which follow one another up the tree. N. T. Karonis et al., 2000.
 */
#include "algo/hierarchy.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, 1), output = {0};
    if (call->rank == call->root)
        output = hki_whole(builder, HKI_OUTPUT, 1);
    hki_tree tree = hki_hierarchy_tree(call, hki_top(call), call->root);
    hki_tree_reduce_segments(builder, &everyone, &tree, &input, call->rank == call->root ? &output : NULL,
                             call->segments, true);
}

/* With two segments under way at inner ranks, they follow one another more closely than this. */
static double rounds(const hki_call *call)
{
    return hki_hierarchy_children(call) * call->segments;
}

const hki_algorithm hki_algorithm_reduce_hierarchical = {
    .name = "hierarchical",
    .summary = "segments up binomial trees within groups, then of their leaders",
    .source = "Karonis et al. 2000",
    .segmented = true,
    .hierarchical = true,
    .cut = hki_cut_whole_segments,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_one,
    .rounds_text = "log2 of each level's groups, added (at most S times)",
    .sent_text = "n",
    .scratch_text = "2n/S",
};

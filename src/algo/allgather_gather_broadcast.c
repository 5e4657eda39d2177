/*
 * All-gather with one leader a group: shares are gathered at rank 0 through the leaders of groups, and the whole goes
 * down a tree along the same groups. Few messages between hosts, each of many shares: for short ones where hosts differ
 * in size. N. T. Karonis et al., 2000.
 */
#include "algo/hierarchy.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_call at_first = *call;
    at_first.root = 0;
    hki_group everyone = hki_everyone(call);
    hki_region own = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_tree tree = hki_hierarchy_tree(&at_first, hki_top(call), 0);
    hki_hierarchy_gather(builder, &at_first, &own, &output);
    hki_tree_broadcast(builder, &everyone, &tree, hki_all(&output));
}

static double rounds(const hki_call *call)
{
    return hki_top(call) + hki_hierarchy_depth(call);
}

/* By rank 0: the whole, to each of its children. */
static double sent(const hki_call *call)
{
    return hki_hierarchy_children(call);
}

const hki_algorithm hki_algorithm_allgather_gather_broadcast = {
    .name = "gather_broadcast",
    .summary = "to rank 0 through groups' leaders, and down a tree along the same groups",
    .source = "Karonis et al. 2000",
    .hierarchical = true,
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "1 a level, + log2 of each level's groups",
    .sent_text = "n a child",
    .scratch_text = "none",
};

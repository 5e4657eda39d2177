/*
 * Pipelined binary tree broadcast: segments down a balanced binary tree, log2 P hops; inner ranks send the vector
 * twice. The tree keeps ranks in order (lower ones to the left), so that neighbours in rank are near in the tree.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region output = hki_whole(builder, HKI_OUTPUT, 1);
    hki_tree tree = hki_tree_inorder(call->ranks, call->root, call->rank);
    hki_tree_broadcast_segments(builder, &everyone, &tree, &output, call->segments);
}

static double rounds(const hki_call *call)
{
    return hki_tree_inorder_depth(call->ranks, call->root) + call->segments - 1;
}

/* Someone has two children when the root has ranks on both sides, or one side is large enough to fork. */
static double sent(const hki_call *call)
{
    uint32_t above = call->ranks - call->root - 1, below = call->root;
    bool fork = (above > 0 && below > 0) || above >= 3 || below >= 3;
    return fork ? 2 : hki_form_one(call);
}

const hki_algorithm hki_algorithm_broadcast_pipelined_tree = {
    .name = "pipelined_tree",
    .summary = "segments down a binary tree",
    .source = "MPICH, Open MPI",
    .segmented = true,
    .cut = hki_cut_whole_segments,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "log2 P + S-1",
    .sent_text = "2n",
    .scratch_text = "none",
};

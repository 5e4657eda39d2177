/*
 * Pipelined binary tree reduce: segments up a balanced tree in which lower ranks are to the left, so that rank order is
 * kept for any root. log2 P levels of up to two messages; the vector sent once by every rank but the root.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, 1), output = {0};
    if (call->rank == call->root)
        output = hki_whole(builder, HKI_OUTPUT, 1);
    hki_tree tree = hki_tree_inorder(call->ranks, call->root, call->rank);
    hki_tree_reduce_segments(builder, &everyone, &tree, &input, call->rank == call->root ? &output : NULL,
                             call->segments, true);
}

/* Chain of a subtree of `size` ranks: the larger half first, which is never the shorter chain. */
static uint32_t chain(uint32_t size)
{
    if (size <= 1)
        return 0;
    uint32_t below = size / 2, above = size - 1 - below;
    uint32_t second = chain(below) + 1; /* taken last, since it is the larger */
    uint32_t first = above ? chain(above) + 1 : 0;
    return first + 1 > second && above ? first + 1 : second;
}

static double rounds(const hki_call *call)
{
    uint32_t below = call->root, above = call->ranks - 1 - call->root;
    uint32_t small = below > above ? above : below, large = below > above ? below : above;
    uint32_t first = small ? chain(small) + 1 : 0, second = large ? chain(large) + 1 : 0;
    uint32_t longest = small && first + 1 > second ? first + 1 : second;
    return longest + call->segments - 1;
}

const hki_algorithm hki_algorithm_reduce_pipelined_tree = {
    .name = "pipelined_tree",
    .summary = "segments up a binary tree, in rank order",
    .source = "MPICH, Open MPI",
    .keeps_order = true,
    .segmented = true,
    .cut = hki_cut_whole_segments,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_one,
    .rounds_text = "up to 2 log2 P + S-1",
    .sent_text = "n",
    .scratch_text = "2n/S",
};

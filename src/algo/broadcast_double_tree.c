/*
 * Double binary tree broadcast: the root feeds one half of the vector to each of two trees, in S segments. A rank has
 * children in at most one tree, so nobody sends more than n, and the last of log2 P hops gets full bandwidth.
 * P. Sanders, J. Speck, J. L. Träff: Two-tree algorithms for full bandwidth broadcast, reduction and scan, 2009.
 */
#include "algo/generators.h"

static void cut(const hki_call *call, hki_shape *shape)
{
    hki_cut_vector(call, shape, 2, call->segments);
}

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region output = hki_whole(builder, HKI_OUTPUT, 2);
    hki_tree trees[2] = {hki_tree_double(call->ranks, call->root, call->rank, 0),
                         hki_tree_double(call->ranks, call->root, call->rank, 1)};
    for (uint32_t segment = 0; segment < call->segments; segment++)
        for (uint32_t half = 0; half < 2; half++)
            hki_tree_broadcast(builder, &everyone, &trees[half],
                               hki_share_segment(&output, half, segment, call->segments));
}

static double rounds(const hki_call *call)
{
    return call->ranks > 1 ? hki_log2_floor(call->ranks - 1) + call->segments : 0;
}

const hki_algorithm hki_algorithm_broadcast_double_tree = {
    .name = "double_tree",
    .summary = "either half down one of two binary trees, in segments",
    .source = "Sanders, Speck, Träff 2009",
    .segmented = true,
    .cut = cut,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_one,
    .rounds_text = "log2(P-1) + S",
    .sent_text = "n",
    .scratch_text = "none",
};

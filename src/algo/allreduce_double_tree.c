/*
 * Double binary tree all-reduce: each half of the vector is reduced up one of two trees and broadcast down again, in S
 * segments. A rank has children in at most one of the trees, so it sends at most 2n in all and log2 P hops remain.
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
    hki_region input = hki_whole(builder, HKI_INPUT, 2), output = hki_whole(builder, HKI_OUTPUT, 2);
    hki_tree trees[2] = {hki_tree_double(call->ranks, 0, call->rank, 0),
                         hki_tree_double(call->ranks, 0, call->rank, 1)};
    for (uint32_t segment = 0; segment < call->segments; segment++)
        for (uint32_t half = 0; half < 2; half++)
            hki_tree_reduce(builder, &everyone, &trees[half], hki_share_segment(&input, half, segment, call->segments),
                            hki_share_segment(&output, half, segment, call->segments), true);
    for (uint32_t segment = 0; segment < call->segments; segment++)
        for (uint32_t half = 0; half < 2; half++)
            hki_tree_broadcast(builder, &everyone, &trees[half],
                               hki_share_segment(&output, half, segment, call->segments));
}

/* Up, an inner rank takes two children one after the other; down, it sends to both at once. */
static double rounds(const hki_call *call)
{
    return call->ranks > 1 ? 3.0 * hki_log2_floor(call->ranks - 1) + 1 + call->segments : 0;
}

static double sent(const hki_call *call)
{
    return call->ranks > 3 ? 2 : call->ranks / 2.0;
}

const hki_algorithm hki_algorithm_allreduce_double_tree = {
    .name = "double_tree",
    .summary = "either half up and down one of two binary trees, in segments",
    .source = "Sanders, Speck, Träff 2009",
    .segmented = true,
    .cut = cut,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "3 log2 P + S+1",
    .sent_text = "2n",
    .scratch_text = "none",
};

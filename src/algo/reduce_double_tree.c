/*
 * Double binary tree reduce: each half of the vector goes up one of two trees to the root, in S segments. A rank has
 * children in at most one of the trees, so it sends the vector once and reduces it at most twice, and the last of log2
 * P hops gets full bandwidth. P. Sanders, J. Speck, J. L. Träff: Two-tree algorithms for full bandwidth broadcast,
 * reduction and scan, 2009.
 */
#include "algo/generators.h"

static void cut(const hki_call *call, hki_shape *shape)
{
    hki_cut_vector(call, shape, 2, call->segments);
}

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    bool root = call->rank == call->root;
    hki_region input = hki_whole(builder, HKI_INPUT, 2), output = {0};
    if (root)
        output = hki_whole(builder, HKI_OUTPUT, 2);
    hki_tree trees[2] = {hki_tree_double(call->ranks, call->root, call->rank, 0),
                         hki_tree_double(call->ranks, call->root, call->rank, 1)};
    /* Partial results of two segments at a time: one goes up while the next is made. */
    uint32_t slots = !root && trees[0].count + trees[1].count > 0 ? hki_scratch_slots(builder, 2) : 0;
    for (uint32_t segment = 0; segment < call->segments; segment++)
        for (uint32_t half = 0; half < 2; half++) {
            hki_span from = hki_share_segment(&input, half, segment, call->segments);
            hki_span partial = root ? hki_share_segment(&output, half, segment, call->segments)
                                    : hki_in_slot(slots + segment % 2, from);
            hki_tree_reduce(builder, &everyone, &trees[half], from, partial, true);
        }
}

/* An inner rank takes two children one after the other. */
static double rounds(const hki_call *call)
{
    return call->ranks > 1 ? 2.0 * hki_log2_floor(call->ranks - 1) + call->segments : 0;
}

const hki_algorithm hki_algorithm_reduce_double_tree = {
    .name = "double_tree",
    .summary = "either half up one of two binary trees, in segments",
    .source = "Sanders, Speck, Träff 2009",
    .segmented = true,
    .cut = cut,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_one,
    .rounds_text = "2 log2(P-1) + S",
    .sent_text = "n",
    .scratch_text = "n/S",
};

/* Broadcast and reduction along any tree, whole or in segments. */
#include "algo/generators.h"

void hki_tree_broadcast(hki_builder *builder, const hki_group *group, const hki_tree *tree, hki_span span)
{
    if (tree->parent != HKI_NOBODY)
        hki_recv(builder, group, tree->parent, span);
    for (uint32_t i = 0; i < tree->count; i++)
        hki_send(builder, group, tree->child[i], span);
}

void hki_tree_reduce(hki_builder *builder, const hki_group *group, const hki_tree *tree, hki_span input,
                     hki_span partial, bool finish)
{
    hki_span value = input;
    for (uint32_t i = tree->count; i-- > 0;) {
        uint32_t child = tree->child[i];
        hki_recv_reduce(builder, group, child, partial, value, child < group->rank,
                        finish && i == 0 && tree->parent == HKI_NOBODY);
        value = partial;
    }
    if (tree->parent != HKI_NOBODY)
        hki_send(builder, group, tree->parent, value);
    else if (tree->count == 0)
        hki_place(builder, partial, input, finish);
}

void hki_tree_broadcast_segments(hki_builder *builder, const hki_group *group, const hki_tree *tree,
                                 const hki_region *region, uint32_t segments)
{
    for (uint32_t segment = 0; segment < segments; segment++)
        hki_tree_broadcast(builder, group, tree, hki_share_segment(region, 0, segment, segments));
}

void hki_tree_reduce_segments(hki_builder *builder, const hki_group *group, const hki_tree *tree,
                              const hki_region *input, const hki_region *output, uint32_t segments, bool finish)
{
    uint32_t slots = output || tree->count == 0 ? 0 : hki_scratch_slots(builder, segments > 1 ? 2 : 1);
    for (uint32_t segment = 0; segment < segments; segment++) {
        hki_span content = hki_share_segment(input, 0, segment, segments);
        hki_span partial =
            output ? hki_share_segment(output, 0, segment, segments) : hki_in_slot(slots + segment % 2, content);
        hki_tree_reduce(builder, group, tree, content, partial, finish);
    }
}

/*
 * Binomial tree scatter: the root sends every child the shares of its subtree in one message, and so on. ceil(log2 P)
 * hops; the root sends all shares but its own once. Needs equal counts, since inner ranks pass on other ranks' shares.
 */
#include "algo/generators.h"

void hki_knomial_scatter(hki_builder *builder, const hki_group *group, uint32_t radix, uint32_t root,
                         const hki_region *grid, bool in_grid, hki_span own)
{
    hki_tree tree = hki_tree_knomial(group->size, root, group->rank, radix);
    uint32_t members = hki_tree_knomial_members(group->size, root, group->rank, radix), offset = 0;
    if (members == 1 && group->rank != root) {
        hki_recv(builder, group, tree.parent, own);
        return;
    }
    hki_region shares = *grid;
    if (group->rank != root && !in_grid)
        shares = hki_subtree_scratch(builder, grid, group->rank, members, &offset);
    if (group->rank != root)
        hki_recv(builder, group, tree.parent, hki_shares(&shares, group->rank - offset, members));
    for (uint32_t i = 0; i < tree.count; i++) {
        uint32_t count = hki_tree_knomial_members(group->size, root, tree.child[i], radix);
        hki_send(builder, group, tree.child[i], hki_shares(&shares, tree.child[i] - offset, count));
    }
    hki_place(builder, own, hki_share(&shares, group->rank - offset), false);
}

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region own = hki_whole(builder, HKI_OUTPUT, 1), input = hki_whole(builder, HKI_INPUT, call->ranks);
    hki_knomial_scatter(builder, &everyone, 2, call->root, &input, false, hki_all(&own));
}

static double rounds(const hki_call *call)
{
    return hki_tree_knomial_depth(call->ranks, 2);
}

const hki_algorithm hki_algorithm_scatter_binomial = {
    .name = "binomial",
    .summary = "subtrees' shares down a binomial tree",
    .source = "Thakur, Rabenseifner, Gropp 2005",
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_all_but_one,
    .rounds_text = "log2 P hops",
    .sent_text = "(P-1)/P n",
    .scratch_text = "the subtree's shares",
};

/*
 * Binomial tree gather: every rank sends the shares of its subtree in one message. ceil(log2 P) rounds; nobody sends
 * more than half of the result. Needs equal counts, since inner ranks pass on other ranks' shares.
 */
#include "algo/generators.h"

void hki_knomial_gather(hki_builder *builder, const hki_group *group, uint32_t radix, uint32_t root, hki_span own,
                        const hki_region *grid)
{
    hki_tree tree = hki_tree_knomial(group->size, root, group->rank, radix);
    uint32_t members = hki_tree_knomial_members(group->size, root, group->rank, radix), offset = 0;
    if (members == 1 && group->rank != root) {
        hki_send(builder, group, tree.parent, own);
        return;
    }
    hki_region shares = *grid;
    if (group->rank != root)
        shares = hki_subtree_scratch(builder, grid, group->rank, members, &offset);
    hki_place(builder, hki_share(&shares, group->rank - offset), own, false);
    for (uint32_t i = tree.count; i-- > 0;) {
        uint32_t count = hki_tree_knomial_members(group->size, root, tree.child[i], radix);
        hki_recv(builder, group, tree.child[i], hki_shares(&shares, tree.child[i] - offset, count));
    }
    if (group->rank != root)
        hki_send(builder, group, tree.parent, hki_shares(&shares, group->rank - offset, members));
}

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region own = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_knomial_gather(builder, &everyone, 2, call->root, hki_all(&own), &output);
}

static double rounds(const hki_call *call)
{
    return hki_tree_knomial_depth(call->ranks, 2);
}

/* The root's largest subtree, of the P shares of the result. */
static double sent(const hki_call *call)
{
    return (double)hki_knomial_largest_subtree(call->ranks, 2) / call->ranks;
}

const hki_algorithm hki_algorithm_gather_binomial = {
    .name = "binomial",
    .summary = "subtrees' shares up a binomial tree",
    .source = "Thakur, Rabenseifner, Gropp 2005",
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "log2 P hops",
    .sent_text = "n/2",
    .scratch_text = "the subtree's shares",
};

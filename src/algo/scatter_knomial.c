/*
 * K-nomial tree scatter: the binomial tree in base four. Half its hops, more messages that leave side by side. Needs
 * equal counts, since inner ranks pass on other ranks' shares.
 */
#include "algo/generators.h"

enum { RADIX = 4 }; /* as MPICH's and UCC's default for other collectives; not measured here */

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region own = hki_whole(builder, HKI_OUTPUT, 1), input = hki_whole(builder, HKI_INPUT, call->ranks);
    hki_knomial_scatter(builder, &everyone, RADIX, call->root, &input, false, hki_all(&own));
}

static double rounds(const hki_call *call)
{
    return hki_tree_knomial_depth(call->ranks, RADIX);
}

const hki_algorithm hki_algorithm_scatter_knomial = {
    .name = "knomial",
    .summary = "subtrees' shares down a tree in base four",
    .source = "MPICH, UCC",
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_all_but_one,
    .rounds_text = "log4 P hops",
    .sent_text = "(P-1)/P n",
    .scratch_text = "the subtree's shares",
};

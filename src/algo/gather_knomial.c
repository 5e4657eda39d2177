/*
 * K-nomial tree gather: the binomial tree in base four. Half its hops, more messages for inner ranks to take side by
 * side. Needs equal counts, since inner ranks pass on other ranks' shares.
 */
#include "algo/generators.h"

enum { RADIX = 4 }; /* as MPICH's and UCC's default for other collectives; not measured here */

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region own = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_knomial_gather(builder, &everyone, RADIX, call->root, hki_all(&own), &output);
}

static double rounds(const hki_call *call)
{
    return hki_tree_knomial_depth(call->ranks, RADIX);
}

/* The root's largest subtree, of the P shares of the result. */
static double sent(const hki_call *call)
{
    return (double)hki_knomial_largest_subtree(call->ranks, RADIX) / call->ranks;
}

const hki_algorithm hki_algorithm_gather_knomial = {
    .name = "knomial",
    .summary = "subtrees' shares up a tree in base four",
    .source = "MPICH, UCC",
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "log4 P hops",
    .sent_text = "n/4",
    .scratch_text = "the subtree's shares",
};

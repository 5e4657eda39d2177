/*
 * K-nomial tree broadcast: the binomial tree in base four. Half its hops, but the root sends the vector up to 3 log4 P
 * times: for small vectors where starting messages side by side is cheap.
 */
#include "algo/generators.h"

enum { RADIX = 4 }; /* as MPICH's and UCC's default; not measured here */

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region output = hki_whole(builder, HKI_OUTPUT, 1);
    hki_tree tree = hki_tree_knomial(call->ranks, call->root, call->rank, RADIX);
    hki_tree_broadcast_segments(builder, &everyone, &tree, &output, 1);
}

static double rounds(const hki_call *call)
{
    return hki_tree_knomial_depth(call->ranks, RADIX);
}

/* The root's children: one for each non-zero digit in each place, as far as there are ranks. */
static double sent(const hki_call *call)
{
    return hki_form_children(call, RADIX);
}

const hki_algorithm hki_algorithm_broadcast_knomial = {
    .name = "knomial",
    .summary = "tree in base four",
    .source = "MPICH, UCC",
    .cut = hki_cut_whole,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "log4 P hops",
    .sent_text = "3n log4 P",
    .scratch_text = "none",
};

/*
 * K-nomial tree reduce: the binomial tree in base four. Fewer hops, more messages for inner ranks to take; the vector
 * sent once by every rank but the root.
 */
#include "algo/generators.h"

enum { RADIX = 4 }; /* as MPICH's and UCC's default; not measured here */

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, 1), output = {0};
    if (call->rank == call->root)
        output = hki_whole(builder, HKI_OUTPUT, 1);
    hki_tree tree = hki_tree_knomial(call->ranks, call->root, call->rank, RADIX);
    hki_tree_reduce_segments(builder, &everyone, &tree, &input, call->rank == call->root ? &output : NULL, 1, true);
}

/* An inner rank takes its children one after another: up to radix - 1 for each place of the tree. */
static double rounds(const hki_call *call)
{
    return hki_form_children(call, RADIX);
}

const hki_algorithm hki_algorithm_reduce_knomial = {
    .name = "knomial",
    .summary = "tree in base four",
    .source = "MPICH, UCC",
    .cut = hki_cut_whole,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_one,
    .rounds_text = "3 log4 P",
    .sent_text = "n",
    .scratch_text = "n",
    .abreast = RADIX - 1,
};

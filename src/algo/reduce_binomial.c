/*
 * Binomial tree reduce: ceil(log2 P) rounds, the vector sent once by every rank but the root. Subtrees go round from
 * the root cyclically, so rank order is not kept.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, 1), output = {0};
    if (call->rank == call->root)
        output = hki_whole(builder, HKI_OUTPUT, 1);
    hki_tree tree = hki_tree_knomial(call->ranks, call->root, call->rank, 2);
    hki_tree_reduce_segments(builder, &everyone, &tree, &input, call->rank == call->root ? &output : NULL, 1, true);
}

const hki_algorithm hki_algorithm_reduce_binomial = {
    .name = "binomial",
    .summary = "binomial tree",
    .source = "Thakur, Rabenseifner, Gropp 2005",
    .cut = hki_cut_whole,
    .generate = generate,
    .rounds = hki_form_log,
    .sent = hki_form_one,
    .rounds_text = "ceil(log2 P)",
    .sent_text = "n",
    .scratch_text = "n",
};

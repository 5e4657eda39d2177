/*
 * Chain broadcast: each rank passes segments on to the next. P-1 hops, S-1+P-1 rounds of one segment; every rank but
 * the last sends the vector once, so long vectors move at full bandwidth.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region output = hki_whole(builder, HKI_OUTPUT, 1);
    hki_tree tree = hki_tree_chain(call->ranks, call->root, call->rank);
    hki_tree_broadcast_segments(builder, &everyone, &tree, &output, call->segments);
}

const hki_algorithm hki_algorithm_broadcast_chain = {
    .name = "chain",
    .summary = "segments down a chain of all ranks",
    .source = "Open MPI",
    .segmented = true,
    .cut = hki_cut_whole_segments,
    .generate = generate,
    .rounds = hki_form_chain,
    .sent = hki_form_one,
    .rounds_text = "P-1 + S-1",
    .sent_text = "n",
    .scratch_text = "none",
};

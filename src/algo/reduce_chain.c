/*
 * Chain reduce: segments travel from the rank behind the root round to it, collecting operands. P-1 hops, the vector
 * sent once by every rank but the root: full bandwidth for long vectors. Two segments of scratch.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, 1), output = {0};
    if (call->rank == call->root)
        output = hki_whole(builder, HKI_OUTPUT, 1);
    hki_tree tree = hki_tree_chain(call->ranks, call->root, call->rank);
    hki_tree_reduce_segments(builder, &everyone, &tree, &input, call->rank == call->root ? &output : NULL,
                             call->segments, true);
}

const hki_algorithm hki_algorithm_reduce_chain = {
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
    .scratch_text = "2n/S",
};

/*
 * Segmented ring all-reduce: the ring with every share in S messages, so that reducing one overlaps with moving the
 * next. 2(P-1) hops in a chain and 2(P-1)/P of the vector sent by each rank, as in the plain ring. Open MPI calls it
 * segmented ring; P. Patarasuk, X. Yuan, 2009, for the ring.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks), output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_ring_allreduce(builder, &everyone, (hki_ring){.segments = call->segments}, &input, &output, true);
}

const hki_algorithm hki_algorithm_allreduce_segmented_ring = {
    .name = "segmented_ring",
    .summary = "ring with every share in S messages",
    .source = "Patarasuk, Yuan 2009; Open MPI",
    .segmented = true,
    .cut = hki_cut_ranks_segments,
    .generate = generate,
    .rounds = hki_form_double_ring,
    .sent = hki_form_twice_shares,
    .rounds_text = "2(P-1)",
    .sent_text = "2(P-1)/P n",
    .scratch_text = "none",
    .alike = hki_all_alike,
};

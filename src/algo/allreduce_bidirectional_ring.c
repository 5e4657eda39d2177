/*
 * Bidirectional ring all-reduce: one half of every share goes round forwards, the other backwards, so that both
 * directions of every link are used by both phases. 2(P-1) rounds of two messages of half the size; 2(P-1)/P of the
 * vector sent by each rank.
 */
#include "algo/generators.h"

static void cut(const hki_call *call, hki_shape *shape)
{
    hki_cut_vector(call, shape, 2 * call->ranks, 1);
}

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks), output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_ring_allreduce(builder, &everyone, (hki_ring){.segments = 2, .both = true}, &input, &output, true);
}

const hki_algorithm hki_algorithm_allreduce_bidirectional_ring = {
    .name = "bidirectional_ring",
    .summary = "half of every share round the ring either way",
    .source = "Patarasuk, Yuan 2009, both ways",
    .cut = cut,
    .generate = generate,
    .rounds = hki_form_double_ring,
    .sent = hki_form_twice_shares,
    .rounds_text = "2(P-1)",
    .sent_text = "2(P-1)/P n",
    .scratch_text = "none",
    .alike = hki_all_alike,
};

/*
 * Ring all-reduce: reduce-scatter, then all-gather, both on the ring. 2(P-1) rounds; every rank sends 2(P-1)/P of the
 * vector, the least possible. Shares are as equal as cache lines allow; counts below P leave some empty. Partial
 * results lie in OUTPUT, so there is no scratch. P. Patarasuk, X. Yuan: Bandwidth optimal all-reduce algorithms for
 * clusters of workstations, 2009.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks), output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_ring_allreduce(builder, &everyone, (hki_ring){.segments = 1}, &input, &output, true);
}

const hki_algorithm hki_algorithm_allreduce_ring = {
    .name = "ring",
    .summary = "reduce-scatter and all-gather on a ring",
    .source = "Patarasuk, Yuan 2009",
    .cut = hki_cut_ranks,
    .generate = generate,
    .rounds = hki_form_double_ring,
    .sent = hki_form_twice_shares,
    .rounds_text = "2(P-1)",
    .sent_text = "2(P-1)/P n",
    .scratch_text = "none",
    .alike = hki_all_alike,
};

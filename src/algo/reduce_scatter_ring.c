/*
 * Ring reduce-scatter: P-1 rounds; every rank sends all shares but one, the least possible. Share s sets out from rank
 * s+1 and collects operands until rank s. Per-rank counts may differ or be zero.
 * P. Patarasuk, X. Yuan, 2009.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks);
    hki_region result = hki_result_region(builder, call, &input);
    hki_ring_reduce_scatter(builder, &everyone, (hki_ring){.segments = call->segments}, &input, NULL, &result, true);
    hki_result_deliver(builder, &result);
}

const hki_algorithm hki_algorithm_reduce_scatter_ring = {
    .name = "ring",
    .summary = "shares travel round a ring and collect operands",
    .source = "Patarasuk, Yuan 2009",
    .segmented = true,
    .cut = hki_cut_blocks_segments,
    .generate = generate,
    .rounds = hki_form_ring,
    .sent = hki_form_all_but_one,
    .rounds_text = "P-1",
    .sent_text = "(P-1)/P n",
    .scratch_text = "2n/P",
    .alike = hki_all_alike,
};

/*
 * Ring all-gather: P-1 rounds; in each, every rank passes on the share that it received last. (P-1)/P of the result
 * sent by each rank, the least possible. Per-rank counts may differ or be zero.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region own = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_ring_allgather(builder, &everyone, (hki_ring){.segments = call->segments}, &own, &output);
}

const hki_algorithm hki_algorithm_allgather_ring = {
    .name = "ring",
    .summary = "shares travel round a ring",
    .source = "Thakur, Rabenseifner, Gropp 2005",
    .segmented = true,
    .cut = hki_cut_blocks_segments,
    .generate = generate,
    .rounds = hki_form_ring,
    .sent = hki_form_all_but_one,
    .rounds_text = "P-1",
    .sent_text = "(P-1)/P n",
    .scratch_text = "none",
    .alike = hki_all_alike,
};

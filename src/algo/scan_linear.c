/*
 * Linear scan: every rank adds its own to the prefix from below and passes it on, in S segments. P-1 hops, the vector
 * sent once by every rank but the last. Rank order is kept.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, 1);
    for (uint32_t segment = 0; segment < call->segments; segment++) {
        hki_span own = hki_share_segment(&input, 0, segment, call->segments);
        hki_span prefix = hki_share_segment(&output, 0, segment, call->segments);
        if (call->rank > 0)
            hki_recv_reduce(builder, &everyone, call->rank - 1, prefix, own, true, false);
        if (call->rank + 1 < call->ranks)
            hki_send(builder, &everyone, call->rank + 1, call->rank > 0 ? prefix : own);
        if (call->rank == 0)
            hki_place(builder, prefix, own, false);
    }
}

const hki_algorithm hki_algorithm_scan_linear = {
    .name = "linear",
    .summary = "prefix passed on from rank to rank, in segments",
    .source = "MPI implementations' baseline",
    .keeps_order = true,
    .segmented = true,
    .cut = hki_cut_whole_segments,
    .generate = generate,
    .rounds = hki_form_ring,
    .sent = hki_form_one,
    .rounds_text = "P-1 hops",
    .sent_text = "n",
    .scratch_text = "none",
};

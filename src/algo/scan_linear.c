/*
 * Linear scan: every rank adds its own to the prefix from below and passes it on, in S segments. P-1 hops, the vector
 * sent once by every rank but the last. Rank order is kept. What is passed on lies in scratch: only the copy that stays
 * is finished.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, 1);
    bool first = call->rank == 0, last = call->rank + 1 == call->ranks;
    uint32_t slots = first || last ? 0 : hki_scratch_slots(builder, call->segments > 1 ? 2 : 1);
    for (uint32_t segment = 0; segment < call->segments; segment++) {
        hki_span own = hki_share_segment(&input, 0, segment, call->segments);
        hki_span result = hki_share_segment(&output, 0, segment, call->segments);
        if (last) {
            hki_recv_reduce(builder, &everyone, call->rank - 1, result, own, true, true);
            continue;
        }
        hki_span prefix = first ? own : hki_in_slot(slots + segment % 2, own);
        if (!first)
            hki_recv_reduce(builder, &everyone, call->rank - 1, prefix, own, true, false);
        hki_send(builder, &everyone, call->rank + 1, prefix);
        hki_copy(builder, result, prefix, true);
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
    .rounds = hki_form_chain,
    .sent = hki_form_one,
    .rounds_text = "P-1 + S-1",
    .sent_text = "n",
    .scratch_text = "2n/S",
};

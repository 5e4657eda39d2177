/*
 * Linear exclusive scan: every rank keeps the prefix from below and passes it on with its own added, in S segments. P-1
 * hops, the vector sent once by every rank but the last. Rank order is kept; rank 0's output is left alone.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, 1);
    uint32_t slots = call->rank == 0 ? 0 : hki_scratch_slots(builder, 4); /* two segments of prefixes, two of sums */
    for (uint32_t segment = 0; segment < call->segments; segment++) {
        hki_span own = hki_share_segment(&input, 0, segment, call->segments);
        if (call->rank == 0) {
            hki_send(builder, &everyone, 1, own);
            continue;
        }
        hki_span prefix = hki_in_slot(slots + segment % 2, own), sum = hki_in_slot(slots + 2 + segment % 2, own);
        hki_recv(builder, &everyone, call->rank - 1, prefix);
        if (call->rank + 1 < call->ranks) {
            hki_reduce(builder, sum, (hki_span[]){prefix, own}, 2, false);
            hki_send(builder, &everyone, call->rank + 1, sum);
        }
        hki_copy(builder, hki_share_segment(&output, 0, segment, call->segments), prefix, true);
    }
}

const hki_algorithm hki_algorithm_exscan_linear = {
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
    .scratch_text = "4n/S",
};

/*
 * Linear exclusive scan: every rank keeps the prefix from below and passes it on with its own added, in S segments. P-1
 * hops, the vector sent once by every rank but the last. Rank order is kept; rank 0's output is left alone.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, 1);
    bool first = call->rank == 0, last = call->rank + 1 == call->ranks;
    bool in_place = hki_same_bytes(builder, hki_all(&input), hki_all(&output)) && !last;
    uint32_t slots = first || last ? 0 : hki_scratch_slots(builder, 4); /* two segments of sums, two of arrivals */
    for (uint32_t segment = 0; segment < call->segments; segment++) {
        hki_span own = hki_share_segment(&input, 0, segment, call->segments);
        hki_span result = hki_share_segment(&output, 0, segment, call->segments);
        if (first) {
            hki_send(builder, &everyone, 1, own);
            continue;
        }
        hki_span prefix = in_place ? hki_in_slot(slots + 2 + segment % 2, own) : result;
        hki_recv(builder, &everyone, call->rank - 1, prefix);
        if (!last) {
            hki_span sum = hki_in_slot(slots + segment % 2, own);
            hki_reduce(builder, sum, (hki_span[]){prefix, own}, 2, false);
            hki_send(builder, &everyone, call->rank + 1, sum);
        }
        hki_place(builder, result, prefix, false);
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
    .rounds = hki_form_ring,
    .sent = hki_form_one,
    .rounds_text = "P-1 hops",
    .sent_text = "n",
    .scratch_text = "2n/S (4n/S in place)",
};

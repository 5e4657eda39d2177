/*
 * Recursive doubling scan: in round k every rank sends what it has to the rank 2^k above. ceil(log2 P) rounds, up to
 * n log2 P bytes sent by a rank. Rank order is kept. A rank whose last value is sent on keeps that value in scratch and
 * copies it, since only the copy is finished.
 * W. D. Hillis, G. L. Steele: Data parallel algorithms, 1986.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, 1);
    uint32_t receives = hki_log2_ceil(call->rank + 1), have = 0;
    bool sent_on = call->ranks - call->rank > 1u << receives;
    hki_span last = hki_all(&output);
    if (sent_on && receives > 0)
        last = hki_in_slot(hki_scratch_slot(builder), hki_all(&input));
    hki_stages values = hki_stages_new(builder, hki_all(&input), last, receives, false);
    for (uint32_t distance = 1; distance < call->ranks; distance *= 2) {
        if (call->ranks - call->rank > distance)
            hki_send(builder, &everyone, call->rank + distance, hki_stage(&values, have));
        if (call->rank < distance)
            continue;
        hki_recv_reduce(builder, &everyone, call->rank - distance, hki_stage(&values, have + 1),
                        hki_stage(&values, have), true, have + 1 == receives && !sent_on);
        have++;
    }
    if (sent_on)
        hki_copy(builder, hki_all(&output), hki_stage(&values, receives), true);
    else
        hki_stages_deliver(builder, &values);
}

const hki_algorithm hki_algorithm_scan_recursive_doubling = {
    .name = "recursive_doubling",
    .summary = "prefixes sent to doubling distances",
    .source = "Hillis, Steele 1986",
    .keeps_order = true,
    .cut = hki_cut_whole,
    .generate = generate,
    .rounds = hki_form_log,
    .sent = hki_form_log,
    .rounds_text = "ceil(log2 P)",
    .sent_text = "n log2 P",
    .scratch_text = "2n",
};

/*
 * Linear gather: everyone sends its share to the root. One round of P-1 messages to the root. Only the root needs to
 * know the counts, so this serves per-rank counts.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region own = hki_whole(builder, HKI_INPUT, 1);
    if (call->rank != call->root) {
        hki_send(builder, &everyone, call->root, hki_all(&own));
        return;
    }
    hki_region output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_place(builder, hki_share(&output, call->rank), hki_all(&own), false);
    for (uint32_t distance = 1; distance < call->ranks; distance++) {
        uint32_t from = hki_ahead(call->ranks, call->rank, distance);
        hki_recv(builder, &everyone, from, hki_share(&output, from));
    }
}

/* A share, of the P shares of the result. */
static double sent(const hki_call *call)
{
    return call->ranks > 1 ? 1.0 / call->ranks : 0;
}

const hki_algorithm hki_algorithm_gather_linear = {
    .name = "linear",
    .summary = "everyone sends to the root",
    .source = "folklore",
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = hki_form_one,
    .sent = sent,
    .rounds_text = "1",
    .sent_text = "n/P",
    .scratch_text = "none",
};

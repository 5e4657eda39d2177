/*
 * Linear scatter: the root sends every rank its share. One round of P-1 messages from the root. Only the root needs to
 * know the counts, so this serves per-rank counts.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region own = hki_whole(builder, HKI_OUTPUT, 1);
    if (call->rank != call->root) {
        hki_recv(builder, &everyone, call->root, hki_all(&own));
        return;
    }
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks);
    for (uint32_t distance = 1; distance < call->ranks; distance++) {
        uint32_t to = hki_ahead(call->ranks, call->rank, distance);
        hki_send(builder, &everyone, to, hki_share(&input, to));
    }
    hki_place(builder, hki_all(&own), hki_share(&input, call->rank), false);
}

const hki_algorithm hki_algorithm_scatter_linear = {
    .name = "linear",
    .summary = "the root sends to everyone",
    .source = "folklore",
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = hki_form_one,
    .sent = hki_form_all_but_one,
    .rounds_text = "1",
    .sent_text = "(P-1)/P n",
    .scratch_text = "none",
};

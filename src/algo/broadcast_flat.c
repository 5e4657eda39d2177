/*
 * Flat broadcast: the root sends the vector to everyone. One hop, (P-1) n sent by the root: for few ranks, and where
 * one copy of the data can be read by many.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region output = hki_whole(builder, HKI_OUTPUT, 1);
    if (call->rank != call->root)
        hki_recv(builder, &everyone, call->root, hki_all(&output));
    else
        for (uint32_t distance = 1; distance < call->ranks; distance++)
            hki_send(builder, &everyone, hki_ahead(call->ranks, call->rank, distance), hki_all(&output));
}

const hki_algorithm hki_algorithm_broadcast_flat = {
    .name = "flat",
    .summary = "the root sends to everyone",
    .source = "folklore",
    .sprawls = true,
    .cut = hki_cut_whole,
    .generate = generate,
    .rounds = hki_form_one,
    .sent = hki_form_everyone,
    .rounds_text = "1",
    .sent_text = "(P-1) n",
    .scratch_text = "none",
};

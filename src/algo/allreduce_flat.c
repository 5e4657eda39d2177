/*
 * Flat all-reduce: everyone sends its vector to everyone and reduces all of them in rank order, in one pass with one
 * rounding. One round of P-1 messages; (P-1) n sent by each rank: for the smallest vectors, where rounds decide.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, 1);
    for (uint32_t distance = 1; distance < call->ranks; distance++)
        hki_send(builder, &everyone, hki_ahead(call->ranks, call->rank, distance), hki_all(&input));
    hki_reduce_from_all(builder, &everyone, hki_all(&input), true, hki_all(&output), true);
}

const hki_algorithm hki_algorithm_allreduce_flat = {
    .name = "flat",
    .summary = "everyone sends everything to everyone, one round",
    .source = "folklore (one-shot)",
    .keeps_order = true,
    .sprawls = true,
    .cut = hki_cut_whole,
    .generate = generate,
    .rounds = hki_form_one,
    .sent = hki_form_everyone,
    .rounds_text = "1",
    .sent_text = "(P-1) n",
    .scratch_text = "(P-1) n",
    .alike = hki_all_alike,
};

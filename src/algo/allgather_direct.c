/*
 * Direct all-gather: everyone sends its share to everyone. One round of P-1 messages; (P-1)/P of the result sent by
 * each rank.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region own = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_direct_allgather(builder, &everyone, hki_all(&own), &output);
}

const hki_algorithm hki_algorithm_allgather_direct = {
    .name = "direct",
    .summary = "everyone sends its share to everyone, one round",
    .source = "folklore",
    .sprawls = true,
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = hki_form_one,
    .sent = hki_form_all_but_one,
    .rounds_text = "1",
    .sent_text = "(P-1)/P n",
    .scratch_text = "none",
    .alike = hki_all_alike,
};

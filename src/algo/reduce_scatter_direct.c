/*
 * Direct reduce-scatter: everyone sends every share to its owner at once; the owner reduces all in rank order and one
 * pass. One round of P-1 messages, (P-1)/P of the vector sent by each rank; serves non-commutative operators.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks);
    hki_region result = hki_result_region(builder, call, &input);
    hki_direct_reduce_scatter(builder, &everyone, &input, hki_all(&result), true);
    hki_result_deliver(builder, &result);
}

const hki_algorithm hki_algorithm_reduce_scatter_direct = {
    .name = "direct",
    .summary = "every share straight to its owner, all at once",
    .source = "folklore",
    .keeps_order = true,
    .sprawls = true,
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = hki_form_one,
    .sent = hki_form_all_but_one,
    .rounds_text = "1",
    .sent_text = "(P-1)/P n",
    .scratch_text = "(P-1)/P n",
    .alike = hki_all_alike,
};

/*
 * Direct reduce: everyone sends every share to its owner at once, the owner reduces all in rank order and one pass, and
 * sends its share to the root. Two rounds of up to P-1 messages; nobody sends more than the vector. Serves
 * non-commutative operators.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks), share = hki_subregion(&input, call->rank, 1);
    if (call->rank != call->root) {
        hki_region own = hki_scratch_like(builder, &share);
        hki_direct_reduce_scatter(builder, &everyone, &input, hki_all(&own), true);
        hki_send(builder, &everyone, call->root, hki_all(&own));
        return;
    }
    hki_region output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_direct_reduce_scatter(builder, &everyone, &input, hki_share(&output, call->rank), true);
    for (uint32_t distance = 1; distance < call->ranks; distance++) {
        uint32_t from = hki_ahead(call->ranks, call->rank, distance);
        hki_recv(builder, &everyone, from, hki_share(&output, from));
    }
}

static double sent(const hki_call *call)
{
    return call->ranks > 1 ? 1 : 0;
}

const hki_algorithm hki_algorithm_reduce_direct = {
    .name = "direct",
    .summary = "every share straight to its owner, and from there to the root",
    .source = "folklore",
    .keeps_order = true,
    .sprawls = true,
    .cut = hki_cut_ranks,
    .generate = generate,
    .rounds = hki_form_two,
    .sent = sent,
    .rounds_text = "2",
    .sent_text = "n",
    .scratch_text = "n",
};

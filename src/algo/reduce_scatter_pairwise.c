/*
 * Pairwise reduce-scatter: in round k every rank sends share r+k to its owner and adds what arrives for its own share.
 * P-1 rounds, (P-1)/P of the vector sent by each rank, no scratch: the choice where memory is short.
 * R. Thakur, R. Rabenseifner, W. Gropp, 2005.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks);
    hki_region result = hki_result_region(builder, call, &input);
    hki_span value = hki_share(&input, call->rank);
    for (uint32_t distance = 1; distance < call->ranks; distance++) {
        uint32_t to = hki_ahead(call->ranks, call->rank, distance);
        uint32_t from = hki_behind(call->ranks, call->rank, distance);
        hki_send(builder, &everyone, to, hki_share(&input, to));
        hki_recv_reduce(builder, &everyone, from, hki_all(&result), value, from < call->rank,
                        distance + 1 == call->ranks);
        value = hki_all(&result);
    }
    hki_result_deliver(builder, &result);
}

const hki_algorithm hki_algorithm_reduce_scatter_pairwise = {
    .name = "pairwise",
    .summary = "every share straight to its owner, one after another",
    .source = "Thakur, Rabenseifner, Gropp 2005",
    .sprawls = true,
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = hki_form_ring,
    .sent = hki_form_all_but_one,
    .rounds_text = "P-1",
    .sent_text = "(P-1)/P n",
    .scratch_text = "none",
    .alike = hki_all_alike,
};

/*
 * Direct all-reduce: every rank reduces its share straight from all others, in rank order and one pass, then sends it
 * to all. Two rounds of P-1 messages; 2(P-1)/P of the vector sent by each rank. Best in shared memory, where a message
 * costs no more for going to many peers.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks), output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_span own = hki_share(&output, call->rank);
    hki_direct_reduce_scatter(builder, &everyone, &input, own, true);
    hki_direct_allgather(builder, &everyone, own, &output);
}

const hki_algorithm hki_algorithm_allreduce_direct = {
    .name = "direct",
    .summary = "everyone reduces its share from all, then sends it to all",
    .source = "folklore (two-shot)",
    .keeps_order = true,
    .sprawls = true,
    .cut = hki_cut_ranks,
    .generate = generate,
    .rounds = hki_form_two,
    .sent = hki_form_twice_shares,
    .rounds_text = "2",
    .sent_text = "2(P-1)/P n",
    .scratch_text = "(P-1)/P n",
    .alike = hki_all_alike,
};

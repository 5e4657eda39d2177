/*
 * Bruck's all-gather: in round k every rank sends the shares that it has to the rank 2^k behind. ceil(log2 P) rounds
 * and (P-1)/P of the result sent by each rank, for any P. Wrapped ranges of OUTPUT are sent as they lie, so the final
 * rotation of the paper is not needed.
 * J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby: Efficient algorithms for all-to-all communications, 1997.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region own = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_bruck_allgather(builder, &everyone, 2, hki_all(&own), &output);
}

const hki_algorithm hki_algorithm_allgather_bruck = {
    .name = "bruck",
    .summary = "doubling ranges from doubling distances, any P",
    .source = "Bruck et al. 1997",
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = hki_form_log,
    .sent = hki_form_all_but_one,
    .rounds_text = "ceil(log2 P)",
    .sent_text = "(P-1)/P n",
    .scratch_text = "none",
    .alike = hki_all_alike,
};

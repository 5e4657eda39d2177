/*
 * All-reduce by Bruck's ranges: reversed as reduce-scatter, then as all-gather. 2 ceil(log2 P) rounds and 2(P-1)/P of
 * the vector sent by each rank for any P: where P is no power of two, two rounds and a vector less than with a fold.
 * Partial results lie in OUTPUT. J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby, 1997; J. L. Träff: Optimal,
 * non-pipelined reduce-scatter and allreduce algorithms, 2024.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks), output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_span own = hki_share(&output, call->rank);
    hki_bruck_reduce_scatter(builder, &everyone, 2, &input, &output, own, true);
    hki_bruck_allgather(builder, &everyone, 2, own, &output);
}

static double rounds(const hki_call *call)
{
    return 2 * hki_form_log(call);
}

const hki_algorithm hki_algorithm_allreduce_bruck = {
    .name = "bruck",
    .summary = "ranges at halving, then doubling distances, any P",
    .source = "Bruck et al. 1997; Träff 2024",
    .cut = hki_cut_ranks,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_twice_shares,
    .rounds_text = "2 ceil(log2 P)",
    .sent_text = "2(P-1)/P n",
    .scratch_text = "none",
    .alike = hki_all_alike,
};

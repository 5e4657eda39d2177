/*
 * All-reduce by Bruck's ranges in base four: up to three messages side by side at every distance of a power of four,
 * down as reduce-scatter, up as all-gather. 2 ceil(log4 P) rounds and 2(P-1)/P of the vector sent by each rank for any
 * P, without the fold of k-nomial exchanges. Partial results lie in OUTPUT. J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D.
 * Weathersby, 1997 (k ports).
 */
#include "algo/generators.h"

enum { RADIX = 4 }; /* as the other algorithms of this base; not measured here */

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks), output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_span own = hki_share(&output, call->rank);
    hki_bruck_reduce_scatter(builder, &everyone, RADIX, &input, &output, own, true);
    hki_bruck_allgather(builder, &everyone, RADIX, own, &output);
}

/* What is reduced comes through one port, one after another; what is gathered goes side by side. */
static double rounds(const hki_call *call)
{
    return hki_bruck_messages(call->ranks, RADIX) + hki_bruck_rounds(call->ranks, RADIX);
}

const hki_algorithm hki_algorithm_allreduce_radix_bruck = {
    .name = "radix_bruck",
    .summary = "three ranges a round at distances that change by four, any P",
    .source = "Bruck et al. 1997",
    .cut = hki_cut_ranks,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_twice_shares,
    .rounds_text = "at most 4 ceil(log4 P)",
    .sent_text = "2(P-1)/P n",
    .scratch_text = "none",
    .abreast = RADIX - 1,
    .alike = hki_all_alike,
};

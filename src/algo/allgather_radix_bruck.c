/*
 * Bruck's all-gather in base four: at every distance of a power of four a rank sends what it has to up to three others
 * side by side. ceil(log4 P) rounds and (P-1)/P of the result sent by each rank, for any P. J. Bruck, C.-T. Ho, S.
 * Kipnis, E. Upfal, D. Weathersby, 1997 (k ports).
 */
#include "algo/generators.h"

enum { RADIX = 4 }; /* as the other algorithms of this base; not measured here */

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region own = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_bruck_allgather(builder, &everyone, RADIX, hki_all(&own), &output);
}

static double rounds(const hki_call *call)
{
    return hki_bruck_rounds(call->ranks, RADIX);
}

const hki_algorithm hki_algorithm_allgather_radix_bruck = {
    .name = "radix_bruck",
    .summary = "three ranges a round from distances that go up by four, any P",
    .source = "Bruck et al. 1997",
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_all_but_one,
    .rounds_text = "ceil(log4 P)",
    .sent_text = "(P-1)/P n",
    .scratch_text = "none",
    .alike = hki_all_alike,
};

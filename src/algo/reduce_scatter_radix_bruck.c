/*
 * Reversed Bruck reduce-scatter in base four: up to three ranges of shares leave side by side at every distance of a
 * power of four. ceil(log4 P) rounds and (P-1)/P of the vector sent by each rank, for any P. J. Bruck, C.-T. Ho, S.
 * Kipnis, E. Upfal, D. Weathersby, 1997 (as all-gather through k ports).
 */
#include "algo/generators.h"

enum { RADIX = 4 }; /* as the other algorithms of this base; not measured here */

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks);
    hki_region result = hki_result_region(builder, call, &input);
    hki_region sums = call->ranks > RADIX ? hki_scratch_like(builder, &input) : result;
    hki_bruck_reduce_scatter(builder, &everyone, RADIX, &input, &sums, hki_all(&result), true);
    hki_result_deliver(builder, &result);
}

/* Through one port: the messages of a round one after another. */
static double rounds(const hki_call *call)
{
    return hki_bruck_messages(call->ranks, RADIX);
}

const hki_algorithm hki_algorithm_reduce_scatter_radix_bruck = {
    .name = "radix_bruck",
    .summary = "three ranges a round at distances that go down by four, any P",
    .source = "Bruck et al. 1997",
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_all_but_one,
    .rounds_text = "at most 3 ceil(log4 P)",
    .sent_text = "(P-1)/P n",
    .scratch_text = "n/4 ... n",
    .abreast = RADIX - 1,
    .alike = hki_all_alike,
};

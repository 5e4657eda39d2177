/*
 * Broadcast as scatter down a tree and Bruck's all-gather, both in base four: 2 ceil(log4 P) rounds, of up to three
 * messages side by side, for any P, and nobody sends more than 2(P-1)/P of the vector. R. Thakur, R. Rabenseifner,
 * W. Gropp, 2005; J. Bruck et al., 1997 (k ports).
 */
#include "algo/generators.h"

enum { RADIX = 4 }; /* as the other algorithms of this base; not measured here */

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_span own = hki_share(&output, call->rank);
    hki_knomial_scatter(builder, &everyone, RADIX, call->root, &output, true, own);
    hki_bruck_allgather(builder, &everyone, RADIX, own, &output);
}

static double rounds(const hki_call *call)
{
    return hki_tree_knomial_depth(call->ranks, RADIX) + hki_bruck_rounds(call->ranks, RADIX);
}

const hki_algorithm hki_algorithm_broadcast_scatter_radix_bruck = {
    .name = "scatter_radix_bruck",
    .summary = "scatter and all-gather in base four, any P",
    .source = "Thakur et al. 2005; Bruck et al. 1997",
    .cut = hki_cut_ranks,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_twice_shares,
    .rounds_text = "2 ceil(log4 P)",
    .sent_text = "2(P-1)/P n",
    .scratch_text = "none",
    .parts_interleave = true,
    .parts = {{HKI_COLL_SCATTER, "knomial"}, {HKI_COLL_ALLGATHER, "radix_bruck"}},
};

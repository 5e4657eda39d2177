/*
 * Broadcast as binomial scatter and Bruck's all-gather: 2 ceil(log2 P) rounds for any P, and nobody sends more than
 * 2(P-1)/P of the vector. As van de Geijn's, in few rounds. R. Thakur, R. Rabenseifner, W. Gropp, 2005; J. Bruck et
 * al., 1997.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_span own = hki_share(&output, call->rank);
    hki_knomial_scatter(builder, &everyone, 2, call->root, &output, true, own);
    hki_bruck_allgather(builder, &everyone, 2, own, &output);
}

static double rounds(const hki_call *call)
{
    return hki_tree_knomial_depth(call->ranks, 2) + hki_form_log(call);
}

const hki_algorithm hki_algorithm_broadcast_scatter_bruck = {
    .name = "scatter_bruck",
    .summary = "binomial scatter, all-gather at doubling distances",
    .source = "Thakur et al. 2005; Bruck et al. 1997",
    .cut = hki_cut_ranks,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_twice_shares,
    .rounds_text = "2 ceil(log2 P)",
    .sent_text = "2(P-1)/P n",
    .scratch_text = "none",
    .parts_interleave = true,
    .parts = {{HKI_COLL_SCATTER, "binomial"}, {HKI_COLL_ALLGATHER, "bruck"}},
};

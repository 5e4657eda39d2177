/*
 * Broadcast as scatter and all-gather (van de Geijn): the root's vector is scattered in P shares down the binomial
 * tree, and gathered on the ring. log2 P + P-1 rounds; nobody sends more than 2(P-1)/P of the vector. M. Barnett, S.
 * Gupta, D. Payne, L. Shuler, R. van de Geijn, J. Watts: Interprocessor collective communication library, 1994.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_region own = hki_subregion(&output, call->rank, 1);
    hki_knomial_scatter(builder, &everyone, 2, call->root, &output, true, hki_all(&own));
    hki_ring_allgather(builder, &everyone, (hki_ring){.segments = 1}, &own, &output);
}

static double rounds(const hki_call *call)
{
    return hki_tree_knomial_depth(call->ranks, 2) + hki_form_ring(call);
}

const hki_algorithm hki_algorithm_broadcast_scatter_allgather = {
    .name = "scatter_allgather",
    .summary = "binomial scatter, ring all-gather",
    .source = "Barnett et al. 1994 (van de Geijn)",
    .cut = hki_cut_ranks,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_twice_shares,
    .rounds_text = "log2 P + P-1",
    .sent_text = "2(P-1)/P n",
    .scratch_text = "none",
    .parts = {{HKI_COLL_SCATTER, "binomial"}, {HKI_COLL_ALLGATHER, "ring"}},
};

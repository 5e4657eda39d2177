/*
 * Broadcast over any number of levels, every rank at work: the root's vector is scattered through the leaders of groups
 * and gathered by columns, first between ranks of the same number in every group, then within groups. What a host takes
 * in crosses once for all its ranks together. Levels may be uneven. M. Barnett et al., 1994 (scatter and all-gather);
 * J. L. Träff, S. Hunold: Decomposing MPI collectives for exploiting multi-lane communication, 2020.
 */
#include "algo/hierarchy.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_region output = hki_whole(builder, HKI_OUTPUT, call->ranks), own = hki_subregion(&output, call->rank, 1);
    hki_hierarchy_scatter(builder, call, &output, &own, true);
    hki_columns_allgather(builder, call, HKI_SHARES_IN_ORDER, hki_all(&own), &output);
}

static double rounds(const hki_call *call)
{
    return hki_top(call) + hki_columns_rounds(call);
}

static double sent(const hki_call *call)
{
    return hki_tiers_even(call) ? hki_form_twice_shares(call) : __builtin_nan("");
}

const hki_algorithm hki_algorithm_broadcast_multilevel = {
    .name = "multilevel",
    .summary = "scatter through leaders, all-gather between and within groups",
    .source = "Barnett et al. 1994; Träff, Hunold 2020",
    .hierarchical = true,
    .cut = hki_cut_ranks,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "1 a level, +1 a level (k-1 of k > 8 groups)",
    .sent_text = "2(P-1)/P n",
    .scratch_text = "none",
    .parts_interleave = true,
    .parts = {{HKI_COLL_SCATTER, "hierarchical"}, {HKI_COLL_ALLGATHER, "hierarchical"}},
};

/*
 * Reduce over any number of levels, every rank at work: shares for all ranks are reduced by columns within the finest
 * groups, then among those, and so on, as in the multilevel all-reduce, and gathered through the groups' leaders.
 * (P-1)/P of the vector sent by each rank for the first, at most the share of the coarsest group for the second. Levels
 * may be uneven. R. Rabenseifner, 2004 (reduce-scatter and gather); after E. Chan et al., 2006 (dimension by
 * dimension).
 */
#include "algo/hierarchy.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    bool root = call->rank == call->root;
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks), work;
    work = root ? hki_whole(builder, HKI_OUTPUT, call->ranks) : hki_scratch_like(builder, &input);
    hki_region own = hki_subregion(&work, call->rank, 1);
    hki_columns_reduce_scatter(builder, call, &input, HKI_SHARES_IN_ORDER, &work, hki_all(&own));
    hki_hierarchy_gather(builder, call, &own, &work);
}

static double rounds(const hki_call *call)
{
    return hki_columns_rounds(call) + hki_top(call);
}

static double sent(const hki_call *call)
{
    if (!hki_tiers_even(call))
        return __builtin_nan("");
    uint32_t fan = hki_tier_fan(call, hki_top(call));
    return hki_form_all_but_one(call) + 1.0 / fan;
}

const hki_algorithm hki_algorithm_reduce_multilevel = {
    .name = "multilevel",
    .summary = "reduce-scatter from the finest groups to all, gather through leaders",
    .source = "Rabenseifner 2004; after Chan et al. 2006",
    .hierarchical = true,
    .cut = hki_cut_ranks,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "1 a level (k-1 of k > 8 groups), +1 a level",
    .sent_text = "(P-1)/P n + n/N",
    .scratch_text = "up to n",
    .parts = {{HKI_COLL_REDUCE_SCATTER, "hierarchical"}, {HKI_COLL_GATHER, "hierarchical"}},
};

/*
 * All-reduce over any number of levels, every rank at work: shares for all ranks are reduced by columns within the
 * finest groups, then among those, and so on, and gathered back the same way. 2(P-1)/P of the vector sent by each rank,
 * of which only 2(N-1)/(N m) crosses between N hosts of m ranks: n each way per host for two hosts, less than 2n for
 * more. Levels may be uneven. After E. Chan, R. van de Geijn, W. Gropp, R. Thakur: Collective communication on
 * architectures that support simultaneous communication over multiple links, 2006 (dimension by dimension).
 */
#include "algo/hierarchy.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks), output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_span own = hki_share(&output, hki_spread_share(call, call->rank));
    hki_columns_reduce_scatter(builder, call, &input, HKI_SHARES_SPREAD, &output, own);
    hki_columns_allgather(builder, call, HKI_SHARES_SPREAD, own, &output);
}

static double rounds(const hki_call *call)
{
    return 2 * hki_columns_rounds(call);
}

static double sent(const hki_call *call)
{
    return hki_tiers_even(call) ? hki_form_twice_shares(call) : __builtin_nan("");
}

const hki_algorithm hki_algorithm_allreduce_multilevel = {
    .name = "multilevel",
    .summary = "reduce-scatter from the finest groups to all, all-gather back",
    .source = "after Chan et al. 2006",
    .hierarchical = true,
    .cut = hki_cut_ranks,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "2 a level (k-1 of k > 8 groups)",
    .sent_text = "2(P-1)/P n",
    .scratch_text = "up to n",
    .alike = hki_tiers_alike,
};

/*
 * Reduce-scatter by columns: within every group the ranks reduce what those of the same number in other groups are to
 * get, then hand it over between groups. (P-1)/P of the vector sent by each rank, as by the flat forms, but between N
 * hosts of m ranks only (N-1)/(N m) of it. Per-rank counts may differ or be zero, and so may groups. The dual of the
 * multi-lane all-gather of J. L. Träff, S. Hunold: Decomposing MPI collectives for exploiting multi-lane
 * communication, 2020.
 */
#include "algo/hierarchy.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks);
    hki_region work = hki_scratch_like(builder, &input), result = hki_result_region(builder, call, &input);
    hki_columns_reduce_scatter(builder, call, &input, HKI_SHARES_IN_ORDER, &work, hki_all(&result));
    hki_result_deliver(builder, &result);
}

static double sent(const hki_call *call)
{
    return hki_tiers_even(call) ? hki_form_all_but_one(call) : __builtin_nan("");
}

const hki_algorithm hki_algorithm_reduce_scatter_hierarchical = {
    .name = "hierarchical",
    .summary = "within groups, then between ranks of one number in each",
    .source = "Träff, Hunold 2020 (multi-lane)",
    .hierarchical = true,
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = hki_columns_rounds,
    .sent = sent,
    .rounds_text = "1 a level (k-1 of k > 8 groups)",
    .sent_text = "(P-1)/P n",
    .scratch_text = "up to n",
    .alike = hki_tiers_alike,
};

/*
 * All-gather by columns: ranks of the same number in every group exchange their shares, then hand all that they have
 * to the others of their group. (P-1)/P of the result sent by each rank, of which only (N-1)/(N m) crosses between N
 * hosts of m ranks. Per-rank counts may differ or be zero, and groups be uneven. J. L. Träff, S. Hunold: Decomposing
 * MPI collectives for exploiting multi-lane communication, 2020.
 */
#include "algo/hierarchy.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_region own = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_columns_allgather(builder, call, HKI_SHARES_IN_ORDER, hki_all(&own), &output);
}

static double sent(const hki_call *call)
{
    return hki_tiers_even(call) ? hki_form_all_but_one(call) : __builtin_nan("");
}

const hki_algorithm hki_algorithm_allgather_hierarchical = {
    .name = "hierarchical",
    .summary = "between ranks of one number in each group, then within groups",
    .source = "Träff, Hunold 2020 (multi-lane)",
    .hierarchical = true,
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = hki_columns_rounds,
    .sent = sent,
    .rounds_text = "1 a level (k-1 of k > 8 groups)",
    .sent_text = "(P-1)/P n",
    .scratch_text = "none",
    .alike = hki_tiers_alike,
};

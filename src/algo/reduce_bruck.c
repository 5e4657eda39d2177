/*
 * Reduce as reduce-scatter by Bruck's ranges and gather up the binomial tree: 2 ceil(log2 P) rounds for any P, and
 * nobody sends more than about 3/2 of the vector: what a reduce by recursive halving does for powers of two.
 * R. Rabenseifner: Optimization of collective reduction operations, 2004 (reduce-scatter and gather); J. Bruck et al.,
 * 1997.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    bool root = call->rank == call->root;
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks), work;
    work = root ? hki_whole(builder, HKI_OUTPUT, call->ranks) : hki_scratch_like(builder, &input);
    hki_span own = hki_share(&work, call->rank);
    hki_bruck_reduce_scatter(builder, &everyone, 2, &input, &work, own, true);
    hki_knomial_gather(builder, &everyone, 2, call->root, own, root ? &work : &input);
}

static double rounds(const hki_call *call)
{
    return hki_form_log(call) + hki_tree_knomial_depth(call->ranks, 2);
}

/* The shares of the reduce-scatter, and the largest subtree below the root in the gather. */
static double sent(const hki_call *call)
{
    return hki_form_all_but_one(call) + (double)hki_knomial_largest_subtree(call->ranks, 2) / call->ranks;
}

const hki_algorithm hki_algorithm_reduce_bruck = {
    .name = "bruck",
    .summary = "reduce-scatter at halving distances, binomial gather, any P",
    .source = "Rabenseifner 2004; Bruck et al. 1997",
    .cut = hki_cut_ranks,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "2 ceil(log2 P)",
    .sent_text = "up to 3n/2",
    .scratch_text = "n + the subtree's shares",
    .parts = {{HKI_COLL_REDUCE_SCATTER, "bruck"}, {HKI_COLL_GATHER, "binomial"}},
};

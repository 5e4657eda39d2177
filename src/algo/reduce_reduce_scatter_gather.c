/*
 * Reduce as reduce-scatter on the ring and gather up the binomial tree (Rabenseifner): every rank reduces one share.
 * P-1 + log2 P rounds; nobody sends more than about 3/2 of the vector, nor reduces more than one. R. Rabenseifner:
 * Optimization of collective reduction operations, 2004.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    bool root = call->rank == call->root;
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks), output = {0};
    hki_region share = hki_subregion(&input, call->rank, 1), own;
    if (root) {
        output = hki_whole(builder, HKI_OUTPUT, call->ranks);
        own = hki_subregion(&output, call->rank, 1);
    } else {
        own = hki_scratch_like(builder, &share);
    }
    hki_ring_reduce_scatter(builder, &everyone, (hki_ring){.segments = 1}, &input, NULL, &own, true);
    hki_knomial_gather(builder, &everyone, 2, call->root, hki_all(&own), root ? &output : &input);
}

static double rounds(const hki_call *call)
{
    return hki_form_ring(call) + hki_tree_knomial_depth(call->ranks, 2);
}

/* The ring's shares, and the largest subtree below the root in the gather. */
static double sent(const hki_call *call)
{
    return hki_form_all_but_one(call) + (double)hki_knomial_largest_subtree(call->ranks, 2) / call->ranks;
}

const hki_algorithm hki_algorithm_reduce_reduce_scatter_gather = {
    .name = "reduce_scatter_gather",
    .summary = "ring reduce-scatter, binomial gather",
    .source = "Rabenseifner 2004",
    .cut = hki_cut_ranks,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "P-1 + log2 P",
    .sent_text = "up to 3n/2",
    .scratch_text = "2n/P + the subtree's shares",
    .parts = {{HKI_COLL_REDUCE_SCATTER, "ring"}, {HKI_COLL_GATHER, "binomial"}},
};

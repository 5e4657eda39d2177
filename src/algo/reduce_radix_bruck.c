/*
 * Reduce as reduce-scatter by Bruck's ranges and gather up a tree, both in base four: fewer rounds, of up to three
 * messages side by side, for any P; nobody sends more than about 5/4 of the vector. R. Rabenseifner, 2004
 * (reduce-scatter and gather); J. Bruck et al., 1997 (k ports).
 */
#include "algo/generators.h"

enum { RADIX = 4 }; /* as the other algorithms of this base; not measured here */

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    bool root = call->rank == call->root;
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks), work;
    work = root ? hki_whole(builder, HKI_OUTPUT, call->ranks) : hki_scratch_like(builder, &input);
    hki_span own = hki_share(&work, call->rank);
    hki_bruck_reduce_scatter(builder, &everyone, RADIX, &input, &work, own, true);
    hki_knomial_gather(builder, &everyone, RADIX, call->root, own, root ? &work : &input);
}

/* What is reduced comes through one port, one after another; what is gathered goes side by side. */
static double rounds(const hki_call *call)
{
    return hki_bruck_messages(call->ranks, RADIX) + hki_tree_knomial_depth(call->ranks, RADIX);
}

/* The shares of the reduce-scatter, and the largest subtree below the root in the gather. */
static double sent(const hki_call *call)
{
    return hki_form_all_but_one(call) + (double)hki_knomial_largest_subtree(call->ranks, RADIX) / call->ranks;
}

const hki_algorithm hki_algorithm_reduce_radix_bruck = {
    .name = "radix_bruck",
    .summary = "reduce-scatter and gather in base four, any P",
    .source = "Rabenseifner 2004; Bruck et al. 1997",
    .cut = hki_cut_ranks,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "at most 4 ceil(log4 P)",
    .sent_text = "up to 5n/4",
    .scratch_text = "n + the subtree's shares",
    .abreast = RADIX - 1,
    .parts = {{HKI_COLL_REDUCE_SCATTER, "radix_bruck"}, {HKI_COLL_GATHER, "knomial"}},
};

/*
 * All-gather through one rank: shares are gathered at rank 0 up a tree in base four, and go down two binary trees, each
 * with half of them, in segments of several shares. ceil(log4 P) + log2 P + S rounds for any P, on hosts however
 * unlike: nobody sends more than about 3/2 of the whole. P. Sanders, J. Speck, J. L. Träff, 2009 (trees).
 */
#include "algo/generators.h"

enum { RADIX = 4 }; /* as the other algorithms of this base; not measured here */

/* Where segment `segment` of a half begins, as a share: the halves follow each other. */
static uint32_t share_at(const hki_call *call, uint32_t half, uint32_t segment)
{
    return (uint32_t)((uint64_t)call->ranks * (half * call->segments + segment) / (2 * call->segments));
}

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region own = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    hki_tree trees[2] = {hki_tree_double(call->ranks, 0, call->rank, 0),
                         hki_tree_double(call->ranks, 0, call->rank, 1)};
    hki_knomial_gather(builder, &everyone, RADIX, 0, hki_all(&own), &output);
    for (uint32_t segment = 0; segment < call->segments; segment++)
        for (uint32_t half = 0; half < 2; half++) {
            uint32_t first = share_at(call, half, segment), end = share_at(call, half, segment + 1);
            if (end > first)
                hki_tree_broadcast(builder, &everyone, &trees[half], hki_shares(&output, first, end - first));
        }
}

static double rounds(const hki_call *call)
{
    return hki_tree_knomial_depth(call->ranks, RADIX) + hki_log2_floor(call->ranks - 1) + call->segments;
}

/* In shares. */
static uint32_t sent_by(const hki_call *call, uint32_t rank)
{
    uint32_t half = share_at(call, 1, 0);
    uint32_t shares = rank ? hki_tree_knomial_members(call->ranks, 0, rank, RADIX) : 0;
    shares += hki_tree_double(call->ranks, 0, rank, 0).count * half;
    return shares + hki_tree_double(call->ranks, 0, rank, 1).count * (call->ranks - half);
}

/* By a rank that has two children in a tree, and the largest subtree of such in the gather: the first numbers that
 * are multiples of a power of four tell, as long as those of smaller ones could not have more. */
static double sent(const hki_call *call)
{
    uint32_t most = sent_by(call, 0), step = 1;
    while ((uint64_t)step * RADIX < call->ranks)
        step *= RADIX;
    for (; step > 0 && most < call->ranks + step; step /= RADIX)
        for (uint32_t rank = step; rank < call->ranks; rank += step) {
            uint32_t shares = sent_by(call, rank);
            most = shares > most ? shares : most;
        }
    return (double)most / call->ranks;
}

const hki_algorithm hki_algorithm_allgather_gather_double_tree = {
    .name = "gather_double_tree",
    .summary = "to rank 0 up a tree in base four, and in halves down two binary trees, in segments",
    .source = "Sanders, Speck, Träff 2009",
    .segmented = true,
    .cut = hki_cut_blocks, /* segments are of whole shares */
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "ceil(log4 P) + log2(P-1) + S",
    .sent_text = "up to 3n/2",
    .scratch_text = "none",
};

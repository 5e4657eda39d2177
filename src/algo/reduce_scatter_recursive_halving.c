/*
 * Recursive halving reduce-scatter: partners exchange halves of what they are still responsible for, at halving
 * distances. log2 P rounds, (P-1)/P of the vector sent by each rank. Ranks beyond a power of two hand their vector to a
 * neighbour, which takes care of both shares: two rounds and a vector more. Per-rank counts may differ or be zero.
 * R. Thakur, R. Rabenseifner, W. Gropp, 2005.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_fold fold = hki_fold_to(call->ranks, hki_smooth_floor(call->ranks, 2), call->rank);
    hki_radices radices = hki_factors(fold.core, 2);
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks), output = hki_whole(builder, HKI_OUTPUT, 1);
    if (fold.index == HKI_NOBODY) {
        hki_send(builder, &everyone, fold.partner, hki_all(&input));
        hki_recv(builder, &everyone, fold.partner, hki_all(&output));
        return;
    }
    hki_region work = hki_scratch_like(builder, &input);
    if (fold.partner == HKI_NOBODY) {
        hki_region result = hki_result_region(builder, call, &input);
        hki_knomial_reduce_scatter(builder, &everyone, &fold, &radices, &input, &work, &result, true);
        hki_result_deliver(builder, &result);
        return;
    }
    hki_recv_reduce(builder, &everyone, fold.partner, hki_all(&work), hki_all(&input), false, false);
    hki_knomial_reduce_scatter(builder, &everyone, &fold, &radices, &work, &work, NULL, true);
    hki_send(builder, &everyone, fold.partner, hki_share(&work, fold.partner));
    hki_copy(builder, hki_all(&output), hki_share(&work, call->rank), false);
}

static double rounds(const hki_call *call)
{
    uint32_t log = hki_log2_floor(call->ranks);
    return log + (call->ranks == 1u << log ? 0 : 2);
}

/* The busiest is a folded rank, which sends a whole vector, or one that stands for a single share beside others that
 * stand for two. */
static double sent(const hki_call *call)
{
    uint32_t core = hki_smooth_floor(call->ranks, 2);
    return core == call->ranks ? hki_form_all_but_one(call) : 1;
}

const hki_algorithm hki_algorithm_reduce_scatter_recursive_halving = {
    .name = "recursive_halving",
    .summary = "halves exchanged at halving distances",
    .source = "Thakur, Rabenseifner, Gropp 2005",
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "log2 P (+2 unless P = 2^k)",
    .sent_text = "(P-1)/P n (n unless P = 2^k)",
    .scratch_text = "n/2 (n when folded)",
    .alike = hki_alike_in_pairs,
};

/*
 * Recursive doubling all-gather: partners at doubling distances exchange all that they have. log2 P rounds, (P-1)/P of
 * the result sent by each rank. Ranks beyond a power of two hand their share to a neighbour and get all others from it:
 * two rounds more. R. Thakur, R. Rabenseifner, W. Gropp, 2005.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_fold fold = hki_fold_to(call->ranks, hki_smooth_floor(call->ranks, 2), call->rank);
    hki_radices radices = hki_factors(fold.core, 2);
    hki_region own = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    if (fold.index == HKI_NOBODY)
        hki_send(builder, &everyone, fold.partner, hki_all(&own));
    hki_place(builder, hki_share(&output, call->rank), hki_all(&own), false);
    if (fold.index == HKI_NOBODY) { /* all shares but its own come back */
        uint32_t next = hki_ahead(call->ranks, call->rank, 1);
        hki_recv(builder, &everyone, fold.partner, hki_shares(&output, next, call->ranks - 1));
        return;
    }
    if (fold.partner != HKI_NOBODY)
        hki_recv(builder, &everyone, fold.partner, hki_share(&output, fold.partner));
    hki_knomial_allgather(builder, &everyone, &fold, &radices, &output);
    if (fold.partner != HKI_NOBODY) {
        uint32_t next = hki_ahead(call->ranks, fold.partner, 1);
        hki_send(builder, &everyone, fold.partner, hki_shares(&output, next, call->ranks - 1));
    }
}

static double rounds(const hki_call *call)
{
    uint32_t log = hki_log2_floor(call->ranks);
    return log + (call->ranks == 1u << log ? 0 : 2);
}

/* When folded, the busiest gathers like a core member that stands for two shares, and then sends nearly all again. */
static double sent(const hki_call *call)
{
    hki_fold fold = hki_fold_to(call->ranks, hki_smooth_floor(call->ranks, 2), 0);
    if (fold.excess == 0)
        return hki_form_all_but_one(call);
    double shares = call->ranks - 1.0;
    for (uint32_t width = 1; width < fold.core; width *= 2)
        shares += hki_fold_member(&fold, width);
    return shares / call->ranks;
}

const hki_algorithm hki_algorithm_allgather_recursive_doubling = {
    .name = "recursive_doubling",
    .summary = "all there is exchanged at doubling distances",
    .source = "Thakur, Rabenseifner, Gropp 2005",
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "log2 P (+2 unless P = 2^k)",
    .sent_text = "(P-1)/P n (up to twice that unless P = 2^k)",
    .scratch_text = "none",
    .alike = hki_alike_in_pairs,
};

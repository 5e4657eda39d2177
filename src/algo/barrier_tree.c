/*
 * Tree barrier: signals up the binomial tree of rank 0 and down again. 2 ceil(log2 P) rounds, but only 2(P-1) messages
 * in all, where dissemination has P log2 P.
 */
#include "algo/generators.h"

static void cut(const hki_call *call, hki_shape *shape)
{
    (void)call;
    shape->segments = 1;
}

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_tree tree = hki_tree_knomial(call->ranks, 0, call->rank, 2);
    for (uint32_t i = tree.count; i-- > 0;)
        hki_recv(builder, &everyone, tree.child[i], hki_signal());
    if (tree.parent != HKI_NOBODY) {
        hki_fence(builder);
        hki_send(builder, &everyone, tree.parent, hki_signal());
        hki_recv(builder, &everyone, tree.parent, hki_signal());
    }
    for (uint32_t i = 0; i < tree.count; i++) { /* signals show no dependency, so each send is told to wait */
        hki_fence(builder);
        hki_send(builder, &everyone, tree.child[i], hki_signal());
    }
}

static double rounds(const hki_call *call)
{
    return 2.0 * hki_log2_ceil(call->ranks);
}

static double sent(const hki_call *call)
{
    (void)call;
    return 0;
}

const hki_algorithm hki_algorithm_barrier_tree = {
    .name = "tree",
    .summary = "signals up a binomial tree and down again",
    .source = "folklore",
    .cut = cut,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "2 ceil(log2 P)",
    .sent_text = "0",
    .scratch_text = "none",
};

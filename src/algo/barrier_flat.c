/*
 * Flat barrier: everyone signals everyone, then hears from everyone. One round of P-1 messages a rank: for few ranks,
 * and most of all for more ranks than cores, where every further round costs each rank another turn on its core.
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
    for (uint32_t distance = 1; distance < call->ranks; distance++)
        hki_send(builder, &everyone, hki_ahead(call->ranks, call->rank, distance), hki_signal());
    for (uint32_t distance = 1; distance < call->ranks; distance++)
        hki_recv(builder, &everyone, hki_behind(call->ranks, call->rank, distance), hki_signal());
}

static double sent(const hki_call *call)
{
    (void)call;
    return 0;
}

const hki_algorithm hki_algorithm_barrier_flat = {
    .name = "flat",
    .summary = "everyone signals everyone, one round",
    .source = "folklore (one-shot)",
    .sprawls = true,
    .cut = cut,
    .generate = generate,
    .rounds = hki_form_one,
    .sent = sent,
    .rounds_text = "1",
    .sent_text = "0",
    .scratch_text = "none",
    .alike = hki_all_alike,
};

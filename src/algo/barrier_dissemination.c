/*
 * Dissemination barrier: in round k every rank signals the rank 2^k ahead, once it has heard from the one behind in all
 * earlier rounds. ceil(log2 P) rounds for any P.
 * D. Hensgen, R. Finkel, U. Manber: Two algorithms for barrier synchronization, 1988.
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
    for (uint32_t distance = 1; distance < call->ranks; distance *= 2) {
        hki_fence(builder);
        hki_send(builder, &everyone, hki_ahead(call->ranks, call->rank, distance), hki_signal());
        hki_recv(builder, &everyone, hki_behind(call->ranks, call->rank, distance), hki_signal());
    }
}

static double sent(const hki_call *call)
{
    (void)call;
    return 0;
}

const hki_algorithm hki_algorithm_barrier_dissemination = {
    .name = "dissemination",
    .summary = "signals at doubling distances",
    .source = "Hensgen, Finkel, Manber 1988",
    .cut = cut,
    .generate = generate,
    .rounds = hki_form_log,
    .sent = sent,
    .rounds_text = "ceil(log2 P)",
    .sent_text = "0",
    .scratch_text = "none",
    .alike = hki_all_alike,
};

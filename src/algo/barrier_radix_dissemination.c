/*
 * Dissemination barrier of radix k = 2, 3 or 4: in round i every rank signals the ranks k^i … (k - 1) k^i ahead, once
 * it has heard from those behind in all earlier rounds. ceil(log4 P) rounds for any P: fewer than with one signal a
 * round, where a message costs little beside a round. k is the least that takes no more rounds. The n-way form of
 * Hensgen, Finkel, Manber: T. Hoefler, T. Mehlan, F. Mietke, W. Rehm: Fast barrier synchronization for InfiniBand,
 * 2006.
 */
#include "algo/generators.h"

enum { RADIX_MOST = 4 };

static uint32_t radix_of(uint32_t ranks)
{
    uint32_t fewest = hki_bruck_rounds(ranks, RADIX_MOST), radix = 2;
    while (hki_bruck_rounds(ranks, radix) > fewest)
        radix++;
    return radix;
}

static void cut(const hki_call *call, hki_shape *shape)
{
    (void)call;
    shape->segments = 1;
}

/* Signals of the last round that would go round to the rank itself, or past it, are left out: who is meant has been
 * heard of on a shorter way. */
static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    uint32_t radix = radix_of(call->ranks);
    for (uint64_t distance = 1; distance < call->ranks; distance *= radix) {
        for (uint64_t far = distance; far < radix * distance && far < call->ranks; far += distance) {
            hki_fence(builder);
            hki_send(builder, &everyone, hki_ahead(call->ranks, call->rank, (uint32_t)far), hki_signal());
        }
        for (uint64_t far = distance; far < radix * distance && far < call->ranks; far += distance)
            hki_recv(builder, &everyone, hki_behind(call->ranks, call->rank, (uint32_t)far), hki_signal());
    }
}

/* Through one port: the signals of a round one after another. */
static double rounds(const hki_call *call)
{
    return hki_bruck_messages(call->ranks, radix_of(call->ranks));
}

static double sent(const hki_call *call)
{
    (void)call;
    return 0;
}

const hki_algorithm hki_algorithm_barrier_radix_dissemination = {
    .name = "radix_dissemination",
    .summary = "up to three signals a round at distances that double, triple or quadruple",
    .source = "Hoefler, Mehlan, Mietke, Rehm 2006",
    .cut = cut,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "at most 3 ceil(log4 P)",
    .sent_text = "0",
    .scratch_text = "none",
    .abreast = RADIX_MOST - 1,
    .alike = hki_all_alike,
};

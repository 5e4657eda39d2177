/*
 * Recursive doubling exclusive scan: as the inclusive one, with two values: the sum of a growing window that ends with
 * this rank, which is sent on, and the same without this rank, which becomes the result. ceil(log2 P) rounds, up to n
 * log2 P bytes sent by a rank. Rank order is kept; rank 0's output is left alone. W. D. Hillis, G. L. Steele, 1986.
 */
#include "algo/generators.h"

/* Takes the window that ends `distance` below; returns where the sum that is to be sent next lies. */
static hki_span take(hki_builder *builder, const hki_call *call, uint32_t distance, hki_span window, hki_span result,
                     uint32_t slot)
{
    hki_group everyone = hki_everyone(call);
    uint32_t from = call->rank - distance;
    bool first = distance == 1, last = call->rank < 2 * (uint64_t)distance;
    bool more = call->ranks - call->rank > 2 * (uint64_t)distance; /* will be sent on */
    if (!more && !first) {
        hki_recv_reduce(builder, &everyone, from, result, result, true, last);
        return window;
    }
    hki_span arrival = hki_in_slot(hki_scratch_slot(builder), window), next = hki_in_slot(slot, window);
    hki_recv(builder, &everyone, from, arrival);
    /* In place the result replaces this rank's own vector, which must have been added to the window before. */
    if (more)
        hki_reduce(builder, next, (hki_span[]){arrival, window}, 2, false);
    if (first)
        hki_copy(builder, result, arrival, last);
    else
        hki_reduce(builder, result, (hki_span[]){arrival, result}, 2, last);
    return next;
}

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, 1);
    hki_span window = hki_all(&input);
    uint32_t slots = hki_scratch_slots(builder, 2); /* two, so that one may still be on its way when the next is made */
    for (uint32_t distance = 1, round = 0; distance < call->ranks; distance *= 2, round++) {
        if (call->ranks - call->rank > distance)
            hki_send(builder, &everyone, call->rank + distance, window);
        if (call->rank >= distance)
            window = take(builder, call, distance, window, hki_all(&output), slots + round % 2);
    }
}

const hki_algorithm hki_algorithm_exscan_recursive_doubling = {
    .name = "recursive_doubling",
    .summary = "prefixes sent to doubling distances, own part kept out",
    .source = "Hillis, Steele 1986",
    .keeps_order = true,
    .cut = hki_cut_whole,
    .generate = generate,
    .rounds = hki_form_log,
    .sent = hki_form_log,
    .rounds_text = "ceil(log2 P)",
    .sent_text = "n log2 P",
    .scratch_text = "n (2 + log2 P)",
};

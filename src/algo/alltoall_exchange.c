/*
 * Everybody sends a block to everybody and gets one, round by round, `window` rounds at a time. In place what comes
 * waits in scratch until what it replaces has left: in the same round, or in the other of two in a row.
 */
#include "algo/generators.h"

typedef struct exchange {
    hki_builder *builder;
    hki_group everyone;
    hki_region input, output;
    uint32_t window;
    uint32_t slots, slot_count; /* in place */
} exchange;

/* Where the block of a round arrives. */
static hki_span arrival_of(const exchange *x, uint32_t round, hki_turn turn)
{
    hki_span place = hki_share(&x->output, turn.from);
    return x->slot_count ? hki_in_slot(x->slots + round % x->slot_count, place) : place;
}

static void settle(const exchange *x, uint32_t round, hki_turn turn)
{
    hki_copy(x->builder, hki_share(&x->output, turn.from), arrival_of(x, round, turn), false);
}

static void exchange_blocks(const exchange *x, uint32_t round, hki_turn turn)
{
    hki_window(x->builder, x->window);
    hki_send(x->builder, &x->everyone, turn.to, hki_share(&x->input, turn.to));
    hki_window(x->builder, x->window);
    hki_recv(x->builder, &x->everyone, turn.from, arrival_of(x, round, turn));
}

void hki_alltoall_exchange(hki_builder *builder, const hki_call *call, uint32_t window)
{
    exchange x = {.builder = builder,
                  .everyone = hki_everyone(call),
                  .input = hki_whole(builder, HKI_INPUT, call->ranks),
                  .output = hki_whole(builder, HKI_OUTPUT, call->ranks),
                  .window = window};
    hki_turn turn = {0}, before;
    if (hki_same_bytes(builder, hki_share(&x.input, call->rank), hki_share(&x.output, call->rank))) {
        x.slot_count = window + 1 < call->ranks ? window + 1 : call->ranks - 1;
        x.slots = hki_scratch_slots(builder, x.slot_count);
    }
    for (uint32_t round = 1; round < call->ranks; round++) {
        before = turn;
        turn = hki_turn_of(call->ranks, round, call->rank);
        exchange_blocks(&x, round, turn);
        if (!x.slot_count || (turn.to != turn.from && round % 2 != 0))
            continue;
        if (turn.to != turn.from)
            settle(&x, round - 1, before);
        settle(&x, round, turn);
    }
    hki_place(builder, hki_share(&x.output, call->rank), hki_share(&x.input, call->rank), false);
}

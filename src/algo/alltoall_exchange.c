/* Every pair of ranks exchanges its two blocks, pair by pair, `window` exchanges at a time. */
#include "algo/generators.h"

void hki_alltoall_exchange(hki_builder *builder, const hki_call *call, uint32_t window)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, call->ranks), output = hki_whole(builder, HKI_OUTPUT, call->ranks);
    uint32_t rounds = hki_pairing_rounds(call->ranks), exchanges = 0, slots = 0;
    bool in_place = hki_same_bytes(builder, hki_share(&input, call->rank), hki_share(&output, call->rank));
    if (in_place)
        slots = hki_scratch_slots(builder, window < rounds ? window : rounds);
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t peer = hki_pairing(call->ranks, round, call->rank);
        if (peer == call->rank) {
            hki_place(builder, hki_share(&output, peer), hki_share(&input, peer), false);
            continue;
        }
        /* In place, what comes waits in scratch until what it replaces has left. */
        hki_span arrival = hki_share(&output, peer);
        if (in_place)
            arrival = hki_in_slot(slots + exchanges % window, arrival);
        hki_window(builder, window);
        hki_send(builder, &everyone, peer, hki_share(&input, peer));
        hki_window(builder, window);
        hki_recv(builder, &everyone, peer, arrival);
        if (in_place)
            hki_copy(builder, hki_share(&output, peer), arrival, false);
        exchanges++;
    }
    if (call->ranks % 2 == 0)
        hki_place(builder, hki_share(&output, call->rank), hki_share(&input, call->rank), false);
}

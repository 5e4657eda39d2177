/* Wire identifiers: which are free, and which is taken. */
#include "comm/wires.h"

#include "base/error.h"
#include "comm/comm.h"
#include "msg/msg.h"

/* With a thousand identifiers in use or lately freed one candidate is taken with probability 2^-21; all of them, never.
 */
enum { CANDIDATES = 8 };

uint32_t hki_wire_candidate(uint64_t id, uint32_t n)
{
    return (uint32_t)hki_mix(id, n) & ~HKI_WIRE_VOTE;
}

static bool offered(const hki_context *context, uint32_t wire)
{
    hki_list_each (node, &context->offers) {
        const hki_offer *other = hki_list_entry(node, hki_offer, node);
        for (uint32_t n = 0; n < CANDIDATES; n++) {
            if (hki_wire_candidate(other->id, n) == wire)
                return true;
        }
    }
    return false;
}

/* Late messages to a communicator that was freed are dropped by its identifier: it must not be used again soon. */
static bool is_free(hki_context *context, uint32_t wire)
{
    return wire > HKI_WIRE_CALIBRATION && !hki_comm_find(context, wire) &&
           !hki_endpoint_freed(&context->endpoint, wire) && !offered(context, wire);
}

void hki_offer_open(hki_context *context, hki_offer *offer, uint64_t id)
{
    offer->id = id;
    offer->free = 0;
    for (uint32_t n = 0; n < CANDIDATES; n++)
        offer->free |= (uint32_t)is_free(context, hki_wire_candidate(id, n)) << n;
    hki_list_append(&context->offers, &offer->node);
}

void hki_offer_close(hki_offer *offer)
{
    hki_list_remove(&offer->node);
}

hk_status hki_wire_choose(uint64_t id, uint32_t free, uint32_t *wire)
{
    for (uint32_t n = 0; n < CANDIDATES; n++) {
        if (free >> n & 1) {
            *wire = hki_wire_candidate(id, n);
            return HK_OK;
        }
    }
    return hki_error(HK_ERR_INTERNAL, "no identifier is free with all members: make the communicator again");
}

uint64_t hki_id_of_split(uint64_t parent, uint64_t operation, int32_t color)
{
    return hki_mix(hki_mix(hki_mix(parent, operation), (uint64_t)(int64_t)color), 's');
}

uint64_t hki_id_of_dup(uint64_t parent, uint64_t operation)
{
    return hki_mix(hki_mix(parent, operation), 'd');
}

uint64_t hki_id_of_group(uint64_t parent, uint64_t list, uint64_t made)
{
    return hki_mix(hki_mix(hki_mix(parent, list), made), 'g');
}

uint64_t hki_id_of_shrink(uint64_t parent, uint64_t shrinks)
{
    return hki_mix(hki_mix(parent, shrinks), 'k');
}

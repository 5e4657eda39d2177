/*
 * Outbound slots: a pool in the own segment, shared by all peers. Every local rank can always have one, so that a peer
 * which does not read cannot hold up the others; beyond that, up to HKI_SLOTS_IN_FLIGHT each while there are spares.
 */
#include "shm.h"

#include <stdlib.h>
#include <string.h>

int hki_slots_open(hk_transport *transport)
{
    uint32_t count = transport->segment.layout.slots;
    transport->free_slot = malloc(count * sizeof *transport->free_slot);
    if (transport->free_slot == NULL)
        return -1;
    for (uint32_t i = 0; i < count; i++)
        transport->free_slot[i] = count - 1 - i;
    transport->free_slots = count;
    transport->idle_links = transport->local_ranks;
    return 0;
}

void hki_slots_reclaim(hk_link *link)
{
    hk_transport *transport = link->transport;
    uint32_t held = link->slots_sent - link->slots_back;
    if (held == 0)
        return;
    uint32_t returned = atomic_load_explicit(&link->out.credit->slots, memory_order_acquire) - link->slots_back;
    if (returned > held) {
        hki_shm_distrust(link, "rank %d gave back %u slots of %u", (int)link->peer.rank, returned, held);
        return;
    }
    for (uint32_t i = 0; i < returned; i++)
        transport->free_slot[transport->free_slots++] = link->slot[link->slots_back++ % HKI_SLOTS_IN_FLIGHT];
    if (returned > 0 && returned == held)
        transport->idle_links++;
}

void hki_slots_reclaim_all(hk_link *link)
{
    hk_transport *transport = link->transport;
    if (link->slots_sent == link->slots_back)
        return;
    while (link->slots_back != link->slots_sent)
        transport->free_slot[transport->free_slots++] = link->slot[link->slots_back++ % HKI_SLOTS_IN_FLIGHT];
    transport->idle_links++;
}

/* Whether the rules allow this link one more slot, from what is known to be free. */
static bool allowed(const hk_link *link)
{
    const hk_transport *transport = link->transport;
    uint32_t held = link->slots_sent - link->slots_back;
    if (held == 0)
        return true;
    return held < HKI_SLOTS_IN_FLIGHT && transport->free_slots > transport->idle_links;
}

bool hki_slots_available(hk_link *link)
{
    hk_transport *transport = link->transport;
    hki_slots_reclaim(link);
    if (allowed(link))
        return true;
    if (link->slots_sent - link->slots_back >= HKI_SLOTS_IN_FLIGHT)
        return false;
    for (uint32_t i = 0; i < transport->local_ranks; i++)
        if (transport->link[i] != NULL && transport->link[i] != link)
            hki_slots_reclaim(transport->link[i]);
    return allowed(link);
}

/* Pages for a slot's first use. */
static bool make_ready(hk_link *link, uint32_t slot)
{
    hk_transport *transport = link->transport;
    if (slot < transport->slots_ready)
        return true;
    size_t offset = transport->segment.layout.slot_pool + (size_t)transport->slots_ready * HKI_SLOT_BYTES;
    size_t bytes = (size_t)(slot + 1 - transport->slots_ready) * HKI_SLOT_BYTES;
    int error = hki_segment_populate(&transport->segment, offset, bytes);
    if (error != 0) {
        hki_shm_end(link, HK_LINK_LOST, "no memory for a slot of %d bytes to rank %d: %s", HKI_SLOT_BYTES,
                    (int)link->peer.rank, strerror(error));
        return false;
    }
    transport->slots_ready = slot + 1;
    return true;
}

bool hki_slots_take(hk_link *link, uint32_t *slot)
{
    hk_transport *transport = link->transport;
    if (!hki_slots_available(link) || link->state != HK_LINK_UP)
        return false;
    uint32_t taken = transport->free_slot[transport->free_slots - 1];
    if (!make_ready(link, taken))
        return false;
    transport->free_slots--;
    if (link->slots_sent == link->slots_back)
        transport->idle_links--;
    link->slot[link->slots_sent++ % HKI_SLOTS_IN_FLIGHT] = taken;
    *slot = taken;
    return true;
}

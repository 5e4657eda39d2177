/*
 * How two ranks join their queue pairs: by datagrams to the queue whose address each has published. A datagram says all
 * that the other needs, and is proved by the job's token; it is sent again until the other has shown that it knows it.
 * Both may begin at once, and any of them may get lost or come twice. All of it runs in the control thread.
 */
#include "verbs.h"

#include "base/clock.h"
#include "net/sha256.h"
#include "net/wire.h"

#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)

enum {
    VERSION = 1,
    FIRST_PAUSE_MS = 20, /* guessed: a busy machine answers within it, mostly */
    LONGEST_PAUSE_MS = 1000,
    LANE_BYTES = 20,
    HEAD_BYTES = 72,
    TEXT_BYTES = HEAD_BYTES + HKI_VERBS_LANES * LANE_BYTES,
    DATAGRAM_BYTES = TEXT_BYTES + HKI_SHA256_BYTES
};

enum {
    KNOWS = 1,  /* the sender's queues know the receiver's: it may be written to */
    ENOUGH = 2, /* the sender has heard that of the receiver: nothing need be answered */
    LEAVES = 4  /* the sender will not connect any more */
};

/* ---- the datagram ---- */

static void prove(const hk_transport *transport, const unsigned char *text, uint8_t mac[HKI_SHA256_BYTES])
{
    hki_hmac_sha256(transport->services->token, 32, text, TEXT_BYTES, mac);
}

static void write_text(hk_link *link, uint32_t flags, unsigned char *at)
{
    static const char magic[8] = {'h', 'o', 'c', 'k', 'e', 't', 'v', VERSION};
    const uint32_t order = 0x01020304;
    const hk_transport *transport = link->transport;
    memset(at, 0, DATAGRAM_BYTES);
    memcpy(at, magic, sizeof magic);
    memcpy(at + 8, &order, sizeof order);
    hki_wire_put32(at + 12, flags);
    hki_wire_put32(at + 16, (uint32_t)transport->services->self->rank);
    hki_wire_put32(at + 20, (uint32_t)link->peer.rank);
    hki_wire_put64(at + 24, transport->services->self->context);
    hki_wire_put64(at + 32, link->peer.context);
    hki_wire_put64(at + 40, link->near.ring);
    hki_wire_put32(at + 48, link->near.ring_key);
    hki_wire_put32(at + 52, link->near.ring_units);
    hki_wire_put32(at + 56, link->lane_count);
    for (uint32_t i = 0; i < link->lane_count; i++) {
        const hki_lane_end *near = &link->near.lane[i];
        unsigned char *lane = at + HEAD_BYTES + i * LANE_BYTES;
        hki_wire_put32(lane, near->frames_number);
        hki_wire_put32(lane + 4, near->frames_psn);
        hki_wire_put32(lane + 8, near->bulk_number);
        hki_wire_put32(lane + 12, near->bulk_psn);
        hki_wire_put32(lane + 16, near->rd_atomic);
    }
    prove(transport, at, at + TEXT_BYTES);
}

static hki_link_end read_end(const unsigned char *at)
{
    hki_link_end end = {
        .ring = hki_wire_get64(at + 40), .ring_key = hki_wire_get32(at + 48), .ring_units = hki_wire_get32(at + 52)};
    for (uint32_t i = 0; i < HKI_VERBS_LANES; i++) {
        const unsigned char *lane = at + HEAD_BYTES + i * LANE_BYTES;
        end.lane[i] = (hki_lane_end){.frames_number = hki_wire_get32(lane),
                                     .frames_psn = hki_wire_get32(lane + 4),
                                     .bulk_number = hki_wire_get32(lane + 8),
                                     .bulk_psn = hki_wire_get32(lane + 12),
                                     .rd_atomic = hki_wire_get32(lane + 16)};
    }
    return end;
}

/* Whether the datagram is of this job: magic, byte order, length and proof. The proof covers both contexts, which are
 * random, so one that is played back says nothing new. */
static bool genuine(const hk_transport *transport, const unsigned char *text, size_t bytes)
{
    uint8_t mac[HKI_SHA256_BYTES], difference = 0;
    const uint32_t order = 0x01020304;
    if (bytes != DATAGRAM_BYTES || memcmp(text, "hocketv", 7) != 0 || text[7] != VERSION ||
        memcmp(text + 8, &order, sizeof order) != 0)
        return false;
    prove(transport, text, mac);
    for (size_t i = 0; i < sizeof mac; i++)
        difference = (uint8_t)(difference | (mac[i] ^ text[TEXT_BYTES + i]));
    return difference == 0;
}

static void say_flags(hk_link *link, uint32_t flags)
{
    unsigned char text[DATAGRAM_BYTES];
    write_text(link, flags, text);
    hki_verbs_say(link, text, sizeof text);
}

static void say(hk_link *link)
{
    int wiring = atomic_load(&link->wiring);
    say_flags(link, wiring == HKI_WIRING_UP ? KNOWS | ENOUGH : wiring == HKI_WIRING_JOINED ? KNOWS : 0);
}

/* ---- stages ---- */

static void settle(hk_link *link, int wiring)
{
    hk_transport *transport = link->transport;
    hki_list_remove(&link->dialling);
    atomic_store_explicit(&link->wiring, wiring, memory_order_release);
    if (wiring == HKI_WIRING_UP)
        transport->services->log(transport->services->core, HK_LOG_INFO, "verbs: rank %d on %s is connected",
                                 (int)link->peer.rank, link->peer.host_name);
    hki_verbs_ring(transport);
}

/* Queues exist; the link is kept among those that say so again and again. */
static bool make(hk_link *link, uint64_t now)
{
    hk_transport *transport = link->transport;
    if (atomic_load(&link->wiring) != HKI_WIRING_NONE)
        return atomic_load(&link->wiring) < HKI_WIRING_LEFT;
    link->pause = FIRST_PAUSE_MS * MS;
    link->again = now;
    link->deadline = now + (uint64_t)(transport->connect_timeout * 1e9);
    hki_list_append(&transport->control.dialling, &link->dialling);
    if (!hki_verbs_make(link)) {
        settle(link, HKI_WIRING_FAILED);
        return false;
    }
    atomic_store(&link->wiring, HKI_WIRING_MADE);
    return true;
}

void hki_verbs_dial(hk_link *link)
{
    uint64_t now = hki_now();
    if (atomic_load(&link->wiring) != HKI_WIRING_NONE || !make(link, now))
        return;
    say(link);
    link->again = now + link->pause;
}

static void give_up(hk_link *link)
{
    const hk_peer *self = link->transport->services->self;
    const hki_port *port = link->lane[link->home].port;
    snprintf(link->reason, sizeof link->reason,
             "rank %d on %.64s is not reached from rank %d on %.64s (device %.64s port %u) in the time that "
             "HOCKET_CONNECT_TIMEOUT allows: it answers no datagram",
             (int)link->peer.rank, link->peer.host_name, (int)self->rank, self->host_name, port->device, port->number);
    settle(link, HKI_WIRING_FAILED);
}

uint64_t hki_verbs_dial_times(hk_transport *transport, uint64_t now)
{
    uint64_t next = UINT64_MAX;
    hki_list_each_safe (node, following, &transport->control.dialling) {
        hk_link *link = hki_list_entry(node, hk_link, dialling);
        if (now >= link->deadline) {
            give_up(link);
            continue;
        }
        if (now >= link->again) {
            say(link);
            link->pause = link->pause * 2 < LONGEST_PAUSE_MS * MS ? link->pause * 2 : LONGEST_PAUSE_MS * MS;
            link->again = now + link->pause;
        }
        uint64_t soon = link->again < link->deadline ? link->again : link->deadline;
        next = soon < next ? soon : next;
    }
    return next;
}

/* The peer's end is as this one: the stage has the layout, and the size, of its ring. */
static bool sane(const hk_link *link, const unsigned char *text, const hki_link_end *end)
{
    return hki_wire_get32(text + 56) == link->lane_count && end->ring_units == link->transport->ring_units;
}

static bool join(hk_link *link, const unsigned char *text)
{
    hki_link_end end = read_end(text);
    if (atomic_load(&link->wiring) >= HKI_WIRING_JOINED)
        return atomic_load(&link->wiring) < HKI_WIRING_LEFT;
    if (!sane(link, text, &end)) {
        snprintf(link->reason, sizeof link->reason, "rank %d on %.64s speaks another dialect of verbs",
                 (int)link->peer.rank, link->peer.host_name);
        say_flags(link, 0); /* so that it sees the same, and need not wait */
        settle(link, HKI_WIRING_FAILED);
        return false;
    }
    link->far = end;
    if (!hki_verbs_join(link)) {
        settle(link, HKI_WIRING_FAILED);
        return false;
    }
    atomic_store(&link->wiring, HKI_WIRING_JOINED);
    return true;
}

static void hear_leave(hk_link *link)
{
    if (atomic_load(&link->wiring) >= HKI_WIRING_UP)
        return; /* what it wrote comes first, and a goodbye */
    snprintf(link->reason, sizeof link->reason, "rank %d on %.64s has left", (int)link->peer.rank,
             link->peer.host_name);
    settle(link, HKI_WIRING_LEFT);
}

void hki_verbs_hear_end(hk_link *link)
{
    int wiring = atomic_load(&link->wiring);
    if (wiring >= HKI_WIRING_UP)
        return;
    if (wiring == HKI_WIRING_JOINED) { /* it may have written all the same, and said goodbye */
        settle(link, HKI_WIRING_UP);
        return;
    }
    snprintf(link->reason, sizeof link->reason, "rank %d on %.64s has ended before it was reached",
             (int)link->peer.rank, link->peer.host_name);
    settle(link, HKI_WIRING_FAILED);
}

void hki_verbs_say_leave(hk_transport *transport)
{
    hki_list_each (node, &transport->control.dialling)
        say_flags(hki_list_entry(node, hk_link, dialling), LEAVES);
}

void hki_verbs_hear(hk_transport *transport, const unsigned char *text, size_t bytes)
{
    const hk_peer *self = transport->services->self;
    if (!genuine(transport, text, bytes)) {
        atomic_fetch_add(&transport->control.refused, 1);
        return;
    }
    hk_link *link = hki_verbs_link(transport, hki_wire_get32(text + 16));
    if (link == NULL || hki_wire_get32(text + 20) != (uint32_t)self->rank ||
        hki_wire_get64(text + 24) != link->peer.context || hki_wire_get64(text + 32) != self->context)
        return; /* not made here yet, and asked again; or of another context of this job */
    uint32_t flags = hki_wire_get32(text + 12);
    if (flags & LEAVES) {
        hear_leave(link);
        return;
    }
    if (!make(link, hki_now()) || !join(link, text))
        return;
    if ((flags & KNOWS) && atomic_load(&link->wiring) != HKI_WIRING_UP)
        settle(link, HKI_WIRING_UP);
    if (!(flags & ENOUGH))
        say(link);
}

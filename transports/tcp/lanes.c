/*
 * Lanes: connections beside a link's own, over which the payloads of large frames go. A frame's header always goes over
 * the link's own connection, and says by which lane its payload comes; a lane carries nothing but payloads, in the
 * order of their headers. So frames keep their order, whatever the lanes do.
 *
 * A lane goes one way and belongs to the end that sends. It is dialled when that end first has something large for the
 * peer, by the control thread, and serves from when it is connected; until then, and if it never is, the link's own
 * connection serves alone. Once it has served it is a part of the link: when it breaks, the peer is lost.
 *
 * There are HOCKET_STREAMS connections on each path to the peer, the link's own being one of them. There is one path,
 * unless HOCKET_INTERFACE names several interfaces: then one on each of them that leads to an address of the peer's.
 */
#include "tcp.h"

#include "base/clock.h"
#include "net/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

enum { DIAL_SECONDS = 10 }; /* guessed */

/* A way to the peer. */
typedef struct path {
    const hki_interface *by; /* NULL: as the kernel's routes have it */
    const hki_address *to;
} path;

/* ---- the control thread: paths ---- */

/* The published address that the link's own connection leads to: when the peer has dialled, its port is another. */
static const hki_address *known_end(const hk_link *link)
{
    for (uint32_t i = 0; i < link->candidate_count; i++)
        if (hki_address_same_host(&link->candidates[i], &link->other_end))
            return &link->candidates[i];
    return &link->candidates[0];
}

static bool taken(const path *paths, uint32_t count, const hki_address *to)
{
    for (uint32_t i = 0; i < count; i++)
        if (hki_address_same_host(paths[i].to, to))
            return true;
    return false;
}

/* An address of the peer's, not in use yet, for that interface: of its own network, or else just of its family. */
static const hki_address *address_for(const hk_link *link, const hki_interface *by, const path *paths, uint32_t count)
{
    const hki_address *other = NULL;
    for (uint32_t i = 0; i < link->candidate_count; i++) {
        const hki_address *to = &link->candidates[i];
        if (to->family != by->address.family || hki_address_is_link_local(to) || taken(paths, count, to))
            continue;
        if (hki_address_within(to, &by->address, by->prefix))
            return to;
        other = other != NULL ? other : to;
    }
    return other;
}

/* Whether the link's own connection, paths[0], is on that interface: then it has its path. */
static bool served(const hki_interface *by, const path *paths, uint32_t count)
{
    bool first = paths[0].to->family == by->address.family && hki_address_within(paths[0].to, &by->address, by->prefix);
    for (uint32_t i = 1; i < count; i++)
        if (paths[i].by->index == by->index)
            return true;
    return first;
}

/* All ways to the peer, at most HKI_TCP_LANES; the first is that of the link's own connection. */
static uint32_t find_paths(const hk_link *link, path paths[HKI_TCP_LANES])
{
    const hk_transport *transport = link->transport;
    uint32_t count = 1;
    paths[0] = (path){NULL, known_end(link)};
    for (int i = 0; transport->striped && i < transport->chosen_count && count < HKI_TCP_LANES; i++) {
        const hki_interface *by = &transport->chosen[i];
        if (hki_address_is_link_local(&by->address) || served(by, paths, count))
            continue;
        const hki_address *to = address_for(link, by, paths, count);
        if (to != NULL)
            paths[count++] = (path){by, to};
    }
    return count;
}

/* ---- the control thread: connections ---- */

static void tell(const hk_link *link, hk_log_level level, uint32_t number, const hki_address *to, const char *what)
{
    const hk_transport_services *services = link->transport->services;
    char address[HKI_ADDRESS_TEXT];
    hki_address_text(to, address);
    services->log(services->core, level, "tcp: stream %u to rank %d on %s, at %s: %s", number, (int)link->peer.rank,
                  link->peer.host_name, address, what);
}

static void dial(hk_link *link, uint32_t number, const path *way)
{
    const hki_address *from = way->by != NULL ? &way->by->address : NULL;
    hki_attempt *attempt = hki_attempt_dial(link, from, way->to, hki_now() + DIAL_SECONDS * SECOND);
    if (attempt == NULL)
        tell(link, HK_LOG_WARN, number, way->to, strerror(errno));
    else
        attempt->lane = number;
}

static void dial_all(hk_link *link)
{
    path paths[HKI_TCP_LANES];
    uint32_t ways = find_paths(link, paths), count = ways * link->transport->streams;
    for (uint32_t number = 1; number < count && number < HKI_TCP_LANES; number++)
        dial(link, number, &paths[number % ways]);
}

void hki_lanes_dial(hk_transport *transport)
{
    for (uint32_t rank = 0; rank < transport->services->ranks; rank++) {
        hk_link *link = hki_tcp_link(transport, rank);
        if (link != NULL && atomic_exchange(&link->lanes_wanted, false))
            dial_all(link);
    }
}

hki_verdict_code hki_lane_admit(hki_attempt *attempt, const hki_parties *parties)
{
    hk_link *link = hki_tcp_link(attempt->transport, parties->client_rank);
    uint32_t number = (uint32_t)attempt->shake.purpose - HKI_PURPOSE_LANE;
    if (link == NULL || link->peer.context != parties->client_id || number >= HKI_TCP_LANES ||
        (!link->dial.established && link->dial.half == NULL))
        return HKI_REFUSE;
    attempt->link = link;
    attempt->lane = number;
    return HKI_ACCEPT;
}

/* Hands the connection to the caller's thread. */
void hki_lane_establish(hki_attempt *attempt)
{
    hk_link *link = attempt->link;
    hk_transport *transport = attempt->transport;
    uint64_t one = 1;
    hki_lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL) {
        hki_lane_failed(attempt, "no memory");
        return;
    }
    *lane = (hki_lane){.link = link,
                       .number = attempt->lane,
                       .outgoing = attempt->dialled,
                       .ready = true,
                       .other_end = attempt->address};
    tell(link, HK_LOG_INFO, lane->number, &attempt->address, attempt->dialled ? "connected" : "accepted");
    (void)epoll_ctl(transport->control.epoll, EPOLL_CTL_DEL, attempt->stream.fd, NULL);
    hki_watch_keep_alive(transport, attempt->stream.fd);
    hki_tcp_congestion(transport, attempt->stream.fd);
    lane->stream = hki_attempt_release(attempt);
    hki_lane *first = atomic_load(&transport->lanes);
    do
        lane->next_offer = first;
    while (!atomic_compare_exchange_weak(&transport->lanes, &first, lane));
    (void)!write(transport->event, &one, sizeof one);
}

void hki_lane_failed(hki_attempt *attempt, const char *why)
{
    tell(attempt->link, HK_LOG_WARN, attempt->lane, &attempt->address, why);
    hki_attempt_drop(attempt);
}

/* ---- the caller's thread ---- */

void hki_lanes_want(hk_link *link)
{
    hk_transport *transport = link->transport;
    if (link->lanes_asked || (transport->streams < 2 && !transport->striped))
        return;
    link->lanes_asked = true;
    atomic_store(&link->lanes_wanted, true);
    atomic_store(&transport->control.lanes_wanted, true);
    hki_tcp_control_ring(transport);
}

static void discard(hki_lane *lane)
{
    hki_stream_close(&lane->stream);
    free(lane->owed.bytes);
    free(lane);
}

/* A lane that cannot serve is as good as none, if this end would send; the peer, who may count on it, is lost. */
static void adopt(hki_lane *lane)
{
    hk_link *link = lane->link;
    bool second = lane->outgoing ? link->to_count == HKI_TCP_LANES - 1 : link->from[lane->number] != NULL;
    if (link->ended && lane->outgoing)
        second = true;
    if (second || !hki_tcp_listen_to(link, lane, lane->stream.fd)) {
        bool counted_on = !lane->outgoing;
        discard(lane);
        if (counted_on)
            hki_tcp_hang_up(link, EPROTO);
        return;
    }
    link->transport->counts.lanes++;
    if (!lane->outgoing) {
        link->from[lane->number] = lane;
        hki_tcp_enliven(link);
        return;
    }
    pthread_mutex_lock(&link->transport->owing_lock);
    link->to[link->to_count++] = lane;
    pthread_mutex_unlock(&link->transport->owing_lock);
}

void hki_lanes_adopt(hk_transport *transport)
{
    if (atomic_load_explicit(&transport->lanes, memory_order_relaxed) == NULL)
        return;
    for (hki_lane *lane = atomic_exchange(&transport->lanes, NULL); lane != NULL;) {
        hki_lane *following = lane->next_offer;
        adopt(lane);
        lane = following;
    }
}

void hki_lane_note(hki_lane *lane, uint32_t events)
{
    hk_link *link = lane->link;
    int error = events & (EPOLLERR | EPOLLHUP) ? hki_socket_error(lane->stream.fd) : 0;
    if (error != 0 && !link->ended) {
        link->blamed = &lane->other_end;
        hki_tcp_hang_up(link, error);
    }
    if (!lane->outgoing) {
        lane->ready = true;
        hki_tcp_enliven(link);
    } else if (events & EPOLLOUT) {
        hki_tcp_relieve(link);
    }
}

bool hki_lane_lives(hk_link *link)
{
    if (link->left == 0 || !link->ended)
        return true;
    hki_lanes_adopt(link->transport);
    return link->from[link->lane] != NULL && link->from[link->lane]->stream.fd >= 0;
}

bool hki_lane_pending(const hk_link *link)
{
    const hki_lane *lane = link->from[link->lane];
    return lane != NULL && lane->stream.fd >= 0 && lane->ready;
}

/* A receive that gave nothing. */
static hk_transport_result empty(hki_lane *lane, ssize_t got)
{
    hk_link *link = lane->link;
    int error = got == 0 ? 0 : errno;
    if (got < 0 && error == EINTR)
        return HK_TRANSPORT_AGAIN;
    if (got < 0 && (error == EAGAIN || error == EWOULDBLOCK)) {
        lane->ready = false;
        link->transport->counts.empty++;
        return HK_TRANSPORT_AGAIN;
    }
    hki_stream_close(&lane->stream);
    link->blamed = &lane->other_end;
    hki_tcp_finish(link, error);
    return HK_TRANSPORT_LOST;
}

/* Drops what nobody wants of earlier payloads. */
static hk_transport_result skip(hki_lane *lane)
{
    unsigned char nothing[16384];
    for (size_t *left = &lane->link->from_skip[lane->number]; *left > 0;) {
        ssize_t got = hki_stream_receive(&lane->stream, nothing, *left < sizeof nothing ? *left : sizeof nothing);
        if (got <= 0)
            return empty(lane, got);
        *left -= (size_t)got;
    }
    return HK_TRANSPORT_OK;
}

hk_transport_result hki_lane_read(hk_link *link, void *destination, size_t bytes, size_t *moved)
{
    hki_lanes_adopt(link->transport);
    hki_lane *lane = link->from[link->lane];
    if (lane == NULL || lane->stream.fd < 0)
        return link->ended ? HK_TRANSPORT_LOST : HK_TRANSPORT_AGAIN;
    if (lane->short_read) { /* the socket was empty a moment ago: no need to ask again */
        lane->short_read = false;
        return HK_TRANSPORT_AGAIN;
    }
    hk_transport_result result = skip(lane);
    if (result != HK_TRANSPORT_OK)
        return result;
    ssize_t got = hki_stream_receive(&lane->stream, destination, bytes);
    if (got <= 0)
        return empty(lane, got);
    lane->short_read = (size_t)got < bytes;
    *moved = (size_t)got;
    link->left -= *moved;
    link->transport->counts.receives++;
    return HK_TRANSPORT_OK;
}

void hki_lane_skip(hk_link *link, size_t bytes)
{
    link->from_skip[link->lane] += bytes;
}

void hki_lanes_release(hk_link *link)
{
    for (uint32_t i = 0; i < link->to_count; i++)
        discard(link->to[i]);
    for (uint32_t i = 0; i < HKI_TCP_LANES; i++)
        if (link->from[i] != NULL)
            discard(link->from[i]);
}

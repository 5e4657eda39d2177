/*
 * What a peer that has joined sends over its connection, and over a lane: frames, or anything. Each frame that is
 * handed over is compared with what a simple parser, which has all bytes before it, makes of them; none may be missing.
 *
 * Input: how many bytes are sent at a time (two bytes), how many are read at a time (one, in steps of 64), how many of
 * what follows go over the lane (two bytes); these bytes; the rest, over the link's own connection.
 */
#include "transports/tcp/tcp.h"

#include "fuzz_services.h"

#include <stdlib.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const hk_transport_ops hk_transport_tcp;

enum { CONTROLS = 5, MOST = 60000, LANE = 1 };

/* Bytes that go over one connection. */
typedef struct source {
    const uint8_t *bytes;
    size_t count, sent, parsed;
    int fd;
} source;

typedef struct game {
    hk_link *link;
    source own, lane;
    size_t piece, read;
    bool over; /* a header that is none, or a goodbye, has been parsed */
    uint8_t taken[MOST];
} game;

static hk_transport *open_once(void)
{
    static hk_transport *transport;
    static hk_transport_services services;
    static hk_peer self;
    hk_transport_limits limits;
    if (transport != NULL)
        return transport;
    self = fuzz_peer(0);
    services = fuzz_services(&self);
    if (hk_transport_tcp.open(&services, &transport, &limits) != HK_OK)
        abort();
    transport->connected = 1;
    return transport;
}

static hk_link *make_link(hk_transport *transport, int own, int lane)
{
    hk_link *link = calloc(1, sizeof *link);
    hki_lane *from = calloc(1, sizeof *from);
    if (link == NULL || from == NULL)
        abort();
    link->transport = transport;
    link->peer = fuzz_peer(1);
    link->stream.fd = -1;
    hki_list_init(&link->lively);
    hki_list_init(&link->dial.node);
    *from = (hki_lane){.link = link, .number = LANE, .ready = true, .stream = {.fd = lane}};
    link->from[LANE] = from;
    atomic_store(&transport->links[1], link);
    hki_tcp_offer(link, (hki_stream){.fd = own});
    hki_tcp_adopt(transport);
    return link;
}

static void free_link(hk_link *link)
{
    hk_transport *transport = link->transport;
    if (link->stream.fd >= 0)
        close(link->stream.fd);
    hki_lanes_release(link);
    hki_tcp_release_buffer(link);
    hki_list_remove(&link->lively);
    atomic_store(&transport->links[1], NULL);
    free(link);
}

/* The next frame that is there whole: where its payload is. False: none. */
static bool parse(game *g, hki_tcp_header *header, const uint8_t **payload)
{
    source *own = &g->own;
    if (g->over || own->count - own->parsed < HKI_TCP_HEADER)
        return false;
    g->over = !hki_tcp_read_header(own->bytes + own->parsed, header) || header->goodbye;
    source *from = header->lane == 0 ? own : &g->lane;
    size_t ahead = header->lane == 0 ? HKI_TCP_HEADER : 0;
    if (g->over || header->lane > LANE || from->count - from->parsed - ahead < header->bytes)
        return false;
    own->parsed += HKI_TCP_HEADER;
    *payload = from->bytes + from->parsed;
    from->parsed += header->bytes + (header->lane == 0 ? hki_tcp_padding(header->bytes) : 0);
    if (own->parsed > own->count) /* padding that is not there: nothing follows */
        own->parsed = own->count;
    return true;
}

static bool read_all(game *g, hk_arrival *arrival, size_t *done)
{
    while (arrival->data == NULL && arrival->bytes > 0) {
        size_t moved = 0, wanted = MOST - *done < g->read ? MOST - *done : g->read;
        if (hki_tcp_read(g->link, g->taken + *done, wanted, &moved) != HK_TRANSPORT_OK)
            return false;
        *done += moved;
        if (hki_tcp_peek(g->link, arrival) != HK_TRANSPORT_OK)
            return false;
    }
    if (arrival->data != NULL && arrival->bytes <= MOST - *done) {
        memcpy(g->taken + *done, arrival->data, arrival->bytes);
        *done += arrival->bytes;
    }
    return true;
}

/* Takes what can be taken. *done: bytes of the head that have been read so far. */
static void take(game *g, size_t *done)
{
    hk_arrival arrival;
    hki_tcp_header header;
    const uint8_t *payload;
    while (hki_tcp_peek(g->link, &arrival) == HK_TRANSPORT_OK && read_all(g, &arrival, done)) {
        if (!parse(g, &header, &payload) || memcmp(&header.frame, &arrival.frame, sizeof header.frame) != 0 ||
            header.bytes != *done || memcmp(payload, g->taken, *done) != 0)
            abort();
        hki_tcp_consume(g->link);
        *done = 0;
    }
}

static bool feed(source *from, size_t piece)
{
    size_t left = from->count - from->sent;
    ssize_t sent =
        left > 0 ? send(from->fd, from->bytes + from->sent, left < piece ? left : piece, MSG_DONTWAIT | MSG_NOSIGNAL)
                 : 0;
    from->sent += sent > 0 ? (size_t)sent : 0;
    return sent > 0;
}

static void play(game *g)
{
    hki_tcp_header header;
    const uint8_t *payload;
    uint32_t ranks[2];
    size_t done = 0;
    bool more = true;
    while (more) {
        more = feed(&g->own, g->piece);
        more |= feed(&g->lane, g->piece / 2 + 1);
        (void)hk_transport_tcp.poll(g->link->transport, ranks, 2);
        take(g, &done);
    }
    close(g->own.fd);
    close(g->lane.fd);
    for (int i = 0; i < 3; i++) { /* what hung up is read out by the second look at the latest */
        take(g, &done);
        (void)hk_transport_tcp.check(g->link->transport);
    }
    hk_link_state state = hk_transport_tcp.link_state(g->link, NULL);
    bool complete = g->own.sent == g->own.count && g->lane.sent == g->lane.count;
    if ((complete && parse(g, &header, &payload)) || (state != HK_LINK_GOODBYE && state != HK_LINK_LOST))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static game g;
    int own[2], lane[2];
    if (size < CONTROLS || size > MOST || socketpair(AF_UNIX, SOCK_STREAM, 0, own) != 0)
        return 0;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, lane) != 0)
        abort();
    size_t by_lane = (size_t)data[3] << 8 | data[4];
    by_lane = by_lane < size - CONTROLS ? by_lane : size - CONTROLS;
    g.piece = ((size_t)data[0] << 8 | data[1]) + 1;
    g.read = ((size_t)data[2] + 1) * 64;
    g.over = false;
    g.lane = (source){.bytes = data + CONTROLS, .count = by_lane, .fd = lane[1]};
    g.own = (source){.bytes = data + CONTROLS + by_lane, .count = size - CONTROLS - by_lane, .fd = own[1]};
    g.link = make_link(open_once(), own[0], lane[0]);
    play(&g);
    free_link(g.link);
    return 0;
}

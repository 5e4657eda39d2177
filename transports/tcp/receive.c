/*
 * Arrivals. One call to the kernel fetches as many small frames as there are, into a buffer in which they are handed
 * over where they lie; a large payload is read straight to its place, and a little of what follows with it.
 *
 * Positions in the buffer keep the stream's alignment (modulo 8), so payloads are aligned as their headers are.
 */
#include "tcp.h"

#include "base/pause.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    BULK = 24 << 10,  /* a payload from here on says that more like it will come */
    BULK_FETCH = 512, /* then so much is fetched to see the next header; both guessed */
    BULK_FRAMES = 16, /* … and that for so many frames after a piece of a stream: the small ones that arrange for the
                         next must not make its beginning be copied twice; guessed */
    EMPTY_PAUSES = 2, /* after an empty read, for the same reason as rest(): 8 bytes took 4.7 us with 1 or 2, 5.2
                       * with none, 4.9 with 3 (all-reduce of two ranks) */
    REST_NS = 4500,   /* see rest(); 2 to 10 us were tried */
    REST_BYTES = 128 << 10, /* as long as more than this is to come of the payload */
    CROWD = 3 /* links polled in turn from which on asking epoll once is cheaper than asking each socket */
};

/* ---- buffers ---- */

static bool acquire_buffer(hk_link *link)
{
    hk_transport *transport = link->transport;
    if (link->in != NULL)
        return true;
    link->in = transport->spares > 0 ? transport->spare[--transport->spares] : malloc(HKI_TCP_BUFFER);
    link->capacity = HKI_TCP_BUFFER;
    return link->in != NULL;
}

void hki_tcp_release_buffer(hk_link *link)
{
    hk_transport *transport = link->transport;
    if (link->in == NULL)
        return;
    if (link->capacity == HKI_TCP_BUFFER && transport->spares < HKI_TCP_SPARE_BUFFERS)
        transport->spare[transport->spares++] = link->in;
    else
        free(link->in);
    link->in = NULL;
}

/* Moves what is there to the front when the rest of the buffer is short. */
static void compact(hk_link *link)
{
    size_t to = link->start & 7, bytes = link->end - link->start;
    if (bytes == 0) {
        link->start = link->end = to;
        return;
    }
    if (link->start == to || link->capacity - link->end > link->capacity / 4)
        return;
    memmove(link->in + to, link->in + link->start, bytes);
    link->start = to;
    link->end = to + bytes;
}

/* ---- the end of a connection ---- */

/* Whether what has been read ends with the peer's goodbye. */
static bool ends_with_goodbye(const hk_link *link)
{
    size_t at = link->start + link->skip;
    if (link->headed && link->lane == 0)
        at += link->left + hki_tcp_padding(link->length);
    hki_tcp_header header;
    while (at <= link->end && link->end - at >= HKI_TCP_HEADER && hki_tcp_read_header(link->in + at, &header)) {
        if (header.goodbye)
            return true;
        at += HKI_TCP_HEADER;
        if (header.lane == 0)
            at += header.bytes + hki_tcp_padding(header.bytes);
    }
    return false;
}

static void close_link(hk_link *link, hk_link_state state, const char *why)
{
    hk_transport *transport = link->transport;
    char other[HKI_ADDRESS_TEXT];
    if (link->ended)
        return;
    link->ended = link->hung_up = true;
    link->ready = false;
    link->state = state;
    hki_address_text(link->blamed != NULL ? link->blamed : &link->other_end, other);
    snprintf(link->reason, sizeof link->reason, "rank %d on %.64s (%s) %s", (int)link->peer.rank, link->peer.host_name,
             other, why);
    hki_tcp_forget_owed(link);
    pthread_mutex_lock(&transport->owing_lock);
    hki_stream_close(&link->stream);
    pthread_mutex_unlock(&transport->owing_lock);
    transport->gated -= link->gated;
    link->gated = link->starved = false;
    link->news = true;
    transport->changed++;
    hki_tcp_enliven(link);
    transport->services->log(transport->services->core, HK_LOG_DEBUG, "tcp: %s", link->reason);
}

void hki_tcp_finish(hk_link *link, int error)
{
    char why[128];
    if (ends_with_goodbye(link)) {
        close_link(link, HK_LINK_GOODBYE, "has left");
        return;
    }
    if (error == 0)
        snprintf(why, sizeof why, "hung up without a goodbye: its process has ended");
    else
        snprintf(why, sizeof why, "is cut off: %s", strerror(error));
    close_link(link, HK_LINK_LOST, why);
}

/* The stream makes no sense: nothing more is read from it. */
static void distrust(hk_link *link)
{
    link->start = link->end;
    link->headed = false;
    close_link(link, HK_LINK_LOST, "sent something that is no frame");
}

/* Everything that will ever come is in the kernel: takes it, however much it is (its receive buffer bounds it), since
 * only its end shows whether the peer left in order. */
static void absorb(hk_link *link)
{
    while (!link->ended) {
        if (!acquire_buffer(link)) {
            hki_tcp_finish(link, ENOMEM);
            return;
        }
        compact(link);
        if (link->end == link->capacity) {
            unsigned char *larger = realloc(link->in, link->capacity * 2);
            if (larger == NULL) {
                hki_tcp_finish(link, ENOMEM);
                return;
            }
            link->in = larger;
            link->capacity *= 2;
        }
        ssize_t got = hki_stream_receive(&link->stream, link->in + link->end, link->capacity - link->end);
        if (got > 0)
            link->end += (size_t)got;
        else if (got == 0)
            hki_tcp_finish(link, link->error == EPIPE ? 0 : link->error);
        else if (errno == EAGAIN || errno == EWOULDBLOCK) /* should not be: the kernel said that this is all */
            hki_tcp_finish(link, link->error != 0 ? link->error : ECONNRESET);
        else if (errno != EINTR)
            hki_tcp_finish(link, errno);
    }
}

void hki_tcp_end(hk_link *link)
{
    if (link->state == HK_LINK_UP && link->hung_up)
        absorb(link);
}

/* ---- fetching ---- */

/* Who polls many links asks epoll once a round, and then only the sockets that have something. */
static bool worth_asking(hk_link *link)
{
    hk_transport *transport = link->transport;
    if (link->round == transport->round) {
        transport->round++;
        transport->crowd = transport->seen;
        transport->seen = 0;
        if (transport->crowd > CROWD)
            hki_tcp_harvest(transport);
    }
    link->round = transport->round;
    transport->seen++;
    return transport->crowd <= CROWD || link->ready;
}

static __attribute__((noinline)) hk_transport_result fetch_unready(hk_link *link)
{
    if (link->state == HK_LINK_CONNECTING) {
        hki_tcp_need(link);
        hki_tcp_adopt(link->transport);
        return link->state <= HK_LINK_UP ? HK_TRANSPORT_AGAIN : HK_TRANSPORT_LOST;
    }
    if (link->ended)
        return HK_TRANSPORT_LOST;
    absorb(link);
    return HK_TRANSPORT_OK;
}

static __attribute__((noinline)) hk_transport_result fetch_failed(hk_link *link, ssize_t got)
{
    int error = got == 0 ? 0 : errno;
    if (got < 0 && error == EINTR)
        return HK_TRANSPORT_AGAIN;
    if (got < 0 && (error == EAGAIN || error == EWOULDBLOCK)) {
        link->ready = false;
        link->transport->counts.empty++;
        for (int i = 0; i < EMPTY_PAUSES; i++)
            hki_pause();
        if (link->start == link->end)
            hki_tcp_release_buffer(link);
        return HK_TRANSPORT_AGAIN;
    }
    hki_tcp_finish(link, error);
    return HK_TRANSPORT_LOST;
}

/* More of the stream into the buffer. OK: something came, or the link has just ended. */
static hk_transport_result fetch(hk_link *link)
{
    if (HKI_UNLIKELY(link->stream.fd < 0 || link->hung_up))
        return fetch_unready(link);
    if (!acquire_buffer(link))
        return HK_TRANSPORT_AGAIN;
    compact(link);
    size_t room = link->capacity - link->end, wanted = link->bulk > 0 && room > BULK_FETCH ? BULK_FETCH : room;
    ssize_t got = hki_stream_receive(&link->stream, link->in + link->end, wanted);
    if (got <= 0)
        return fetch_failed(link, got);
    link->end += (size_t)got;
    link->transport->counts.receives++;
    hki_tcp_enliven(link);
    return HK_TRANSPORT_OK;
}

/* ---- frames ---- */

/* Takes the next header off the stream, if it is there. */
static bool take_header(hk_link *link)
{
    size_t there = link->end - link->start, drop = link->skip < there ? link->skip : there;
    hki_tcp_header header;
    link->start += drop;
    link->skip -= drop;
    if (link->skip > 0 || there - drop < HKI_TCP_HEADER)
        return false;
    if (!hki_tcp_read_header(link->in + link->start, &header)) {
        distrust(link);
        return false;
    }
    link->start += HKI_TCP_HEADER;
    if (header.goodbye) {
        link->start = link->end; /* nothing counts that comes after it */
        close_link(link, HK_LINK_GOODBYE, "has left");
        return false;
    }
    link->head = header.frame;
    link->headed = true;
    link->length = link->left = header.bytes;
    link->lane = header.lane;
    if (header.bytes >= BULK)
        link->bulk = header.bytes > HKI_TCP_BUFFER ? BULK_FRAMES : 1;
    else if (link->bulk > 0)
        link->bulk--;
    return true;
}

/* The head of the FIFO as far as it is here: OK when it can be handed over, whole or to be read. */
static hk_transport_result head(hk_link *link)
{
    if (!link->headed && !take_header(link))
        return HK_TRANSPORT_AGAIN;
    if (link->lane != 0)
        return hki_lane_lives(link) ? HK_TRANSPORT_OK : HK_TRANSPORT_AGAIN;
    size_t there = link->end - link->start;
    if (there >= link->left || (link->left > HK_TRANSPORT_WHOLE && !link->ended))
        return HK_TRANSPORT_OK;
    return HK_TRANSPORT_AGAIN;
}

hk_transport_result hki_tcp_peek(hk_link *link, hk_arrival *arrival)
{
    static const unsigned char nothing[1];
    bool asked = false;
    while (head(link) != HK_TRANSPORT_OK) {
        if (!asked && link->state == HK_LINK_UP && !worth_asking(link))
            return HK_TRANSPORT_AGAIN;
        asked = true;
        hk_transport_result result = fetch(link);
        if (result != HK_TRANSPORT_OK)
            return result;
    }
    bool whole = link->lane == 0 && link->end - link->start >= link->left;
    arrival->frame = link->head;
    arrival->bytes = link->left;
    arrival->data = !whole ? NULL : link->in != NULL ? link->in + link->start : nothing;
    return HK_TRANSPORT_OK;
}

static uint64_t now(const hk_link *link)
{
    const hk_transport_services *services = link->transport->services;
    return services->now(services->core);
}

/* Whoever reads a socket holds its lock, for which the sender waits on its own core when it delivers. So a reader that
 * is ahead lets a few packets come before it asks again: a stream of 1 MiB took 92 us then, against 104. With TLS every
 * read is a short one. */
static void rest(hk_link *link)
{
    if (link->left > REST_BYTES && link->stream.tls == NULL)
        link->rested = now(link) + REST_NS;
}

bool hki_tcp_rests(hk_link *link)
{
    if (link->rested != 0 && now(link) >= link->rested)
        link->rested = 0;
    return link->rested != 0;
}

/* Straight to its place, and the beginning of what follows the payload into the buffer, which is empty. */
static ssize_t read_direct(hk_link *link, void *destination, size_t bytes)
{
    struct iovec pieces[2] = {{destination, bytes}};
    size_t count = 1;
    if (bytes == link->left && acquire_buffer(link)) {
        size_t start = (link->start + bytes) & 7;
        pieces[1] = (struct iovec){link->in + start, BULK_FETCH};
        count = 2;
    }
    ssize_t got = hki_stream_receive_pieces(&link->stream, pieces, count);
    if (got <= 0)
        return got;
    link->transport->counts.receives++;
    link->short_read = (size_t)got < bytes;
    size_t direct = (size_t)got < bytes ? (size_t)got : bytes;
    link->start = (link->start + direct) & 7;
    link->end = link->start + ((size_t)got - direct);
    return (ssize_t)direct;
}

hk_transport_result hki_tcp_read(hk_link *link, void *destination, size_t bytes, size_t *moved)
{
    size_t there = link->end - link->start;
    *moved = 0;
    if (bytes > link->left)
        bytes = link->left;
    if (link->lane != 0)
        return hki_lane_read(link, destination, bytes, moved);
    if (there > 0) {
        *moved = there < bytes ? there : bytes;
        memcpy(destination, link->in + link->start, *moved);
        link->start += *moved;
        link->left -= *moved;
        return HK_TRANSPORT_OK;
    }
    if (link->short_read) { /* the socket was empty a moment ago: no need to ask again */
        link->short_read = false;
        return HK_TRANSPORT_AGAIN;
    }
    if (link->stream.fd < 0)
        return HK_TRANSPORT_LOST;
    if (link->rested != 0 && hki_tcp_rests(link))
        return HK_TRANSPORT_AGAIN;
    ssize_t got = read_direct(link, destination, bytes);
    if (got <= 0) {
        rest(link);
        return fetch_failed(link, got);
    }
    *moved = (size_t)got;
    link->left -= *moved;
    if (link->short_read)
        rest(link);
    return HK_TRANSPORT_OK;
}

void hki_tcp_consume(hk_link *link)
{
    if (link->lane == 0)
        link->skip = link->left + hki_tcp_padding(link->length);
    else
        hki_lane_skip(link, link->left);
    link->headed = false;
    link->left = 0;
    link->transport->counts.frames_in++;
    size_t there = link->end - link->start, drop = link->skip < there ? link->skip : there;
    link->start += drop;
    link->skip -= drop;
}

static bool progresses(hk_link *link)
{
    if (link->news)
        return true;
    if (!link->headed)
        return head(link) == HK_TRANSPORT_OK;
    if (link->lane != 0)
        return link->left == 0 || hki_lane_pending(link);
    return link->left == 0 || (link->end > link->start && head(link) == HK_TRANSPORT_OK);
}

bool hki_tcp_pending(hk_link *link)
{
    while (!progresses(link)) {
        if (link->headed && link->lane != 0 && !link->hung_up)
            return false; /* what lies behind the head can wait */
        if (link->ended || (!link->ready && !link->hung_up))
            return false;
        if (fetch(link) != HK_TRANSPORT_OK && !link->news)
            return false;
    }
    return true;
}

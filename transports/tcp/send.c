/*
 * Departures. A frame leaves by one system call. When the kernel takes only a part of it, the rest is copied and owed:
 * it goes before anything else on this link, and the control thread sees to it if the application does not call again,
 * since a send that was accepted must not need this rank any more.
 */
#include "tcp.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum {
    GATHERED = 1024,     /* payloads up to here are copied behind their header: cheaper than a second iovec; guessed */
    GATED = 16 << 10,    /* larger ones wait until they fit whole, when the socket has been full lately */
    MEMORY_PER_BYTE = 16 /* the kernel accounts a sixteenth more than the bytes, at most; guessed */
};

static hk_transport_result starve(hk_link *link)
{
    if (link->state > HK_LINK_UP)
        return HK_TRANSPORT_LOST;
    link->starved = link->tight = true;
    return HK_TRANSPORT_AGAIN;
}

/* The kernel refuses: the connection is gone. What came before can still be taken, and is looked at later: the caller
 * may be about to use what peek has shown it. */
static hk_transport_result broken(hk_link *link, int error)
{
    atomic_store(&link->unsendable, true);
    hki_tcp_hang_up(link, error);
    return HK_TRANSPORT_LOST;
}

/* ---- what is owed ---- */

/* Sends what one connection owes; true when that was all. */
static bool pay_one(hk_link *link, hki_stream *stream, hki_owed *owed)
{
    while (owed->bytes != NULL) {
        ssize_t sent = hki_stream_send(stream, owed->bytes + owed->start, owed->end - owed->start, false);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return false;
        if (sent < 0)
            atomic_store(&link->unsendable, true);
        owed->start += sent > 0 ? (size_t)sent : 0;
        if (sent >= 0 && owed->start < owed->end)
            continue;
        free(owed->bytes);
        owed->bytes = NULL;
    }
    return true;
}

/* Nothing is owed any more. Under the lock. */
static void settle(hk_link *link)
{
    if (atomic_exchange(&link->owing, false))
        atomic_fetch_sub(&link->transport->owing, 1);
}

bool hki_tcp_pay(hk_link *link)
{
    hk_transport *transport = link->transport;
    pthread_mutex_lock(&transport->owing_lock);
    bool done = pay_one(link, &link->stream, &link->owed);
    for (uint32_t i = 0; i < link->to_count; i++)
        done &= pay_one(link, &link->to[i]->stream, &link->to[i]->owed);
    if (done)
        settle(link);
    pthread_mutex_unlock(&transport->owing_lock);
    return done;
}

void hki_tcp_pay_all(hk_transport *transport)
{
    for (uint32_t rank = 0; atomic_load(&transport->owing) > 0 && rank < transport->services->ranks; rank++) {
        hk_link *link = hki_tcp_link(transport, rank);
        if (link != NULL && atomic_load(&link->owing))
            (void)hki_tcp_pay(link);
    }
}

static void forget(hki_owed *owed)
{
    free(owed->bytes);
    owed->bytes = NULL;
}

void hki_tcp_forget_owed(hk_link *link)
{
    pthread_mutex_lock(&link->transport->owing_lock);
    forget(&link->owed);
    for (uint32_t i = 0; i < link->to_count; i++)
        forget(&link->to[i]->owed);
    settle(link);
    pthread_mutex_unlock(&link->transport->owing_lock);
}

/* Keeps the pieces from byte `sent` on. That connection owed nothing before. */
static bool owe(hk_link *link, hki_owed *owed, const struct iovec *pieces, int count, size_t sent)
{
    hk_transport *transport = link->transport;
    size_t total = 0, at = 0;
    for (int i = 0; i < count; i++)
        total += pieces[i].iov_len;
    unsigned char *rest = malloc(total - sent);
    if (rest == NULL)
        return false;
    for (int i = 0; i < count; i++) {
        size_t gone = sent < pieces[i].iov_len ? sent : pieces[i].iov_len;
        memcpy(rest + at, (const char *)pieces[i].iov_base + gone, pieces[i].iov_len - gone);
        at += pieces[i].iov_len - gone;
        sent -= gone;
    }
    pthread_mutex_lock(&transport->owing_lock);
    *owed = (hki_owed){rest, 0, at};
    if (!atomic_exchange(&link->owing, true))
        atomic_fetch_add(&transport->owing, 1);
    pthread_mutex_unlock(&transport->owing_lock);
    link->tight = true;
    transport->counts.partial++;
    if (transport->control.running && !atomic_exchange(&transport->control.watching, true))
        hki_tcp_control_ring(transport);
    return true;
}

/* ---- room ---- */

/* Whether a large frame would be taken whole. When this says no, the kernel calls the socket not writable either, and
 * so will tell when that changes: it calls it writable while the free part is at least half of the full one. *queued:
 * what lies in the socket. */
static bool fits(hk_link *link, int fd, size_t bytes, uint32_t *queued)
{
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t length = sizeof memory;
    *queued = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &length) != 0)
        return true;
    uint32_t limit = memory[SK_MEMINFO_SNDBUF];
    *queued = memory[SK_MEMINFO_WMEM_QUEUED];
    uint32_t room = limit > *queued ? limit - *queued : 0;
    if (room >= limit / 2)
        link->tight = false;
    return room >= bytes + bytes / MEMORY_PER_BYTE || room >= *queued / 2;
}

bool hki_tcp_gate_open(hk_link *link)
{
    struct pollfd fds[HKI_TCP_LANES] = {{.fd = link->stream.fd, .events = POLLOUT}};
    for (uint32_t i = 0; i < link->to_count; i++)
        fds[i + 1] = (struct pollfd){.fd = link->to[i]->stream.fd, .events = POLLOUT};
    return poll(fds, link->to_count + 1, 0) != 0; /* a no makes the kernel remember that somebody waits for room */
}

/* By which connection a large payload should go: the one in which least lies, in turn among equals, so that each gets
 * as much as it carries. NULL: the link's own. False: none has room. */
static bool choose(hk_link *link, size_t bytes, hki_lane **chosen)
{
    uint32_t count = link->to_count + 1, least = UINT32_MAX;
    bool any = false;
    *chosen = NULL;
    link->turn++;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t which = (link->turn + i) % count, queued;
        hki_lane *lane = which > 0 ? link->to[which - 1] : NULL;
        bool room = fits(link, lane != NULL ? lane->stream.fd : link->stream.fd, bytes, &queued);
        any |= room;
        queued /= HKI_TCP_LANED; /* the end of a payload lies there until it is acknowledged, which may take its time */
        if (!room || queued >= least)
            continue;
        least = queued;
        *chosen = lane;
    }
    return any;
}

void hki_tcp_gate(hk_link *link, bool closed)
{
    if (link->gated == closed)
        return;
    link->gated = closed;
    if (closed)
        link->transport->gated++;
    else
        link->transport->gated--;
}

/* ---- frames ---- */

/* Everything before the frame itself: OK when it can be tried. */
static hk_transport_result prepare(hk_link *link, size_t bytes)
{
    if (link->state == HK_LINK_CONNECTING) {
        hki_tcp_need(link);
        hki_tcp_adopt(link->transport);
    }
    if (link->state != HK_LINK_UP)
        return link->state == HK_LINK_CONNECTING ? HK_TRANSPORT_AGAIN : HK_TRANSPORT_LOST;
    if (atomic_load(&link->owing) && !hki_tcp_pay(link))
        return starve(link);
    if (atomic_load(&link->unsendable))
        return broken(link, ECONNRESET);
    if (bytes > HKI_TCP_LONGEST)
        return HK_TRANSPORT_REFUSED;
    if (bytes > GATED && link->tight && (bytes < HKI_TCP_LANED || link->to_count == 0)) {
        uint32_t queued;
        hki_tcp_gate(link, !fits(link, link->stream.fd, bytes, &queued));
        if (link->gated)
            return HK_TRANSPORT_AGAIN;
    }
    return HK_TRANSPORT_OK;
}

/* What the kernel said about `total` bytes of a frame. */
static hk_transport_result judge(hk_link *link, const struct iovec *pieces, int count, size_t total, ssize_t sent)
{
    hki_tcp_counts *counts = &link->transport->counts;
    counts->sends++;
    if (HKI_UNLIKELY(sent < 0)) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR && errno != ENOBUFS)
            return broken(link, errno);
        if (!hki_stream_committed(&link->stream))
            return starve(link);
        sent = 0; /* the frame has begun, for what the stream knows: the rest is owed */
    }
    if (HKI_UNLIKELY((size_t)sent < total) && !owe(link, &link->owed, pieces, count, (size_t)sent))
        return broken(link, ENOMEM); /* half a frame is out, and the rest cannot be kept */
    counts->frames_out++;
    counts->bytes_out += total;
    return HK_TRANSPORT_OK;
}

static __attribute__((noinline)) hk_transport_result send_vectored(hk_link *link, const hk_frame *frame,
                                                                   const void *payload, size_t bytes)
{
    static const unsigned char zeros[8];
    unsigned char header[HKI_TCP_HEADER];
    hki_tcp_write_header(header, frame, (uint32_t)bytes, 0);
    struct iovec pieces[3] = {{header, sizeof header},
                              {(void *)(uintptr_t)payload, bytes},
                              {(void *)(uintptr_t)zeros, hki_tcp_padding(bytes)}};
    size_t count = pieces[2].iov_len > 0 ? 3 : 2, total = sizeof header + bytes + pieces[2].iov_len;
    return judge(link, pieces, 3, total, hki_stream_send_pieces(&link->stream, pieces, count));
}

/* The header by the link's own connection, the payload by a lane. */
static hk_transport_result send_by(hki_lane *lane, const hk_frame *frame, const void *payload, size_t bytes)
{
    hk_link *link = lane->link;
    unsigned char header[HKI_TCP_HEADER];
    struct iovec piece = {header, sizeof header}, body = {(void *)(uintptr_t)payload, bytes};
    hki_tcp_write_header(header, frame, (uint32_t)bytes, lane->number);
    hk_transport_result result =
        judge(link, &piece, 1, sizeof header, hki_stream_send(&link->stream, header, sizeof header, false));
    if (result != HK_TRANSPORT_OK)
        return result;
    ssize_t sent = hki_stream_send(&lane->stream, payload, bytes, false);
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR && errno != ENOBUFS) {
        link->blamed = &lane->other_end;
        return broken(link, errno);
    }
    size_t gone = sent > 0 ? (size_t)sent : 0;
    if (gone < bytes && !owe(link, &lane->owed, &body, 1, gone))
        return broken(link, ENOMEM);
    hki_tcp_counts *counts = &link->transport->counts;
    counts->sends++;
    counts->laned++;
    counts->bytes_out += bytes;
    return HK_TRANSPORT_OK;
}

static hk_transport_result send_large(hk_link *link, const hk_frame *frame, const void *payload, size_t bytes)
{
    hki_lane *lane = NULL;
    hki_lanes_want(link);
    if (link->to_count > 0) {
        hki_tcp_gate(link, !choose(link, bytes, &lane));
        link->tight |= link->gated;
        if (link->gated)
            return HK_TRANSPORT_AGAIN;
    }
    return lane != NULL ? send_by(lane, frame, payload, bytes) : send_vectored(link, frame, payload, bytes);
}

hk_transport_result hki_tcp_send(hk_link *link, const hk_frame *frame, const void *payload, size_t bytes)
{
    unsigned char text[HKI_TCP_HEADER + GATHERED + 8];
    if (HKI_UNLIKELY(link->state != HK_LINK_UP || link->tight ||
                     atomic_load_explicit(&link->owing, memory_order_relaxed) || bytes > HKI_TCP_LONGEST)) {
        hk_transport_result result = prepare(link, bytes);
        if (result != HK_TRANSPORT_OK)
            return result;
    }
    if (bytes >= HKI_TCP_LANED)
        return send_large(link, frame, payload, bytes);
    if (bytes > GATHERED)
        return send_vectored(link, frame, payload, bytes);
    size_t padding = hki_tcp_padding(bytes), total = HKI_TCP_HEADER + bytes + padding;
    hki_tcp_write_header(text, frame, (uint32_t)bytes, 0);
    if (bytes > 0) {
        memcpy(text + HKI_TCP_HEADER, payload, bytes);
        memset(text + HKI_TCP_HEADER + bytes, 0, padding);
    }
    struct iovec piece = {text, total};
    return judge(link, &piece, 1, total, hki_stream_send(&link->stream, text, total, false));
}

bool hki_tcp_say_goodbye(hk_link *link)
{
    unsigned char text[HKI_TCP_HEADER];
    struct iovec piece = {text, sizeof text};
    ssize_t sent;
    hki_tcp_write_goodbye(text);
    do
        sent = hki_stream_send(&link->stream, text, sizeof text, false);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
        return true; /* there is nobody to be told */
    return sent == (ssize_t)sizeof text || !owe(link, &link->owed, &piece, 1, sent > 0 ? (size_t)sent : 0);
}

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
    if (link->state == HK_LINK_UP && !link->hung_up) {
        link->hung_up = true;
        link->error = error;
        hki_tcp_enliven(link);
    }
    return HK_TRANSPORT_LOST;
}

/* ---- what is owed ---- */

bool hki_tcp_pay(hk_link *link)
{
    hk_transport *transport = link->transport;
    pthread_mutex_lock(&transport->owing_lock);
    while (atomic_load(&link->owing)) {
        ssize_t sent =
            hki_stream_send(&link->stream, link->out + link->out_start, link->out_end - link->out_start, false);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (sent < 0)
            atomic_store(&link->unsendable, true);
        link->out_start += sent > 0 ? (size_t)sent : 0;
        if (sent >= 0 && link->out_start < link->out_end)
            continue;
        free(link->out);
        link->out = NULL;
        atomic_store(&link->owing, false);
        atomic_fetch_sub(&transport->owing, 1);
    }
    bool done = !atomic_load(&link->owing);
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

void hki_tcp_forget_owed(hk_link *link)
{
    pthread_mutex_lock(&link->transport->owing_lock);
    if (atomic_load(&link->owing)) {
        free(link->out);
        link->out = NULL;
        atomic_store(&link->owing, false);
        atomic_fetch_sub(&link->transport->owing, 1);
    }
    pthread_mutex_unlock(&link->transport->owing_lock);
}

/* Keeps the pieces from byte `sent` on. Nothing was owed before. */
static bool owe(hk_link *link, const struct iovec *pieces, int count, size_t sent)
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
    link->out = rest;
    link->out_start = 0;
    link->out_end = at;
    link->tight = true;
    transport->counts.partial++;
    atomic_store(&link->owing, true);
    atomic_fetch_add(&transport->owing, 1);
    if (transport->control.running && !atomic_exchange(&transport->control.watching, true))
        hki_tcp_control_ring(transport);
    return true;
}

/* ---- room ---- */

/* Whether a large frame would be taken whole. When this says no, the kernel calls the socket not writable either, and
 * so will tell when that changes: it calls it writable while the free part is at least half of the full one. */
static bool fits(hk_link *link, size_t bytes)
{
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t length = sizeof memory;
    if (getsockopt(link->stream.fd, SOL_SOCKET, SO_MEMINFO, memory, &length) != 0)
        return true;
    uint32_t queued = memory[SK_MEMINFO_WMEM_QUEUED], limit = memory[SK_MEMINFO_SNDBUF];
    uint32_t room = limit > queued ? limit - queued : 0;
    if (room >= limit / 2)
        link->tight = false;
    return room >= bytes + bytes / MEMORY_PER_BYTE || room >= queued / 2;
}

bool hki_tcp_gate_open(hk_link *link)
{
    struct pollfd fd = {.fd = link->stream.fd, .events = POLLOUT};
    return poll(&fd, 1, 0) != 0; /* a no makes the kernel remember that somebody waits for room */
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
    if (bytes > GATED && link->tight) {
        hki_tcp_gate(link, !fits(link, bytes));
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
    if (HKI_UNLIKELY((size_t)sent < total) && !owe(link, pieces, count, (size_t)sent))
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
    hki_tcp_write_header(header, frame, (uint32_t)bytes);
    struct iovec pieces[3] = {{header, sizeof header},
                              {(void *)(uintptr_t)payload, bytes},
                              {(void *)(uintptr_t)zeros, hki_tcp_padding(bytes)}};
    size_t count = pieces[2].iov_len > 0 ? 3 : 2, total = sizeof header + bytes + pieces[2].iov_len;
    return judge(link, pieces, 3, total, hki_stream_send_pieces(&link->stream, pieces, count));
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
    if (bytes > GATHERED)
        return send_vectored(link, frame, payload, bytes);
    size_t padding = hki_tcp_padding(bytes), total = HKI_TCP_HEADER + bytes + padding;
    hki_tcp_write_header(text, frame, (uint32_t)bytes);
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
    return sent == (ssize_t)sizeof text || !owe(link, &piece, 1, sent > 0 ? (size_t)sent : 0);
}

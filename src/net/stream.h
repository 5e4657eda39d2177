/*
 * A connected, non-blocking socket, plain or with TLS, as whoever moves bytes over it sees it: transports/tcp, the
 * store and the handshake that precedes both. Everything is inline: over a plain socket a call here is one system call.
 *
 * Each call returns bytes, or −1 with errno: EAGAIN when it would have to wait, else what ended the connection. None
 * raises a signal. A wait for the socket is enough only after EAGAIN: TLS may hold bytes that the socket does not.
 */
#ifndef HKI_NET_STREAM_H
#define HKI_NET_STREAM_H

#include "net/tls.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

typedef struct hki_stream {
    int fd;       /* −1: none yet, or no more */
    hki_tls *tls; /* owned; NULL: plain */
} hki_stream;

/* Has the handshake begin with TLS; context NULL: nothing changes. False when there is no memory. */
static inline bool hki_stream_secure(hki_stream *stream, hki_tls_context *context, bool server)
{
    stream->tls = context != NULL ? hki_tls_new(context, stream->fd, server) : NULL;
    return context == NULL || stream->tls != NULL;
}

/* The calls below that carry small frames go to the kernel directly: the C library's are points of cancellation, which
 * costs two atomic exchanges each as soon as there are threads (8 bytes between two ranks: 5.23 µs, against 5.43). */

/* `more`: something follows at once, so a packet need not leave yet. */
static inline ssize_t hki_stream_send(hki_stream *stream, const void *bytes, size_t count, bool more)
{
    if (__builtin_expect(stream->tls != NULL, 0))
        return hki_tls_send(stream->tls, &(struct iovec){(void *)(uintptr_t)bytes, count}, 1);
    return syscall(SYS_sendto, stream->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0), NULL, 0);
}

static inline ssize_t hki_stream_send_pieces(hki_stream *stream, struct iovec *pieces, size_t count)
{
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    if (__builtin_expect(stream->tls != NULL, 0))
        return hki_tls_send(stream->tls, pieces, count);
    return sendmsg(stream->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* After a send met EAGAIN: whether the same bytes must all the same be the next that are offered. */
static inline bool hki_stream_committed(const hki_stream *stream)
{
    return stream->tls != NULL && hki_tls_committed(stream->tls);
}

/* 0: the other end has hung up, and everything it sent has been received. */
static inline ssize_t hki_stream_receive(hki_stream *stream, void *to, size_t room)
{
    if (__builtin_expect(stream->tls != NULL, 0))
        return hki_tls_receive(stream->tls, &(struct iovec){to, room}, 1);
    return syscall(SYS_recvfrom, stream->fd, to, room, MSG_DONTWAIT, NULL, NULL);
}

static inline ssize_t hki_stream_receive_pieces(hki_stream *stream, struct iovec *pieces, size_t count)
{
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    if (__builtin_expect(stream->tls != NULL, 0))
        return hki_tls_receive(stream->tls, pieces, count);
    return recvmsg(stream->fd, &message, MSG_DONTWAIT);
}

static inline void hki_stream_close(hki_stream *stream)
{
    if (stream->tls != NULL)
        hki_tls_free(stream->tls);
    close(stream->fd);
    *stream = (hki_stream){.fd = -1};
}

/* The same, even if another process holds the descriptor as well. */
static inline void hki_stream_hang_up(hki_stream *stream)
{
    if (stream->tls != NULL)
        hki_tls_free(stream->tls);
    shutdown(stream->fd, SHUT_RDWR);
    close(stream->fd);
    *stream = (hki_stream){.fd = -1};
}

#endif

/*
 * A connected, non-blocking socket, as whoever moves bytes over it sees it: transports/tcp, the store and the handshake
 * that precedes both. Everything is inline: over a plain socket a call here is one system call.
 *
 * Each call returns bytes, or −1 with errno: EAGAIN when it would have to wait, else what ended the connection. None
 * raises a signal.
 */
#ifndef HKI_NET_STREAM_H
#define HKI_NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

typedef struct hki_stream {
    int fd; /* −1: none yet, or no more */
} hki_stream;

/* `more`: something follows at once, so a packet need not leave yet. */
static inline ssize_t hki_stream_send(hki_stream *stream, const void *bytes, size_t count, bool more)
{
    return send(stream->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0));
}

static inline ssize_t hki_stream_send_pieces(hki_stream *stream, struct iovec *pieces, size_t count)
{
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    return sendmsg(stream->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* 0: the other end has hung up, and everything it sent has been received. */
static inline ssize_t hki_stream_receive(hki_stream *stream, void *to, size_t room)
{
    return recv(stream->fd, to, room, MSG_DONTWAIT);
}

static inline ssize_t hki_stream_receive_pieces(hki_stream *stream, struct iovec *pieces, size_t count)
{
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    return recvmsg(stream->fd, &message, MSG_DONTWAIT);
}

static inline void hki_stream_close(hki_stream *stream)
{
    close(stream->fd);
    stream->fd = -1;
}

#endif

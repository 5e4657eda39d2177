#include "net/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

enum {
    BACKLOG = 1024, /* every rank of a large job may dial at once */
    KEEPALIVE_IDLE = 10,
    KEEPALIVE_INTERVAL = 5,
    KEEPALIVE_PROBES = 3
};

/* A size that the kernel cuts also ends its own tuning, which may go further: it is switched on again. */
static void set_buffer(int fd, int option, int forced, size_t wanted)
{
    int bytes = wanted < (1u << 30) ? (int)wanted : 1 << 30, got = 0, unlocked = 0;
    socklen_t length = sizeof got;
    if (wanted == 0 || setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof bytes) == 0 ||
        setsockopt(fd, SOL_SOCKET, option, &bytes, sizeof bytes) != 0)
        return;
#ifdef SO_BUF_LOCK
    if (getsockopt(fd, SOL_SOCKET, option, &got, &length) == 0 && got < bytes)
        (void)setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &unlocked, sizeof unlocked);
#endif
}

void hki_socket_tune(int fd, size_t buffer)
{
    const struct {
        int level, name, value;
    } options[] = {{IPPROTO_TCP, TCP_NODELAY, 1},
                   {SOL_SOCKET, SO_KEEPALIVE, 1},
                   {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE},
                   {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL},
                   {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof options[i].value);
    set_buffer(fd, SO_SNDBUF, SO_SNDBUFFORCE, buffer);
    set_buffer(fd, SO_RCVBUF, SO_RCVBUFFORCE, buffer);
}

int hki_socket_congestion(int fd, const char *name)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0 ? 0 : -errno;
}

bool hki_socket_stays_here(int fd)
{
    struct sockaddr_storage near = {0}, far = {0};
    socklen_t near_length = sizeof near, far_length = sizeof far;
    hki_address here, there;
    return getsockname(fd, (struct sockaddr *)&near, &near_length) == 0 &&
           getpeername(fd, (struct sockaddr *)&far, &far_length) == 0 &&
           hki_address_from_socket((const struct sockaddr *)&near, &here) &&
           hki_address_from_socket((const struct sockaddr *)&far, &there) &&
           (hki_address_is_loopback(&there) || hki_address_same_host(&here, &there));
}

static int make(const hki_address *address, size_t buffer)
{
    int fd = socket(address->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (fd < 0)
        return -errno;
    hki_socket_tune(fd, buffer); /* buffers before the connection, whose window scale follows from them */
    return fd;
}

/* Closes and returns the error that was there before. */
static int give_up(int fd)
{
    int error = errno;
    close(fd);
    return -error;
}

int hki_socket_listen(hki_address *address, size_t buffer)
{
    struct sockaddr_storage where;
    hki_address bound;
    int one = 1, fd = make(address, buffer);
    if (fd < 0)
        return fd;
    socklen_t length = hki_address_to_socket(address, &where);
    /* A port that was asked for may have been another job's a moment ago, and have connections that it ended first.
     * Where the kernel chooses, it chooses among those of which that is not so. */
    if (address->port != 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if ((address->family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one) != 0) ||
        bind(fd, (const struct sockaddr *)&where, length) != 0 || listen(fd, BACKLOG) != 0)
        return give_up(fd);
    length = sizeof where;
    if (getsockname(fd, (struct sockaddr *)&where, &length) != 0)
        return give_up(fd);
    if (hki_address_from_socket((const struct sockaddr *)&where, &bound))
        address->port = bound.port;
    return fd;
}

int hki_socket_connect_from(const hki_address *from, const hki_address *to, size_t buffer)
{
    struct sockaddr_storage where;
    int fd = make(to, buffer);
    if (fd < 0)
        return fd;
    socklen_t length;
    if (from != NULL) {
        length = hki_address_to_socket(from, &where);
        if (bind(fd, (const struct sockaddr *)&where, length) != 0)
            return give_up(fd);
    }
    length = hki_address_to_socket(to, &where);
    if (connect(fd, (const struct sockaddr *)&where, length) != 0 && errno != EINPROGRESS)
        return give_up(fd);
    return fd;
}

int hki_socket_connect(const hki_address *to, size_t buffer)
{
    return hki_socket_connect_from(NULL, to, buffer);
}

int hki_socket_accept(int listener, hki_address *from)
{
    struct sockaddr_storage where = {0};
    socklen_t length = sizeof where;
    int fd = accept4(listener, (struct sockaddr *)&where, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (!hki_address_from_socket((const struct sockaddr *)&where, from)) {
        close(fd);
        return -EAFNOSUPPORT;
    }
    return fd;
}

int hki_socket_error(int fd)
{
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
        return errno;
    return error;
}

#include "bench/limits_tcp.h"

#include "net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BUFFER_BYTES = 4 << 20, /* what the kernel grants of it; its own tuning made 1 MiB a quarter slower */
    PIECE_BYTES = 1 << 20,  /* a call; 64 KiB were half as fast again, 256 KiB and more alike */
    EMPTY_TURNS = 2000
};

static bool tune(int fd)
{
    int on = 1, bytes = BUFFER_BYTES;
    (void)hki_socket_congestion(fd, "reno"); /* as Hocket has it here: what paces itself took twice as long */
    return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
           setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) == 0 &&
           setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes) == 0;
}

/* Dials an own listener; the buffers are set before, since they decide the window that is agreed on. */
static bool connect_to_self(int listener, int ends[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (!tune(listener) || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *)&address, &length) != 0)
        return false;
    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (ends[0] < 0 || !tune(ends[0]) || connect(ends[0], (struct sockaddr *)&address, sizeof address) != 0)
        return false;
    ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    return ends[1] >= 0 && tune(ends[1]);
}

bool hki_limits_tcp_pair(int ends[2])
{
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ends[0] = ends[1] = -1;
    if (listener < 0)
        return false;
    bool connected = connect_to_self(listener, ends);
    int error = errno;
    close(listener);
    for (int i = 0; i < 2 && !connected; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    errno = error;
    return connected;
}

/* What a call moved: 0 when it would have blocked; -1 when the connection has failed or ended. */
static ssize_t outcome(ssize_t moved)
{
    if (moved > 0)
        return moved;
    return moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ? 0 : -1;
}

static size_t piece(size_t left)
{
    return left < PIECE_BYTES ? left : PIECE_BYTES;
}

bool hki_limits_tcp_exchange(int fd, const void *from, size_t sent, void *into, size_t taken)
{
    size_t out = 0, in = 0;
    for (int idle = 0; out < sent || in < taken; idle++) {
        ssize_t gone = out < sent
                           ? outcome(send(fd, (const char *)from + out, piece(sent - out), MSG_DONTWAIT | MSG_NOSIGNAL))
                           : 0;
        ssize_t come = in < taken ? outcome(recv(fd, (char *)into + in, piece(taken - in), MSG_DONTWAIT)) : 0;
        if (gone < 0 || come < 0)
            return false;
        out += (size_t)gone;
        in += (size_t)come;
        if (gone > 0 || come > 0)
            idle = 0;
        else if (idle > EMPTY_TURNS)
            sched_yield(); /* one CPU for two processes */
    }
    return true;
}

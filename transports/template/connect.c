/* Connections: making them, recognising who is at the other end, and their ends. */
#include "template.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

void watch(const hk_transport *transport, int how, int fd, uint32_t events, hk_link *link)
{
    struct epoll_event event = {.events = events, .data.ptr = link};
    epoll_ctl(transport->epoll, how, fd, &event);
}

/* epoll is told, since it forgets only what nobody has open any more: a forked child may. */
static void drop(const hk_transport *transport, int fd)
{
    if (fd < 0)
        return;
    watch(transport, EPOLL_CTL_DEL, fd, 0, NULL);
    close(fd);
}

/* ---- ends of links ---- */

void end_link(hk_link *link, hk_link_state state, const char *format, ...)
{
    hk_transport *transport = link->transport;
    va_list arguments;
    if (link->state > HK_LINK_UP)
        return; /* the first reason stays */
    va_start(arguments, format);
    vsnprintf(link->reason, sizeof link->reason, format, arguments);
    va_end(arguments);
    if (link->state == HK_LINK_CONNECTING && link->wanted && link->fd < 0)
        transport->undialled--;
    drop(transport, link->fd);
    link->fd = -1;
    link->state = state;
    link->news = true;
    link->ready = link->starved = false;
    transport->changed++;
    transport->services->log(transport->services->core, HK_LOG_DEBUG, "template: %s", link->reason);
}

/* Takes all that is left in the socket into link->rest. The kernel's buffer bounds it. */
static void take_rest(hk_link *link)
{
    size_t capacity = 0;
    ssize_t got = 1;
    while (got > 0 || (got < 0 && errno == EINTR)) {
        if (link->rest_end == capacity) {
            unsigned char *larger = realloc(link->rest, capacity += PIECE_BYTES);
            if (!larger)
                return;
            link->rest = larger;
        }
        got = recv(link->fd, link->rest + link->rest_end, capacity - link->rest_end, MSG_DONTWAIT);
        link->rest_end += got > 0 ? (size_t)got : 0;
    }
}

/* The peer has hung up. Whether it left in order shows only at the end of what it sent: the job's token, which no
 * payload contains by chance. */
void hung_up(hk_link *link)
{
    const uint8_t *token = link->transport->services->token;
    take_rest(link);
    if (link->rest_end >= TOKEN_BYTES && memcmp(link->rest + link->rest_end - TOKEN_BYTES, token, TOKEN_BYTES) == 0)
        end_link(link, HK_LINK_GOODBYE, "rank %d has left", (int)link->peer.rank);
    else
        end_link(link, HK_LINK_LOST, "rank %d (process %d on %s) hung up without a goodbye: it has died",
                 (int)link->peer.rank, (int)link->peer.pid, link->peer.host_name);
}

/* ---- connecting ---- */

/* A name that no other instance has had: the context's id is random, and tests make their own. */
bool start_listening(hk_transport *transport)
{
    struct sockaddr_un *name = &transport->address.name;
    name->sun_family = AF_UNIX;
    int length = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "hocket-template-%d-%016llx",
                          (int)transport->pid, (unsigned long long)transport->services->self->context);
    transport->address.bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    transport->address.version = VERSION;
    transport->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    transport->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (transport->listener < 0 || transport->epoll < 0 ||
        bind(transport->listener, (const struct sockaddr *)name, transport->address.bytes) != 0 ||
        listen(transport->listener, SOMAXCONN) != 0)
        return false;
    watch(transport, EPOLL_CTL_ADD, transport->listener, EPOLLIN, NULL);
    return true;
}

static bool send_hello(const hk_link *link, int fd)
{
    const hk_transport_services *services = link->transport->services;
    hello mine = {.rank = services->self->rank, .from = services->self->context, .to = link->peer.context};
    memcpy(mine.token, services->token, sizeof mine.token);
    return send(fd, &mine, sizeof mine, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof mine; /* a new socket has room */
}

/* 1: there is a hello, and it is taken; 0: not yet; -1: there will be none. */
static int take_hello(int fd, hello *theirs)
{
    ssize_t got = recv(fd, theirs, sizeof *theirs, MSG_PEEK | MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        return -1;
    if (got != sizeof *theirs)
        return 0;
    return recv(fd, theirs, sizeof *theirs, MSG_DONTWAIT) == sizeof *theirs ? 1 : -1;
}

/* The link that a hello belongs to, or NULL: it is none of this job's. The comparison takes equally long wherever the
 * tokens differ. */
static hk_link *find_link(const hk_transport *transport, const hello *theirs)
{
    const hk_transport_services *services = transport->services;
    uint8_t differs = 0;
    for (size_t i = 0; i < TOKEN_BYTES; i++)
        differs |= (uint8_t)(theirs->token[i] ^ services->token[i]);
    if (differs || theirs->to != services->self->context || theirs->rank < 0 || theirs->rank >= services->ranks)
        return NULL;
    hk_link *link = transport->links[theirs->rank];
    return link && link->peer.context == theirs->from ? link : NULL;
}

/* Whether the process behind a socket runs for the same user: only then does it get the token. */
static bool same_user(int fd)
{
    struct ucred credentials;
    socklen_t bytes = sizeof credentials;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) == 0 && credentials.uid == geteuid();
}

static void set_up(hk_link *link)
{
    link->state = HK_LINK_UP;
    link->transport->counts[CONNECTIONS]++;
}

void dial(hk_link *link)
{
    hk_transport *transport = link->transport;
    int error = 0, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&link->address.name, link->address.bytes) != 0)
        error = errno;
    else if (!same_user(fd))
        error = EPERM;
    else if (!send_hello(link, fd))
        error = EAGAIN; /* it hung up just now: dialling again shows whether it is gone */
    if (error == 0) {
        link->fd = fd;
        transport->undialled--;
        watch(transport, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLRDHUP, link);
        return;
    }
    if (fd >= 0)
        close(fd);
    if (error != EAGAIN && error != EINTR) /* EAGAIN: too many wait there already */
        end_link(link, HK_LINK_LOST, "rank %d (process %d on %s) cannot be reached: %s", (int)link->peer.rank,
                 (int)link->peer.pid, link->peer.host_name, strerror(error));
}

/* An answer to this rank's hello. Without one the peer has gone (dialling again will show), or has dropped this
 * connection since it made one at the same time, which waits among the visitors. */
void answered(hk_link *link)
{
    hello theirs;
    int there = take_hello(link->fd, &theirs);
    if (there > 0 && find_link(link->transport, &theirs) == link) {
        set_up(link);
    } else if (there != 0) {
        drop(link->transport, link->fd);
        link->fd = -1;
        link->transport->undialled++;
    }
}

/* Somebody connected and said hello. When two ranks dial each other at once, the lower one's connection stays. True if
 * the connection has become a link's. */
static bool admit(hk_transport *transport, int fd, const hello *theirs)
{
    hk_link *link = find_link(transport, theirs);
    bool mine_stays = link && link->fd >= 0 && transport->services->self->rank < theirs->rank;
    if (!link || link->state != HK_LINK_CONNECTING || mine_stays || !send_hello(link, fd))
        return false;
    if (link->fd < 0 && link->wanted)
        transport->undialled--;
    drop(transport, link->fd);
    link->fd = fd;
    watch(transport, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLRDHUP, link);
    set_up(link);
    return true;
}

void receive_visitors(hk_transport *transport)
{
    while (transport->visitor_count < VISITORS) {
        int fd = accept4(transport->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            break;
        if (!same_user(fd)) {
            close(fd);
            continue;
        }
        transport->visitors[transport->visitor_count++] = fd;
        watch(transport, EPOLL_CTL_ADD, fd, EPOLLIN, NULL);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < transport->visitor_count; i++) {
        hello theirs;
        int fd = transport->visitors[i], there = take_hello(fd, &theirs);
        if (there == 0)
            transport->visitors[kept++] = fd;
        else if (there < 0 || !admit(transport, fd, &theirs))
            drop(transport, fd);
    }
    transport->visitor_count = kept;
}

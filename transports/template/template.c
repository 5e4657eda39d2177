/*
 * A transport to start from: frames over UNIX stream sockets, between ranks of one host. It uses what a plug-in may
 * use: <hocket/transport.h>, the services handed to `open`, and the C library. README.md says what to change.
 *
 * One connection a pair of ranks, made by whoever needs it first. Each instance listens on a socket with an abstract
 * name, which `address` publishes. Everything is found out and moved on by `progress`, which the
 * core reaches through `poll`, `arm` and `check`; all descriptors hang on one epoll instance, which is `event_fd`.
 */
#include "template.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *const count_names[COUNTS] = {"frames_out", "bytes_out", "frames_in",  "bytes_in",
                                                "reads",      "partial",   "connections"};

/* ---- sending ---- */

/* Sends what is owed of earlier frames; true when nothing is left. */
static bool flush(hk_link *link)
{
    while (link->out_start < link->out_end) {
        ssize_t sent =
            send(link->fd, link->out + link->out_start, link->out_end - link->out_start, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return false;
        link->out_start += (size_t)sent;
    }
    link->out_start = link->out_end = 0;
    return true;
}

static void owe(hk_link *link, const void *data, size_t bytes)
{
    memcpy(link->out + link->out_end, data, bytes);
    link->out_end += bytes;
}

/* There is no room: epoll tells when there is. */
static hk_transport_result starve(hk_link *link)
{
    if (!link->starved)
        watch(link->transport, EPOLL_CTL_MOD, link->fd, EPOLLIN | EPOLLRDHUP | EPOLLOUT, link);
    link->starved = true;
    return HK_TRANSPORT_AGAIN;
}

static void progress(hk_transport *transport);

/* This rank needs the link. A link that nobody needs costs nothing. */
static void need(hk_link *link)
{
    if (!link->wanted) {
        link->wanted = true;
        link->transport->undialled++;
    }
    progress(link->transport);
}

static hk_transport_result template_send(hk_link *link, const hk_frame *frame, const void *payload, size_t bytes)
{
    if (link->state == HK_LINK_CONNECTING)
        need(link);
    if (link->state != HK_LINK_UP)
        return link->state == HK_LINK_CONNECTING ? HK_TRANSPORT_AGAIN : HK_TRANSPORT_LOST;
    if (bytes > PIECE_BYTES)
        return HK_TRANSPORT_REFUSED;
    if (link->out_end > 0 && !flush(link))
        return starve(link);
    header head = {(uint32_t)bytes,  frame->kind,        frame->communicator,
                   frame->operation, frame->fingerprint, frame->ordinal};
    struct iovec pieces[2] = {{&head, sizeof head}, {(void *)(uintptr_t)payload, bytes}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    ssize_t sent = sendmsg(link->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS))
        return starve(link);
    if (sent < 0) {
        hung_up(link);
        return HK_TRANSPORT_LOST;
    }
    /* All or nothing: what the kernel did not take of a frame is owed, and goes before the next. */
    size_t done = (size_t)sent, of_head = done < sizeof head ? done : sizeof head, of_payload = done - of_head;
    owe(link, (const char *)&head + of_head, sizeof head - of_head);
    if (of_payload < bytes)
        owe(link, (const char *)payload + of_payload, bytes - of_payload);
    if (link->out_end > 0) {
        link->transport->counts[PARTIAL]++;
        starve(link);
    }
    link->transport->counts[FRAMES_OUT]++;
    link->transport->counts[BYTES_OUT] += bytes;
    return HK_TRANSPORT_OK;
}

/* ---- receiving ---- */

/* Like recv, from the socket or from what was left in it. OK: something was moved, or the link has just ended; then
 * what was left is there. */
static hk_transport_result fetch(hk_link *link, void *destination, size_t bytes, size_t *moved)
{
    size_t there = link->rest_end - link->rest_start;
    *moved = 0;
    if (link->state > HK_LINK_UP) {
        *moved = there < bytes ? there : bytes;
        if (*moved > 0)
            memcpy(destination, link->rest + link->rest_start, *moved);
        link->rest_start += *moved;
        return *moved > 0 ? HK_TRANSPORT_OK : HK_TRANSPORT_LOST;
    }
    ssize_t got = recv(link->fd, destination, bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return HK_TRANSPORT_AGAIN;
    if (got <= 0)
        hung_up(link);
    else
        *moved = (size_t)got;
    return HK_TRANSPORT_OK;
}

/* Bytes that must be here before the head is handed over: its header, and its payload if that is small. */
static size_t wanted(const hk_link *link, header *head)
{
    memcpy(head, link->head, sizeof *head);
    bool small = link->have >= sizeof *head && head->bytes <= HK_TRANSPORT_WHOLE;
    return sizeof *head + (small ? head->bytes : 0);
}

/* A header has come. False: it makes no sense, or is the last. */
static bool accept_header(hk_link *link, const header *head)
{
    if (head->kind == GOODBYE) {
        end_link(link, HK_LINK_GOODBYE, "rank %d has left", (int)link->peer.rank);
        return false;
    }
    if (head->kind > 15 || head->bytes > PIECE_BYTES) {
        end_link(link, HK_LINK_LOST, "rank %d sent something that is no frame", (int)link->peer.rank);
        return false;
    }
    link->left = head->bytes > HK_TRANSPORT_WHOLE ? head->bytes : 0;
    return true;
}

/* Gets the head of the FIFO so far that it can be handed over. */
static hk_transport_result get_head(hk_link *link, header *head)
{
    unsigned char dropped[4096];
    size_t moved;
    while (link->skip > 0) {
        hk_transport_result result =
            fetch(link, dropped, link->skip < sizeof dropped ? link->skip : sizeof dropped, &moved);
        if (result != HK_TRANSPORT_OK)
            return result;
        link->skip -= moved;
    }
    for (size_t total; link->have < (total = wanted(link, head));) {
        bool header_there = link->have >= sizeof *head;
        hk_transport_result result = fetch(link, link->head + link->have, total - link->have, &moved);
        if (result != HK_TRANSPORT_OK)
            return result;
        link->have += moved;
        (void)wanted(link, head);
        if (!header_there && link->have >= sizeof *head && !accept_header(link, head)) {
            link->have = 0;
            return HK_TRANSPORT_LOST; /* nothing more is taken from here */
        }
    }
    return HK_TRANSPORT_OK;
}

static hk_transport_result template_peek(hk_link *link, hk_arrival *arrival)
{
    header head;
    if (link->state == HK_LINK_CONNECTING) {
        need(link);
        if (link->state == HK_LINK_CONNECTING)
            return HK_TRANSPORT_AGAIN;
    }
    hk_transport_result result = get_head(link, &head);
    if (result == HK_TRANSPORT_OK && link->state > HK_LINK_UP && link->left > link->rest_end - link->rest_start)
        result = HK_TRANSPORT_LOST;
    if (result == HK_TRANSPORT_LOST)
        link->rest_start = link->rest_end; /* half a frame, perhaps: its end will never come */
    if (result != HK_TRANSPORT_OK)
        return result;
    arrival->frame = (hk_frame){.communicator = head.communicator,
                                .operation = head.operation,
                                .fingerprint = head.fingerprint,
                                .ordinal = head.ordinal,
                                .kind = head.kind};
    bool whole = head.bytes <= HK_TRANSPORT_WHOLE;
    arrival->data = whole ? link->head + sizeof head : NULL;
    arrival->bytes = whole ? head.bytes : link->left;
    return HK_TRANSPORT_OK;
}

static hk_transport_result template_read(hk_link *link, void *destination, size_t bytes, size_t *moved)
{
    hk_transport_result result;
    if (bytes > link->left)
        bytes = link->left;
    do
        result = fetch(link, destination, bytes, moved);
    while (result == HK_TRANSPORT_OK && *moved == 0 && bytes > 0); /* the link ended: from what was left */
    link->left -= *moved;
    link->transport->counts[BYTES_IN] += *moved;
    link->transport->counts[READS]++;
    return result;
}

static void template_consume(hk_link *link)
{
    link->transport->counts[FRAMES_IN]++;
    link->transport->counts[BYTES_IN] += link->have - sizeof(header);
    link->skip = link->left;
    link->left = link->have = 0;
}

/* ---- progress ---- */

static void on_event(hk_link *link, uint32_t events)
{
    if (link->state == HK_LINK_CONNECTING) {
        answered(link);
        return;
    }
    if ((events & EPOLLOUT) && flush(link)) {
        watch(link->transport, EPOLL_CTL_MOD, link->fd, EPOLLIN | EPOLLRDHUP, link);
        link->starved = false;
        link->transport->relieved = true;
    }
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        hung_up(link);
    else
        link->ready = (events & EPOLLIN) != 0;
}

static void progress(hk_transport *transport)
{
    struct epoll_event events[EVENTS];
    bool visited = transport->undialled > 0; /* whom this rank wants to dial may have dialled first */
    for (uint32_t rank = 0; rank < transport->services->ranks; rank++) {
        if (transport->links[rank])
            transport->links[rank]->ready = false;
    }
    int count = epoll_wait(transport->epoll, events, EVENTS, 0);
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr)
            on_event(events[i].data.ptr, events[i].events);
        else
            visited = true;
    }
    if (visited || transport->undialled > 0)
        receive_visitors(transport);
    for (uint32_t rank = 0; transport->undialled > 0 && rank < transport->services->ranks; rank++) {
        hk_link *link = transport->links[rank];
        if (link && link->state == HK_LINK_CONNECTING && link->wanted && link->fd < 0)
            dial(link);
    }
}

/* Whether there is something to peek or to read, or peek would say that the link has ended. */
static bool pending(const hk_link *link)
{
    header head;
    bool whole = link->have == wanted(link, &head) && head.bytes <= HK_TRANSPORT_WHOLE;
    return link->ready || link->news || whole || link->rest_end > link->rest_start;
}

static size_t template_poll(hk_transport *transport, uint32_t *ranks, size_t capacity)
{
    size_t count = 0;
    progress(transport);
    for (uint32_t rank = 0; rank < transport->services->ranks && count < capacity; rank++) {
        hk_link *link = transport->links[rank];
        if (!link || !pending(link))
            continue;
        link->news = false;
        ranks[count++] = rank;
    }
    return count;
}

static size_t template_check(hk_transport *transport)
{
    progress(transport);
    size_t changed = transport->changed;
    transport->changed = 0;
    return changed;
}

/* Nothing need be armed: epoll reports as long as there is something, also what came since progress looked. */
static bool template_arm(hk_transport *transport)
{
    progress(transport);
    bool anything = transport->relieved || transport->undialled > 0;
    transport->relieved = false;
    for (uint32_t rank = 0; rank < transport->services->ranks && !anything; rank++)
        anything = transport->links[rank] && pending(transport->links[rank]);
    return !anything;
}

static void template_disarm(hk_transport *transport)
{
    (void)transport;
}

static int template_event_fd(hk_transport *transport)
{
    return transport->epoll;
}

/* ---- links ---- */

static hk_status fail(const hk_transport_services *services, hk_status status, const char *what, const char *why)
{
    services->error(services->core, status, "template: %s: %s", what, why);
    return status;
}

static hk_status template_address(hk_transport *transport, void *result, size_t *bytes)
{
    if (*bytes < sizeof transport->address)
        return fail(transport->services, HK_ERR_TRANSPORT, "address", "no room for it");
    memcpy(result, &transport->address, sizeof transport->address);
    *bytes = sizeof transport->address;
    return HK_OK;
}

static hk_status template_connect(hk_transport *transport, const hk_peer *peer, const void *published, size_t bytes,
                                  hk_link **result)
{
    const hk_transport_services *services = transport->services;
    address theirs;
    if (peer->host != services->self->host)
        return fail(services, HK_ERR_UNSUPPORTED, "cannot reach another host", peer->host_name);
    if (bytes != sizeof theirs || peer->rank < 0 || (uint32_t)peer->rank >= services->ranks ||
        transport->links[peer->rank])
        return fail(services, HK_ERR_UNSUPPORTED, "malformed address or rank", peer->host_name);
    memcpy(&theirs, published, sizeof theirs);
    if (theirs.version != VERSION || theirs.bytes > sizeof theirs.name)
        return fail(services, HK_ERR_UNSUPPORTED, "address of another version", peer->host_name);
    hk_link *link = calloc(1, sizeof *link);
    if (!link)
        return fail(services, HK_ERR_NO_MEMORY, "link", strerror(ENOMEM));
    link->transport = transport;
    link->peer = *peer;
    link->address = theirs;
    link->fd = -1;
    *result = transport->links[peer->rank] = link;
    return HK_OK;
}

static hk_link_state template_link_state(hk_link *link, const char **reason)
{
    if (reason)
        *reason = link->reason;
    return link->state;
}

/* ---- the instance ---- */

static void release(hk_transport *transport)
{
    for (uint32_t rank = 0; transport->links && rank < transport->services->ranks; rank++) {
        hk_link *link = transport->links[rank];
        if (!link)
            continue;
        if (link->fd >= 0) {
            shutdown(link->fd, SHUT_RDWR); /* a forked child may still have it open */
            close(link->fd);
        }
        free(link->rest);
        free(link);
    }
    for (uint32_t i = 0; i < transport->visitor_count; i++)
        close(transport->visitors[i]);
    if (transport->listener >= 0)
        close(transport->listener);
    if (transport->epoll >= 0)
        close(transport->epoll);
    free(transport->links);
    free(transport);
}

static hk_status template_open(const hk_transport_services *services, hk_transport **result,
                               hk_transport_limits *limits)
{
    if (services->abi != HK_TRANSPORT_ABI || services->size < sizeof *services)
        return HK_ERR_UNSUPPORTED; /* a library that is older than this header */
    hk_transport *transport = calloc(1, sizeof *transport);
    if (!transport)
        return fail(services, HK_ERR_NO_MEMORY, "instance", strerror(ENOMEM));
    transport->services = services;
    transport->pid = getpid();
    transport->listener = transport->epoll = -1;
    transport->links = calloc(services->ranks, sizeof(hk_link *));
    if (!transport->links || !start_listening(transport)) {
        int error = errno;
        release(transport);
        return fail(services, HK_ERR_TRANSPORT, "cannot listen", strerror(error));
    }
    *limits = (hk_transport_limits){.capabilities = HK_TRANSPORT_LOCAL,
                                    .inline_bytes = HK_TRANSPORT_WHOLE,
                                    .eager_bytes = EAGER_BYTES,
                                    .piece_bytes = PIECE_BYTES,
                                    .get_bytes = SIZE_MAX,
                                    .alpha_ns = 5000, /* guessed, as is the next */
                                    .beta_ns = 0.5};
    *result = transport;
    return HK_OK;
}

/* Says goodbye behind all that was sent, and waits until the kernel has taken it. */
static void say_goodbye(hk_link *link, uint64_t deadline)
{
    const hk_transport_services *services = link->transport->services;
    header head = {.bytes = TOKEN_BYTES, .kind = GOODBYE};
    owe(link, &head, sizeof head);
    owe(link, services->token, TOKEN_BYTES);
    while (!flush(link) && (errno == EAGAIN || errno == ENOBUFS)) {
        uint64_t now = services->now(services->core);
        struct pollfd room = {.fd = link->fd, .events = POLLOUT};
        if (now >= deadline || poll(&room, 1, (int)((deadline - now) / 1000000) + 1) < 0)
            break;
    }
}

static void template_close(hk_transport *transport, double timeout)
{
    const hk_transport_services *services = transport->services;
    if (getpid() != transport->pid)
        return; /* a forked child: the links are its parent's */
    uint64_t deadline = services->now(services->core) + (uint64_t)(timeout * 1e9);
    progress(transport); /* who has just connected hears the goodbye, too */
    for (uint32_t rank = 0; rank < services->ranks; rank++) {
        hk_link *link = transport->links[rank];
        if (link && link->state == HK_LINK_UP)
            say_goodbye(link, deadline);
    }
    release(transport);
}

static size_t template_counters(hk_transport *transport, const char **names, uint64_t *values, size_t capacity)
{
    for (size_t i = 0; i < COUNTS && i < capacity; i++) {
        names[i] = count_names[i];
        values[i] = transport->counts[i];
    }
    return COUNTS;
}

/* The one thing that a plug-in shows. What it cannot do is NULL. */
const hk_transport_ops hk_transport_template = {.size = sizeof(hk_transport_ops),
                                                .abi = HK_TRANSPORT_ABI,
                                                .name = "template",
                                                .open = template_open,
                                                .close = template_close,
                                                .address = template_address,
                                                .connect = template_connect,
                                                .link_state = template_link_state,
                                                .send = template_send,
                                                .peek = template_peek,
                                                .read = template_read,
                                                .consume = template_consume,
                                                .poll = template_poll,
                                                .check = template_check,
                                                .arm = template_arm,
                                                .disarm = template_disarm,
                                                .event_fd = template_event_fd,
                                                .counters = template_counters};

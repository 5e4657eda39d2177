/* The TCP transport: its operations table, links, and the sleep. */
#include "tcp.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
    EVENTS = 64,
    SILENT_MS = 20000, /* without HOCKET_HEARTBEAT: unanswered for so long, the peer's machine is gone … */
    UNANSWERED = 3,    /* … if something was sent again so often */
    LOOK_NS = 1000000000
};

/* ---- fork: a child must not keep its parent's connections open, or nobody would see the parent end ---- */

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static hki_node registry = {&registry, &registry};
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&registry_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&registry_lock);
}

static void close_lanes(const hk_link *link)
{
    for (uint32_t i = 0; i < link->to_count; i++)
        close(link->to[i]->stream.fd);
    for (uint32_t i = 0; i < HKI_TCP_LANES; i++)
        if (link->from[i] != NULL && link->from[i]->stream.fd >= 0)
            close(link->from[i]->stream.fd);
}

static void in_child(void)
{
    hki_list_each (node, &registry) {
        hk_transport *transport = hki_list_entry(node, hk_transport, registered);
        for (uint32_t i = 0; i < transport->listener_count; i++)
            close(transport->listeners[i]);
        for (uint32_t rank = 0; rank < transport->services->ranks; rank++) {
            hk_link *link = hki_tcp_link(transport, rank);
            if (link == NULL)
                continue;
            if (link->stream.fd >= 0)
                close(link->stream.fd);
            close_lanes(link);
        }
        for (uint32_t i = 0; i < atomic_load(&transport->control.watch_count); i++) {
            int fd = atomic_load(&transport->control.watches[i].fd);
            if (fd >= 0)
                close(fd);
        }
    }
    hki_list_init(&registry);
    pthread_mutex_init(&registry_lock, NULL);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

static void enrol(hk_transport *transport, bool here)
{
    pthread_once(&fork_once, watch_forks);
    pthread_mutex_lock(&registry_lock);
    if (here)
        hki_list_append(&registry, &transport->registered);
    else
        hki_list_remove(&transport->registered);
    pthread_mutex_unlock(&registry_lock);
}

/* ---- connections ---- */

void hki_tcp_need(hk_link *link)
{
    hk_transport *transport = link->transport;
    if (link->wanted)
        return;
    link->wanted = true;
    hk_link *first = atomic_load(&transport->control.wanted);
    do
        link->next_wanted = first;
    while (!atomic_compare_exchange_weak(&transport->control.wanted, &first, link));
    hki_tcp_control_ring(transport);
}

/* What an event is about: the rank, and above it 0, a lane from there by its number, or to there by its place. */
enum { FROM_LANE = 1, TO_LANE = HKI_TCP_LANES + 1, BELL = 0xff, ABOUT_SHIFT = 32 };

bool hki_tcp_listen_to(hk_link *link, const hki_lane *lane, int fd)
{
    uint64_t about = lane == NULL ? 0 : lane->outgoing ? TO_LANE + link->to_count : FROM_LANE + lane->number;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.u64 = (uint64_t)link->peer.rank | about << ABOUT_SHIFT};
    return epoll_ctl(link->transport->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

void hki_tcp_hang_up(hk_link *link, int error)
{
    if (link->state != HK_LINK_UP || link->hung_up)
        return;
    link->hung_up = true;
    link->error = error;
    hki_tcp_enliven(link);
}

static void adopt(hk_link *link)
{
    hk_transport *transport = link->transport;
    if (link->offered.fd >= 0)
        hki_watch_keep_alive(transport, link->offered.fd);
    if (link->offered.fd < 0 || !hki_tcp_listen_to(link, NULL, link->offered.fd)) {
        if (link->offered.fd >= 0) {
            snprintf(link->reason, sizeof link->reason, "the connection to rank %d cannot be watched: %s",
                     (int)link->peer.rank, strerror(errno));
            hki_stream_close(&link->offered);
        }
        link->state = HK_LINK_LOST;
        link->ended = link->news = true;
        transport->changed++;
    } else {
        link->stream = link->offered;
        link->state = HK_LINK_UP;
        link->ready = true;
        transport->up++;
    }
    hki_tcp_enliven(link);
}

void hki_tcp_adopt(hk_transport *transport)
{
    hki_lanes_adopt(transport);
    if (atomic_load_explicit(&transport->offers, memory_order_relaxed) == NULL)
        return;
    for (hk_link *link = atomic_exchange(&transport->offers, NULL); link != NULL;) {
        hk_link *following = link->next_offer;
        adopt(link);
        link = following;
    }
}

void hki_tcp_relieve(hk_link *link)
{
    if (!link->starved && !link->gated)
        return;
    link->starved = false;
    hki_tcp_gate(link, false);
    link->transport->relieved = true;
}

static void note(hk_link *link, uint32_t events)
{
    if (link->ended)
        return;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        link->hung_up = true;
    if (events & ~(uint32_t)EPOLLOUT) {
        link->ready = true;
        hki_tcp_enliven(link);
    }
    if (events & EPOLLOUT)
        hki_tcp_relieve(link);
}

static void handle(hk_transport *transport, const struct epoll_event *event)
{
    uint32_t about = (uint32_t)(event->data.u64 >> ABOUT_SHIFT);
    hk_link *link = hki_tcp_link(transport, (uint32_t)event->data.u64);
    uint64_t bell;
    if (about == BELL) {
        if (read(transport->event, &bell, sizeof bell) == sizeof bell)
            hki_tcp_adopt(transport);
    } else if (about >= TO_LANE) {
        hki_lane_note(link->to[about - TO_LANE], event->events);
    } else if (about >= FROM_LANE) {
        hki_lane_note(link->from[about - FROM_LANE], event->events);
    } else {
        note(link, event->events);
    }
}

void hki_tcp_harvest(hk_transport *transport)
{
    struct epoll_event events[EVENTS];
    int count;
    do {
        count = epoll_wait(transport->epoll, events, EVENTS, 0);
        for (int i = 0; i < count; i++)
            handle(transport, &events[i]);
    } while (count == EVENTS);
}

static size_t tcp_poll(hk_transport *transport, uint32_t *ranks, size_t capacity)
{
    size_t count = 0;
    if (transport->connected == 0)
        return 0;
    hki_tcp_adopt(transport);
    hki_watch_judge(transport); /* before a rank that has left because of a loss is taken for the cause */
    if (HKI_UNLIKELY(atomic_load_explicit(&transport->owing, memory_order_relaxed) > 0))
        hki_tcp_pay_all(transport);
    if (transport->up > 0 || !hki_list_empty(&transport->lively))
        hki_tcp_harvest(transport);
    hki_list_each_safe (node, following, &transport->lively) {
        hk_link *link = hki_list_entry(node, hk_link, lively);
        if (count == capacity)
            break;
        if (link->rested != 0 && !link->news && hki_tcp_rests(link))
            continue;
        if (!hki_tcp_pending(link)) {
            hki_list_remove(node);
            continue;
        }
        link->news = false;
        ranks[count++] = (uint32_t)link->peer.rank;
    }
    return count;
}

/* The kernel waits a quarter of an hour until it gives up a peer that does not answer, and its own shorter limit
 * (TCP_USER_TIMEOUT) also ends connections to peers that merely do not read. Here only silence counts: nothing was
 * acknowledged for a while, though it was sent several times. */
static bool silent(const hk_transport *transport, int fd)
{
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0)
        return false;
    double limit = transport->heartbeat > 0 ? transport->heartbeat * 1000 : SILENT_MS;
    return info.tcpi_last_ack_recv >= limit && (info.tcpi_retransmits >= UNANSWERED || info.tcpi_probes >= UNANSWERED);
}

static void look_for_silence(hk_transport *transport)
{
    uint64_t now = transport->services->now(transport->services->core);
    if (now < transport->next_look)
        return;
    transport->next_look = now + LOOK_NS;
    for (uint32_t rank = 0; rank < transport->services->ranks; rank++) {
        hk_link *link = hki_tcp_link(transport, rank);
        if (link == NULL || link->state != HK_LINK_UP || link->hung_up)
            continue;
        if (silent(transport, link->stream.fd))
            hki_tcp_hang_up(link, ETIMEDOUT);
        for (uint32_t i = 0; i < link->to_count; i++) {
            if (!silent(transport, link->to[i]->stream.fd))
                continue;
            link->blamed = &link->to[i]->other_end;
            hki_tcp_hang_up(link, ETIMEDOUT);
        }
    }
}

static size_t tcp_check(hk_transport *transport)
{
    hki_tcp_adopt(transport);
    if (transport->up > 0) {
        hki_tcp_harvest(transport);
        look_for_silence(transport);
        hki_watch_judge(transport);
        hki_list_each (node, &transport->lively)
            hki_tcp_end(hki_list_entry(node, hk_link, lively));
    }
    size_t changed = transport->changed;
    transport->changed = 0;
    return changed;
}

/* ---- sleeping ---- */

/* True when a send that found no room would find some now. */
static bool gate_opens(hk_transport *transport)
{
    for (uint32_t rank = 0; transport->gated > 0 && rank < transport->services->ranks; rank++) {
        hk_link *link = hki_tcp_link(transport, rank);
        if (link != NULL && link->gated && hki_tcp_gate_open(link)) {
            hki_tcp_gate(link, false);
            return true;
        }
    }
    return false;
}

static bool tcp_arm(hk_transport *transport)
{
    hki_tcp_adopt(transport);
    hki_tcp_pay_all(transport);
    hki_tcp_harvest(transport);
    if (transport->relieved) {
        transport->relieved = false;
        return false;
    }
    hki_list_each_safe (node, following, &transport->lively) {
        if (hki_tcp_pending(hki_list_entry(node, hk_link, lively)))
            return false;
        hki_list_remove(node);
    }
    return !gate_opens(transport);
}

/* The kernel keeps account of what arrives: there is nothing to undo. */
static void tcp_disarm(hk_transport *transport)
{
    (void)transport;
}

static int tcp_event_fd(hk_transport *transport)
{
    return transport->epoll;
}

/* ---- links ---- */

static hk_status tcp_address(hk_transport *transport, void *address, size_t *bytes)
{
    return hki_tcp_publish(transport, address, bytes);
}

static hk_status tcp_connect(hk_transport *transport, const hk_peer *peer, const void *address, size_t bytes,
                             hk_link **result)
{
    const hk_transport_services *services = transport->services;
    uint32_t rank = (uint32_t)peer->rank;
    if (peer->rank < 0 || rank >= services->ranks || peer->rank == services->self->rank ||
        hki_tcp_link(transport, rank) != NULL) {
        services->error(services->core, HK_ERR_UNSUPPORTED, "tcp: rank %d is not another rank of %u, or has a link",
                        (int)peer->rank, services->ranks);
        return HK_ERR_UNSUPPORTED;
    }
    hk_link *link = calloc(1, sizeof *link);
    if (link == NULL) {
        services->error(services->core, HK_ERR_NO_MEMORY, "tcp: no memory for a link");
        return HK_ERR_NO_MEMORY;
    }
    link->transport = transport;
    link->peer = *peer;
    link->stream.fd = link->offered.fd = -1;
    hki_list_init(&link->lively);
    hki_list_init(&link->dial.node);
    hk_status status = hki_tcp_candidates(link, address, bytes);
    if (status == HK_OK)
        status = hki_tcp_control_start(transport);
    if (status != HK_OK) {
        free(link->candidates);
        free(link);
        return status;
    }
    transport->connected++;
    atomic_store_explicit(&transport->links[rank], link, memory_order_release);
    *result = link;
    return HK_OK;
}

static hk_link_state tcp_link_state(hk_link *link, const char **reason)
{
    if (link->hung_up)
        hki_tcp_end(link);
    if (reason != NULL)
        *reason = link->reason;
    return link->state;
}

/* ---- the instance ---- */

static void discard_arrivals(hk_link *link);

static void release(hk_transport *transport)
{
    for (uint32_t rank = 0; transport->links != NULL && rank < transport->services->ranks; rank++) {
        hk_link *link = hki_tcp_link(transport, rank);
        if (link == NULL)
            continue;
        hki_tcp_forget_owed(link);
        if (link->stream.fd >= 0) {
            discard_arrivals(link);
            hki_stream_close(&link->stream);
        }
        hki_lanes_release(link);
        hki_tcp_release_buffer(link);
        free(link->candidates);
        free(link);
    }
    for (uint32_t i = 0; i < transport->listener_count; i++)
        close(transport->listeners[i]);
    for (uint32_t i = 0; i < transport->spares; i++)
        free(transport->spare[i]);
    if (transport->epoll >= 0)
        close(transport->epoll);
    if (transport->event >= 0)
        close(transport->event);
    hki_tls_context_free(transport->tls);
    pthread_mutex_destroy(&transport->owing_lock);
    free(transport->control.losses);
    free(transport->lost);
    free(transport->links);
    free(transport);
}

/* Tables and descriptors: 0 or an errno. */
static int prepare(hk_transport *transport)
{
    struct epoll_event bell = {.events = EPOLLIN, .data.u64 = (uint64_t)BELL << ABOUT_SHIFT};
    transport->links = calloc(transport->services->ranks, sizeof *transport->links);
    if (transport->links == NULL || !hki_watch_open(transport))
        return ENOMEM;
    transport->epoll = epoll_create1(EPOLL_CLOEXEC);
    transport->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (transport->epoll < 0 || transport->event < 0 ||
        epoll_ctl(transport->epoll, EPOLL_CTL_ADD, transport->event, &bell) != 0)
        return errno;
    return 0;
}

static hk_status tcp_open(const hk_transport_services *services, hk_transport **result, hk_transport_limits *limits)
{
    hk_transport *transport = calloc(1, sizeof *transport);
    if (transport == NULL) {
        services->error(services->core, HK_ERR_NO_MEMORY, "tcp transport");
        return HK_ERR_NO_MEMORY;
    }
    transport->services = services;
    transport->pid = getpid();
    transport->epoll = transport->event = -1;
    hki_list_init(&transport->lively);
    hki_list_init(&transport->registered);
    hki_list_init(&transport->control.dialling);
    hki_list_init(&transport->control.attempts);
    hki_list_init(&transport->control.over);
    pthread_mutex_init(&transport->owing_lock, NULL);
    int error = prepare(transport);
    if (error != 0) {
        services->error(services->core, HK_ERR_SYSTEM, "tcp transport: %s", strerror(error));
        release(transport);
        return HK_ERR_SYSTEM;
    }
    hk_status status = hki_tcp_listen(transport);
    if (status != HK_OK) {
        release(transport);
        return status;
    }
    enrol(transport, true);
    bool laned = transport->streams > 1 || transport->striped;
    /* alpha and beta: two processes over loopback, one way; a network's own are measured by `hocket tune`, or by
     * measure.c. */
    *limits = (hk_transport_limits){.capabilities = transport->tls != NULL ? HK_TRANSPORT_ENCRYPTED : 0,
                                    .inline_bytes = HK_TRANSPORT_WHOLE,
                                    .eager_bytes = HKI_TCP_EAGER,
                                    .piece_bytes = laned ? HKI_TCP_PIECE_LANED : HKI_TCP_PIECE,
                                    .get_bytes = SIZE_MAX,
                                    .alpha_ns = 4000,
                                    .beta_ns = 0.17};
    *result = transport;
    return HK_OK;
}

/* What was sent may still get lost when the connection is closed now. Over loopback nothing gets lost on the way, and
 * waiting for the acknowledgement would only wait for the peer's delay of it. */
static bool lies_in(int fd, unsigned long question)
{
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    int bytes = 0;
    return ioctl(fd, question, &bytes) == 0 && bytes > 0 &&
           getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_state != TCP_CLOSE;
}

static bool undelivered(const hk_link *link)
{
    unsigned long question = hki_address_is_loopback(&link->other_end) ? SIOCOUTQNSD : SIOCOUTQ;
    if (link->state != HK_LINK_UP)
        return false;
    for (uint32_t i = 0; i < link->to_count; i++)
        if (lies_in(link->to[i]->stream.fd, question))
            return true;
    return lies_in(link->stream.fd, question);
}

/* Nothing has got through for a second: the peer does not read, or its host does not answer. What the kernel holds it
 * goes on sending all the same when the connection is closed. */
static bool stuck(const hk_link *link)
{
    enum { SILENCE_MILLISECONDS = 1000, TIMEOUTS_IN_A_ROW = 3 }; /* the third comes after 1.4 s at the earliest */
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    if (getsockopt(link->stream.fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0)
        return true;
    return info.tcpi_retransmits >= TIMEOUTS_IN_A_ROW || info.tcpi_last_data_sent >= SILENCE_MILLISECONDS;
}

/* What nobody will read any more: left in the kernel, it would make close reset the connection. */
static void discard_arrivals(hk_link *link)
{
    enum { ROUNDS = 1024 };
    unsigned char nothing[16384];
    for (int i = 0; i < ROUNDS && hki_stream_receive(&link->stream, nothing, sizeof nothing) > 0; i++)
        ;
}

/* All that was sent, and the goodbye behind it, is on its way to the peers before the connections are closed. */
static void depart(hk_transport *transport, double timeout)
{
    const hk_transport_services *services = transport->services;
    uint64_t end = services->now(services->core) + (uint64_t)(timeout * 1e9);
    bool busy = true;
    for (int round = 0; busy && (round == 0 || services->now(services->core) < end); round++) {
        struct timespec nap = {.tv_nsec = round < 20 ? 50000 : 1000000};
        if (round > 0)
            nanosleep(&nap, NULL);
        busy = false;
        for (uint32_t rank = 0; rank < services->ranks; rank++) {
            hk_link *link = hki_tcp_link(transport, rank);
            if (link == NULL || link->state != HK_LINK_UP || atomic_load(&link->unsendable))
                continue;
            bool paid = !atomic_load(&link->owing) || hki_tcp_pay(link);
            if (paid && !link->departed)
                link->departed = hki_tcp_say_goodbye(link) || atomic_load(&link->owing);
            busy |= (!link->departed || atomic_load(&link->owing) || undelivered(link)) && !stuck(link);
        }
    }
}

static void tcp_close(hk_transport *transport, double timeout)
{
    if (getpid() != transport->pid)
        return; /* a forked child: the parent's links are not its own to end */
    hki_tcp_control_stop(transport);
    hki_tcp_adopt(transport);
    depart(transport, timeout);
    enrol(transport, false);
    release(transport);
}

static size_t tcp_counters(hk_transport *transport, const char **names, uint64_t *values, size_t capacity)
{
    const hki_tcp_counts *counts = &transport->counts;
    const struct {
        const char *name;
        uint64_t value;
    } table[] = {{"connections", transport->up},
                 {"lanes", counts->lanes},
                 {"frames_by_lanes", counts->laned},
                 {"frames_sent", counts->frames_out},
                 {"bytes_sent", counts->bytes_out},
                 {"send_calls", counts->sends},
                 {"partial_sends", counts->partial},
                 {"frames_received", counts->frames_in},
                 {"receive_calls", counts->receives},
                 {"empty_receives", counts->empty},
                 {"refused", atomic_load(&transport->control.refused)}};
    size_t count = sizeof table / sizeof table[0];
    for (size_t i = 0; i < count && i < capacity; i++) {
        names[i] = table[i].name;
        values[i] = table[i].value;
    }
    return count;
}

const hk_transport_ops hk_transport_tcp = {.size = sizeof(hk_transport_ops),
                                           .abi = HK_TRANSPORT_ABI,
                                           .name = "tcp",
                                           .open = tcp_open,
                                           .close = tcp_close,
                                           .address = tcp_address,
                                           .connect = tcp_connect,
                                           .link_state = tcp_link_state,
                                           .send = hki_tcp_send,
                                           .peek = hki_tcp_peek,
                                           .read = hki_tcp_read,
                                           .consume = hki_tcp_consume,
                                           .poll = tcp_poll,
                                           .check = tcp_check,
                                           .arm = tcp_arm,
                                           .disarm = tcp_disarm,
                                           .event_fd = tcp_event_fd,
                                           .counters = tcp_counters,
                                           .acquaint = hki_watch_acquaint,
                                           .report_lost = hki_watch_report,
                                           .measure = hki_tcp_measure};

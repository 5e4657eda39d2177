/* The verbs transport: its operations table, links, sleep and departure. */
#include "verbs.h"

#include "base/settings.h"
#include "net/handshake.h"
#include "net/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

enum {
    PUBLISHED_VERSION = 1,
    PUBLISHED_HEADER = 8,
    PUBLISHED_PORT = 24,
    RING_BYTES = 256 << 10,   /* 100 Gbit/s for 20 µs: credit comes back in less; not measured on hardware */
    BOUNCE_BYTES = 256 << 10, /* as much as the core asks of one get */
    RING_LEAST = 16 << 10,    /* frames of a sixteenth must hold HK_TRANSPORT_WHOLE */
    RING_MOST = 1 << 20,      /* an immediate tells a place in 15 bits, in units */
    PROBE_MS = 500,           /* a link that has been silent so long is asked for a sign of life; guessed */
    STANDARD_CONNECT_SECONDS = 30
};

/* ---- links ---- */

/* The end of a link that never was. */
static void never_up(hk_link *link, hk_link_state state)
{
    link->state = state;
    link->news = true;
    link->transport->changed++;
}

/* What ends a link that is up. */
static void look_at_events(hk_link *link)
{
    int event = atomic_load(&link->event);
    for (uint32_t i = 0; i < link->lane_count; i++) {
        const hki_port *port = link->lane[i].port;
        if (atomic_load(&port->down))
            hki_verbs_fail(link, "is cut off: port %u of device %s is down", port->number, port->device);
    }
    if (event != 0)
        hki_verbs_fail(link, "is cut off: %s",
                       link->transport->library->event_type_str((enum ibv_event_type)(event - 1)));
    if (link->failing)
        hki_verbs_progress(link);
}

/* The peer's process has ended. What it sent before can still be taken, and there may be a goodbye among it. */
static void end_of_peer(hk_link *link)
{
    hki_verbs_progress(link);
    if (link->state != HK_LINK_UP)
        return;
    hki_verbs_fail(link, "has ended without a goodbye");
    hki_verbs_progress(link);
}

/* Looks what the control thread has done to the link. */
static void adopt(hk_link *link)
{
    int wiring = atomic_load_explicit(&link->wiring, memory_order_acquire);
    if (link->state == HK_LINK_CONNECTING && wiring == HKI_WIRING_UP) {
        link->state = HK_LINK_UP;
        link->heard = true;
        hki_verbs_watch(link);
        link->transport->counts.connections++;
        link->transport->relieved |= link->wanted;
        if (atomic_load(&link->gone))
            end_of_peer(link);
    } else if (link->state == HK_LINK_CONNECTING && wiring > HKI_WIRING_UP && link->wanted) {
        never_up(link, wiring == HKI_WIRING_LEFT ? HK_LINK_GOODBYE : HK_LINK_LOST);
    }
    if (link->state == HK_LINK_UP)
        look_at_events(link);
}

static void peer_ended(hk_link *link)
{
    adopt(link); /* it may have connected, and sent something, before it ended */
    close(link->pidfd);
    link->pidfd = -1;
    if (link->state == HK_LINK_UP)
        end_of_peer(link);
    else
        atomic_store(&link->gone, true);
    if (link->state == HK_LINK_CONNECTING && link->wanted)
        hki_verbs_tell_gone(link);
}

static void adopt_all(hk_transport *transport)
{
    uint64_t rings;
    if (read(transport->event, &rings, sizeof rings) != sizeof rings)
        return;
    for (uint32_t rank = 0; rank < transport->services->ranks; rank++) {
        hk_link *link = hki_verbs_link(transport, rank);
        if (link != NULL)
            adopt(link);
    }
}

/* Opened before its process can have ended and another have got its number. */
static int open_peer(const hk_transport *transport, const hk_peer *peer)
{
    if (peer->host != transport->services->self->host || peer->pid <= 0 || peer->pid == (int32_t)transport->pid)
        return -1;
    return (int)syscall(SYS_pidfd_open, peer->pid, 0);
}

void hki_verbs_watch(hk_link *link)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};
    if (link->pidfd >= 0)
        (void)epoll_ctl(link->transport->epoll, EPOLL_CTL_ADD, link->pidfd, &event); /* or it is there already */
}

/* ---- addresses: version, ports, zero 16, number of the datagram queue 32; per port GID 16, LID 16, MTU, RoCE, 0 ----
 */

static hk_status verbs_address(hk_transport *transport, void *address, size_t *bytes)
{
    unsigned char *at = address;
    size_t length = PUBLISHED_HEADER + transport->port_count * (size_t)PUBLISHED_PORT;
    if (*bytes < length)
        return HK_ERR_INTERNAL;
    memset(at, 0, length);
    at[0] = PUBLISHED_VERSION;
    at[1] = (unsigned char)transport->port_count;
    hki_wire_put32(at + 4, transport->control.queue->qp_num);
    for (uint32_t i = 0; i < transport->port_count; i++) {
        const hki_port *port = &transport->port[i];
        unsigned char *one = at + PUBLISHED_HEADER + i * (size_t)PUBLISHED_PORT;
        memcpy(one, port->gid.raw, sizeof port->gid.raw);
        hki_wire_put16(one + 16, port->lid);
        one[18] = (unsigned char)port->mtu;
        one[19] = port->ethernet;
    }
    *bytes = length;
    return HK_OK;
}

static hk_status unreachable(const hk_transport *transport, const hk_peer *peer, const char *why)
{
    const hk_transport_services *services = transport->services;
    services->error(services->core, HK_ERR_UNSUPPORTED, "verbs does not reach rank %d on %s from rank %d on %s: %s",
                    (int)peer->rank, peer->host_name, (int)services->self->rank, services->self->host_name, why);
    return HK_ERR_UNSUPPORTED;
}

/* Reads what the peer has published; NULL, or what is wrong with it. */
static const char *read_address(hk_link *link, const unsigned char *at, size_t bytes)
{
    const hk_transport *transport = link->transport;
    if (bytes < PUBLISHED_HEADER || at[0] != PUBLISHED_VERSION || at[1] == 0 || at[1] > HKI_VERBS_LANES ||
        bytes != PUBLISHED_HEADER + at[1] * (size_t)PUBLISHED_PORT)
        return "it publishes no address that is understood here";
    link->dial_number = hki_wire_get32(at + 4);
    link->lane_count = at[1] < transport->port_count ? at[1] : transport->port_count;
    for (uint32_t i = 0; i < link->lane_count; i++) {
        const unsigned char *one = at + PUBLISHED_HEADER + i * (size_t)PUBLISHED_PORT;
        hki_port_address *address = &link->address[i];
        memcpy(address->gid.raw, one, sizeof address->gid.raw);
        address->lid = hki_wire_get16(one + 16);
        address->mtu = one[18];
        address->ethernet = one[19] != 0;
        if (address->ethernet != transport->port[i].ethernet) {
            link->lane_count = i; /* those before serve */
            return i > 0 ? NULL : "one of us has InfiniBand, and the other RoCE";
        }
        if (address->mtu < IBV_MTU_256 || address->mtu > IBV_MTU_4096)
            return "it publishes a malformed address";
    }
    return NULL;
}

static hk_status verbs_connect(hk_transport *transport, const hk_peer *peer, const void *address, size_t bytes,
                               hk_link **result)
{
    const hk_transport_services *services = transport->services;
    if (peer->rank < 0 || (uint32_t)peer->rank >= services->ranks || peer->rank == services->self->rank ||
        hki_verbs_link(transport, (uint32_t)peer->rank) != NULL)
        return unreachable(transport, peer, "it is not another rank, or has a link");
    bool open = hki_key_given(services->token) || strcmp(services->setting(services->core, "KEY"), "none") == 0;
    if (!open && peer->host != services->self->host)
        return unreachable(transport, peer,
                           "without a job key only ranks of the same host are talked to; set "
                           "HOCKET_KEY_FILE, or HOCKET_KEY=none to do without");
    hk_link *link = calloc(1, sizeof *link);
    if (link == NULL) {
        services->error(services->core, HK_ERR_NO_MEMORY, "verbs: no memory for a link");
        return HK_ERR_NO_MEMORY;
    }
    link->transport = transport;
    link->peer = *peer;
    hki_list_init(&link->dialling);
    const char *wrong = read_address(link, address, bytes);
    hk_status status = wrong != NULL ? unreachable(transport, peer, wrong) : hki_verbs_control_start(transport);
    if (status != HK_OK) {
        free(link);
        return status;
    }
    /* Equal at both ends, and spread over a rank's peers. */
    link->home = (uint32_t)(peer->rank + services->self->rank) % link->lane_count;
    for (uint32_t i = 0; i < link->lane_count; i++)
        link->lane[i] = (hki_lane){.link = link, .port = &transport->port[i]};
    link->pidfd = open_peer(transport, peer);
    atomic_store_explicit(&transport->links[peer->rank], link, memory_order_release);
    *result = link;
    return HK_OK;
}

static hk_link_state verbs_link_state(hk_link *link, const char **reason)
{
    if (reason != NULL)
        *reason = link->reason;
    return link->state;
}

/* ---- what happens while nobody looks ---- */

/* Takes events; completion queues that have made one are to be armed again. */
static void harvest(hk_transport *transport)
{
    enum { EVENTS = 32 };
    struct epoll_event events[EVENTS];
    int count;
    do {
        count = epoll_wait(transport->epoll, events, EVENTS, 0);
        for (int i = 0; i < count; i++) {
            void *what = events[i].data.ptr;
            bool port = what >= (void *)transport->port && what < (void *)(transport->port + HKI_VERBS_LANES);
            struct ibv_cq *cq;
            void *lane;
            if (what == transport)
                adopt_all(transport);
            else if (!port)
                peer_ended(what);
            else
                while (transport->library->get_cq_event(((hki_port *)what)->channel, &cq, &lane) == 0) {
                    ((hki_lane *)lane)->armed = false;
                    transport->library->ack_cq_events(cq, 1);
                }
        }
    } while (count == EVENTS);
}

static size_t verbs_poll(hk_transport *transport, uint32_t *ranks, size_t capacity)
{
    size_t count = 0;
    harvest(transport);
    for (uint32_t rank = 0; rank < transport->services->ranks && count < capacity; rank++) {
        hk_link *link = hki_verbs_link(transport, rank);
        if (link == NULL)
            continue;
        hki_verbs_progress(link);
        if (!hki_verbs_pending(link))
            continue;
        link->news = false;
        ranks[count++] = rank;
    }
    return count;
}

/* A peer whose machine has gone says nothing; its hardware is asked, which answers without its process. */
static void look_for_life(hk_link *link)
{
    uint64_t now = link->transport->services->now(link->transport->services->core);
    if (link->heard) {
        link->heard = false;
        link->probe_at = now + PROBE_MS * MS;
    } else if (now >= link->probe_at) {
        hki_verbs_probe(link);
    }
}

void hki_verbs_look(hk_link *link)
{
    harvest(link->transport);
    if (link->state == HK_LINK_UP)
        look_for_life(link);
}

static size_t verbs_check(hk_transport *transport)
{
    harvest(transport);
    for (uint32_t rank = 0; rank < transport->services->ranks; rank++) {
        hk_link *link = hki_verbs_link(transport, rank);
        if (link == NULL || link->state != HK_LINK_UP)
            continue;
        hki_verbs_progress(link);
        if (link->state == HK_LINK_UP)
            look_for_life(link);
    }
    size_t changed = transport->changed;
    transport->changed = 0;
    return changed;
}

/* ---- sleeping ---- */

/* Asks for an event when something completes, and looks what has completed before. */
static void arm_link(hk_link *link)
{
    bool again = false;
    for (uint32_t i = 0; i < link->lane_count && link->state == HK_LINK_UP; i++) {
        hki_lane *lane = &link->lane[i];
        if (lane->armed)
            continue;
        lane->armed = ibv_req_notify_cq(lane->cq, 0) == 0;
        again = true;
    }
    if (again)
        hki_verbs_progress(link);
}

static bool verbs_arm(hk_transport *transport)
{
    bool pending = false;
    harvest(transport);
    for (uint32_t rank = 0; rank < transport->services->ranks; rank++) {
        hk_link *link = hki_verbs_link(transport, rank);
        if (link == NULL)
            continue;
        arm_link(link);
        pending |= hki_verbs_pending(link) || link->put_news;
    }
    pending |= transport->relieved;
    transport->relieved = false;
    return !pending;
}

/* An event too many does no harm: nothing is undone. */
static void verbs_disarm(hk_transport *transport)
{
    (void)transport;
}

static int verbs_event_fd(hk_transport *transport)
{
    return transport->epoll;
}

/* ---- the instance ---- */

static void release(hk_transport *transport)
{
    hki_verbs_control_stop(transport);
    for (uint32_t rank = 0; transport->links != NULL && rank < transport->services->ranks; rank++) {
        hk_link *link = hki_verbs_link(transport, rank);
        if (link == NULL)
            continue;
        hki_verbs_drop_queues(link);
        hki_verbs_bulk_drop(link);
        hki_verbs_drop_memory(link);
        if (link->handle != NULL)
            transport->library->destroy_ah(link->handle);
        if (link->pidfd >= 0)
            close(link->pidfd);
        free(link);
    }
    hki_verbs_drop_regions(transport);
    hki_verbs_close_ports(transport);
    if (transport->epoll >= 0)
        close(transport->epoll);
    if (transport->event >= 0)
        close(transport->event);
    free(transport->links);
    free(transport);
}

static int watch(const hk_transport *transport, int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    return epoll_ctl(transport->epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

/* Tables and descriptors: 0 or an errno. */
static int prepare(hk_transport *transport)
{
    transport->links = calloc(transport->services->ranks, sizeof *transport->links);
    if (transport->links == NULL)
        return ENOMEM;
    transport->epoll = epoll_create1(EPOLL_CLOEXEC);
    transport->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (transport->epoll < 0 || transport->event < 0)
        return errno;
    int error = watch(transport, transport->event, transport);
    for (uint32_t i = 0; error == 0 && i < transport->port_count; i++)
        error = watch(transport, transport->port[i].channel->fd, &transport->port[i]);
    return error;
}

static hk_status read_ring(hk_transport *transport)
{
    const hk_transport_services *services = transport->services;
    const char *text = services->setting(services->core, "VERBS_RING");
    uint64_t bytes = RING_BYTES;
    if (*text != '\0' &&
        (!hki_parse_bytes(text, &bytes) || bytes < RING_LEAST || bytes > RING_MOST || bytes % HKI_VERBS_UNIT != 0)) {
        services->error(services->core, HK_ERR_SETTING,
                        "HOCKET_VERBS_RING is \"%s\": from %d to %d bytes are possible, in multiples of %d", text,
                        (int)RING_LEAST, (int)RING_MOST, (int)HKI_VERBS_UNIT);
        return HK_ERR_SETTING;
    }
    transport->ring_units = (uint32_t)(bytes / HKI_VERBS_UNIT);
    return HK_OK;
}

static hk_status read_settings(hk_transport *transport)
{
    const hk_transport_services *services = transport->services;
    const char *protocol = services->setting(services->core, "PROTOCOL");
    bool all = *protocol == '\0' || strcmp(protocol, "auto") == 0;
    transport->puts = all;
    transport->gets = all || strcmp(protocol, "get") == 0;
    transport->connect_timeout = STANDARD_CONNECT_SECONDS;
    (void)hki_parse_seconds(services->setting(services->core, "CONNECT_TIMEOUT"), &transport->connect_timeout);
    return read_ring(transport);
}

static hk_status start(hk_transport *transport)
{
    const hk_transport_services *services = transport->services;
    hk_status status = hki_verbs_open_ports(transport);
    if (status != HK_OK)
        return status;
    status = read_settings(transport);
    if (status == HK_OK)
        status = hki_verbs_try_memory(transport);
    if (status != HK_OK)
        return status;
    int error = prepare(transport);
    /* Without it reads go to registered memory only. */
    if (error == 0 && transport->gets && hki_verbs_alloc(transport, BOUNCE_BYTES) != NULL)
        transport->bounce = hki_list_entry(transport->regions.next, hki_region, node);
    hki_verbs_set_memory(transport);
    if (error == 0)
        return hki_verbs_control_open(transport);
    services->error(services->core, HK_ERR_SYSTEM, "verbs: %s", strerror(error));
    return HK_ERR_SYSTEM;
}

static hk_status verbs_open(const hk_transport_services *services, hk_transport **result, hk_transport_limits *limits)
{
    hk_transport *transport = calloc(1, sizeof *transport);
    if (transport == NULL) {
        services->error(services->core, HK_ERR_NO_MEMORY, "verbs: no memory");
        return HK_ERR_NO_MEMORY;
    }
    transport->services = services;
    transport->pid = getpid();
    transport->epoll = transport->event = transport->control.epoll = transport->control.event = -1;
    hki_list_init(&transport->control.dialling);
    hki_list_init(&transport->regions);
    hki_list_init(&transport->registrations);
    hk_status status = start(transport);
    if (status != HK_OK) {
        release(transport);
        return status;
    }
    size_t ring = (size_t)transport->ring_units * HKI_VERBS_UNIT;
    double rate = hki_verbs_rate(transport);
    uint32_t network = transport->port[0].ethernet ? 0 : (uint32_t)HK_TRANSPORT_INFINIBAND;
    *limits = (hk_transport_limits){.capabilities = HK_TRANSPORT_GET | HK_TRANSPORT_PUT | HK_TRANSPORT_COSTED | network,
                                    .inline_bytes = HKI_VERBS_INLINE - HKI_VERBS_HEADER,
                                    .eager_bytes = ring / 16,
                                    .piece_bytes = ring / 8,
                                    .get_bytes = 0,
                                    .alpha_ns = transport->latency_ns,
                                    .beta_ns = rate > 0 ? 1 / rate : 0};
    services->log(services->core, HK_LOG_INFO, "verbs: rank %d on %s: %.1f us for a small message, %.3f ns a byte",
                  (int)services->self->rank, services->self->host_name, limits->alpha_ns / 1000, limits->beta_ns);
    *result = transport;
    return HK_OK;
}

/* One look at a link that is to end: true while it needs another. */
static bool departing(hk_link *link)
{
    hki_verbs_progress(link);
    if (link->state == HK_LINK_UP || (link->state == HK_LINK_GOODBYE && !link->departed && link->frames != NULL))
        link->departed = link->departed || hki_verbs_say_goodbye(link);
    return link->state == HK_LINK_UP && (!link->departed || link->signalled != link->completed); /* the goodbye is */
}

/* All that was sent, and the goodbye behind it, has reached the peers before the queues end. */
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
            hk_link *link = hki_verbs_link(transport, rank);
            if (link != NULL)
                busy |= departing(link);
        }
    }
}

static void verbs_close(hk_transport *transport, double timeout)
{
    if (getpid() != transport->pid)
        return; /* a forked child: the parent's queues are not its own to end */
    harvest(transport);
    depart(transport, timeout);
    release(transport);
}

static size_t verbs_counters(hk_transport *transport, const char **names, uint64_t *values, size_t capacity)
{
    const hki_verbs_counts *counts = &transport->counts;
    const struct {
        const char *name;
        uint64_t value;
    } table[] = {{"connections", counts->connections},
                 {"frames_sent", counts->frames_out},
                 {"frames_received", counts->frames_in},
                 {"work_requests", counts->work_requests},
                 {"inline_sends", counts->inline_sends},
                 {"bytes_written", counts->bytes_written},
                 {"bytes_copied", counts->bytes_copied},
                 {"puts", counts->puts},
                 {"put_bytes", counts->put_bytes},
                 {"puts_refused", counts->puts_refused},
                 {"gets", counts->gets},
                 {"get_bytes", counts->get_bytes},
                 {"registrations", counts->registrations},
                 {"revocations", counts->revocations},
                 {"register_from", transport->memory.from},
                 {"credits", counts->credits},
                 {"probes", counts->probes},
                 {"waits_for_room", counts->room_waits},
                 {"refused", atomic_load(&transport->control.refused)}};
    size_t count = sizeof table / sizeof table[0];
    for (size_t i = 0; i < count && i < capacity; i++) {
        names[i] = table[i].name;
        values[i] = table[i].value;
    }
    return count;
}

/* The only symbol that the module shows. */
__attribute__((visibility("default"))) extern const hk_transport_ops hk_transport_verbs;

const hk_transport_ops hk_transport_verbs = {.size = sizeof(hk_transport_ops),
                                             .abi = HK_TRANSPORT_ABI,
                                             .name = "verbs",
                                             .open = verbs_open,
                                             .close = verbs_close,
                                             .address = verbs_address,
                                             .connect = verbs_connect,
                                             .link_state = verbs_link_state,
                                             .send = hki_verbs_send,
                                             .peek = hki_verbs_peek,
                                             .consume = hki_verbs_consume,
                                             .describe = hki_verbs_describe,
                                             .get = hki_verbs_get,
                                             .put = hki_verbs_put,
                                             .put_result = hki_verbs_put_result,
                                             .withdraw = hki_verbs_withdraw,
                                             .alloc = hki_verbs_alloc,
                                             .free = hki_verbs_free,
                                             .register_memory = hki_verbs_register,
                                             .unregister_memory = hki_verbs_unregister,
                                             .poll = verbs_poll,
                                             .check = verbs_check,
                                             .arm = verbs_arm,
                                             .disarm = verbs_disarm,
                                             .event_fd = verbs_event_fd,
                                             .counters = verbs_counters,
                                             .measure = hki_verbs_measure};

/*
 * The control thread: one a context, from the first link on. It makes connections, so that a rank which computes is
 * reached all the same, and hears of what happens to devices and queues. It sleeps in epoll, takes no signals, and
 * calls nothing of the core's but log.
 */
#include "verbs.h"

#include "base/clock.h"
#include "net/sha256.h"
#include "net/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

enum {
    EVENTS = 16,
    STACK_BYTES = 256 << 10,
    RECEIVES = 64, /* datagrams that may wait; those that find no place are sent again */
    SENDS = 16,
    ROUTE_BYTES = 40, /* the global route header, before each datagram that comes */
    SLOT_BYTES = 512,
    LATENCY_TRIES = 4,
    LATENCY_WAIT_MS = 20,
    OF_SEND = 1 << 16 /* wr_id of datagrams that go; others are the place of one that came */
};

void hki_verbs_ring(hk_transport *transport)
{
    uint64_t one = 1;
    (void)!write(transport->event, &one, sizeof one);
}

void hki_verbs_need(hk_link *link)
{
    hk_transport *transport = link->transport;
    uint64_t one = 1;
    if (link->wanted)
        return;
    link->wanted = true;
    hki_verbs_watch(link);
    hk_link *first = atomic_load(&transport->control.wanted);
    do
        link->next_wanted = first;
    while (!atomic_compare_exchange_weak(&transport->control.wanted, &first, link));
    (void)!write(transport->control.event, &one, sizeof one);
    /* What is known of a peer that nobody has needed so far counts from now on. */
    if (atomic_load(&link->gone))
        hki_verbs_tell_gone(link);
    if (atomic_load(&link->wiring) > HKI_WIRING_UP)
        hki_verbs_ring(transport);
}

void hki_verbs_tell_gone(hk_link *link)
{
    hki_verbs_control *control = &link->transport->control;
    uint64_t one = 1;
    atomic_store(&link->gone, true);
    atomic_store(&control->gone, true);
    (void)!write(control->event, &one, sizeof one);
}

/* Datagrams without it are dropped by the hardware; strangers do not know it. The highest bit would make it a
 * privileged one. */
uint32_t hki_verbs_key(const hk_transport *transport)
{
    static const char purpose[] = "hocket verbs datagrams";
    uint8_t mac[HKI_SHA256_BYTES];
    hki_hmac_sha256(transport->services->token, 32, purpose, sizeof purpose, mac);
    return hki_wire_get32(mac) & 0x7fffffff;
}

/* ---- datagrams ---- */

static bool post_receive(const hki_verbs_control *control, uint32_t slot)
{
    struct ibv_sge piece = {(uintptr_t)control->memory + slot * (size_t)SLOT_BYTES, SLOT_BYTES, control->region->lkey};
    struct ibv_recv_wr receive = {.wr_id = slot, .sg_list = &piece, .num_sge = 1}, *bad;
    return ibv_post_recv(control->queue, &receive, &bad) == 0;
}

void hki_verbs_say(hk_link *link, const unsigned char *text, size_t bytes)
{
    hk_transport *transport = link->transport;
    hki_verbs_control *control = &transport->control;
    if (link->handle == NULL) {
        struct ibv_ah_attr route;
        hki_verbs_route(&transport->port[0], &link->address[0], &route);
        link->handle = transport->library->create_ah(transport->port[0].pd, &route);
    }
    if (link->handle == NULL || control->sends_out == SENDS)
        return; /* it is said again */
    unsigned char *slot = control->memory + (size_t)(RECEIVES + control->sends) * SLOT_BYTES;
    struct ibv_sge piece = {(uintptr_t)slot, (uint32_t)bytes, control->region->lkey};
    struct ibv_send_wr request = {
        .wr_id = OF_SEND,
        .sg_list = &piece,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.ud = {.ah = link->handle, .remote_qpn = link->dial_number, .remote_qkey = hki_verbs_key(transport)}};
    struct ibv_send_wr *bad;
    memcpy(slot, text, bytes);
    if (ibv_post_send(control->queue, &request, &bad) != 0)
        return;
    control->sends = (control->sends + 1) % SENDS;
    control->sends_out++;
}

static void completed(hk_transport *transport, const struct ibv_wc *completion)
{
    hki_verbs_control *control = &transport->control;
    if (completion->wr_id == OF_SEND) {
        control->sends_out -= control->sends_out > 0; /* a late one may be of measure_latency */
        return;
    }
    uint32_t slot = (uint32_t)completion->wr_id;
    if (completion->status == IBV_WC_SUCCESS && completion->byte_len > ROUTE_BYTES)
        hki_verbs_hear(transport, control->memory + slot * (size_t)SLOT_BYTES + ROUTE_BYTES,
                       completion->byte_len - ROUTE_BYTES);
    if (completion->status != IBV_WC_WR_FLUSH_ERR)
        (void)post_receive(control, slot);
}

static void take_datagrams(hk_transport *transport)
{
    hki_verbs_control *control = &transport->control;
    struct ibv_wc completion;
    struct ibv_cq *cq;
    void *context;
    if (transport->library->get_cq_event(control->channel, &cq, &context) == 0)
        transport->library->ack_cq_events(cq, 1);
    (void)ibv_req_notify_cq(control->cq, 0);
    while (ibv_poll_cq(control->cq, 1, &completion) == 1)
        completed(transport, &completion);
}

static bool unblock(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

static int start_queue(hk_transport *transport)
{
    const hki_verbs_library *library = transport->library;
    hki_verbs_control *control = &transport->control;
    struct ibv_qp_attr attributes = {
        .qp_state = IBV_QPS_INIT, .port_num = transport->port[0].number, .qkey = hki_verbs_key(transport)};
    int error =
        library->modify_qp(control->queue, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    attributes.qp_state = IBV_QPS_RTR;
    error = error != 0 ? error : library->modify_qp(control->queue, &attributes, IBV_QP_STATE);
    attributes.qp_state = IBV_QPS_RTS;
    error = error != 0 ? error : library->modify_qp(control->queue, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN);
    for (uint32_t slot = 0; error == 0 && slot < RECEIVES; slot++)
        error = post_receive(control, slot) ? 0 : ENOMEM;
    return error != 0 ? error : ibv_req_notify_cq(control->cq, 0);
}

static int open_queue(hk_transport *transport)
{
    const hki_verbs_library *library = transport->library;
    hki_verbs_control *control = &transport->control;
    hki_port *port = &transport->port[0];
    const size_t bytes = (size_t)(RECEIVES + SENDS) * SLOT_BYTES;
    if (posix_memalign((void **)&control->memory, 4096, bytes) != 0)
        return ENOMEM;
    memset(control->memory, 0, bytes);
    control->region = library->reg_mr(port->pd, control->memory, bytes, IBV_ACCESS_LOCAL_WRITE);
    control->channel = library->create_comp_channel(port->context);
    if (control->region == NULL || control->channel == NULL || !unblock(control->channel->fd))
        return errno;
    control->cq = library->create_cq(port->context, RECEIVES + SENDS, NULL, control->channel, 0);
    if (control->cq == NULL)
        return errno;
    struct ibv_qp_init_attr attributes = {
        .send_cq = control->cq,
        .recv_cq = control->cq,
        .cap = {.max_send_wr = SENDS, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD};
    control->queue = library->create_qp(port->pd, &attributes);
    return control->queue != NULL ? start_queue(transport) : errno;
}

/* ---- latency ---- */

/* Sends a datagram to the own queue and waits until it is there: ns, or UINT64_MAX. The thread does not run yet. */
static uint64_t time_datagram(hk_transport *transport, struct ibv_ah *handle)
{
    hki_verbs_control *control = &transport->control;
    struct ibv_sge piece = {(uintptr_t)control->memory + (size_t)RECEIVES * SLOT_BYTES, HKI_VERBS_UNIT,
                            control->region->lkey};
    struct ibv_send_wr request = {
        .wr_id = OF_SEND,
        .sg_list = &piece,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.ud = {.ah = handle, .remote_qpn = control->queue->qp_num, .remote_qkey = hki_verbs_key(transport)}};
    struct ibv_send_wr *bad;
    uint64_t begin = hki_now(), taken = UINT64_MAX;
    if (ibv_post_send(control->queue, &request, &bad) != 0)
        return UINT64_MAX;
    for (int left = 2; left > 0;) {
        struct ibv_wc completion;
        if (ibv_poll_cq(control->cq, 1, &completion) != 1) {
            /* asked first: this process may not have had a core for long */
            if (hki_now() - begin > LATENCY_WAIT_MS * MS)
                break;
            continue;
        }
        left--;
        if (completion.wr_id == OF_SEND || completion.status != IBV_WC_SUCCESS)
            continue;
        taken = hki_now() - begin;
        (void)post_receive(control, (uint32_t)completion.wr_id);
    }
    return taken;
}

/* How long a small message takes through the adapter and back into it, at best of a few. */
static void measure_latency(hk_transport *transport)
{
    hki_port *port = &transport->port[0];
    const hki_port_address own = {
        .gid = port->gid, .lid = port->lid, .mtu = (uint8_t)port->mtu, .ethernet = port->ethernet};
    struct ibv_ah_attr route;
    hki_verbs_route(port, &own, &route);
    struct ibv_ah *handle = transport->library->create_ah(port->pd, &route);
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < LATENCY_TRIES && handle != NULL; i++) {
        uint64_t taken = time_datagram(transport, handle);
        best = taken < best ? taken : best;
        if (taken == UINT64_MAX)
            break; /* datagrams do not come back here */
    }
    if (handle != NULL)
        transport->library->destroy_ah(handle);
    transport->latency_ns = best != UINT64_MAX ? (double)best : 0;
}

/* ---- asynchronous events ---- */

/* What ends a link is left for the caller's thread to see. Bulk queues, which have no context, may fail alone. */
static void queue_event(struct ibv_qp *queue, enum ibv_event_type type)
{
    hk_link *link = queue->qp_context;
    if (link == NULL || type == IBV_EVENT_SQ_DRAINED || type == IBV_EVENT_COMM_EST ||
        type == IBV_EVENT_QP_LAST_WQE_REACHED || type == IBV_EVENT_PATH_MIG)
        return;
    atomic_store(&link->event, (int)type + 1);
    hki_verbs_ring(link->transport);
}

static void port_event(hki_port *port, const struct ibv_async_event *event)
{
    const hk_transport_services *services = port->transport->services;
    enum ibv_event_type type = event->event_type;
    if (type != IBV_EVENT_DEVICE_FATAL && event->element.port_num != port->number)
        return;
    if (type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_DEVICE_FATAL) {
        atomic_store(&port->down, true);
        hki_verbs_ring(port->transport);
    } else if (type == IBV_EVENT_PORT_ACTIVE) {
        atomic_store(&port->down, false);
    }
    services->log(services->core, HK_LOG_WARN, "verbs: device %s port %u: %s", port->device, port->number,
                  port->transport->library->event_type_str(type));
}

static void take_event(hki_port *port)
{
    const hki_verbs_library *library = port->transport->library;
    struct ibv_async_event event;
    if (library->get_async_event(port->context, &event) != 0)
        return;
    switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        queue_event(event.element.qp, event.event_type);
        break;
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_DEVICE_FATAL:
        port_event(port, &event);
        break;
    default: /* addresses and partitions that change concern new connections only */
        break;
    }
    library->ack_async_event(&event);
}

/* ---- the thread ---- */

static void take_wishes(hk_transport *transport)
{
    for (hk_link *link = atomic_exchange(&transport->control.wanted, NULL); link != NULL;) {
        hk_link *following = link->next_wanted;
        hki_verbs_dial(link);
        link = following;
    }
}

/* A process that ended left its last datagrams behind: they are heard first. */
static void take_ends(hk_transport *transport)
{
    if (!atomic_exchange(&transport->control.gone, false))
        return;
    take_datagrams(transport);
    for (uint32_t rank = 0; rank < transport->services->ranks; rank++) {
        hk_link *link = hki_verbs_link(transport, rank);
        if (link != NULL && atomic_load(&link->gone))
            hki_verbs_hear_end(link);
    }
}

static void handle(hk_transport *transport, const void *what)
{
    hki_verbs_control *control = &transport->control;
    uint64_t count;
    if (what == &control->event)
        (void)!read(control->event, &count, sizeof count);
    else if (what == &control->channel)
        take_datagrams(transport);
    for (uint32_t i = 0; i < transport->port_count; i++) {
        if (what == &transport->port[i])
            take_event(&transport->port[i]);
    }
}

/* Milliseconds until then, rounded up, for epoll_wait. */
static int until(uint64_t when, uint64_t now)
{
    if (when == UINT64_MAX)
        return -1;
    uint64_t left = when > now ? (when - now + MS - 1) / MS : 0;
    return left < 60000 ? (int)left : 60000;
}

static void *run(void *argument)
{
    hk_transport *transport = argument;
    hki_verbs_control *control = &transport->control;
    while (!atomic_load(&control->stop)) {
        struct epoll_event events[EVENTS];
        take_wishes(transport);
        take_ends(transport);
        uint64_t now = hki_now();
        int count = epoll_wait(control->epoll, events, EVENTS, until(hki_verbs_dial_times(transport, now), now));
        for (int i = 0; i < count; i++)
            handle(transport, events[i].data.ptr);
    }
    take_datagrams(transport);
    hki_verbs_say_leave(transport);
    return NULL;
}

static int watch(const hki_verbs_control *control, int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    return epoll_ctl(control->epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

/* ---- its beginning and its end ---- */

static int prepare(hk_transport *transport)
{
    hki_verbs_control *control = &transport->control;
    control->epoll = epoll_create1(EPOLL_CLOEXEC);
    control->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (control->epoll < 0 || control->event < 0)
        return errno;
    int error = open_queue(transport);
    if (error == 0)
        measure_latency(transport);
    error = error != 0 ? error : watch(control, control->event, &control->event);
    error = error != 0 ? error : watch(control, control->channel->fd, &control->channel);
    for (uint32_t i = 0; error == 0 && i < transport->port_count; i++) {
        hki_port *port = &transport->port[i];
        error = unblock(port->context->async_fd) && unblock(port->channel->fd)
                    ? watch(control, port->context->async_fd, port)
                    : errno;
    }
    return error;
}

hk_status hki_verbs_control_open(hk_transport *transport)
{
    const hk_transport_services *services = transport->services;
    int error = prepare(transport);
    if (error == 0)
        return HK_OK;
    services->error(services->core, HK_ERR_TRANSPORT,
                    "verbs: rank %d on %s, device %s port %u: no queue for datagrams: %s", (int)services->self->rank,
                    services->self->host_name, transport->port[0].device, transport->port[0].number, strerror(error));
    return HK_ERR_TRANSPORT;
}

hk_status hki_verbs_control_start(hk_transport *transport)
{
    const hk_transport_services *services = transport->services;
    hki_verbs_control *control = &transport->control;
    pthread_attr_t attributes;
    sigset_t all, before;
    if (control->running)
        return HK_OK;
    int error = pthread_attr_init(&attributes);
    if (error == 0) {
        (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        error = pthread_create(&control->thread, &attributes, run, transport);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
    }
    if (error != 0) {
        services->error(services->core, HK_ERR_SYSTEM, "verbs: the thread that makes connections does not start: %s",
                        strerror(error));
        return HK_ERR_SYSTEM;
    }
    (void)pthread_setname_np(control->thread, "hocket-verbs");
    control->running = true;
    return HK_OK;
}

static void close_queue(hk_transport *transport)
{
    const hki_verbs_library *library = transport->library;
    hki_verbs_control *control = &transport->control;
    if (control->queue != NULL)
        library->destroy_qp(control->queue);
    if (control->cq != NULL)
        library->destroy_cq(control->cq);
    if (control->channel != NULL)
        library->destroy_comp_channel(control->channel);
    if (control->region != NULL)
        library->dereg_mr(control->region);
    free(control->memory);
}

void hki_verbs_control_stop(hk_transport *transport)
{
    hki_verbs_control *control = &transport->control;
    uint64_t one = 1;
    if (control->running) {
        atomic_store(&control->stop, true);
        (void)!write(control->event, &one, sizeof one);
        pthread_join(control->thread, NULL);
        control->running = false;
    }
    if (transport->library != NULL)
        close_queue(transport);
    if (control->epoll >= 0)
        close(control->epoll);
    if (control->event >= 0)
        close(control->event);
}

/* Queue pairs of a link: made, joined with the peer's, ended. */
#include "verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>

/*
 * Timers of reliable connections (InfiniBand specification, 9.7.5). An unacknowledged packet is sent again after
 * 4.096 µs · 2^TIMEOUT = 268 ms, RETRIES times; then the peer is given up, after two seconds to eight, since adapters
 * may wait up to four times as long. Six retries, not seven, which Soft-RoCE takes for "without end". A receiver
 * without a posted receive is asked again without end (7): credit excludes it but for moments.
 */
enum { TIMEOUT = 16, RETRIES = 6, RECEIVER_NOT_READY_RETRIES = 7, RECEIVER_NOT_READY_TIMER = 12, PSN_MASK = 0xffffff };

static bool fail(hk_link *link, const hki_port *port, const char *what, int error)
{
    snprintf(link->reason, sizeof link->reason, "rank %d on %.64s is not reached: device %.64s port %u %s: %s",
             (int)link->peer.rank, link->peer.host_name, port->device, port->number, what, strerror(error));
    return false;
}

/* ---- making ---- */

static uint32_t random_psn(void)
{
    uint32_t value = 0;
    (void)!getrandom(&value, sizeof value, 0);
    return value & PSN_MASK;
}

/* Memory that the port's hardware may write to: its region, or NULL with errno. */
static struct ibv_mr *register_pages(const hki_port *port, size_t bytes, void **memory)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return NULL;
    /* A child that writes to it would take the pages that the hardware has away from this process. */
    (void)madvise(pages, bytes, MADV_DONTFORK);
    struct ibv_mr *region =
        port->transport->library->reg_mr(port->pd, pages, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (region == NULL) {
        int error = errno;
        munmap(pages, bytes);
        errno = error;
        return NULL;
    }
    *memory = pages;
    return region;
}

static size_t ring_memory(const hk_transport *transport)
{
    return 2 * (size_t)transport->ring_units * HKI_VERBS_UNIT;
}

/* The ring for arrivals and the stage for departures, in one region. */
static bool make_memory(hk_link *link)
{
    const hki_port *port = link->lane[link->home].port;
    void *memory;
    link->region = register_pages(port, ring_memory(link->transport), &memory);
    if (link->region == NULL)
        return fail(link, port, "cannot register memory for a ring (see ulimit -l)", errno);
    link->memory = memory;
    link->memory_bytes = ring_memory(link->transport);
    return true;
}

hk_status hki_verbs_try_memory(hk_transport *transport)
{
    const hk_transport_services *services = transport->services;
    const hki_port *port = &transport->port[0];
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    char most[32] = "unlimited";
    void *memory;
    struct ibv_mr *region = register_pages(port, ring_memory(transport), &memory);
    if (region != NULL) {
        transport->library->dereg_mr(region);
        munmap(memory, ring_memory(transport));
        return HK_OK;
    }
    int error = errno;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(most, sizeof most, "%llu KiB", (unsigned long long)limit.rlim_cur / 1024);
    services->error(services->core, HK_ERR_TRANSPORT,
                    "verbs: rank %d on %s, device %s port %u: %zu KiB of memory for one peer cannot be registered: %s "
                    "(limit of locked memory, ulimit -l: %s)",
                    (int)services->self->rank, services->self->host_name, port->device, port->number,
                    ring_memory(transport) / 1024, strerror(error), most);
    return HK_ERR_TRANSPORT;
}

/* `context` comes back with asynchronous events. *inline_bytes: wanted, then possible. */
static struct ibv_qp *make_queue(hki_lane *lane, void *context, uint32_t sends, uint32_t receives,
                                 uint32_t *inline_bytes)
{
    hk_transport *transport = lane->link->transport;
    struct ibv_qp *queue = NULL;
    for (uint32_t bytes = *inline_bytes;; bytes /= 2) {
        struct ibv_qp_init_attr attributes = {.qp_context = context,
                                              .send_cq = lane->cq,
                                              .recv_cq = lane->cq,
                                              .cap = {.max_send_wr = sends,
                                                      .max_recv_wr = receives,
                                                      .max_send_sge = 2,
                                                      .max_recv_sge = 1,
                                                      .max_inline_data = bytes},
                                              .qp_type = IBV_QPT_RC};
        queue = transport->library->create_qp(lane->port->pd, &attributes);
        if (queue != NULL || bytes == 0) {
            *inline_bytes =
                queue != NULL && attributes.cap.max_inline_data < bytes ? attributes.cap.max_inline_data : bytes;
            return queue;
        }
    }
}

static int initialise(const hki_lane *lane, struct ibv_qp *queue)
{
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT,
                                     .port_num = lane->port->number,
                                     .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    return lane->link->transport->library->modify_qp(
        queue, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static bool make_lane(hki_lane *lane, bool home)
{
    hk_link *link = lane->link;
    const hki_verbs_library *library = link->transport->library;
    int receives = HKI_VERBS_FRAMES + HKI_VERBS_RESERVE;
    int most = 2 * HKI_VERBS_BULK_SENDS + 1 + (home ? receives + HKI_VERBS_SENDS : 0);
    uint32_t none = 0;
    lane->cq = library->create_cq(lane->port->context, most, lane, lane->port->channel, 0);
    if (lane->cq == NULL)
        return fail(link, lane->port, "cannot make a completion queue", errno);
    if (home) {
        link->inline_bytes = HKI_VERBS_INLINE;
        link->frames = make_queue(lane, link, HKI_VERBS_SENDS, (uint32_t)receives, &link->inline_bytes);
        if (link->frames == NULL)
            return fail(link, lane->port, "cannot make a queue pair", errno);
    }
    lane->bulk = make_queue(lane, NULL, HKI_VERBS_BULK_SENDS + 1, HKI_VERBS_BULK_SENDS, &none);
    if (lane->bulk == NULL)
        return fail(link, lane->port, "cannot make a queue pair", errno);
    int error = initialise(lane, lane->bulk);
    if (error == 0 && home)
        error = initialise(lane, link->frames);
    if (error != 0)
        return fail(link, lane->port, "cannot prepare a queue pair", error);
    return hki_verbs_bulk_receive(lane) || fail(link, lane->port, "takes no receives", errno);
}

/* Receives hold no memory: each lets one write with an immediate in. */
static bool post_receives(struct ibv_qp *queue, uint32_t count)
{
    struct ibv_recv_wr receive = {0}, *bad;
    for (uint32_t i = 0; i < count; i++) {
        if (ibv_post_recv(queue, &receive, &bad) != 0)
            return false;
    }
    return true;
}

/* With packet sequence numbers chosen at random. */
static hki_link_end describe_end(const hk_link *link)
{
    hki_link_end end = {
        .ring = (uintptr_t)link->memory, .ring_key = link->region->rkey, .ring_units = link->transport->ring_units};
    for (uint32_t i = 0; i < link->lane_count; i++)
        end.lane[i] = (hki_lane_end){.frames_number = i == link->home ? link->frames->qp_num : 0,
                                     .frames_psn = random_psn(),
                                     .bulk_number = link->lane[i].bulk->qp_num,
                                     .bulk_psn = random_psn(),
                                     .rd_atomic = link->lane[i].port->rd_atomic};
    return end;
}

bool hki_verbs_make(hk_link *link)
{
    hk_transport *transport = link->transport;
    for (uint32_t i = 0; i < link->lane_count; i++) {
        link->lane[i] = (hki_lane){.link = link, .port = &transport->port[i]};
        if (!make_lane(&link->lane[i], i == link->home))
            return false;
    }
    if (!make_memory(link))
        return false;
    if (!post_receives(link->frames, HKI_VERBS_FRAMES + HKI_VERBS_RESERVE))
        return fail(link, link->lane[link->home].port, "takes no receives", errno);
    link->near = describe_end(link);
    return true;
}

/* ---- joining ---- */

void hki_verbs_route(const hki_port *from, const hki_port_address *to, struct ibv_ah_attr *route)
{
    static const union ibv_gid none;
    bool other_subnet = memcmp(&from->gid, &none, sizeof none) != 0 && memcmp(&to->gid, &none, sizeof none) != 0 &&
                        memcmp(from->gid.raw, to->gid.raw, 8) != 0;
    *route = (struct ibv_ah_attr){.port_num = from->number, .dlid = to->lid};
    if (!from->ethernet && to->lid != 0 && !other_subnet)
        return;
    route->is_global = 1;
    route->grh = (struct ibv_global_route){.dgid = to->gid, .sgid_index = (uint8_t)from->gid_index, .hop_limit = 64};
}

static int join(const hki_lane *lane, struct ibv_qp *queue, uint32_t number, uint32_t psn, uint32_t own_psn)
{
    const hk_link *link = lane->link;
    const hki_verbs_library *library = link->transport->library;
    uint32_t at = (uint32_t)(lane - link->lane);
    uint32_t reads =
        link->far.lane[at].rd_atomic < lane->port->rd_atomic ? link->far.lane[at].rd_atomic : lane->port->rd_atomic;
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RTR,
                                     .path_mtu = (enum ibv_mtu)link->address[at].mtu < lane->port->mtu
                                                     ? (enum ibv_mtu)link->address[at].mtu
                                                     : lane->port->mtu,
                                     .dest_qp_num = number,
                                     .rq_psn = psn,
                                     .max_dest_rd_atomic = (uint8_t)reads,
                                     .min_rnr_timer = RECEIVER_NOT_READY_TIMER};
    hki_verbs_route(lane->port, &link->address[at], &attributes.ah_attr);
    int error = library->modify_qp(queue, &attributes,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (error != 0)
        return error;
    attributes = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                                      .timeout = TIMEOUT,
                                      .retry_cnt = RETRIES,
                                      .rnr_retry = RECEIVER_NOT_READY_RETRIES,
                                      .sq_psn = own_psn,
                                      .max_rd_atomic = (uint8_t)reads};
    return library->modify_qp(queue, &attributes,
                              IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                  IBV_QP_MAX_QP_RD_ATOMIC);
}

bool hki_verbs_join(hk_link *link)
{
    for (uint32_t i = 0; i < link->lane_count; i++) {
        const hki_lane *lane = &link->lane[i];
        const hki_lane_end *far = &link->far.lane[i], *near = &link->near.lane[i];
        int error = join(lane, lane->bulk, far->bulk_number, far->bulk_psn, near->bulk_psn);
        if (error == 0 && i == link->home)
            error = join(lane, link->frames, far->frames_number, far->frames_psn, near->frames_psn);
        if (error != 0)
            return fail(link, lane->port, "cannot join the peer's queue pair", error);
    }
    return true;
}

/* ---- ending ---- */

void hki_verbs_drop_queues(hk_link *link)
{
    const hki_verbs_library *library = link->transport->library;
    if (link->frames != NULL)
        library->destroy_qp(link->frames);
    link->frames = NULL;
    for (uint32_t i = 0; i < link->lane_count; i++) {
        hki_lane *lane = &link->lane[i];
        if (lane->bulk != NULL)
            library->destroy_qp(lane->bulk);
        if (lane->cq != NULL)
            library->destroy_cq(lane->cq);
        lane->bulk = NULL;
        lane->cq = NULL;
    }
}

void hki_verbs_drop_memory(hk_link *link)
{
    if (link->region != NULL)
        link->transport->library->dereg_mr(link->region);
    if (link->memory != NULL)
        munmap(link->memory, link->memory_bytes);
    link->region = NULL;
    link->memory = NULL;
}

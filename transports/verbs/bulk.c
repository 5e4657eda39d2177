/*
 * Large messages: puts and gets, over queue pairs of their own. A key that a peer has withdrawn breaks the queue pair
 * that uses it; frames go on over theirs, and large messages with them.
 */
#include "verbs.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

enum {
    WRITE_BYTES = 4 << 20,   /* of one work request: several make a pipeline of the adapter's and the wire */
    STRIPE_BYTES = 64 << 10, /* a lane's share is no smaller; both guessed */
    RECEIVES_AT_ONCE = 8,
    FLUSH_MS = 200,     /* hardware flushes in microseconds; what has not come by then, and after so many … */
    FLUSH_LOOKS = 1000, /* … looks, since this process may have no core for long, never will; both guessed */
    SIGNAL = 16,
    TURNS_BEFORE_YIELD = 64
};

/* ---- posting ---- */

static bool full(const hki_lane *lane)
{
    return lane->bulk_posted - lane->bulk_done >= HKI_VERBS_BULK_SENDS;
}

static bool idle(const hki_lane *lane)
{
    return lane->bulk_posted == lane->bulk_done;
}

/* Something is wrong with a bulk queue: all are given up, when what has completed has been taken. */
static void give_up(hk_link *link)
{
    link->bulk_failing = true;
}

static bool post(hki_lane *lane, struct ibv_send_wr *request, bool signal)
{
    struct ibv_send_wr *bad;
    signal |= lane->bulk_posted + 1 - lane->bulk_signalled >= SIGNAL;
    request->wr_id = (uint64_t)HKI_OF_BULK << 32 | (uint32_t)(lane->bulk_posted + 1);
    request->send_flags |= signal ? (unsigned)IBV_SEND_SIGNALED : 0;
    int error = ibv_post_send(lane->bulk, request, &bad);
    if (error == ENOMEM && !idle(lane))
        return false;
    if (error != 0) {
        give_up(lane->link);
        return false;
    }
    lane->bulk_posted++;
    if (signal)
        lane->bulk_signalled = lane->bulk_posted;
    lane->link->transport->counts.work_requests++;
    return true;
}

static uint32_t remote_key(const hk_remote *remote, uint32_t lane)
{
    return (uint32_t)(remote->word[lane < 2 ? 1 : 3] >> (lane % 2 * 32));
}

static uint64_t piece(const hki_lane *lane, uint64_t left)
{
    uint64_t most = lane->port->longest != 0 && lane->port->longest < WRITE_BYTES ? lane->port->longest : WRITE_BYTES;
    return left < most ? left : most;
}

/* ---- puts ---- */

/* Cuts the message into a share for each lane, on page boundaries of the source. */
static void cut(const hk_link *link, hki_put *put, size_t bytes)
{
    uint64_t lanes = bytes / STRIPE_BYTES < link->lane_count ? bytes / STRIPE_BYTES : link->lane_count;
    lanes = lanes > 0 ? lanes : 1;
    uint64_t share = ((bytes / lanes) + 4095) & ~UINT64_C(4095), at = 0;
    for (uint32_t i = 0; i < lanes; i++) {
        /* A message that one lane carries takes the home lane; several share from there on. */
        uint32_t lane = (link->home + i) % link->lane_count;
        put->at[lane] = at;
        put->end[lane] = i + 1 < lanes && at + share < bytes ? at + share : bytes;
        at = put->end[lane];
        put->lanes |= put->end[lane] > put->at[lane] ? 1u << lane : 0;
    }
}

/* Posts what there is room for of one lane's share; true when all of it is posted. */
static bool post_share(hki_lane *lane, hki_put *put, uint32_t number)
{
    hk_link *link = lane->link;
    uint32_t index = (uint32_t)(lane - link->lane);
    if (put->region->key[index] == NULL) { /* its keys were revoked, and it could not be registered again */
        give_up(link);
        return false;
    }
    while (put->at[index] < put->end[index]) {
        uint64_t left = put->end[index] - put->at[index], bytes = piece(lane, left);
        bool last = bytes == left;
        struct ibv_sge source = {(uintptr_t)put->source + put->at[index], (uint32_t)bytes,
                                 put->region->key[index]->lkey};
        struct ibv_send_wr request = {
            .sg_list = &source,
            .num_sge = 1,
            .opcode = last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
            .imm_data = htobe32(number),
            .wr.rdma = {.remote_addr = put->place + put->at[index], .rkey = remote_key(&put->remote, index)}};
        if (full(lane) || !post(lane, &request, last))
            return false;
        put->at[index] += bytes;
        put->last[index] = lane->bulk_posted;
        link->transport->counts.bytes_written += bytes;
        link->transport->counts.put_bytes += bytes;
    }
    return true;
}

static void post_puts(hk_link *link)
{
    while (link->puts_posted < link->puts_taken) {
        uint64_t number = link->puts_posted + 1;
        hki_put *put = &link->put[number % HKI_VERBS_PUTS];
        bool all = true;
        for (uint32_t i = 0; i < link->lane_count && !link->bulk_failing; i++) {
            if (put->lanes & 1u << i)
                all &= post_share(&link->lane[i], put, (uint32_t)number);
        }
        if (!all || link->bulk_failing)
            return;
        link->puts_posted = number;
    }
}

static bool written(const hk_link *link, const hki_put *put)
{
    for (uint32_t i = 0; i < link->lane_count; i++) {
        if ((put->lanes & 1u << i) && (int32_t)(link->lane[i].bulk_done - put->last[i]) < 0)
            return false;
    }
    return true;
}

/* Those whose data have arrived: their frames follow. */
static void end_puts(hk_link *link)
{
    while (link->puts_done < link->puts_posted) {
        uint64_t number = link->puts_done + 1;
        hki_put *put = &link->put[number % HKI_VERBS_PUTS];
        if (!written(link, put) || !hki_verbs_send_put_frame(link, &put->frame, (uint32_t)number, put->lanes))
            return;
        hki_region_drop(link->transport, put->region);
        put->region = NULL;
        link->puts_done = number;
        link->put_news = true;
        link->transport->counts.puts++;
    }
}

void hki_verbs_bulk_drop(hk_link *link)
{
    for (uint64_t number = link->puts_done + 1; number <= link->puts_taken; number++) {
        hki_put *put = &link->put[number % HKI_VERBS_PUTS];
        if (put->region != NULL)
            hki_region_drop(link->transport, put->region);
        put->region = NULL;
        link->put_news = true;
        link->transport->counts.puts_refused++;
    }
}

/* The last request of a queue that has failed: it is flushed behind all others, which may complete late. False: it
 * cannot be posted, so nobody can tell when they have. */
static bool post_last(hki_lane *lane)
{
    struct ibv_send_wr request = {
        .wr_id = (uint64_t)HKI_OF_BULK_END << 32, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    return ibv_post_send(lane->bulk, &request, &bad) == 0;
}

static bool ended(const hk_link *link)
{
    for (uint32_t i = 0; i < link->lane_count; i++) {
        const hki_lane *lane = &link->lane[i];
        if (lane->bulk != NULL && (!lane->ended || lane->receives_out > 0))
            return false;
    }
    return true;
}

void hki_verbs_bulk_end(hk_link *link)
{
    const hk_transport *transport = link->transport;
    const hk_transport_services *services = transport->services;
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    uint64_t deadline = services->now(services->core) + FLUSH_MS * UINT64_C(1000000);
    link->bulk_failing = true; /* no receive is posted again */
    for (uint32_t i = 0; i < link->lane_count; i++) {
        hki_lane *lane = &link->lane[i];
        lane->ended = lane->bulk == NULL || transport->library->modify_qp(lane->bulk, &error, IBV_QP_STATE) != 0 ||
                      !post_last(lane);
    }
    for (int look = 0; look < FLUSH_LOOKS || services->now(services->core) < deadline; look++) {
        for (uint32_t i = 0; i < link->lane_count; i++)
            hki_verbs_take_completions(&link->lane[i]);
        if (ended(link))
            break;
        sched_yield();
    }
    for (uint32_t i = 0; i < link->lane_count; i++) {
        hki_lane *lane = &link->lane[i];
        if (lane->bulk != NULL)
            transport->library->destroy_qp(lane->bulk);
        lane->bulk = NULL;
    }
    link->bulk_failing = false;
}

/* Large messages are given up. The frames of those that the peer has written before will come. */
static void give_up_now(hk_link *link)
{
    const hk_transport *transport = link->transport;
    hki_verbs_bulk_end(link);
    end_puts(link);
    hki_verbs_bulk_drop(link);
    link->bulk_broken = link->bulk_untold = true;
    transport->services->log(transport->services->core, HK_LOG_INFO,
                             "verbs: large messages to and from rank %d on %s go by pieces from now on: memory was "
                             "withdrawn after a failure, or the queue pair for them has failed",
                             (int)link->peer.rank, link->peer.host_name);
}

void hki_verbs_bulk_progress(hk_link *link)
{
    if (link->puts_done < link->puts_taken && !link->bulk_broken) {
        post_puts(link);
        end_puts(link);
    }
    if (HKI_UNLIKELY(link->bulk_failing))
        give_up_now(link);
    if (HKI_UNLIKELY(link->bulk_untold))
        link->bulk_untold = !hki_verbs_tell_bulk_broken(link);
}

static bool has_room(const hk_link *link)
{
    return link->state == HK_LINK_UP && link->puts_taken - link->puts_done < HKI_VERBS_PUTS && hki_verbs_put_fits(link);
}

hk_transport_result hki_verbs_put(hk_link *link, const hk_remote *remote, uint64_t offset, const void *source,
                                  size_t bytes, const hk_frame *frame)
{
    if (link->state > HK_LINK_UP)
        return HK_TRANSPORT_LOST;
    if (link->bulk_broken || bytes == 0)
        return HK_TRANSPORT_REFUSED;
    if (!has_room(link))
        hki_verbs_progress(link);
    if (link->state > HK_LINK_UP)
        return HK_TRANSPORT_LOST;
    if (!has_room(link)) {
        link->starved = true; /* or one of those under way ends: both are news */
        return HK_TRANSPORT_AGAIN;
    }
    if (link->bulk_broken)
        return HK_TRANSPORT_REFUSED;
    hki_region *region = hki_region_for(link->transport, source, bytes);
    if (region == NULL)
        return HK_TRANSPORT_REFUSED;
    hki_put *put = &link->put[++link->puts_taken % HKI_VERBS_PUTS];
    *put = (hki_put){
        .frame = *frame, .remote = *remote, .region = region, .source = source, .place = remote->word[0] + offset};
    cut(link, put, bytes);
    hki_verbs_bulk_progress(link);
    return HK_TRANSPORT_OK;
}

hk_transport_result hki_verbs_put_result(hk_link *link, uint64_t number)
{
    link->put_news = false;
    if (number > link->puts_done && link->state == HK_LINK_UP)
        hki_verbs_progress(link);
    if (number <= link->puts_done)
        return HK_TRANSPORT_OK;
    if (link->state > HK_LINK_UP)
        return HK_TRANSPORT_LOST;
    if (link->bulk_broken)
        return HK_TRANSPORT_REFUSED;
    if (++link->asked % TURNS_BEFORE_YIELD == 0) /* perhaps somebody waits for nothing else */
        hki_verbs_look(link);
    return HK_TRANSPORT_AGAIN;
}

/* ---- completions ---- */

bool hki_verbs_bulk_receive(hki_lane *lane)
{
    struct ibv_recv_wr receive = {.wr_id = (uint64_t)HKI_OF_BULK_RECEIVE << 32}, *bad;
    for (int i = 0; i < HKI_VERBS_BULK_SENDS; i++) {
        if (ibv_post_recv(lane->bulk, &receive, &bad) != 0)
            return false;
        lane->receives_out++;
    }
    return true;
}

static void put_came(hki_lane *lane, const struct ibv_wc *completion)
{
    struct ibv_recv_wr receive = {.wr_id = (uint64_t)HKI_OF_BULK_RECEIVE << 32}, *bad;
    lane->put_arrived = be32toh(completion->imm_data);
    if (++lane->receives_due < RECEIVES_AT_ONCE || lane->link->bulk_failing)
        return;
    for (; lane->receives_due > 0; lane->receives_due--, lane->receives_out++) {
        if (ibv_post_recv(lane->bulk, &receive, &bad) != 0) {
            give_up(lane->link);
            return;
        }
    }
}

void hki_verbs_bulk_completed(hki_lane *lane, const struct ibv_wc *completion)
{
    hk_link *link = lane->link;
    if (lane->bulk == NULL)
        return; /* of one that has been destroyed */
    uint64_t kind = completion->wr_id >> 32;
    link->heard = true;
    lane->ended |= kind == HKI_OF_BULK_END;
    lane->receives_out -= kind == HKI_OF_BULK_RECEIVE;
    if (completion->status != IBV_WC_SUCCESS)
        give_up(link);
    else if (kind == HKI_OF_BULK_RECEIVE)
        put_came(lane, completion);
    else
        lane->bulk_done = (uint32_t)completion->wr_id;
}

/* ---- gets ---- */

/* Reads bytes into registered memory; blocks until they are there. */
static hk_transport_result read_piece(hki_lane *lane, const hk_remote *remote, uint64_t place, char *to, uint32_t bytes,
                                      uint32_t key)
{
    hk_link *link = lane->link;
    uint32_t index = (uint32_t)(lane - link->lane);
    struct ibv_sge destination = {(uintptr_t)to, bytes, key};
    struct ibv_send_wr request = {.sg_list = &destination,
                                  .num_sge = 1,
                                  .opcode = IBV_WR_RDMA_READ,
                                  .wr.rdma = {.remote_addr = place, .rkey = remote_key(remote, index)}};
    bool posted = false;
    for (uint32_t number = 0, turn = 1;; turn++) {
        if (!posted && !link->bulk_broken && !full(lane)) {
            posted = post(lane, &request, true);
            number = lane->bulk_posted;
        }
        hki_verbs_progress(link);
        if (link->state > HK_LINK_UP)
            return HK_TRANSPORT_LOST;
        if (posted && (int32_t)(lane->bulk_done - number) >= 0)
            return HK_TRANSPORT_OK;
        if (link->bulk_broken)
            return HK_TRANSPORT_REFUSED;
        if (turn % TURNS_BEFORE_YIELD == 0) {
            hki_verbs_look(link);
            sched_yield();
        }
    }
}

hk_transport_result hki_verbs_get(hk_link *link, const hk_remote *remote, uint64_t offset, void *destination,
                                  size_t bytes)
{
    hk_transport *transport = link->transport;
    hki_lane *lane = &link->lane[link->home];
    hki_region *region = hki_region_kept(transport, destination, bytes), *bounce = transport->bounce;
    char *to = destination;
    if (link->state != HK_LINK_UP)
        return link->state > HK_LINK_UP ? HK_TRANSPORT_LOST : HK_TRANSPORT_AGAIN;
    if (link->bulk_broken || (region == NULL && bounce == NULL))
        return HK_TRANSPORT_REFUSED;
    for (size_t done = 0, step; done < bytes; done += step) {
        step = (size_t)piece(lane, bytes - done);
        if (region == NULL && step > bounce->bytes)
            step = bounce->bytes;
        char *where = region != NULL ? to + done : bounce->memory;
        uint32_t key = (region != NULL ? region : bounce)->key[link->home]->lkey;
        hk_transport_result result =
            read_piece(lane, remote, remote->word[0] + offset + done, where, (uint32_t)step, key);
        if (result != HK_TRANSPORT_OK)
            return result;
        if (region == NULL) {
            memcpy(to + done, where, step);
            transport->counts.bytes_copied += step;
        }
    }
    transport->counts.gets++;
    transport->counts.get_bytes += bytes;
    return HK_TRANSPORT_OK;
}

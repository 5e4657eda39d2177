/* What hardware does: requests carried out, completions, failures. All of it under the fabric's lock. */
#include "fabric.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

fake_qp *fake_queues;
fake_context *fake_contexts;

void fake_complete(uint32_t cq, const struct ibv_wc *entry)
{
    fabric_cq *queue = &fake_fabric()->cq[cq];
    if (!queue->used)
        return;
    if (queue->tail - queue->head == ENTRIES)
        abort(); /* an overrun: the queue was made too short */
    queue->entry[queue->tail++ % ENTRIES] = *entry;
    if (!queue->armed)
        return;
    queue->armed = false;
    fake_ring(queue->pid, queue->channel, &queue->handle, sizeof queue->handle);
}

static fabric_qp *find_queue(uint32_t number)
{
    for (int i = 0; i < QPS; i++) {
        fabric_qp *queue = &fake_fabric()->qp[i];
        if (queue->used && queue->number == number)
            return queue;
    }
    return NULL;
}

static bool reaches(pid_t pid, uint32_t key, uint64_t address, uint64_t bytes, int access)
{
    for (int i = 0; i < REGIONS; i++) {
        const fabric_region *region = &fake_fabric()->region[i];
        if (region->used && region->key == key && region->pid == pid)
            return address >= region->address && bytes <= region->bytes &&
                   address - region->address <= region->bytes - bytes && (region->access & access) == access;
    }
    return false;
}

/* Whether a route leads to a place: by LID within an InfiniBand subnet, else by GID. Counts those that do not. */
static bool leads(const fabric_place *from, const fabric_place *route, const fabric_place *to)
{
    bool same_subnet = memcmp(from->gid.raw, to->gid.raw, 8) == 0;
    bool right = from->infiniband == to->infiniband;
    if (from->infiniband && (same_subnet || !route->global))
        right &= same_subnet && route->lid == to->lid;
    else
        right &= route->global && memcmp(&route->gid, &to->gid, sizeof to->gid) == 0;
    if (!right)
        atomic_fetch_add(&fake_fabric()->faults.astray, 1);
    return right;
}

/* ---- failures ---- */

static void flush_receives(fabric_qp *queue)
{
    for (; queue->head != queue->tail; queue->head++) {
        struct ibv_wc entry = {.wr_id = queue->receive[queue->head % RECEIVES].wr_id,
                               .status = IBV_WC_WR_FLUSH_ERR,
                               .qp_num = queue->number};
        fake_complete(queue->recv_cq, &entry);
    }
}

void fake_break(fabric_qp *queue)
{
    if (queue->state == IBV_QPS_ERR)
        return;
    queue->state = IBV_QPS_ERR;
    flush_receives(queue);
}

static void end(fake_qp *queue, enum ibv_wc_status status)
{
    static const enum ibv_wc_opcode opcodes[] = {[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
                                                 [IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
                                                 [IBV_WR_SEND] = IBV_WC_SEND,
                                                 [IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
                                                 [IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ};
    fabric_qp *shared = &fake_fabric()->qp[queue->index];
    fake_request *request = queue->first;
    queue->first = request->next;
    queue->waiting--;
    struct ibv_wc entry = {
        .wr_id = request->wr.wr_id, .status = status, .opcode = opcodes[request->wr.opcode], .qp_num = shared->number};
    if (status != IBV_WC_SUCCESS || queue->signals_all || (request->wr.send_flags & IBV_SEND_SIGNALED))
        fake_complete(shared->send_cq, &entry);
    free(request);
    if (status != IBV_WC_SUCCESS)
        fake_break(shared);
}

void fake_flush(fake_qp *queue)
{
    while (queue->first != NULL)
        end(queue, IBV_WC_WR_FLUSH_ERR);
}

void fake_break_slowly(fake_qp *queue, uint32_t polls)
{
    fabric_qp *own = &fake_fabric()->qp[queue->index];
    if (own->state == IBV_QPS_ERR)
        return;
    own->state = IBV_QPS_ERR;
    queue->flush_in = polls;
}

void fake_poll_passed(fake_qp *queue)
{
    if (queue->flush_in == 0 || --queue->flush_in > 0)
        return;
    flush_receives(&fake_fabric()->qp[queue->index]);
    fake_flush(queue);
}

/* ---- carrying out ---- */

static size_t length(const fake_request *request)
{
    size_t bytes = 0;
    for (int i = 0; i < request->wr.num_sge; i++)
        bytes += request->piece[i].length;
    return bytes;
}

static bool keys_fit(const fake_request *request, int access)
{
    for (int i = 0; i < request->wr.num_sge; i++) {
        const struct ibv_sge *piece = &request->piece[i];
        if (!(request->wr.send_flags & IBV_SEND_INLINE) && piece->length > 0 &&
            !reaches(getpid(), piece->lkey, piece->addr, piece->length, access))
            return false;
    }
    return true;
}

static bool write_pieces(const fake_request *request, pid_t pid, uint64_t to)
{
    for (int i = 0; i < request->wr.num_sge; i++) {
        const struct ibv_sge *piece = &request->piece[i];
        if (!fake_copy(pid, to, (const void *)(uintptr_t)piece->addr, piece->length))
            return false;
        to += piece->length;
    }
    return true;
}

static bool read_pieces(const fake_request *request, pid_t pid, uint64_t from)
{
    for (int i = 0; i < request->wr.num_sge; i++) {
        const struct ibv_sge *piece = &request->piece[i];
        if (!fake_fetch(pid, (void *)(uintptr_t)piece->addr, from, piece->length))
            return false;
        from += piece->length;
    }
    return true;
}

static void receive(fabric_qp *peer, const fake_request *request, size_t bytes)
{
    const fabric_receive *slot = &peer->receive[peer->head++ % RECEIVES];
    struct ibv_wc entry = {.wr_id = slot->wr_id,
                           .status = IBV_WC_SUCCESS,
                           .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
                           .byte_len = (uint32_t)bytes,
                           .imm_data = request->wr.imm_data,
                           .qp_num = peer->number,
                           .wc_flags = IBV_WC_WITH_IMM};
    fake_complete(peer->recv_cq, &entry);
}

/* Whether a test wants this one to fail. */
static bool doomed(const fake_request *request)
{
    fake_faults *faults = &fake_fabric()->faults;
    if (atomic_load(&faults->fail_in) == 0 || (int)request->wr.opcode != atomic_load(&faults->fail_opcode))
        return false;
    return atomic_fetch_sub(&faults->fail_in, 1) == 1;
}

/* False: it has to wait for a receive of the peer. */
static bool carry_out(fake_qp *queue)
{
    fabric_qp *own = &fake_fabric()->qp[queue->index], *peer = find_queue(own->peer);
    fake_faults *faults = &fake_fabric()->faults;
    fake_request *request = queue->first;
    size_t bytes = length(request);
    bool reads = request->wr.opcode == IBV_WR_RDMA_READ, immediate = request->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    atomic_fetch_add(&faults->sends, 1);
    if (doomed(request)) {
        end(queue, (enum ibv_wc_status)atomic_load(&faults->fail_status));
    } else if (peer == NULL || !leads(&own->place, &own->route, &peer->place) ||
               (peer->state != IBV_QPS_RTR && peer->state != IBV_QPS_RTS)) {
        end(queue, IBV_WC_RETRY_EXC_ERR);
    } else if (!keys_fit(request, reads ? IBV_ACCESS_LOCAL_WRITE : 0)) {
        end(queue, IBV_WC_LOC_PROT_ERR);
    } else if (bytes > 0 && !reaches(peer->pid, request->wr.wr.rdma.rkey, request->wr.wr.rdma.remote_addr, bytes,
                                     reads ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE)) {
        fake_break(peer);
        end(queue, IBV_WC_REM_ACCESS_ERR);
    } else if (immediate && peer->head == peer->tail) {
        atomic_fetch_add(&faults->not_ready, 1);
        return false;
    } else if (!(reads ? read_pieces : write_pieces)(request, peer->pid, request->wr.wr.rdma.remote_addr)) {
        end(queue, IBV_WC_RETRY_EXC_ERR); /* its process has ended */
    } else {
        if (immediate)
            receive(peer, request, bytes);
        end(queue, IBV_WC_SUCCESS);
    }
    return true;
}

static void send_datagram(fake_qp *queue)
{
    fake_request *request = queue->first;
    fake_faults *faults = &fake_fabric()->faults;
    fabric_qp *peer = find_queue(request->wr.wr.ud.remote_qpn);
    size_t bytes = length(request);
    bool passes = atomic_load(&faults->pass_datagrams) > 0;
    bool lost = !passes && atomic_load(&faults->drop_datagrams) > 0;
    atomic_fetch_add(&faults->datagrams, 1);
    if (passes)
        atomic_fetch_sub(&faults->pass_datagrams, 1);
    if (lost)
        atomic_fetch_sub(&faults->drop_datagrams, 1);
    const fabric_place *place = &fake_fabric()->qp[queue->index].place;
    if (!lost && peer != NULL && peer->datagrams && leads(place, &request->route, &peer->place) &&
        peer->key == request->wr.wr.ud.remote_qkey && peer->state == IBV_QPS_RTS && peer->head != peer->tail) {
        const fabric_receive *slot = &peer->receive[peer->head % RECEIVES];
        struct ibv_wc entry = {.wr_id = slot->wr_id,
                               .opcode = IBV_WC_RECV,
                               .byte_len = (uint32_t)(ROUTE_BYTES + bytes),
                               .qp_num = peer->number,
                               .wc_flags = IBV_WC_GRH};
        if (slot->bytes >= entry.byte_len && write_pieces(request, peer->pid, slot->address + ROUTE_BYTES)) {
            peer->head++;
            fake_complete(peer->recv_cq, &entry);
        }
    }
    end(queue, IBV_WC_SUCCESS);
}

void fake_run(fake_qp *queue, uint32_t most)
{
    const fabric_qp *own = &fake_fabric()->qp[queue->index];
    for (uint32_t i = 0; i < most && queue->first != NULL && queue->flush_in == 0; i++) {
        if (own->state == IBV_QPS_ERR)
            fake_flush(queue);
        else if (own->datagrams)
            send_datagram(queue);
        else if (!carry_out(queue))
            return;
    }
}

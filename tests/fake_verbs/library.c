/* The functions of libibverbs that the transport calls. */
#include "fabric.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#pragma GCC visibility push(default)
#undef ibv_reg_mr
#undef ibv_query_port

/* ---- contexts ---- */

int fake_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                         struct ibv_device_attr_ex *attributes, size_t bytes);
static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *entries);
static int req_notify_cq(struct ibv_cq *cq, int solicited);

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    fake_context *made = calloc(1, sizeof *made);
    if (made == NULL)
        return NULL;
    struct ibv_context *context = &made->extended.context;
    fake_lock();
    made->number = fake_number();
    made->next = fake_contexts;
    fake_contexts = made;
    fake_unlock();
    context->device = device;
    context->async_fd = fake_fifo(made->number, made->path);
    context->ops.post_send = post_send;
    context->ops.post_recv = post_recv;
    context->ops.poll_cq = poll_cq;
    context->ops.req_notify_cq = req_notify_cq;
    if (fake_device_of(context)->odp) {
        made->extended.sz = sizeof made->extended;
        made->extended.query_device_ex = fake_query_device_ex;
        context->abi_compat = __VERBS_ABI_IS_EXTENDED;
    }
    return context;
}

int ibv_close_device(struct ibv_context *context)
{
    fake_context *own = fake_context_of(context);
    fake_lock();
    for (fake_context **at = &fake_contexts; *at != NULL; at = &(*at)->next) {
        if (*at == own) {
            *at = own->next;
            break;
        }
    }
    fake_unlock();
    close(context->async_fd);
    unlink(own->path);
    free(own);
    return 0;
}

/* ---- memory ---- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = calloc(1, sizeof *pd);
    if (pd != NULL)
        pd->context = context;
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    free(pd);
    return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t bytes, int access)
{
    fabric *own = fake_fabric();
    struct ibv_mr *region = calloc(1, sizeof *region);
    const fake_device *device = fake_device_of(pd->context);
    bool on_demand = (access & IBV_ACCESS_ON_DEMAND) != 0;
    if (on_demand && !device->odp) {
        free(region);
        errno = EOPNOTSUPP;
        return NULL;
    }
    fake_spin(device->registration + (on_demand ? 0 : (uint64_t)bytes / 4096 * device->page));
    fake_lock();
    size_t at = fake_slot(own->region, REGIONS, sizeof *own->region, offsetof(fabric_region, used),
                          offsetof(fabric_region, pid));
    bool refused = atomic_load(&own->faults.refuse_registrations) > 0;
    if (refused)
        atomic_fetch_sub(&own->faults.refuse_registrations, 1);
    if (region == NULL || at == SIZE_MAX || refused) {
        fake_unlock();
        free(region);
        errno = ENOMEM;
        return NULL;
    }
    uint32_t key = fake_number();
    own->region[at] = (fabric_region){true, getpid(), key, (uintptr_t)address, bytes, access};
    *region = (struct ibv_mr){pd->context, pd, address, bytes, (uint32_t)at, key, key};
    atomic_fetch_add(&own->faults.regions, 1);
    atomic_fetch_add(&own->faults.on_demand, on_demand);
    fake_unlock();
    return region;
}

int ibv_dereg_mr(struct ibv_mr *region)
{
    fake_lock();
    fake_fabric()->region[region->handle].used = false;
    atomic_fetch_sub(&fake_fabric()->faults.regions, 1);
    fake_unlock();
    free(region);
    return 0;
}

/* ---- completion queues ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    fake_channel *made = calloc(1, sizeof *made);
    if (made == NULL)
        return NULL;
    fake_lock();
    made->number = fake_number();
    fake_unlock();
    made->channel.context = context;
    made->channel.fd = fake_fifo(made->number, made->path);
    return &made->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    fake_channel *own = (fake_channel *)(void *)channel;
    close(channel->fd);
    unlink(own->path);
    free(own);
    return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *cq_context,
                             struct ibv_comp_channel *channel, int vector)
{
    fabric *shared = fake_fabric();
    fake_cq *made = calloc(1, sizeof *made);
    (void)vector;
    fake_lock();
    size_t at = fake_slot(shared->cq, CQS, sizeof *shared->cq, offsetof(fabric_cq, used), offsetof(fabric_cq, pid));
    if (made == NULL || at == SIZE_MAX || entries > ENTRIES) {
        fake_unlock();
        free(made);
        errno = ENOMEM;
        return NULL;
    }
    fabric_cq *queue = &shared->cq[at];
    queue->used = true;
    queue->armed = false;
    queue->pid = getpid();
    queue->channel = ((fake_channel *)(void *)channel)->number;
    queue->handle = (uintptr_t)&made->cq;
    queue->head = queue->tail = 0;
    fake_unlock();
    made->cq = (struct ibv_cq){.context = context, .channel = channel, .cq_context = cq_context, .cqe = entries};
    made->index = (uint32_t)at;
    return &made->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    fake_lock();
    fake_fabric()->cq[((fake_cq *)(void *)cq)->index].used = false;
    fake_unlock();
    free(cq);
    return 0;
}

/* An event of a queue that has been destroyed since is no event, as in the real library. */
int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    uint64_t handle;
    while (read(channel->fd, &handle, sizeof handle) == (ssize_t)sizeof handle) {
        bool there = false;
        fake_lock();
        for (int i = 0; i < CQS; i++) {
            const fabric_cq *queue = &fake_fabric()->cq[i];
            there |= queue->used && queue->pid == getpid() && queue->handle == handle;
        }
        fake_unlock();
        if (!there)
            continue;
        *cq = (struct ibv_cq *)(uintptr_t)handle;
        *cq_context = (*cq)->cq_context;
        return 0;
    }
    return -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
    (void)cq;
    (void)count;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
    (void)solicited;
    fake_lock();
    fake_fabric()->cq[((fake_cq *)(void *)cq)->index].armed = true;
    fake_unlock();
    return 0;
}

/* With `delay` the queue pairs of this completion queue take turns, a request each. */
static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *entries)
{
    static unsigned turn;
    int count = 0;
    fake_lock();
    fabric_cq *queue = &fake_fabric()->cq[((fake_cq *)(void *)cq)->index];
    bool delay = atomic_load(&fake_fabric()->faults.delay);
    turn++;
    bool late = queue->head != queue->tail && atomic_load(&fake_fabric()->faults.late_polls) > 0 &&
                fake_device_of(cq->context)->number + 1 == atomic_load(&fake_fabric()->faults.late_device);
    if (late)
        atomic_fetch_sub(&fake_fabric()->faults.late_polls, 1);
    for (fake_qp *one = fake_queues; one != NULL; one = one->next) {
        if ((one->qp.send_cq == cq || one->qp.recv_cq == cq) && (!delay || (turn + one->index) % 3 == 0))
            fake_run(one, delay ? 1 : UINT32_MAX);
        if (one->qp.send_cq == cq)
            fake_poll_passed(one);
    }
    while (!late && count < most && queue->head != queue->tail)
        entries[count++] = queue->entry[queue->head++ % ENTRIES];
    fake_unlock();
    return count;
}

/* ---- queue pairs ---- */

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes)
{
    fabric *shared = fake_fabric();
    fake_qp *made = calloc(1, sizeof *made);
    fake_lock();
    size_t at = fake_slot(shared->qp, QPS, sizeof *shared->qp, offsetof(fabric_qp, used), offsetof(fabric_qp, pid));
    if (made == NULL || at == SIZE_MAX || attributes->cap.max_recv_wr > RECEIVES ||
        attributes->cap.max_inline_data > sizeof((fake_request *)0)->inline_data) {
        fake_unlock();
        free(made);
        errno = EINVAL;
        return NULL;
    }
    fabric_qp *queue = &shared->qp[at];
    queue->used = true;
    queue->datagrams = attributes->qp_type == IBV_QPT_UD;
    queue->pid = getpid();
    queue->number = fake_number();
    queue->peer = queue->head = queue->tail = 0;
    queue->state = IBV_QPS_RESET;
    queue->send_cq = ((fake_cq *)(void *)attributes->send_cq)->index;
    queue->recv_cq = ((fake_cq *)(void *)attributes->recv_cq)->index;
    made->qp = (struct ibv_qp){.context = pd->context,
                               .qp_context = attributes->qp_context,
                               .pd = pd,
                               .send_cq = attributes->send_cq,
                               .recv_cq = attributes->recv_cq,
                               .qp_num = queue->number,
                               .qp_type = attributes->qp_type};
    made->index = (uint32_t)at;
    made->limit = attributes->cap.max_send_wr;
    made->signals_all = attributes->sq_sig_all != 0;
    made->next = fake_queues;
    fake_queues = made;
    atomic_fetch_add(&shared->faults.queue_pairs, 1);
    fake_unlock();
    return &made->qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask)
{
    fake_qp *own = (fake_qp *)(void *)qp;
    fake_lock();
    fabric_qp *queue = &fake_fabric()->qp[own->index];
    int error = 0;
    if (mask & IBV_QP_PORT) {
        queue->port = attributes->port_num;
        queue->place = fake_place(qp->context, queue->port);
        error = queue->port < 1 || queue->port > fake_device_of(qp->context)->ports ? EINVAL : 0;
    }
    if (mask & IBV_QP_AV) {
        queue->route = fake_route(qp->context, &attributes->ah_attr);
        error = attributes->ah_attr.port_num != queue->port ? EINVAL : error;
    }
    if (mask & IBV_QP_DEST_QPN)
        queue->peer = attributes->dest_qp_num;
    if (mask & IBV_QP_QKEY)
        queue->key = attributes->qkey;
    uint32_t slow = atomic_load(&fake_fabric()->faults.slow_flush);
    if ((mask & IBV_QP_STATE) && attributes->qp_state == IBV_QPS_ERR && slow > 0) {
        fake_break_slowly(own, slow);
    } else if ((mask & IBV_QP_STATE) && attributes->qp_state == IBV_QPS_ERR) {
        fake_break(queue);
        fake_flush(own);
    } else if (mask & IBV_QP_STATE) {
        queue->state = attributes->qp_state;
    }
    fake_unlock();
    return error;
}

/* Like the real one waits until events that have been taken are acknowledged. */
int ibv_destroy_qp(struct ibv_qp *qp)
{
    fake_qp *own = (fake_qp *)(void *)qp;
    fake_lock();
    while (own->unacknowledged > 0) {
        fake_unlock();
        usleep(100);
        fake_lock();
    }
    for (fake_qp **at = &fake_queues; *at != NULL; at = &(*at)->next) {
        if (*at == own) {
            *at = own->next;
            break;
        }
    }
    atomic_fetch_add(&fake_fabric()->faults.unflushed, own->flush_in > 0);
    fake_fabric()->qp[own->index].used = false;
    atomic_fetch_sub(&fake_fabric()->faults.queue_pairs, 1);
    fake_unlock();
    while (own->first != NULL) {
        fake_request *request = own->first;
        own->first = request->next;
        free(request);
    }
    free(own);
    return 0;
}

static fake_request *take_over(const struct ibv_send_wr *wr, bool datagram)
{
    fake_request *request = calloc(1, sizeof *request);
    size_t at = 0;
    if (request == NULL)
        abort();
    request->wr = *wr;
    if (datagram)
        request->route = ((fake_ah *)(void *)wr->wr.ud.ah)->route;
    for (int i = 0; i < wr->num_sge; i++) {
        request->piece[i] = wr->sg_list[i];
        if (!(wr->send_flags & IBV_SEND_INLINE) || wr->sg_list[i].length == 0)
            continue;
        memcpy(request->inline_data + at, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
        request->piece[i].addr = (uintptr_t)request->inline_data + at;
        at += wr->sg_list[i].length;
    }
    return request;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    fake_qp *own = (fake_qp *)(void *)qp;
    fake_faults *faults = &fake_fabric()->faults;
    if (qp->qp_type == IBV_QPT_UD)
        fake_spin(fake_device_of(qp->context)->latency);
    fake_lock();
    uint32_t limit = atomic_load(&faults->queue_limit);
    if (own->waiting >= own->limit || (limit > 0 && own->waiting >= limit)) {
        fake_unlock();
        *bad = wr;
        return ENOMEM;
    }
    fake_request *request = take_over(wr, qp->qp_type == IBV_QPT_UD);
    if (own->first == NULL)
        own->first = request;
    else
        own->last->next = request;
    own->last = request;
    own->waiting++;
    if (!atomic_load(&faults->delay) || qp->qp_type == IBV_QPT_UD)
        fake_run(own, UINT32_MAX);
    fake_unlock();
    return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    fake_qp *own = (fake_qp *)(void *)qp;
    fake_lock();
    fabric_qp *queue = &fake_fabric()->qp[own->index];
    int error = 0;
    if (queue->tail - queue->head == RECEIVES) {
        *bad = wr;
        error = ENOMEM;
    } else {
        queue->receive[queue->tail++ % RECEIVES] = (fabric_receive){
            wr->wr_id, wr->num_sge > 0 ? wr->sg_list[0].addr : 0, wr->num_sge > 0 ? wr->sg_list[0].length : 0};
    }
    fake_unlock();
    return error;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *route)
{
    fake_ah *handle = calloc(1, sizeof *handle);
    if (handle == NULL)
        return NULL;
    handle->ah.pd = pd;
    handle->route = fake_route(pd->context, route);
    return &handle->ah;
}

int ibv_destroy_ah(struct ibv_ah *handle)
{
    free(handle);
    return 0;
}

/* ---- events, words ---- */

static bool of_port(const struct ibv_async_event *event)
{
    return event->event_type == IBV_EVENT_PORT_ERR || event->event_type == IBV_EVENT_PORT_ACTIVE;
}

/* Counts an event of a queue pair as taken, or as acknowledged; false: there is no such queue pair any more. */
static bool note(const struct ibv_async_event *event, bool taken)
{
    bool there = false;
    fake_lock();
    for (fake_qp *one = fake_queues; one != NULL && !there; one = one->next) {
        there = &one->qp == event->element.qp;
        if (there && taken)
            one->unacknowledged++;
        else if (there)
            one->unacknowledged--;
    }
    fake_unlock();
    return there;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    while (read(context->async_fd, event, sizeof *event) == (ssize_t)sizeof *event) {
        if (of_port(event) || note(event, true))
            return 0;
    }
    return -1;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    if (!of_port(event))
        (void)note(event, false);
}

void fake_verbs_event(int type)
{
    struct ibv_async_event event = {.event_type = (enum ibv_event_type)type};
    bool port = of_port(&event);
    fake_lock();
    for (fake_context *context = fake_contexts; context != NULL; context = context->next) {
        event.element.port_num = 1;
        if (port)
            fake_ring(getpid(), context->number, &event, sizeof event);
        for (fake_qp *queue = fake_queues; queue != NULL && !port; queue = queue->next) {
            event.element.qp = &queue->qp;
            if (queue->qp.context == &context->extended.context && queue->qp.qp_type == IBV_QPT_RC)
                fake_ring(getpid(), context->number, &event, sizeof event);
        }
    }
    fake_unlock();
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    return status == IBV_WC_RETRY_EXC_ERR ? "transport retry counter exceeded" : "work request failed";
}

const char *ibv_event_type_str(enum ibv_event_type type)
{
    return type == IBV_EVENT_PORT_ERR ? "port error" : "queue pair event";
}

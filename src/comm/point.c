/* Point-to-point entry points. */
#include "comm/comm.h"

#include "base/clock.h"
#include "base/error.h"
#include "comm/device.h"

#include <inttypes.h>

static void point_done(hki_transfer *transfer, hk_status status)
{
    hk_request *request = transfer->owner;
    if (!transfer->is_send && (status == HK_OK || status == HK_ERR_TRUNCATED)) {
        request->message.source = hki_comm_rank_of(request->comm, transfer->channel->rank);
        request->message.tag = transfer->tag;
        request->message.bytes = transfer->bytes;
        if (status == HK_ERR_TRUNCATED)
            hki_error(status,
                      "receive from rank %d, tag %d: the message of %" PRIu64 " bytes is longer than the buffer",
                      request->message.source, transfer->tag, transfer->bytes);
    }
    request->transfer = NULL;
    request->task.status = status;
    request->task.ended = true;
    hki_transfer_release(&request->comm->context->endpoint, transfer);
}

static hk_status check_point(const hk_comm *comm, const char *name, const void *buffer, uint64_t count, hk_type type,
                             int peer, int tag, bool wildcards)
{
    if (!hki_type_valid(type))
        return hki_error(HK_ERR_TYPE, "%s: type %" PRIu32 " is unknown", name, type);
    if ((peer < 0 || peer >= (int)comm->size) && !(wildcards && peer == HK_ANY_SOURCE))
        return hki_error(HK_ERR_ROOT, "%s: %s %d is not in 0 … %u", name, wildcards ? "source" : "destination", peer,
                         comm->size - 1);
    if (tag < 0 && !(wildcards && tag == HK_ANY_TAG))
        return hki_error(HK_ERR_ARGUMENT, "%s: tag %d is negative", name, tag);
    if (count > (UINT64_C(1) << 62) / hk_type_size(type))
        return hki_error(HK_ERR_COUNT, "%s: count %" PRIu64 " is too large", name, count);
    if (count && !buffer)
        return hki_error(HK_ERR_BUFFER, "%s: buffer is NULL but count is %" PRIu64, name, count);
    if (count && buffer == HK_IN_PLACE)
        return hki_error(HK_ERR_BUFFER, "%s: HK_IN_PLACE is not possible", name);
    if (count && (uintptr_t)buffer > UINTPTR_MAX - count * hk_type_size(type))
        return hki_error(HK_ERR_BUFFER, "%s: buffer reaches beyond the end of memory", name);
    if (count && hki_is_device_memory(buffer))
        return hki_error(HK_ERR_BUFFER, "%s: buffer is in device memory; Hocket moves host memory only", name);
    return HK_OK;
}

/* A request with its transfer, filled as far as both directions have in common. */
static hk_request *new_point(hk_comm *comm, hki_request_kind kind, int peer, int tag, uint64_t bytes)
{
    hki_transfer *transfer = hki_transfer_new(&comm->context->endpoint);
    if (!transfer) {
        hki_error(HK_ERR_NO_MEMORY, "no memory for a message");
        return NULL;
    }
    hk_request *request = hki_request_new(comm, kind);
    if (!request) {
        hki_transfer_release(&comm->context->endpoint, transfer);
        return NULL;
    }
    request->transfer = transfer;
    request->peer = peer;
    request->tag = tag;
    request->record = (hki_call_record){0};
    transfer->bytes = bytes;
    transfer->done = point_done;
    transfer->owner = request;
    transfer->tag = tag;
    transfer->matcher = &comm->matcher;
    return request;
}

hk_request *hki_point_begin_send(hk_comm *comm, const void *buffer, uint64_t bytes, int destination, int tag)
{
    hk_request *request = new_point(comm, HKI_REQUEST_SEND, destination, tag, bytes);
    if (!request)
        return NULL;
    hki_transfer *transfer = request->transfer;
    transfer->one = (struct iovec){(void *)(uintptr_t)buffer, (size_t)bytes};
    transfer->pieces = &transfer->one;
    transfer->piece_count = bytes ? 1 : 0;
    transfer->frame.operation = (uint32_t)tag;
    hki_point_send(&comm->matcher, hki_comm_channel(comm, (uint32_t)destination), transfer);
    return request;
}

hk_request *hki_point_begin_recv(hk_comm *comm, void *buffer, uint64_t bytes, int source, int tag)
{
    hk_request *request = new_point(comm, HKI_REQUEST_RECV, source, tag, bytes);
    if (!request)
        return NULL;
    hki_transfer *transfer = request->transfer;
    transfer->one = (struct iovec){buffer, (size_t)bytes};
    hki_sink_copy(&transfer->sink, &transfer->one, bytes ? 1 : 0, bytes);
    hki_channel *channel = source == HK_ANY_SOURCE ? NULL : hki_comm_channel(comm, (uint32_t)source);
    hki_point_recv(&comm->matcher, channel, transfer);
    return request;
}

hk_status hki_point_finish(hk_request *request, hk_message *message)
{
    if (!request)
        return HK_ERR_NO_MEMORY;
    if (!request->task.ended)
        hki_request_wait(request);
    bool received = request->kind == HKI_REQUEST_RECV;
    hk_message got = request->message;
    hk_status status = hki_request_finish(request);
    if (received && message && (status == HK_OK || status == HK_ERR_TRUNCATED))
        *message = got;
    return status;
}

hk_status hk_send(const void *buffer, uint64_t count, hk_type type, int destination, int tag, hk_comm *comm)
{
    HK_TRY(hki_comm_enter(comm));
    hk_status status = check_point(comm, "send", buffer, count, type, destination, tag, false);
    if (status == HK_OK)
        status =
            hki_point_finish(hki_point_begin_send(comm, buffer, count * hk_type_size(type), destination, tag), NULL);
    hki_comm_leave(comm);
    return status;
}

hk_status hk_recv(void *buffer, uint64_t count, hk_type type, int source, int tag, hk_comm *comm, hk_message *message)
{
    HK_TRY(hki_comm_enter(comm));
    hk_status status = check_point(comm, "recv", buffer, count, type, source, tag, true);
    if (status == HK_OK)
        status = hki_point_finish(hki_point_begin_recv(comm, buffer, count * hk_type_size(type), source, tag), message);
    hki_comm_leave(comm);
    return status;
}

static hk_status keep(hk_comm *comm, hk_request *made, hk_request **request)
{
    if (!made)
        return HK_ERR_NO_MEMORY;
    hki_list_append(&comm->context->requests, &made->node);
    *request = made;
    return HK_OK;
}

hk_status hk_isend(const void *buffer, uint64_t count, hk_type type, int destination, int tag, hk_comm *comm,
                   hk_request **request)
{
    if (!request)
        return hki_error(HK_ERR_ARGUMENT, "isend: request is NULL");
    HK_TRY(hki_comm_enter(comm));
    hk_status status = check_point(comm, "isend", buffer, count, type, destination, tag, false);
    if (status == HK_OK)
        status = keep(comm, hki_point_begin_send(comm, buffer, count * hk_type_size(type), destination, tag), request);
    hki_comm_leave(comm);
    return status;
}

hk_status hk_irecv(void *buffer, uint64_t count, hk_type type, int source, int tag, hk_comm *comm, hk_request **request)
{
    if (!request)
        return hki_error(HK_ERR_ARGUMENT, "irecv: request is NULL");
    HK_TRY(hki_comm_enter(comm));
    hk_status status = check_point(comm, "irecv", buffer, count, type, source, tag, true);
    if (status == HK_OK)
        status = keep(comm, hki_point_begin_recv(comm, buffer, count * hk_type_size(type), source, tag), request);
    hki_comm_leave(comm);
    return status;
}

hk_status hk_sendrecv(const void *send, uint64_t send_count, int destination, int send_tag, void *recv,
                      uint64_t recv_count, int source, int recv_tag, hk_type type, hk_comm *comm, hk_message *message)
{
    HK_TRY(hki_comm_enter(comm));
    hk_status status = check_point(comm, "sendrecv: send", send, send_count, type, destination, send_tag, false);
    if (status == HK_OK)
        status = check_point(comm, "sendrecv: recv", recv, recv_count, type, source, recv_tag, true);
    if (status == HK_OK) {
        uint64_t element = hk_type_size(type);
        hk_request *incoming = hki_point_begin_recv(comm, recv, recv_count * element, source, recv_tag);
        hk_request *outgoing =
            incoming ? hki_point_begin_send(comm, send, send_count * element, destination, send_tag) : NULL;
        status = incoming ? hki_point_finish(outgoing, NULL) : HK_ERR_NO_MEMORY;
        hk_status received = incoming ? hki_point_finish(incoming, message) : HK_ERR_NO_MEMORY;
        status = status == HK_OK ? received : status;
    }
    hki_comm_leave(comm);
    return status;
}

/* --- probes
 * ------------------------------------------------------------------------------------------------------------ */

static hk_status look(hk_comm *comm, int source, int tag, int *found, hk_message *message)
{
    hki_channel *channel = source == HK_ANY_SOURCE ? NULL : hki_comm_channel(comm, (uint32_t)source);
    hki_endpoint *endpoint = &comm->context->endpoint;
    endpoint->any_source++; /* look at every doorbell in this turn */
    hki_engine_progress(&comm->context->engine);
    endpoint->any_source--;
    if (comm->poisoned != HK_OK)
        return hki_error_set(comm->poisoned, comm->reason);
    const hki_unexpected *record = hki_point_probe(&comm->matcher, channel, tag);
    *found = record != NULL;
    if (record && message)
        *message = (hk_message){.source = hki_comm_rank_of(comm, record->channel->rank),
                                .tag = (int)record->frame.operation,
                                .bytes = record->bytes};
    if (!record && channel && channel->lost)
        return hki_error(HK_ERR_PEER_LOST, "probe: rank %d is gone", source);
    return HK_OK;
}

hk_status hk_iprobe(int source, int tag, hk_comm *comm, int *found, hk_message *message)
{
    if (!found)
        return hki_error(HK_ERR_ARGUMENT, "iprobe: found is NULL");
    HK_TRY(hki_comm_enter(comm));
    hk_status status = check_point(comm, "iprobe", NULL, 0, HK_BYTE, source, tag, true);
    if (status == HK_OK)
        status = look(comm, source, tag, found, message);
    hki_comm_leave(comm);
    return status;
}

/* A probe has no request, so it looks for itself at its time-out. */
hk_status hk_probe(int source, int tag, hk_comm *comm, hk_message *message)
{
    HK_TRY(hki_comm_enter(comm));
    hk_status status = check_point(comm, "probe", NULL, 0, HK_BYTE, source, tag, true);
    uint64_t begin = 0;
    int found = 0;
    while (status == HK_OK && !found) {
        status = look(comm, source, tag, &found, message);
        if (found || status != HK_OK)
            break;
        uint64_t now = hki_now();
        begin = begin ? begin : now;
        hki_failure_slow(comm->context, now);
        for (uint32_t rank = 0; rank < comm->size; rank++) {
            if (source == HK_ANY_SOURCE || (int)rank == source)
                hki_channel_relieve(hki_comm_channel(comm, rank));
        }
        if (comm->timeout > 0 && (double)(now - begin) > comm->timeout * 1e9)
            status = hki_error(HK_ERR_TIMEOUT, "probe: no message from rank %d with tag %d within %g s", source, tag,
                               comm->timeout);
        else
            hki_engine_pause(&comm->context->engine);
    }
    hki_comm_leave(comm);
    return status;
}

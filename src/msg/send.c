/* Sending, and posting of collective receives: the eager protocol, and the way into the rendezvous. */
#include "msg/internal.h"

#include <string.h>

static bool announces(const hki_channel *channel, const hki_transfer *transfer)
{
    return transfer->bytes > channel->eager_limit;
}

/* Sends a message in several pieces as one frame. Apart, so that the common case needs no such stack. */
static __attribute__((noinline)) hk_transport_result send_gathered(hki_channel *channel, const hki_transfer *transfer)
{
    unsigned char buffer[HKI_EAGER_WINDOW / 2];
    size_t at = 0;
    for (uint32_t i = 0; i < transfer->piece_count; i++) {
        memcpy(buffer + at, transfer->pieces[i].iov_base, transfer->pieces[i].iov_len);
        at += transfer->pieces[i].iov_len;
    }
    return channel->ops->send(channel->link, &transfer->frame, buffer, at);
}

static bool send_eager(hki_channel *channel, hki_transfer *transfer)
{
    uint64_t cost = transfer->bytes + HKI_EAGER_OVERHEAD;
    if (channel->eager_out + cost > HKI_EAGER_WINDOW)
        return false;
    hk_transport_result result;
    if (transfer->piece_count > 1)
        result = send_gathered(channel, transfer);
    else
        result =
            channel->ops->send(channel->link, &transfer->frame,
                               transfer->piece_count ? transfer->pieces[0].iov_base : NULL, (size_t)transfer->bytes);
    if (result != HK_TRANSPORT_OK)
        return false; /* a lost link ends the transfer when it is looked at */
    channel->eager_out += cost;
    hki_transfer_end(transfer, HK_OK);
    return true;
}

/* Sends the transfer's first frame; false: no credit or no room yet. */
bool hki_transfer_try_send(hki_channel *channel, hki_transfer *transfer)
{
    return announces(channel, transfer) ? hki_announce(channel, transfer) : send_eager(channel, transfer);
}

void hki_transfer_start_send(hki_channel *channel, hki_transfer *transfer)
{
    transfer->is_send = true;
    transfer->channel = channel;
    transfer->state = HKI_TRANSFER_IDLE;
    if (channel->lost) {
        hki_transfer_end(transfer, HK_ERR_PEER_LOST);
        return;
    }
    if (hki_list_empty(&channel->queued) && hki_list_empty(&channel->controls) &&
        hki_transfer_try_send(channel, transfer))
        return;
    transfer->state = HKI_TRANSFER_QUEUED;
    hki_channel_interest(channel);
    hki_list_append(&channel->queued, &transfer->node);
    hki_channel_work(channel);
}

void hki_msg_send(hki_channel *channel, hki_transfer *transfer)
{
    transfer->frame.kind = announces(channel, transfer) ? HKI_FRAME_ANNOUNCE : HKI_FRAME_EAGER;
    hki_transfer_start_send(channel, transfer);
}

/* What has come of the head; the rest, if it is still being read, goes straight to its place. */
static void give_head(hki_unexpected *record, hki_transfer *transfer)
{
    hki_channel *channel = record->channel;
    hki_stream_expect(channel, transfer, HKI_HEAD_BYTES);
    hki_sink_feed(&transfer->sink, record->head, (size_t)(HKI_HEAD_BYTES - record->sink.room));
    if (channel->reading_unexpected == record) {
        channel->reading = transfer;
        channel->reading_unexpected = NULL;
    }
}

void hki_give_unexpected(hki_unexpected *record, hki_transfer *transfer)
{
    hki_channel *channel = record->channel;
    bool eager = record->frame.kind == HKI_FRAME_EAGER || record->frame.kind == HKI_FRAME_POINT_EAGER;
    if (!eager) {
        hki_announcement announcement = record->announcement;
        hki_unexpected_repay(record);
        if (record->head)
            give_head(record, transfer);
        hki_unexpected_free(record);
        hki_accept_announcement(channel, transfer, &announcement);
        return;
    }
    uint64_t here = record->bytes - record->sink.room;
    hki_sink_feed(&transfer->sink, record->data, (size_t)here);
    transfer->moved = record->bytes;
    if (!record->complete) { /* the rest is still being read: straight into its place from now on */
        channel->reading = transfer;
        channel->reading_unexpected = NULL;
        hki_unexpected_free(record);
        return;
    }
    hki_unexpected_repay(record);
    hki_unexpected_free(record);
    hki_transfer_end(transfer, HK_OK);
}

void hki_msg_recv(hki_channel *channel, hki_transfer *transfer)
{
    transfer->is_send = false;
    transfer->channel = channel;
    transfer->state = HKI_TRANSFER_IDLE;
    if (channel->lost && hki_list_empty(&channel->unexpected)) {
        hki_transfer_end(transfer, HK_ERR_PEER_LOST);
        return;
    }
    transfer->state = HKI_TRANSFER_POSTED;
    hki_channel_interest(channel);
    hki_unexpected *record =
        hki_list_empty(&channel->unexpected) ? NULL : hki_unexpected_find(channel, &transfer->frame, false);
    hki_list_append(&channel->posted, &transfer->node);
    if (record) {
        uint64_t bytes = record->frame.kind == HKI_FRAME_EAGER ? record->bytes : record->announcement.bytes;
        if (record->frame.fingerprint != transfer->frame.fingerprint || bytes != transfer->bytes)
            channel->endpoint->listener.mismatch(channel->endpoint->listener.context, channel, &record->frame);
        else
            hki_give_unexpected(record, transfer);
        return;
    }
    if (channel->lost)
        hki_transfer_end(transfer, HK_ERR_PEER_LOST);
    else if (announces(channel, transfer))
        hki_grant_early(channel, transfer);
}

void hki_msg_forget(hki_endpoint *endpoint, uint32_t communicator)
{
    endpoint->freed_ids[endpoint->freed_count++ % (sizeof endpoint->freed_ids / sizeof *endpoint->freed_ids)] =
        communicator;
    for (uint32_t rank = 0; rank < endpoint->ranks; rank++) {
        hki_channel *channel = &endpoint->channels[rank];
        hki_list_each_safe (node, following, &channel->unexpected) {
            hki_unexpected *record = hki_list_entry(node, hki_unexpected, node);
            if (record->frame.communicator != communicator)
                continue;
            hki_unexpected_repay(record);
            hki_unexpected_free(record);
        }
    }
}

bool hki_endpoint_freed(const hki_endpoint *endpoint, uint32_t communicator)
{
    uint32_t capacity = sizeof endpoint->freed_ids / sizeof *endpoint->freed_ids;
    uint32_t count = endpoint->freed_count < capacity ? endpoint->freed_count : capacity;
    for (uint32_t i = 0; i < count; i++) {
        if (endpoint->freed_ids[i] == communicator)
            return true;
    }
    return false;
}

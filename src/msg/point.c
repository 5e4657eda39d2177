/* Point-to-point matching: messages between two ranks do not overtake one another, any source, any tag. */
#include "msg/internal.h"

#include "base/error.h"

#include <string.h>

void hki_matcher_open(hki_endpoint *endpoint, hki_matcher *matcher, uint32_t communicator)
{
    matcher->endpoint = endpoint;
    matcher->communicator = communicator;
    matcher->any_source = 0;
    hki_list_init(&matcher->posted);
    hki_list_init(&matcher->unexpected);
    hki_list_append(&endpoint->matchers, &matcher->node);
    /* Messages that came before the communicator was made here wait in their channels. */
    for (uint32_t rank = 0; rank < endpoint->ranks; rank++) {
        hki_list_each_safe (node, following, &endpoint->channels[rank].unexpected) {
            hki_unexpected *record = hki_list_entry(node, hki_unexpected, node);
            bool point = record->frame.kind == HKI_FRAME_POINT_EAGER || record->frame.kind == HKI_FRAME_POINT_ANNOUNCE;
            if (!point || record->frame.communicator != communicator)
                continue;
            hki_list_remove(node);
            hki_list_append(&matcher->unexpected, node);
        }
    }
}

void hki_matcher_close(hki_matcher *matcher)
{
    hki_list_each_safe (node, following, &matcher->unexpected) {
        hki_unexpected *record = hki_list_entry(node, hki_unexpected, node);
        hki_unexpected_repay(record);
        hki_unexpected_free(record);
    }
    hki_list_remove(&matcher->node);
}

hki_matcher *hki_matcher_find(hki_endpoint *endpoint, uint32_t communicator)
{
    hki_list_each (node, &endpoint->matchers) {
        hki_matcher *matcher = hki_list_entry(node, hki_matcher, node);
        if (matcher->communicator == communicator)
            return matcher;
    }
    return NULL;
}

static bool takes_tag(int wanted, int tag)
{
    return wanted == HK_ANY_TAG ? tag >= 0 : wanted == tag;
}

static bool fits(const hki_transfer *transfer, const hki_channel *channel, int tag)
{
    return (transfer->channel == NULL || transfer->channel == channel) && takes_tag(transfer->tag, tag);
}

/* The first posted receive that takes a message from channel with this tag. */
hki_transfer *hki_point_match(hki_matcher *matcher, hki_channel *channel, int tag)
{
    hki_list_each (node, &matcher->posted) {
        hki_transfer *transfer = hki_list_entry(node, hki_transfer, node);
        if (fits(transfer, channel, tag))
            return transfer;
    }
    return NULL;
}

/* A receive has found its message of `bytes`: from here on it belongs to the message's channel. */
void hki_point_take(hki_transfer *transfer, hki_channel *channel, const hk_frame *frame, uint64_t bytes)
{
    hki_endpoint *endpoint = transfer->matcher->endpoint;
    if (!transfer->channel) {
        transfer->matcher->any_source--;
        endpoint->any_source--;
        transfer->channel = channel;
        if (!channel->self)
            hki_channel_interest(channel);
    }
    hki_list_remove(&transfer->node);
    hki_list_append(&channel->receiving, &transfer->node);
    transfer->tag = (int)frame->operation;
    transfer->frame = *frame;
    transfer->truncated = bytes > transfer->bytes;
    transfer->bytes = bytes;
}

/* A message to oneself: straight from buffer to buffer. */
static void copy_own(hki_transfer *send, hki_transfer *receive)
{
    hki_point_take(receive, send->channel, &send->frame, send->bytes);
    receive->moved = send->bytes;
    for (uint32_t i = 0; i < send->piece_count; i++)
        hki_sink_feed(&receive->sink, send->pieces[i].iov_base, send->pieces[i].iov_len);
    hki_transfer_end(receive, HK_OK);
    hki_transfer_end(send, HK_OK);
}

static void send_to_self(hki_matcher *matcher, hki_channel *channel, hki_transfer *transfer)
{
    transfer->is_send = true;
    transfer->channel = channel;
    transfer->matcher = matcher;
    transfer->state = HKI_TRANSFER_ANNOUNCED;
    hki_transfer *receive = hki_point_match(matcher, channel, (int)transfer->frame.operation);
    if (receive) {
        copy_own(transfer, receive);
        return;
    }
    bool small = transfer->bytes <= HKI_EAGER_WINDOW / 8; /* small ones are kept, as eager ones are elsewhere */
    hki_unexpected *record = hki_unexpected_new(channel, &transfer->frame, small ? transfer->bytes : 0);
    if (!record) {
        hki_error(HK_ERR_NO_MEMORY, "no memory to keep a message to oneself");
        hki_transfer_end(transfer, HK_ERR_NO_MEMORY);
        return;
    }
    record->complete = true;
    record->bytes = transfer->bytes;
    record->own = small ? NULL : transfer;
    hki_list_append(&matcher->unexpected, &record->node);
    if (!small)
        return;
    for (uint32_t i = 0; i < transfer->piece_count; i++)
        hki_sink_feed(&record->sink, transfer->pieces[i].iov_base, transfer->pieces[i].iov_len);
    hki_transfer_end(transfer, HK_OK);
}

void hki_point_send(hki_matcher *matcher, hki_channel *channel, hki_transfer *transfer)
{
    transfer->point = true;
    transfer->frame.communicator = matcher->communicator;
    bool large = !channel->self && transfer->bytes > channel->eager_limit;
    transfer->frame.kind = large ? HKI_FRAME_POINT_ANNOUNCE : HKI_FRAME_POINT_EAGER;
    if (channel->self)
        send_to_self(matcher, channel, transfer);
    else
        hki_transfer_start_send(channel, transfer);
}

static void take_record(hki_transfer *transfer, hki_unexpected *record)
{
    hki_channel *channel = record->channel;
    hki_transfer *own = record->own;
    if (own) {
        hki_unexpected_free(record);
        copy_own(own, transfer);
        return;
    }
    hki_point_take(transfer, channel, &record->frame, record->bytes);
    if (channel->self) {
        hki_sink_feed(&transfer->sink, record->data, (size_t)record->bytes);
        hki_unexpected_free(record);
        hki_transfer_end(transfer, HK_OK);
    } else {
        hki_give_unexpected(record, transfer);
    }
}

void hki_point_recv(hki_matcher *matcher, hki_channel *channel, hki_transfer *transfer)
{
    transfer->is_send = false;
    transfer->point = true;
    transfer->matcher = matcher;
    transfer->channel = channel;
    transfer->state = HKI_TRANSFER_POSTED;
    if (!channel) {
        matcher->any_source++;
        matcher->endpoint->any_source++;
    } else if (!channel->self) {
        hki_channel_interest(channel);
    }
    hki_list_append(&matcher->posted, &transfer->node);
    hki_list_each (node, &matcher->unexpected) {
        hki_unexpected *record = hki_list_entry(node, hki_unexpected, node);
        if (fits(transfer, record->channel, (int)record->frame.operation)) {
            take_record(transfer, record);
            return;
        }
    }
    if (channel && channel->lost)
        hki_transfer_end(transfer, HK_ERR_PEER_LOST);
}

const hki_unexpected *hki_point_probe(hki_matcher *matcher, const hki_channel *channel, int tag)
{
    hki_list_each (node, &matcher->unexpected) {
        const hki_unexpected *record = hki_list_entry(node, hki_unexpected, node);
        if ((channel == NULL || record->channel == channel) && takes_tag(tag, (int)record->frame.operation))
            return record;
    }
    return NULL;
}

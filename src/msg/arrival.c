/* Arrivals: what is done with the frame at the head of a channel's FIFO. */
#include "msg/internal.h"

#include "base/error.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

enum { DRAIN_FRAMES = 64, CONTROL_BYTES = HK_TRANSPORT_WHOLE };

/* A streamed result from here on is written by non-temporal stores: it outgrows the last cache. Measured with 2 ranks:
 * about a tenth faster at 32 MiB (on a noisy machine), a quarter slower and more at 2 and 8 MiB. */
enum { UNCACHED_BYTES = 32 << 20 };

/* --- taking a payload -------------------------------------------------------------------------------------------- */

/* Reads what can be read of the head's payload; arrival->bytes is what is left then. What is reduced goes through a
 * buffer that fits the second-level cache: over TCP, 1 MiB between two ranks takes 215 µs by pieces of 256 KiB, 230 by
 * 64 KiB and 260 by 16 KiB. */
static void read_on(hki_channel *channel, hk_arrival *arrival, hki_sink *sink)
{
    size_t moved = 1;
    if (!channel->ops->read) {
        hki_channel_fail(channel, HK_ERR_TRANSPORT,
                         "the transport hands over no payload, and has no function to read it");
        return;
    }
    while (arrival->bytes > 0 && moved > 0) {
        void *where = NULL;
        size_t direct = sink ? hki_sink_direct(sink, &where) : 0, wanted = direct ? direct : HKI_PULL_PIECE;
        if (!direct && !(where = hki_bounce_buffer(channel->endpoint))) {
            hki_channel_fail(channel, HK_ERR_NO_MEMORY, "no memory to read a message through");
            return;
        }
        moved = 0;
        if (channel->ops->read(channel->link, where, wanted < arrival->bytes ? wanted : arrival->bytes, &moved) !=
            HK_TRANSPORT_OK)
            return;
        if (direct)
            hki_sink_advance(sink, moved);
        else if (sink)
            hki_sink_feed(sink, where, moved);
        arrival->bytes -= moved;
    }
}

/* Moves the head's payload into a sink (NULL: drops it), and the head off the FIFO. False: more is yet to come. */
static bool take(hki_channel *channel, hk_arrival *arrival, hki_sink *sink)
{
    if (arrival->data && arrival->bytes && sink)
        hki_sink_feed(sink, arrival->data, arrival->bytes);
    else if (!arrival->data && arrival->bytes)
        read_on(channel, arrival, sink);
    if (!arrival->data && arrival->bytes)
        return false;
    channel->ops->consume(channel->link);
    return true;
}

/* --- messages that nobody has asked for yet ------------------------------------------------------------------------
 */

static void count_kept(hki_endpoint *endpoint, uint64_t bytes)
{
    endpoint->unexpected_bytes += bytes;
    if (endpoint->unexpected_bytes > endpoint->unexpected_peak)
        endpoint->unexpected_peak = endpoint->unexpected_bytes;
}

hki_unexpected *hki_unexpected_new(hki_channel *channel, const hk_frame *frame, uint64_t bytes)
{
    hki_unexpected *record = malloc(sizeof *record + bytes);
    if (!record)
        return NULL;
    memset(record, 0, sizeof *record);
    record->channel = channel;
    record->frame = *frame;
    record->bytes = bytes;
    record->piece = (struct iovec){record->data, bytes};
    hki_sink_copy(&record->sink, &record->piece, 1, bytes);
    hki_list_init(&record->node);
    count_kept(channel->endpoint, bytes);
    return record;
}

void hki_unexpected_free(hki_unexpected *record)
{
    if (record->channel->reading_unexpected == record) {
        record->channel->reading_unexpected = NULL;
        record->channel->skipping = true;
    }
    record->channel->endpoint->unexpected_bytes -= record->piece.iov_len;
    hki_list_remove(&record->node);
    free(record->head);
    free(record);
}

hki_unexpected *hki_unexpected_find(hki_channel *channel, const hk_frame *frame, bool grant)
{
    hki_list_each (node, &channel->unexpected) {
        hki_unexpected *record = hki_list_entry(node, hki_unexpected, node);
        if (hki_same_key(&record->frame, frame) && (record->frame.kind == HKI_FRAME_GRANT) == grant)
            return record;
    }
    return NULL;
}

/* --- by kind -------------------------------------------------------------------------------------------------------
 */

static hki_transfer *find_posted(hki_channel *channel, const hk_frame *frame)
{
    hki_list_each (node, &channel->posted) {
        hki_transfer *transfer = hki_list_entry(node, hki_transfer, node);
        if (hki_same_key(&transfer->frame, frame))
            return transfer;
    }
    return NULL;
}

/* True if the payload belongs to the receive; else the mismatch has been reported. */
static bool agrees(hki_channel *channel, const hki_transfer *transfer, const hk_frame *frame, uint64_t bytes)
{
    if (transfer->frame.fingerprint == frame->fingerprint && transfer->bytes == bytes)
        return true;
    channel->endpoint->listener.mismatch(channel->endpoint->listener.context, channel, frame);
    return false;
}

/* A collective message that no receive waits for: kept, dropped or reported. NULL unless kept. */
static hki_unexpected *keep(hki_channel *channel, const hk_frame *frame, uint64_t bytes)
{
    hki_listener *listener = &channel->endpoint->listener;
    hki_verdict verdict = listener->stray(listener->context, channel, frame);
    if (verdict == HKI_MISMATCH)
        listener->mismatch(listener->context, channel, frame);
    if (verdict != HKI_KEEP || channel->lost)
        return NULL;
    hki_unexpected *record = hki_unexpected_new(channel, frame, bytes);
    if (!record) {
        hki_channel_fail(channel, HK_ERR_NO_MEMORY, "no memory to keep a message that came early");
        return NULL;
    }
    return record;
}

static void owe_for(hki_channel *channel, const hk_frame *frame, uint64_t bytes)
{
    if (frame->kind == HKI_FRAME_EAGER || frame->kind == HKI_FRAME_POINT_EAGER)
        hki_channel_owe(channel, bytes + HKI_EAGER_OVERHEAD, 0);
    else if (frame->kind == HKI_FRAME_ANNOUNCE || frame->kind == HKI_FRAME_POINT_ANNOUNCE)
        hki_channel_owe(channel, 0, 1);
}

static void eager_taken(hki_channel *channel, hki_transfer *transfer, const hk_frame *frame, uint64_t bytes)
{
    owe_for(channel, frame, bytes);
    hki_transfer_end(transfer, HK_OK);
}

static bool drop(hki_channel *channel, hk_arrival *arrival)
{
    channel->skipping = !take(channel, arrival, NULL);
    return !channel->skipping;
}

/* Reads on into whatever the head frame was found to belong to. */
static bool resume(hki_channel *channel, hk_arrival *arrival)
{
    hki_transfer *transfer = channel->reading;
    hki_unexpected *record = channel->reading_unexpected;
    if (channel->skipping)
        return drop(channel, arrival);
    hk_frame frame = arrival->frame;
    if (!take(channel, arrival, transfer ? &transfer->sink : &record->sink))
        return false;
    channel->reading = NULL;
    channel->reading_unexpected = NULL;
    if (record)
        record->complete = true;
    else if (frame.kind != HKI_FRAME_DATA && frame.kind != HKI_FRAME_HEAD)
        eager_taken(channel, transfer, &frame, transfer->moved);
    else if (transfer->moved == transfer->bytes)
        hki_transfer_end(transfer, HK_OK);
    return true;
}

static bool on_eager(hki_channel *channel, hk_arrival *arrival)
{
    hki_transfer *transfer = find_posted(channel, &arrival->frame);
    uint64_t bytes = arrival->bytes;
    if (transfer) {
        if (!agrees(channel, transfer, &arrival->frame, bytes)) {
            owe_for(channel, &arrival->frame, bytes);
            return drop(channel, arrival);
        }
        transfer->moved = bytes;
        channel->reading = transfer;
        return resume(channel, arrival);
    }
    hki_unexpected *record = keep(channel, &arrival->frame, bytes);
    if (!record)
        return channel->lost ? false : (owe_for(channel, &arrival->frame, bytes), drop(channel, arrival));
    hki_list_append(&channel->unexpected, &record->node);
    channel->reading_unexpected = record;
    return resume(channel, arrival);
}

static bool on_point_eager(hki_channel *channel, hk_arrival *arrival)
{
    hki_endpoint *endpoint = channel->endpoint;
    hki_matcher *matcher = hki_matcher_find(endpoint, arrival->frame.communicator);
    hki_transfer *transfer = matcher ? hki_point_match(matcher, channel, (int)arrival->frame.operation) : NULL;
    if (transfer) {
        hki_point_take(transfer, channel, &arrival->frame, arrival->bytes);
        channel->reading = transfer;
        transfer->moved = arrival->bytes;
        return resume(channel, arrival);
    }
    if (!matcher && hki_endpoint_freed(endpoint, arrival->frame.communicator)) {
        owe_for(channel, &arrival->frame, arrival->bytes);
        return drop(channel, arrival);
    }
    hki_unexpected *record = hki_unexpected_new(channel, &arrival->frame, arrival->bytes);
    if (!record) {
        hki_channel_fail(channel, HK_ERR_NO_MEMORY, "no memory to keep a message that came early");
        return false;
    }
    hki_list_append(matcher ? &matcher->unexpected : &channel->unexpected, &record->node);
    channel->reading_unexpected = record;
    return resume(channel, arrival);
}

static void on_announce(hki_channel *channel, const hk_frame *frame, const hki_announcement *announcement)
{
    hki_transfer *transfer = find_posted(channel, frame);
    if (transfer) {
        owe_for(channel, frame, 0);
        if (!agrees(channel, transfer, frame, announcement->bytes))
            return;
        hki_accept_announcement(channel, transfer, announcement);
        return;
    }
    hki_unexpected *record = keep(channel, frame, 0);
    if (!record) {
        owe_for(channel, frame, 0);
        return;
    }
    record->announcement = *announcement;
    record->complete = true;
    hki_list_append(&channel->unexpected, &record->node);
}

static void on_point_announce(hki_channel *channel, const hk_frame *frame, const hki_announcement *announcement)
{
    hki_endpoint *endpoint = channel->endpoint;
    hki_matcher *matcher = hki_matcher_find(endpoint, frame->communicator);
    hki_transfer *transfer = matcher ? hki_point_match(matcher, channel, (int)frame->operation) : NULL;
    if (transfer) {
        hki_point_take(transfer, channel, frame, announcement->bytes);
        owe_for(channel, frame, 0);
        hki_accept_announcement(channel, transfer, announcement);
        return;
    }
    if (!matcher && hki_endpoint_freed(endpoint, frame->communicator)) {
        owe_for(channel, frame, 0);
        return;
    }
    hki_unexpected *record = hki_unexpected_new(channel, frame, 0);
    if (!record) {
        hki_channel_fail(channel, HK_ERR_NO_MEMORY, "no memory to keep an announcement");
        return;
    }
    record->announcement = *announcement;
    record->bytes = announcement->bytes;
    record->complete = true;
    hki_list_append(matcher ? &matcher->unexpected : &channel->unexpected, &record->node);
}

/* The next bytes of the message are to come. */
void hki_stream_expect(hki_channel *channel, hki_transfer *transfer, uint64_t bytes)
{
    if (transfer->state == HKI_TRANSFER_POSTED) {
        transfer->state = HKI_TRANSFER_STREAMING;
        transfer->sink.streaming = transfer->bytes >= UNCACHED_BYTES;
        hki_list_remove(&transfer->node);
        hki_list_append(&channel->receiving, &transfer->node);
    }
    transfer->pieces_moved++;
    transfer->moved += bytes;
}

static bool on_data(hki_channel *channel, hk_arrival *arrival)
{
    hki_transfer *transfer = hki_token_find(channel->endpoint, arrival->frame.communicator);
    if (!transfer || transfer->is_send || transfer->channel != channel ||
        (transfer->state != HKI_TRANSFER_POSTED && transfer->state != HKI_TRANSFER_STREAMING))
        return drop(channel, arrival); /* its receive was cancelled */
    if (transfer->pieces_moved != arrival->frame.operation || transfer->moved + arrival->bytes > transfer->bytes) {
        hki_channel_fail(channel, HK_ERR_TRANSPORT, "peer sent pieces of a message out of order");
        return false;
    }
    hki_stream_expect(channel, transfer, arrival->bytes);
    channel->reading = transfer;
    return resume(channel, arrival);
}

/* ---- heads: what follows an announcement ---- */

static hki_transfer *find_headless(hki_channel *channel, uint32_t token)
{
    hki_list_each (node, &channel->receiving) {
        hki_transfer *transfer = hki_list_entry(node, hki_transfer, node);
        if (transfer->point && transfer->state == HKI_TRANSFER_POSTED && transfer->peer_token == token)
            return transfer;
    }
    return NULL;
}

static hki_unexpected *announced_in(hki_node *list, const hki_channel *channel, uint32_t token)
{
    hki_list_each (node, list) {
        hki_unexpected *record = hki_list_entry(node, hki_unexpected, node);
        if (record->channel == channel && record->frame.kind == HKI_FRAME_POINT_ANNOUNCE && !record->head &&
            record->announcement.token == token)
            return record;
    }
    return NULL;
}

static hki_unexpected *find_announcement(hki_channel *channel, uint32_t token)
{
    hki_unexpected *record = announced_in(&channel->unexpected, channel, token);
    hki_list_each (node, &channel->endpoint->matchers) {
        if (!record)
            record = announced_in(&hki_list_entry(node, hki_matcher, node)->unexpected, channel, token);
    }
    return record;
}

/* Makes room for the head in a record. */
static bool prepare_head(hki_channel *channel, hki_unexpected *record)
{
    record->head = malloc(HKI_HEAD_BYTES);
    if (!record->head)
        return false;
    record->piece = (struct iovec){record->head, HKI_HEAD_BYTES};
    hki_sink_copy(&record->sink, &record->piece, 1, HKI_HEAD_BYTES);
    count_kept(channel->endpoint, HKI_HEAD_BYTES);
    channel->reading_unexpected = record;
    return true;
}

/* Straight to its receive, or kept with its announcement. */
static bool on_head(hki_channel *channel, hk_arrival *arrival)
{
    uint32_t token = arrival->frame.communicator;
    hki_transfer *transfer = find_headless(channel, token);
    hki_unexpected *record = transfer ? NULL : find_announcement(channel, token);
    uint64_t message = transfer ? transfer->bytes : record ? record->bytes : UINT64_MAX;
    if (arrival->bytes != HKI_HEAD_BYTES || message <= HKI_HEAD_BYTES) {
        hki_channel_fail(channel, HK_ERR_TRANSPORT, "peer sent a beginning that is not its message's");
        return false;
    }
    if (!record || record->repaid)
        hki_channel_owe(channel, HKI_HEAD_BYTES + HKI_EAGER_OVERHEAD, 0);
    if (record && !prepare_head(channel, record)) {
        hki_channel_fail(channel, HK_ERR_NO_MEMORY, "no memory to keep the beginning of a message");
        return false;
    }
    if (record)
        return resume(channel, arrival);
    if (!transfer)
        return drop(channel, arrival); /* its receive was cancelled, or its communicator freed */
    hki_stream_expect(channel, transfer, HKI_HEAD_BYTES);
    channel->reading = transfer;
    return resume(channel, arrival);
}

static void on_credit(hki_channel *channel, uint32_t eager_bytes, uint32_t announcements)
{
    channel->eager_out -= eager_bytes < channel->eager_out ? eager_bytes : channel->eager_out;
    channel->announce_out -= announcements < channel->announce_out ? announcements : channel->announce_out;
    if (!hki_list_empty(&channel->queued))
        hki_channel_work(channel);
}

static void on_grants(hki_channel *channel, hk_frame frame, const hki_grant *grants, size_t count)
{
    for (size_t i = 0; i < count && !channel->lost; i++) {
        frame.ordinal = grants[i].ordinal;
        if (grants[i].credit > 0)
            on_credit(channel, grants[i].credit, 0);
        hki_on_grant(channel, &frame, &grants[i]);
    }
}

/* Frames of a few bytes: copied out, taken off the FIFO, then used. */
static bool on_small(hki_channel *channel, hk_arrival *arrival)
{
    unsigned char data[CONTROL_BYTES] __attribute__((aligned(8)));
    hk_frame frame = arrival->frame;
    size_t bytes = arrival->bytes;
    if (bytes > sizeof data || (bytes > 0 && !arrival->data)) {
        hki_channel_fail(channel, HK_ERR_TRANSPORT, "peer sent a control frame that is too long");
        return false;
    }
    if (bytes)
        memcpy(data, arrival->data, bytes);
    channel->ops->consume(channel->link);
    bool announcement = frame.kind == HKI_FRAME_ANNOUNCE || frame.kind == HKI_FRAME_POINT_ANNOUNCE;
    if ((announcement && bytes != sizeof(hki_announcement)) ||
        (frame.kind == HKI_FRAME_GRANT && (bytes == 0 || bytes % sizeof(hki_grant) != 0))) {
        hki_channel_fail(channel, HK_ERR_TRANSPORT, "peer sent a malformed frame");
        return false;
    }
    hki_listener *listener = &channel->endpoint->listener;
    switch (frame.kind) {
    case HKI_FRAME_ANNOUNCE:
        on_announce(channel, &frame, (const hki_announcement *)(const void *)data);
        break;
    case HKI_FRAME_POINT_ANNOUNCE:
        on_point_announce(channel, &frame, (const hki_announcement *)(const void *)data);
        break;
    case HKI_FRAME_GRANT:
        on_grants(channel, frame, (const hki_grant *)(const void *)data, bytes / sizeof(hki_grant));
        break;
    case HKI_FRAME_DONE:
        hki_on_done(channel, &frame);
        break;
    case HKI_FRAME_PUT:
        hki_on_put(channel, &frame);
        break;
    case HKI_FRAME_CREDIT:
        on_credit(channel, frame.communicator, frame.operation);
        break;
    case HKI_FRAME_ABORT:
    case HKI_FRAME_QUERY:
    case HKI_FRAME_ANSWER:
        listener->control(listener->context, channel, &frame, data, bytes);
        break;
    default:
        hki_channel_fail(channel, HK_ERR_TRANSPORT, "peer sent a frame of unknown kind");
        return false;
    }
    return true;
}

static bool dispatch(hki_channel *channel, hk_arrival *arrival)
{
    if (channel->reading || channel->reading_unexpected || channel->skipping)
        return resume(channel, arrival);
    switch (arrival->frame.kind) {
    case HKI_FRAME_EAGER:
        return on_eager(channel, arrival);
    case HKI_FRAME_POINT_EAGER:
        return on_point_eager(channel, arrival);
    case HKI_FRAME_DATA:
        return on_data(channel, arrival);
    case HKI_FRAME_HEAD:
        return on_head(channel, arrival);
    default:
        return on_small(channel, arrival);
    }
}

bool hki_channel_drain(hki_channel *channel)
{
    bool any = false;
    hk_arrival arrival;
    for (int frames = 0; frames < DRAIN_FRAMES && !channel->lost && channel->link; frames++) {
        hk_transport_result result = channel->ops->peek(channel->link, &arrival);
        if (result == HK_TRANSPORT_LOST) {
            const char *reason = "connection lost";
            channel->departed = channel->ops->link_state(channel->link, &reason) == HK_LINK_GOODBYE;
            hki_channel_fail(channel, HK_ERR_PEER_LOST, reason);
            return true;
        }
        if (result != HK_TRANSPORT_OK)
            break;
        size_t before = arrival.bytes;
        bool whole = dispatch(channel, &arrival);
        /* A head of which nothing new has come is no progress: who waits for the rest must be able to sleep. */
        any |= whole || arrival.bytes < before || channel->lost;
        if (!whole)
            break;
    }
    return any;
}

/* --- the fast way to receive ---------------------------------------------------------------------------------------
 */

static const void *take_kept(hki_channel *channel, const hk_frame *frame, size_t bytes, hki_unexpected **kept)
{
    hki_unexpected *record = hki_unexpected_find(channel, frame, false);
    if (!record || !record->complete || record->frame.kind != HKI_FRAME_EAGER)
        return NULL;
    if (record->bytes != bytes || record->frame.fingerprint != frame->fingerprint) {
        channel->endpoint->listener.mismatch(channel->endpoint->listener.context, channel, &record->frame);
        return NULL;
    }
    *kept = record;
    return record->data;
}

const void *hki_msg_take_slowly(hki_channel *channel, const hk_frame *frame, size_t bytes, hki_unexpected **kept)
{
    const void *data = hki_list_empty(&channel->unexpected) ? NULL : take_kept(channel, frame, bytes, kept);
    if (data || !hki_channel_drain(channel) || hki_list_empty(&channel->unexpected))
        return data;
    /* It may be among what has just come. So may be the peer's goodbye, after which it would be missed. */
    return take_kept(channel, frame, bytes, kept);
}

void hki_msg_free_kept(hki_unexpected *kept)
{
    hki_unexpected_repay(kept);
    hki_unexpected_free(kept);
}

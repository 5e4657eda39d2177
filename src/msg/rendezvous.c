/* Messages above the eager limit: announce, grant, stream, pull. Puts are in put.c. */
#include "msg/internal.h"

#include "base/error.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

enum {
    STREAMED_STORE_BYTES = 1 << 20, /* results of a pull from here on by non-temporal stores; measured */
    TURNS_BEFORE_THE_END = 16       /* of 64 frames: more than lay in the FIFO when the pull ended; guessed */
};
/* Protocols by which a receiver takes a message from the sender's memory. PUT beside them in an announcement says that
 * the sender could write it. */
static const uint32_t PULLS = HK_TRANSPORT_MAP | HK_TRANSPORT_GET;

/* --- the sender ----------------------------------------------------------------------------------------------------
 */

/* What the receiver may do with the source: 0 unless it is one piece that the link can describe. A send that waits for
 * credit comes here again. */
static uint32_t describe(hki_channel *channel, hki_transfer *transfer, hki_announcement *announcement)
{
    uint32_t protocols = 0;
    if (transfer->describes) {
        announcement->remote = transfer->described;
        return transfer->protocols;
    }
    if (transfer->piece_count != 1 || !channel->ops->describe)
        return 0;
    if (channel->ops->describe(channel->link, transfer->pieces[0].iov_base, (size_t)transfer->bytes,
                               &announcement->remote, &protocols) != HK_TRANSPORT_OK)
        return 0;
    transfer->described = announcement->remote;
    transfer->describes = channel->ops->withdraw != NULL;
    if (transfer->bytes < channel->limits.get_bytes)
        protocols &= ~(uint32_t)HK_TRANSPORT_GET;
    return protocols & (PULLS | HK_TRANSPORT_PUT);
}

static bool ensure_token(hki_channel *channel, hki_transfer *transfer)
{
    if (!transfer->token)
        transfer->token = hki_token_new(channel->endpoint, transfer);
    return transfer->token != 0;
}

void hki_send_enlist(hki_channel *channel, hki_transfer *transfer, hki_node *list, hki_transfer_state state)
{
    if (transfer->state == HKI_TRANSFER_IDLE)
        hki_channel_interest(channel);
    hki_list_remove(&transfer->node);
    hki_list_append(list, &transfer->node);
    transfer->state = state;
}

static hki_grant grant_of(const hki_unexpected *record)
{
    return (hki_grant){.receiver_token = record->announcement.token,
                       .bytes = record->announcement.bytes,
                       .remote = record->announcement.remote};
}

/* A grant came before this send. True: it is being done as the grant says, and need not be announced. */
static bool use_grant(hki_channel *channel, hki_transfer *transfer, hki_unexpected *record)
{
    hki_grant grant = grant_of(record);
    if (!hki_put_start(channel, transfer, &grant)) {
        if (transfer->protocols & PULLS)
            return false;
        hki_stream_start(channel, transfer, grant.receiver_token, 0);
    }
    hki_unexpected_free(record);
    return true;
}

/* Sends the announcement, within the credit for announcements. */
static bool say(hki_channel *channel, hki_transfer *transfer, const hki_announcement *announcement)
{
    if (channel->announce_out >= HKI_ANNOUNCE_WINDOW ||
        channel->ops->send(channel->link, &transfer->frame, announcement, sizeof *announcement) == HK_TRANSPORT_AGAIN)
        return false;
    channel->announce_out++;
    return true;
}

/* A receiver of a known schedule that can but stream grants as soon as it has posted: no need to tell it first. */
static bool grant_will_come(const hki_channel *channel, const hki_transfer *transfer)
{
    return !transfer->point && !channel->ops->describe;
}

void hki_announce_late(hki_channel *channel)
{
    channel->unsaid = false;
    channel->unsaid_turns = 0;
    hki_list_each (node, &channel->announced) {
        hki_transfer *transfer = hki_list_entry(node, hki_transfer, node);
        if (!transfer->unsaid)
            continue;
        hki_announcement announcement = {.bytes = transfer->bytes, .token = transfer->token};
        transfer->unsaid = !say(channel, transfer, &announcement);
        channel->unsaid |= transfer->unsaid;
    }
}

void hki_msg_announce_all(hki_endpoint *endpoint)
{
    hki_list_each (node, &endpoint->polled) {
        hki_channel *channel = hki_list_entry(node, hki_channel, poll_node);
        if (channel->unsaid && !channel->lost)
            hki_announce_late(channel);
    }
}

/* Sends the beginning of a message that was announced just now, to be kept by the receiver if need be. */
static void send_head(hki_channel *channel, hki_transfer *transfer)
{
    uint64_t cost = HKI_HEAD_BYTES + HKI_EAGER_OVERHEAD;
    hk_frame frame = {.kind = HKI_FRAME_HEAD, .communicator = transfer->token};
    if (channel->ops->describe || transfer->piece_count != 1 || transfer->bytes < 2 * HKI_HEAD_BYTES ||
        channel->limits.piece_bytes < HKI_HEAD_BYTES || channel->eager_out + cost > HKI_HEAD_WINDOW ||
        channel->ops->send(channel->link, &frame, transfer->pieces[0].iov_base, HKI_HEAD_BYTES) != HK_TRANSPORT_OK)
        return;
    channel->eager_out += cost;
    transfer->moved = HKI_HEAD_BYTES;
    transfer->pieces_moved = 1;
}

/* A grant that came before the send that it is for. True unless it is for another call, which has been reported. */
static bool find_grant(hki_channel *channel, const hki_transfer *transfer, hki_unexpected **grant)
{
    *grant = NULL;
    if (!transfer->point && !hki_list_empty(&channel->unexpected))
        *grant = hki_unexpected_find(channel, &transfer->frame, true);
    if (!*grant || ((*grant)->frame.fingerprint == transfer->frame.fingerprint && (*grant)->bytes == transfer->bytes))
        return true;
    channel->endpoint->listener.mismatch(channel->endpoint->listener.context, channel, &(*grant)->frame);
    return false;
}

bool hki_announce(hki_channel *channel, hki_transfer *transfer)
{
    hki_announcement announcement = {.bytes = transfer->bytes};
    hki_unexpected *grant;
    if (!ensure_token(channel, transfer))
        return false;
    announcement.token = transfer->token;
    announcement.protocols = transfer->protocols = describe(channel, transfer, &announcement);
    if (!find_grant(channel, transfer, &grant))
        return false;
    if (grant && use_grant(channel, transfer, grant))
        return true;
    transfer->unsaid = grant_will_come(channel, transfer);
    if (transfer->unsaid)
        channel->unsaid = true;
    else if (!say(channel, transfer, &announcement))
        return false;
    if (grant)
        hki_unexpected_free(grant);
    hki_send_enlist(channel, transfer, &channel->announced, HKI_TRANSFER_ANNOUNCED);
    if (transfer->point)
        send_head(channel, transfer);
    return true;
}

void hki_stream_start(hki_channel *channel, hki_transfer *transfer, uint32_t receiver_token, uint64_t from)
{
    transfer->peer_token = receiver_token;
    transfer->moved = from;
    transfer->offset = (size_t)from;
    hki_send_enlist(channel, transfer, &channel->streams, HKI_TRANSFER_STREAMING);
    hki_channel_work(channel);
    while (transfer->state == HKI_TRANSFER_STREAMING && hki_stream_push(channel, transfer))
        ;
}

/* Sends one piece; true if it went. Ends the transfer with the last: its bytes lie in the transport then. */
bool hki_stream_push(hki_channel *channel, hki_transfer *transfer)
{
    const struct iovec *piece = &transfer->pieces[transfer->piece];
    size_t bytes = piece->iov_len - transfer->offset;
    if (bytes > channel->limits.piece_bytes)
        bytes = channel->limits.piece_bytes;
    hk_frame frame = {
        .kind = HKI_FRAME_DATA, .communicator = transfer->peer_token, .operation = transfer->pieces_moved};
    if (channel->ops->send(channel->link, &frame, (char *)piece->iov_base + transfer->offset, bytes) != HK_TRANSPORT_OK)
        return false;
    transfer->pieces_moved++;
    transfer->moved += bytes;
    transfer->offset += bytes;
    if (transfer->offset == piece->iov_len) {
        transfer->piece++;
        transfer->offset = 0;
    }
    if (transfer->moved == transfer->bytes)
        hki_transfer_end(transfer, HK_OK);
    return true;
}

static hki_transfer *find_announced(hki_channel *channel, const hk_frame *frame, uint32_t token)
{
    if (token) {
        hki_transfer *transfer = hki_token_find(channel->endpoint, token);
        return transfer && transfer->is_send && transfer->channel == channel ? transfer : NULL;
    }
    hki_list_each (node, &channel->announced) {
        hki_transfer *transfer = hki_list_entry(node, hki_transfer, node);
        if (!transfer->point && hki_same_key(&transfer->frame, frame))
            return transfer;
    }
    return NULL;
}

/* A grant for a send that this rank has not come to yet is kept until it does. */
static void keep_grant(hki_channel *channel, const hk_frame *frame, const hki_grant *grant)
{
    hki_listener *listener = &channel->endpoint->listener;
    hki_verdict verdict = listener->stray(listener->context, channel, frame);
    if (verdict == HKI_MISMATCH)
        listener->mismatch(listener->context, channel, frame);
    if (verdict != HKI_KEEP || channel->lost)
        return;
    hki_unexpected *record = hki_unexpected_new(channel, frame, 0);
    if (!record) {
        hki_channel_fail(channel, HK_ERR_NO_MEMORY, "no memory to keep a grant");
        return;
    }
    record->complete = true;
    record->bytes = grant->length;
    record->announcement.token = grant->receiver_token;
    record->announcement.bytes = grant->bytes;
    record->announcement.remote = grant->remote;
    hki_list_append(&channel->unexpected, &record->node);
}

void hki_on_grant(hki_channel *channel, const hk_frame *frame, const hki_grant *grant)
{
    hki_transfer *transfer = find_announced(channel, frame, grant->sender_token);
    if (!transfer) {
        if (!grant->sender_token)
            keep_grant(channel, frame, grant);
        return;
    }
    if (!transfer->point && (transfer->frame.fingerprint != frame->fingerprint || transfer->bytes != grant->length)) {
        channel->endpoint->listener.mismatch(channel->endpoint->listener.context, channel, frame);
        return;
    }
    if (transfer->state != HKI_TRANSFER_ANNOUNCED || (grant->bytes && hki_put_start(channel, transfer, grant)))
        return;
    if (grant->from > 0 && (transfer->piece_count != 1 || grant->from >= transfer->bytes))
        return;
    bool wants_stream = !(transfer->protocols & PULLS) || grant->sender_token != 0 || grant->bytes != 0;
    if (wants_stream)
        hki_stream_start(channel, transfer, grant->receiver_token, transfer->moved > 0 ? transfer->moved : grant->from);
}

void hki_on_done(hki_channel *channel, const hk_frame *frame)
{
    hki_transfer *transfer = hki_token_find(channel->endpoint, frame->communicator);
    if (transfer && transfer->is_send && transfer->channel == channel && transfer->state == HKI_TRANSFER_ANNOUNCED)
        hki_transfer_end(transfer, HK_OK);
}

/* --- the receiver --------------------------------------------------------------------------------------------------
 */

static void send_held(hki_endpoint *endpoint)
{
    hki_grant_batch *held = &endpoint->held;
    uint32_t count = held->count;
    held->count = 0;
    if (count > 0)
        hki_channel_control(held->channel, &held->frame, held->grant, count * sizeof *held->grant);
}

void hki_msg_release(hki_endpoint *endpoint)
{
    endpoint->holding = false;
    send_held(endpoint);
}

static void hold(hki_channel *channel, const hk_frame *frame, const hki_grant *grant)
{
    hki_grant_batch *held = &channel->endpoint->held;
    hk_frame alike = *frame;
    alike.ordinal = held->frame.ordinal;
    if (held->count == HKI_GRANTS || held->channel != channel || memcmp(&alike, &held->frame, sizeof alike) != 0)
        send_held(channel->endpoint);
    if (held->count == 0) {
        held->channel = channel;
        held->frame = *frame;
    }
    held->grant[held->count++] = *grant;
}

static void send_grant(hki_channel *channel, hki_transfer *transfer, hki_grant *grant)
{
    if (!ensure_token(channel, transfer)) {
        hki_error(HK_ERR_NO_MEMORY, "no memory for another message in flight");
        hki_transfer_end(transfer, HK_ERR_NO_MEMORY);
        return;
    }
    hk_frame frame = transfer->frame;
    frame.kind = HKI_FRAME_GRANT;
    grant->receiver_token = transfer->token;
    grant->ordinal = frame.ordinal;
    grant->length = transfer->bytes;
    grant->credit = (uint32_t)channel->eager_owed;
    channel->eager_owed = 0;
    transfer->granted = true;
    if (channel->endpoint->holding && !grant->sender_token)
        hold(channel, &frame, grant);
    else
        hki_channel_control(channel, &frame, grant, sizeof *grant);
}

/* A stream may come. */
static void grant_stream(hki_channel *channel, hki_transfer *transfer, uint32_t sender_token)
{
    hki_grant grant = {.sender_token = sender_token, .from = transfer->moved};
    send_grant(channel, transfer, &grant);
}

/* The sender may write the message itself, where that is possible. */
static bool grant_put(hki_channel *channel, hki_transfer *transfer, uint32_t sender_token)
{
    hki_grant grant = {.sender_token = sender_token};
    if (!hki_put_offer(channel, transfer, &grant))
        return false;
    send_grant(channel, transfer, &grant);
    return true;
}

void hki_grant_early(hki_channel *channel, hki_transfer *transfer)
{
    if (!grant_put(channel, transfer, 0) && !channel->peer_pulls)
        grant_stream(channel, transfer, 0);
}

static void start_pull(hki_channel *channel, hki_transfer *transfer, const hki_announcement *announcement)
{
    transfer->state = HKI_TRANSFER_PULLING;
    transfer->peer_token = announcement->token;
    transfer->remote = announcement->remote;
    transfer->protocols = announcement->protocols;
    transfer->sink.streaming = transfer->bytes >= STREAMED_STORE_BYTES;
    channel->endpoint->pulling++;
    channel->peer_pulls = true;
    hki_list_remove(&transfer->node);
    hki_list_append(&channel->receiving, &transfer->node);
}

/* The receive has been matched with an announcement: have it written, pull it or have it streamed. */
void hki_accept_announcement(hki_channel *channel, hki_transfer *transfer, const hki_announcement *announcement)
{
    if (transfer->put_granted)
        return; /* the sender does as the grant says */
    if ((announcement->protocols & HK_TRANSPORT_PUT) && grant_put(channel, transfer, announcement->token))
        return;
    if (announcement->protocols & PULLS) {
        start_pull(channel, transfer, announcement);
        return;
    }
    channel->peer_pulls = false;
    transfer->peer_token = announcement->token; /* its head may follow */
    if (!transfer->granted || transfer->point)
        grant_stream(channel, transfer, announcement->token);
}

/* No way of pulling works (any more): the sender is asked to stream the rest. If it has given up and withdrawn its
 * memory, it does not, and its abort is on its way. */
static void fall_back(hki_channel *channel, hki_transfer *transfer)
{
    transfer->state = HKI_TRANSFER_POSTED;
    channel->endpoint->pulling--;
    channel->peer_pulls = false;
    grant_stream(channel, transfer, transfer->peer_token);
}

static void end_pull(hki_channel *channel, hki_transfer *transfer)
{
    /* The sender may have given up meanwhile and used its buffer again; then its abort lies in the FIFO by now, and
     * dealing with it cancels this receive. */
    uint32_t token = ensure_token(channel, transfer) ? transfer->token : 0;
    for (int turn = 0; turn < TURNS_BEFORE_THE_END && hki_channel_drain(channel); turn++)
        ;
    if (token && hki_token_find(channel->endpoint, token) != transfer)
        return;
    hk_frame frame = {.kind = HKI_FRAME_DONE, .communicator = transfer->peer_token};
    hki_channel_control(channel, &frame, NULL, 0);
    hki_transfer_end(transfer, HK_OK);
}

unsigned char *hki_bounce_buffer(hki_endpoint *endpoint)
{
    if (!endpoint->bounce)
        endpoint->bounce = malloc(HKI_PULL_PIECE);
    return endpoint->bounce;
}

/* Copies the next piece by `get`: straight to its place, or through the bounce buffer into the reduction. */
static hk_transport_result get_piece(hki_channel *channel, hki_transfer *transfer, size_t bytes)
{
    void *where = NULL;
    size_t direct = hki_sink_direct(&transfer->sink, &where);
    if (direct) {
        if (bytes > direct)
            bytes = direct;
    } else {
        where = hki_bounce_buffer(channel->endpoint);
        if (!where)
            return HK_TRANSPORT_REFUSED;
    }
    hk_transport_result result = channel->ops->get(channel->link, &transfer->remote, transfer->moved, where, bytes);
    if (result != HK_TRANSPORT_OK)
        return result;
    if (direct)
        hki_sink_advance(&transfer->sink, bytes);
    else
        hki_sink_feed(&transfer->sink, where, bytes);
    transfer->moved += bytes;
    return HK_TRANSPORT_OK;
}

static hk_transport_result map_piece(hki_channel *channel, hki_transfer *transfer, size_t bytes)
{
    if (!transfer->mapped) {
        const void *memory = NULL;
        hk_transport_result result =
            channel->ops->map(channel->link, &transfer->remote, (size_t)transfer->bytes, &memory);
        if (result != HK_TRANSPORT_OK)
            return result;
        transfer->mapped = memory;
    }
    hki_sink_feed(&transfer->sink, transfer->mapped + transfer->moved, bytes);
    transfer->moved += bytes;
    return HK_TRANSPORT_OK;
}

bool hki_pull_advance(hki_channel *channel, hki_transfer *transfer)
{
    uint64_t left = transfer->bytes - transfer->moved;
    size_t bytes = left < HKI_PULL_PIECE ? (size_t)left : HKI_PULL_PIECE;
    bool mapping = (transfer->protocols & HK_TRANSPORT_MAP) != 0;
    hk_transport_result result = mapping ? map_piece(channel, transfer, bytes) : get_piece(channel, transfer, bytes);
    if (result == HK_TRANSPORT_AGAIN)
        return false;
    if (result == HK_TRANSPORT_LOST) {
        hki_channel_check(channel);
        return true;
    }
    if (result == HK_TRANSPORT_REFUSED) {
        transfer->protocols &= mapping ? (uint32_t)HK_TRANSPORT_GET : 0u;
        if (!(transfer->protocols & PULLS))
            fall_back(channel, transfer);
        return true;
    }
    if (transfer->moved == transfer->bytes)
        end_pull(channel, transfer);
    return true;
}

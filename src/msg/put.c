/* Puts: the receiver says where its memory is, and the sender's hardware writes there. */
#include "msg/internal.h"

#include <sched.h>
#include <string.h>

/* ---- the receiver ---- */

bool hki_put_offer(hki_channel *channel, hki_transfer *transfer, hki_grant *grant)
{
    void *where = NULL;
    uint32_t protocols = HK_TRANSPORT_PUT;
    if (!(channel->limits.capabilities & HK_TRANSPORT_PUT) || transfer->truncated || transfer->describes ||
        hki_sink_direct(&transfer->sink, &where) < transfer->bytes)
        return false;
    if (channel->ops->describe(channel->link, where, (size_t)transfer->bytes, &transfer->described, &protocols) !=
        HK_TRANSPORT_OK)
        return false;
    transfer->describes = transfer->put_granted = true;
    grant->bytes = transfer->bytes;
    grant->remote = transfer->described;
    return true;
}

void hki_on_put(hki_channel *channel, const hk_frame *frame)
{
    hki_transfer *transfer = hki_token_find(channel->endpoint, frame->communicator);
    if (!transfer || transfer->is_send || transfer->channel != channel || !transfer->put_granted ||
        transfer->state != HKI_TRANSFER_POSTED)
        return; /* its receive was cancelled */
    transfer->moved = transfer->bytes;
    hki_sink_advance(&transfer->sink, (size_t)transfer->bytes);
    hki_transfer_end(transfer, HK_OK);
}

/* ---- the sender ---- */

/* Does what can be done for one put; true when it is over, one way or the other. */
static bool advance(hki_channel *channel, hki_transfer *transfer)
{
    hk_transport_result result = HK_TRANSPORT_AGAIN;
    if (!transfer->put) {
        hk_frame frame = {.kind = HKI_FRAME_PUT, .communicator = transfer->peer_token};
        result = channel->ops->put(channel->link, &transfer->remote, 0, transfer->pieces[0].iov_base,
                                   (size_t)transfer->bytes, &frame);
        if (result == HK_TRANSPORT_OK)
            transfer->put = ++channel->puts;
    }
    if (transfer->put)
        result = channel->ops->put_result(channel->link, transfer->put);
    if (result == HK_TRANSPORT_OK) {
        transfer->moved = transfer->bytes;
        hki_transfer_end(transfer, HK_OK);
    } else if (result == HK_TRANSPORT_REFUSED) {
        transfer->put = 0;
        hki_stream_start(channel, transfer, transfer->peer_token, 0);
    }
    return result != HK_TRANSPORT_AGAIN; /* a lost link ends the transfer when it is looked at */
}

bool hki_put_start(hki_channel *channel, hki_transfer *transfer, const hki_grant *grant)
{
    if (!(channel->limits.capabilities & HK_TRANSPORT_PUT) || grant->bytes != transfer->bytes ||
        transfer->piece_count != 1)
        return false;
    transfer->peer_token = grant->receiver_token;
    transfer->remote = grant->remote;
    transfer->put = 0;
    hki_send_enlist(channel, transfer, &channel->putting, HKI_TRANSFER_PUTTING);
    hki_channel_work(channel);
    advance(channel, transfer);
    return true;
}

void hki_put_advance(hki_channel *channel)
{
    hki_node *first = NULL; /* one that stays at the head is as far as it gets; they end in order */
    while (!hki_list_empty(&channel->putting) && channel->putting.next != first) {
        first = channel->putting.next;
        if (!advance(channel, hki_list_entry(first, hki_transfer, node)))
            break;
    }
}

void hki_put_quiet(hki_channel *channel, const hki_transfer *transfer)
{
    enum { TURNS_BEFORE_YIELD = 64 };
    for (uint32_t turn = 1; transfer->put; turn++) {
        if (channel->ops->put_result(channel->link, transfer->put) != HK_TRANSPORT_AGAIN)
            return;
        if (turn % TURNS_BEFORE_YIELD == 0) /* the peer, whose hardware or process this waits for, may need the core */
            sched_yield();
    }
}

/* What the files of the message layer share; nobody else includes it. */
#ifndef HKI_MSG_INTERNAL_H
#define HKI_MSG_INTERNAL_H

#include "msg/msg.h"

static inline bool hki_same_key(const hk_frame *a, const hk_frame *b)
{
    return a->operation == b->operation && a->communicator == b->communicator && a->ordinal == b->ordinal;
}

/* Tokens name a transfer in frames; a stale or forged one finds nothing. */
uint32_t hki_token_new(hki_endpoint *endpoint, hki_transfer *transfer); /* 0: out of memory */
void hki_token_free(hki_endpoint *endpoint, uint32_t token);
hki_transfer *hki_token_find(const hki_endpoint *endpoint, uint32_t token);

/* Interest: while it is held the channel is polled. */
void hki_channel_interest(hki_channel *channel);
static inline void hki_channel_disinterest(hki_channel *channel)
{
    channel->interest--;
}
/* Something waits to be sent on the channel. */
void hki_channel_work(hki_channel *channel);
void hki_channel_flush(hki_channel *channel);
void hki_channel_fail(hki_channel *channel, hk_status status, const char *reason);
/* Takes what arrived before the link ended, if it has, and then fails what needs it. */
void hki_channel_check(hki_channel *channel);

/* Returns the credit that a kept message took, once. */
void hki_unexpected_repay(hki_unexpected *unexpected);

/* Ends a transfer: lists, token, sink; then calls done. */
void hki_transfer_end(hki_transfer *transfer, hk_status status);

/* Sends or queues the first frame of a transfer. */
void hki_transfer_start_send(hki_channel *channel, hki_transfer *transfer);
bool hki_transfer_try_send(hki_channel *channel, hki_transfer *transfer);

/* Rendezvous. */
bool hki_announce(hki_channel *channel, hki_transfer *transfer);
void hki_accept_announcement(hki_channel *channel, hki_transfer *transfer, const hki_announcement *announcement);
/* Announces what waits for a grant that does not come. */
void hki_announce_late(hki_channel *channel);
void hki_grant_early(hki_channel *channel, hki_transfer *transfer);
void hki_on_grant(hki_channel *channel, const hk_frame *frame, const hki_grant *grant);
void hki_on_done(hki_channel *channel, const hk_frame *frame);
/* Sends DATA from byte `from` on, which is 0 unless the message is in one piece. */
void hki_stream_start(hki_channel *channel, hki_transfer *transfer, uint32_t receiver_token, uint64_t from);
/* At the receiver: so many bytes of the message are about to be read. */
void hki_stream_expect(hki_channel *channel, hki_transfer *transfer, uint64_t bytes);
bool hki_stream_push(hki_channel *channel, hki_transfer *transfer);
bool hki_pull_advance(hki_channel *channel, hki_transfer *transfer);
/* Puts (put.c). Describes a copying receive's destination into the grant; false: the peer cannot write there. */
bool hki_put_offer(hki_channel *channel, hki_transfer *transfer, hki_grant *grant);
/* The receiver has granted that its memory be written. False: the grant does not fit this message. */
bool hki_put_start(hki_channel *channel, hki_transfer *transfer, const hki_grant *grant);
/* Begins puts that found no room, and ends those that are done. */
void hki_put_advance(hki_channel *channel);
/* Waits until the source is not read any more: a moment, or until the hardware gives the peer up. */
void hki_put_quiet(hki_channel *channel, const hki_transfer *transfer);
void hki_on_put(hki_channel *channel, const hk_frame *frame);
/* Moves a send that is IDLE or waits into one of the channel's lists. */
void hki_send_enlist(hki_channel *channel, hki_transfer *transfer, hki_node *list, hki_transfer_state state);
/* HKI_PULL_PIECE bytes for whatever passes through on its way into a reduction; NULL: no memory. */
unsigned char *hki_bounce_buffer(hki_endpoint *endpoint);

/* Gives a record that came early to the receive that asks for it; ends it if it is whole. */
void hki_give_unexpected(hki_unexpected *unexpected, hki_transfer *transfer);
hki_unexpected *hki_unexpected_new(hki_channel *channel, const hk_frame *frame, uint64_t bytes);
void hki_unexpected_free(hki_unexpected *unexpected);
hki_unexpected *hki_unexpected_find(hki_channel *channel, const hk_frame *frame, bool grant);

/* Point-to-point arrivals. */
hki_matcher *hki_matcher_find(hki_endpoint *endpoint, uint32_t communicator);
hki_transfer *hki_point_match(hki_matcher *matcher, hki_channel *channel, int tag);
void hki_point_take(hki_transfer *transfer, hki_channel *channel, const hk_frame *frame, uint64_t bytes);

#endif

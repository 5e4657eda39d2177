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
void hki_grant_early(hki_channel *channel, hki_transfer *transfer);
void hki_on_grant(hki_channel *channel, const hk_frame *frame, const hki_grant *grant);
void hki_on_done(hki_channel *channel, const hk_frame *frame);
void hki_stream_start(hki_channel *channel, hki_transfer *transfer, uint32_t receiver_token);
bool hki_stream_push(hki_channel *channel, hki_transfer *transfer);
bool hki_pull_advance(hki_channel *channel, hki_transfer *transfer);
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
bool hki_endpoint_freed(const hki_endpoint *endpoint, uint32_t communicator);

#endif

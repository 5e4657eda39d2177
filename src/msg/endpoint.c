/* Endpoints and channels: memory, tokens, credits, control frames, and the turn of progress. */
#include "msg/internal.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

enum {
    DOORBELL_TURNS = 16,
    UNSAID_TURNS = 64,             /* of polling a peer in vain for a grant, until it is announced what for; guessed */
    STUCK_NANOSECONDS = 1000000000 /* a process without a core takes frames again within a second: 200 ms were too
                                    * short with ten processes a core */
};

hk_status hki_endpoint_open(hki_endpoint *endpoint, uint32_t ranks, uint32_t self, const hki_listener *listener)
{
    memset(endpoint, 0, sizeof *endpoint);
    endpoint->ranks = ranks;
    endpoint->self = self;
    endpoint->listener = *listener;
    hki_list_init(&endpoint->polled);
    hki_list_init(&endpoint->working);
    hki_list_init(&endpoint->matchers);
    hki_list_init(&endpoint->spare);
    endpoint->channels = calloc(ranks, sizeof *endpoint->channels);
    if (!endpoint->channels)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for %u channels", ranks);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        hki_channel *channel = &endpoint->channels[rank];
        channel->endpoint = endpoint;
        channel->rank = rank;
        channel->credit_step = HKI_EAGER_WINDOW / 4;
        channel->self = rank == self;
        hki_node *lists[] = {&channel->poll_node, &channel->work_node, &channel->controls, &channel->queued,
                             &channel->announced, &channel->streams,   &channel->putting,  &channel->posted,
                             &channel->receiving, &channel->unexpected};
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
            hki_list_init(lists[i]);
    }
    return HK_OK;
}

static void free_records(hki_node *head)
{
    hki_list_each_safe (node, following, head)
        hki_unexpected_free(hki_list_entry(node, hki_unexpected, node));
}

static void free_controls(hki_channel *channel)
{
    hki_list_each_safe (node, following, &channel->controls) {
        hki_list_remove(node);
        free(hki_list_entry(node, hki_control, node));
    }
}

void hki_endpoint_close(hki_endpoint *endpoint)
{
    if (!endpoint->spare.next)
        return; /* never opened */
    for (uint32_t rank = 0; endpoint->channels && rank < endpoint->ranks; rank++) {
        free_records(&endpoint->channels[rank].unexpected);
        free_controls(&endpoint->channels[rank]);
    }
    hki_list_each_safe (node, following, &endpoint->spare) {
        hki_list_remove(node);
        free(hki_list_entry(node, hki_transfer, node));
    }
    free(endpoint->channels);
    free(endpoint->tokens);
    free(endpoint->token_generation);
    free(endpoint->token_next);
    free(endpoint->bounce);
    memset(endpoint, 0, sizeof *endpoint);
}

void hki_endpoint_disown(hki_endpoint *endpoint)
{
    for (uint32_t rank = 0; rank < endpoint->ranks; rank++)
        endpoint->channels[rank].lost = true;
}

void hki_endpoint_add_transport(hki_endpoint *endpoint, const hk_transport_ops *ops, hk_transport *transport)
{
    endpoint->transports[endpoint->transport_count] = ops;
    endpoint->instances[endpoint->transport_count++] = transport;
}

void hki_channel_attach(hki_channel *channel, const hk_transport_ops *ops, hk_link *link,
                        const hk_transport_limits *limits)
{
    channel->ops = ops;
    channel->link = link;
    channel->limits = *limits;
    channel->eager_limit = limits->eager_bytes;
    if (channel->endpoint->eager_setting && channel->endpoint->eager_setting < channel->eager_limit)
        channel->eager_limit = channel->endpoint->eager_setting;
    if (channel->eager_limit > HKI_EAGER_WINDOW / 2)
        channel->eager_limit = HKI_EAGER_WINDOW / 2;
    /* Credit costs a frame, so it goes back as rarely as leaves the peer enough for the largest message it may send:
     * over TCP, 64 KiB between two ranks took 15.3 µs, against 19.1 with a frame for each message. */
    channel->credit_step = limits->eager_bytes <= HKI_EAGER_WINDOW / 4 ? HKI_EAGER_WINDOW / 2 : HKI_EAGER_WINDOW / 4;
}

/* --- tokens: index + 1 in the low 20 bits, generation above ----------------------------------------------------- */

enum { TOKEN_BITS = 20, TOKEN_MASK = (1 << TOKEN_BITS) - 1 };

static bool grow_tokens(hki_endpoint *endpoint)
{
    uint32_t count = endpoint->token_count ? endpoint->token_count * 2 : 64;
    if (count > TOKEN_MASK)
        return false;
    hki_transfer **tokens = realloc(endpoint->tokens, count * sizeof *tokens);
    if (tokens)
        endpoint->tokens = tokens;
    uint16_t *generation = realloc(endpoint->token_generation, count * sizeof *generation);
    if (generation)
        endpoint->token_generation = generation;
    uint32_t *next = realloc(endpoint->token_next, count * sizeof *next);
    if (next)
        endpoint->token_next = next;
    if (!tokens || !generation || !next)
        return false;
    for (uint32_t i = endpoint->token_count; i < count; i++) {
        tokens[i] = NULL;
        generation[i] = 0;
        next[i] = i + 1 < count ? i + 2 : 0; /* free list of index + 1; 0 ends it */
    }
    endpoint->token_free = endpoint->token_count + 1;
    endpoint->token_count = count;
    return true;
}

uint32_t hki_token_new(hki_endpoint *endpoint, hki_transfer *transfer)
{
    if (!endpoint->token_free && !grow_tokens(endpoint))
        return 0;
    uint32_t slot = endpoint->token_free;
    endpoint->token_free = endpoint->token_next[slot - 1];
    endpoint->tokens[slot - 1] = transfer;
    return slot | (uint32_t)endpoint->token_generation[slot - 1] << TOKEN_BITS;
}

void hki_token_free(hki_endpoint *endpoint, uint32_t token)
{
    uint32_t slot = token & TOKEN_MASK;
    if (!slot)
        return;
    endpoint->tokens[slot - 1] = NULL;
    endpoint->token_generation[slot - 1] = (uint16_t)((endpoint->token_generation[slot - 1] + 1) & 0xfff);
    endpoint->token_next[slot - 1] = endpoint->token_free;
    endpoint->token_free = slot;
}

hki_transfer *hki_token_find(const hki_endpoint *endpoint, uint32_t token)
{
    uint32_t slot = token & TOKEN_MASK;
    if (!slot || slot > endpoint->token_count || endpoint->token_generation[slot - 1] != token >> TOKEN_BITS)
        return NULL;
    return endpoint->tokens[slot - 1];
}

/* --- transfers --------------------------------------------------------------------------------------------------- */

hki_transfer *hki_transfer_new(hki_endpoint *endpoint)
{
    hki_transfer *transfer;
    if (hki_list_empty(&endpoint->spare)) {
        transfer = malloc(sizeof *transfer);
        if (!transfer)
            return NULL;
    } else {
        transfer = hki_list_entry(endpoint->spare.next, hki_transfer, node);
        hki_list_remove(&transfer->node);
    }
    memset(transfer, 0, sizeof *transfer);
    hki_list_init(&transfer->node);
    transfer->sink.divisor = 1;
    return transfer;
}

void hki_transfer_release(hki_endpoint *endpoint, hki_transfer *transfer)
{
    hki_list_append(&endpoint->spare, &transfer->node);
}

/* The head is being read into a transfer that ends before it: what is still to come of it is dropped. An eager message
 * (a stream is in another state by now) has taken credit, which goes back here. */
static void skip_rest(hki_channel *channel, const hki_transfer *transfer)
{
    channel->reading = NULL;
    channel->skipping = true;
    if (transfer->state == HKI_TRANSFER_POSTED)
        hki_channel_owe(channel, transfer->moved + HKI_EAGER_OVERHEAD, 0);
}

/* The peer needs this rank's memory no longer, or shall not: when this returns, no hardware touches it any more. */
static void withdraw(hki_transfer *transfer, bool complete)
{
    hki_channel *channel = transfer->channel;
    if (transfer->state == HKI_TRANSFER_PUTTING)
        hki_put_quiet(channel, transfer);
    if (transfer->describes)
        channel->ops->withdraw(channel->link, &transfer->described, transfer->put_granted && !complete);
    transfer->describes = transfer->put_granted = false;
}

/* Takes a transfer out of whatever it is in. */
static void detach(hki_endpoint *endpoint, hki_transfer *transfer, bool complete)
{
    withdraw(transfer, complete);
    hki_list_remove(&transfer->node);
    hki_token_free(endpoint, transfer->token);
    transfer->token = 0;
    if (transfer->state == HKI_TRANSFER_PULLING)
        endpoint->pulling--;
    if (transfer->state != HKI_TRANSFER_IDLE && !transfer->channel)
        endpoint->any_source--;
    else if (transfer->state != HKI_TRANSFER_IDLE && !transfer->channel->self)
        hki_channel_disinterest(transfer->channel);
    if (transfer->channel && transfer->channel->reading == transfer)
        skip_rest(transfer->channel, transfer);
    hki_sink_close(&transfer->sink);
}

void hki_transfer_end(hki_transfer *transfer, hk_status status)
{
    hki_endpoint *endpoint = transfer->channel ? transfer->channel->endpoint : transfer->matcher->endpoint;
    detach(endpoint, transfer, status == HK_OK);
    transfer->state = HKI_TRANSFER_DONE;
    if (status == HK_OK && transfer->sink.failed)
        status = HK_ERR_NO_MEMORY;
    if (status == HK_OK && transfer->truncated)
        status = HK_ERR_TRUNCATED;
    transfer->done(transfer, status);
}

void hki_msg_cancel(hki_endpoint *endpoint, hki_transfer *transfer)
{
    if (transfer->state == HKI_TRANSFER_DONE || transfer->state == HKI_TRANSFER_IDLE)
        return;
    if (transfer->channel && transfer->channel->self && transfer->is_send) {
        /* A message to oneself that nobody took lies in the matcher as a record that points here. */
        hki_list_each_safe (node, following, &transfer->matcher->unexpected) {
            hki_unexpected *record = hki_list_entry(node, hki_unexpected, node);
            if (record->own == transfer)
                hki_unexpected_free(record);
        }
    }
    detach(endpoint, transfer, false);
    transfer->state = HKI_TRANSFER_DONE;
}

/* --- interest, work, credit -------------------------------------------------------------------------------------- */

void hki_channel_interest(hki_channel *channel)
{
    if (channel->interest++ == 0 && !channel->polled && !channel->self) {
        channel->polled = true;
        hki_list_append(&channel->endpoint->polled, &channel->poll_node);
    }
}

void hki_channel_work(hki_channel *channel)
{
    if (hki_list_empty(&channel->work_node))
        hki_list_append(&channel->endpoint->working, &channel->work_node);
}

static bool flush_controls(hki_channel *channel)
{
    while (!hki_list_empty(&channel->controls)) {
        hki_control *control = hki_list_entry(channel->controls.next, hki_control, node);
        if (channel->ops->send(channel->link, &control->frame, control->data, control->bytes) == HK_TRANSPORT_AGAIN)
            return false;
        hki_list_remove(&control->node);
        free(control);
        channel->full_since = hki_now();
    }
    return true;
}

hk_status hki_channel_control(hki_channel *channel, const hk_frame *frame, const void *data, size_t bytes)
{
    if (channel->self || channel->lost)
        return HK_OK;
    if (hki_list_empty(&channel->controls) &&
        channel->ops->send(channel->link, frame, data, bytes) != HK_TRANSPORT_AGAIN)
        return HK_OK;
    hki_control *control = malloc(sizeof *control + bytes);
    if (!control)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a control frame");
    control->frame = *frame;
    control->bytes = bytes;
    if (bytes)
        memcpy(control->data, data, bytes);
    if (hki_list_empty(&channel->controls))
        channel->full_since = hki_now();
    hki_list_append(&channel->controls, &control->node);
    hki_channel_work(channel);
    return HK_OK;
}

void hki_channel_owe(hki_channel *channel, uint64_t eager_bytes, uint32_t announcements)
{
    channel->eager_owed += eager_bytes;
    channel->announce_owed += announcements;
    if (channel->eager_owed < channel->credit_step && channel->announce_owed < HKI_ANNOUNCE_WINDOW / 4)
        return;
    hk_frame frame = {
        .kind = HKI_FRAME_CREDIT, .communicator = (uint32_t)channel->eager_owed, .operation = channel->announce_owed};
    if (hki_channel_control(channel, &frame, NULL, 0) == HK_OK)
        channel->eager_owed = channel->announce_owed = 0;
}

static bool is_eager(const hki_unexpected *record)
{
    return record->frame.kind == HKI_FRAME_EAGER || record->frame.kind == HKI_FRAME_POINT_EAGER;
}

static uint64_t eager_cost(const hki_unexpected *record)
{
    if (is_eager(record))
        return record->bytes + HKI_EAGER_OVERHEAD;
    return record->head ? HKI_HEAD_BYTES + HKI_EAGER_OVERHEAD : 0;
}

void hki_unexpected_repay(hki_unexpected *record)
{
    if (record->repaid || record->channel->self || record->frame.kind == HKI_FRAME_GRANT)
        return;
    record->repaid = true;
    hki_channel_owe(record->channel, eager_cost(record), !is_eager(record));
}

/* Credit that messages of the channel in a list hold; with `repay` it goes back. */
static void count_credit(hki_node *list, const hki_channel *channel, bool repay, uint64_t *bytes, uint32_t *announced)
{
    hki_list_each (node, list) {
        hki_unexpected *record = hki_list_entry(node, hki_unexpected, node);
        if (record->channel != channel || record->repaid || !record->complete || record->frame.kind == HKI_FRAME_GRANT)
            continue;
        *bytes += eager_cost(record);
        *announced += !is_eager(record);
        if (repay)
            hki_unexpected_repay(record);
    }
}

void hki_channel_relieve(hki_channel *channel)
{
    for (int repay = 0; repay < 2 && !channel->self && !channel->lost; repay++) {
        uint64_t bytes = channel->eager_owed;
        uint32_t announced = channel->announce_owed;
        count_credit(&channel->unexpected, channel, repay, &bytes, &announced);
        hki_list_each (node, &channel->endpoint->matchers)
            count_credit(&hki_list_entry(node, hki_matcher, node)->unexpected, channel, repay, &bytes, &announced);
        if (bytes < HKI_EAGER_WINDOW / 4 && announced < HKI_ANNOUNCE_WINDOW / 4)
            return; /* there is enough left for any message */
    }
}

void hki_channel_flush(hki_channel *channel)
{
    if (channel->lost)
        return;
    hki_put_advance(channel);
    if (channel->lost || !flush_controls(channel))
        return;
    while (!hki_list_empty(&channel->queued)) {
        if (!hki_transfer_try_send(channel, hki_list_entry(channel->queued.next, hki_transfer, node)))
            break;
    }
    bool moved = true;
    while (moved && !hki_list_empty(&channel->streams)) {
        moved = false;
        hki_list_each_safe (node, following, &channel->streams) {
            moved |= hki_stream_push(channel, hki_list_entry(node, hki_transfer, node));
        }
    }
    if (hki_list_empty(&channel->controls) && hki_list_empty(&channel->queued) && hki_list_empty(&channel->streams) &&
        hki_list_empty(&channel->putting))
        hki_list_remove(&channel->work_node);
}

bool hki_msg_busy(const hki_endpoint *endpoint, uint64_t now)
{
    for (const hki_node *node = endpoint->working.next; node != &endpoint->working; node = node->next) {
        const hki_channel *channel = hki_list_entry(node, hki_channel, work_node);
        if (!hki_list_empty(&channel->controls) && (int64_t)(now - channel->full_since) < STUCK_NANOSECONDS)
            return true;
    }
    return false;
}

/* --- failure ----------------------------------------------------------------------------------------------------- */

static void fail_list(hki_node *head, hk_status status)
{
    while (!hki_list_empty(head))
        hki_transfer_end(hki_list_entry(head->next, hki_transfer, node), status);
}

/* Ranks that have no link to the lost one learn of it by the transports that watch. */
static void report_lost(hki_channel *channel)
{
    hki_endpoint *endpoint = channel->endpoint;
    for (uint32_t i = 0; i < endpoint->transport_count; i++) {
        const hk_transport_ops *ops = endpoint->transports[i];
        if (ops->report_lost && ops->report_lost(endpoint->instances[i], channel->rank))
            endpoint->news_spreads = true;
    }
}

void hki_channel_fail(hki_channel *channel, hk_status status, const char *reason)
{
    if (channel->lost)
        return;
    channel->lost = true;
    if (status == HK_ERR_PEER_LOST && !channel->departed)
        report_lost(channel);
    channel->eager_out = HKI_EAGER_WINDOW;
    channel->reading = NULL;
    if (channel->reading_unexpected) /* it will never be whole */
        hki_unexpected_free(channel->reading_unexpected);
    channel->skipping = false;
    hki_list_remove(&channel->work_node);
    free_controls(channel);
    hki_error(status, "%s", reason);
    fail_list(&channel->queued, status);
    fail_list(&channel->announced, status);
    fail_list(&channel->streams, status);
    fail_list(&channel->putting, status);
    fail_list(&channel->posted, status);
    fail_list(&channel->receiving, status);
    hki_list_each (matcher_node, &channel->endpoint->matchers) {
        hki_matcher *matcher = hki_list_entry(matcher_node, hki_matcher, node);
        hki_list_each_safe (node, following, &matcher->posted) {
            hki_transfer *transfer = hki_list_entry(node, hki_transfer, node);
            if (transfer->channel == channel)
                hki_transfer_end(transfer, status);
        }
    }
    channel->endpoint->listener.lost(channel->endpoint->listener.context, channel, status, reason);
}

/* What arrived before the peer left can still be taken; then nothing more will come. */
void hki_channel_check(hki_channel *channel)
{
    if (channel->lost || !channel->link)
        return;
    const char *reason = "connection lost";
    hk_link_state state = channel->ops->link_state(channel->link, &reason);
    if (state != HK_LINK_GOODBYE && state != HK_LINK_LOST)
        return;
    while (hki_channel_drain(channel))
        ;
    hk_arrival arrival;
    if (channel->lost || channel->ops->peek(channel->link, &arrival) == HK_TRANSPORT_OK)
        return;
    channel->departed = state == HK_LINK_GOODBYE;
    hki_channel_fail(channel, HK_ERR_PEER_LOST, reason);
}

void hki_msg_check(hki_endpoint *endpoint)
{
    for (uint32_t i = 0; i < endpoint->transport_count; i++)
        endpoint->transports[i]->check(endpoint->instances[i]);
    for (uint32_t rank = 0; rank < endpoint->ranks; rank++)
        hki_channel_check(&endpoint->channels[rank]);
}

/* --- progress ---------------------------------------------------------------------------------------------------- */

static bool look_at_doorbells(hki_endpoint *endpoint)
{
    bool any = false;
    uint32_t ranks[64];
    for (uint32_t i = 0; i < endpoint->transport_count; i++) {
        size_t count = endpoint->transports[i]->poll(endpoint->instances[i], ranks, 64);
        for (size_t k = 0; k < count; k++) {
            if (ranks[k] < endpoint->ranks)
                any |= hki_channel_drain(&endpoint->channels[ranks[k]]);
        }
    }
    return any;
}

static bool advance_pulls(hki_channel *channel)
{
    hki_list_each (node, &channel->receiving) {
        hki_transfer *transfer = hki_list_entry(node, hki_transfer, node);
        if (transfer->state == HKI_TRANSFER_PULLING && hki_pull_advance(channel, transfer))
            return true; /* its end may have ended others of the list: no further */
    }
    return false;
}

bool hki_msg_progress(hki_endpoint *endpoint)
{
    bool any = false;
    hki_list_each_safe (node, following, &endpoint->polled) {
        hki_channel *channel = hki_list_entry(node, hki_channel, poll_node);
        if (channel->interest == 0) {
            channel->polled = false;
            hki_list_remove(node);
            continue;
        }
        any |= hki_channel_drain(channel);
        if (channel->unsaid && !channel->lost && ++channel->unsaid_turns > UNSAID_TURNS)
            hki_announce_late(channel);
        if (endpoint->pulling)
            any |= advance_pulls(channel);
    }
    hki_list_each_safe (work, next_work, &endpoint->working) {
        hki_channel_flush(hki_list_entry(work, hki_channel, work_node));
    }
    if (endpoint->turns++ % DOORBELL_TURNS == 0 || endpoint->any_source)
        any |= look_at_doorbells(endpoint);
    return any;
}

/*
 * Large messages point-to-point over a transport that can but stream: their beginning follows the announcement within
 * the credit for eager bytes, and ends up in its place whether the receive was posted before, after, between or never.
 */
#include "msg/msg.h"
#include "tests/unit/scripted_link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { LARGE = 3 * HKI_HEAD_BYTES + 1000, COMMUNICATOR = 7, TAG = 5, TOKEN = 77 };

typedef struct scene {
    hki_endpoint endpoint;
    hki_channel *channel;
    hki_matcher matcher;
    hk_link link;
    unsigned char sent[LARGE], received[LARGE];
    hki_announcement announcement;
    int ended;
    hk_status status;
} scene;

static void on_loss(void *context, hki_channel *channel, hk_status status, const char *reason)
{
    (void)context, (void)channel, (void)status, (void)reason;
}

static void begin(scene *s)
{
    memset(s, 0, sizeof *s);
    const hki_listener listener = {.context = s, .lost = on_loss};
    const hk_transport_limits limits = {.eager_bytes = 65536, .piece_bytes = LARGE, .get_bytes = SIZE_MAX};
    assert_int_equal(hki_endpoint_open(&s->endpoint, 2, 0, &listener), HK_OK);
    s->channel = &s->endpoint.channels[1];
    hki_channel_attach(s->channel, &hk_transport_scripted, &s->link, &limits);
    hki_matcher_open(&s->endpoint, &s->matcher, COMMUNICATOR);
    for (size_t i = 0; i < LARGE; i++)
        s->sent[i] = (unsigned char)(i * 7 + i / 256);
}

static void end(scene *s)
{
    hki_matcher_close(&s->matcher);
    assert_int_equal(s->endpoint.unexpected_bytes, 0);
    hki_endpoint_close(&s->endpoint);
}

static void on_end(hki_transfer *transfer, hk_status status)
{
    scene *s = transfer->owner;
    s->ended++;
    s->status = status;
    hki_transfer_release(&s->endpoint, transfer);
}

static hki_transfer *transfer_of(scene *s, unsigned char *memory, uint64_t bytes)
{
    hki_transfer *transfer = hki_transfer_new(&s->endpoint);
    transfer->frame.operation = TAG;
    transfer->bytes = bytes;
    transfer->tag = TAG;
    transfer->owner = s;
    transfer->done = on_end;
    transfer->one = (struct iovec){memory, bytes};
    return transfer;
}

static hki_transfer *receive(scene *s, uint64_t room)
{
    hki_transfer *transfer = transfer_of(s, s->received, room);
    hki_sink_copy(&transfer->sink, &transfer->one, 1, room);
    hki_point_recv(&s->matcher, s->channel, transfer);
    return transfer;
}

static void send_one(scene *s)
{
    hki_transfer *transfer = transfer_of(s, s->sent, LARGE);
    transfer->pieces = &transfer->one;
    transfer->piece_count = 1;
    hki_point_send(&s->matcher, s->channel, transfer);
}

static void announcement_of(scene *s, uint64_t bytes)
{
    hk_frame frame = {.kind = HKI_FRAME_POINT_ANNOUNCE, .communicator = COMMUNICATOR, .operation = TAG};
    s->announcement = (hki_announcement){.bytes = bytes, .token = TOKEN};
    script_arrival(&s->link, frame, &s->announcement, sizeof s->announcement, sizeof s->announcement);
    assert_true(hki_channel_drain(s->channel));
}

static void announcement_arrives(scene *s)
{
    announcement_of(s, LARGE);
}

static void head_arrives(scene *s, size_t here)
{
    hk_frame frame = {.kind = HKI_FRAME_HEAD, .communicator = TOKEN};
    script_arrival(&s->link, frame, s->sent, HKI_HEAD_BYTES, here);
    assert_true(hki_channel_drain(s->channel));
}

/* What the receiver has granted is sent. */
static void rest_arrives(scene *s)
{
    hki_grant grant;
    assert_int_equal(s->link.sent[s->link.count - 1].frame.kind, HKI_FRAME_GRANT);
    memcpy(&grant, s->link.sent[s->link.count - 1].payload, sizeof grant);
    assert_int_equal(grant.sender_token, TOKEN);
    hk_frame frame = {.kind = HKI_FRAME_DATA, .communicator = grant.receiver_token, .operation = 1};
    script_arrival(&s->link, frame, s->sent + HKI_HEAD_BYTES, LARGE - HKI_HEAD_BYTES, LARGE - HKI_HEAD_BYTES);
    assert_true(hki_channel_drain(s->channel));
}

/* Credit that has gone back to the peer, or is about to. */
static uint64_t credit(const scene *s)
{
    uint64_t bytes = s->channel->eager_owed;
    for (unsigned i = 0; i < s->link.count; i++) {
        hki_grant grant;
        memcpy(&grant, s->link.sent[i].payload, sizeof grant);
        if (s->link.sent[i].frame.kind == HKI_FRAME_CREDIT)
            bytes += s->link.sent[i].frame.communicator;
        else if (s->link.sent[i].frame.kind == HKI_FRAME_GRANT)
            bytes += grant.credit;
    }
    return bytes;
}

/* ---- what holds ---- */

static void a_head_follows_its_announcement_as_credit_allows(void **state)
{
    (void)state;
    scene s;
    uint64_t out = 0;
    unsigned heads = 0, sends = 5;
    begin(&s);
    for (unsigned i = 0; i < sends; i++)
        send_one(&s);
    for (unsigned i = 0; i < s.link.count; i++) {
        if (s.link.sent[i].frame.kind != HKI_FRAME_HEAD)
            continue;
        hki_announcement announcement;
        memcpy(&announcement, s.link.sent[i - 1].payload, sizeof announcement);
        assert_int_equal(s.link.sent[i - 1].frame.kind, HKI_FRAME_POINT_ANNOUNCE);
        assert_int_equal(s.link.sent[i].frame.communicator, announcement.token);
        assert_int_equal(s.link.sent[i].bytes, HKI_HEAD_BYTES);
        out += HKI_HEAD_BYTES + HKI_EAGER_OVERHEAD;
        heads++;
    }
    assert_int_equal(s.channel->eager_out, out);
    assert_int_equal(heads, HKI_HEAD_WINDOW / (HKI_HEAD_BYTES + HKI_EAGER_OVERHEAD));
    assert_int_equal(s.link.count, sends + heads);
    /* The last, without a head, and the first, with one, are granted; with the credit for it. */
    for (unsigned i = 0; i < 2; i++) {
        hki_announcement announcement;
        memcpy(&announcement, s.link.sent[i == 0 ? sends + heads - 1 : 0].payload, sizeof announcement);
        hki_grant grant = {.receiver_token = 3,
                           .sender_token = announcement.token,
                           .credit = i * (HKI_HEAD_BYTES + HKI_EAGER_OVERHEAD)};
        hk_frame frame = {.kind = HKI_FRAME_GRANT, .communicator = COMMUNICATOR, .operation = TAG};
        script_arrival(&s.link, frame, &grant, sizeof grant, sizeof grant);
        assert_true(hki_channel_drain(s.channel));
        assert_int_equal(s.ended, i + 1);
        unsigned last = s.link.count - 1, before = i * HKI_HEAD_BYTES;
        assert_int_equal(s.link.sent[last].frame.operation, i);
        assert_int_equal(s.link.sent[last].bytes, LARGE - before);
        assert_ptr_equal(s.link.sent[last].at, s.sent + before);
    }
    assert_int_equal(s.channel->eager_out, out - HKI_HEAD_BYTES - HKI_EAGER_OVERHEAD);
    while (!hki_list_empty(&s.channel->announced)) {
        hki_transfer *transfer = hki_list_entry(s.channel->announced.next, hki_transfer, node);
        hki_msg_cancel(&s.endpoint, transfer);
        hki_transfer_release(&s.endpoint, transfer);
    }
    end(&s);
}

/* Before the announcement, between it and the head, when half of the head is here, and when all of it is. */
static void a_head_finds_its_place_whenever_the_receive_is_posted(void **state)
{
    (void)state;
    for (int when = 0; when < 4; when++) {
        scene s;
        begin(&s);
        if (when == 0)
            receive(&s, LARGE);
        announcement_arrives(&s);
        if (when == 1)
            receive(&s, LARGE);
        head_arrives(&s, when == 2 ? HKI_HEAD_BYTES / 2 : HKI_HEAD_BYTES);
        if (when >= 2)
            receive(&s, LARGE);
        if (when == 2) {
            script_rest(&s.link);
            assert_true(hki_channel_drain(s.channel));
        }
        assert_int_equal(s.ended, 0);
        rest_arrives(&s);
        assert_int_equal(s.ended, 1);
        assert_int_equal(s.status, HK_OK);
        assert_memory_equal(s.received, s.sent, LARGE);
        assert_int_equal(credit(&s), HKI_HEAD_BYTES + HKI_EAGER_OVERHEAD);
        end(&s);
    }
}

static void of_a_message_that_is_too_long_the_beginning_is_received(void **state)
{
    (void)state;
    for (int posted = 0; posted < 2; posted++) {
        scene s;
        begin(&s);
        if (posted)
            receive(&s, 1000);
        announcement_arrives(&s);
        head_arrives(&s, HKI_HEAD_BYTES);
        if (!posted)
            receive(&s, 1000);
        rest_arrives(&s);
        assert_int_equal(s.status, HK_ERR_TRUNCATED);
        assert_memory_equal(s.received, s.sent, 1000);
        assert_int_equal(s.received[1000], 0);
        end(&s);
    }
}

/* Credit for the head of a kept announcement goes back once, also when that of the announcement went before it came. */
static void credit_for_a_head_goes_back_once(void **state)
{
    (void)state;
    for (int relieved = 0; relieved < 3; relieved++) {
        scene s;
        begin(&s);
        announcement_arrives(&s);
        s.channel->eager_owed = relieved == 1 ? HKI_EAGER_WINDOW / 4 : 0;
        uint64_t before = s.channel->eager_owed;
        if (relieved == 1)
            hki_channel_relieve(s.channel);
        head_arrives(&s, HKI_HEAD_BYTES);
        s.channel->eager_owed += relieved == 2 ? HKI_EAGER_WINDOW / 4 : 0;
        before += relieved == 2 ? HKI_EAGER_WINDOW / 4 : 0;
        if (relieved == 2)
            hki_channel_relieve(s.channel);
        receive(&s, LARGE);
        assert_int_equal(credit(&s), before + HKI_HEAD_BYTES + HKI_EAGER_OVERHEAD);
        rest_arrives(&s);
        assert_memory_equal(s.received, s.sent, LARGE);
        end(&s);
    }
}

/* Its receive was cancelled, or never posted until the communicator went. */
static void a_head_that_nobody_wants_is_dropped(void **state)
{
    (void)state;
    for (int posted = 0; posted < 2; posted++) {
        scene s;
        begin(&s);
        hki_transfer *transfer = posted ? receive(&s, LARGE) : NULL;
        announcement_arrives(&s);
        head_arrives(&s, HKI_HEAD_BYTES / 2);
        if (posted) {
            hki_msg_cancel(&s.endpoint, transfer);
            hki_transfer_release(&s.endpoint, transfer);
        } else {
            hki_matcher_close(&s.matcher);
        }
        script_rest(&s.link);
        assert_true(hki_channel_drain(s.channel));
        assert_int_equal(s.link.first, s.link.end);
        assert_int_equal(credit(&s), HKI_HEAD_BYTES + HKI_EAGER_OVERHEAD);
        assert_int_equal(s.endpoint.unexpected_bytes, 0);
        assert_int_equal(s.ended, 0);
        hki_endpoint_close(&s.endpoint);
    }
}

/* Nor would the receive ever end: whoever sends such a thing is not to be trusted any more. */
static void a_head_that_is_all_of_its_message_or_more_is_refused(void **state)
{
    (void)state;
    for (int round = 0; round < 4; round++) {
        scene s;
        begin(&s);
        if (round & 1)
            receive(&s, LARGE);
        announcement_of(&s, round & 2 ? HKI_HEAD_BYTES : 10);
        head_arrives(&s, HKI_HEAD_BYTES);
        assert_true(s.channel->lost);
        assert_int_equal(s.ended, round & 1);
        assert_int_equal(s.status, round & 1 ? HK_ERR_TRANSPORT : HK_OK);
        end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_follows_its_announcement_as_credit_allows),
        cmocka_unit_test(a_head_finds_its_place_whenever_the_receive_is_posted),
        cmocka_unit_test(of_a_message_that_is_too_long_the_beginning_is_received),
        cmocka_unit_test(credit_for_a_head_goes_back_once),
        cmocka_unit_test(a_head_that_nobody_wants_is_dropped),
        cmocka_unit_test(a_head_that_is_all_of_its_message_or_more_is_refused),
    };
    return cmocka_run_group_tests_name("msg_heads", tests, NULL, NULL);
}

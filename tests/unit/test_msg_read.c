/*
 * Frames whose payload the transport does not hand over where it lies, but lets the core read piece by piece, and
 * frames for which it has no room: by a transport whose peer is this test, which says when how much of what has come.
 */
#include "base/clock.h"
#include "msg/msg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { FRAMES = 8, BYTES = 5000, COMMUNICATOR = 7 };

struct hk_link {
    struct {
        hk_frame frame;
        const unsigned char *payload;
        size_t bytes, here, taken; /* length, how much of it has come, and how much was read */
    } frames[FRAMES];
    unsigned first, end;
    hk_link_state state; /* once all frames are taken */
    uint64_t credit;     /* that came back */
    bool full;           /* takes no frame */
};

static hk_link_state link_state(hk_link *link, const char **reason)
{
    *reason = "the test ended it";
    return link->state;
}

static hk_transport_result take_answer(hk_link *link, const hk_frame *frame, const void *payload, size_t bytes)
{
    (void)payload, (void)bytes;
    if (link->full)
        return HK_TRANSPORT_AGAIN;
    link->credit += frame->kind == HKI_FRAME_CREDIT ? frame->communicator : 0;
    return HK_TRANSPORT_OK;
}

static hk_transport_result peek(hk_link *link, hk_arrival *arrival)
{
    bool any = link->first < link->end;
    if (any && link->state > HK_LINK_UP && link->frames[link->first].here < link->frames[link->first].bytes)
        any = false; /* its rest will never come */
    if (!any)
        return link->state > HK_LINK_UP ? HK_TRANSPORT_LOST : HK_TRANSPORT_AGAIN;
    *arrival = (hk_arrival){.frame = link->frames[link->first].frame,
                            .data = NULL,
                            .bytes = link->frames[link->first].bytes - link->frames[link->first].taken};
    return HK_TRANSPORT_OK;
}

static hk_transport_result read_some(hk_link *link, void *destination, size_t bytes, size_t *moved)
{
    size_t there = link->frames[link->first].here - link->frames[link->first].taken;
    *moved = there < bytes ? there : bytes;
    memcpy(destination, link->frames[link->first].payload + link->frames[link->first].taken, *moved);
    link->frames[link->first].taken += *moved;
    return *moved > 0 ? HK_TRANSPORT_OK : HK_TRANSPORT_AGAIN;
}

static void consume(hk_link *link)
{
    link->first++;
}

static const hk_transport_ops ops = {.size = sizeof ops,
                                     .abi = HK_TRANSPORT_ABI,
                                     .name = "test",
                                     .link_state = link_state,
                                     .send = take_answer,
                                     .peek = peek,
                                     .read = read_some,
                                     .consume = consume};

/* ---- a rank and its only peer ---- */

typedef struct scene {
    hki_endpoint endpoint;
    hki_channel *channel;
    hk_link link;
    unsigned char sent[BYTES], received[BYTES];
    int ended; /* transfers */
    hk_status status;
} scene;

static hki_verdict keep_all(void *context, hki_channel *channel, const hk_frame *frame)
{
    (void)context, (void)channel, (void)frame;
    return HKI_KEEP;
}

static void no_mismatch(void *context, hki_channel *channel, const hk_frame *frame)
{
    (void)context, (void)channel, (void)frame;
    fail_msg("mismatch");
}

static void when_lost(void *context, hki_channel *channel, hk_status status, const char *reason)
{
    (void)context, (void)channel, (void)status, (void)reason;
}

static void begin(scene *s)
{
    memset(s, 0, sizeof *s);
    const hki_listener listener = {.context = s, .stray = keep_all, .mismatch = no_mismatch, .lost = when_lost};
    const hk_transport_limits limits = {.eager_bytes = 65536, .piece_bytes = 65536, .get_bytes = SIZE_MAX};
    assert_int_equal(hki_endpoint_open(&s->endpoint, 2, 0, &listener), HK_OK);
    s->channel = &s->endpoint.channels[1];
    s->link.state = HK_LINK_UP;
    hki_channel_attach(s->channel, &ops, &s->link, &limits);
    for (size_t i = 0; i < BYTES; i++)
        s->sent[i] = (unsigned char)(i * 7 + i / 256);
}

static hk_frame frame_of(uint32_t ordinal)
{
    return (hk_frame){
        .communicator = COMMUNICATOR, .operation = 3, .fingerprint = 9, .ordinal = ordinal, .kind = HKI_FRAME_EAGER};
}

/* The peer sends `bytes`, of which `here` have come. */
static void arrive(scene *s, uint32_t ordinal, size_t bytes, size_t here)
{
    unsigned at = s->link.end++;
    s->link.frames[at].frame = frame_of(ordinal);
    s->link.frames[at].payload = s->sent;
    s->link.frames[at].bytes = bytes;
    s->link.frames[at].here = here;
}

static void on_end(hki_transfer *transfer, hk_status status)
{
    scene *s = transfer->owner;
    s->ended++;
    s->status = status;
    hki_transfer_release(&s->endpoint, transfer);
}

static hki_transfer *receive(scene *s, uint32_t ordinal, size_t bytes)
{
    hki_transfer *transfer = hki_transfer_new(&s->endpoint);
    transfer->frame = frame_of(ordinal);
    transfer->bytes = bytes;
    transfer->owner = s;
    transfer->done = on_end;
    transfer->one = (struct iovec){s->received, bytes};
    hki_sink_copy(&transfer->sink, &transfer->one, 1, bytes);
    hki_msg_recv(s->channel, transfer);
    return transfer;
}

/* ---- what holds ---- */

static void a_payload_is_read_as_it_comes_and_waiting_for_it_is_no_progress(void **state)
{
    (void)state;
    scene s;
    begin(&s);
    receive(&s, 0, BYTES);
    arrive(&s, 0, BYTES, 0);
    for (size_t here = 0; here < BYTES; here += 1250) {
        s.link.frames[0].here = here;
        assert_int_equal(hki_channel_drain(s.channel), here > 0);
        assert_false(hki_channel_drain(s.channel)); /* a rank that waits now may sleep, and looks at its deadline */
        assert_int_equal(s.ended, 0);
    }
    s.link.frames[0].here = BYTES;
    assert_true(hki_channel_drain(s.channel));
    assert_int_equal(s.ended, 1);
    assert_int_equal(s.status, HK_OK);
    assert_memory_equal(s.received, s.sent, BYTES);
    hki_endpoint_close(&s.endpoint);
}

static void a_receive_takes_over_a_message_that_is_half_here(void **state)
{
    (void)state;
    scene s;
    begin(&s);
    arrive(&s, 0, BYTES, 2000);
    assert_true(hki_channel_drain(s.channel));
    receive(&s, 0, BYTES);
    assert_int_equal(s.ended, 0);
    s.link.frames[0].here = BYTES;
    assert_true(hki_channel_drain(s.channel));
    assert_int_equal(s.ended, 1);
    assert_memory_equal(s.received, s.sent, BYTES);
    hki_endpoint_close(&s.endpoint);
}

/* The rest of a message whose receive was given up is dropped, its credit goes back, and the next one is found. */
static void what_was_cancelled_half_way_is_dropped(void **state)
{
    (void)state;
    scene s;
    begin(&s);
    for (int i = 0; i < 20; i++) {
        s.link.first = s.link.end = 0;
        memset(&s.link.frames, 0, sizeof s.link.frames);
        hki_transfer *transfer = receive(&s, 0, BYTES);
        arrive(&s, 0, BYTES, 1000);
        arrive(&s, 1, 100, 100);
        assert_true(hki_channel_drain(s.channel));
        hki_msg_cancel(&s.endpoint, transfer);
        hki_transfer_release(&s.endpoint, transfer);
        memset(s.received, 0, BYTES);
        receive(&s, 1, 100);
        s.link.frames[0].here = BYTES;
        assert_true(hki_channel_drain(s.channel));
        assert_int_equal(s.ended, i + 1);
        assert_memory_equal(s.received, s.sent, 100);
        assert_int_equal(s.received[100], 0);
    }
    uint64_t due = 20 * (BYTES + 100 + 2 * (uint64_t)HKI_EAGER_OVERHEAD);
    assert_int_equal(s.link.credit + s.channel->eager_owed, due);
    hki_endpoint_close(&s.endpoint);
}

static void half_a_message_of_a_dead_peer_ends_its_receive(void **state)
{
    (void)state;
    for (int posted = 0; posted < 2; posted++) {
        scene s;
        begin(&s);
        if (posted)
            receive(&s, 0, BYTES);
        arrive(&s, 0, BYTES, 2000);
        assert_true(hki_channel_drain(s.channel));
        s.link.state = HK_LINK_LOST;
        assert_true(hki_channel_drain(s.channel));
        if (!posted)
            receive(&s, 0, BYTES);
        assert_int_equal(s.ended, 1);
        assert_int_equal(s.status, HK_ERR_PEER_LOST);
        hki_endpoint_close(&s.endpoint);
    }
}

/* The fast way finds a small message that comes together with others and with its sender's goodbye. */
static void a_message_that_comes_with_the_goodbye_is_taken(void **state)
{
    (void)state;
    scene s;
    hki_unexpected *kept;
    begin(&s);
    arrive(&s, 5, 64, 64);
    assert_true(hki_channel_drain(s.channel));
    arrive(&s, 6, 64, 64);
    arrive(&s, 0, 64, 64);
    s.link.state = HK_LINK_GOODBYE;
    hk_frame frame = frame_of(0);
    const void *data = hki_msg_take(s.channel, &frame, 64, &kept);
    assert_non_null(data);
    assert_memory_equal(data, s.sent, 64);
    assert_true(s.channel->lost && s.channel->departed);
    hki_msg_take_end(s.channel, 64, kept);
    hki_endpoint_close(&s.endpoint);
}

/* Who owes a frame to a peer without room waits for as long as that may still read, and no longer. */
static void a_peer_that_takes_nothing_for_long_is_not_waited_for(void **state)
{
    (void)state;
    const uint64_t second = UINT64_C(1000000000);
    scene s;
    hk_frame frame = {.kind = HKI_FRAME_QUERY};
    begin(&s);
    assert_false(hki_msg_busy(&s.endpoint, hki_now()));
    s.link.full = true;
    assert_int_equal(hki_channel_control(s.channel, &frame, NULL, 0), HK_OK);
    uint64_t queued = hki_now();
    assert_true(hki_msg_busy(&s.endpoint, queued));
    assert_true(hki_msg_busy(&s.endpoint, queued + second / 2));
    assert_false(hki_msg_busy(&s.endpoint, queued + second));
    assert_int_equal(hki_channel_control(s.channel, &frame, NULL, 0), HK_OK); /* one more makes no difference */
    assert_false(hki_msg_busy(&s.endpoint, queued + second));
    s.link.full = false;
    hki_msg_progress(&s.endpoint);
    assert_false(hki_msg_busy(&s.endpoint, queued));
    hki_endpoint_close(&s.endpoint);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_payload_is_read_as_it_comes_and_waiting_for_it_is_no_progress),
        cmocka_unit_test(a_receive_takes_over_a_message_that_is_half_here),
        cmocka_unit_test(what_was_cancelled_half_way_is_dropped),
        cmocka_unit_test(half_a_message_of_a_dead_peer_ends_its_receive),
        cmocka_unit_test(a_message_that_comes_with_the_goodbye_is_taken),
        cmocka_unit_test(a_peer_that_takes_nothing_for_long_is_not_waited_for),
    };
    return cmocka_run_group_tests_name("msg_read", tests, NULL, NULL);
}

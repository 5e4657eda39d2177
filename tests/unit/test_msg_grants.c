/*
 * Grants of a known schedule over a transport that can but stream: they leave together, they come before what would be
 * announced, and announcements leave only when no grant comes. The peer is this test, which sees each frame that is
 * sent and says what has come.
 */
#include "exec/exec.h"
#include "msg/msg.h"
#include "tests/unit/scripted_link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { LARGE = 10000, EAGER = 2000, TURNS = 1000, COMMUNICATOR = 7 };

/* ---- a rank and its peers ---- */

enum { RANKS = 3 };

typedef struct scene {
    hki_endpoint endpoint;
    hk_link link[RANKS];
    unsigned char memory[LARGE];
    int ended, mismatches;
} scene;

static hki_verdict keep_all(void *context, hki_channel *channel, const hk_frame *frame)
{
    (void)context, (void)channel, (void)frame;
    return HKI_KEEP;
}

static void count_mismatch(void *context, hki_channel *channel, const hk_frame *frame)
{
    (void)channel, (void)frame;
    ((scene *)context)->mismatches++;
}

static void begin(scene *s)
{
    memset(s, 0, sizeof *s);
    const hki_listener listener = {.context = s, .stray = keep_all, .mismatch = count_mismatch};
    const hk_transport_limits limits = {.eager_bytes = EAGER, .piece_bytes = LARGE, .get_bytes = SIZE_MAX};
    assert_int_equal(hki_endpoint_open(&s->endpoint, RANKS, 0, &listener), HK_OK);
    for (int rank = 1; rank < RANKS; rank++)
        hki_channel_attach(&s->endpoint.channels[rank], &hk_transport_scripted, &s->link[rank], &limits);
}

static void on_end(hki_transfer *transfer, hk_status status)
{
    scene *s = transfer->owner;
    assert_int_equal(status, HK_OK);
    s->ended++;
    hki_transfer_release(&s->endpoint, transfer);
}

static hki_transfer *transfer_of(scene *s, uint32_t ordinal)
{
    hki_transfer *transfer = hki_transfer_new(&s->endpoint);
    transfer->frame = (hk_frame){.communicator = COMMUNICATOR, .operation = 3, .fingerprint = 9, .ordinal = ordinal};
    transfer->bytes = LARGE;
    transfer->owner = s;
    transfer->done = on_end;
    transfer->one = (struct iovec){s->memory, LARGE};
    return transfer;
}

static hki_transfer *receive(scene *s, int rank, uint32_t ordinal)
{
    hki_transfer *transfer = transfer_of(s, ordinal);
    hki_sink_copy(&transfer->sink, &transfer->one, 1, LARGE);
    hki_msg_recv(&s->endpoint.channels[rank], transfer);
    return transfer;
}

static hki_transfer *send_to(scene *s, int rank, uint32_t ordinal)
{
    hki_transfer *transfer = transfer_of(s, ordinal);
    transfer->pieces = &transfer->one;
    transfer->piece_count = 1;
    hki_msg_send(&s->endpoint.channels[rank], transfer);
    return transfer;
}

/* The peer grants messages of such a length, of ordinal 0 and so on, in one frame. */
static void grant_arrives(scene *s, int rank, uint64_t length, uint32_t count)
{
    hk_frame frame = {.kind = HKI_FRAME_GRANT, .communicator = COMMUNICATOR, .operation = 3, .fingerprint = 9};
    hki_grant grants[HKI_GRANTS] = {{0}};
    for (uint32_t i = 0; i < count; i++)
        grants[i] = (hki_grant){.receiver_token = 40 + i, .ordinal = i, .length = length};
    script_arrival(&s->link[rank], frame, grants, count * sizeof *grants, count * sizeof *grants);
    assert_true(hki_channel_drain(&s->endpoint.channels[rank]));
}

static void drop(scene *s, hki_transfer *transfer)
{
    hki_msg_cancel(&s->endpoint, transfer);
    hki_transfer_release(&s->endpoint, transfer);
}

/* ---- what holds ---- */

static void grants_to_one_peer_leave_together(void **state)
{
    (void)state;
    scene s;
    hki_transfer *posted[HKI_GRANTS + 2];
    begin(&s);
    hki_msg_hold(&s.endpoint);
    for (uint32_t i = 0; i < HKI_GRANTS + 1; i++)
        posted[i] = receive(&s, 1, i);
    posted[HKI_GRANTS + 1] = receive(&s, 2, 0);
    assert_int_equal(s.link[2].count, 0);
    hki_msg_release(&s.endpoint);
    assert_int_equal(s.link[1].count, 2);
    assert_int_equal(s.link[1].sent[0].bytes, HKI_GRANTS * sizeof(hki_grant));
    assert_int_equal(s.link[1].sent[1].bytes, sizeof(hki_grant));
    assert_int_equal(s.link[2].count, 1);
    for (uint32_t i = 0; i < HKI_GRANTS + 1; i++) {
        hki_grant grant;
        memcpy(&grant, s.link[1].sent[i / HKI_GRANTS].payload + i % HKI_GRANTS * sizeof grant, sizeof grant);
        assert_int_equal(grant.ordinal, i);
        assert_int_equal(grant.length, LARGE);
        assert_int_equal(grant.receiver_token, posted[i]->token);
    }
    drop(&s, receive(&s, 1, HKI_GRANTS + 1)); /* released: the next leaves at once */
    assert_int_equal(s.link[1].count, 3);
    for (uint32_t i = 0; i < HKI_GRANTS + 2; i++)
        drop(&s, posted[i]);
    hki_endpoint_close(&s.endpoint);
}

static void what_is_granted_is_sent_without_being_announced(void **state)
{
    (void)state;
    for (int early = 0; early < 2; early++) {
        scene s;
        begin(&s);
        for (uint32_t i = 0; i < 2 && !early; i++)
            send_to(&s, 1, i);
        assert_int_equal(s.link[1].count, 0);
        grant_arrives(&s, 1, LARGE, 2);
        for (uint32_t i = 0; i < 2 && early; i++)
            send_to(&s, 1, i);
        assert_int_equal(s.ended, 2);
        assert_int_equal(s.link[1].count, 2);
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(s.link[1].sent[i].frame.kind, HKI_FRAME_DATA);
            assert_int_equal(s.link[1].sent[i].frame.communicator, 40 + i);
            assert_int_equal(s.link[1].sent[i].bytes, LARGE);
        }
        assert_int_equal(s.endpoint.channels[1].announce_out, 0);
        hki_endpoint_close(&s.endpoint);
    }
}

/* … by turns of progress, or because this rank is about to sleep. */
static void what_is_not_granted_is_announced_in_the_end(void **state)
{
    (void)state;
    for (int asleep = 0; asleep < 2; asleep++) {
        scene s;
        begin(&s);
        hki_transfer *sent = send_to(&s, 1, 0);
        if (asleep)
            hki_msg_announce_all(&s.endpoint);
        for (int turn = 0; turn < TURNS; turn++)
            hki_msg_progress(&s.endpoint);
        assert_int_equal(s.link[1].count, 1); /* once */
        assert_int_equal(s.link[1].sent[0].frame.kind, HKI_FRAME_ANNOUNCE);
        hki_announcement announcement;
        memcpy(&announcement, s.link[1].sent[0].payload, sizeof announcement);
        assert_int_equal(announcement.bytes, LARGE);
        assert_int_equal(announcement.token, sent->token);
        assert_int_equal(s.endpoint.channels[1].announce_out, 1);
        grant_arrives(&s, 1, LARGE, 1);
        assert_int_equal(s.ended, 1);
        hki_endpoint_close(&s.endpoint);
    }
}

static void a_grant_for_another_length_is_a_mismatch(void **state)
{
    (void)state;
    for (int early = 0; early < 2; early++) {
        scene s;
        begin(&s);
        hki_transfer *sent = early ? NULL : send_to(&s, 1, 0);
        grant_arrives(&s, 1, LARGE - 1, 1);
        assert_int_equal(s.mismatches, early ? 0 : 1);
        sent = early ? send_to(&s, 1, 0) : sent;
        assert_int_equal(s.mismatches, 1);
        assert_int_equal(s.ended, 0);
        assert_int_equal(s.link[1].count, 0);
        drop(&s, sent);
        hki_endpoint_close(&s.endpoint);
    }
}

/* A send, two receives and another send, all ready at once: first the receives are granted, together. */
static void receives_are_granted_before_sends_begin(void **state)
{
    (void)state;
    enum { STEPS = 4 };
    static const uint8_t verbs[STEPS] = {HKI_VERB_SEND, HKI_VERB_RECV, HKI_VERB_RECV, HKI_VERB_SEND};
    scene s;
    begin(&s);
    hki_piece piece = {.bytes = LARGE, .base = HKI_OUTPUT};
    hki_bound_step steps[STEPS] = {{0}};
    for (uint32_t i = 0; i < STEPS; i++)
        steps[i] = (hki_bound_step){.verb = verbs[i],
                                    .bytes = LARGE,
                                    .peer = 1,
                                    .ordinal = i == 0 || i == 1 ? 0 : 1,
                                    .destination_count = verbs[i] == HKI_VERB_RECV,
                                    .source_count = verbs[i] == HKI_VERB_SEND};
    hki_bound program = {.step_count = STEPS, .piece_count = 1, .steps = steps, .pieces = &piece};
    hki_engine engine;
    hki_engine_open(&engine, &s.endpoint, 1, 1);
    hki_task task = {.engine = &engine,
                     .program = &program,
                     .divisor = 1,
                     .frame = {.communicator = COMMUNICATOR, .operation = 3, .fingerprint = 9},
                     .base = {NULL, (char *)s.memory, NULL}};
    grant_arrives(&s, 1, LARGE, 2);
    assert_int_equal(hki_task_start(&task), HK_OK);
    assert_int_equal(s.link[1].count, 3);
    assert_int_equal(s.link[1].sent[0].frame.kind, HKI_FRAME_GRANT);
    assert_int_equal(s.link[1].sent[0].bytes, 2 * sizeof(hki_grant));
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(s.link[1].sent[1 + i].frame.kind, HKI_FRAME_DATA);
        assert_int_equal(s.link[1].sent[1 + i].frame.communicator, 40 + i);
    }
    hki_task_cancel(&task, HK_ERR_ABORTED);
    hki_task_free_memory(&task);
    hki_endpoint_close(&s.endpoint);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grants_to_one_peer_leave_together),
        cmocka_unit_test(what_is_granted_is_sent_without_being_announced),
        cmocka_unit_test(what_is_not_granted_is_announced_in_the_end),
        cmocka_unit_test(a_grant_for_another_length_is_a_mismatch),
        cmocka_unit_test(receives_are_granted_before_sends_begin),
    };
    return cmocka_run_group_tests_name("msg_grants", tests, NULL, NULL);
}

/*
 * What the verbs transport makes of hardware that fails, over a fake libibverbs: error completions, short queues,
 * refused registrations, queue pairs that overtake one another, asynchronous events, lost datagrams. Two ranks, in two
 * threads or two processes.
 */
#include "verbs_pair.h"

/* Looks until the link has ended; the state that it has then. */
static hk_link_state settle(pair_end *end, const char **reason)
{
    uint32_t ranks[4];
    hk_arrival arrival;
    uint64_t deadline = pair_now(end) + UINT64_C(10000000000);
    while (end->ops->link_state(end->link, reason) <= HK_LINK_UP && pair_now(end) < deadline) {
        (void)end->ops->poll(end->transport, ranks, 4);
        (void)end->ops->check(end->transport);
        (void)end->ops->peek(end->link, &arrival);
    }
    return end->ops->link_state(end->link, reason);
}

/* The link ends as lost, and the reason names peer, device and port, and says `word`. */
static bool lost(pair_end *end, const char *word)
{
    const char *reason = "";
    char peer[32];
    snprintf(peer, sizeof peer, "rank %d on here", 1 - end->index);
    CHECK(settle(end, &reason) == HK_LINK_LOST);
    CHECK(strstr(reason, peer) != NULL && strstr(reason, "device fake") != NULL && strstr(reason, "port 1") != NULL);
    CHECK(strstr(reason, word) != NULL);
    return true;
}

/* ---- error completions ---- */

static bool dead_peer_body(pair_end *end)
{
    hk_frame frame = {.kind = 2};
    CHECK(come_up(end));
    if (end->index == 0) {
        fabric_fail(IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RETRY_EXC_ERR, 1);
        (void)end->ops->send(end->link, &frame, NULL, 0);
        CHECK(lost(end, "does not answer any more"));
        CHECK(end->ops->send(end->link, &frame, NULL, 0) == HK_TRANSPORT_LOST);
    }
    CHECK(pair_meet(end));
    if (end->index == 1) /* its hardware is asked for a sign of life, and gives none */
        CHECK(lost(end, "does not answer any more"));
    return pair_meet(end);
}

static void an_error_completion_ends_the_link_and_names_the_peer(void **state)
{
    (void)state;
    run(dead_peer_body, false);
}

/* A probe is a write without an immediate, of no bytes. */
static bool silent_body(pair_end *end)
{
    CHECK(come_up(end));
    if (end->index == 0) {
        fabric_fail(IBV_WR_RDMA_WRITE, IBV_WC_RETRY_EXC_ERR, 1);
        CHECK(lost(end, "does not answer any more"));
        CHECK(count(end, "probes") == 1);
    }
    return pair_meet(end);
}

static void a_silent_peer_is_asked_for_a_sign_of_life(void **state)
{
    (void)state;
    run(silent_body, false);
}

/* ---- short queues, and queue pairs that overtake one another ---- */

static bool storm_body(pair_end *end)
{
    enum { FRAMES = 2000, LONGEST = 9000 };
    unsigned char payload[LONGEST], incoming[LONGEST];
    hk_arrival arrival;
    uint32_t ranks[4], sent = 0, taken = 0;
    uint64_t deadline = pair_now(end) + UINT64_C(60000000000);
    while (sent < FRAMES || taken < FRAMES) {
        CHECK(pair_now(end) < deadline);
        size_t bytes = sent % 5 == 0 ? LONGEST - sent : sent % 200;
        hk_frame frame = {.kind = 3, .ordinal = sent};
        memset(payload, (int)sent, bytes);
        sent += sent < FRAMES && end->ops->send(end->link, &frame, payload, bytes) == HK_TRANSPORT_OK;
        (void)end->ops->poll(end->transport, ranks, 4);
        while (taken < FRAMES && end->ops->peek(end->link, &arrival) == HK_TRANSPORT_OK) {
            bytes = taken % 5 == 0 ? LONGEST - taken : taken % 200;
            CHECK(arrival.frame.ordinal == taken && arrival.bytes == bytes);
            CHECK(pair_take(end, &arrival, incoming));
            CHECK(bytes == 0 || (incoming[0] == (unsigned char)taken && incoming[bytes - 1] == (unsigned char)taken));
            taken++;
        }
    }
    CHECK(end->ops->link_state(end->link, NULL) == HK_LINK_UP);
    return carry_out(end);
}

static void short_queues_lose_nothing(void **state)
{
    (void)state;
    atomic_store(&faults->delay, true);
    atomic_store(&faults->queue_limit, 3);
    run(storm_body, false);
    run(storm_body, true);
}

static void frames_are_in_order_when_requests_are_slow(void **state)
{
    (void)state;
    atomic_store(&faults->delay, true);
    run(storm_body, true);
}

/* Both devices carry a share each; the frame waits for both. */
static bool striped_body(pair_end *end)
{
    enum { BYTES = 6 << 20, PUTS = 20 };
    unsigned char *memory = malloc(BYTES);
    hk_remote remote;
    hk_arrival arrival;
    for (int n = 1; n <= PUTS; n++) {
        if (end->index == 0) {
            CHECK(be_written(end, memory, BYTES, &remote, &arrival) && arrival.frame.ordinal == (uint32_t)n);
            for (size_t i = 0; i < BYTES; i += 1023)
                CHECK(memory[i] == (unsigned char)n);
            CHECK(memory[BYTES - 1] == (unsigned char)n);
            end->ops->consume(end->link);
            end->ops->withdraw(end->link, &remote, false);
        } else {
            hk_frame frame = {.kind = 11, .ordinal = (uint32_t)n};
            CHECK(hear_where(end, &remote));
            memset(memory, n, BYTES);
            CHECK(end->ops->put(end->link, &remote, 0, memory, BYTES, &frame) == HK_TRANSPORT_OK);
            CHECK(put_ends(end, (uint64_t)n) == HK_TRANSPORT_OK);
            memset(memory, 255, BYTES); /* nobody reads it any more */
        }
    }
    free(memory);
    return carry_out(end);
}

static void a_frame_waits_for_its_data_on_all_devices(void **state)
{
    (void)state;
    run(striped_body, true);
    atomic_store(&faults->delay, true);
    run(striped_body, false);
}

/* A put that breaks a queue pair: the others are ended, too, but not before all that they had to do is flushed. */
static bool flushed_body(pair_end *end)
{
    enum { BYTES = 4 << 20 };
    unsigned char *memory = calloc(1, BYTES);
    hk_frame frame = {.kind = 11};
    hk_remote remote;
    hk_arrival arrival;
    uint32_t protocols = HK_TRANSPORT_PUT, ranks[4];
    CHECK(come_up(end));
    if (end->index == 0) {
        CHECK(end->ops->describe(end->link, memory, BYTES, &remote, &protocols) == HK_TRANSPORT_OK);
        CHECK(pair_send(end, &frame, &remote, sizeof remote) == HK_TRANSPORT_OK);
        CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK && arrival.frame.kind == 3);
        end->ops->consume(end->link);
        end->ops->withdraw(end->link, &remote, false);
    } else {
        CHECK(hear_where(end, &remote));
        fabric_fail(IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR, 1);
        CHECK(end->ops->put(end->link, &remote, 0, memory, BYTES, &frame) == HK_TRANSPORT_OK);
        CHECK(put_ends(end, 1) == HK_TRANSPORT_REFUSED);
        frame.kind = 3;
        CHECK(pair_send(end, &frame, NULL, 0) == HK_TRANSPORT_OK);
    }
    CHECK(pair_meet(end));
    (void)end->ops->poll(end->transport, ranks, 4); /* rank 0 learns that large messages go by pieces */
    protocols = HK_TRANSPORT_PUT;
    CHECK(end->ops->describe(end->link, memory, BYTES, &remote, &protocols) == HK_TRANSPORT_REFUSED);
    free(memory);
    return pair_meet(end);
}

static void queue_pairs_end_when_they_are_flushed(void **state)
{
    (void)state;
    atomic_store(&faults->slow_flush, 40);
    run(flushed_body, true);
    run(flushed_body, false);
}

/* The data of one device are seen after the goodbye, which has come by the other one. */
static bool late_data_body(pair_end *end)
{
    enum { BYTES = 6 << 20 };
    unsigned char *memory = malloc(BYTES);
    hk_remote remote;
    hk_arrival arrival = {0};
    hk_frame frame = {.kind = 11};
    uint32_t ranks[4];
    if (end->index == 0) {
        uint32_t protocols = HK_TRANSPORT_PUT;
        CHECK(come_up(end));
        CHECK(end->ops->describe(end->link, memory, BYTES, &remote, &protocols) == HK_TRANSPORT_OK);
        CHECK(pair_send(end, &frame, &remote, sizeof remote) == HK_TRANSPORT_OK && pair_meet(end));
        uint64_t deadline = pair_now(end) + pair_span(10000);
        while (end->ops->link_state(end->link, NULL) == HK_LINK_UP && pair_now(end) < deadline)
            (void)end->ops->poll(end->transport, ranks, 4);
        CHECK(end->ops->link_state(end->link, NULL) == HK_LINK_GOODBYE && atomic_load(&faults->late_polls) > 0);
        CHECK(end->ops->peek(end->link, &arrival) == HK_TRANSPORT_AGAIN && !end->ops->arm(end->transport));
        CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK && arrival.frame.kind == 11);
        CHECK(memory[0] == 7 && memory[BYTES - 1] == 7);
        end->ops->consume(end->link);
        CHECK(end->ops->peek(end->link, &arrival) == HK_TRANSPORT_LOST);
        end->ops->withdraw(end->link, &remote, false);
    } else {
        CHECK(come_up(end) && hear_where(end, &remote));
        memset(memory, 7, BYTES);
        CHECK(end->ops->put(end->link, &remote, 0, memory, BYTES, &frame) == HK_TRANSPORT_OK);
        CHECK(put_ends(end, 1) == HK_TRANSPORT_OK);
        atomic_store(&faults->late_device, 1); /* not the one of frames */
        atomic_store(&faults->late_polls, 2000);
        end->ops->close(end->transport, 1.0);
        end->closed = true;
        CHECK(pair_meet(end));
    }
    free(memory);
    return true;
}

static void data_seen_after_the_goodbye_are_taken(void **state)
{
    (void)state;
    run(late_data_body, true);
}

/* ---- what messages cost ---- */

static bool cost_body(pair_end *end)
{
    enum { BYTES = 1 << 20 };
    unsigned char *memory = malloc(BYTES), small[64] = {1};
    hk_frame frame = {.kind = 11};
    hk_arrival arrival;
    hk_remote remote;
    CHECK(come_up(end));
    if (end->index == 0) {
        CHECK(be_written(end, memory, BYTES, &remote, &arrival));
        end->ops->consume(end->link);
        end->ops->withdraw(end->link, &remote, false);
        CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK && pair_take(end, &arrival, small));
    } else {
        CHECK(hear_where(end, &remote));
        uint64_t requests = count(end, "work_requests"), written = count(end, "bytes_written"),
                 copied = count(end, "bytes_copied"), in_line = count(end, "inline_sends"),
                 probes = count(end, "probes") + count(end, "credits");
        CHECK(end->ops->put(end->link, &remote, 0, memory, BYTES, &frame) == HK_TRANSPORT_OK);
        CHECK(put_ends(end, 1) == HK_TRANSPORT_OK);
        /* A share of each device, and the frame. */
        probes = count(end, "probes") + count(end, "credits") - probes;
        CHECK(count(end, "work_requests") - requests == 3 + probes);
        CHECK(count(end, "bytes_written") - written - BYTES < 64);
        CHECK(count(end, "put_bytes") == BYTES && count(end, "bytes_copied") == copied);
        requests = count(end, "work_requests");
        CHECK(pair_send(end, &frame, small, sizeof small) == HK_TRANSPORT_OK);
        CHECK(count(end, "work_requests") - requests == 1);
        CHECK(count(end, "inline_sends") - in_line == 2 && count(end, "bytes_copied") == copied);
    }
    free(memory);
    return pair_meet(end);
}

static void a_large_message_is_written_and_not_copied_a_small_one_is_one_request(void **state)
{
    (void)state;
    run(cost_body, true);
}

/* The ring is full when a put is tried. Credit that is seen while this end falls asleep keeps it awake. */
static bool full_body(pair_end *end)
{
    enum { BYTES = 256 << 10, FRAMES = 256 };
    unsigned char *memory = calloc(1, BYTES);
    uint32_t protocols = HK_TRANSPORT_PUT;
    hk_frame frame = {.kind = 3};
    hk_remote remote;
    hk_arrival arrival;
    CHECK(come_up(end));
    if (end->index == 0) {
        CHECK(end->ops->describe(end->link, memory, BYTES, &remote, &protocols) == HK_TRANSPORT_OK);
        CHECK(pair_send(end, &frame, &remote, sizeof remote) == HK_TRANSPORT_OK && pair_meet(end));
        for (int i = 0; i < FRAMES; i++) {
            CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK);
            end->ops->consume(end->link);
        }
        CHECK(pair_meet(end) && pair_peek(end, &arrival) == HK_TRANSPORT_OK && arrival.frame.kind == 11);
        end->ops->consume(end->link);
        end->ops->withdraw(end->link, &remote, false);
    } else {
        CHECK(hear_where(end, &remote));
        (void)end->ops->arm(end->transport); /* which hears of the connection */
        for (int i = 0; i < FRAMES; i++)
            CHECK(end->ops->send(end->link, &frame, NULL, 0) == HK_TRANSPORT_OK);
        frame.kind = 11;
        CHECK(end->ops->put(end->link, &remote, 0, memory, BYTES, &frame) == HK_TRANSPORT_AGAIN);
        CHECK(pair_meet(end) && pair_meet(end));
        CHECK(!end->ops->arm(end->transport));
        CHECK(end->ops->put(end->link, &remote, 0, memory, BYTES, &frame) == HK_TRANSPORT_OK);
        CHECK(put_ends(end, 1) == HK_TRANSPORT_OK);
    }
    free(memory);
    return pair_meet(end);
}

static void a_put_that_finds_no_room_is_woken(void **state)
{
    (void)state;
    run(full_body, false);
}

/* No memory for a ring: the link cannot come up, and says why. */
static bool no_ring_body(pair_end *end)
{
    const char *reason = "";
    hk_frame frame = {.kind = 1};
    if (end->index == 0) {
        atomic_store(&faults->refuse_registrations, 1);
        CHECK(end->ops->send(end->link, &frame, NULL, 0) == HK_TRANSPORT_AGAIN);
        CHECK(settle(end, &reason) == HK_LINK_LOST);
        CHECK(strstr(reason, "rank 1 on here") != NULL && strstr(reason, "register") != NULL);
    }
    return pair_meet(end);
}

static void a_link_without_memory_is_lost_with_a_reason(void **state)
{
    (void)state;
    run(no_ring_body, false);
}

/* What is sent lies in a stage with the layout of the peer's ring: one of another size would not hold it. */
static bool other_ring_body(pair_end *end)
{
    const char *reason = "";
    hk_frame frame = {.kind = 1};
    CHECK(end->ops->send(end->link, &frame, NULL, 0) != HK_TRANSPORT_OK);
    CHECK(settle(end, &reason) == HK_LINK_LOST);
    CHECK(strstr(reason, "on here speaks another dialect") != NULL);
    return pair_meet(end);
}

static void rings_of_other_sizes_are_refused_at_both_ends(void **state)
{
    (void)state;
    pair_second = VERBS_PAIR_LIBRARY "VERBS_DEVICE=fake0,fake1 VERBS_RING=1M";
    run(other_ring_body, false);
    run(other_ring_body, true);
    pair_second = NULL;
}

/* ---- events, datagrams ---- */

static int event_type;
static const char *event_word;

static bool event_body(pair_end *end)
{
    CHECK(come_up(end));
    if (end->index == 1) /* of this process, thus of both ends */
        raise_event(event_type);
    CHECK(lost(end, event_word));
    return pair_meet(end);
}

static void an_asynchronous_event_ends_the_links_that_it_concerns(void **state)
{
    (void)state;
    event_type = IBV_EVENT_PORT_ERR;
    event_word = "is down";
    run(event_body, false);
    event_type = IBV_EVENT_QP_FATAL;
    event_word = "queue pair event";
    run(event_body, false);
}

static bool sleeper_body(pair_end *end)
{
    struct pollfd fd = {.fd = end->ops->event_fd(end->transport), .events = POLLIN};
    CHECK(come_up(end));
    while (!end->ops->arm(end->transport)) {
        uint32_t ranks[4];
        (void)end->ops->poll(end->transport, ranks, 4);
    }
    CHECK(pair_meet(end));
    if (end->index == 1)
        raise_event(IBV_EVENT_PORT_ERR);
    CHECK(poll(&fd, 1, 10000) == 1);
    end->ops->disarm(end->transport);
    CHECK(lost(end, "is down"));
    return pair_meet(end);
}

static void an_event_wakes_who_sleeps(void **state)
{
    (void)state;
    run(sleeper_body, false);
}

static bool datagrams_body(pair_end *end)
{
    return come_up(end);
}

static void lost_datagrams_are_said_again(void **state)
{
    (void)state;
    for (uint32_t lost_ones = 1; lost_ones <= 6; lost_ones++) {
        atomic_store(&faults->drop_datagrams, lost_ones);
        run(datagrams_body, lost_ones % 2 == 0);
        assert_int_equal(atomic_load(&faults->drop_datagrams), 0);
    }
}

/* Rank 1 does not hear that its queues are known, and asks again when those of rank 0 have failed and are gone. */
static bool late_question_body(pair_end *end)
{
    enum { PASS = 2, DROP = 4 }; /* rank 0's call and the answer; rank 0's word on that, and the questions of 140 ms */
    hk_frame frame = {.kind = 1};
    uint32_t ranks[4];
    if (end->index == 0) {
        uint64_t deadline = pair_now(end) + pair_span(10000);
        atomic_store(&faults->drop_datagrams, DROP);
        atomic_store(&faults->pass_datagrams, PASS);
        fabric_fail(IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RETRY_EXC_ERR, 1);
        while (end->ops->send(end->link, &frame, NULL, 0) == HK_TRANSPORT_AGAIN && pair_now(end) < deadline)
            (void)end->ops->poll(end->transport, ranks, 4);
        CHECK(lost(end, "does not answer any more"));
    }
    CHECK(pair_meet(end));
    if (end->index == 1) /* it is answered, and finds nobody there */
        CHECK(lost(end, "does not answer any more"));
    return pair_meet(end);
}

static void who_asks_after_the_queues_is_answered_when_they_are_gone(void **state)
{
    (void)state;
    run(late_question_body, true);
    run(late_question_body, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_error_completion_ends_the_link_and_names_the_peer, fabric_whole),
        cmocka_unit_test_setup(a_silent_peer_is_asked_for_a_sign_of_life, fabric_whole),
        cmocka_unit_test_setup(short_queues_lose_nothing, fabric_whole),
        cmocka_unit_test_setup(frames_are_in_order_when_requests_are_slow, fabric_whole),
        cmocka_unit_test_setup(a_frame_waits_for_its_data_on_all_devices, fabric_whole),
        cmocka_unit_test_setup(queue_pairs_end_when_they_are_flushed, fabric_whole),
        cmocka_unit_test_setup(data_seen_after_the_goodbye_are_taken, fabric_whole),
        cmocka_unit_test_setup(a_large_message_is_written_and_not_copied_a_small_one_is_one_request, fabric_whole),
        cmocka_unit_test_setup(a_put_that_finds_no_room_is_woken, fabric_whole),
        cmocka_unit_test_setup(a_link_without_memory_is_lost_with_a_reason, fabric_whole),
        cmocka_unit_test_setup(rings_of_other_sizes_are_refused_at_both_ends, fabric_whole),
        cmocka_unit_test_setup(an_asynchronous_event_ends_the_links_that_it_concerns, fabric_whole),
        cmocka_unit_test_setup(an_event_wakes_who_sleeps, fabric_whole),
        cmocka_unit_test_setup(lost_datagrams_are_said_again, fabric_whole),
        cmocka_unit_test_setup(who_asks_after_the_queues_is_answered_when_they_are_gone, fabric_whole),
    };
    if (!fabric_there())
        return 77;
    setenv("HOCKET_TRANSPORT_PATH", HOCKET_BUILD "/lib/hocket", 1);
    return cmocka_run_group_tests_name("verbs", tests, start, fabric_end);
}

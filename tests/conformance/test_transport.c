/*
 * What every transport must do, driven through hk_transport_ops alone, between two processes and between two threads of
 * one process: frames, sleep, and the end of a peer. Memory that peers reach is in test_transport_memory.c.
 */
#include "each_transport.h"

#include <signal.h>

/* ---- frames ---- */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    return x;
}

/* Longest payload that is tried: a transport's limit may be far. */
static size_t longest(const pair_end *end)
{
    return end->limits.eager_bytes < 1 << 20 ? end->limits.eager_bytes : 1 << 20;
}

/* The n-th frame of a stream: any header, lengths around every edge. */
static size_t nth_frame(const pair_end *end, uint64_t n, hk_frame *frame)
{
    static const size_t edges[] = {0, 1, 3, 7, 8, 15, 16, 31, 33, 40, 41, 47, 48, 49, 64, 4096};
    uint64_t random = mix(n * 2 + 1), more = mix(random);
    *frame = (hk_frame){.communicator = (uint32_t)random,
                        .operation = (uint32_t)(random >> 32),
                        .fingerprint = (uint32_t)more,
                        .ordinal = n % 3 == 0 ? (uint32_t)(more >> 32) : (uint32_t)(more >> 53),
                        .kind = (uint32_t)(more >> 32) % 16};
    if (n % 50 == 0)
        return longest(end);
    if (n % 7 == 0)
        return (size_t)(more % (longest(end) + 1));
    return edges[random % (sizeof edges / sizeof edges[0])];
}

static bool same_frame(const hk_frame *a, const hk_frame *b)
{
    return a->communicator == b->communicator && a->operation == b->operation && a->fingerprint == b->fingerprint &&
           a->ordinal == b->ordinal && a->kind == b->kind;
}

/* Both send at once, and take what comes whenever sending finds no room. */
static bool frames_body(pair_end *end)
{
    enum { FRAMES = 6000 };
    unsigned char *payload = malloc(longest(end)), *incoming = malloc(longest(end));
    uint64_t sent = 0, taken = 0, deadline = pair_now(NULL) + pair_span(30000);
    uint32_t ranks[4];
    hk_frame frame;
    hk_arrival arrival;
    while (sent < FRAMES || taken < FRAMES) {
        CHECK(pair_now(NULL) < deadline);
        if (sent < FRAMES) {
            size_t bytes = nth_frame(end, sent, &frame);
            fill(payload, bytes, sent);
            hk_transport_result result = end->ops->send(end->link, &frame, payload, bytes);
            CHECK(result == HK_TRANSPORT_OK || result == HK_TRANSPORT_AGAIN);
            sent += result == HK_TRANSPORT_OK;
            if (result == HK_TRANSPORT_OK && sent % 5 != 0)
                continue;
        }
        (void)end->ops->poll(end->transport, ranks, 4);
        while (taken < FRAMES && end->ops->peek(end->link, &arrival) == HK_TRANSPORT_OK) {
            size_t bytes = nth_frame(end, taken, &frame);
            CHECK(same_frame(&arrival.frame, &frame));
            CHECK(arrival.bytes == bytes);
            CHECK(pair_take(end, &arrival, incoming));
            CHECK(filled(incoming, bytes, taken));
            taken++;
        }
    }
    free(payload);
    free(incoming);
    CHECK(end->ops->link_state(end->link, NULL) == HK_LINK_UP);
    return pair_meet(end);
}

static void frames_arrive_in_order_and_whole(void **state)
{
    (void)state;
    both_ways(frames_body, "auto", 0, true);
}

/* A sender that is not read gets AGAIN within bounds, and loses nothing. */
static bool full_body(pair_end *end)
{
    uint64_t sent = 0;
    hk_frame frame = {.communicator = 1, .kind = 2};
    hk_arrival arrival, again;
    if (end->index == 0) {
        CHECK(pair_send(end, &frame, &sent, sizeof sent) == HK_TRANSPORT_OK);
        for (sent = 1; end->ops->send(end->link, &frame, &sent, sizeof sent) == HK_TRANSPORT_OK; sent++)
            CHECK(sent < 10000000);
        CHECK(sent >= 32);
        CHECK(write(end->channel, &sent, sizeof sent) == sizeof sent);
        CHECK(pair_send(end, &frame, &sent, sizeof sent) == HK_TRANSPORT_OK); /* once the other takes some */
        return pair_meet(end);
    }
    CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK); /* the other's connection needs this end's help */
    CHECK(read(end->channel, &sent, sizeof sent) == sizeof sent);
    for (uint64_t i = 0; i <= sent; i++) {
        uint64_t value;
        CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK);
        CHECK(end->ops->peek(end->link, &again) == HK_TRANSPORT_OK);
        CHECK(again.bytes == arrival.bytes && same_frame(&again.frame, &arrival.frame));
        CHECK(arrival.bytes == sizeof value);
        CHECK(pair_take(end, &arrival, (unsigned char *)&value));
        CHECK(value == i);
    }
    CHECK(end->ops->peek(end->link, &arrival) == HK_TRANSPORT_AGAIN);
    return pair_meet(end);
}

static void an_unread_sender_is_held_back_and_loses_nothing(void **state)
{
    (void)state;
    both_ways(full_body, "auto", NEEDS_ROOM, true);
}

/* ---- sleeping ---- */

static bool wait_asleep(pair_end *end, bool by_event)
{
    uint32_t ranks[4];
    if (end->ops->arm(end->transport)) {
        struct pollfd fd = {.fd = end->ops->event_fd(end->transport), .events = POLLIN};
        if (by_event || end->ops->sleep == NULL)
            (void)poll(&fd, 1, (int)(pair_span(50) / 1000000));
        else
            end->ops->sleep(end->transport, (uint32_t)(pair_span(50) / 1000));
        end->ops->disarm(end->transport);
    }
    (void)end->ops->poll(end->transport, ranks, 4);
    return true;
}

/* Ball games in which the receiver always goes to sleep: one lost wake-up costs 50 ms, all of them 10 s. */
static bool ball(pair_end *end, bool by_event)
{
    enum { ROUNDS = 200 };
    hk_frame frame = {.kind = 1};
    hk_arrival arrival;
    unsigned char byte = 0;
    uint64_t begin = pair_now(NULL);
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 2 == end->index) {
            CHECK(pair_send(end, &frame, &byte, 1) == HK_TRANSPORT_OK);
            continue;
        }
        hk_transport_result result;
        while ((result = end->ops->peek(end->link, &arrival)) == HK_TRANSPORT_AGAIN) {
            CHECK(pair_now(NULL) - begin < pair_span(20000));
            wait_asleep(end, by_event);
        }
        CHECK(result == HK_TRANSPORT_OK);
        CHECK(pair_take(end, &arrival, &byte));
    }
    CHECK(pair_now(NULL) - begin < pair_span(3000));
    return pair_meet(end);
}

static bool ball_by_event(pair_end *end)
{
    return ball(end, true);
}

static bool ball_by_sleep(pair_end *end)
{
    return ball(end, false);
}

static void an_arrival_wakes_who_waits_on_event_fd(void **state)
{
    (void)state;
    both_ways(ball_by_event, "auto", 0, true);
}

static void an_arrival_ends_a_sleep(void **state)
{
    (void)state;
    both_ways(ball_by_sleep, "auto", HK_TRANSPORT_SLEEP, true);
}

/* The sender sleeps whenever there is no room, the receiver takes its time. */
static bool credit_body(pair_end *end)
{
    enum { FRAMES = 3000 };
    hk_frame frame = {.kind = 1};
    hk_arrival arrival;
    unsigned char *payload = calloc(1, longest(end));
    uint64_t begin = pair_now(NULL);
    for (int i = 0; i < FRAMES; i++) {
        size_t bytes = i % 3 == 0 ? longest(end) / 2 : 8;
        while (end->index == 0 && end->ops->send(end->link, &frame, payload, bytes) == HK_TRANSPORT_AGAIN) {
            CHECK(pair_now(NULL) - begin < pair_span(20000));
            wait_asleep(end, i % 2 == 0);
        }
        if (end->index == 1) {
            CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK);
            CHECK(pair_take(end, &arrival, payload));
        }
    }
    CHECK(pair_now(NULL) - begin < pair_span(4000));
    free(payload);
    return pair_meet(end);
}

static void returned_credit_wakes_a_sleeping_sender(void **state)
{
    (void)state;
    both_ways(credit_body, "auto", 0, true);
}

static bool armed_body(pair_end *end)
{
    hk_frame frame = {.kind = 1};
    hk_arrival arrival;
    uint32_t ranks[4];
    unsigned char byte = 9;
    if (end->index == 0) {
        CHECK(pair_send(end, &frame, &byte, 1) == HK_TRANSPORT_OK);
        CHECK(pair_meet(end));
        return pair_meet(end);
    }
    CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK);
    CHECK(pair_meet(end));
    CHECK(!end->ops->arm(end->transport)); /* something lies there */
    CHECK(end->ops->poll(end->transport, ranks, 4) == 1 && ranks[0] == 0);
    CHECK(pair_take(end, &arrival, &byte) && byte == 9);
    for (int i = 0; i < 1000; i++)
        CHECK(end->ops->poll(end->transport, ranks, 4) == 0); /* the doorbell is quiet again */
    CHECK(end->ops->arm(end->transport));
    end->ops->disarm(end->transport);
    return pair_meet(end);
}

static void pending_frames_are_reported_and_forbid_arming(void **state)
{
    (void)state;
    both_ways(armed_body, "auto", 0, true);
}

/* ---- leaving ---- */

static hk_link_state settle_state(pair_end *end)
{
    uint32_t ranks[4];
    hk_arrival arrival;
    uint64_t deadline = pair_now(NULL) + pair_span(5000);
    while (end->ops->link_state(end->link, NULL) <= HK_LINK_UP && pair_now(NULL) < deadline) {
        (void)end->ops->poll(end->transport, ranks, 4);
        (void)end->ops->check(end->transport);
        (void)end->ops->peek(end->link, &arrival);
        usleep(1000);
    }
    return end->ops->link_state(end->link, NULL);
}

static bool take_all_that_was_left(pair_end *end, uint64_t frames)
{
    hk_arrival arrival;
    hk_frame frame;
    unsigned char *payload = malloc(longest(end));
    for (uint64_t i = 0; i < frames; i++) {
        size_t bytes = nth_frame(end, i, &frame);
        CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK);
        CHECK(same_frame(&arrival.frame, &frame) && arrival.bytes == bytes);
        CHECK(pair_take(end, &arrival, payload));
        CHECK(filled(payload, bytes, i));
    }
    free(payload);
    CHECK(end->ops->peek(end->link, &arrival) == HK_TRANSPORT_LOST);
    CHECK(end->ops->send(end->link, &frame, NULL, 0) == HK_TRANSPORT_LOST);
    return true;
}

static bool leave_some(pair_end *end, uint64_t frames)
{
    hk_frame frame;
    unsigned char *payload = malloc(longest(end));
    for (uint64_t i = 0; i < frames; i++) {
        size_t bytes = nth_frame(end, i, &frame);
        fill(payload, bytes, i);
        CHECK(pair_send(end, &frame, payload, bytes) == HK_TRANSPORT_OK);
    }
    free(payload);
    return true;
}

/* The first frame has been seen: the link is up at both ends. */
static bool see_first(pair_end *end)
{
    hk_arrival arrival;
    CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK);
    return true;
}

static bool goodbye_body(pair_end *end)
{
    enum { FRAMES = 6 };
    if (end->index == 0) {
        CHECK(leave_some(end, FRAMES));
        CHECK(pair_meet(end));
        end->ops->close(end->transport, 1.0);
        end->closed = true;
        return pair_meet(end);
    }
    CHECK(see_first(end));
    CHECK(pair_meet(end));
    CHECK(pair_meet(end));
    CHECK(settle_state(end) == HK_LINK_GOODBYE);
    return take_all_that_was_left(end, FRAMES);
}

static void goodbye_comes_after_all_that_was_sent(void **state)
{
    (void)state;
    both_ways(goodbye_body, "auto", NEEDS_ROOM, true);
}

static bool death_body(pair_end *end)
{
    enum { FRAMES = 6 };
    const char *reason = NULL;
    if (end->index == 1) {
        CHECK(leave_some(end, FRAMES));
        CHECK(pair_meet(end));
        raise(SIGKILL);
    }
    CHECK(see_first(end));
    CHECK(end->ops->check(end->transport) == 0);
    CHECK(pair_meet(end));
    CHECK(settle_state(end) == HK_LINK_LOST);
    (void)end->ops->link_state(end->link, &reason);
    CHECK(reason != NULL && strlen(reason) > 5);
    return take_all_that_was_left(end, FRAMES);
}

static void a_killed_peer_is_lost_and_what_arrived_remains(void **state)
{
    (void)state;
    both_ways(death_body, "auto", NEEDS_ROOM, false);
}

/* The peer never answers: it is killed before it has looked at anything. */
static bool early_death_body(pair_end *end)
{
    hk_frame frame = {.kind = 1};
    if (end->index == 1) {
        CHECK(pair_meet(end));
        raise(SIGKILL);
    }
    CHECK(end->ops->send(end->link, &frame, NULL, 0) == HK_TRANSPORT_AGAIN);
    CHECK(end->ops->link_state(end->link, NULL) == HK_LINK_CONNECTING);
    CHECK(pair_meet(end));
    CHECK(settle_state(end) == HK_LINK_LOST);
    return true;
}

static void a_peer_that_dies_while_connecting_is_lost(void **state)
{
    (void)state;
    both_ways(early_death_body, "auto", 0, false);
}

/* The survivor has only waited: nothing was ever sent. */
static bool silent_death_body(pair_end *end)
{
    hk_arrival arrival;
    if (end->index == 1) {
        CHECK(pair_meet(end));
        raise(SIGKILL);
    }
    CHECK(end->ops->peek(end->link, &arrival) == HK_TRANSPORT_AGAIN);
    CHECK(pair_meet(end));
    CHECK(settle_state(end) == HK_LINK_LOST);
    return end->ops->peek(end->link, &arrival) == HK_TRANSPORT_LOST;
}

static void a_peer_that_dies_while_it_is_waited_for_is_lost(void **state)
{
    (void)state;
    both_ways(silent_death_body, "auto", 0, false);
}

/* The peer leaves in order, by an end of its process that says so to whoever is connected; nobody is. */
static bool unneeded_body(pair_end *end)
{
    uint32_t ranks[4];
    if (end->index == 1) {
        end->ops->close(end->transport, 1.0);
        end->closed = true;
        CHECK(pair_meet(end));
        return true;
    }
    CHECK(pair_meet(end));
    for (int i = 0; i < 100; i++) { /* its process ends meanwhile */
        (void)end->ops->poll(end->transport, ranks, 4);
        (void)end->ops->check(end->transport);
        usleep(2000);
    }
    CHECK(end->ops->link_state(end->link, NULL) != HK_LINK_LOST);
    return true;
}

static void a_peer_that_was_never_needed_may_leave(void **state)
{
    (void)state;
    both_ways(unneeded_body, "auto", 0, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_arrive_in_order_and_whole),
        cmocka_unit_test(an_unread_sender_is_held_back_and_loses_nothing),
        cmocka_unit_test(an_arrival_wakes_who_waits_on_event_fd),
        cmocka_unit_test(an_arrival_ends_a_sleep),
        cmocka_unit_test(returned_credit_wakes_a_sleeping_sender),
        cmocka_unit_test(pending_frames_are_reported_and_forbid_arming),
        cmocka_unit_test(goodbye_comes_after_all_that_was_sent),
        cmocka_unit_test(a_killed_peer_is_lost_and_what_arrived_remains),
        cmocka_unit_test(a_peer_that_dies_while_connecting_is_lost),
        cmocka_unit_test(a_peer_that_dies_while_it_is_waited_for_is_lost),
        cmocka_unit_test(a_peer_that_was_never_needed_may_leave),
    };
    if (!choose_transports())
        return 1;
    return cmocka_run_group_tests_name("transport", tests, NULL, NULL);
}

/*
 * What every transport must do, driven through hk_transport_ops alone, between two processes and between two threads of
 * one process. A new transport of this tree is one line in the table `built_in`; one that lives elsewhere is named by
 * the variable CONFORMANCE_PLUGIN, looked for as HOCKET_TRANSPORT_PATH says, and tested instead of those.
 */
#include "pair.h"

#include "comm/plugin.h"

#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

#include <cmocka.h>

extern const hk_transport_ops hk_transport_shm, hk_transport_tcp;
static const pair_transport built_in[] = {
    {"shm", &hk_transport_shm, NULL, false},
    {"tcp over IPv4", &hk_transport_tcp, "INTERFACE=127.0.0.0/8", false},
    {"tcp over IPv6", &hk_transport_tcp, "INTERFACE=::1", false},
    {"tcp with small buffers", &hk_transport_tcp, "INTERFACE=127.0.0.1 SOCKET_BUFFER=64K", .narrow = true},
    {"tcp with four streams", &hk_transport_tcp, "INTERFACE=127.0.0.1 STREAMS=4", false},
    {"tcp with four streams and small buffers", &hk_transport_tcp, "INTERFACE=::1 SOCKET_BUFFER=64K STREAMS=4",
     .narrow = true},
#ifdef HKI_HAVE_OPENSSL
    {"tcp with TLS and two streams", &hk_transport_tcp, "INTERFACE=127.0.0.1 TLS=required STREAMS=2", false},
    {"tcp with TLS", &hk_transport_tcp, "INTERFACE=127.0.0.1 TLS=required", false},
    {"tcp with TLS and small buffers", &hk_transport_tcp, "INTERFACE=::1 SOCKET_BUFFER=64K TLS=required",
     .narrow = true},
#endif
};

static pair_transport plugin; /* in their place */
static const pair_transport *transports = built_in;
static size_t transport_count = sizeof built_in / sizeof built_in[0];

enum { NEEDS_ROOM = 1u << 30 /* besides capabilities: a sender gets far without being read */ };

static void both_ways(pair_body *body, const char *protocol, uint32_t needs, bool threads)
{
    for (size_t i = 0; i < transport_count; i++)
        for (int processes = threads ? 0 : 1; processes < 2; processes++) {
            if ((needs & NEEDS_ROOM) && transports[i].narrow)
                continue;
            pair_end probe = {.settings = transports[i].settings};
            assert_true(pair_open(&probe, transports[i].ops, 0, 2, protocol));
            bool able = (probe.limits.capabilities & needs) == (needs & ~(uint32_t)NEEDS_ROOM);
            transports[i].ops->close(probe.transport, 0);
            if (able && !pair_run(&transports[i], body, protocol, processes != 0))
                fail_msg("%s between two %s", transports[i].name, processes != 0 ? "processes" : "threads");
        }
}

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

static void fill(unsigned char *payload, size_t bytes, uint64_t n)
{
    for (size_t i = 0; i < bytes; i++)
        payload[i] = (unsigned char)(n * 31 + i * 7);
}

static bool filled(const unsigned char *payload, size_t bytes, uint64_t n)
{
    for (size_t i = 0; i < bytes; i++)
        if (payload[i] != (unsigned char)(n * 31 + i * 7))
            return false;
    return true;
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

/* ---- pulling ---- */

static hk_transport_result describe(pair_end *end, const void *memory, size_t bytes, hk_remote *remote,
                                    uint32_t *protocols)
{
    uint32_t ranks[4];
    hk_transport_result result;
    while ((result = end->ops->describe(end->link, memory, bytes, remote, protocols)) == HK_TRANSPORT_AGAIN)
        (void)end->ops->poll(end->transport, ranks, 4);
    return result;
}

static bool take_remote(pair_end *end, hk_remote *remote)
{
    hk_arrival arrival;
    CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK);
    CHECK(arrival.bytes == sizeof *remote);
    return pair_take(end, &arrival, (unsigned char *)remote);
}

static bool map_body(pair_end *end)
{
    enum { BYTES = 3000000, SKIP = 12345 };
    hk_frame frame = {.kind = 3};
    hk_remote remote;
    uint32_t protocols = 0, ranks[4];
    if (end->index == 0) {
        unsigned char *memory = end->ops->alloc(end->transport, BYTES), other[64];
        CHECK(memory != NULL && (uintptr_t)memory % 4096 == 0 && memory[0] == 0 && memory[BYTES - 1] == 0);
        fill(memory, BYTES, 5);
        CHECK(describe(end, memory + SKIP, BYTES - SKIP, &remote, &protocols) == HK_TRANSPORT_OK);
        CHECK((protocols & HK_TRANSPORT_MAP) != 0);
        CHECK(pair_send(end, &frame, &remote, sizeof remote) == HK_TRANSPORT_OK);
        CHECK(describe(end, other, sizeof other, &remote, &protocols) == HK_TRANSPORT_REFUSED);
        CHECK(pair_meet(end));
        fill(memory, BYTES, 6); /* what the peer has mapped is this memory, and no copy */
        CHECK(pair_meet(end));
        CHECK(pair_meet(end));
        CHECK(!end->ops->free(end->transport, other));
        CHECK(end->ops->free(end->transport, memory));
        return pair_meet(end);
    }
    const void *memory;
    hk_transport_result result;
    CHECK(take_remote(end, &remote));
    while ((result = end->ops->map(end->link, &remote, BYTES - SKIP, &memory)) == HK_TRANSPORT_AGAIN)
        (void)end->ops->poll(end->transport, ranks, 4);
    CHECK(result == HK_TRANSPORT_OK);
    for (size_t i = 0; i < BYTES - SKIP; i += 997)
        CHECK(((const unsigned char *)memory)[i] == (unsigned char)(5 * 31 + (i + SKIP) * 7));
    CHECK(pair_meet(end));
    CHECK(pair_meet(end));
    CHECK(((const unsigned char *)memory)[100] == (unsigned char)(6 * 31 + (100 + SKIP) * 7));
    CHECK(pair_counter(end, "maps") == 1);
    CHECK(pair_meet(end));
    CHECK(pair_meet(end));
    (void)end->ops->check(end->transport);
    return true;
}

static void allocated_memory_is_read_where_it_lies(void **state)
{
    (void)state;
    both_ways(map_body, "auto", HK_TRANSPORT_MAP, true);
}

static bool get_body(pair_end *end)
{
    enum { BYTES = 700001, SKIP = 33 };
    hk_frame frame = {.kind = 3};
    hk_remote remote;
    uint32_t protocols = 0;
    unsigned char *memory = malloc(BYTES);
    if (end->index == 0) {
        fill(memory, BYTES, 8);
        CHECK(describe(end, memory, BYTES, &remote, &protocols) == HK_TRANSPORT_OK);
        CHECK(protocols == HK_TRANSPORT_GET);
        CHECK(pair_send(end, &frame, &remote, sizeof remote) == HK_TRANSPORT_OK);
    } else {
        CHECK(take_remote(end, &remote));
        CHECK(end->ops->get(end->link, &remote, SKIP, memory + SKIP, BYTES - SKIP) == HK_TRANSPORT_OK);
        CHECK(end->ops->get(end->link, &remote, 0, memory, SKIP) == HK_TRANSPORT_OK);
        CHECK(filled(memory, BYTES, 8));
        CHECK(pair_counter(end, "gets") == 2 && pair_counter(end, "get_bytes") == BYTES);
    }
    CHECK(pair_meet(end));
    free(memory);
    return true;
}

static void any_memory_can_be_copied_from(void **state)
{
    (void)state;
    both_ways(get_body, "get", HK_TRANSPORT_GET, true);
}

static hk_transport_result settle_put(pair_end *end, uint64_t number)
{
    uint32_t ranks[4];
    uint64_t deadline = pair_now(end) + UINT64_C(20000000000);
    hk_transport_result result;
    while ((result = end->ops->put_result(end->link, number)) == HK_TRANSPORT_AGAIN && pair_now(end) < deadline)
        (void)end->ops->poll(end->transport, ranks, 4);
    return result;
}

/* Many puts, large and small; the frame of each comes when its bytes are there. Sources are used again at once. */
static bool put_body(pair_end *end)
{
    enum { BYTES = 700001, SKIP = 77, PUTS = 30 };
    hk_frame frame = {.kind = 3};
    hk_remote remote;
    hk_arrival arrival;
    unsigned char *memory = end->ops->alloc(end->transport, BYTES);
    CHECK(memory != NULL);
    for (uint32_t n = 1; n <= PUTS; n++) {
        size_t bytes = n % 3 == 0 ? BYTES - SKIP : n;
        if (end->index == 0) {
            uint32_t protocols = HK_TRANSPORT_PUT;
            memset(memory, 0, BYTES);
            CHECK(describe(end, memory, BYTES, &remote, &protocols) == HK_TRANSPORT_OK);
            CHECK(protocols == HK_TRANSPORT_PUT);
            CHECK(pair_send(end, &frame, &remote, sizeof remote) == HK_TRANSPORT_OK);
            CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK);
            CHECK(arrival.frame.kind == 11 && arrival.frame.ordinal == n && arrival.bytes == 0);
            CHECK(filled(memory + SKIP, bytes, n) && memory[0] == 0 && memory[SKIP - 1] == 0);
            CHECK(bytes == BYTES - SKIP || memory[SKIP + bytes] == 0);
            end->ops->consume(end->link);
            end->ops->withdraw(end->link, &remote, false);
        } else {
            fill(memory, bytes, n);
            CHECK(take_remote(end, &remote));
            frame = (hk_frame){.kind = 11, .ordinal = n};
            CHECK(end->ops->put(end->link, &remote, SKIP, memory, bytes, &frame) == HK_TRANSPORT_OK);
            CHECK(settle_put(end, n) == HK_TRANSPORT_OK);
        }
    }
    CHECK(pair_meet(end));
    CHECK(end->ops->free(end->transport, memory));
    return pair_meet(end);
}

static void a_put_arrives_before_its_frame(void **state)
{
    (void)state;
    both_ways(put_body, "auto", HK_TRANSPORT_PUT, true);
}

/* Memory that is withdrawn is not written any more, and frames go on. */
static bool withdrawn(pair_end *end, bool kept)
{
    enum { BYTES = 1 << 20 };
    hk_frame frame = {.kind = 3};
    hk_remote remote;
    hk_arrival arrival;
    unsigned char *memory = kept ? end->ops->alloc(end->transport, BYTES) : calloc(1, BYTES), byte = 0;
    if (end->index == 0) {
        uint32_t protocols = HK_TRANSPORT_PUT;
        CHECK(describe(end, memory, BYTES, &remote, &protocols) == HK_TRANSPORT_OK);
        CHECK(pair_send(end, &frame, &remote, sizeof remote) == HK_TRANSPORT_OK);
        end->ops->withdraw(end->link, &remote, true);
        CHECK(pair_meet(end));
        CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK && arrival.frame.ordinal == 5);
        CHECK(pair_take(end, &arrival, &byte) && byte == 9);
        for (size_t i = 0; i < BYTES; i++)
            CHECK(memory[i] == 0);
        frame.ordinal = 6;
        CHECK(pair_send(end, &frame, &byte, 1) == HK_TRANSPORT_OK);
    } else {
        memset(memory, 1, BYTES);
        CHECK(take_remote(end, &remote));
        CHECK(pair_meet(end));
        CHECK(end->ops->put(end->link, &remote, 0, memory, BYTES, &frame) == HK_TRANSPORT_OK);
        CHECK(settle_put(end, 1) == HK_TRANSPORT_REFUSED);
        byte = 9;
        frame.ordinal = 5;
        CHECK(pair_send(end, &frame, &byte, 1) == HK_TRANSPORT_OK);
        CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK && arrival.frame.ordinal == 6);
        CHECK(pair_take(end, &arrival, &byte));
    }
    CHECK(end->ops->link_state(end->link, NULL) == HK_LINK_UP);
    CHECK(pair_meet(end));
    if (kept)
        CHECK(end->ops->free(end->transport, memory));
    else
        free(memory);
    return true;
}

static bool withdrawn_body(pair_end *end)
{
    return withdrawn(end, false);
}

static bool withdrawn_kept_body(pair_end *end)
{
    return withdrawn(end, true);
}

static void memory_that_is_withdrawn_is_written_no_more(void **state)
{
    (void)state;
    both_ways(withdrawn_body, "auto", HK_TRANSPORT_PUT, true);
    both_ways(withdrawn_kept_body, "auto", HK_TRANSPORT_PUT, true);
}

/* False when there is no such plug-in. */
static bool choose_transports(void)
{
    plugin.name = getenv("CONFORMANCE_PLUGIN");
    if (plugin.name == NULL)
        return true;
    if (hki_plugin_load(plugin.name, &plugin.ops) != HK_OK) {
        fprintf(stderr, "%s\n", hk_last_error());
        return false;
    }
    transports = &plugin;
    transport_count = 1;
    return true;
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
        cmocka_unit_test(allocated_memory_is_read_where_it_lies),
        cmocka_unit_test(any_memory_can_be_copied_from),
        cmocka_unit_test(a_put_arrives_before_its_frame),
        cmocka_unit_test(memory_that_is_withdrawn_is_written_no_more),
    };
    if (!choose_transports())
        return 1;
    return cmocka_run_group_tests_name("transport", tests, NULL, NULL);
}

/* Several TCP connections between two ranks: order, what breaks, what leaves. */
#include "tests/conformance/pair.h"
#include "transports/tcp/tcp.h"

#include <setjmp.h>
#include <stddef.h>

#include <cmocka.h>

extern const hk_transport_ops hk_transport_tcp;

enum { LARGE = HKI_TCP_PIECE, FRAMES = 60 };

static const pair_transport plain = {"tcp", &hk_transport_tcp, "INTERFACE=127.0.0.1 STREAMS=3", false};
static const pair_transport *three = &plain; /* of the tests that run */
static const pair_transport one = {"tcp", &hk_transport_tcp, "INTERFACE=127.0.0.1", false};

/* Every third frame is small, and sizes differ, so that the lanes get out of step. */
static size_t size_of(uint32_t i)
{
    return i % 3 == 2 ? 100 + i : LARGE - i * 1000;
}

static void fill(unsigned char *payload, uint32_t i)
{
    for (size_t at = 0; at < size_of(i); at++)
        payload[at] = (unsigned char)(at * 7 + i * 13 + (at >> 8));
}

static bool send_one(pair_end *end, uint32_t i)
{
    unsigned char *payload = malloc(LARGE);
    hk_frame frame = {.kind = 1, .operation = i};
    fill(payload, i);
    bool sent = pair_send(end, &frame, payload, size_of(i)) == HK_TRANSPORT_OK;
    free(payload);
    return sent;
}

static bool take_one(pair_end *end, uint32_t i)
{
    hk_arrival arrival;
    CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK);
    CHECK(arrival.frame.operation == i && arrival.bytes == size_of(i));
    unsigned char *payload = malloc(2 * LARGE), *expected = payload + LARGE;
    bool taken = pair_take(end, &arrival, payload);
    fill(expected, i);
    bool same = memcmp(payload, expected, size_of(i)) == 0;
    free(payload);
    CHECK(taken && same);
    return true;
}

/* Until this end's lanes are there: they are made while the first large frame goes without them. */
static bool wait_for_lanes(pair_end *end, uint64_t wanted)
{
    uint32_t ranks[4];
    uint64_t deadline = pair_now(end) + pair_span(20000);
    while (pair_counter(end, "lanes") < wanted && pair_now(end) < deadline)
        (void)end->ops->poll(end->transport, ranks, 4);
    CHECK(pair_counter(end, "lanes") == wanted);
    return true;
}

/* Sends large frames both ways, after which each end has two lanes of its own and two of the other's. */
static bool begin(pair_end *end)
{
    CHECK(send_one(end, 0) && take_one(end, 0));
    return wait_for_lanes(end, 4);
}

static bool both_ways(pair_end *end)
{
    CHECK(begin(end));
    for (uint32_t i = 0; i < FRAMES; i++)
        CHECK(send_one(end, i) && take_one(end, i));
    CHECK(pair_counter(end, "frames_by_lanes") > FRAMES / 10);
    CHECK(pair_counter(end, "connections") == 1);
    return pair_meet(end);
}

static void frames_keep_their_order_over_several_streams(void **state)
{
    (void)state;
    assert_true(pair_run(three, both_ways, "", false));
    assert_true(pair_run(three, both_ways, "", true));
}

static bool one_stream(pair_end *end)
{
    for (uint32_t i = 0; i < FRAMES; i++)
        CHECK(send_one(end, i) && take_one(end, i));
    CHECK(pair_counter(end, "lanes") == 0);
    return pair_meet(end);
}

static void without_the_setting_there_is_one(void **state)
{
    (void)state;
    assert_true(pair_run(&one, one_stream, "", false));
}

/* What is dropped unread on a lane does not shift what follows on it. */
static bool drop_some(pair_end *end)
{
    hk_arrival arrival;
    unsigned char begun[1000];
    CHECK(begin(end));
    for (uint32_t i = 0; i < FRAMES; i++) {
        CHECK(send_one(end, i));
        if (i % 4 != 0) {
            CHECK(take_one(end, i));
            continue;
        }
        size_t moved = 0;
        CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK && arrival.frame.operation == i);
        if (i % 8 == 0 && arrival.data == NULL)
            (void)end->ops->read(end->link, begun, sizeof begun, &moved);
        end->ops->consume(end->link);
    }
    return pair_meet(end);
}

static void what_is_dropped_does_not_shift_what_follows(void **state)
{
    (void)state;
    assert_true(pair_run(three, drop_some, "", true));
}

/* All is sent, and the sender leaves at once. */
static bool leave_early(pair_end *end)
{
    hk_arrival arrival;
    CHECK(begin(end));
    CHECK(pair_meet(end));
    if (end->index == 0) {
        for (uint32_t i = 0; i < 12; i++)
            CHECK(send_one(end, i));
        end->ops->close(end->transport, 20.0);
        end->closed = true;
        return true;
    }
    for (uint32_t i = 0; i < 12; i++)
        CHECK(take_one(end, i));
    CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_LOST);
    CHECK(end->ops->link_state(end->link, NULL) == HK_LINK_GOODBYE);
    return true;
}

static void what_lies_on_lanes_arrives_before_the_goodbye(void **state)
{
    (void)state;
    assert_true(pair_run(three, leave_early, "", true));
}

/* One of three connections breaks: both ends say that the other is lost, and name it. */
static bool cut(pair_end *end)
{
    hk_arrival arrival;
    const char *reason = "";
    CHECK(begin(end));
    CHECK(pair_meet(end));
    if (end->index == 0)
        CHECK(shutdown(end->link->to[1]->stream.fd, SHUT_RDWR) == 0);
    hk_frame frame = {.kind = 1};
    unsigned char *payload = calloc(1, LARGE);
    uint64_t deadline = pair_now(end) + pair_span(20000);
    hk_transport_result result = HK_TRANSPORT_OK;
    while (result != HK_TRANSPORT_LOST && pair_now(end) < deadline) {
        if (end->index == 0)
            result = end->ops->send(end->link, &frame, payload, LARGE);
        else if ((result = end->ops->peek(end->link, &arrival)) == HK_TRANSPORT_OK &&
                 !pair_take(end, &arrival, payload))
            result = HK_TRANSPORT_LOST;
        (void)end->ops->check(end->transport);
    }
    free(payload);
    CHECK(result == HK_TRANSPORT_LOST);
    CHECK(end->ops->link_state(end->link, &reason) == HK_LINK_LOST);
    char name[32];
    snprintf(name, sizeof name, "rank %d", 1 - end->index);
    CHECK(strstr(reason, name) != NULL);
    return true;
}

static void when_one_breaks_the_peer_is_lost_and_named(void **state)
{
    (void)state;
    assert_true(pair_run(three, cut, "", false));
}

static int run_with_tls(void)
{
#ifdef HKI_HAVE_OPENSSL
    static const pair_transport secure = {"tcp", &hk_transport_tcp, "INTERFACE=127.0.0.1 STREAMS=3 TLS=required",
                                          false};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_keep_their_order_over_several_streams),
        cmocka_unit_test(what_is_dropped_does_not_shift_what_follows),
        cmocka_unit_test(what_lies_on_lanes_arrives_before_the_goodbye),
        cmocka_unit_test(when_one_breaks_the_peer_is_lost_and_named),
    };
    three = &secure;
    return cmocka_run_group_tests_name("with TLS", tests, NULL, NULL);
#else
    return 0;
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_keep_their_order_over_several_streams),
        cmocka_unit_test(without_the_setting_there_is_one),
        cmocka_unit_test(what_is_dropped_does_not_shift_what_follows),
        cmocka_unit_test(what_lies_on_lanes_arrives_before_the_goodbye),
        cmocka_unit_test(when_one_breaks_the_peer_is_lost_and_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) + run_with_tls();
}

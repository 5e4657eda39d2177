/*
 * For tests of the verbs transport over the fake libibverbs: two ranks, in two threads or two processes, and what most
 * tests do with them. Nothing is left of any device at the end of a run, and nothing has gone astray.
 */
#ifndef HKI_TESTS_VERBS_PAIR_H
#define HKI_TESTS_VERBS_PAIR_H

#include "../conformance/pair.h"
#include "fake_fabric.h"

#include "comm/plugin.h"

#include <setjmp.h>
#include <stddef.h>

#include <cmocka.h>

#define VERBS_PAIR_LIBRARY "VERBS_LIBRARY=" FAKE_VERBS_LIBRARY " "

static pair_transport verbs = {
    .name = "verbs", .settings = "VERBS_LIBRARY=" FAKE_VERBS_LIBRARY " VERBS_DEVICE=fake0,fake1 VERBS_REGISTER=256K"};

static inline uint64_t count(pair_end *end, const char *name)
{
    return pair_counter(end, name);
}

/* The link is up at both ends, and nothing is under way. */
static inline bool come_up(pair_end *end)
{
    hk_frame frame = {.kind = 1};
    hk_arrival arrival;
    unsigned char byte = 1;
    CHECK(pair_send(end, &frame, &byte, 1) == HK_TRANSPORT_OK);
    CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK);
    CHECK(pair_take(end, &arrival, &byte));
    return pair_meet(end);
}

static void run(pair_body *body, bool processes)
{
    assert_true(pair_run(&verbs, body, "auto", processes));
    /* Nothing of either end is left of the devices. */
    assert_int_equal(atomic_load(&faults->queue_pairs), 0);
    assert_int_equal(atomic_load(&faults->regions), 0);
    assert_int_equal(atomic_load(&faults->not_ready), 0);
    assert_int_equal(atomic_load(&faults->unflushed), 0);
    assert_int_equal(atomic_load(&faults->astray), 0);
}

/* Before the ends meet: where requests are delayed, polls carry out what is still under way. */
static inline bool carry_out(pair_end *end)
{
    uint32_t ranks[4];
    for (int i = 0; i < 2000; i++)
        (void)end->ops->poll(end->transport, ranks, 4);
    return pair_meet(end);
}

static inline hk_transport_result put_ends(pair_end *end, uint64_t number)
{
    uint32_t ranks[4];
    hk_transport_result result;
    uint64_t deadline = pair_now(end) + UINT64_C(20000000000);
    while ((result = end->ops->put_result(end->link, number)) == HK_TRANSPORT_AGAIN && pair_now(end) < deadline)
        (void)end->ops->poll(end->transport, ranks, 4);
    return result;
}

/* The target of a put: describes memory to the other end, and waits for a frame. */
static inline bool be_written(pair_end *end, unsigned char *memory, size_t bytes, hk_remote *remote,
                              hk_arrival *arrival)
{
    uint32_t protocols = HK_TRANSPORT_PUT;
    hk_frame frame = {.kind = 3};
    memset(memory, 0, bytes);
    CHECK(end->ops->describe(end->link, memory, bytes, remote, &protocols) == HK_TRANSPORT_OK);
    CHECK(pair_send(end, &frame, remote, sizeof *remote) == HK_TRANSPORT_OK);
    CHECK(pair_peek(end, arrival) == HK_TRANSPORT_OK);
    return true;
}

static inline bool hear_where(pair_end *end, hk_remote *remote)
{
    hk_arrival arrival;
    CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK && arrival.bytes == sizeof *remote);
    return pair_take(end, &arrival, (unsigned char *)remote);
}

static int start(void **state)
{
    if (fabric_start(state) == 0 && hki_plugin_load("verbs", &verbs.ops) == HK_OK)
        return 0;
    fprintf(stderr, "%s\n", hk_last_error());
    return -1;
}

#endif

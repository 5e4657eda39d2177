/*
 * What every transport must do whose peers reach memory directly, by mapping it, copying from it or writing to it; what
 * a transport has no capability for is left out.
 */
#include "each_transport.h"

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
    uint64_t deadline = pair_now(end) + pair_span(20000);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocated_memory_is_read_where_it_lies),
        cmocka_unit_test(any_memory_can_be_copied_from),
        cmocka_unit_test(a_put_arrives_before_its_frame),
        cmocka_unit_test(memory_that_is_withdrawn_is_written_no_more),
    };
    if (!choose_transports())
        return 1;
    return cmocka_run_group_tests_name("transports' memory", tests, NULL, NULL);
}

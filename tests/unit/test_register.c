/* hk_register asks every transport: all take the memory, or none keeps it. */
#include "comm/comm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* What a transport has registered; `full`: it takes no more. */
typedef struct taker {
    int held;
    bool full;
} taker;

static hk_status take(hk_transport *transport, void *memory, size_t bytes)
{
    taker *one = (taker *)(void *)transport;
    (void)memory, (void)bytes;
    if (one->full)
        return HK_ERR_NO_MEMORY;
    one->held++;
    return HK_OK;
}

static void give_back(hk_transport *transport, void *memory)
{
    taker *one = (taker *)(void *)transport;
    (void)memory;
    one->held--;
}

static void all_transports_keep_memory_or_none_does(void **state)
{
    (void)state;
    static const hk_transport_ops ops = {.name = "taker", .register_memory = take, .unregister_memory = give_back},
                                  without = {.name = "without"};
    hk_options options = HK_OPTIONS_INIT;
    taker takers[2] = {{0}};
    static char memory[64];
    hk_comm *comm;
    options.rank = 0;
    options.ranks = 1;
    assert_int_equal(hk_comm_create(&options, &comm), HK_OK);
    hki_context *context = comm->context;
    assert_int_equal(context->transport_count, 0);
    context->transport_count = 3;
    context->ops[0] = context->ops[2] = &ops;
    context->ops[1] = &without;
    context->transports[0] = (hk_transport *)(void *)&takers[0];
    context->transports[2] = (hk_transport *)(void *)&takers[1];

    assert_int_equal(hk_register(comm, memory, sizeof memory), HK_OK);
    assert_true(takers[0].held == 1 && takers[1].held == 1);
    takers[1].full = true;
    assert_int_equal(hk_register(comm, memory, sizeof memory), HK_ERR_NO_MEMORY);
    assert_true(takers[0].held == 1 && takers[1].held == 1);
    takers[0].full = true;
    assert_int_equal(hk_register(comm, memory, sizeof memory), HK_ERR_NO_MEMORY);
    assert_true(takers[0].held == 1 && takers[1].held == 1);
    assert_int_equal(hk_unregister(comm, memory), HK_OK);
    assert_true(takers[0].held == 0 && takers[1].held == 0);

    context->transport_count = 0;
    assert_int_equal(hk_comm_free(comm), HK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_transports_keep_memory_or_none_does)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

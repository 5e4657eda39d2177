/*
 * Jobs over verbs hardware that fails in their midst, over the fake libibverbs: large messages find another way and
 * arrive whole, and a lost link is an error that names the peer.
 */
#include "../support/ranks.h"
#include "fake_fabric.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define SETTINGS                                                                                                       \
    "HOCKET_TRANSPORT=verbs HOCKET_TRANSPORT_PATH=" HOCKET_BUILD "/lib/hocket "                                        \
    "HOCKET_VERBS_LIBRARY=" FAKE_VERBS_LIBRARY " HOCKET_VERBS_DEVICE=fake0,fake1 HOCKET_VERBS_REGISTER=256K"

enum { COUNT = 300000, ROUNDS = 6 };

typedef struct plan {
    enum ibv_wr_opcode opcode;
    uint32_t after; /* so many requests of this kind one fails */
    int *place;
} plan;

/* All-reduces and broadcasts; one rank breaks a queue pair in the midst of them. */
static int work(hk_comm *comm, int rank, void *argument)
{
    const plan *what = argument;
    int ranks = hk_comm_size(comm);
    float *in = malloc(COUNT * sizeof *in), *out = malloc(COUNT * sizeof *out);
    for (int round = 0; round < ROUNDS; round++) {
        ranks_meet(what->place + round, ranks);
        if (round == 1 && rank == 0)
            fabric_fail(what->opcode, IBV_WC_REM_ACCESS_ERR, what->after);
        for (int i = 0; i < COUNT; i++)
            in[i] = (float)(i % 1000 + rank + round);
        EXPECT_OK(hk_allreduce(in, out, COUNT, HK_FLOAT32, HK_SUM, comm));
        for (int i = 0; i < COUNT; i++)
            EXPECT(out[i] == (float)(ranks * (i % 1000 + round) + ranks * (ranks - 1) / 2));
        for (int i = 0; i < COUNT && rank == round % ranks; i++)
            out[i] = (float)(i + round);
        EXPECT_OK(hk_broadcast(out, COUNT, HK_FLOAT32, round % ranks, comm));
        for (int i = 0; i < COUNT; i++)
            EXPECT(out[i] == (float)(i + round));
    }
    free(in);
    free(out);
    return 0;
}

static void run_broken(const char *settings, enum ibv_wr_opcode opcode)
{
    for (uint32_t after = 1; after <= 9; after += 4) {
        ranks_options options = {.settings = settings, .timeout = 20};
        plan what = {opcode, after, ranks_shared(ROUNDS * sizeof(int))};
        assert_int_equal(ranks_run(3, &options, work, &what), 0);
        assert_int_equal(atomic_load(&faults->fail_in), 0); /* it has happened */
        assert_int_equal(atomic_load(&faults->queue_pairs), 0);
        assert_int_equal(atomic_load(&faults->regions), 0);
    }
}

/* A read that breaks off goes on as a stream from where it was. */
static void reads_that_fail_go_on_as_streams(void **state)
{
    (void)state;
    run_broken(SETTINGS " HOCKET_PROTOCOL=get HOCKET_ALGORITHM=allreduce:ring", IBV_WR_RDMA_READ);
}

/* Among writes with an immediate those of frames are most; they would end the link. The shares of long ones have plain
 * writes before: of more than the 1 MiB that the fake's longest message has. */
static int work_long(hk_comm *comm, int rank, void *argument)
{
    enum { LONG = 1500000 };
    const plan *what = argument;
    double *data = malloc(LONG * sizeof *data);
    for (int round = 0; round < ROUNDS; round++) {
        ranks_meet(what->place + round, hk_comm_size(comm));
        if (round == 1 && rank == 0)
            fabric_fail(what->opcode, IBV_WC_REM_ACCESS_ERR, what->after);
        for (int i = 0; i < LONG; i++)
            data[i] = rank == 0 ? i + round : -1;
        EXPECT_OK(hk_broadcast(data, LONG, HK_FLOAT64, 0, comm));
        for (int i = 0; i < LONG; i++)
            EXPECT(data[i] == i + round);
    }
    free(data);
    return 0;
}

static void writes_that_fail_are_sent_again_as_streams(void **state)
{
    (void)state;
    for (uint32_t after = 1; after <= 7; after += 3) {
        ranks_options options = {.settings = SETTINGS " HOCKET_ALGORITHM=broadcast:flat", .timeout = 20};
        plan what = {IBV_WR_RDMA_WRITE, after, ranks_shared(ROUNDS * sizeof(int))};
        assert_int_equal(ranks_run(3, &options, work_long, &what), 0);
        assert_int_equal(atomic_load(&faults->fail_in), 0);
        assert_int_equal(atomic_load(&faults->regions), 0);
    }
}

/* A frame cannot be sent: the link ends, and the operation with an error that names the peer. */
static int lose(hk_comm *comm, int rank, void *argument)
{
    const plan *what = argument;
    float value = 1, sum = 0;
    EXPECT_OK(hk_allreduce(&value, &sum, 1, HK_FLOAT32, HK_SUM, comm));
    ranks_meet(what->place, 2);
    if (rank == 0)
        fabric_fail(IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RETRY_EXC_ERR, 1);
    ranks_meet(what->place + 1, 2);
    hk_status status = HK_OK;
    for (int i = 0; i < 100 && status == HK_OK; i++)
        status = hk_allreduce(&value, &sum, 1, HK_FLOAT32, HK_SUM, comm);
    EXPECT(status == HK_ERR_PEER_LOST);
    EXPECT_ERROR_NAMES(rank == 0 ? "rank 1 on" : "rank 0 on");
    ranks_meet(what->place + 2, 2);
    return 0;
}

static void a_lost_link_is_an_error_that_names_the_peer(void **state)
{
    (void)state;
    ranks_options options = {.settings = SETTINGS, .timeout = 20};
    plan what = {IBV_WR_RDMA_WRITE_WITH_IMM, 1, ranks_shared(3 * sizeof(int))};
    assert_int_equal(ranks_run(2, &options, lose, &what), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(reads_that_fail_go_on_as_streams, fabric_whole),
        cmocka_unit_test_setup(writes_that_fail_are_sent_again_as_streams, fabric_whole),
        cmocka_unit_test_setup(a_lost_link_is_an_error_that_names_the_peer, fabric_whole),
    };
    if (!fabric_there())
        return 77;
    return cmocka_run_group_tests_name("verbs_job", tests, fabric_start, fabric_end);
}

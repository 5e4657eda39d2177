/*
 * Ranks that die. Every survivor gets HK_ERR_PEER_LOST with the name of the dead one soon after, whatever it does, and
 * its buffers are its own again; hk_comm_abort frees everyone; hk_comm_shrink gives the survivors a communicator that
 * works.
 */
#include "../support/ranks.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { SOON_SECONDS = 5 }; /* about 0.1 s on an idle machine */

typedef struct death {
    unsigned dying; /* bit i: rank i */
    uint64_t count;
    bool mapped;
    int kind; /* what the survivors do */
    int *place;
} death;

static bool dies(const death *how, int rank)
{
    return how->dying >> rank & 1;
}

static hk_status call(const death *how, double *send, double *recv, hk_comm *comm)
{
    hk_request *request;
    switch (how->kind) {
    case 0:
        return hk_allreduce(send, recv, how->count, HK_FLOAT64, HK_SUM, comm);
    case 1:
        return hk_barrier(comm);
    case 2:
        return hk_broadcast(send, how->count, HK_FLOAT64, 1, comm);
    case 3:
        return hk_recv(recv, how->count, HK_FLOAT64, 1, 0, comm, NULL);
    case 4:
        return hk_recv(recv, how->count, HK_FLOAT64, HK_ANY_SOURCE, 0, comm, NULL);
    case 5: {
        hk_status status = hk_iallreduce(send, recv, how->count, HK_FLOAT64, HK_SUM, comm, &request);
        int done = 0;
        while (status == HK_OK && !done)
            status = hk_test(&request, &done);
        return status;
    }
    default:
        return hk_probe(1, 0, comm, NULL);
    }
}

/* The survivors' part; the error of all of them names the dead rank. */
static void survive(const death *how, hk_comm *comm)
{
    size_t bytes = (how->count + 1) * sizeof(double);
    double *send = ranks_take(comm, bytes, how->mapped), *recv = ranks_take(comm, bytes, how->mapped);
    double begin = ranks_seconds();
    hk_status status = HK_OK;
    for (int i = 0; status == HK_OK; i++)
        status = call(how, send, recv, comm);
    ranks_give(comm, send, bytes, how->mapped);
    ranks_give(comm, recv, bytes, how->mapped);
    EXPECT(status == HK_ERR_PEER_LOST);
    EXPECT_ERROR_NAMES("rank 1 on");
    EXPECT(ranks_seconds() - begin < SOON_SECONDS);
    EXPECT_STATUS(hk_barrier(comm), HK_ERR_PEER_LOST);
    EXPECT_ERROR_NAMES("rank 1 on");
}

static int one_dies(hk_comm *comm, int rank, void *argument)
{
    const death *how = argument;
    size_t bytes = (how->count + 1) * sizeof(double);
    double *send = ranks_take(comm, bytes, how->mapped), *recv = ranks_take(comm, bytes, how->mapped);
    for (int i = 0; i < 3; i++)
        EXPECT_OK(hk_allreduce(send, recv, how->count, HK_FLOAT64, HK_SUM, comm));
    ranks_meet(how->place, hk_comm_size(comm));
    if (dies(how, rank)) {
        if (how->kind == 0 && how->count > 1000) { /* in the midst of it */
            hk_request *request;
            EXPECT_OK(hk_iallreduce(send, recv, how->count, HK_FLOAT64, HK_SUM, comm, &request));
        }
        raise(SIGKILL);
    }
    ranks_give(comm, send, bytes, how->mapped);
    ranks_give(comm, recv, bytes, how->mapped);
    survive(how, comm);
    return 0;
}

/* Runs a job of which one rank is meant to die; all others succeed. */
static void run_with_death(int ranks, const char *settings, ranks_body *body, death how)
{
    ranks_options options = {.settings = settings, .timeout = 20};
    ranks_job job;
    how.place = ranks_shared(sizeof *how.place);
    ranks_start(&job, ranks, &options, body, &how);
    ranks_wait(&job);
    for (int rank = 0; rank < ranks; rank++) {
        bool killed = WIFSIGNALED(job.status[rank]) && WTERMSIG(job.status[rank]) == SIGKILL;
        if (dies(&how, rank))
            assert_true(killed);
        else
            assert_int_equal(job.status[rank], 0);
    }
}

static void test_a_dead_rank_is_named_by_every_survivor(void **state)
{
    (void)state;
    for (int kind = 0; kind < 7; kind++)
        run_with_death(4, NULL, one_dies, (death){.dying = 2, .count = 16, .kind = kind});
    run_with_death(2, NULL, one_dies, (death){.dying = 2, .count = 1});
    run_with_death(8, NULL, one_dies, (death){.dying = 2, .count = 3});
}

static void test_buffers_are_quiet_after_a_death(void **state)
{
    (void)state;
    static const char *const settings[] = {"HOCKET_PROTOCOL=get", "HOCKET_PROTOCOL=stream", "HOCKET_PROTOCOL=map",
                                           "HOCKET_ALGORITHM=allreduce:ring"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        run_with_death(3, settings[i], one_dies, (death){.dying = 2, .count = 400000});
        run_with_death(3, settings[i], one_dies, (death){.dying = 2, .count = 400000, .mapped = true});
        run_with_death(3, settings[i], one_dies, (death){.dying = 2, .count = 100000, .kind = 2});
    }
}

/* --- abort -----------------------------------------------------------------------------------------------------------
 */

static int one_aborts(hk_comm *comm, int rank, void *argument)
{
    hk_comm *other;
    hk_request *request = NULL;
    double memory[64] = {0}, sum[64];
    (void)argument;
    EXPECT_OK(hk_comm_dup(comm, &other));
    EXPECT_OK(hk_barrier(comm));
    double begin = ranks_seconds();
    if (rank == 2) {
        ranks_nap(0.05);
        EXPECT_OK(hk_comm_abort(other, "the disk is full"));
        EXPECT_OK(hk_comm_abort(other, "again")); /* harmless */
    } else if (rank == 1) {
        EXPECT_OK(hk_iallreduce(memory, sum, 64, HK_FLOAT64, HK_SUM, other, &request));
        EXPECT_STATUS(hk_wait(&request), HK_ERR_ABORTED);
    } else {
        EXPECT_STATUS(hk_recv(memory, 64, HK_FLOAT64, 1, 0, other, NULL), HK_ERR_ABORTED);
    }
    EXPECT_STATUS(hk_barrier(other), HK_ERR_ABORTED);
    EXPECT_ERROR_NAMES("rank 2");
    EXPECT_ERROR_NAMES("the disk is full");
    EXPECT(ranks_seconds() - begin < SOON_SECONDS);
    EXPECT_OK(hk_comm_free(other));
    EXPECT_OK(hk_allreduce(memory, sum, 64, HK_FLOAT64, HK_SUM, comm)); /* the parent is not concerned */
    return 0;
}

static void test_abort_frees_everyone(void **state)
{
    (void)state;
    ranks_options options = {.timeout = 20};
    assert_int_equal(ranks_run(4, &options, one_aborts, NULL), 0);
}

/* --- shrink ----------------------------------------------------------------------------------------------------------
 */

static void check_works(hk_comm *comm, int size, int rank)
{
    static int64_t send[20000], recv[20000];
    EXPECT(hk_comm_size(comm) == size && hk_comm_rank(comm) == rank);
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 20000; i++)
            send[i] = i + rank;
        EXPECT_OK(hk_allreduce(send, recv, turn ? 20000 : 1, HK_INT64, HK_SUM, comm));
        EXPECT(recv[0] == size * (size - 1) / 2);
        EXPECT(turn == 0 || recv[19999] == recv[0] + (int64_t)size * 19999);
    }
    int64_t word = rank;
    EXPECT_OK(hk_broadcast(&word, 1, HK_INT64, size - 1, comm));
    EXPECT(word == size - 1);
    EXPECT_OK(hk_barrier(comm));
}

static int shrinks(hk_comm *comm, int rank, void *argument)
{
    const death *how = argument;
    hk_comm *smaller, *again;
    int64_t one = 1, sum;
    int size = hk_comm_size(comm), place = 0;
    EXPECT_OK(hk_barrier(comm));
    ranks_meet(how->place, size);
    if (dies(how, rank) && how->kind == 0)
        raise(SIGKILL);
    hk_status status = HK_OK;
    while (status == HK_OK && how->kind == 0)
        status = hk_allreduce(&one, &sum, 1, HK_INT64, HK_SUM, comm);
    if (dies(how, rank)) { /* while the others agree */
        ranks_nap(0.001 * how->kind);
        raise(SIGKILL);
    }
    for (int i = 0; i < rank; i++)
        place += !dies(how, i);
    for (int i = 0; i < 8; i++)
        size -= dies(how, i);
    EXPECT_OK(hk_comm_shrink(comm, &smaller));
    for (int rounds = 0; how->kind != 0 && hk_comm_size(smaller) > size && rounds < 3; rounds++) {
        do /* the death came after the agreement */
            status = hk_allreduce(&one, &sum, 1, HK_INT64, HK_SUM, smaller);
        while (status == HK_OK);
        EXPECT_STATUS(hk_comm_shrink(smaller, &again), HK_OK);
        EXPECT_OK(hk_comm_free(smaller));
        smaller = again;
    }
    check_works(smaller, size, place);
    EXPECT_OK(hk_comm_free(smaller));
    return 0;
}

static void test_survivors_shrink_the_communicator_and_go_on(void **state)
{
    (void)state;
    run_with_death(4, NULL, shrinks, (death){.dying = 1u << 1});
    run_with_death(4, NULL, shrinks, (death){.dying = 1u << 0});
    run_with_death(2, NULL, shrinks, (death){.dying = 1u << 1});
    run_with_death(5, NULL, shrinks, (death){.dying = 1u << 1 | 1u << 4});
    run_with_death(4, NULL, shrinks, (death){.dying = 1u << 0 | 1u << 1 | 1u << 3});
}

static void test_ranks_may_die_while_the_others_shrink(void **state)
{
    (void)state;
    for (int delay = 1; delay <= 9; delay += 2)
        run_with_death(5, NULL, shrinks, (death){.dying = 1u << 2, .kind = delay});
    run_with_death(5, NULL, shrinks, (death){.dying = 1u << 2 | 1u << 3, .kind = 4});
}

/* Without a death: after an abort all go on together. */
static int shrinks_after_abort(hk_comm *comm, int rank, void *argument)
{
    hk_comm *fresh;
    EXPECT_OK(hk_barrier(comm));
    ranks_meet(argument, hk_comm_size(comm));
    if (rank == 0)
        EXPECT_OK(hk_comm_abort(comm, NULL));
    else
        EXPECT_STATUS(hk_recv(&rank, 1, HK_INT32, 0, 0, comm, NULL), HK_ERR_ABORTED);
    EXPECT_OK(hk_comm_shrink(comm, &fresh));
    check_works(fresh, hk_comm_size(comm), hk_comm_rank(comm));
    EXPECT_OK(hk_comm_free(fresh));
    return 0;
}

static void test_an_aborted_communicator_can_be_replaced(void **state)
{
    (void)state;
    ranks_options options = {.timeout = 20};
    assert_int_equal(ranks_run(3, &options, shrinks_after_abort, ranks_shared(sizeof(int))), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_dead_rank_is_named_by_every_survivor),
        cmocka_unit_test(test_buffers_are_quiet_after_a_death),
        cmocka_unit_test(test_abort_frees_everyone),
        cmocka_unit_test(test_survivors_shrink_the_communicator_and_go_on),
        cmocka_unit_test(test_ranks_may_die_while_the_others_shrink),
        cmocka_unit_test(test_an_aborted_communicator_can_be_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

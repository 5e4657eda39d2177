/*
 * Ranks that do not come. Everyone who waits gets HK_ERR_TIMEOUT within the time-out, with the name of the rank that is
 * missing (not of a neighbour that waits for it, too), and its buffers are its own again.
 */
#include "../support/ranks.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>

#include <cmocka.h>

enum { BOUND_SECONDS = 20 }; /* the time-outs are below 1 s; a loaded machine is no failure, a hang is */

typedef struct absence {
    int missing;
    uint64_t count;     /* of the call that it misses, in float64 */
    bool mapped;        /* buffers of hk_alloc */
    int collective;     /* see call */
    volatile int *done; /* shared: how many have their error */
} absence;

/* Naps until the count is reached. Not for ever: a rank that failed does not count. */
static void wait_for(const volatile int *done, int count)
{
    for (double end = ranks_seconds() + BOUND_SECONDS * ranks_slower(); *done < count && ranks_seconds() < end;)
        ranks_nap(0.005);
}

static hk_status call(const absence *how, double *send, double *recv, hk_comm *comm)
{
    switch (how->collective) {
    case 0:
        return hk_allreduce(send, recv, how->count, HK_FLOAT64, HK_SUM, comm);
    case 1:
        return hk_barrier(comm);
    case 2:
        return hk_allgather(send, recv, how->count / (uint64_t)hk_comm_size(comm), HK_FLOAT64, comm);
    case 3:
        return hk_alltoall(send, recv, how->count / (uint64_t)hk_comm_size(comm), HK_FLOAT64, comm);
    case 4:
        return hk_reduce_scatter(send, recv, how->count / (uint64_t)hk_comm_size(comm), HK_FLOAT64, HK_SUM, comm);
    default:
        return hk_scan(send, recv, how->count, HK_FLOAT64, HK_SUM, comm);
    }
}

static int one_is_missing(hk_comm *comm, int rank, void *argument)
{
    absence *how = argument;
    char name[32];
    snprintf(name, sizeof name, "rank %d on", how->missing);
    EXPECT_OK(hk_barrier(comm));
    if (rank == how->missing) {
        wait_for(how->done, hk_comm_size(comm) - 1);
        return 0;
    }
    size_t bytes = (how->count + 1) * sizeof(double);
    double *send = ranks_take(comm, bytes, how->mapped), *recv = ranks_take(comm, bytes, how->mapped);
    double begin = ranks_seconds();
    hk_status status = call(how, send, recv, comm);
    ranks_give(comm, send, bytes, how->mapped);
    ranks_give(comm, recv, bytes, how->mapped);
    EXPECT(status == HK_ERR_TIMEOUT);
    EXPECT_ERROR_NAMES(name);
    EXPECT_ERROR_NAMES("has not arrived");
    EXPECT(strstr(hk_comm_last_error(comm), name) != NULL);
    EXPECT(ranks_seconds() - begin < BOUND_SECONDS * ranks_slower());
    __atomic_add_fetch(how->done, 1, __ATOMIC_SEQ_CST);
    wait_for(how->done, hk_comm_size(comm) - 1);
    EXPECT_STATUS(hk_barrier(comm), HK_ERR_TIMEOUT); /* poisoned */
    return 0;
}

/* Jobs that each lack a rank, all at once: they sleep most of the time. */
typedef struct trial {
    int ranks;
    const char *settings;
    absence how;
} trial;

static void miss_all(trial *trials, size_t count)
{
    static ranks_job jobs[16];
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        ranks_options options = {.settings = trials[i].settings, .timeout = 0.4};
        trials[i].how.done = ranks_shared(sizeof *trials[i].how.done);
        ranks_start(&jobs[i], trials[i].ranks, &options, one_is_missing, &trials[i].how);
        if (ranks_slower() > 1) /* one at a time */
            failed += ranks_wait(&jobs[i]);
    }
    for (size_t i = 0; i < count && ranks_slower() == 1; i++)
        failed += ranks_wait(&jobs[i]);
    assert_int_equal(failed, 0);
}

static void test_a_missing_rank_is_named_by_all(void **state)
{
    (void)state;
    trial trials[] = {
        {2, NULL, {.missing = 1, .count = 8}},
        {4, NULL, {.missing = 0, .count = 100000}},
        {4, NULL, {.missing = 2, .collective = 1}},
        {4, NULL, {.missing = 2, .count = 4000, .collective = 2}},
        {4, NULL, {.missing = 2, .count = 4000, .collective = 3}},
        {4, NULL, {.missing = 2, .count = 4000, .collective = 4}},
        {4, NULL, {.missing = 0, .count = 4000, .collective = 5}},
    };
    miss_all(trials, sizeof trials / sizeof *trials);
}

static void test_a_missing_rank_is_named_through_trees(void **state)
{
    (void)state;
    trial trials[] = {
        {8, NULL, {.missing = 4, .count = 4}},
        {8, NULL, {.missing = 4, .collective = 1}},
        {8, "HOCKET_ALGORITHM=allreduce:ring", {.missing = 4, .count = 100000}},
        {8, "HOCKET_ALGORITHM=allreduce:reduce_broadcast", {.missing = 4, .count = 64}},
        {8, "HOCKET_ALGORITHM=allreduce:reduce_broadcast", {.missing = 4, .count = 50000}},
    };
    miss_all(trials, sizeof trials / sizeof *trials);
}

static void test_buffers_are_quiet_after_a_time_out(void **state)
{
    (void)state;
    absence plain = {.missing = 1, .count = 300000}, mapped = {.missing = 1, .count = 300000, .mapped = true};
    trial trials[] = {
        {3, "HOCKET_PROTOCOL=get", plain},  {3, "HOCKET_PROTOCOL=stream", plain},  {3, "HOCKET_PROTOCOL=map", plain},
        {3, "HOCKET_PROTOCOL=get", mapped}, {3, "HOCKET_PROTOCOL=stream", mapped}, {3, "HOCKET_PROTOCOL=map", mapped},
    };
    miss_all(trials, sizeof trials / sizeof *trials);
}

/* --- rooted collectives, messages, requests -------------------------------------------------------------------------
 */

static int root_is_missing(hk_comm *comm, int rank, void *argument)
{
    volatile int *done = argument;
    static double memory[50000];
    EXPECT_OK(hk_barrier(comm));
    if (rank == 2) {
        wait_for(done, hk_comm_size(comm) - 1);
        return 0;
    }
    EXPECT_STATUS(hk_broadcast(memory, 50000, HK_FLOAT64, 2, comm), HK_ERR_TIMEOUT);
    EXPECT_ERROR_NAMES("rank 2 on");
    EXPECT_ERROR_NAMES("broadcast of 50000 float64, root 2");
    __atomic_add_fetch(done, 1, __ATOMIC_SEQ_CST);
    wait_for(done, hk_comm_size(comm) - 1);
    return 0;
}

/* A leaf that takes no part in a large broadcast: the root waits for it, the others have what they need or name it. */
static int leaf_is_missing(hk_comm *comm, int rank, void *argument)
{
    volatile int *done = argument;
    static double memory[200000];
    EXPECT_OK(hk_barrier(comm));
    int missing = hk_comm_size(comm) - 1;
    if (rank == missing) {
        wait_for(done, missing);
        return 0;
    }
    hk_status status = hk_broadcast(memory, 200000, HK_FLOAT64, 0, comm);
    if (status == HK_OK)
        status = hk_barrier(comm);
    EXPECT(status == HK_ERR_TIMEOUT);
    char name[32];
    snprintf(name, sizeof name, "rank %d on", missing);
    EXPECT_ERROR_NAMES(name);
    __atomic_add_fetch(done, 1, __ATOMIC_SEQ_CST);
    wait_for(done, missing);
    return 0;
}

static void test_missing_roots_and_leaves_are_named(void **state)
{
    (void)state;
    ranks_options options = {.timeout = 0.5};
    assert_int_equal(ranks_run(5, &options, root_is_missing, ranks_shared(4096)), 0);
    assert_int_equal(ranks_run(5, &options, leaf_is_missing, ranks_shared(4096)), 0);
    ranks_options stream = {.timeout = 0.5, .settings = "HOCKET_PROTOCOL=stream"};
    assert_int_equal(ranks_run(5, &stream, leaf_is_missing, ranks_shared(4096)), 0);
}

static int nothing_to_receive(hk_comm *comm, int rank, void *argument)
{
    int64_t word;
    hk_comm *other[3];
    (void)argument;
    for (int i = 0; i < 3; i++)
        EXPECT_OK(hk_comm_dup(comm, &other[i]));
    EXPECT_OK(hk_barrier(comm));
    if (rank == 0) {
        EXPECT_STATUS(hk_recv(&word, 1, HK_INT64, 1, 12, other[0], NULL), HK_ERR_TIMEOUT);
        EXPECT_ERROR_NAMES("rank 1 on");
        EXPECT_ERROR_NAMES("tag 12");
        EXPECT_STATUS(hk_recv(&word, 1, HK_INT64, HK_ANY_SOURCE, 13, other[1], NULL), HK_ERR_TIMEOUT);
        EXPECT_ERROR_NAMES("tag 13");
        hk_message message;
        EXPECT_STATUS(hk_probe(1, 14, other[2], &message), HK_ERR_TIMEOUT);
        EXPECT_ERROR_NAMES("tag 14");
        EXPECT_OK(hk_send(&word, 1, HK_INT64, 1, 0, comm));
    } else {
        EXPECT_OK(hk_comm_set_timeout(comm, 30));
        EXPECT_OK(hk_recv(&word, 1, HK_INT64, 0, 0, comm, NULL));
    }
    for (int i = 0; i < 3; i++)
        EXPECT_OK(hk_comm_free(other[i]));
    return 0;
}

static void test_messages_time_out(void **state)
{
    (void)state;
    ranks_options options = {.timeout = 0.5};
    assert_int_equal(ranks_run(2, &options, nothing_to_receive, NULL), 0);
}

/* The request's own time-out overrides; 0 means never; hk_test sees it, too. */
static int own_time_out(hk_comm *comm, int rank, void *argument)
{
    (void)argument;
    int64_t word = 0;
    hk_comm *other;
    hk_request *request;
    EXPECT_OK(hk_comm_dup(comm, &other));
    EXPECT_OK(hk_barrier(comm));
    if (rank == 0) {
        int done = 0;
        hk_status status = HK_OK;
        double begin = ranks_seconds();
        EXPECT_OK(hk_irecv(&word, 1, HK_INT64, 1, 1, other, &request));
        EXPECT_OK(hk_request_set_timeout(request, 0.3));
        while (!done && ranks_seconds() - begin < BOUND_SECONDS * ranks_slower())
            status = hk_test(&request, &done);
        EXPECT(done && status == HK_ERR_TIMEOUT && request == NULL);
        EXPECT(ranks_seconds() - begin >= 0.3);
        EXPECT_OK(hk_send(&word, 1, HK_INT64, 1, 0, comm));
    } else {
        EXPECT_OK(hk_irecv(&word, 1, HK_INT64, 0, 0, comm, &request));
        EXPECT_OK(hk_request_set_timeout(request, 0)); /* the communicator's, 0.05 s, does not apply */
        EXPECT_OK(hk_wait(&request));
    }
    EXPECT_OK(hk_comm_free(other));
    return 0;
}

static int own_time_out_set(hk_comm *comm, int rank, void *argument)
{
    EXPECT_OK(hk_barrier(comm));
    EXPECT_STATUS(hk_comm_set_timeout(comm, -1), HK_ERR_ARGUMENT);
    return own_time_out(comm, rank, argument);
}

static void test_requests_have_time_outs_of_their_own(void **state)
{
    (void)state;
    ranks_options options = {.timeout = 5};
    assert_int_equal(ranks_run(2, &options, own_time_out_set, NULL), 0);
}

/* --- stopped is not lost --------------------------------------------------------------------------------------------
 */

static int stopped_for_a_while(hk_comm *comm, int rank, void *argument)
{
    volatile int *ready = argument;
    int64_t one = 1, sum = 0;
    EXPECT_OK(hk_barrier(comm));
    if (rank == 1) {
        *ready = 1;
        while (*ready != 2)
            ranks_nap(0.002);
    }
    EXPECT_OK(hk_allreduce(&one, &sum, 1, HK_INT64, HK_SUM, comm));
    EXPECT(sum == hk_comm_size(comm));
    return 0;
}

static void test_a_stopped_rank_is_late_and_not_lost(void **state)
{
    (void)state;
    volatile int *ready = ranks_shared(sizeof *ready);
    ranks_job job;
    ranks_start(&job, 3, NULL, stopped_for_a_while, (void *)ready);
    while (*ready != 1)
        ranks_nap(0.001);
    kill(job.pids[1], SIGSTOP);
    *ready = 2;
    ranks_nap(0.6);
    kill(job.pids[1], SIGCONT);
    assert_int_equal(ranks_wait(&job), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_missing_rank_is_named_by_all),
        cmocka_unit_test(test_a_missing_rank_is_named_through_trees),
        cmocka_unit_test(test_buffers_are_quiet_after_a_time_out),
        cmocka_unit_test(test_missing_roots_and_leaves_are_named),
        cmocka_unit_test(test_messages_time_out),
        cmocka_unit_test(test_requests_have_time_outs_of_their_own),
        cmocka_unit_test(test_a_stopped_rank_is_late_and_not_lost),
    };
    cmocka_set_test_filter(getenv("TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}

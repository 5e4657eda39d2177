/* Several contexts in one process, and several threads in one context. */
#include "../support/ranks.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ROUNDS = RANKS_SANITIZED ? 50 : 400 };

static void check_sum(hk_comm *comm, int64_t salt, uint64_t count)
{
    int64_t *send = malloc(count * sizeof *send), *recv = malloc(count * sizeof *recv);
    int size = hk_comm_size(comm);
    EXPECT(send && recv);
    for (uint64_t i = 0; i < count; i++)
        send[i] = salt + hk_comm_rank(comm) + (int64_t)i;
    EXPECT_OK(hk_allreduce(send, recv, count, HK_INT64, HK_SUM, comm));
    for (uint64_t i = 0; i < count; i++)
        EXPECT(recv[i] == size * (salt + (int64_t)i) + size * (size - 1) / 2);
    free(send);
    free(recv);
}

/* --- two contexts in each process ------------------------------------------------------------------------------------
 */

static hk_comm *join(int rank, int ranks, const hk_store *store, const char *name)
{
    hk_comm *comm;
    hk_options options = ranks_join(rank, ranks, store);
    options.name = name;
    options.timeout = 20;
    EXPECT_OK(hk_comm_create(&options, &comm));
    return comm;
}

/* Same store and other names; another store; other numbering. Used in turn, freed in either order. */
static int two_contexts(hk_comm *none, int rank, void *argument)
{
    hk_store *const *stores = argument;
    (void)none;
    hk_comm *a = join(rank, 3, stores[0], "a"), *b = join(2 - rank, 3, stores[0], "b"),
            *c = join((rank + 1) % 3, 3, stores[1], "a");
    EXPECT(hk_comm_rank(a) == rank && hk_comm_rank(b) == 2 - rank);
    for (int i = 0; i < ROUNDS; i++) {
        hk_request *request;
        int64_t word = 1, sum = 0;
        EXPECT_OK(hk_iallreduce(&word, &sum, 1, HK_INT64, HK_SUM, b, &request));
        check_sum(a, i, 1 + (uint64_t)i * 7);
        check_sum(c, -i, 3);
        EXPECT_OK(hk_wait(&request));
        EXPECT(sum == 3);
    }
    EXPECT_OK(hk_comm_free(rank ? a : b));
    check_sum(c, 5, 20000);
    EXPECT_OK(hk_comm_free(rank ? b : a));
    EXPECT_OK(hk_comm_free(c));
    return 0;
}

static void test_contexts_in_one_process_are_independent(void **state)
{
    (void)state;
    ranks_options options = {.no_context = true};
    hk_store *stores[2] = {ranks_store_new(), ranks_store_new()};
    assert_int_equal(ranks_run(3, &options, two_contexts, stores), 0);
    ranks_store_free(stores[0]);
    ranks_store_free(stores[1]);
}

/* A failure in one context does not reach the other. */
static int one_context_fails(hk_comm *none, int rank, void *argument)
{
    hk_store *const *stores = argument;
    (void)none;
    hk_comm *a = join(rank, 2, stores[0], "x"), *b = join(rank, 2, stores[1], "y");
    EXPECT_OK(hk_comm_abort(a, "no more"));
    EXPECT_STATUS(hk_barrier(a), HK_ERR_ABORTED);
    check_sum(b, 1, 10);
    EXPECT_OK(hk_comm_free(a));
    check_sum(b, 2, 100000);
    EXPECT_OK(hk_comm_free(b));
    return 0;
}

static void test_contexts_fail_apart(void **state)
{
    (void)state;
    ranks_options options = {.no_context = true};
    hk_store *stores[2] = {ranks_store_new(), ranks_store_new()};
    assert_int_equal(ranks_run(2, &options, one_context_fails, stores), 0);
    ranks_store_free(stores[0]);
    ranks_store_free(stores[1]);
}

/* --- ranks as threads ------------------------------------------------------------------------------------------------
 */

static int as_thread(hk_comm *comm, int rank, void *argument)
{
    hk_comm *half;
    (void)argument;
    EXPECT_OK(hk_comm_split(comm, rank % 2, 0, &half));
    for (int i = 0; i < ROUNDS / 4; i++) {
        check_sum(comm, i, 1 + (uint64_t)(i % 10) * 4000);
        check_sum(half, i, 5);
    }
    EXPECT_OK(hk_comm_free(half));
    return 0;
}

static void test_threads_of_one_process_may_be_ranks(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 5; ranks++)
        assert_int_equal(ranks_run_threads(ranks, NULL, as_thread, NULL), 0);
}

/* --- many threads in one context -------------------------------------------------------------------------------------
 */

enum { THREADS = 4 };

typedef struct worker {
    hk_comm *comm; /* its own */
    int number;
    pthread_t thread;
} worker;

/* A communicator a thread; collectives, messages to and fro, and waits of all kinds. */
static void *use_own_communicator(void *argument)
{
    worker *own = argument;
    int size = hk_comm_size(own->comm), rank = hk_comm_rank(own->comm);
    for (int i = 0; i < ROUNDS / 8; i++) {
        int64_t out = own->number * 1000 + i, in = -1;
        hk_message message;
        check_sum(own->comm, own->number + i, i % 20 == 7 ? 60000 : 4);
        EXPECT_OK(hk_sendrecv(&out, 1, (rank + 1) % size, own->number, &in, 1, (rank + size - 1) % size, own->number,
                              HK_INT64, own->comm, &message));
        EXPECT(in == out && message.tag == own->number);
        hk_request *request;
        int done = 0;
        EXPECT_OK(hk_ibarrier(own->comm, &request));
        while (i % 2 && !done)
            EXPECT_OK(hk_test(&request, &done));
        EXPECT_OK(hk_wait(&request));
    }
    return NULL;
}

static int many_threads(hk_comm *comm, int rank, void *argument)
{
    worker workers[THREADS];
    (void)rank;
    (void)argument;
    for (int i = 0; i < THREADS; i++) {
        workers[i].number = i;
        EXPECT_OK(hk_comm_dup(comm, &workers[i].comm));
    }
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&workers[i].thread, NULL, use_own_communicator, &workers[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    check_sum(comm, 0, 1000);
    for (int i = 0; i < THREADS; i++)
        EXPECT_OK(hk_comm_free(workers[i].comm));
    return 0;
}

static void test_several_threads_may_use_one_context(void **state)
{
    (void)state;
    ranks_options options = {.threads = HK_THREADS_MULTIPLE, .timeout = 20};
    assert_int_equal(ranks_run(1, &options, many_threads, NULL), 0);
    assert_int_equal(ranks_run(2, &options, many_threads, NULL), 0);
    assert_int_equal(ranks_run(3, &options, many_threads, NULL), 0);
}

/* Threads that send to and receive from other threads of the same communicator, tags apart. */
typedef struct talker {
    hk_comm *comm;
    int tag, peer;
    pthread_t thread;
} talker;

static void *talk(void *argument)
{
    talker *own = argument;
    for (int64_t i = 0; i < ROUNDS * 2; i++) {
        int64_t got = 0;
        if (hk_comm_rank(own->comm) == 0) {
            EXPECT_OK(hk_send(&i, 1, HK_INT64, own->peer, own->tag, own->comm));
            EXPECT_OK(hk_recv(&got, 1, HK_INT64, own->peer, own->tag, own->comm, NULL));
        } else {
            EXPECT_OK(hk_recv(&got, 1, HK_INT64, own->peer, own->tag, own->comm, NULL));
            EXPECT_OK(hk_send(&got, 1, HK_INT64, own->peer, own->tag, own->comm));
        }
        EXPECT(got == i);
    }
    return NULL;
}

static int talking_threads(hk_comm *comm, int rank, void *argument)
{
    talker talkers[THREADS];
    (void)argument;
    for (int i = 0; i < THREADS; i++) {
        talkers[i] = (talker){.comm = comm, .tag = i, .peer = 1 - rank};
        EXPECT(pthread_create(&talkers[i].thread, NULL, talk, &talkers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(talkers[i].thread, NULL);
    return 0;
}

static void test_several_threads_may_use_one_communicator(void **state)
{
    (void)state;
    ranks_options options = {.threads = HK_THREADS_MULTIPLE, .timeout = 20};
    double begin = ranks_seconds();
    assert_int_equal(ranks_run(2, &options, talking_threads, NULL), 0);
    assert_true(ranks_seconds() - begin < 20); /* no sleep of 50 ms a message */
}

/* A thread that waits for long does not keep others out. */
static void *wait_long(void *argument)
{
    hk_comm *comm = argument;
    int64_t word;
    EXPECT_OK(hk_recv(&word, 1, HK_INT64, 1, 77, comm, NULL));
    EXPECT(word == 4);
    return NULL;
}

static int one_waits(hk_comm *comm, int rank, void *argument)
{
    pthread_t thread;
    int64_t word = 4;
    hk_comm *other;
    (void)argument;
    EXPECT_OK(hk_comm_dup(comm, &other));
    if (rank == 0)
        EXPECT(pthread_create(&thread, NULL, wait_long, comm) == 0);
    for (int i = 0; i < 50; i++)
        check_sum(other, i, 10);
    if (rank == 1)
        EXPECT_OK(hk_send(&word, 1, HK_INT64, 0, 77, comm));
    else
        pthread_join(thread, NULL);
    EXPECT_OK(hk_comm_free(other));
    return 0;
}

static void test_a_waiting_thread_lets_others_in(void **state)
{
    (void)state;
    ranks_options options = {.threads = HK_THREADS_MULTIPLE, .timeout = 20};
    assert_int_equal(ranks_run(2, &options, one_waits, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contexts_in_one_process_are_independent),
        cmocka_unit_test(test_contexts_fail_apart),
        cmocka_unit_test(test_threads_of_one_process_may_be_ranks),
        cmocka_unit_test(test_several_threads_may_use_one_context),
        cmocka_unit_test(test_several_threads_may_use_one_communicator),
        cmocka_unit_test(test_a_waiting_thread_lets_others_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Many operations in flight, and ranks that are far ahead of others: results are right and memory is bounded. */
#include "../support/ranks.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>

#include <cmocka.h>

/* --- 100 operations in flight on each of two communicators, waited for in reverse ----------------------------------
 */

enum { OPERATIONS = 100, MOST_COUNT = 40000 };

typedef struct operation {
    int64_t *send, *recv;
    uint64_t count;
    hk_request *request;
} operation;

static const uint64_t counts[] = {1, 7, 300, 0, 2500, 40000};

static int64_t value(int side, int index, int rank, uint64_t i)
{
    return (int64_t)(i % 1000) * 3 + rank * 7 + index * 11 + side * 5;
}

static int64_t sum_over(int ranks, int side, int index, uint64_t i)
{
    int64_t sum = 0;
    for (int rank = 0; rank < ranks; rank++)
        sum += value(side, index, rank, i);
    return sum;
}

static void begin(operation *one, int side, int index, hk_comm *comm)
{
    int rank = hk_comm_rank(comm), ranks = hk_comm_size(comm), root = index % ranks;
    one->count = counts[(index / 5) % 6];
    one->send = malloc((one->count + 1) * sizeof(int64_t) * (size_t)ranks);
    one->recv = calloc(one->count + 1, sizeof(int64_t) * (size_t)ranks);
    EXPECT(one->send && one->recv);
    for (uint64_t i = 0; i < one->count * (uint64_t)ranks; i++)
        one->send[i] = value(side, index, rank, i);
    switch (index % 5) {
    case 0:
        EXPECT_OK(hk_iallreduce(one->send, one->recv, one->count, HK_INT64, HK_SUM, comm, &one->request));
        break;
    case 1:
        if (rank == root && one->count)
            memcpy(one->recv, one->send, one->count * sizeof(int64_t));
        EXPECT_OK(hk_ibroadcast(one->recv, one->count, HK_INT64, root, comm, &one->request));
        break;
    case 2:
        EXPECT_OK(hk_iallgather(one->send, one->recv, one->count, HK_INT64, comm, &one->request));
        break;
    case 3:
        EXPECT_OK(hk_ireduce(one->send, one->recv, one->count, HK_INT64, HK_SUM, root, comm, &one->request));
        break;
    default:
        EXPECT_OK(hk_ialltoall(one->send, one->recv, one->count, HK_INT64, comm, &one->request));
        break;
    }
}

static int64_t wanted(const operation *one, int side, int index, hk_comm *comm, int block, uint64_t i)
{
    int ranks = hk_comm_size(comm);
    switch (index % 5) {
    case 0:
    case 3:
        return sum_over(ranks, side, index, i);
    case 1:
        return value(side, index, index % ranks, i);
    case 2:
        return value(side, index, block, i);
    default:
        return value(side, index, block, i + one->count * (uint64_t)hk_comm_rank(comm));
    }
}

static void end(operation *one, int side, int index, hk_comm *comm)
{
    int ranks = hk_comm_size(comm), kind = index % 5;
    EXPECT_OK(hk_wait(&one->request));
    EXPECT(one->request == NULL);
    int blocks = kind == 2 || kind == 4 ? ranks : 1;
    bool mine = kind != 3 || hk_comm_rank(comm) == index % ranks;
    for (int block = 0; block < blocks && mine; block++) {
        for (uint64_t i = 0; i < one->count; i++)
            EXPECT(one->recv[(uint64_t)block * one->count + i] == wanted(one, side, index, comm, block, i));
    }
    free(one->send);
    free(one->recv);
}

static int two_hundred_in_flight(hk_comm *comm, int rank, void *argument)
{
    static operation all[2][OPERATIONS];
    hk_comm *comms[2] = {comm, NULL};
    (void)rank;
    (void)argument;
    EXPECT_OK(hk_comm_dup(comm, &comms[1]));
    for (int index = 0; index < OPERATIONS; index++) {
        for (int side = 0; side < 2; side++)
            begin(&all[side][index], side, index, comms[side]);
    }
    for (int index = OPERATIONS; index-- > 0;) {
        for (int side = 2; side-- > 0;)
            end(&all[side][index], side, index, comms[side]);
    }
    EXPECT_OK(hk_comm_free(comms[1]));
    return 0;
}

static void test_hundreds_of_operations_end_in_any_order(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks++)
        assert_int_equal(ranks_run(ranks, NULL, two_hundred_in_flight, NULL), 0);
    ranks_options get = {.settings = "HOCKET_PROTOCOL=get"}, stream = {.settings = "HOCKET_PROTOCOL=stream"};
    assert_int_equal(ranks_run(3, &get, two_hundred_in_flight, NULL), 0);
    assert_int_equal(ranks_run(3, &stream, two_hundred_in_flight, NULL), 0);
}

/* --- thousands of operations that others ask about -----------------------------------------------------------------
 */

enum { THOUSANDS = RANKS_SANITIZED ? 2000 : 20000 };

/* Whoever waits for half a second asks the others about each of its operations: were every question to go through all
 * that is in flight, nobody would get on any more. */
static int thousands_asked_about(hk_comm *comm, int rank, void *argument)
{
    static hk_request *requests[THOUSANDS];
    static int32_t words[THOUSANDS], sums[THOUSANDS];
    int size = hk_comm_size(comm);
    (void)argument;
    EXPECT_OK(hk_barrier(comm));
    if (rank == 1)
        ranks_nap(1);
    for (int i = 0; i < THOUSANDS; i++) {
        words[i] = i + rank;
        EXPECT_OK(hk_iallreduce(&words[i], &sums[i], 1, HK_INT32, HK_SUM, comm, &requests[i]));
    }
    for (int i = THOUSANDS; i-- > 0;) {
        EXPECT_OK(hk_wait(&requests[i]));
        EXPECT(sums[i] == size * i + size * (size - 1) / 2);
    }
    return 0;
}

static void test_thousands_of_operations_end_though_others_ask_about_them(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(7, NULL, thousands_asked_about, NULL), 0);
}

/* --- a stopped leaf of many broadcasts -----------------------------------------------------------------------------
 */

/* Enough to see a growth of 64 bytes a time. With TESTS_ALL a million broadcasts and 100,000 splits. */
enum { BROADCASTS = 100000, GROWTH_KIB = RANKS_SANITIZED ? 60000 : 4096, SPLITS = RANKS_SANITIZED ? 5000 : 20000 };

static uint64_t times(uint64_t usual, uint64_t more)
{
    return getenv("TESTS_ALL") && !RANKS_SANITIZED ? usual * more : usual;
}

/* Far more than a root runs ahead. Where each takes a millisecond, a hundred thousand would take minutes. */
static uint64_t broadcasts(void)
{
    return times(BROADCASTS, 10) / (uint64_t)(ranks_slower() * ranks_slower());
}

typedef struct progress {
    volatile uint64_t done[4];
    volatile long resident[4]; /* KiB at the first and the last look */
} progress;

static int broadcast_many_times(hk_comm *comm, int rank, void *argument)
{
    progress *seen = argument;
    for (uint64_t i = 0; i < broadcasts(); i++) {
        uint64_t word[2] = {rank == 0 ? i : 0, ~i};
        EXPECT_OK(hk_broadcast(word, 2, HK_UINT64, 0, comm));
        EXPECT(word[0] == i && (rank != 0 || word[1] == ~i));
        seen->done[rank] = i + 1;
    }
    return 0;
}

/* True once done[rank] has not moved for a moment. */
static bool settles(const progress *seen, int rank)
{
    uint64_t before = seen->done[rank];
    for (int still = 0, looks = 0; looks < 400 && still < 5; looks++) {
        ranks_nap(0.02 * ranks_slower());
        still = seen->done[rank] == before ? still + 1 : 0;
        before = seen->done[rank];
        if (before == broadcasts())
            return false;
    }
    return true;
}

static void test_a_stopped_leaf_costs_no_memory(void **state)
{
    (void)state;
    progress *seen = ranks_shared(sizeof *seen);
    ranks_job job;
    ranks_start(&job, 3, NULL, broadcast_many_times, seen);
    while (seen->done[2] < 100)
        ranks_nap(0.001);
    kill(job.pids[2], SIGSTOP);
    long before = ranks_resident(job.pids[0]);
    bool waits = settles(seen, 0);
    uint64_t ahead = seen->done[0] - seen->done[2];
    long after = ranks_resident(job.pids[0]), stopped = ranks_resident(job.pids[2]);
    kill(job.pids[2], SIGCONT);
    assert_int_equal(ranks_wait(&job), 0);
    assert_true(waits);
    assert_true(ahead >= 32); /* a root runs ahead of its leaf, as far as ring and credit go */
    assert_true(after - before < GROWTH_KIB);
    assert_true(stopped > 0);
}

static int leaf_sleeps_then_takes(hk_comm *comm, int rank, void *argument)
{
    progress *seen = argument;
    EXPECT_OK(hk_barrier(comm));
    seen->resident[rank] = ranks_resident(0);
    int result = broadcast_many_times(comm, rank, argument);
    EXPECT(ranks_resident(0) - seen->resident[rank] < GROWTH_KIB);
    return result;
}

static void test_many_broadcasts_leave_memory_as_it_was(void **state)
{
    (void)state;
    progress *seen = ranks_shared(sizeof *seen);
    assert_int_equal(ranks_run(2, NULL, leaf_sleeps_then_takes, seen), 0);
}

/* --- sends that nobody has posted a receive for ---------------------------------------------------------------------
 */

enum { LARGE = 64 << 20, ALLREDUCES = RANKS_SANITIZED ? 300 : 3000, MANY = 5000 };

static void allreduce_often(hk_comm *comm, int times)
{
    for (int i = 0; i < times; i++) {
        uint32_t words[32], sum[32];
        for (uint32_t k = 0; k < 32; k++)
            words[k] = k + (uint32_t)i;
        EXPECT_OK(hk_allreduce(words, sum, 32, HK_UINT32, HK_SUM, comm));
        EXPECT(sum[5] == (uint32_t)hk_comm_size(comm) * (5 + (uint32_t)i));
    }
}

static void fill(unsigned char *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (unsigned char)((i * 2654435761u + seed) >> 13);
}

static int large_unposted(hk_comm *comm, int rank, void *argument)
{
    const bool *mapped = argument;
    hk_comm *other;
    hk_request *request = NULL;
    void *memory;
    EXPECT_OK(hk_comm_dup(comm, &other));
    if (*mapped)
        EXPECT_OK(hk_alloc(comm, LARGE, &memory));
    else
        EXPECT((memory = malloc(LARGE)) != NULL);
    fill(memory, LARGE, 7);
    if (rank == 0)
        EXPECT_OK(hk_isend(memory, LARGE, HK_BYTE, 1, 3, comm, &request));
    allreduce_often(other, ALLREDUCES);
    if (rank == 0) {
        EXPECT_OK(hk_wait(&request));
    } else if (rank == 1) {
        unsigned char *got = malloc(LARGE);
        EXPECT(got);
        EXPECT_OK(hk_recv(got, LARGE, HK_BYTE, 0, 3, comm, NULL));
        EXPECT(memcmp(got, memory, LARGE) == 0);
        free(got);
    }
    allreduce_often(other, 10);
    EXPECT_OK(hk_barrier(comm));
    if (*mapped)
        EXPECT_OK(hk_free(comm, memory));
    else
        free(memory);
    EXPECT_OK(hk_comm_free(other));
    return 0;
}

static void test_an_unposted_large_send_blocks_nobody(void **state)
{
    (void)state;
    bool yes = true, no = false;
    ranks_options get = {.settings = "HOCKET_PROTOCOL=get"}, stream = {.settings = "HOCKET_PROTOCOL=stream"};
    assert_int_equal(ranks_run(3, NULL, large_unposted, &no), 0);
    assert_int_equal(ranks_run(2, NULL, large_unposted, &yes), 0);
    assert_int_equal(ranks_run(2, &get, large_unposted, &no), 0);
    assert_int_equal(ranks_run(2, &stream, large_unposted, &no), 0);
}

/* More small sends than any credit covers, then a collective, then a receive of the last, then of all others. */
static int many_unposted(hk_comm *comm, int rank, void *argument)
{
    static hk_request *requests[MANY];
    static uint64_t words[MANY];
    hk_comm *other;
    (void)argument;
    EXPECT_OK(hk_comm_dup(comm, &other));
    for (int i = 0; i < MANY && rank == 0; i++) {
        words[i] = (uint64_t)i * 3;
        EXPECT_OK(hk_isend(&words[i], 1, HK_UINT64, 1, i == MANY - 1 ? 9 : 8, comm, &requests[i]));
    }
    allreduce_often(other, 20);
    EXPECT_OK(hk_barrier(comm));
    if (rank == 0)
        EXPECT_OK(hk_wait_all(MANY, requests));
    for (int i = 0; i < MANY && rank == 1; i++) {
        uint64_t word;
        int which = (i + MANY - 1) % MANY;
        EXPECT_OK(hk_recv(&word, 1, HK_UINT64, 0, which == MANY - 1 ? 9 : 8, comm, NULL));
        EXPECT(word == (uint64_t)which * 3);
    }
    EXPECT_OK(hk_comm_free(other));
    return 0;
}

static void test_thousands_of_unposted_sends_block_nobody(void **state)
{
    (void)state;
    ranks_options quick = {.timeout = 10};
    assert_int_equal(ranks_run(2, &quick, many_unposted, NULL), 0);
}

/* Rank 0 is thousands of collectives ahead on one communicator, and waits for rank 1 on another. */
static int far_ahead(hk_comm *comm, int rank, void *argument)
{
    static hk_request *requests[MANY];
    static uint64_t words[MANY];
    hk_comm *other;
    (void)argument;
    EXPECT_OK(hk_comm_dup(comm, &other));
    for (int i = 0; i < MANY && rank == 0; i++) {
        words[i] = (uint64_t)i;
        EXPECT_OK(hk_ibroadcast(&words[i], 1, HK_UINT64, 0, comm, &requests[i]));
    }
    allreduce_often(other, 20);
    for (int i = 0; i < MANY && rank != 0; i++) {
        EXPECT_OK(hk_broadcast(&words[i], 1, HK_UINT64, 0, comm));
        EXPECT(words[i] == (uint64_t)i);
    }
    EXPECT_OK(hk_wait_all(rank == 0 ? MANY : 0, requests));
    EXPECT_OK(hk_comm_free(other));
    return 0;
}

static void test_one_communicator_may_be_far_ahead_of_another(void **state)
{
    (void)state;
    ranks_options quick = {.timeout = 10};
    assert_int_equal(ranks_run(2, &quick, far_ahead, NULL), 0);
    assert_int_equal(ranks_run(3, &quick, far_ahead, NULL), 0);
}

/* --- communicators come and go ---------------------------------------------------------------------------------------
 */

static int split_and_free(hk_comm *comm, int rank, void *argument)
{
    long before = 0;
    int descriptors = 0;
    (void)argument;
    for (int i = 0, splits = (int)times(SPLITS, 5); i < splits; i++) {
        hk_comm *made;
        EXPECT_OK(hk_comm_split(comm, i % 7 == 0 ? rank % 2 : 0, -rank, &made));
        EXPECT(hk_comm_size(made) == (i % 7 == 0 ? 1 : 2));
        if (i % 16 == 0) {
            int32_t one = 1, sum = 0;
            EXPECT_OK(hk_allreduce(&one, &sum, 1, HK_INT32, HK_SUM, made));
            EXPECT(sum == hk_comm_size(made));
        }
        EXPECT_OK(hk_comm_free(made));
        if (i == splits / 10) {
            before = ranks_resident(0);
            descriptors = ranks_descriptors();
        }
    }
    EXPECT(ranks_resident(0) - before < (RANKS_SANITIZED ? 40000 : 1024));
    EXPECT(ranks_descriptors() == descriptors);
    return 0;
}

static void test_communicators_come_and_go_without_a_trace(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(2, NULL, split_and_free, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hundreds_of_operations_end_in_any_order),
        cmocka_unit_test(test_thousands_of_operations_end_though_others_ask_about_them),
        cmocka_unit_test(test_a_stopped_leaf_costs_no_memory),
        cmocka_unit_test(test_many_broadcasts_leave_memory_as_it_was),
        cmocka_unit_test(test_an_unposted_large_send_blocks_nobody),
        cmocka_unit_test(test_thousands_of_unposted_sends_block_nobody),
        cmocka_unit_test(test_one_communicator_may_be_far_ahead_of_another),
        cmocka_unit_test(test_communicators_come_and_go_without_a_trace),
    };
    cmocka_set_test_filter(getenv("TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}

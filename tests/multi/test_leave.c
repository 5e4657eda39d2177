/*
 * Leaving: a rank that returns, frees or exits right after its last collective harms nobody; nothing of a context is
 * left after it was freed; a wait costs next to no CPU; crowds work.
 */
#include "../support/ranks.h"

#include "comm/inspect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/resource.h>

#include <cmocka.h>

enum { TIMES = RANKS_SANITIZED ? 60 : 500 };

/* --- each rank in turn leaves first, a thousand times ---------------------------------------------------------------
 */

typedef struct departure {
    hk_store *store;
    int turn;
    bool frees; /* the context, before exit */
} departure;

static void work(hk_comm *comm, int rank, int turn)
{
    static int64_t send[30000], recv[30000];
    uint64_t count = turn % 5 == 4 ? 30000 : 3;
    int size = hk_comm_size(comm);
    for (uint64_t i = 0; i < count; i++)
        send[i] = rank + (int64_t)i;
    switch (turn % 3) {
    case 0:
        EXPECT_OK(hk_allreduce(send, recv, count, HK_INT64, HK_SUM, comm));
        EXPECT(recv[count - 1] == size * (size - 1) / 2 + size * (int64_t)(count - 1));
        break;
    case 1:
        EXPECT_OK(hk_broadcast(send, count, HK_INT64, turn % size, comm));
        EXPECT(send[count - 1] == turn % size + (int64_t)(count - 1));
        break;
    default:
        EXPECT_OK(hk_reduce(send, recv, count, HK_INT64, HK_SUM, turn % size, comm));
        EXPECT(rank != turn % size || recv[0] == size * (size - 1) / 2);
        break;
    }
}

/* The rank whose turn it is does not dawdle; the others are late at times, so that it has left before they look. */
static int leave_in_turn(hk_comm *comm, int rank, void *argument)
{
    const departure *how = argument;
    if (rank != how->turn % hk_comm_size(comm) && how->turn % 4 == 0)
        ranks_nap(0.001);
    work(comm, rank, how->turn);
    static hk_comm *volatile held; /* as a program's own pointer would be: what it did not free is no leak */
    held = how->frees ? NULL : comm;
    if (!held)
        EXPECT_OK(hk_comm_free(comm));
    return RANKS_FREED;
}

static void leave_often(bool frees)
{
    int failed = 0;
    for (int turn = 0; turn < TIMES / ranks_slower() && failed == 0; turn++) {
        departure how = {.turn = turn, .frees = frees};
        ranks_options options = {.timeout = 20};
        failed += ranks_run(turn % 7 == 0 ? 4 : 2 + turn % 2, &options, leave_in_turn, &how);
        if (failed)
            fprintf(stderr, "turn %d\n", turn);
    }
    assert_int_equal(failed, 0);
}

static void test_ranks_may_exit_after_their_last_collective(void **state)
{
    (void)state;
    leave_often(false);
}

static void test_ranks_may_free_and_exit_after_their_last_collective(void **state)
{
    (void)state;
    leave_often(true);
}

/* A receive from anybody outlives the ranks that have left; so does one from a rank that is still there. */
static int leave_a_receiver(hk_comm *comm, int rank, void *argument)
{
    int *place = argument, size = hk_comm_size(comm);
    int64_t word = rank, got[2] = {-1, -1};
    hk_request *requests[2];
    hk_message message = {0};
    EXPECT_OK(hk_allreduce(&word, got, 1, HK_INT64, HK_SUM, comm));
    if (rank == 0) {
        EXPECT_OK(hk_irecv(&got[0], 1, HK_INT64, HK_ANY_SOURCE, 3, comm, &requests[0]));
        EXPECT_OK(hk_irecv(&got[1], 1, HK_INT64, 1, 4, comm, &requests[1]));
    }
    ranks_meet(place, size);
    if (rank > 1)
        return 0; /* leaves now */
    if (rank == 1) {
        ranks_nap(0.3);
        EXPECT_OK(hk_send(&word, 1, HK_INT64, 0, 3, comm));
        EXPECT_OK(hk_send(&word, 1, HK_INT64, 0, 4, comm));
    } else {
        EXPECT_OK(hk_wait_message(&requests[0], &message));
        EXPECT(message.source == 1 && got[0] == 1);
        EXPECT_OK(hk_wait(&requests[1]));
        EXPECT(got[1] == 1);
        EXPECT_STATUS(hk_recv(&word, 1, HK_INT64, 2, 3, comm, NULL), HK_ERR_PEER_LOST); /* this one needs it */
        EXPECT_ERROR_NAMES("rank 2 on");
    }
    return 0;
}

static void test_who_leaves_harms_only_what_needs_it(void **state)
{
    (void)state;
    ranks_options options = {.timeout = 20};
    assert_int_equal(ranks_run(4, &options, leave_a_receiver, ranks_shared(sizeof(int))), 0);
}

/* --- nothing is left -------------------------------------------------------------------------------------------------
 */

/* Contexts one after another in the same processes, each rank in turn the first to go. */
static int many_contexts(hk_comm *none, int rank, void *argument)
{
    enum { RANKS = 3, CONTEXTS = RANKS_SANITIZED ? 30 : 200 };
    int descriptors = 0, threads = 0, contexts = CONTEXTS / ranks_slower();
    long resident = 0;
    (void)none;
    for (int turn = 0; turn < contexts; turn++) {
        char name[32];
        hk_comm *comm, *half;
        void *memory;
        snprintf(name, sizeof name, "context-%d", turn);
        hk_options join = ranks_join(rank, RANKS, argument);
        join.name = name;
        join.timeout = 20;
        EXPECT_OK(hk_comm_create(&join, &comm));
        EXPECT_OK(hk_comm_split(comm, rank > 0, 0, &half));
        EXPECT_OK(hk_alloc(comm, 100000, &memory));
        work(half, hk_comm_rank(half), turn);
        work(comm, rank, turn);
        EXPECT_OK(hk_broadcast(memory, 100000, HK_BYTE, turn % RANKS, comm));
        if (turn % 2) /* else freed with the context */
            EXPECT_OK(hk_free(comm, memory));
        EXPECT_OK(hk_comm_free(turn % 2 ? half : comm));
        EXPECT_OK(hk_comm_free(turn % 2 ? comm : half));
        if (turn == contexts / 4) {
            descriptors = ranks_descriptors();
            threads = ranks_threads();
            resident = ranks_resident(0);
        }
    }
    EXPECT(ranks_descriptors() == descriptors);
    EXPECT(ranks_threads() == threads);
    EXPECT(ranks_resident(0) - resident < (RANKS_SANITIZED ? 100000 : 2048));
    return 0;
}

static void test_contexts_leave_nothing_behind(void **state)
{
    (void)state;
    ranks_options options = {.no_context = true};
    hk_store *store = ranks_store_new();
    assert_int_equal(ranks_run(3, &options, many_contexts, store), 0);
    ranks_store_free(store);
}

/* Lists the process's shared mappings that have a memfd's or an anonymous name. */
static int shared_mappings(void)
{
    char line[512];
    int count = 0;
    FILE *file = fopen("/proc/self/maps", "re");
    EXPECT(file);
    while (fgets(line, sizeof line, file))
        count += strstr(line, "memfd:") != NULL;
    fclose(file);
    return count;
}

static int no_trace(hk_comm *none, int rank, void *argument)
{
    hk_comm *comm;
    void *memory;
    static char small[64], large[500000];
    (void)none;
    int before[3] = {ranks_descriptors(), ranks_threads(), shared_mappings()};
    hk_options join = ranks_join(rank, 3, argument);
    EXPECT_OK(hk_comm_create(&join, &comm));
    EXPECT_OK(hk_alloc(comm, 1 << 20, &memory));
    EXPECT_OK(hk_broadcast(small, sizeof small, HK_BYTE, 0, comm));
    EXPECT_OK(hk_broadcast(large, sizeof large, HK_BYTE, 1, comm));
    EXPECT_OK(hk_broadcast(memory, 1 << 20, HK_BYTE, 2, comm));
    EXPECT_OK(hk_barrier(comm));
    bool shared = strcmp(hki_comm_transport(comm, (rank + 1) % 3), "shm") == 0;
    EXPECT(!shared || shared_mappings() > before[2]); /* the test would see them */
    EXPECT_OK(hk_comm_free(comm));
    EXPECT(ranks_descriptors() == before[0]);
    EXPECT(ranks_threads() == before[1]);
    EXPECT(shared_mappings() == before[2]);
    return 0;
}

static void test_a_freed_context_has_no_descriptor_thread_or_mapping(void **state)
{
    (void)state;
    ranks_options options = {.no_context = true};
    hk_store *store = ranks_store_new();
    assert_int_equal(ranks_run(3, &options, no_trace, store), 0);
    ranks_store_free(store);
}

/* --- idle ------------------------------------------------------------------------------------------------------------
 */

static double cpu_seconds(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static int wait_idle(hk_comm *comm, int rank, void *argument)
{
    const double most = 0.02 * ranks_slower();
    int64_t word = 0, sum = 0;
    hk_message message;
    (void)argument;
    EXPECT_OK(hk_barrier(comm));
    EXPECT_OK(hk_barrier(comm));
    if (rank == 1)
        ranks_nap(1.0);
    double before = cpu_seconds(), begin = ranks_seconds();
    EXPECT_OK(hk_allreduce(&word, &sum, 1, HK_INT64, HK_SUM, comm));
    double used = cpu_seconds() - before, waited = ranks_seconds() - begin;
    EXPECT(rank == 1 || used < most * waited);
    EXPECT_OK(hk_barrier(comm));
    if (rank == 1) { /* the same in a probe */
        ranks_nap(1.0);
        for (int other = 0; other < hk_comm_size(comm); other++)
            EXPECT_OK(hk_send(&word, 1, HK_INT64, other, 0, comm));
    }
    before = cpu_seconds();
    begin = ranks_seconds();
    EXPECT_OK(hk_probe(HK_ANY_SOURCE, 0, comm, &message));
    EXPECT_OK(hk_recv(&word, 1, HK_INT64, message.source, 0, comm, NULL));
    used = cpu_seconds() - before;
    waited = ranks_seconds() - begin;
    EXPECT(rank == 1 || used < most * waited);
    EXPECT_OK(hk_barrier(comm));
    return 0;
}

static void test_waiting_costs_next_to_nothing(void **state)
{
    (void)state;
    if (RANKS_SANITIZED)
        skip();
    ranks_options options = {.timeout = 20};
    assert_int_equal(ranks_run(2, &options, wait_idle, NULL), 0);
    assert_int_equal(ranks_run(4, &options, wait_idle, NULL), 0);
}

/* --- crowds ----------------------------------------------------------------------------------------------------------
 */

static int crowd(hk_comm *comm, int rank, void *argument)
{
    static int64_t send[20000], recv[20000];
    int size = hk_comm_size(comm);
    (void)argument;
    for (uint64_t count = 1; count <= 20000; count = count * 9 + 1) {
        for (uint64_t i = 0; i < count; i++)
            send[i] = rank * 3 + (int64_t)i;
        EXPECT_OK(hk_allreduce(send, recv, count, HK_INT64, HK_SUM, comm));
        for (uint64_t i = 0; i < count; i++)
            EXPECT(recv[i] == 3 * size * (size - 1) / 2 + size * (int64_t)i);
    }
    return 0;
}

static void test_thirty_two_ranks_reduce(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(ranks_slower() > 1 ? 8 : 32, NULL, crowd, NULL), 0);
}

/* KiB of this process's memory, shared pages by its share of them. */
static long proportional_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "Pss:", 4) == 0)
            kib = atol(line + 4);
    }
    if (file)
        fclose(file);
    return kib;
}

static int all_pairs(hk_comm *comm, int rank, void *argument)
{
    enum { MOST_KIB = 16384 };
    int size = hk_comm_size(comm);
    static int32_t send[RANKS_MOST * 2], recv[RANKS_MOST * 2];
    static char large_send[RANKS_MOST * 2048], large_recv[RANKS_MOST * 2048];
    int *place = argument;
    for (int i = 0; i < size * 2; i++)
        send[i] = rank * 1000 + i;
    EXPECT_OK(hk_alltoall(send, recv, 2, HK_INT32, comm));
    for (int i = 0; i < size; i++)
        EXPECT(recv[2 * i] == i * 1000 + 2 * rank && recv[2 * i + 1] == i * 1000 + 2 * rank + 1);
    for (size_t i = 0; i < sizeof large_send; i++)
        large_send[i] = (char)((size_t)rank + i);
    EXPECT_OK(hk_alltoall(large_send, large_recv, 2048, HK_BYTE, comm));
    for (int i = 0; i < size; i++)
        EXPECT(large_recv[i * 2048 + 5] == (char)(i + rank * 2048 + 5));
    ranks_meet(place, size);
    long kib = proportional_kib();
    if (rank == 0)
        printf("%d ranks, all pairs: %ld KiB on rank 0\n", size, kib);
    EXPECT(kib > 0 && kib <= MOST_KIB);
    ranks_meet(place, size);
    return 0;
}

/* 256 ranks take half a minute on two cores, for `tests/run --all`; else as many as take a second. */
static void test_all_pairs_of_256_ranks_take_16_mib_each(void **state)
{
    (void)state;
    if (RANKS_SANITIZED)
        skip();
    int ranks = ranks_slower() > 1 ? 8 : getenv("TESTS_ALL") ? RANKS_MOST : 48;
    ranks_options options = {.settings = "HOCKET_ALGORITHM=alltoall:linear"};
    assert_int_equal(ranks_run(ranks, &options, all_pairs, ranks_shared(sizeof(int))), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_may_exit_after_their_last_collective),
        cmocka_unit_test(test_ranks_may_free_and_exit_after_their_last_collective),
        cmocka_unit_test(test_who_leaves_harms_only_what_needs_it),
        cmocka_unit_test(test_contexts_leave_nothing_behind),
        cmocka_unit_test(test_a_freed_context_has_no_descriptor_thread_or_mapping),
        cmocka_unit_test(test_waiting_costs_next_to_nothing),
        cmocka_unit_test(test_thirty_two_ranks_reduce),
        cmocka_unit_test(test_all_pairs_of_256_ranks_take_16_mib_each),
    };
    cmocka_set_test_filter(getenv("TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}

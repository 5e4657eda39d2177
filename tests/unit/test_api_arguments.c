/*
 * Bad calls return an error that names the argument, and change nothing: the next collective works, although the bad
 * call was made on one rank only.
 */
#include "../support/ranks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { RANKS = 3, COUNT = 8 };
#define HUGE_COUNT (UINT64_C(1) << 61)

static void check_works(hk_comm *comm)
{
    int32_t mine = hk_comm_rank(comm), sum = -1;
    EXPECT_OK(hk_allreduce(&mine, &sum, 1, HK_INT32, HK_SUM, comm));
    EXPECT(sum == RANKS * (RANKS - 1) / 2);
}

/* One bad call: `status`, and a text that contains each of the words. Made by rank 1 only, so that it would hang or
 * mismatch if it were not refused before anything happened. */
#define REFUSED(call, status, ...)                                                                                     \
    do {                                                                                                               \
        if (hk_comm_rank(comm) == 1) {                                                                                 \
            const char *const words[] = {__VA_ARGS__};                                                                 \
            EXPECT_STATUS(call, status);                                                                               \
            for (size_t each = 0; each < sizeof words / sizeof *words; each++)                                         \
                EXPECT_ERROR_NAMES(words[each]);                                                                       \
        }                                                                                                              \
        check_works(comm);                                                                                             \
    } while (0)

static int bad_types_and_operators(hk_comm *comm, int rank, void *argument)
{
    float a[COUNT * RANKS] = {0}, b[COUNT * RANKS] = {0};
    (void)rank;
    (void)argument;
    REFUSED(hk_allreduce(a, b, COUNT, 99, HK_SUM, comm), HK_ERR_TYPE, "allreduce", "type 99");
    REFUSED(hk_broadcast(a, COUNT, HK_TYPE_COUNT, 0, comm), HK_ERR_TYPE, "broadcast", "type");
    REFUSED(hk_broadcast(a, COUNT, HK_OPAQUE(0), 0, comm), HK_ERR_TYPE, "broadcast", "type");
    REFUSED(hk_broadcast(a, COUNT, HK_OPAQUE((1 << 24) + 1), 0, comm), HK_ERR_TYPE, "broadcast", "type");
    REFUSED(hk_alltoall(a, b, 1, ~0u, comm), HK_ERR_TYPE, "alltoall", "type");
    REFUSED(hk_send(a, 1, 77, 0, 0, comm), HK_ERR_TYPE, "send", "type 77");
    REFUSED(hk_recv(a, 1, 77, 0, 0, comm, NULL), HK_ERR_TYPE, "recv", "type 77");
    REFUSED(hk_allreduce(a, b, COUNT, HK_FLOAT32, 55, comm), HK_ERR_OPERATOR, "allreduce", "unknown operator 0x37");
    REFUSED(hk_allreduce(a, b, COUNT, HK_FLOAT32, HK_BAND, comm), HK_ERR_OPERATOR, "allreduce", "band", "float32");
    REFUSED(hk_reduce(a, b, COUNT, HK_BFLOAT16, HK_LXOR, 0, comm), HK_ERR_OPERATOR, "reduce", "lxor", "bfloat16");
    REFUSED(hk_scan(a, b, 1, HK_OPAQUE(4), HK_SUM, comm), HK_ERR_OPERATOR, "scan", "sum", "opaque");
    REFUSED(hk_reduce_scatter(a, b, 1, HK_FLOAT64, HK_BXOR, comm), HK_ERR_OPERATOR, "reduce_scatter", "bxor",
            "float64");
    return 0;
}

static int bad_roots_and_ranks(hk_comm *comm, int rank, void *argument)
{
    int32_t a[COUNT * RANKS] = {0}, b[COUNT * RANKS] = {0};
    (void)rank;
    (void)argument;
    static const int wrong[] = {-1, RANKS, 1 << 30, INT32_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", wrong[i]);
        REFUSED(hk_broadcast(a, COUNT, HK_INT32, wrong[i], comm), HK_ERR_ROOT, "broadcast", "root", number);
        REFUSED(hk_reduce(a, b, COUNT, HK_INT32, HK_SUM, wrong[i], comm), HK_ERR_ROOT, "reduce", "root", number);
        REFUSED(hk_gather(a, b, 1, HK_INT32, wrong[i], comm), HK_ERR_ROOT, "gather", "root", number);
        REFUSED(hk_scatter(a, b, 1, HK_INT32, wrong[i], comm), HK_ERR_ROOT, "scatter", "root", number);
        REFUSED(hk_gatherv(a, 1, b, NULL, NULL, HK_INT32, wrong[i], comm), HK_ERR_ROOT, "gatherv", "root", number);
        REFUSED(hk_scatterv(a, NULL, NULL, b, 1, HK_INT32, wrong[i], comm), HK_ERR_ROOT, "scatterv", "root", number);
        REFUSED(hk_send(a, 1, HK_INT32, wrong[i], 0, comm), HK_ERR_ROOT, "send", "destination", number);
        if (wrong[i] != HK_ANY_SOURCE) {
            REFUSED(hk_recv(a, 1, HK_INT32, wrong[i], 0, comm, NULL), HK_ERR_ROOT, "recv", "source", number);
            REFUSED(hk_probe(wrong[i], 0, comm, NULL), HK_ERR_ROOT, "probe", "source", number);
        }
    }
    REFUSED(hk_send(a, 1, HK_INT32, 0, -1, comm), HK_ERR_ARGUMENT, "send", "tag -1");
    REFUSED(hk_recv(a, 1, HK_INT32, 0, -7, comm, NULL), HK_ERR_ARGUMENT, "recv", "tag -7");
    REFUSED(hk_sendrecv(a, 1, 0, 0, b, 1, 9, 0, HK_INT32, comm, NULL), HK_ERR_ROOT, "sendrecv", "source", "9");
    return 0;
}

static int bad_counts(hk_comm *comm, int rank, void *argument)
{
    int64_t a[COUNT * RANKS] = {0}, b[COUNT * RANKS] = {0};
    uint64_t counts[RANKS] = {1, 1, 1}, uneven[RANKS] = {1, 2, 1}, wide[RANKS] = {HUGE_COUNT * 4, HUGE_COUNT * 4, 1};
    (void)rank;
    (void)argument;
    REFUSED(hk_allreduce(a, b, HUGE_COUNT, HK_INT64, HK_SUM, comm), HK_ERR_COUNT, "allreduce", "2305843009213693952");
    REFUSED(hk_allgather(a, b, UINT64_MAX / 2, HK_INT8, comm), HK_ERR_COUNT, "allgather");
    REFUSED(hk_alltoall(a, b, UINT64_MAX, HK_INT64, comm), HK_ERR_COUNT, "alltoall");
    REFUSED(hk_send(a, HUGE_COUNT, HK_INT64, 0, 0, comm), HK_ERR_COUNT, "send", "count");
    REFUSED(hk_recv(a, HUGE_COUNT, HK_INT64, 0, 0, comm, NULL), HK_ERR_COUNT, "recv", "count");
    REFUSED(hk_allgatherv(a, 1, b, NULL, NULL, HK_INT64, comm), HK_ERR_COUNT, "allgatherv", "counts");
    REFUSED(hk_allgatherv(a, 2, b, counts, NULL, HK_INT64, comm), HK_ERR_COUNT, "allgatherv", "counts[1]");
    const uint64_t twice[RANKS] = {2, 0, 2}, apart[RANKS] = {2, 0, 1};
    REFUSED(hk_allgatherv(a, 1, b, counts, twice, HK_INT64, comm), HK_ERR_BUFFER, "ranks 0 and 2 overlap");
    EXPECT(hk_allgatherv(a, 1, b, counts, apart, HK_INT64, comm) == HK_OK);
    REFUSED(hk_reduce_scatterv(a, b, NULL, HK_INT64, HK_SUM, comm), HK_ERR_COUNT, "reduce_scatterv", "counts");
    REFUSED(hk_alltoallv(a, NULL, NULL, b, counts, NULL, HK_INT64, comm), HK_ERR_COUNT, "alltoallv", "send counts");
    REFUSED(hk_alltoallv(a, counts, NULL, b, NULL, NULL, HK_INT64, comm), HK_ERR_COUNT, "alltoallv", "recv counts");
    REFUSED(hk_alltoallv(a, wide, NULL, b, counts, NULL, HK_INT64, comm), HK_ERR_COUNT, "alltoallv", "send");
    REFUSED(hk_alltoallv(a, uneven, NULL, b, counts, NULL, HK_INT64, comm), HK_ERR_COUNT, "alltoallv",
            "send_counts[1] is 2", "recv_counts[1] is 1");
    REFUSED(hk_gatherv(a, 1, b, NULL, NULL, HK_INT64, 1, comm), HK_ERR_COUNT, "gatherv", "counts");
    return 0;
}

static int bad_buffers(hk_comm *comm, int rank, void *argument)
{
    int32_t a[COUNT * RANKS] = {0}, b[COUNT * RANKS] = {0};
    (void)rank;
    (void)argument;
    REFUSED(hk_allreduce(NULL, b, COUNT, HK_INT32, HK_SUM, comm), HK_ERR_BUFFER, "allreduce", "send is NULL");
    REFUSED(hk_allreduce(a, NULL, COUNT, HK_INT32, HK_SUM, comm), HK_ERR_BUFFER, "allreduce", "recv is NULL");
    REFUSED(hk_broadcast(NULL, COUNT, HK_INT32, 0, comm), HK_ERR_BUFFER, "broadcast", "buffer is NULL");
    REFUSED(hk_allgather(a, NULL, 1, HK_INT32, comm), HK_ERR_BUFFER, "allgather", "recv is NULL");
    REFUSED(hk_gather(a, NULL, 1, HK_INT32, 1, comm), HK_ERR_BUFFER, "gather", "recv is NULL");
    REFUSED(hk_scatter(NULL, b, 1, HK_INT32, 1, comm), HK_ERR_BUFFER, "scatter", "send is NULL");
    REFUSED(hk_send(NULL, 1, HK_INT32, 0, 0, comm), HK_ERR_BUFFER, "send", "buffer is NULL");
    REFUSED(hk_recv(NULL, 1, HK_INT32, 0, 0, comm, NULL), HK_ERR_BUFFER, "recv", "buffer is NULL");
    REFUSED(hk_allreduce(a, a + 1, COUNT, HK_INT32, HK_SUM, comm), HK_ERR_BUFFER, "allreduce", "overlap");
    REFUSED(hk_allreduce(a + 1, a, COUNT, HK_INT32, HK_SUM, comm), HK_ERR_BUFFER, "allreduce", "overlap");
    REFUSED(hk_allgather(a, a, COUNT, HK_INT32, comm), HK_ERR_BUFFER, "allgather", "overlap");
    REFUSED(hk_reduce_scatter(a, a + 1, 2, HK_INT32, HK_SUM, comm), HK_ERR_BUFFER, "reduce_scatter", "overlap");
    REFUSED(hk_alltoall(a, a + 1, 2, HK_INT32, comm), HK_ERR_BUFFER, "alltoall", "overlap");
    REFUSED(hk_allreduce(a, (void *)(UINTPTR_MAX - 7), COUNT, HK_INT32, HK_SUM, comm), HK_ERR_BUFFER, "recv",
            "end of memory");
    return 0;
}

static int bad_in_place(hk_comm *comm, int rank, void *argument)
{
    int32_t a[COUNT * RANKS] = {0};
    (void)rank;
    (void)argument;
    REFUSED(hk_allreduce(a, HK_IN_PLACE, COUNT, HK_INT32, HK_SUM, comm), HK_ERR_BUFFER, "allreduce", "HK_IN_PLACE");
    REFUSED(hk_allreduce(HK_IN_PLACE, HK_IN_PLACE, COUNT, HK_INT32, HK_SUM, comm), HK_ERR_BUFFER, "HK_IN_PLACE");
    REFUSED(hk_allreduce(HK_IN_PLACE, NULL, COUNT, HK_INT32, HK_SUM, comm), HK_ERR_BUFFER, "recv is NULL");
    REFUSED(hk_broadcast(HK_IN_PLACE, COUNT, HK_INT32, 0, comm), HK_ERR_BUFFER, "broadcast", "HK_IN_PLACE");
    REFUSED(hk_reduce(HK_IN_PLACE, a, COUNT, HK_INT32, HK_SUM, 0, comm), HK_ERR_BUFFER, "reduce", "HK_IN_PLACE");
    REFUSED(hk_gather(HK_IN_PLACE, a, 1, HK_INT32, 0, comm), HK_ERR_BUFFER, "gather", "HK_IN_PLACE");
    REFUSED(hk_scatter(a, HK_IN_PLACE, 1, HK_INT32, 0, comm), HK_ERR_BUFFER, "scatter", "HK_IN_PLACE");
    REFUSED(hk_allgather(a, HK_IN_PLACE, 1, HK_INT32, comm), HK_ERR_BUFFER, "allgather", "HK_IN_PLACE");
    REFUSED(hk_send(HK_IN_PLACE, 1, HK_INT32, 0, 0, comm), HK_ERR_BUFFER, "send", "HK_IN_PLACE");
    REFUSED(hk_recv(HK_IN_PLACE, 1, HK_INT32, 0, 0, comm, NULL), HK_ERR_BUFFER, "recv", "HK_IN_PLACE");
    return 0;
}

/* The same mistakes right after the same call in order: what is remembered of it does not let them through. */
static int bad_after_good(hk_comm *comm, int rank, void *argument)
{
    float a[COUNT] = {1}, b[COUNT] = {0};
    (void)rank;
    (void)argument;
    for (int turn = 0; turn < 3; turn++) {
        EXPECT_OK(hk_allreduce(a, b, COUNT, HK_FLOAT32, HK_SUM, comm));
        EXPECT(b[0] == RANKS);
        if (hk_comm_rank(comm) == 1) {
            EXPECT_STATUS(hk_allreduce(NULL, b, COUNT, HK_FLOAT32, HK_SUM, comm), HK_ERR_BUFFER);
            EXPECT_STATUS(hk_allreduce(a, NULL, COUNT, HK_FLOAT32, HK_SUM, comm), HK_ERR_BUFFER);
            EXPECT_STATUS(hk_allreduce(a, a + 1, COUNT, HK_FLOAT32, HK_SUM, comm), HK_ERR_BUFFER);
            EXPECT_STATUS(hk_allreduce(a, HK_IN_PLACE, COUNT, HK_FLOAT32, HK_SUM, comm), HK_ERR_BUFFER);
            EXPECT_STATUS(hk_allreduce(a, b, HUGE_COUNT, HK_FLOAT32, HK_SUM, comm), HK_ERR_COUNT);
        }
    }
    EXPECT_OK(hk_allreduce(HK_IN_PLACE, a, COUNT, HK_FLOAT32, HK_SUM, comm)); /* in place after not */
    EXPECT(a[0] == RANKS);
    EXPECT_OK(hk_allreduce(a, b, COUNT, HK_FLOAT32, HK_SUM, comm));
    EXPECT(b[0] == RANKS * RANKS);
    return 0;
}

/* NULL is fine where nothing is read or written. */
static int allowed_nulls(hk_comm *comm, int rank, void *argument)
{
    int32_t a[RANKS] = {rank}, b[RANKS] = {0};
    (void)argument;
    EXPECT_OK(hk_allreduce(NULL, NULL, 0, HK_INT32, HK_SUM, comm));
    EXPECT_OK(hk_broadcast(NULL, 0, HK_INT32, 2, comm));
    EXPECT_OK(hk_alltoall(NULL, NULL, 0, HK_INT32, comm));
    EXPECT_OK(hk_reduce(a, rank == 2 ? b : NULL, 1, HK_INT32, HK_SUM, 2, comm));
    EXPECT_OK(hk_gather(a, rank == 0 ? b : NULL, 1, HK_INT32, 0, comm));
    EXPECT(rank != 0 || b[2] == 2);
    EXPECT_OK(hk_scatter(rank == 0 ? b : NULL, a, 1, HK_INT32, 0, comm));
    EXPECT(a[0] == rank);
    EXPECT_OK(hk_sendrecv(NULL, 0, rank, 0, NULL, 0, rank, 0, HK_INT32, comm, NULL));
    check_works(comm);
    return 0;
}

static int bad_objects(hk_comm *comm, int rank, void *argument)
{
    hk_comm *made = NULL;
    hk_request *request = NULL;
    int32_t word = 0;
    int done, list[2] = {1, 1}, others[1] = {0}, beyond[2] = {1, RANKS};
    void *memory = NULL;
    (void)rank;
    (void)argument;
    REFUSED(hk_barrier(NULL), HK_ERR_COMM, "communicator");
    REFUSED(hk_allreduce(&word, &word, 1, HK_INT32, HK_SUM, NULL), HK_ERR_COMM, "communicator");
    REFUSED(hk_iallreduce(&word, &word, 1, HK_INT32, HK_SUM, comm, NULL), HK_ERR_ARGUMENT, "request");
    REFUSED(hk_isend(&word, 1, HK_INT32, 0, 0, comm, NULL), HK_ERR_ARGUMENT, "request");
    REFUSED(hk_irecv(&word, 1, HK_INT32, 0, 0, comm, NULL), HK_ERR_ARGUMENT, "request");
    REFUSED(hk_wait(NULL), HK_ERR_ARGUMENT, "request");
    REFUSED(hk_test(&request, NULL), HK_ERR_ARGUMENT, "done");
    REFUSED(hk_test(NULL, &done), HK_ERR_ARGUMENT, "request");
    REFUSED(hk_wait_all(1, NULL), HK_ERR_ARGUMENT, "requests");
    REFUSED(hk_iprobe(0, 0, comm, NULL, NULL), HK_ERR_ARGUMENT, "found");
    REFUSED(hk_comm_split(comm, 0, 0, NULL), HK_ERR_ARGUMENT, "result");
    REFUSED(hk_comm_split(NULL, 0, 0, &made), HK_ERR_COMM, "communicator");
    REFUSED(hk_comm_dup(comm, NULL), HK_ERR_ARGUMENT, "result");
    REFUSED(hk_comm_create_group(comm, NULL, 1, 0, &made), HK_ERR_ARGUMENT, "ranks");
    REFUSED(hk_comm_create_group(comm, list, 0, 0, &made), HK_ERR_ARGUMENT, "count");
    REFUSED(hk_comm_create_group(comm, list, 2, 0, &made), HK_ERR_ARGUMENT, "twice");
    REFUSED(hk_comm_create_group(comm, others, 1, 0, &made), HK_ERR_ARGUMENT, "not listed");
    REFUSED(hk_comm_create_group(comm, beyond, 2, 0, &made), HK_ERR_ROOT, "ranks[1]");
    REFUSED(hk_comm_set_timeout(comm, -0.5), HK_ERR_ARGUMENT, "seconds");
    REFUSED(hk_alloc(comm, SIZE_MAX, &memory), HK_ERR_ARGUMENT, "bytes");
    REFUSED(hk_alloc(comm, 1, NULL), HK_ERR_ARGUMENT, "memory");
    REFUSED(hk_free(comm, &word), HK_ERR_ARGUMENT, "not given by hk_alloc");
    REFUSED(hk_register(comm, NULL, 4), HK_ERR_ARGUMENT, "memory");
    REFUSED(hk_register(comm, &comm, SIZE_MAX - 64), HK_ERR_ARGUMENT, "beyond the address space");
    EXPECT(made == NULL && memory == NULL);
    EXPECT(hk_alloc(comm, 0, &memory) == HK_OK && memory == NULL);
    EXPECT_OK(hk_wait(&request)); /* NULL requests are complete */
    EXPECT_OK(hk_comm_free(NULL));
    EXPECT_OK(hk_free(comm, NULL));
    return 0;
}

static void run(ranks_body *body)
{
    ranks_options options = {.timeout = 20};
    assert_int_equal(ranks_run(RANKS, &options, body, NULL), 0);
}

#define RUNS(body)                                                                                                     \
    static void test_##body(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        run(body);                                                                                                     \
    }
RUNS(bad_types_and_operators)
RUNS(bad_roots_and_ranks)
RUNS(bad_counts)
RUNS(bad_buffers)
RUNS(bad_in_place)
RUNS(bad_after_good)
RUNS(allowed_nulls)
RUNS(bad_objects)

/* Contexts that cannot be made: an error each, and no crash. */
static void test_bad_options_make_no_context(void **state)
{
    (void)state;
    hk_comm *comm = NULL;
    hk_store *store = NULL;
    assert_int_equal(hk_store_local(&store), HK_OK);
    hk_options options = ranks_join(0, 1, store);
    assert_int_equal(hk_comm_create(NULL, &comm), HK_ERR_ARGUMENT);
    assert_int_equal(hk_comm_create(&options, NULL), HK_ERR_ARGUMENT);
    options.size = 4;
    assert_int_equal(hk_comm_create(&options, &comm), HK_ERR_ARGUMENT);
    assert_non_null(strstr(hk_last_error(), "HK_OPTIONS_INIT"));
    const struct {
        int rank, ranks;
        const char *name;
        size_t key_bytes;
    } wrong[] = {{3, 3, "a", 32},  {-2, 3, "a", 32},  {0, 0, "a", 32},
                 {0, -1, "a", 32}, {0, 2, "a b", 32}, {0, 2, "a", 3}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        options = ranks_join(wrong[i].rank, wrong[i].ranks, store);
        options.name = wrong[i].name;
        options.key_bytes = wrong[i].key_bytes;
        assert_int_equal(hk_comm_create(&options, &comm), HK_ERR_ARGUMENT);
        assert_true(strlen(hk_last_error()) > 10);
        assert_null(comm);
    }
    options = ranks_join(0, 1, store);
    options.timeout = NAN;
    assert_int_equal(hk_comm_create(&options, &comm), HK_ERR_ARGUMENT);
    assert_non_null(strstr(hk_last_error(), "timeout"));
    options = ranks_join(0, 1, store);
    options.threads = (hk_threads)7;
    assert_int_equal(hk_comm_create(&options, &comm), HK_ERR_ARGUMENT);
    assert_non_null(strstr(hk_last_error(), "threads"));
    assert_int_equal(hk_store_local(NULL), HK_ERR_ARGUMENT);
    assert_int_equal(hk_comm_rank(NULL), -1);
    assert_int_equal(hk_comm_size(NULL), -1);
    hk_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_types_and_operators),
        cmocka_unit_test(test_bad_roots_and_ranks),
        cmocka_unit_test(test_bad_counts),
        cmocka_unit_test(test_bad_buffers),
        cmocka_unit_test(test_bad_in_place),
        cmocka_unit_test(test_bad_after_good),
        cmocka_unit_test(test_allowed_nulls),
        cmocka_unit_test(test_bad_objects),
        cmocka_unit_test(test_bad_options_make_no_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Ranks that call different things. Everyone gets HK_ERR_MISMATCH, and both calls are spelled out: whatever differs,
 * whatever the size, and even when one of the two has returned already.
 */
#include "../support/ranks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* What the last rank does otherwise. The texts: its call, and the others'. */
enum { COLLECTIVE, TYPE, OPERATOR, ROOT, COUNT, BARRIER, ROOT_DONE, SIZE, DUP, SPLIT, DIFFERENCES };

static const char *const small_texts[DIFFERENCES][2] = {
    [COLLECTIVE] = {"allgather of 16 float32", "allreduce of 16 float32, sum"},
    [TYPE] = {"allreduce of 16 int32, sum", "allreduce of 16 float32, sum"},
    [OPERATOR] = {"allreduce of 16 float32, max", "allreduce of 16 float32, sum"},
    [ROOT] = {"reduce of 16 float32, sum, root 1", "reduce of 16 float32, sum, root 0"},
    [COUNT] = {"allreduce of 15 float32, sum", "allreduce of 16 float32, sum"},
    [BARRIER] = {"barrier", "allreduce of 16 float32, sum"},
    [ROOT_DONE] = {"allreduce of 16 float32, sum", "broadcast of 16 float32, root 0"},
    [SIZE] = {"broadcast of 16 opaque, root 0", "with other counts, element size"},
    [DUP] = {"comm_dup", "allreduce of 16 float32, sum"},
    [SPLIT] = {"comm_split", "allreduce of 16 float32, sum"},
};
static const char *const large_texts[DIFFERENCES][2] = {
    [COLLECTIVE] = {"allgather of 120000 float32", "allreduce of 120000 float32, sum"},
    [TYPE] = {"allreduce of 120000 int32, sum", "allreduce of 120000 float32, sum"},
    [OPERATOR] = {"allreduce of 120000 float32, max", "allreduce of 120000 float32, sum"},
    [ROOT] = {"reduce of 120000 float32, sum, root 1", "reduce of 120000 float32, sum, root 0"},
    [COUNT] = {"allreduce of 119999 float32, sum", "allreduce of 120000 float32, sum"},
    [BARRIER] = {"barrier", "allreduce of 120000 float32, sum"},
    [ROOT_DONE] = {"allreduce of 120000 float32, sum", "broadcast of 120000 float32, root 0"},
    [SIZE] = {"broadcast of 120000 opaque, root 0", "with other counts, element size"},
    [DUP] = {"comm_dup", "allreduce of 120000 float32, sum"},
    [SPLIT] = {"comm_split", "allreduce of 120000 float32, sum"},
};

typedef struct scene {
    int what;
    bool large, mapped;
    int *place;
} scene;

static hk_status common_call(int what, float *send, float *recv, uint64_t count, hk_comm *comm)
{
    if (what == ROOT)
        return hk_reduce(send, recv, count, HK_FLOAT32, HK_SUM, 0, comm);
    if (what == ROOT_DONE)
        return hk_broadcast(send, count, HK_FLOAT32, 0, comm);
    if (what == SIZE)
        return hk_broadcast(send, count, HK_OPAQUE(3), 0, comm);
    return hk_allreduce(send, recv, count, HK_FLOAT32, HK_SUM, comm);
}

static hk_status odd_call(int what, float *send, float *recv, uint64_t count, hk_comm *comm)
{
    hk_comm *copy;
    switch (what) {
    case COLLECTIVE:
        return hk_allgather(send, recv, count, HK_FLOAT32, comm);
    case TYPE:
        return hk_allreduce(send, recv, count, HK_INT32, HK_SUM, comm);
    case OPERATOR:
        return hk_allreduce(send, recv, count, HK_FLOAT32, HK_MAX, comm);
    case ROOT:
        return hk_reduce(send, recv, count, HK_FLOAT32, HK_SUM, 1, comm);
    case COUNT:
        return hk_allreduce(send, recv, count - 1, HK_FLOAT32, HK_SUM, comm);
    case BARRIER:
        return hk_barrier(comm);
    case DUP:
        return hk_comm_dup(comm, &copy);
    case SPLIT:
        return hk_comm_split(comm, 0, 0, &copy);
    case SIZE:
        return hk_broadcast(send, count, HK_OPAQUE(4), 0, comm);
    default:
        return hk_allreduce(send, recv, count, HK_FLOAT32, HK_SUM, comm);
    }
}

static int differ(hk_comm *comm, int rank, void *argument)
{
    const scene *how = argument;
    int size = hk_comm_size(comm);
    uint64_t count = how->large ? 120000 : 16;
    const char *const *texts = how->large ? large_texts[how->what] : small_texts[how->what];
    size_t bytes = (size_t)size * count * sizeof(float);
    void *send, *recv;
    if (how->mapped) {
        EXPECT_OK(hk_alloc(comm, bytes, &send));
        EXPECT_OK(hk_alloc(comm, bytes, &recv));
    } else {
        send = calloc(1, bytes);
        recv = calloc(1, bytes);
    }
    EXPECT(send && recv);
    EXPECT_OK(hk_barrier(comm));
    ranks_meet(how->place, size);
    bool odd = rank == size - 1;
    hk_status status =
        odd ? odd_call(how->what, send, recv, count, comm) : common_call(how->what, send, recv, count, comm);
    if (status == HK_OK) /* its part was over before the other's call: it learns of it in the next one */
        status = hk_barrier(comm);
    memset(send, 0xa5, bytes);
    memset(recv, 0xa5, bytes);
    EXPECT(status == HK_ERR_MISMATCH);
    EXPECT_ERROR_NAMES(texts[0]);
    EXPECT_ERROR_NAMES(texts[1]);
    char name[32];
    snprintf(name, sizeof name, "rank %d", size - 1);
    EXPECT_ERROR_NAMES(name);
    EXPECT_STATUS(hk_barrier(comm), HK_ERR_MISMATCH);
    if (how->mapped) {
        EXPECT_OK(hk_free(comm, send));
        EXPECT_OK(hk_free(comm, recv));
    } else {
        free(send);
        free(recv);
    }
    return 0;
}

static int run(int ranks, const char *settings, scene how)
{
    ranks_options options = {.settings = settings, .timeout = 8};
    how.place = ranks_shared(sizeof *how.place);
    int failed = ranks_run(ranks, &options, differ, &how);
    if (failed)
        fprintf(stderr, "%d ranks, %s, difference %d, %s%s\n", ranks, settings ? settings : "", how.what,
                how.large ? "large" : "small", how.mapped ? ", mapped" : "");
    return failed;
}

static void test_small_calls_that_differ_are_spelled_out(void **state)
{
    (void)state;
    int failed = 0;
    for (int what = 0; what < DIFFERENCES; what++) {
        for (int ranks = 2; ranks <= 4; ranks++)
            failed += run(ranks, NULL, (scene){.what = what});
    }
    assert_int_equal(failed, 0);
}

static void test_large_calls_that_differ_are_spelled_out(void **state)
{
    (void)state;
    int failed = 0;
    for (int what = 0; what < DIFFERENCES; what++) {
        failed += run(3, "HOCKET_PROTOCOL=stream", (scene){.what = what, .large = true});
        failed += run(2, "HOCKET_PROTOCOL=get", (scene){.what = what, .large = true});
        failed += run(3, NULL, (scene){.what = what, .large = true, .mapped = true});
    }
    assert_int_equal(failed, 0);
}

/* The root of a broadcast is done with it and many more before a leaf comes with something else. */
static int long_over(hk_comm *comm, int rank, void *argument)
{
    int *place = argument;
    int32_t word = 0, sum;
    hk_status status = HK_OK;
    EXPECT_OK(hk_barrier(comm));
    if (rank == 0) {
        for (int i = 0; i < 20; i++)
            EXPECT_OK(hk_broadcast(&word, 1, HK_INT32, 0, comm));
        ranks_meet(place, 2);
        status = hk_barrier(comm);
    } else {
        ranks_meet(place, 2);
        status = hk_allreduce(&word, &sum, 1, HK_INT32, HK_SUM, comm);
    }
    EXPECT(status == HK_ERR_MISMATCH);
    EXPECT_ERROR_NAMES("broadcast of 1 int32, root 0");
    EXPECT_ERROR_NAMES("allreduce of 1 int32, sum");
    return 0;
}

static void test_a_call_that_has_returned_long_ago_is_spelled_out(void **state)
{
    (void)state;
    ranks_options options = {.timeout = 8};
    assert_int_equal(ranks_run(2, &options, long_over, ranks_shared(sizeof(int))), 0);
}

/* The others' parts of a gather end with their sending, so they have left when the root comes with another count. */
static int all_others_left(hk_comm *comm, int rank, void *argument)
{
    int *place = argument, size = hk_comm_size(comm);
    int32_t words[4] = {rank}, all[16];
    EXPECT_OK(hk_barrier(comm));
    if (rank != 0) {
        EXPECT_OK(hk_gather(words, all, 4, HK_INT32, 0, comm));
        EXPECT_OK(hk_comm_free(comm));
        ranks_meet(place, size);
        return RANKS_FREED;
    }
    ranks_meet(place, size);
    EXPECT_STATUS(hk_gather(words, all, 3, HK_INT32, 0, comm), HK_ERR_MISMATCH);
    EXPECT_ERROR_NAMES("rank 0 called gather of 3 int32, root 0, but rank");
    return 0;
}

static void test_a_rank_that_left_after_another_call_is_a_mismatch(void **state)
{
    (void)state;
    ranks_options options = {.settings = "HOCKET_ALGORITHM=gather:linear", .timeout = 8};
    for (int ranks = 2; ranks <= 4; ranks++)
        assert_int_equal(ranks_run(ranks, &options, all_others_left, ranks_shared(sizeof(int))), 0);
}

/* What may differ does not count: in place or not, NULL where a buffer is not significant, gatherv's counts. */
static int allowed_differences(hk_comm *comm, int rank, void *argument)
{
    int size = hk_comm_size(comm);
    int64_t words[64] = {rank}, sum[64];
    uint64_t counts[8], count = (uint64_t)rank + 1;
    (void)argument;
    for (int turn = 0; turn < 3; turn++) {
        words[0] = rank;
        if (rank % 2) {
            EXPECT_OK(hk_allreduce(words, sum, 1, HK_INT64, HK_SUM, comm));
        } else {
            EXPECT_OK(hk_allreduce(HK_IN_PLACE, words, 1, HK_INT64, HK_SUM, comm));
            sum[0] = words[0];
        }
        EXPECT(sum[0] == size * (size - 1) / 2);
        EXPECT_OK(hk_reduce(words, rank == 1 ? sum : NULL, 1, HK_INT64, HK_MAX, 1, comm));
        for (int i = 0; i < size; i++)
            counts[i] = (uint64_t)i + 1;
        EXPECT_OK(hk_gatherv(words, count, rank == 0 ? sum : NULL, rank == 0 ? counts : NULL, NULL, HK_INT64, 0, comm));
    }
    return 0;
}

static void test_what_may_differ_is_no_mismatch(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 5; ranks++)
        assert_int_equal(ranks_run(ranks, NULL, allowed_differences, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_calls_that_differ_are_spelled_out),
        cmocka_unit_test(test_large_calls_that_differ_are_spelled_out),
        cmocka_unit_test(test_a_call_that_has_returned_long_ago_is_spelled_out),
        cmocka_unit_test(test_a_rank_that_left_after_another_call_is_a_mismatch),
        cmocka_unit_test(test_what_may_differ_is_no_mismatch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Jobs over several hosts, pretended on this one: ranks of one host share memory, the others talk over TCP. And jobs
 * over TCP alone.
 */
#include "../support/ranks.h"

#include "base/settings.h"
#include "comm/comm.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

/* Which host each rank is on. */
typedef struct layout {
    const char *name;
    int ranks;
    const int *host;
    const char *transport; /* HOCKET_TRANSPORT */
    const hk_store *store;
} layout;

static const int two_by_two[] = {0, 0, 1, 1}, alternating[] = {0, 1, 0, 1}, three_and_two[] = {0, 0, 0, 1, 1},
                 one_and_three[] = {0, 1, 1, 1}, three_by_two[] = {0, 0, 1, 1, 2, 2}, alone[] = {0, 0, 0, 0, 0};

static hk_comm *join(const layout *where, int rank)
{
    hk_comm *comm;
    char host[16];
    snprintf(host, sizeof host, "node%d", where->host[rank]);
    setenv("HOCKET_HOST", host, 1);
    setenv("HOCKET_TRANSPORT", where->transport, 1);
    setenv("HOCKET_TIMEOUT", "30", 1);
    hki_settings_reset();
    hk_options options = ranks_join(rank, where->ranks, where->store);
    EXPECT_OK(hk_comm_create(&options, &comm));
    return comm;
}

static int over(const layout *where, ranks_body *body)
{
    static const ranks_options options = {.no_context = true};
    layout mine = *where;
    mine.store = ranks_store_new();
    int failed = ranks_run(where->ranks, &options, body, &mine);
    ranks_store_free((hk_store *)(uintptr_t)mine.store);
    return failed;
}

static const layout layouts[] = {
    {"2 x 2", 4, two_by_two, "", NULL},    {"2 x 2, alternating", 4, alternating, "", NULL},
    {"3 + 2", 5, three_and_two, "", NULL}, {"1 + 3", 4, one_and_three, "", NULL},
    {"3 x 2", 6, three_by_two, "", NULL},  {"5 over tcp", 5, alone, "tcp", NULL}};

static void over_all(ranks_body *body)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (over(&layouts[i], body) != 0)
            fail_msg("%s", layouts[i].name);
}

/* ---- what ranks know of each other's places ---- */

/* Hosts are numbered as they appear, links are those that the ranks use, and all ranks hold the same. */
static void check_cluster(hk_comm *comm, const layout *where, const int *world)
{
    const hki_cluster *cluster = comm->cluster;
    int number[8], hosts = 0, size = hk_comm_size(comm);
    memset(number, -1, sizeof number);
    EXPECT((int)cluster->rank_count == size);
    for (int rank = 0; rank < size; rank++) {
        int host = where->host[world ? world[rank] : rank];
        if (number[host] < 0)
            number[host] = hosts++;
        EXPECT((int)cluster->seats[rank].host == number[host]);
    }
    EXPECT((int)cluster->host_count == hosts);
    for (int rank = 1; rank < size; rank++) {
        bool together = cluster->seats[rank].host == cluster->seats[0].host;
        hki_link_class link = hki_cluster_link(cluster, 0, (uint32_t)rank);
        if (!together)
            EXPECT(link == HKI_LINK_TCP);
        else
            EXPECT(*where->transport ? link == HKI_LINK_LOOPBACK : link <= HKI_LINK_HOST);
    }
    size_t bytes = (size_t)size * sizeof(hki_seat), row = bytes + sizeof(hki_cluster_host) * (size_t)hosts;
    char *own = malloc(row), *all = malloc(row * (size_t)size);
    EXPECT(own && all);
    memcpy(own, cluster->seats, bytes);
    memcpy(own + bytes, cluster->hosts, row - bytes);
    EXPECT_OK(hk_allgather(own, all, row, HK_UINT8, comm));
    for (int rank = 0; rank < size; rank++)
        EXPECT(memcmp(all + row * (size_t)rank, own, row) == 0);
    free(own);
    free(all);
}

static int places_are_agreed(hk_comm *none, int rank, void *argument)
{
    (void)none;
    const layout *where = argument;
    hk_comm *comm = join(where, rank), *copy, *reversed, *again;
    check_cluster(comm, where, NULL);
    EXPECT_OK(hk_comm_dup(comm, &copy));
    EXPECT(copy->cluster == comm->cluster);
    EXPECT_OK(hk_comm_split(comm, 0, -rank, &reversed));
    EXPECT_OK(hk_comm_split(comm, 0, -rank, &again));
    EXPECT(again->cluster == reversed->cluster); /* so that the two share plans */
    int world[8];
    for (int i = 0; i < where->ranks; i++)
        world[i] = where->ranks - 1 - i;
    check_cluster(reversed, where, world);
    EXPECT_OK(hk_comm_free(reversed));
    check_cluster(again, where, world);
    EXPECT_OK(hk_comm_free(again));
    EXPECT_OK(hk_comm_free(copy));
    EXPECT_OK(hk_comm_free(comm));
    return 0;
}

static void test_all_ranks_agree_where_they_are(void **state)
{
    (void)state;
    over_all(places_are_agreed);
}

/* ---- collectives ---- */

static const size_t counts[] = {0, 1, 3, 100, 5000, 70001, 400000};

static void check_allreduce(hk_comm *comm, size_t count)
{
    int rank = hk_comm_rank(comm), size = hk_comm_size(comm);
    int64_t *in = malloc((count + 1) * sizeof *in), *out = malloc((count + 1) * sizeof *out);
    EXPECT(in && out);
    for (size_t i = 0; i < count; i++)
        in[i] = (int64_t)i * (rank + 1);
    EXPECT_OK(hk_allreduce(in, out, count, HK_INT64, HK_SUM, comm));
    for (size_t i = 0; i < count; i++)
        EXPECT(out[i] == (int64_t)i * size * (size + 1) / 2);
    free(in);
    free(out);
}

static void check_alltoall(hk_comm *comm, size_t count)
{
    int rank = hk_comm_rank(comm), size = hk_comm_size(comm);
    int32_t *in = malloc((count * (size_t)size + 1) * sizeof *in),
            *out = malloc((count * (size_t)size + 1) * sizeof *out);
    EXPECT(in && out);
    for (int to = 0; to < size; to++)
        for (size_t i = 0; i < count; i++)
            in[(size_t)to * count + i] = (int32_t)(rank * 1000 + to + (int)i * 7);
    EXPECT_OK(hk_alltoall(in, out, count, HK_INT32, comm));
    for (int from = 0; from < size; from++)
        for (size_t i = 0; i < count; i++)
            EXPECT(out[(size_t)from * count + i] == (int32_t)(from * 1000 + rank + (int)i * 7));
    free(in);
    free(out);
}

static void check_broadcast(hk_comm *comm, size_t count, int root)
{
    int32_t *data = calloc(count + 1, sizeof *data);
    EXPECT(data);
    for (size_t i = 0; i < count && hk_comm_rank(comm) == root; i++)
        data[i] = (int32_t)i + root;
    EXPECT_OK(hk_broadcast(data, count, HK_INT32, root, comm));
    for (size_t i = 0; i < count; i++)
        EXPECT(data[i] == (int32_t)i + root);
    free(data);
}

static int collectives(hk_comm *none, int rank, void *argument)
{
    (void)none;
    hk_comm *comm = join(argument, rank);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        check_allreduce(comm, counts[c]);
        check_broadcast(comm, counts[c], (int)c % hk_comm_size(comm));
        check_alltoall(comm, counts[c] / 16);
        EXPECT_OK(hk_barrier(comm));
    }
    EXPECT_OK(hk_comm_free(comm));
    return 0;
}

static void test_collectives_are_right_over_every_layout(void **state)
{
    (void)state;
    over_all(collectives);
}

/* ---- many operations in flight, in both directions at once, large and small ---- */

static int flood(hk_comm *none, int rank, void *argument)
{
    enum { ROUNDS = 6, BYTES = 1 << 20 };
    (void)none;
    hk_comm *comm = join(argument, rank);
    int size = hk_comm_size(comm);
    unsigned char *out[ROUNDS], *in[ROUNDS];
    hk_request *requests[2 * ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        size_t bytes = i % 2 ? BYTES : 300;
        out[i] = malloc(BYTES);
        in[i] = malloc(BYTES);
        EXPECT(out[i] && in[i]);
        memset(out[i], rank * 16 + i, bytes);
        EXPECT_OK(hk_isend(out[i], bytes, HK_BYTE, (rank + 1) % size, i, comm, &requests[2 * i]));
        EXPECT_OK(hk_irecv(in[i], bytes, HK_BYTE, (rank + size - 1) % size, i, comm, &requests[2 * i + 1]));
    }
    for (int i = 2 * ROUNDS; i-- > 0;)
        EXPECT_OK(hk_wait(&requests[i]));
    for (int i = 0; i < ROUNDS; i++) {
        size_t bytes = i % 2 ? BYTES : 300;
        for (size_t k = 0; k < bytes; k++)
            EXPECT(in[i][k] == (unsigned char)((rank + size - 1) % size * 16 + i));
        free(out[i]);
        free(in[i]);
    }
    EXPECT_OK(hk_comm_free(comm));
    return 0;
}

static void test_messages_cross_in_both_directions(void **state)
{
    (void)state;
    over_all(flood);
}

/* ---- what a job costs ---- */

static int frugal(hk_comm *none, int rank, void *argument)
{
    const layout *where = argument;
    (void)none;
    hk_comm *comm = join(where, rank);
    bool remote = strcmp(where->transport, "tcp") == 0;
    for (int i = 0; i < where->ranks; i++)
        remote |= where->host[i] != where->host[rank];
    /* A control thread where there is somebody to be reached over TCP, and only there. */
    EXPECT(ranks_threads() == (remote ? 2 : 1));
    EXPECT_OK(hk_barrier(comm));
    EXPECT_OK(hk_comm_free(comm));
    EXPECT(ranks_threads() == 1);
    return 0;
}

static void test_a_thread_is_there_only_for_remote_ranks(void **state)
{
    (void)state;
    static const layout one_host = {"5 on one host", 5, alone, "", NULL};
    over_all(frugal);
    assert_int_equal(over(&one_host, frugal), 0);
}

/* A rank that waits over TCP sleeps. */
static int patient(hk_comm *none, int rank, void *argument)
{
    (void)none;
    hk_comm *comm = join(argument, rank);
    EXPECT_OK(hk_barrier(comm));
    struct timespec before, after;
    if (rank == 0)
        ranks_nap(1.0);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    EXPECT_OK(hk_barrier(comm));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    double used = (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) * 1e-9;
    EXPECT(used < 0.1);
    EXPECT_OK(hk_comm_free(comm));
    return 0;
}

static void test_a_rank_that_waits_sleeps(void **state)
{
    (void)state;
    assert_int_equal(over(&layouts[0], patient), 0);
    assert_int_equal(over(&layouts[5], patient), 0);
}

/* ---- the end of a rank ---- */

static int die(hk_comm *none, int rank, void *argument)
{
    (void)none;
    hk_comm *comm = join(argument, rank);
    if (rank == 3) {
        EXPECT_OK(hk_barrier(comm));
        raise(SIGKILL);
    }
    double begin = ranks_seconds();
    hk_status status = HK_OK;
    while (status == HK_OK)
        status = hk_barrier(comm);
    EXPECT(status == HK_ERR_PEER_LOST);
    EXPECT_ERROR_NAMES("rank 3");
    EXPECT(ranks_seconds() - begin < 5);
    EXPECT_OK(hk_comm_free(comm));
    return 0;
}

static void test_a_killed_rank_is_named_to_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        assert_int_equal(over(&layouts[i], die), 1);
}

/* Ranks leave as soon as they have what they need, without freeing anything. */
static int leave(hk_comm *none, int rank, void *argument)
{
    (void)none;
    hk_comm *comm = join(argument, rank);
    int32_t value = rank == 0 ? 42 : 0;
    EXPECT_OK(hk_broadcast(&value, 1, HK_INT32, 0, comm));
    EXPECT(value == 42);
    check_allreduce(comm, 50000);
    return RANKS_FREED;
}

static void test_ranks_may_leave_right_after_their_last_operation(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        over_all(leave);
}

/* ---- keys ---- */

static int stranger(hk_comm *none, int rank, void *argument)
{
    static const unsigned char other[32] = "not the key that the others have";
    const layout *where = argument;
    hk_comm *comm;
    (void)none;
    setenv("HOCKET_TRANSPORT", "tcp", 1);
    setenv("HOCKET_CONNECT_TIMEOUT", "1", 1);
    setenv("HOCKET_TIMEOUT", "5", 1);
    hki_settings_reset();
    hk_options options = ranks_join(rank, where->ranks, where->store);
    if (rank == 1)
        options.key = other;
    if (hk_comm_create(&options, &comm) != HK_OK)
        return 0; /* joining may have found it out */
    EXPECT(hk_barrier(comm) != HK_OK);
    hk_comm_free(comm);
    return 0;
}

static void test_a_rank_with_another_key_does_not_get_in(void **state)
{
    (void)state;
    static const layout pair = {"2 over tcp", 2, alone, "tcp", NULL};
    assert_int_equal(over(&pair, stranger), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_ranks_agree_where_they_are),
        cmocka_unit_test(test_collectives_are_right_over_every_layout),
        cmocka_unit_test(test_messages_cross_in_both_directions),
        cmocka_unit_test(test_a_thread_is_there_only_for_remote_ranks),
        cmocka_unit_test(test_a_rank_that_waits_sleeps),
        cmocka_unit_test(test_a_killed_rank_is_named_to_all),
        cmocka_unit_test(test_ranks_may_leave_right_after_their_last_operation),
        cmocka_unit_test(test_a_rank_with_another_key_does_not_get_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

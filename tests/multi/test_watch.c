/*
 * Ranks watch one another over TCP: the loss of one reaches ranks that have no link to it, whoever else computes; a
 * rank that is stopped, or that leaves in order, is not lost. Hosts are pretended here. As `test_watch rank` this is
 * one rank of a job over hosts that are really apart (see test_hosts_lost.sh).
 */
#include "../support/ranks.h"

#include "base/settings.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>

#include <cmocka.h>

enum { MOST = 16 };
static const char heartbeat[] = "4"; /* the shortest */

typedef struct scene {
    int ranks;
    const int *host;
    const hk_store *store;
    pid_t pids[MOST];
    atomic_int step;     /* of the play */
    atomic_int watching; /* ranks that do */
} scene;

static const int apart[MOST] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, pairs[] = {0, 0, 1, 1};

static atomic_int watches; /* of this rank */

static void count_watches(hk_log_level level, const char *line, void *context)
{
    (void)context;
    (void)level;
    atomic_fetch_add(&watches, strstr(line, "watch each other") != NULL);
}

static hk_comm *join(scene *play, int rank)
{
    hk_comm *comm;
    char host[16];
    snprintf(host, sizeof host, "node%d", play->host[rank]);
    setenv("HOCKET_HOST", host, 1);
    setenv("HOCKET_HEARTBEAT", heartbeat, 1);
    setenv("HOCKET_TIMEOUT", "50", 1);
    hki_settings_reset();
    hk_set_log(count_watches, HK_LOG_DEBUG, NULL);
    hk_options options = ranks_join(rank, play->ranks, play->store);
    EXPECT_OK(hk_comm_create(&options, &comm));
    play->pids[rank] = getpid();
    return comm;
}

/* Until all ranks watch all whom they are to watch: two for each doubling, one
 * if that is half of them (3 ranks have no more than two others). */
static void await_watches(scene *play)
{
    int wanted = 0;
    for (int step = 1; step < play->ranks; step *= 2)
        wanted += 2 * step < play->ranks ? 2 : 2 * step == play->ranks ? 1 : 0;
    while (atomic_load(&watches) < wanted)
        ranks_nap(0.01);
    atomic_fetch_add(&play->watching, 1);
    while (atomic_load(&play->watching) < play->ranks)
        ranks_nap(0.01);
}

/* Waits without a call of Hocket. */
static void await(scene *play, int step)
{
    while (atomic_load(&play->step) < step)
        ranks_nap(0.01);
}

static int perform(int ranks, const int *host, ranks_body *body)
{
    static const ranks_options options = {.no_context = true};
    scene *play = ranks_shared(sizeof *play);
    play->ranks = ranks;
    play->host = host;
    play->store = ranks_store_new();
    int failed = ranks_run(ranks, &options, body, play);
    ranks_store_free((hk_store *)(uintptr_t)play->store);
    return failed;
}

/* ---- the end of a process ---- */

/* Rank 0 has talked to rank 1 only, and waits for it; rank 2 alone has talked to rank 3, which ends. Ranks 1 and 2 are
 * in no call until rank 0 knows. */
static int lose_one(hk_comm *none, int rank, void *argument)
{
    scene *play = argument;
    hk_comm *comm = join(play, rank);
    int32_t word = 0;
    (void)none;
    EXPECT_OK(hk_sendrecv(&rank, 1, rank ^ 1, 0, &word, 1, rank ^ 1, 0, HK_INT32, comm, NULL));
    EXPECT(word == (rank ^ 1));
    await_watches(play);
    if (rank == 3)
        raise(SIGKILL);
    if (rank == 0) {
        EXPECT_STATUS(hk_recv(&word, 1, HK_INT32, 1, 1, comm, NULL), HK_ERR_PEER_LOST);
        EXPECT_ERROR_NAMES("rank 3 on host node");
        atomic_store(&play->step, 1);
    } else {
        await(play, 1);
        EXPECT_STATUS(hk_barrier(comm), HK_ERR_PEER_LOST);
        EXPECT_ERROR_NAMES("rank 3 on host node");
    }
    EXPECT_OK(hk_comm_free(comm));
    return 0;
}

static void test_a_loss_reaches_ranks_without_a_link_while_others_compute(void **state)
{
    (void)state;
    assert_int_equal(perform(4, apart, lose_one), 1);
    assert_int_equal(perform(4, pairs, lose_one), 1);
}

/* ---- no loss ---- */

static int stop_one(hk_comm *none, int rank, void *argument)
{
    scene *play = argument;
    hk_comm *comm = join(play, rank);
    (void)none;
    EXPECT_OK(hk_barrier(comm));
    await_watches(play);
    if (rank == 0) {
        EXPECT(kill(play->pids[2], SIGSTOP) == 0);
        ranks_nap(2 * strtod(heartbeat, NULL));
        EXPECT(kill(play->pids[2], SIGCONT) == 0);
    }
    EXPECT_OK(hk_barrier(comm));
    EXPECT_OK(hk_comm_free(comm));
    return 0;
}

static void test_a_stopped_rank_is_not_lost(void **state)
{
    (void)state;
    assert_int_equal(perform(3, apart, stop_one), 0);
}

static int leave_early(hk_comm *none, int rank, void *argument)
{
    scene *play = argument;
    hk_comm *rest, *comm = join(play, rank);
    (void)none;
    EXPECT_OK(hk_comm_split(comm, rank == 3, rank, &rest));
    await_watches(play);
    if (rank == 3) {
        EXPECT_OK(hk_comm_free(rest));
        EXPECT_OK(hk_comm_free(comm));
        atomic_store(&play->step, 1);
        return 0;
    }
    await(play, 1);
    ranks_nap(0.2);
    EXPECT_OK(hk_barrier(rest));
    int32_t word = -1;
    EXPECT_OK(hk_sendrecv(&rank, 1, (rank + 1) % 3, 0, &word, 1, (rank + 2) % 3, 0, HK_INT32, comm, NULL));
    EXPECT(word == (rank + 2) % 3);
    EXPECT_OK(hk_comm_free(rest));
    EXPECT_OK(hk_comm_free(comm));
    return 0;
}

static void test_a_rank_that_leaves_is_not_lost(void **state)
{
    (void)state;
    assert_int_equal(perform(4, apart, leave_early), 0);
}

/* ---- aborts ---- */

/* Rank 0 aborts and makes no other call; rank 3, without a link to it, learns of it at its next one. */
static int abort_all(hk_comm *none, int rank, void *argument)
{
    scene *play = argument;
    hk_comm *comm = join(play, rank);
    (void)none;
    if (rank == 0) {
        EXPECT_OK(hk_comm_abort(comm, "the data are spoilt"));
        atomic_store(&play->step, 1);
        await(play, play->ranks);
    } else {
        await(play, 1);
        EXPECT_STATUS(hk_barrier(comm), HK_ERR_ABORTED);
        EXPECT_ERROR_NAMES("aborted by rank 0: the data are spoilt");
        atomic_fetch_add(&play->step, 1);
    }
    EXPECT_OK(hk_comm_free(comm));
    return 0;
}

static void test_an_abort_reaches_ranks_that_are_in_no_call(void **state)
{
    (void)state;
    assert_int_equal(perform(4, apart, abort_all), 0);
}

/* ---- what it costs ---- */

static int count(hk_comm *none, int rank, void *argument)
{
    scene *play = argument;
    hk_comm *comm = join(play, rank);
    (void)none;
    int before = ranks_descriptors();
    await_watches(play);
    EXPECT(ranks_descriptors() <= before + 2 * 4);   /* for the doublings up to 16 */
    EXPECT(ranks_threads() == 2 || RANKS_SANITIZED); /* which may have a thread of its own */
    atomic_fetch_add(&play->step, 1);
    await(play, play->ranks); /* a barrier makes connections of its own */
    EXPECT_OK(hk_barrier(comm));
    EXPECT_OK(hk_comm_free(comm));
    return 0;
}

static void test_watching_takes_two_connections_for_each_doubling_of_ranks(void **state)
{
    (void)state;
    assert_int_equal(perform(MOST, apart, count), 0);
}

/* ---- as a rank of a job ---- */

/* Barriers until something fails, which is said. Rank 1 computes meanwhile, and calls for the first time after
 * `seconds`.
 */
static int be_rank(double seconds)
{
    hk_comm *comm;
    if (hk_init(&comm) != HK_OK) {
        fprintf(stderr, "hk_init: %s\n", hk_last_error());
        return 1;
    }
    int rank = hk_comm_rank(comm);
    hk_status status = hk_barrier(comm);
    printf("rank %d works\n", rank);
    fflush(stdout);
    if (rank == 1)
        ranks_nap(seconds);
    while (status == HK_OK)
        status = hk_barrier(comm);
    printf("rank %d: %s: %s\n", rank, hk_status_string(status), hk_last_error());
    fflush(stdout);
    hk_comm_free(comm);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_loss_reaches_ranks_without_a_link_while_others_compute),
        cmocka_unit_test(test_a_stopped_rank_is_not_lost),
        cmocka_unit_test(test_a_rank_that_leaves_is_not_lost),
        cmocka_unit_test(test_an_abort_reaches_ranks_that_are_in_no_call),
        cmocka_unit_test(test_watching_takes_two_connections_for_each_doubling_of_ranks),
    };
    if (argc > 2 && strcmp(argv[1], "rank") == 0)
        return be_rank(strtod(argv[2], NULL));
    return cmocka_run_group_tests(tests, NULL, NULL);
}

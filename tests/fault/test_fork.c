/*
 * A child of a rank: whatever it does (exits, ends by _exit, runs another program, calls Hocket), it hurts nobody, and
 * its calls say why they fail. Place variables do not make it a rank.
 */
#include "../support/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/wait.h>

#include <cmocka.h>

static const char *const transports[] = {"HOCKET_TRANSPORT=shm", "HOCKET_TRANSPORT=tcp"};
enum { TRANSPORTS = sizeof transports / sizeof *transports };

static void wait_for(pid_t child)
{
    int status = -1;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child);
    EXPECT(status == 0);
}

/* All that a child might call; it has the parent's communicators, requests and memory. */
static void call_everything(hk_comm *comm, hk_comm *dup, hk_request *request, void *memory)
{
    int64_t word = 1, sum = 0;
    hk_comm *made = NULL;
    hk_request *mine = NULL;
    int done = 0;
    EXPECT(hk_comm_rank(comm) >= 0);
    EXPECT_STATUS(hk_allreduce(&word, &sum, 1, HK_INT64, HK_SUM, comm), HK_ERR_FORKED);
    EXPECT_ERROR_NAMES("parent process");
    EXPECT_STATUS(hk_barrier(dup), HK_ERR_FORKED);
    EXPECT_STATUS(hk_isend(&word, 1, HK_INT64, 0, 0, comm, &mine), HK_ERR_FORKED);
    EXPECT_STATUS(hk_recv(&word, 1, HK_INT64, 0, 0, comm, NULL), HK_ERR_FORKED);
    EXPECT_STATUS(hk_probe(0, 0, comm, NULL), HK_ERR_FORKED);
    EXPECT_STATUS(hk_test(&request, &done), HK_ERR_FORKED);
    EXPECT_STATUS(hk_wait(&request), HK_ERR_FORKED);
    EXPECT_STATUS(hk_request_set_timeout(request, 1), HK_ERR_FORKED);
    EXPECT_STATUS(hk_comm_split(comm, 0, 0, &made), HK_ERR_FORKED);
    EXPECT_STATUS(hk_comm_dup(comm, &made), HK_ERR_FORKED);
    EXPECT_STATUS(hk_comm_abort(comm, "child"), HK_ERR_FORKED);
    EXPECT_STATUS(hk_comm_shrink(comm, &made), HK_ERR_FORKED);
    EXPECT_STATUS(hk_comm_set_timeout(comm, 1), HK_ERR_FORKED);
    EXPECT_STATUS(hk_progress(comm), HK_ERR_FORKED);
    EXPECT_STATUS(hk_free(comm, memory), HK_ERR_FORKED);
    EXPECT(made == NULL && mine == NULL);
}

static void check_unharmed(hk_comm *comm)
{
    int64_t words[100] = {1, 2}, sum[100];
    for (int i = 0; i < 20; i++)
        EXPECT_OK(hk_allreduce(words, sum, 100, HK_INT64, HK_SUM, comm));
    EXPECT(sum[1] == 2 * hk_comm_size(comm));
}

enum { EARLY = 400 }; /* messages that nobody has asked for yet: a quarter of the credit, and more */

/* kind: what the child does. */
static int fork_one(hk_comm *comm, int rank, void *argument)
{
    int kind = *(const int *)argument;
    hk_comm *dup;
    hk_request *request;
    void *memory;
    static int64_t large[100000];
    int64_t word = 0, early = 7;
    EXPECT_OK(hk_alloc(comm, 1 << 20, &memory));
    EXPECT_OK(hk_comm_dup(comm, &dup));
    check_unharmed(comm);
    /* something is in flight, and something has come that nobody asked for */
    EXPECT_OK(hk_irecv(&word, 1, HK_INT64, (rank + 1) % 3, 1, comm, &request));
    for (int i = 0; i < EARLY; i++)
        EXPECT_OK(hk_send(&early, 1, HK_INT64, (rank + 1) % 3, 9, dup));
    EXPECT_OK(hk_allreduce(HK_IN_PLACE, large, 100000, HK_INT64, HK_SUM, comm));
    fflush(NULL);
    pid_t child = rank == 1 ? fork() : -1;
    if (child == 0) {
        switch (kind) {
        case 0:
            exit(0); /* destructors run */
        case 1:
            _exit(0);
        case 2:
            execl("/bin/true", "true", (char *)NULL);
            _exit(9);
        case 3:
            call_everything(comm, dup, request, memory);
            _exit(0);
        default:
            EXPECT_OK(hk_comm_free(dup)); /* frees memory of the child's own, says nothing to anybody */
            EXPECT_OK(hk_comm_free(comm));
            if (RANKS_SANITIZED)
                _exit(0); /* what belongs to the parent's transport is a leak of the child's */
            exit(0);
        }
    }
    if (rank == 1)
        wait_for(child);
    check_unharmed(comm);
    EXPECT_OK(hk_send(&early, 1, HK_INT64, (rank + 2) % 3, 1, comm));
    EXPECT_OK(hk_wait(&request));
    for (int i = 0; i < EARLY; i++)
        EXPECT_OK(hk_recv(&word, 1, HK_INT64, (rank + 2) % 3, 9, dup, NULL));
    EXPECT(word == 7);
    check_unharmed(dup);
    EXPECT_OK(hk_comm_free(dup));
    return 0;
}

static void test_children_hurt_nobody(void **state)
{
    (void)state;
    for (size_t over = 0; over < TRANSPORTS; over++) {
        char settings[128];
        snprintf(settings, sizeof settings, "HOCKET_ALGORITHM=allreduce:recursive_doubling %s", transports[over]);
        ranks_options options = {.timeout = 20, .settings = settings};
        for (int kind = 0; kind < 5; kind++) {
            int failed = ranks_run(3, &options, fork_one, &kind);
            if (failed)
                fprintf(stderr, "child of kind %d, %s\n", kind, transports[over]);
            assert_int_equal(failed, 0);
        }
    }
}

/* A child may make a context of its own. */
static int child_has_its_own(hk_comm *comm, int rank, void *argument)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        hk_comm *own;
        hk_options join = ranks_join(rank, 3, argument);
        join.name = "children";
        join.timeout = 20;
        EXPECT_OK(hk_comm_create(&join, &own));
        check_unharmed(own);
        EXPECT_OK(hk_comm_free(own));
        exit(0);
    }
    check_unharmed(comm);
    wait_for(child);
    return 0;
}

static void test_children_may_be_ranks_of_another_context(void **state)
{
    (void)state;
    for (size_t over = 0; over < TRANSPORTS; over++) {
        ranks_options options = {.timeout = 20, .settings = transports[over]};
        hk_store *store = ranks_store_new();
        assert_int_equal(ranks_run(3, &options, child_has_its_own, store), 0);
        ranks_store_free(store);
    }
}

/* Children come and go while ranks work; the rank that outlives its own child's exec sees no hang either. */
static int fork_often(hk_comm *comm, int rank, void *argument)
{
    (void)argument;
    for (int i = 0; i < 20; i++) {
        fflush(NULL);
        pid_t child = i % 3 == rank ? fork() : -1;
        if (child == 0) {
            if (i % 2)
                exit(0);
            execl("/bin/true", "true", (char *)NULL);
            _exit(9);
        }
        check_unharmed(comm);
        if (child > 0)
            wait_for(child);
    }
    return 0;
}

static void test_children_may_come_and_go_while_ranks_work(void **state)
{
    (void)state;
    for (size_t over = 0; over < TRANSPORTS; over++) {
        ranks_options options = {.timeout = 20, .settings = transports[over]};
        assert_int_equal(ranks_run(3, &options, fork_often, NULL), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_children_hurt_nobody),
        cmocka_unit_test(test_children_may_be_ranks_of_another_context),
        cmocka_unit_test(test_children_may_come_and_go_while_ranks_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Contexts made one after the other and at once, and children of ranks that are not ranks. As `test_contexts rank [N]`
 * this is one rank of a job that some launcher started (see test_launchers.sh); by itself it is run by `hocket run`.
 */
#include <hocket/hocket.h>
#include <hocket/store.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---------------------------------------------------------------------------------------------------------------
 * As a rank: plain C, since what cmocka prints would be mixed up between ranks
 * ------------------------------------------------------------------------------------------------------------- */

static int complain(const char *what)
{
    fprintf(stderr, "test_contexts: %s: %s\n", what, hk_last_error());
    return 1;
}

/* Adds up the ranks over comm. */
static int check_sum(hk_comm *comm)
{
    int size = hk_comm_size(comm);
    int64_t mine = hk_comm_rank(comm) + 1, sum = 0;
    if (hk_allreduce(&mine, &sum, 1, HK_INT64, HK_SUM, comm) != HK_OK)
        return complain("all-reduce");
    return sum == (int64_t)size * (size + 1) / 2 ? 0 : complain("wrong sum");
}

/* A child, by fork alone or with another program, is alone: it must not join in the place of its parent. */
static int check_children(void)
{
    pid_t child = fork();
    if (child == 0) {
        hk_comm *comm;
        if (hk_init(&comm) != HK_OK || hk_comm_size(comm) != 1)
            _exit(complain("a child is not alone"));
        hk_comm_free(comm);
        _exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        return complain("the child by fork");
    child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "test_contexts", "alone", (char *)NULL);
        _exit(1);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        return complain("the child by exec");
    return 0;
}

static int be_alone(void)
{
    hk_comm *comm;
    if (hk_init(&comm) != HK_OK)
        return complain("hk_init alone");
    int alone = hk_comm_size(comm) == 1;
    hk_comm_free(comm);
    return alone ? 0 : complain("the started program is not alone");
}

/* Three contexts, of which two live at once. */
static int be_rank(int ranks)
{
    hk_comm *first, *second, *third;
    if (hk_init(&first) != HK_OK)
        return complain("hk_init");
    if (ranks > 0 && hk_comm_size(first) != ranks)
        return complain("the number of ranks is wrong");
    if (check_sum(first) != 0 || check_children() != 0)
        return 1;
    if (hk_init(&second) != HK_OK)
        return complain("the second hk_init");
    if (hk_comm_rank(second) != hk_comm_rank(first))
        return complain("another rank in the second context");
    if (check_sum(second) != 0 || check_sum(first) != 0)
        return 1;
    hk_comm_free(first);
    if (check_sum(second) != 0)
        return 1;
    hk_comm_free(second);
    if (hk_init(&third) != HK_OK)
        return complain("the third hk_init");
    int result = check_sum(third);
    if (hk_comm_rank(third) == 0 && result == 0)
        printf("%d ranks, three contexts\n", hk_comm_size(third));
    hk_comm_free(third);
    return result;
}

/* ---------------------------------------------------------------------------------------------------------------
 * By itself
 * ------------------------------------------------------------------------------------------------------------- */

static void contexts_follow_one_another_under_hocket_run(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        char self[4096];
        ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
        self[length > 0 ? length : 0] = '\0';
        execl(HOCKET_PROGRAM, "hocket", "run", "-n", "3", "--", self, "rank", "3", (char *)NULL);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* Two contexts of one process at the same time, with ids, keys and rank orders of their own. */
typedef struct both {
    int rank, ranks;
    const hk_unique_id *ids;
    int failed;
    char error[256];
} both;

static hk_status open_one(const both *self, int which, hk_comm **comm)
{
    static const char *const keys[2] = {"the key of the first context....", "the key of the second context..."};
    hk_options options = HK_OPTIONS_INIT;
    options.rank = which == 0 ? self->rank : self->ranks - 1 - self->rank;
    options.ranks = self->ranks;
    options.id = &self->ids[which];
    options.key = keys[which];
    options.key_bytes = 32;
    return hk_comm_create(&options, comm);
}

static void *both_main(void *argument)
{
    both *self = argument;
    hk_comm *comms[2] = {NULL, NULL};
    self->failed = 1;
    if (open_one(self, 0, &comms[0]) == HK_OK && open_one(self, 1, &comms[1]) == HK_OK) {
        self->failed = 0;
        for (int n = 0; n < 20; n++)
            self->failed |= check_sum(comms[n % 2]);
        self->failed |= hk_comm_rank(comms[0]) + hk_comm_rank(comms[1]) != self->ranks - 1;
    }
    snprintf(self->error, sizeof self->error, "%s", self->failed ? hk_last_error() : "");
    hk_comm_free(comms[0]);
    hk_comm_free(comms[1]);
    return NULL;
}

static void two_contexts_with_keys_of_their_own_live_in_one_process(void **state)
{
    (void)state;
    enum { RANKS = 3 };
    both members[RANKS];
    pthread_t threads[RANKS];
    hk_unique_id ids[2];
    assert_int_equal(hk_unique_id_create(&ids[0]), HK_OK);
    assert_int_equal(hk_unique_id_create(&ids[1]), HK_OK);
    for (int rank = 0; rank < RANKS; rank++) {
        members[rank] = (both){.rank = rank, .ranks = RANKS, .ids = ids};
        assert_int_equal(pthread_create(&threads[rank], NULL, both_main, &members[rank]), 0);
    }
    for (int rank = 0; rank < RANKS; rank++) {
        pthread_join(threads[rank], NULL);
        if (members[rank].failed)
            print_error("rank %d: %s\n", rank, members[rank].error);
        assert_int_equal(members[rank].failed, 0);
    }
}

/* Transports are chosen once a process: another one. */
static void all_of_it_holds_over_tcp(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        setenv("HOCKET_TRANSPORT", "tcp", 1);
        execl("/proc/self/exe", "test_contexts", "again", (char *)NULL);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_follow_one_another_under_hocket_run),
        cmocka_unit_test(two_contexts_with_keys_of_their_own_live_in_one_process),
        cmocka_unit_test(all_of_it_holds_over_tcp),
    };
    if (argc > 1 && strcmp(argv[1], "rank") == 0)
        return be_rank(argc > 2 ? atoi(argv[2]) : 0);
    if (argc > 1 && strcmp(argv[1], "alone") == 0)
        return be_alone();
    if (argc > 1 && strcmp(argv[1], "again") == 0)
        cmocka_set_skip_filter("all_of_it_holds_over_tcp");
    return cmocka_run_group_tests_name("contexts", tests, NULL, NULL);
}

/* Many ranks over TCP: a rank has connections to those it needs, which after a barrier are O(log P), and stays small.
 */
#include "tests/multi/job.h"

#include <hocket/hocket.h>

#include <dirent.h>
#include <setjmp.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(HKI_SANITIZED)
enum { RANKS = 24, LOG_RANKS = 5 };
#else
enum { RANKS = 96, LOG_RANKS = 7 };
#endif

/* Sockets beside those to other ranks: listeners, the launcher's, the store's; with some to spare. */
enum { OWN_SOCKETS = 8, MOST_SOCKETS = 4 * LOG_RANKS + OWN_SOCKETS, MOST_KIB = 16 << 10 };

static const char *self;

/* ---- a rank ---- */

static int64_t open_sockets(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int64_t count = 0;
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        char target[64];
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
        count += length > 7 && memcmp(target, "socket:", 7) == 0;
    }
    if (folder != NULL)
        closedir(folder);
    return count;
}

/* KiB: private memory and the share of what is shared. */
static int64_t memory(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    long kib = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL && sscanf(line, "Pss: %ld", &kib) != 1)
        ;
    if (file != NULL)
        fclose(file);
    return kib;
}

static int be_a_rank(void)
{
    hk_comm *comm;
    int64_t values[2];
    if (hk_init(&comm) != HK_OK || hk_barrier(comm) != HK_OK)
        return 1;
    values[0] = open_sockets();
    values[1] = memory();
    if (hk_allreduce(HK_IN_PLACE, values, 2, HK_INT64, HK_MAX, comm) != HK_OK)
        return 1;
    if (hk_comm_rank(comm) == 0)
        printf("%d ranks: at most %lld sockets and %lld KiB\n", hk_comm_size(comm), (long long)values[0],
               (long long)values[1]);
    return hk_comm_free(comm) == HK_OK ? 0 : 1;
}

/* ---- the test ---- */

static void after_a_barrier_a_rank_has_few_connections(void **state)
{
    (void)state;
    char ranks[16];
    int size = 0;
    long long sockets = 0, kib = 0;
    snprintf(ranks, sizeof ranks, "%d", RANKS);
    job running = job_start("run", "-n", ranks, "--", (char *)(uintptr_t)self, "rank");
    assert_true(job_wait(&running, 100));
    if (sscanf(running.text[0].data, "%d ranks: at most %lld sockets and %lld KiB", &size, &sockets, &kib) != 3)
        fail_msg("no word of rank 0: %s%s", running.text[0].data, running.text[1].data);
    assert_int_equal(size, RANKS);
    assert_in_range(sockets, LOG_RANKS, MOST_SOCKETS);
#ifndef HKI_SANITIZED
    assert_in_range(kib, 1, MOST_KIB);
#endif
    job_free(&running);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "rank") == 0)
        return be_a_rank();
    self = argv[0];
    setenv("HOCKET_TRANSPORT", "tcp", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(after_a_barrier_a_rank_has_few_connections)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

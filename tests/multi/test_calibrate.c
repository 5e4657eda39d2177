/* HOCKET_CALIBRATE: links are measured as ranks join, and all ranks hold the same figures afterwards. */
#include "../support/ranks.h"

#include "base/settings.h"
#include "comm/comm.h"
#include "cost/pack.h"
#include "cost/tuning.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MOST = 4, TEXT = 4096 };

typedef struct job {
    hki_figures figures[MOST];
    hki_link_class link; /* between ranks 0 and 1 */
    hk_store *store;
} job;

/* Leaves this process, and so its ranks, so many of its CPUs. False: it has fewer. */
static bool keep_cpus(int wanted)
{
    cpu_set_t usable, kept;
    CPU_ZERO(&kept);
    if (sched_getaffinity(0, sizeof usable, &usable) != 0)
        return false;
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&kept) < wanted; cpu++)
        if (CPU_ISSET(cpu, &usable))
            CPU_SET(cpu, &kept);
    return CPU_COUNT(&kept) == wanted && sched_setaffinity(0, sizeof kept, &kept) == 0;
}

/* Whether two ranks have a core each here: else nothing is measured. */
static bool have_cores(void)
{
    hki_cpus usable;
    return hki_cpus_usable(&usable) == HK_OK && hki_topology_read_cores(&usable) >= 2 && hki_quota_cpus() >= 2;
}

static int note_figures(hk_comm *comm, int rank, void *argument)
{
    job *of = argument;
    int32_t sum = 0, one = 1;
    of->figures[rank] = comm->context->figures;
    if (rank == 0)
        of->link = hki_cluster_link(comm->cluster, 0, 1);
    EXPECT_OK(hk_allreduce(&one, &sum, 1, HK_INT32, HK_SUM, comm));
    EXPECT(sum == hk_comm_size(comm));
    return 0;
}

static void check_alike(const job *of, int ranks)
{
    unsigned char packed[2][HKI_PACKED_FIGURES_MOST];
    size_t bytes = hki_figures_pack(&of->figures[0], packed[0]);
    for (int rank = 1; rank < ranks; rank++) {
        assert_int_equal(hki_figures_pack(&of->figures[rank], packed[1]), bytes);
        assert_memory_equal(packed[1], packed[0], bytes);
    }
}

static job *run(int ranks, const char *settings)
{
    const ranks_options options = {.settings = settings};
    job *of = ranks_shared(sizeof *of);
    assert_int_equal(ranks_run(ranks, &options, note_figures, of), 0);
    check_alike(of, ranks);
    return of;
}

static void check_measured(const job *of)
{
    const hki_figures *figures = &of->figures[0];
    const hki_link_figures *link = &figures->link[of->link];
    assert_int_equal(link->origin, HKI_CALIBRATED);
    assert_int_equal(figures->reduce_origin, HKI_CALIBRATED);
    assert_non_null(strstr(figures->source, "calibration"));
    assert_in_range(link->ranges, 1, HKI_FIGURE_RANGES);
    for (uint32_t i = 0; i < link->ranges; i++) /* either may be lost in the noise of a busy machine, but not both */
        assert_in_range(link->range[i].alpha_ps + link->range[i].beta_ps, 1, UINT64_C(1) << 50);
    assert_memory_not_equal(link->range, hki_figures_built_in.link[of->link].range, sizeof link->range);
    assert_in_range(figures->copy_ps, 1, UINT64_C(1) << 40);
    assert_in_range(figures->gamma_ps[HK_FLOAT32][HKI_OPS_ADD], 1, UINT64_C(1) << 40);
}

static void shared_memory_is_measured(void **state)
{
    (void)state;
    const job *of = run(2, "HOCKET_CALIBRATE=1 HOCKET_TRANSPORT=shm");
    assert_in_range(of->link, HKI_LINK_CORE, HKI_LINK_HOST);
    check_measured(of);
    assert_int_equal(of->figures[0].link[HKI_LINK_LOOPBACK].origin, HKI_BUILT_IN);
    assert_int_equal(of->figures[0].host_origin, HKI_BUILT_IN);
}

static void tcp_is_measured(void **state)
{
    (void)state;
    const job *of = run(2, "HOCKET_CALIBRATE=1 HOCKET_TRANSPORT=tcp");
    assert_int_equal(of->link, HKI_LINK_LOOPBACK);
    check_measured(of);
    for (int link = 0; link < HKI_LINK_CLASSES; link++)
        if (link != HKI_LINK_LOOPBACK)
            assert_int_equal(of->figures[0].link[link].origin, HKI_BUILT_IN);
}

/* Ranks 0 and 1 are on one host, rank 2 is on another, as they say. */
static int join_two_hosts(hk_comm *comm, int rank, void *argument)
{
    job *of = argument;
    hk_options options = ranks_join(rank, 3, of->store);
    setenv("HOCKET_HOST", rank < 2 ? "one" : "other", 1);
    hki_settings_reset();
    EXPECT_OK(hk_comm_create(&options, &comm));
    EXPECT(note_figures(comm, rank, of) == 0);
    EXPECT_OK(hk_comm_free(comm));
    return RANKS_FREED;
}

static void each_kind_of_link_is_measured(void **state)
{
    (void)state;
    const ranks_options options = {.settings = "HOCKET_CALIBRATE=1 HOCKET_TRANSPORT=shm,tcp", .no_context = true};
    job *of = ranks_shared(sizeof *of);
    of->store = ranks_store_new();
    assert_int_equal(ranks_run(3, &options, join_two_hosts, of), 0);
    ranks_store_free(of->store);
    check_alike(of, 3);
    check_measured(of);
    assert_int_equal(of->figures[0].link[HKI_LINK_TCP].origin, HKI_CALIBRATED);
    assert_int_equal(of->figures[0].link[HKI_LINK_LOOPBACK].origin, HKI_BUILT_IN);
}

/* What a program may not use can still be what shows a link best. */
static void what_is_forbidden_can_be_measured(void **state)
{
    (void)state;
    check_measured(run(2, "HOCKET_CALIBRATE=1 HOCKET_TRANSPORT=shm HOCKET_ALGORITHM=broadcast:^flat,allgather:ring"));
}

static void nothing_is_measured_unasked(void **state)
{
    (void)state;
    const job *of = run(2, NULL);
    for (int link = 0; link < HKI_LINK_CLASSES; link++)
        assert_int_equal(of->figures[0].link[link].origin, HKI_BUILT_IN);
    assert_int_equal(of->figures[0].reduce_origin, HKI_BUILT_IN);
    assert_string_equal(of->figures[0].source, "");
}

/* What was tuned stays where nothing was measured. */
static void tuned_figures_are_replaced(void **state)
{
    (void)state;
    char file[] = "/tmp/hocket-calibrate-XXXXXX", settings[128];
    const hki_link_figures slow = {.ranges = 1, .range = {{.upto = UINT64_MAX, .alpha_ps = 7}}, .origin = HKI_TUNED};
    hki_tuning tuning = {.figures = hki_figures_built_in};
    tuning.figures.link[HKI_LINK_LOOPBACK] = tuning.figures.link[HKI_LINK_TCP] = slow;
    int descriptor = mkstemp(file);
    assert_true(descriptor >= 0);
    close(descriptor);
    hk_status written = hki_tuning_write(&tuning, file);
    if (written == HK_ERR_UNSUPPORTED)
        unlink(file);
    if (written == HK_ERR_UNSUPPORTED)
        skip();
    assert_int_equal(written, HK_OK);
    snprintf(settings, sizeof settings, "HOCKET_CALIBRATE=1 HOCKET_TRANSPORT=tcp HOCKET_TUNING=%s", file);
    const job *of = run(2, settings);
    unlink(file);
    check_measured(of);
    assert_int_equal(of->figures[0].link[HKI_LINK_TCP].origin, HKI_TUNED);
    assert_int_equal(of->figures[0].link[HKI_LINK_TCP].range[0].alpha_ps, 7);
    assert_non_null(strstr(of->figures[0].source, strrchr(file, '/') + 1));
}

/* What the ranks of a job write to standard error. */
static void run_and_listen(int ranks, const char *settings, job **of, char text[TEXT])
{
    FILE *heard = tmpfile();
    int kept = dup(2);
    assert_non_null(heard);
    fflush(stderr);
    dup2(fileno(heard), 2);
    *of = run(ranks, settings);
    fflush(stderr);
    dup2(kept, 2);
    close(kept);
    rewind(heard);
    text[fread(text, 1, TEXT - 1, heard)] = '\0';
    fclose(heard);
}

static void more_ranks_than_cores_are_not_measured(void **state)
{
    (void)state;
    job *of;
    char text[TEXT];
    run_and_listen(4, "HOCKET_CALIBRATE=1 HOCKET_LOG=warn", &of, text);
    for (int link = 0; link < HKI_LINK_CLASSES; link++)
        assert_int_equal(of->figures[0].link[link].origin, HKI_BUILT_IN);
    assert_int_equal(of->figures[0].reduce_origin, HKI_BUILT_IN);
    const char *first = strstr(text, "HOCKET_CALIBRATE: a host has 4 ranks on 2 cores: nothing is measured");
    assert_non_null(first);
    assert_null(strstr(first + 1, "HOCKET_CALIBRATE")); /* once, not by each rank */
}

/* ---- a rank that dies while links are measured ---- */

/* Ends the process when the context says that it is complete but for what follows: calibration. */
static void *die_when_joined(void *pipe)
{
    char text[TEXT];
    size_t used = 0;
    ssize_t got;
    while ((got = read(((int *)pipe)[0], text + used, sizeof text - 1 - used)) > 0) {
        used += (size_t)got;
        text[used] = '\0';
        if (strstr(text, "found by"))
            _exit(0);
    }
    return NULL;
}

static int lose_rank_1(hk_comm *comm, int rank, void *argument)
{
    job *of = argument;
    hk_options options = ranks_join(rank, 2, of->store);
    int heard[2];
    pthread_t thread;
    if (rank == 1) {
        EXPECT(pipe(heard) == 0 && dup2(heard[1], 2) == 2);
        EXPECT(pthread_create(&thread, NULL, die_when_joined, heard) == 0);
    }
    EXPECT_STATUS(hk_comm_create(&options, &comm), HK_ERR_PEER_LOST);
    EXPECT(rank == 0);
    EXPECT_ERROR_NAMES("rank 1");
    return RANKS_FREED;
}

static void a_lost_rank_ends_creation(const char *settings)
{
    const ranks_options options = {.settings = settings, .no_context = true};
    job *of = ranks_shared(sizeof *of);
    of->store = ranks_store_new();
    assert_int_equal(ranks_run(2, &options, lose_rank_1, of), 0);
    ranks_store_free(of->store);
}

static void a_rank_lost_over_shm_ends_creation(void **state)
{
    (void)state;
    a_lost_rank_ends_creation("HOCKET_CALIBRATE=1 HOCKET_TRANSPORT=shm HOCKET_LOG=info");
}

static void a_rank_lost_over_tcp_ends_creation(void **state)
{
    (void)state;
    a_lost_rank_ends_creation("HOCKET_CALIBRATE=1 HOCKET_TRANSPORT=tcp HOCKET_LOG=info");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shared_memory_is_measured),
                                       cmocka_unit_test(tcp_is_measured),
                                       cmocka_unit_test(each_kind_of_link_is_measured),
                                       cmocka_unit_test(what_is_forbidden_can_be_measured),
                                       cmocka_unit_test(nothing_is_measured_unasked),
                                       cmocka_unit_test(tuned_figures_are_replaced),
                                       cmocka_unit_test(more_ranks_than_cores_are_not_measured),
                                       cmocka_unit_test(a_rank_lost_over_shm_ends_creation),
                                       cmocka_unit_test(a_rank_lost_over_tcp_ends_creation)};
    return keep_cpus(2) && have_cores() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}

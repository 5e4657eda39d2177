/*
 * By which transport ranks on several hosts talk when nobody says: what their ports report decides, alike at both ends.
 * Over the fake libibverbs, whose ports are as fast as a test wants. Tcp costs what a tuning file says, so that nothing
 * depends on how fast this machine is.
 */
#include "../support/ranks.h"
#include "fake_fabric.h"

#include "base/json.h"
#include "base/settings.h"
#include "comm/comm.h"
#include "comm/inspect.h"
#include "cost/tuning.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { RANKS = 3, NAME = 16 };

typedef struct job {
    hk_store *store;
    const char *device[RANKS];
    char names[RANKS][RANKS][NAME]; /* by which a rank reaches another */
    hki_figures figures[RANKS];
    hki_link_class link[RANKS][RANKS];
    int place;
} job;

static char file[] = "/tmp/hocket-choice-XXXXXX";

/* tcp takes 76 us for 32 KiB: more than a fast port, less than one of 2.5 Gbit/s, whose bytes alone take 105. */
static void write_tuning(bool with_verbs)
{
    hki_tuning tuning = {.figures = hki_figures_built_in};
    const hki_link_figures slow = {
        .ranges = 1, .range = {{.upto = UINT64_MAX, .alpha_ps = 50000000, .beta_ps = 819200}}, .origin = HKI_TUNED};
    tuning.figures.link[HKI_LINK_TCP] = slow;
    if (with_verbs) {
        tuning.figures.link[HKI_LINK_VERBS] = slow;
        tuning.figures.link[HKI_LINK_VERBS].range[0].alpha_ps *= 2;
    }
    assert_int_equal(hki_tuning_write(&tuning, file), HK_OK);
}

static int look(hk_comm *comm, int rank, void *argument)
{
    job *of = argument;
    char host[NAME];
    hk_options options = ranks_join(rank, RANKS, of->store);
    snprintf(host, sizeof host, "host%d", rank);
    setenv("HOCKET_HOST", host, 1);
    setenv("HOCKET_VERBS_DEVICE", of->device[rank], 1);
    setenv("HOCKET_TUNING", rank == 0 ? file : "none", 1);
    hki_settings_reset();
    EXPECT_OK(hk_comm_create(&options, &comm));
    float value = 1, sum = 0;
    EXPECT_OK(hk_allreduce(&value, &sum, 1, HK_FLOAT32, HK_SUM, comm));
    EXPECT(sum == RANKS);
    of->figures[rank] = comm->context->figures;
    for (int other = 0; other < RANKS; other++) {
        snprintf(of->names[rank][other], NAME, "%s", hki_comm_transport(comm, other));
        of->link[rank][other] = hki_cluster_link(comm->cluster, (uint32_t)rank, (uint32_t)other);
    }
    ranks_meet(&of->place, RANKS);
    EXPECT_OK(hk_comm_free(comm));
    return RANKS_FREED;
}

static void run(job *of, const char *first, const char *second, const char *third, const char *settings)
{
    char all[600];
    snprintf(all, sizeof all,
             "HOCKET_TRANSPORT_PATH=" HOCKET_BUILD "/lib/hocket HOCKET_VERBS_LIBRARY=" FAKE_VERBS_LIBRARY " %s",
             settings);
    const ranks_options options = {.no_context = true, .settings = all};
    of->device[0] = first;
    of->device[1] = second;
    of->device[2] = third;
    of->place = 0;
    assert_int_equal(ranks_run(RANKS, &options, look, of), 0);
    ranks_store_clear(of->store);
    for (int rank = 0; rank < RANKS; rank++) {
        assert_memory_equal(&of->figures[rank], &of->figures[0], sizeof of->figures[0]);
        for (int other = 0; other < rank; other++) {
            assert_string_equal(of->names[rank][other], of->names[other][rank]);
            assert_int_equal(of->link[rank][other], of->link[other][rank]);
            /* what the model takes for the link is the link */
            assert_string_equal(of->names[rank][other], hki_link_class_name(of->link[rank][other]));
        }
    }
}

static void assert_links(const job *of, const char *first, const char *second, const char *third)
{
    assert_string_equal(of->names[0][1], first);
    assert_string_equal(of->names[0][2], second);
    assert_string_equal(of->names[1][2], third);
}

static job *new_job(void)
{
    job *of = ranks_shared(sizeof *of);
    of->store = ranks_store_new();
    return of;
}

static void fast_ports_are_used_and_slow_ones_are_not(void **state)
{
    (void)state;
    job *of = new_job();
    write_tuning(false);
    run(of, "fast", "fast", "fast", "");
    assert_links(of, "verbs", "verbs", "verbs");
    assert_int_equal(of->figures[0].link[HKI_LINK_VERBS].origin, HKI_REPORTED);
    assert_int_equal(of->figures[0].link[HKI_LINK_TCP].origin, HKI_TUNED);
    run(of, "slow", "slow", "slow", "");
    assert_links(of, "tcp", "tcp", "tcp");
    run(of, "late", "late", "late", ""); /* as fast, but a message takes a millisecond */
    assert_links(of, "tcp", "tcp", "tcp");
    ranks_store_free(of->store);
}

static void one_slow_end_decides_at_both(void **state)
{
    (void)state;
    job *of = new_job();
    write_tuning(false);
    const char *const devices[] = {"slow", "late"};
    for (int i = 0; i < 2; i++) {
        run(of, devices[i], "fast", "fast", "");
        assert_links(of, "tcp", "tcp", "verbs");
        run(of, "fast", "fast", devices[i], "");
        assert_links(of, "verbs", "tcp", "tcp");
    }
    ranks_store_free(of->store);
}

static void who_says_which_comes_first_is_heard(void **state)
{
    (void)state;
    job *of = new_job();
    write_tuning(false);
    run(of, "slow", "fast", "slow", "HOCKET_TRANSPORT=verbs,tcp");
    assert_links(of, "verbs", "verbs", "verbs");
    run(of, "fast", "fast", "fast", "HOCKET_TRANSPORT=tcp,verbs");
    assert_links(of, "tcp", "tcp", "tcp");
    run(of, "fast", "fast", "fast", "HOCKET_TRANSPORT=^verbs");
    assert_links(of, "tcp", "tcp", "tcp");
    ranks_store_free(of->store);
}

/* Alike at both ends, and the model knows it (run). Of several ports those serve that are of a kind, up to the first
 * that is not. */
static void infiniband_and_roce_do_not_reach_each_other(void **state)
{
    (void)state;
    job *of = new_job();
    write_tuning(false);
    run(of, "ib", "fast", "ib", "");
    assert_links(of, "tcp", "verbs", "tcp");
    run(of, "fast,ib", "fast,slow", "ib,fast", "");
    assert_links(of, "verbs", "tcp", "tcp");
    run(of, "ib", "fast", "ib", "HOCKET_TRANSPORT=verbs,tcp");
    assert_links(of, "tcp", "verbs", "tcp");
    ranks_store_free(of->store);
}

static void a_tuning_file_comes_before_the_ports(void **state)
{
    (void)state;
    job *of = new_job();
    write_tuning(true);
    run(of, "fast", "fast", "slow", "");
    assert_links(of, "tcp", "tcp", "tcp");
    assert_int_equal(of->figures[0].link[HKI_LINK_VERBS].origin, HKI_TUNED);
    ranks_store_free(of->store);
}

static int start(void **state)
{
    int made = mkstemp(file);
    if (made < 0 || fabric_start(state) != 0)
        return -1;
    close(made);
    return 0;
}

static int end(void **state)
{
    return unlink(file) + fabric_end(state);
}

/* A build or a host without jansson reads no files. */
static bool have_jansson(void)
{
    hki_json *made = NULL;
    hk_status status = hki_json_new(&made);
    if (status == HK_OK)
        hki_json_free(made);
    return status == HK_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(fast_ports_are_used_and_slow_ones_are_not, fabric_whole),
        cmocka_unit_test_setup(one_slow_end_decides_at_both, fabric_whole),
        cmocka_unit_test_setup(who_says_which_comes_first_is_heard, fabric_whole),
        cmocka_unit_test_setup(infiniband_and_roce_do_not_reach_each_other, fabric_whole),
        cmocka_unit_test_setup(a_tuning_file_comes_before_the_ports, fabric_whole),
    };
    if (!fabric_there() || !have_jansson())
        return 77;
    fabric_devices = "fast,slow/width=1/speed=1,late/latency=1000000,ib/ib";
    return cmocka_run_group_tests_name("verbs_choice", tests, start, end);
}

/* Prices among many ranks, which are told from fewer, against walks of every step of all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cost/price.h"

typedef struct one {
    hki_collective collective;
    const char *name;
    uint32_t segments;
} one;

static hki_cluster *cluster_of(uint32_t ranks, uint32_t on_host)
{
    hki_cluster *cluster = hki_cluster_new(ranks, (ranks + on_host - 1) / on_host, 1, "a test");
    assert_non_null(cluster);
    cluster->switches[0].above = UINT32_MAX;
    for (uint32_t i = 0; i < cluster->host_count; i++)
        cluster->hosts[i] = (hki_cluster_host){.capacity = on_host, .numas = 1, .nics = 1};
    for (uint32_t rank = 0; rank < ranks; rank++)
        cluster->seats[rank] = (hki_seat){.host = rank / on_host,
                                          .core = (uint16_t)(rank % on_host),
                                          .l2 = (uint16_t)(rank % on_host),
                                          .reach = HKI_REACH_SHM | HKI_REACH_TCP};
    assert_int_equal(hki_cluster_settle(cluster), HK_OK);
    return cluster;
}

/* Told from half of the steps at most, and by no more than `most` times too high or too low. */
static void compare(const hki_cluster *cluster, const one *what, uint64_t bytes, double most)
{
    const hki_algorithm *algorithm = hki_algorithm_find(what->collective, what->name);
    assert_non_null(algorithm);
    const hki_model model = {cluster, &hki_figures_built_in, HK_FLOAT32, HKI_OPS_ADD};
    hki_call call = {.collective = what->collective,
                     .ranks = cluster->rank_count,
                     .segments = what->segments,
                     .commutative = true,
                     .levels = cluster->levels};
    hki_price told, all;
    assert_int_equal(hki_price_call(&model, algorithm, &call, bytes, &told), HK_OK);
    assert_int_equal(hki_price_fully(&model, algorithm, &call, bytes, &all), HK_OK);
    double ratio = (double)told.total_ps / (double)all.total_ps;
    if (ratio > most || ratio < 1 / most)
        fail_msg("%s %s in %u segments of %llu bytes among %u ranks: %.1f µs, not %.1f",
                 hki_collective_name(what->collective), what->name, what->segments, (unsigned long long)bytes,
                 call.ranks, (double)told.total_ps / 1e6, (double)all.total_ps / 1e6);
    if (told.effort > all.effort / 2)
        fail_msg("%s %s: %u steps are walked of %u", hki_collective_name(what->collective), what->name, told.effort,
                 all.effort);
}

static void compare_each(const one *all, size_t count, uint32_t ranks, uint32_t on_host, double most)
{
    hki_cluster *cluster = cluster_of(ranks, on_host);
    for (uint64_t bytes = 1 << 20; bytes <= 64 << 20; bytes *= 64)
        for (size_t i = 0; i < count; i++)
            compare(cluster, &all[i], bytes, most);
    hki_cluster_free(cluster);
}

/* What grows by levels, by hosts, or hardly at all, with slices, shares and whole vectors. */
static void prices_of_many_ranks_go_on_as_forms_do(void **state)
{
    (void)state;
    static const one all[] = {
        {HKI_COLL_REDUCE, "lanes", 1},        {HKI_COLL_REDUCE, "multilevel", 1}, {HKI_COLL_REDUCE, "flat", 1},
        {HKI_COLL_BROADCAST, "lanes", 1},     {HKI_COLL_BROADCAST, "flat", 1},    {HKI_COLL_GATHER, "linear", 1},
        {HKI_COLL_GATHER, "hierarchical", 1}, {HKI_COLL_SCATTER, "linear", 1},    {HKI_COLL_SCATTER, "hierarchical", 1},
    };
    compare_each(all, sizeof all / sizeof *all, 1024, 8, 1.3);
}

/* Once full, what a pipeline takes for a segment more grows only where some rank has more children. */
static void pipelines_among_many_ranks_are_filled_later(void **state)
{
    (void)state;
    static const one all[] = {
        {HKI_COLL_BROADCAST, "pipelined_tree", 16}, {HKI_COLL_BROADCAST, "double_tree", 16},
        {HKI_COLL_BROADCAST, "hierarchical", 16},   {HKI_COLL_BROADCAST, "lanes", 16},
        {HKI_COLL_REDUCE, "pipelined_tree", 16},    {HKI_COLL_REDUCE, "double_tree", 16},
        {HKI_COLL_REDUCE, "hierarchical", 16},      {HKI_COLL_ALLREDUCE, "double_tree", 16},
    };
    compare_each(all, sizeof all / sizeof *all, 512, 8, 1.25);
}

/* Hosts of unlike size have no forms of their own. */
static void hosts_of_unlike_size_go_on_as_equal_ones(void **state)
{
    (void)state;
    static const one all[] = {
        {HKI_COLL_REDUCE, "lanes", 1},
        {HKI_COLL_REDUCE, "multilevel", 1},
        {HKI_COLL_ALLREDUCE, "hierarchical_rabenseifner", 1},
        {HKI_COLL_ALLGATHER, "hierarchical", 1},
    };
    compare_each(all, sizeof all / sizeof *all, 1023, 8, 1.3);
}

/* A few segments wait for latencies, some more for bytes: what goes on is the total, not each part by itself. */
static void what_a_pipeline_waits_for_may_change(void **state)
{
    (void)state;
    hki_cluster *cluster = cluster_of(96, 3);
    static const one scan = {HKI_COLL_EXSCAN, "linear", 64};
    static const uint64_t sizes[] = {1314816, 1327104, 1376256};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        compare(cluster, &scan, sizes[i], 1.3);
    hki_cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prices_of_many_ranks_go_on_as_forms_do),
        cmocka_unit_test(pipelines_among_many_ranks_are_filled_later),
        cmocka_unit_test(hosts_of_unlike_size_go_on_as_equal_ones),
        cmocka_unit_test(what_a_pipeline_waits_for_may_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Prices: the textbook's forms come out of walks; looking at few ranks tells what looking at all does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cost/price.h"

/* ---- a textbook's machine ---- */

enum { ALPHA = 1000000, BETA = 1024000, GAMMA = 102400 }; /* 1 µs; per KiB: 1 ns and 0.1 ns a byte */

/* One range, nothing shared, everything else free. */
static hki_figures textbook(uint64_t alpha, uint64_t overhead, uint64_t beta, uint64_t gamma)
{
    hki_figures figures = {.step_ps = 0};
    for (int link = 0; link < HKI_LINK_CLASSES; link++)
        figures.link[link] = (hki_link_figures){
            .ranges = 1, .range = {{.upto = UINT64_MAX, .alpha_ps = alpha, .overhead_ps = overhead, .beta_ps = beta}}};
    for (int type = 0; type < HK_TYPE_COUNT; type++)
        for (int operators = 0; operators < HKI_OP_CLASSES; operators++)
            figures.gamma_ps[type][operators] = gamma;
    return figures;
}

static hki_call call_of(hki_collective collective, uint32_t ranks, uint32_t segments)
{
    return (hki_call){.collective = collective, .ranks = ranks, .segments = segments, .commutative = true};
}

static hki_price price_of(const hki_figures *figures, const hki_cluster *cluster, const hki_algorithm *algorithm,
                          const hki_call *call, uint64_t bytes, bool fully)
{
    hki_price price = {0};
    hki_model model = {cluster, figures, HK_FLOAT32, HKI_OPS_ADD};
    assert_int_equal((fully ? hki_price_fully : hki_price_call)(&model, algorithm, call, bytes, &price), HK_OK);
    assert_int_equal(price.total_ps, price.alpha_ps + price.beta_ps + price.gamma_ps + price.contention_ps);
    return price;
}

static hki_cluster *cluster_of(uint32_t hosts, uint32_t ranks, uint32_t capacity)
{
    hki_cluster *cluster = NULL;
    assert_int_equal(hki_cluster_uniform(hosts, ranks, capacity, &cluster), HK_OK);
    return cluster;
}

static void expect_near(uint64_t value, double wanted, double part, const hki_algorithm *algorithm, uint32_t ranks)
{
    if (fabs((double)value - wanted) > part * wanted + 1)
        fail_msg("%s %s among %u ranks: %llu, not %.0f", hki_collective_name(algorithm->collective), algorithm->name,
                 ranks, (unsigned long long)value, wanted);
}

/* A closed form of α, β and γ: factors of α, nβ and nγ as functions of P and S. */
typedef struct form {
    hki_collective collective;
    const char *name;
    uint32_t segments;
    double (*alpha)(double p, double s), (*beta)(double p, double s), (*gamma)(double p, double s);
} form;

static double none(double p, double s)
{
    return 0 * p * s;
}

static double lg(double p, double s)
{
    return log2(p) + 0 * s;
}

static double lg_twice(double p, double s)
{
    return 2 * log2(p) + 0 * s;
}

static double others(double p, double s)
{
    return p - 1 + 0 * s;
}

static double others_twice(double p, double s)
{
    return 2 * (p - 1) + 0 * s;
}

static double share(double p, double s)
{
    return (p - 1) / p + 0 * s;
}

static double share_twice(double p, double s)
{
    return 2 * (p - 1) / p + 0 * s;
}

static double lg_half(double p, double s)
{
    return log2(p) / 2 + 0 * s;
}

static double chain_alpha(double p, double s)
{
    return p - 2 + s;
}

static double chain_beta(double p, double s)
{
    return (p - 2 + s) / s;
}

static double circulant_alpha(double p, double s)
{
    return s - 1 + log2(p);
}

static double circulant_beta(double p, double s)
{
    return (s - 1 + log2(p)) / s;
}

static double lg_others(double p, double s)
{
    return log2(p) + p - 1 + 0 * s;
}

static const form forms[] = {
    {HKI_COLL_BARRIER, "dissemination", 1, lg, none, none},
    {HKI_COLL_BARRIER, "tree", 1, lg_twice, none, none},
    {HKI_COLL_BROADCAST, "binomial", 1, lg, lg, none},
    {HKI_COLL_BROADCAST, "chain", 1, others, others, none},
    {HKI_COLL_BROADCAST, "chain", 4, chain_alpha, chain_beta, none},
    {HKI_COLL_BROADCAST, "circulant", 4, circulant_alpha, circulant_beta, none},
    {HKI_COLL_BROADCAST, "scatter_allgather", 1, lg_others, share_twice, none},
    {HKI_COLL_REDUCE, "binomial", 1, lg, lg, lg},
    {HKI_COLL_REDUCE, "chain", 1, others, others, others},
    {HKI_COLL_ALLREDUCE, "ring", 1, others_twice, share_twice, share},
    {HKI_COLL_ALLREDUCE, "recursive_doubling", 1, lg, lg, lg},
    {HKI_COLL_ALLREDUCE, "rabenseifner", 1, lg_twice, share_twice, share},
    {HKI_COLL_REDUCE_SCATTER, "ring", 1, others, share, share},
    {HKI_COLL_REDUCE_SCATTER, "pairwise", 1, others, share, share},
    {HKI_COLL_REDUCE_SCATTER, "recursive_halving", 1, lg, share, share},
    {HKI_COLL_ALLGATHER, "ring", 1, others, share, none},
    {HKI_COLL_ALLGATHER, "recursive_doubling", 1, lg, share, none},
    {HKI_COLL_ALLGATHER, "bruck", 1, lg, share, none},
    {HKI_COLL_ALLGATHER, "direct", 1, others, share, none},
    {HKI_COLL_GATHER, "linear", 1, others, share, none},
    {HKI_COLL_GATHER, "binomial", 1, lg, share, none},
    {HKI_COLL_SCATTER, "linear", 1, others, share, none},
    {HKI_COLL_SCATTER, "binomial", 1, lg, share, none},
    {HKI_COLL_ALLTOALL, "pairwise", 1, others, share, none},
    {HKI_COLL_ALLTOALL, "bruck", 1, lg, lg_half, none},
    {HKI_COLL_SCAN, "recursive_doubling", 1, lg, lg, lg},
    {HKI_COLL_SCAN, "linear", 1, others, others, others},
};

/* With overhead = α the ways are occupied all the while, and every message costs α + nβ. */
static void closed_forms_come_out(void **state)
{
    (void)state;
    const hki_figures figures = textbook(ALPHA, ALPHA, BETA, GAMMA);
    for (uint32_t ranks = 2; ranks <= 64; ranks *= 2) {
        hki_cluster *cluster = cluster_of(1, ranks, ranks);
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
            const form *f = &forms[i];
            const hki_algorithm *algorithm = hki_algorithm_find(f->collective, f->name);
            hki_call call = call_of(f->collective, ranks, f->segments);
            uint64_t bytes = f->collective == HKI_COLL_BARRIER ? 0 : 64 * 64 * 64;
            double p = ranks, s = f->segments, n = (double)bytes / 1024;
            double wanted = f->alpha(p, s) * ALPHA + f->beta(p, s) * n * BETA + f->gamma(p, s) * n * GAMMA;
            hki_price price = price_of(&figures, cluster, algorithm, &call, bytes, ranks <= 16);
            expect_near(price.total_ps, wanted, 1e-6, algorithm, ranks);
        }
        hki_cluster_free(cluster);
    }
}

/* Priced by the first ranks, as if these went on. One flow at a time leaves a host, so that nothing is shared. */
static void rings_among_very_many_ranks_keep_their_form(void **state)
{
    (void)state;
    const hki_figures figures = textbook(ALPHA, ALPHA, BETA, GAMMA);
    hki_cluster *cluster = cluster_of(128, 8, 8);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const form *f = &forms[i];
        if (strcmp(f->name, "ring") != 0)
            continue;
        const hki_algorithm *algorithm = hki_algorithm_find(f->collective, f->name);
        hki_call call = call_of(f->collective, cluster->rank_count, 1);
        call.levels = cluster->levels;
        double p = cluster->rank_count, n = 4096;
        double wanted = f->alpha(p, 1) * ALPHA + f->beta(p, 1) * n * BETA + f->gamma(p, 1) * n * GAMMA;
        hki_price price = price_of(&figures, cluster, algorithm, &call, 4096 * 1024, false);
        expect_near(price.total_ps, wanted, 1e-6, algorithm, cluster->rank_count);
    }
    hki_cluster_free(cluster);
}

/* Whose ranks take messages in program order though they do not depend on each other: that adds to the rounds. */
static bool waits_more_than_it_must(const hki_algorithm *algorithm)
{
    static const char *const names[] = {"linear", "hierarchical", "multilevel"};
    bool waits = strstr(algorithm->name, "double_tree") != NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        waits = waits || strcmp(algorithm->name, names[i]) == 0;
    return waits;
}

/* With nothing but latency a price counts rounds, and bytes are what the algorithm says. */
static void rounds_and_bytes_are_the_algorithms_own(void **state)
{
    (void)state;
    const hki_figures figures = textbook(ALPHA, 0, 0, 0);
    size_t count;
    const hki_algorithm *all = hki_algorithms(&count);
    for (uint32_t ranks = 2; ranks <= 32; ranks *= 2) {
        hki_cluster *cluster = cluster_of(1, ranks, ranks);
        for (size_t i = 0; i < count; i++) {
            hki_call call = call_of(all[i].collective, ranks, 1);
            if (hki_algorithm_refuses(&all[i], &call))
                continue;
            uint64_t bytes = 64 * 64 * 64;
            hki_price price = price_of(&figures, cluster, &all[i], &call, bytes, true);
            double rounds = all[i].rounds(&call), sent = all[i].sent(&call);
            if (!isnan(sent))
                expect_near(price.bytes_sent, sent * (double)bytes, 1e-9, &all[i], ranks);
            assert_int_equal(price.alpha_ps, (uint64_t)price.rounds * ALPHA);
            if (!isnan(rounds) && price.rounds > rounds + (waits_more_than_it_must(&all[i]) ? ranks : 0))
                fail_msg("%s among %u ranks: %u rounds, not %.0f", all[i].name, ranks, price.rounds, rounds);
        }
        hki_cluster_free(cluster);
    }
}

/* ---- few ranks stand for all ---- */

/* By how much the two may differ, and by how much more some do:
 *  - more ranks than cores: a rank in the middle does not tell who is not there when bytes come;
 *  - compositions among many ranks are priced as sums, while those who are done with one half begin the other;
 *  - a ring both ways meets itself at the ways of a rank, the same segments at other times at every rank;
 *  - pairs of neighbours on several hosts cross all hosts' ends at once by the few, at odds in time by all;
 *  - so do several messages side by side, which wait for ways that others keep busy;
 *  - vectors shorter than a line for every rank: where few stand for all, every share is taken to have one;
 *  - long pipelines of unlike ranks, round the circulant graph above all, are told from short ones, not yet full. */
static const double tolerance = 1.17, taking_turns = 1.36, composed = 1.25, both_ways = 2, in_pairs = 1.65,
                    circulant = 1.55, pipelines = 1.25, side_by_side = 1.25, short_of_lines = 1.6;

static double limit_of(const hki_cluster *cluster, const hki_algorithm *algorithm, const hki_call *call, uint64_t bytes)
{
    double limit = tolerance;
    if (cluster->hosts[0].ranks > cluster->hosts[0].capacity)
        limit = fmax(limit, taking_turns);
    if (bytes < UINT64_C(64) * call->ranks && algorithm->alike)
        limit = fmax(limit, short_of_lines);
    if (algorithm->parts[0].name)
        limit = fmax(limit, composed);
    if (strcmp(algorithm->name, "bidirectional_ring") == 0)
        limit = fmax(limit, both_ways);
    if (strcmp(algorithm->name, "neighbour_exchange") == 0 && cluster->host_count > 1)
        limit = fmax(limit, in_pairs);
    if (algorithm->abreast && cluster->host_count > 1)
        limit = fmax(limit, side_by_side);
    if (call->segments > 1 && !algorithm->alike)
        limit = fmax(limit, pipelines);
    if (strcmp(algorithm->name, "circulant") == 0 && call->segments > 1)
        limit = fmax(limit, circulant);
    return limit;
}

static hki_cluster *uneven(uint32_t hosts, uint32_t ranks, uint32_t last)
{
    hki_cluster *cluster = hki_cluster_new((hosts - 1) * ranks + last, hosts, 1, "a test");
    assert_non_null(cluster);
    cluster->switches[0].above = UINT32_MAX;
    for (uint32_t i = 0; i < hosts; i++)
        cluster->hosts[i] = (hki_cluster_host){.capacity = 4, .numas = 1, .nics = 1};
    for (uint32_t rank = 0; rank < cluster->rank_count; rank++)
        cluster->seats[rank] =
            (hki_seat){.host = rank / ranks, .core = (uint16_t)(rank % ranks), .reach = HKI_REACH_SHM | HKI_REACH_TCP};
    assert_int_equal(hki_cluster_settle(cluster), HK_OK);
    return cluster;
}

static void compare(const hki_cluster *cluster, const hki_algorithm *algorithm, const hki_call *call, uint64_t bytes)
{
    hki_price few = price_of(&hki_figures_built_in, cluster, algorithm, call, bytes, false);
    hki_price all = price_of(&hki_figures_built_in, cluster, algorithm, call, bytes, true);
    double ratio = (double)few.total_ps / (double)all.total_ps, limit = limit_of(cluster, algorithm, call, bytes);
    if (ratio > limit || ratio < 1 / limit)
        fail_msg("%s %s of %llu bytes among %u ranks on %u hosts in %u segments: %.2f µs by few, %.2f by all",
                 hki_collective_name(call->collective), algorithm->name, (unsigned long long)bytes, call->ranks,
                 cluster->host_count, call->segments, (double)few.total_ps / 1e6, (double)all.total_ps / 1e6);
}

/* All algorithms, in as many segments as a choice would consider. */
static void compare_all(hki_cluster *cluster, uint64_t bytes)
{
    size_t count;
    const hki_algorithm *all = hki_algorithms(&count);
    for (size_t i = 0; i < count; i++)
        for (uint32_t segments = 1; segments <= 16; segments *= 16) {
            hki_call call = call_of(all[i].collective, cluster->rank_count, segments);
            call.levels = cluster->levels;
            bool shares = all[i].alike != NULL;
            if (segments > 1 && (!all[i].segmented || bytes / segments / (shares ? call.ranks : 1) < 4096))
                continue;
            if (!hki_algorithm_refuses(&all[i], &call))
                compare(cluster, &all[i], &call, bytes);
        }
    hki_cluster_free(cluster);
}

static void few_ranks_tell_on_one_host(void **state)
{
    (void)state;
    for (uint32_t ranks = 2; ranks <= 64; ranks += 1 + ranks / 5)
        for (uint64_t bytes = 4096; bytes <= 4 << 20; bytes *= 1024) {
            compare_all(cluster_of(1, ranks, ranks), bytes);
            if (ranks == 9 || ranks > 50)
                compare_all(cluster_of(1, ranks, 2), bytes);
        }
}

static void few_ranks_tell_on_several_hosts(void **state)
{
    (void)state;
    for (uint64_t bytes = 64; bytes <= 4 << 20; bytes *= 256) {
        compare_all(cluster_of(2, 2, 2), bytes);
        compare_all(cluster_of(4, 3, 4), bytes);
        compare_all(cluster_of(8, 8, 8), bytes);
        compare_all(cluster_of(16, 2, 1), bytes);
        compare_all(cluster_of(20, 1, 1), bytes);
        compare_all(cluster_of(12, 4, 4), bytes);
        compare_all(uneven(2, 3, 2), bytes);
        compare_all(uneven(4, 8, 5), bytes);
        compare_all(uneven(5, 8, 1), bytes);
    }
}

/* How many steps are walked where so many do, and how far off they are at the most. */
typedef struct stand_in {
    hki_collective collective;
    const char *name;
    uint32_t fewer;  /* times */
    double off;      /* of a vector of as many lines as parts, or more */
    double off_less; /* of fewer */
} stand_in;

static void compare_stand_in(const hki_cluster *cluster, const stand_in *by, uint64_t bytes)
{
    const hki_algorithm *algorithm = hki_algorithm_find(by->collective, by->name);
    hki_call call = call_of(by->collective, cluster->rank_count, 1);
    call.levels = cluster->levels;
    hki_price few = price_of(&hki_figures_built_in, cluster, algorithm, &call, bytes, false);
    hki_price all = price_of(&hki_figures_built_in, cluster, algorithm, &call, bytes, true);
    expect_near(few.total_ps, (double)all.total_ps, bytes < 64 * call.ranks ? by->off_less : by->off, algorithm,
                call.ranks);
    if (few.effort * by->fewer != all.effort)
        fail_msg("%s: %u steps are walked of %u", by->name, few.effort, all.effort);
}

/* Where all ranks of equal hosts do alike one is walked, and one of each host where hosts do not: then shares of a line
 * more or less make ranks of a host fall out of step, which one of them does not show. */
static void one_rank_tells_of_equal_hosts(void **state)
{
    (void)state;
    static const stand_in even[] = {
        {HKI_COLL_ALLREDUCE, "recursive_doubling", 64, 0.001, 0.001},
        {HKI_COLL_ALLREDUCE, "recursive_multiplying", 64, 0.001, 0.001},
        {HKI_COLL_ALLREDUCE, "rabenseifner", 64, 0.001, 0.04},
        {HKI_COLL_ALLREDUCE, "knomial", 64, 0.001, 0.04},
        {HKI_COLL_ALLREDUCE, "hierarchical", 64, 0.001, 0.02},
        {HKI_COLL_ALLREDUCE, "hierarchical_ring", 64, 0.001, 0.02},
        {HKI_COLL_ALLREDUCE, "hierarchical_rabenseifner", 64, 0.001, 0.02},
        {HKI_COLL_ALLREDUCE, "multilevel", 64, 0.001, 0.06},
        {HKI_COLL_ALLTOALL, "pairwise", 64, 0.001, 0.001},
        {HKI_COLL_ALLTOALL, "linear", 64, 0.001, 0.001},
        {HKI_COLL_ALLTOALL, "hierarchical", 64, 0.001, 0.001},
    };
    static const stand_in uneven_number[] = {
        {HKI_COLL_ALLREDUCE, "hierarchical", 13, 0.19, 0.12},
        {HKI_COLL_ALLREDUCE, "hierarchical_rabenseifner", 13, 0.08, 0.08},
        {HKI_COLL_ALLREDUCE, "hierarchical_ring", 65, 0.011, 0.08},
    };
    hki_cluster *cluster = cluster_of(8, 8, 8), *other = cluster_of(5, 13, 13);
    for (uint64_t bytes = 64; bytes <= 4 << 20; bytes *= 16) {
        for (size_t i = 0; i < sizeof even / sizeof *even; i++)
            compare_stand_in(cluster, &even[i], bytes);
        for (size_t i = 0; i < sizeof uneven_number / sizeof *uneven_number; i++)
            compare_stand_in(other, &uneven_number[i], bytes);
    }
    hki_cluster_free(cluster);
    hki_cluster_free(other);
}

/* Vectors of fewer lines than ranks have shares without length, which do not crowd the memory. */
static void one_rank_tells_of_short_vectors(void **state)
{
    (void)state;
    static const stand_in all[] = {
        {HKI_COLL_ALLREDUCE, "rabenseifner", 64, 0.001, 0.12},
        {HKI_COLL_ALLREDUCE, "knomial", 64, 0.001, 0.12},
        {HKI_COLL_ALLREDUCE, "radix_bruck", 64, 0.001, 0.12},
    };
    hki_cluster *cluster = cluster_of(1, 64, 64);
    for (uint64_t bytes = 8; bytes <= 64 << 10; bytes *= 2)
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            compare_stand_in(cluster, &all[i], bytes);
    hki_cluster_free(cluster);
}

/* ---- what is shared ---- */

/* Two hosts of two ranks: an all-to-all sends two flows through each NIC at a time where a NIC carries one. */
static void flows_through_one_nic_share_it(void **state)
{
    (void)state;
    hki_figures figures = textbook(ALPHA, ALPHA, BETA, GAMMA);
    hki_cluster *wide = cluster_of(4, 1, 1), *narrow = cluster_of(2, 2, 2);
    const hki_algorithm *algorithm = hki_algorithm_find(HKI_COLL_ALLGATHER, "recursive_doubling");
    hki_call call = call_of(HKI_COLL_ALLGATHER, 4, 1);
    uint64_t bytes = 4 << 20;
    hki_price alone = price_of(&figures, wide, algorithm, &call, bytes, true);
    hki_price shared = price_of(&figures, narrow, algorithm, &call, bytes, true);
    assert_int_equal(alone.contention_ps, 0);
    /* the second round moves half of the result, at half of the rate */
    assert_int_equal(shared.contention_ps, (uint64_t)BETA * (bytes / 2 / 1024));
    assert_int_equal(shared.total_ps, alone.total_ps + shared.contention_ps);
    figures.nic_rate = 2 * UINT64_C(1024000000000000) / BETA; /* both fit */
    shared = price_of(&figures, narrow, algorithm, &call, bytes, true);
    assert_int_equal(shared.contention_ps, 0);
    narrow->hosts[0].nic_rate = narrow->hosts[1].nic_rate =
        UINT64_C(1024000000000000) / BETA; /* the host's own counts */
    shared = price_of(&figures, narrow, algorithm, &call, bytes, true);
    assert_int_equal(shared.contention_ps, (uint64_t)BETA * (bytes / 2 / 1024));
    hki_cluster_free(wide);
    hki_cluster_free(narrow);
}

/* More ranks than cores: everything that a core does takes longer, and every round costs turns. */
static void crowded_ranks_take_turns(void **state)
{
    (void)state;
    hki_figures figures = textbook(0, 0, 0, GAMMA);
    figures.switch_ps = 1000000;
    hki_cluster *free_cores = cluster_of(1, 8, 8), *crowded = cluster_of(1, 8, 2);
    const hki_algorithm *doubling = hki_algorithm_find(HKI_COLL_ALLREDUCE, "recursive_doubling");
    hki_call call = call_of(HKI_COLL_ALLREDUCE, 8, 1);
    hki_price alone = price_of(&figures, free_cores, doubling, &call, 1 << 20, true);
    hki_price shared = price_of(&figures, crowded, doubling, &call, 1 << 20, true);
    assert_int_equal(alone.alpha_ps, 0);
    assert_int_equal(shared.alpha_ps, 0);
    assert_int_equal(shared.gamma_ps, alone.gamma_ps);
    assert_int_equal(shared.turns_ps, (3 + 1) * (8 / 2) * figures.switch_ps / 2);
    assert_int_equal(shared.contention_ps, shared.turns_ps + 3 * alone.gamma_ps);
    hki_cluster_free(free_cores);
    hki_cluster_free(crowded);
}

/* Ranks whose cores move the bytes take twice as long for an exchange as for one way. */
static void cores_move_bytes_one_after_another(void **state)
{
    (void)state;
    hki_figures figures = textbook(ALPHA, ALPHA, BETA, 0);
    hki_cluster *pair = cluster_of(1, 2, 2);
    const hki_algorithm *both = hki_algorithm_find(HKI_COLL_ALLREDUCE, "recursive_doubling");
    const hki_algorithm *single = hki_algorithm_find(HKI_COLL_BROADCAST, "binomial");
    hki_call exchange = call_of(HKI_COLL_ALLREDUCE, 2, 1), way = call_of(HKI_COLL_BROADCAST, 2, 1);
    for (int link = 0; link < HKI_LINK_CLASSES; link++)
        figures.link[link].range[0].core_ps = BETA;
    hki_price there = price_of(&figures, pair, single, &way, 1 << 20, true);
    hki_price and_back = price_of(&figures, pair, both, &exchange, 1 << 20, true);
    assert_int_equal(there.beta_ps, (uint64_t)BETA * 1024);
    assert_int_equal(and_back.beta_ps, 2 * there.beta_ps);
    hki_cluster_free(pair);
}

/* A core that moves what comes reduces it meanwhile, unless it takes turns: then all has come when its turn comes. */
static void what_comes_is_reduced_as_it_is_moved(void **state)
{
    (void)state;
    hki_figures figures = textbook(ALPHA, ALPHA, BETA, GAMMA);
    hki_cluster *pair = cluster_of(1, 2, 2), *crowded = cluster_of(1, 2, 1);
    const hki_algorithm *single = hki_algorithm_find(HKI_COLL_REDUCE, "binomial");
    hki_call way = call_of(HKI_COLL_REDUCE, 2, 1);
    const uint64_t n = 1024; /* KiB */
    hki_price apart = price_of(&figures, pair, single, &way, n * 1024, true);
    assert_int_equal(apart.total_ps, ALPHA + n * BETA + n * GAMMA);
    for (int link = 0; link < HKI_LINK_CLASSES; link++)
        figures.link[link].range[0].core_ps = BETA / 2;
    hki_price hidden = price_of(&figures, pair, single, &way, n * 1024, true);
    assert_int_equal(hidden.total_ps, ALPHA + n * BETA);
    for (int link = 0; link < HKI_LINK_CLASSES; link++)
        figures.link[link].range[0].core_ps = BETA;
    hki_price behind = price_of(&figures, pair, single, &way, n * 1024, true);
    assert_int_equal(behind.total_ps, n * (BETA + GAMMA));
    hki_price in_turn = price_of(&figures, crowded, single, &way, n * 1024, true);
    assert_int_equal(in_turn.gamma_ps, n * GAMMA);
    assert_int_equal(in_turn.contention_ps, n * (BETA + GAMMA));
    hki_cluster_free(pair);
    hki_cluster_free(crowded);
}

/* What a call has to do with memory depends on its data, not on how many messages they are cut into. */
static void data_beyond_caches_take_longer(void **state)
{
    (void)state;
    hki_figures figures = textbook(0, 0, BETA, 0);
    hki_cluster *pair = cluster_of(1, 2, 2), *apart = cluster_of(2, 1, 1);
    const hki_algorithm *chain = hki_algorithm_find(HKI_COLL_BROADCAST, "chain");
    hki_call whole = call_of(HKI_COLL_BROADCAST, 2, 1), segments = call_of(HKI_COLL_BROADCAST, 2, 8);
    for (int link = 0; link < HKI_LINK_CLASSES; link++)
        figures.link[link].bulk = (hki_bulk_figures){.from = 4 << 20, .full = 16 << 20, .beta_ps = BETA};
    const uint64_t mib = (uint64_t)BETA * 1024; /* a MiB without bulk */
    assert_int_equal(price_of(&figures, pair, chain, &whole, 2 << 20, true).total_ps, 2 * mib);
    assert_int_equal(price_of(&figures, pair, chain, &whole, 5 << 20, true).total_ps, 5 * mib * 3 / 2);
    assert_int_equal(price_of(&figures, pair, chain, &whole, 16 << 20, true).total_ps, 2 * 16 * mib);
    assert_int_equal(price_of(&figures, pair, chain, &segments, 16 << 20, true).total_ps, 2 * 16 * mib);
    /* on hosts of their own each has a cache for itself */
    assert_int_equal(price_of(&figures, apart, chain, &whole, 4 << 20, true).total_ps, 4 * mib);
    hki_cluster_free(pair);
    hki_cluster_free(apart);
}

static void calls_with_counts_begin_later(void **state)
{
    (void)state;
    hki_figures figures = textbook(ALPHA, ALPHA, BETA, 0);
    hki_cluster *pair = cluster_of(1, 2, 2);
    figures.counts_ps = 300000;
    hki_call equal = call_of(HKI_COLL_ALLGATHER, 2, 1), counted = call_of(HKI_COLL_ALLGATHERV, 2, 1);
    for (int fully = 0; fully < 2; fully++) {
        hki_price without = price_of(&figures, pair, hki_algorithm_find(HKI_COLL_ALLGATHER, "ring"), &equal, 64, fully);
        hki_price with = price_of(&figures, pair, hki_algorithm_find(HKI_COLL_ALLGATHERV, "ring"), &counted, 64, fully);
        assert_int_equal(with.total_ps, without.total_ps + 300000);
    }
    hki_cluster_free(pair);
}

/* By members: what lies between them may be anything. */
static void assert_same_price(const hki_price *a, const hki_price *b)
{
    const uint64_t left[] = {a->total_ps, a->alpha_ps,   a->beta_ps,       a->gamma_ps, a->contention_ps,
                             a->rounds,   a->bytes_sent, a->messages_sent, a->effort,   a->floor_ps};
    const uint64_t right[] = {b->total_ps, b->alpha_ps,   b->beta_ps,       b->gamma_ps, b->contention_ps,
                              b->rounds,   b->bytes_sent, b->messages_sent, b->effort,   b->floor_ps};
    assert_memory_equal(left, right, sizeof left);
}

static void prices_do_not_depend_on_what_was_priced_before(void **state)
{
    (void)state;
    hki_cluster *cluster = cluster_of(3, 5, 2);
    hki_pricer *pricer = NULL;
    assert_int_equal(hki_pricer_new(cluster, &hki_figures_built_in, &pricer), HK_OK);
    const hki_algorithm *ring = hki_algorithm_find(HKI_COLL_ALLREDUCE, "ring");
    hki_call call = call_of(HKI_COLL_ALLREDUCE, 15, 1);
    for (int turn = 0; turn < 3; turn++)
        for (int bits = 0; bits < 62; bits += 6) {
            uint64_t bytes = UINT64_C(1) << bits;
            hki_price price;
            call.rank = turn == 1 ? 7 : 0;
            call.in_place = turn == 2 ? HKI_ALIGNED : HKI_SEPARATE;
            assert_int_equal(hki_pricer_price(pricer, ring, &call, HK_FLOAT32, HKI_OPS_ADD, bytes, &price), HK_OK);
            hki_price alone = price_of(&hki_figures_built_in, cluster, ring, &call, bytes, false);
            assert_same_price(&price, &alone);
        }
    call = call_of(HKI_COLL_ALLREDUCE, 15, 1);
    call.commutative = false;
    hki_price price;
    assert_int_equal(hki_pricer_price(pricer, ring, &call, HK_FLOAT32, HKI_OPS_ADD, 8, &price), HK_ERR_UNSUPPORTED);
    hki_pricer_free(pricer);
    hki_cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_forms_come_out),
        cmocka_unit_test(rings_among_very_many_ranks_keep_their_form),
        cmocka_unit_test(rounds_and_bytes_are_the_algorithms_own),
        cmocka_unit_test(few_ranks_tell_on_one_host),
        cmocka_unit_test(few_ranks_tell_on_several_hosts),
        cmocka_unit_test(one_rank_tells_of_equal_hosts),
        cmocka_unit_test(one_rank_tells_of_short_vectors),
        cmocka_unit_test(flows_through_one_nic_share_it),
        cmocka_unit_test(crowded_ranks_take_turns),
        cmocka_unit_test(cores_move_bytes_one_after_another),
        cmocka_unit_test(what_comes_is_reduced_as_it_is_moved),
        cmocka_unit_test(data_beyond_caches_take_longer),
        cmocka_unit_test(calls_with_counts_begin_later),
        cmocka_unit_test(prices_do_not_depend_on_what_was_priced_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

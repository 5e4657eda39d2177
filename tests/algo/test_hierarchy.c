/*
 * What hierarchical algorithms are for: how much crosses between hosts, in how many messages. Counted from the bound
 * schedules of all ranks, since every message says how long it is and to whom it goes.
 */
#include "algo/hierarchy.h"
#include "sched/bind.h"
#include "topo/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { HOSTS_MOST = 16, ELEMENTS = 720720 * 16, BYTES = 4 * ELEMENTS }; /* of the whole vector, or of all blocks */

/* What one host sends to others and gets from them. */
typedef struct traffic {
    uint64_t out, in, messages;
} traffic;

/* Hosts of so many ranks each, 0 at the end, and caches of two ranks in them; dealt: ranks go round the hosts. */
static hki_cluster *cluster_of(const uint32_t *sizes, bool dealt)
{
    uint32_t hosts = 0, ranks = 0, rank = 0;
    for (; sizes[hosts] > 0; hosts++)
        ranks += sizes[hosts];
    hki_cluster *cluster = hki_cluster_new(ranks, hosts, 1, "test");
    assert_non_null(cluster);
    cluster->switches[0].above = UINT32_MAX;
    for (uint32_t host = 0; host < hosts; host++)
        cluster->hosts[host] = (hki_cluster_host){.capacity = 1, .numas = 1, .nics = 1};
    for (uint32_t turn = 0; rank < ranks; turn++)
        for (uint32_t host = 0; host < hosts; host++)
            for (uint32_t member = dealt ? turn : 0; member < (dealt ? turn + 1 : sizes[host]); member++)
                if (member < sizes[host])
                    cluster->seats[rank++] = (hki_seat){.host = host, .l3 = (uint16_t)(member / 2)};
    assert_int_equal(hki_cluster_settle(cluster), HK_OK);
    return cluster;
}

static void add_messages(const hki_cluster *cluster, uint32_t rank, const hki_bound *program, traffic *crossing)
{
    uint32_t host = cluster->seats[rank].host;
    for (uint32_t i = 0; i < program->step_count; i++) {
        const hki_bound_step *step = &program->steps[i];
        if (step->verb != HKI_VERB_SEND || cluster->seats[step->peer].host == host)
            continue;
        crossing[host].out += step->bytes;
        crossing[host].messages++;
        crossing[cluster->seats[step->peer].host].in += step->bytes;
    }
}

static void count_traffic(hki_collective collective, const char *name, const hki_cluster *cluster, uint32_t root,
                          uint32_t segments, traffic *crossing)
{
    const hki_algorithm *algorithm = hki_algorithm_find(collective, name);
    assert_non_null(algorithm);
    bool blocks = collective != HKI_COLL_ALLREDUCE && collective != HKI_COLL_BROADCAST && collective != HKI_COLL_REDUCE;
    hki_sizes sizes = {.count = ELEMENTS / (blocks ? cluster->rank_count : 1), .element_bytes = 4};
    memset(crossing, 0, HOSTS_MOST * sizeof *crossing);
    for (uint32_t rank = 0; rank < cluster->rank_count; rank++) {
        hki_call call = {.collective = collective,
                         .ranks = cluster->rank_count,
                         .rank = rank,
                         .root = root,
                         .segments = segments,
                         .commutative = true,
                         .levels = cluster->levels};
        hki_schedule *schedule;
        hki_bound *program;
        assert_int_equal(hki_algorithm_schedule(algorithm, &call, &schedule), HK_OK);
        assert_int_equal(hki_bind(schedule, &sizes, &program), HK_OK);
        add_messages(cluster, rank, program, crossing);
        hki_bound_free(program);
        hki_schedule_free(schedule);
    }
}

static const uint32_t pairs[] = {2, 2, 0}, fours[] = {4, 4, 0}, three_and_two[] = {3, 2, 0}, five_and_one[] = {5, 1, 0},
                      four_hosts[] = {3, 3, 3, 3, 0}, ten_hosts[] = {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 0};

static void an_allreduce_of_two_hosts_carries_the_vector_once_each_way(void **state)
{
    (void)state;
    static const char *const names[] = {"hierarchical", "hierarchical_ring", "hierarchical_rabenseifner", "multilevel",
                                        "leader"};
    static const uint32_t *const shapes[] = {pairs, fours, three_and_two, five_and_one};
    traffic crossing[HOSTS_MOST];
    for (size_t shape = 0; shape < 4; shape++)
        for (int dealt = 0; dealt < 2; dealt++) {
            hki_cluster *cluster = cluster_of(shapes[shape], dealt);
            for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                for (uint32_t segments = 1; segments <= 4; segments *= 4) {
                    count_traffic(HKI_COLL_ALLREDUCE, names[i], cluster, 0, segments, crossing);
                    assert_int_equal(crossing[0].out, BYTES);
                    assert_int_equal(crossing[1].out, BYTES);
                }
            hki_cluster_free(cluster);
        }
    hki_cluster *cluster = cluster_of(fours, true); /* what it is for: a ring over ranks that are dealt */
    count_traffic(HKI_COLL_ALLREDUCE, "ring", cluster, 0, 1, crossing);
    assert_int_equal(crossing[0].out, 7 * BYTES);
    hki_cluster_free(cluster);
}

static void an_allreduce_of_many_hosts_carries_less_than_twice_the_vector(void **state)
{
    (void)state;
    static const char *const names[] = {"hierarchical_ring", "multilevel", "hierarchical_rabenseifner"};
    traffic crossing[HOSTS_MOST];
    for (size_t i = 0; i < 3; i++) {
        const bool halves = i == 2; /* whose number of hosts is a power of two here */
        hki_cluster *cluster = cluster_of(halves ? four_hosts : ten_hosts, false);
        uint32_t hosts = cluster->host_count;
        count_traffic(HKI_COLL_ALLREDUCE, names[i], cluster, 0, 1, crossing);
        for (uint32_t host = 0; host < hosts; host++)
            assert_in_range(crossing[host].out, UINT64_C(2) * (hosts - 1) * BYTES / hosts - 65536,
                            UINT64_C(2) * (hosts - 1) * BYTES / hosts + 65536); /* but for cuts on cache lines */
        hki_cluster_free(cluster);
    }
}

static void a_broadcast_and_a_reduction_cross_to_each_host_once(void **state)
{
    (void)state;
    static const uint32_t *const shapes[] = {three_and_two, four_hosts, ten_hosts};
    traffic crossing[HOSTS_MOST];
    for (size_t shape = 0; shape < 3; shape++) {
        hki_cluster *cluster = cluster_of(shapes[shape], shape == 1);
        uint32_t root = cluster->rank_count - 2, home = cluster->seats[root].host;
        for (int lanes = 0; lanes < 2; lanes++) {
            count_traffic(HKI_COLL_BROADCAST, lanes ? "lanes" : "hierarchical", cluster, root, 4, crossing);
            for (uint32_t host = 0; host < cluster->host_count; host++)
                assert_int_equal(crossing[host].in, host == home ? 0 : BYTES);
        }
        count_traffic(HKI_COLL_REDUCE, "hierarchical", cluster, root, 4, crossing);
        for (uint32_t host = 0; host < cluster->host_count; host++)
            assert_int_equal(crossing[host].out, host == home ? 0 : BYTES);
        hki_cluster_free(cluster);
    }
}

static void shares_cross_to_and_from_each_host_once(void **state)
{
    (void)state;
    static const uint32_t *const shapes[] = {three_and_two, five_and_one, four_hosts, ten_hosts};
    traffic crossing[HOSTS_MOST];
    for (size_t shape = 0; shape < 4; shape++) {
        hki_cluster *cluster = cluster_of(shapes[shape], shape % 2);
        uint64_t share = 4 * (ELEMENTS / cluster->rank_count);
        count_traffic(HKI_COLL_ALLGATHER, "hierarchical", cluster, 0, 1, crossing);
        for (uint32_t host = 0; host < cluster->host_count; host++)
            assert_int_equal(crossing[host].in, share * (cluster->rank_count - cluster->hosts[host].ranks));
        count_traffic(HKI_COLL_REDUCE_SCATTER, "hierarchical", cluster, 0, 1, crossing);
        for (uint32_t host = 0; host < cluster->host_count; host++)
            assert_true(crossing[host].out <= share * cluster->rank_count);
        hki_cluster_free(cluster);
    }
}

/* Blocks cross as often as they must, but in one message from each rank to each other host. */
static void an_all_to_all_sends_few_messages(void **state)
{
    (void)state;
    traffic flat[HOSTS_MOST], crossing[HOSTS_MOST];
    hki_cluster *cluster = cluster_of(ten_hosts, false);
    count_traffic(HKI_COLL_ALLTOALL, "pairwise", cluster, 0, 1, flat);
    count_traffic(HKI_COLL_ALLTOALL, "hierarchical", cluster, 0, 1, crossing);
    for (uint32_t host = 0; host < 10; host++) {
        assert_int_equal(flat[host].messages, 4 * 36);
        assert_int_equal(crossing[host].messages, 4 * 9);
        assert_int_equal(crossing[host].out, flat[host].out);
    }
    hki_cluster_free(cluster);
}

static void leaders_alone_talk_for_their_hosts(void **state)
{
    (void)state;
    traffic crossing[HOSTS_MOST];
    hki_cluster *cluster = cluster_of(ten_hosts, true);
    count_traffic(HKI_COLL_BARRIER, "hierarchical", cluster, 0, 1, crossing);
    for (uint32_t host = 0; host < 10; host++)
        assert_int_equal(crossing[host].messages, 5); /* to those 1, 2, 3, 4 and 8 ahead */
    hki_cluster_free(cluster);
    cluster = cluster_of(ten_hosts, false);
    count_traffic(HKI_COLL_GATHER, "hierarchical", cluster, 5, 1, crossing);
    for (uint32_t host = 0; host < 10; host++)
        assert_int_equal(crossing[host].messages, host != 1);
    count_traffic(HKI_COLL_SCATTER, "hierarchical", cluster, 5, 1, crossing);
    assert_int_equal(crossing[1].messages, 9);
    hki_cluster_free(cluster);
}

static void assert_spans(const uint32_t *list, uint32_t count, uint32_t spans)
{
    const hki_region region = {.buffer = HKI_OUTPUT, .of = HKI_OUTPUT, .shares = 100, .blocks_per_share = 1};
    hki_span span;
    uint32_t at = 0, before = 0, found = 0;
    while (hki_next_shares(&region, list, count, &at, &span)) {
        assert_int_equal(span.blocks.count, at - before);
        for (uint32_t i = 0; i < span.blocks.count; i++)
            assert_int_equal(hki_range_index(&span.blocks, i), list[before + i]);
        before = at;
        found++;
    }
    assert_int_equal(at, count);
    assert_int_equal(found, spans);
}
#define SPANS(spans, ...)                                                                                              \
    assert_spans((const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), spans)

static void regular_sets_of_shares_are_one_span(void **state)
{
    (void)state;
    SPANS(1, 7);
    SPANS(1, 3, 4, 5);
    SPANS(1, 2, 6, 10, 14);
    SPANS(1, 0, 1, 10, 11, 20, 21);
    SPANS(1, 0, 1, 10, 11, 20);
    SPANS(2, 0, 1, 10, 11, 22);
    SPANS(2, 5, 6, 1, 2);
    SPANS(3, 1, 4, 2, 9, 3);
}

/* Every share is in exactly one portfolio of a party, whatever the shape. */
static void portfolios_divide_all_shares(void **state)
{
    (void)state;
    static const uint32_t *const shapes[] = {pairs, three_and_two, five_and_one, ten_hosts};
    for (size_t shape = 0; shape < 4; shape++) {
        hki_cluster *cluster = cluster_of(shapes[shape], false);
        hki_call call = {.ranks = cluster->rank_count, .levels = cluster->levels};
        uint32_t list[64];
        for (uint32_t tier = 0; tier <= hki_top(&call); tier++)
            for (uint32_t place = 0; place < call.ranks;) {
                hki_party party = hki_party_of(&call, tier, place);
                uint32_t seen[64] = {0}, count = 0;
                for (uint32_t i = 0; i < party.size; i++)
                    count = hki_portfolio(&call, tier, party.first + i, list, count);
                assert_int_equal(count, call.ranks);
                for (uint32_t i = 0; i < count; i++)
                    assert_int_equal(seen[list[i]]++, 0);
                place = party.first + party.size;
            }
        hki_cluster_free(cluster);
    }
}

/* Leaders have log2 of each level's groups to talk to, and the rest costs nothing. */
static void one_rank_of_65536_costs_only_its_steps(void **state)
{
    (void)state;
    static const struct {
        hki_collective collective;
        const char *name;
    } small[] = {{HKI_COLL_BARRIER, "hierarchical"},   {HKI_COLL_BROADCAST, "hierarchical"},
                 {HKI_COLL_REDUCE, "hierarchical"},    {HKI_COLL_ALLREDUCE, "leader"},
                 {HKI_COLL_ALLREDUCE, "hierarchical"}, {HKI_COLL_BROADCAST, "lanes"}};
    hki_cluster *cluster;
    assert_int_equal(hki_cluster_uniform(8192, 8, 8, &cluster), HK_OK);
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        for (uint32_t rank = 0; rank < 65536; rank += 43691) {
            const hki_algorithm *algorithm = hki_algorithm_find(small[i].collective, small[i].name);
            hki_call call = {.collective = small[i].collective,
                             .ranks = 65536,
                             .rank = rank,
                             .segments = 1,
                             .commutative = true,
                             .levels = cluster->levels};
            hki_schedule *schedule;
            assert_int_equal(hki_algorithm_schedule(algorithm, &call, &schedule), HK_OK);
            assert_in_range(schedule->step_count, 1, 100);
            assert_in_range(schedule->bytes, 1, 64 << 10);
            hki_schedule_free(schedule);
        }
    hki_cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allreduce_of_two_hosts_carries_the_vector_once_each_way),
        cmocka_unit_test(an_allreduce_of_many_hosts_carries_less_than_twice_the_vector),
        cmocka_unit_test(a_broadcast_and_a_reduction_cross_to_each_host_once),
        cmocka_unit_test(shares_cross_to_and_from_each_host_once),
        cmocka_unit_test(an_all_to_all_sends_few_messages),
        cmocka_unit_test(leaders_alone_talk_for_their_hosts),
        cmocka_unit_test(regular_sets_of_shares_are_one_span),
        cmocka_unit_test(portfolios_divide_all_shares),
        cmocka_unit_test(one_rank_of_65536_costs_only_its_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

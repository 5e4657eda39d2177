/* What ports report: by which link ranks talk, and at which price. */
#include "cost/reported.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { ALL = HKI_REACH_SHM | HKI_REACH_TCP | HKI_REACH_VERBS };
/* ps per KiB of 100 Gbit/s, and of 1. */
enum { FAST = 82 * 1024, SLOW = 8192 * 1024 };

static const hki_ports fast_ports = {.verbs = {1500, FAST}}, slow_ports = {.verbs = {1500, SLOW}};

/* So many hosts with a rank each, whose ports have said nothing. */
static hki_cluster *hosts(uint32_t count)
{
    hki_cluster *cluster;
    assert_int_equal(hki_cluster_uniform(count, 1, 1, &cluster), HK_OK);
    assert_true(hki_cluster_add_ports(cluster));
    for (uint32_t rank = 0; rank < count; rank++)
        cluster->seats[rank].reach = ALL;
    return cluster;
}

static hki_link_class link_of(const hki_cluster *cluster, uint32_t left, uint32_t right)
{
    hki_link_class link = hki_cluster_link(cluster, left, right);
    assert_int_equal(hki_cluster_link(cluster, right, left), link);
    return link;
}

static void a_slow_port_loses_and_a_fast_one_wins(void **state)
{
    (void)state;
    hki_cluster *cluster = hosts(4);
    cluster->ports[0] = cluster->ports[1] = fast_ports;
    cluster->ports[2] = slow_ports;
    hki_reported_costs(cluster, &hki_figures_built_in, true);
    assert_int_equal(link_of(cluster, 0, 1), HKI_LINK_VERBS);
    assert_int_equal(link_of(cluster, 0, 2), HKI_LINK_TCP); /* one slow end is enough */
    assert_int_equal(link_of(cluster, 1, 2), HKI_LINK_TCP);
    assert_int_equal(link_of(cluster, 0, 3), HKI_LINK_VERBS); /* rank 3's says nothing: as is built in */
    cluster->ports[0].tcp.beta_ps = cluster->ports[2].tcp.beta_ps = 8 * SLOW;
    assert_int_equal(link_of(cluster, 0, 2), HKI_LINK_VERBS); /* tcp is slower still */
    cluster->ports[0].verbs.alpha_ns = cluster->ports[1].verbs.alpha_ns = 200000;
    assert_int_equal(link_of(cluster, 0, 1), HKI_LINK_TCP); /* latency counts, too */
    hki_cluster_free(cluster);
}

static void ways_come_best_first_with_what_they_take(void **state)
{
    (void)state;
    hki_cluster *cluster = hosts(2);
    hki_link_way ways[HKI_LINK_WAYS];
    cluster->ports[0].verbs = (hki_port_cost){1000, 100};
    cluster->ports[1].verbs = (hki_port_cost){3000, 300};
    cluster->ports[0].tcp.alpha_ns = cluster->ports[1].tcp.alpha_ns = 10; /* below what a network's can be */
    assert_int_equal(hki_cluster_ways(cluster, 0, 1, ways), 2);
    assert_int_equal(ways[0].link, HKI_LINK_VERBS);
    assert_int_equal(ways[0].ps, 0);
    hki_reported_costs(cluster, &hki_figures_built_in, true);
    assert_int_equal(hki_cluster_ways(cluster, 0, 1, ways), 2);
    assert_int_equal(ways[0].link, HKI_LINK_VERBS);
    assert_int_equal(ways[0].ps, 2000000 + HKI_LINK_BYTES / 1024 * 300);
    const hki_range_figures *tcp = hki_figures_range(&hki_figures_built_in.link[HKI_LINK_TCP], HKI_LINK_BYTES);
    assert_int_equal(ways[1].link, HKI_LINK_TCP);
    assert_int_equal(ways[1].ps, tcp->alpha_ps + HKI_LINK_BYTES / 1024 * tcp->beta_ps);
    hki_cluster_free(cluster);
}

static void shared_memory_wins_unless_it_is_slow(void **state)
{
    (void)state;
    hki_figures figures = hki_figures_built_in;
    hki_cluster *cluster;
    assert_int_equal(hki_cluster_uniform(1, 2, 2, &cluster), HK_OK);
    assert_true(hki_cluster_add_ports(cluster));
    for (uint32_t rank = 0; rank < 2; rank++) {
        cluster->seats[rank].reach = ALL;
        cluster->ports[rank] = fast_ports;
    }
    hki_reported_costs(cluster, &figures, true);
    assert_int_equal(link_of(cluster, 0, 1), HKI_LINK_L3);
    cluster->ports[0].verbs = cluster->ports[1].verbs = (hki_port_cost){100, 1}; /* against what is built in */
    assert_int_equal(link_of(cluster, 0, 1), HKI_LINK_L3);
    cluster->ports[0] = cluster->ports[1] = fast_ports;
    figures.link[HKI_LINK_L3] =
        (hki_link_figures){.ranges = 1, .range = {{.upto = UINT64_MAX, .alpha_ps = 50000000}}, .origin = HKI_TUNED};
    hki_reported_costs(cluster, &figures, true);
    assert_int_equal(link_of(cluster, 0, 1), HKI_LINK_VERBS);
    cluster->ports[0] = slow_ports;
    assert_int_equal(link_of(cluster, 0, 1), HKI_LINK_L3); /* what is built in for tcp says nothing of this machine */
    figures.link[HKI_LINK_LOOPBACK].origin = HKI_TUNED;
    hki_reported_costs(cluster, &figures, true);
    assert_int_equal(link_of(cluster, 0, 1), HKI_LINK_LOOPBACK);
    hki_reported_costs(cluster, &figures, false);
    assert_int_equal(link_of(cluster, 0, 1), HKI_LINK_L3); /* the user has said in which order */
    hki_cluster_free(cluster);
}

static void what_is_tuned_comes_before_what_ports_say(void **state)
{
    (void)state;
    hki_figures figures = hki_figures_built_in, before;
    hki_cluster *cluster = hosts(2);
    cluster->ports[0] = cluster->ports[1] = slow_ports;
    figures.link[HKI_LINK_VERBS].origin = HKI_TUNED;
    before = figures;
    hki_reported_costs(cluster, &figures, true);
    hki_reported_apply(cluster, &figures);
    assert_int_equal(link_of(cluster, 0, 1), HKI_LINK_VERBS);
    assert_memory_equal(&figures, &before, sizeof figures);
    hki_cluster_free(cluster);
}

static void the_slowest_port_sets_the_price_of_its_kind(void **state)
{
    (void)state;
    hki_figures figures = hki_figures_built_in;
    hki_cluster *cluster = hosts(3);
    cluster->ports[0].verbs = (hki_port_cost){1000, FAST};
    cluster->ports[1].verbs = (hki_port_cost){4000, FAST / 2};
    cluster->ports[2].verbs = (hki_port_cost){0, 2 * FAST};
    hki_reported_apply(cluster, &figures);
    const hki_link_figures *verbs = &figures.link[HKI_LINK_VERBS],
                           *built_in = &hki_figures_built_in.link[HKI_LINK_VERBS];
    assert_int_equal(verbs->origin, HKI_REPORTED);
    assert_int_equal(verbs->ranges, built_in->ranges);
    assert_int_equal(verbs->range[0].alpha_ps, 4000000);
    assert_int_equal(verbs->range[0].overhead_ps, built_in->range[0].overhead_ps * 2);
    assert_int_equal(verbs->range[verbs->ranges - 1].beta_ps, 2 * FAST);
    assert_true(verbs->range[0].beta_ps > 2 * FAST); /* small messages are no better by the byte than they were */
    assert_int_equal(figures.link[HKI_LINK_TCP].origin, HKI_BUILT_IN);
    hki_cluster_free(cluster);
}

static void the_stack_of_a_host_says_of_a_network_that_it_is_no_faster(void **state)
{
    (void)state;
    hki_figures figures = hki_figures_built_in;
    hki_cluster *cluster = hosts(2);
    cluster->ports[0].tcp = cluster->ports[1].tcp = (hki_port_cost){.alpha_ns = 5000};
    hki_reported_apply(cluster, &figures);
    assert_int_equal(figures.link[HKI_LINK_TCP].origin, HKI_BUILT_IN);
    cluster->ports[1].tcp.alpha_ns = 500000;
    hki_reported_apply(cluster, &figures);
    assert_int_equal(figures.link[HKI_LINK_TCP].origin, HKI_REPORTED);
    assert_int_equal(figures.link[HKI_LINK_TCP].range[0].alpha_ps, 500000000);
    hki_cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_port_loses_and_a_fast_one_wins),
        cmocka_unit_test(ways_come_best_first_with_what_they_take),
        cmocka_unit_test(shared_memory_wins_unless_it_is_slow),
        cmocka_unit_test(what_is_tuned_comes_before_what_ports_say),
        cmocka_unit_test(the_slowest_port_sets_the_price_of_its_kind),
        cmocka_unit_test(the_stack_of_a_host_says_of_a_network_that_it_is_no_faster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

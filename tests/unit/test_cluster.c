/* Clusters: where ranks are, by what they are linked, and what their messages share on the way. */
#include "topo/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { NONE = HKI_TOPOLOGY_NO_CACHE, BOTH = HKI_REACH_SHM | HKI_REACH_TCP };

static void link_classes_have_names(void **state)
{
    (void)state;
    for (int link = 0; link < HKI_LINK_CLASSES; link++) {
        assert_int_equal(hki_link_class_find(hki_link_class_name((hki_link_class)link)), link);
        assert_true(strlen(hki_link_class_text((hki_link_class)link)) > 3);
    }
    assert_string_equal(hki_link_class_name(HKI_LINK_L3), "l3");
    assert_int_equal(hki_link_class_find("carrier pigeon"), -1);
    assert_string_equal(hki_link_class_name(HKI_LINK_CLASSES), "?");
}

static void uniform_clusters_have_equal_hosts(void **state)
{
    (void)state;
    hki_cluster *cluster;
    assert_int_equal(hki_cluster_uniform(3, 4, 2, &cluster), HK_OK);
    assert_int_equal(cluster->rank_count, 12);
    assert_int_equal(cluster->numa_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(cluster->hosts[i].ranks, 4);
        assert_int_equal(cluster->hosts[i].capacity, 2);
        assert_int_equal(cluster->hosts[i].numa_first, i);
    }
    assert_int_equal(cluster->seats[7].host, 1);
    assert_int_equal(hki_cluster_link(cluster, 0, 1), HKI_LINK_L3);
    assert_int_equal(hki_cluster_link(cluster, 0, 2), HKI_LINK_CORE); /* more ranks than cores */
    assert_int_equal(hki_cluster_link(cluster, 3, 4), HKI_LINK_TCP);
    hki_cluster_free(cluster);
}

static void uniform_clusters_have_limits(void **state)
{
    (void)state;
    hki_cluster *cluster;
    assert_int_equal(hki_cluster_uniform(0, 4, 2, &cluster), HK_ERR_ARGUMENT);
    assert_int_equal(hki_cluster_uniform(4, 0, 2, &cluster), HK_ERR_ARGUMENT);
    assert_int_equal(hki_cluster_uniform(4, 4, 0, &cluster), HK_ERR_ARGUMENT);
    assert_int_equal(hki_cluster_uniform(1 << 20, 32, 2, &cluster), HK_ERR_ARGUMENT);
    assert_int_equal(hki_cluster_uniform(UINT32_MAX, UINT32_MAX, 2, &cluster), HK_ERR_ARGUMENT);
}

/* Two ranks on one host with these seats. */
static hki_link_class link_of(hki_seat left, hki_seat right)
{
    hki_cluster *cluster = hki_cluster_new(2, 1, 1, "two ranks");
    assert_non_null(cluster);
    cluster->switches[0].above = UINT32_MAX;
    cluster->hosts[0] = (hki_cluster_host){.capacity = 1, .numas = 4, .nics = 1};
    cluster->seats[0] = left;
    cluster->seats[1] = right;
    assert_int_equal(hki_cluster_settle(cluster), HK_OK);
    hki_link_class link = hki_cluster_link(cluster, 0, 1);
    assert_int_equal(hki_cluster_link(cluster, 1, 0), link);
    hki_cluster_free(cluster);
    return link;
}

static void links_are_the_nearest_thing_shared(void **state)
{
    (void)state;
    const hki_seat seat = {.reach = BOTH};
    hki_seat other = seat;
    assert_int_equal(link_of(seat, other), HKI_LINK_CORE);
    other.core = 1;
    assert_int_equal(link_of(seat, other), HKI_LINK_L2);
    other.l2 = 1;
    assert_int_equal(link_of(seat, other), HKI_LINK_L3);
    other.l3 = 1;
    assert_int_equal(link_of(seat, other), HKI_LINK_NUMA);
    other.numa = 1;
    assert_int_equal(link_of(seat, other), HKI_LINK_PACKAGE);
    other.package = 1;
    assert_int_equal(link_of(seat, other), HKI_LINK_HOST);
}

static void ranks_that_are_not_bound_share_only_what_they_are_bound_to(void **state)
{
    (void)state;
    const hki_seat loose = {.package = 0, .numa = 0, .l3 = NONE, .l2 = NONE, .core = NONE, .reach = BOTH};
    const hki_seat nowhere = {0, NONE, NONE, NONE, NONE, NONE, BOTH};
    assert_int_equal(link_of(loose, loose), HKI_LINK_NUMA);
    assert_int_equal(link_of(nowhere, nowhere), HKI_LINK_HOST);
    assert_int_equal(link_of(nowhere, loose), HKI_LINK_HOST);
}

static void links_are_what_both_ends_have(void **state)
{
    (void)state;
    hki_seat seat = {.reach = HKI_REACH_TCP}, other = {.reach = BOTH};
    assert_int_equal(link_of(seat, other), HKI_LINK_LOOPBACK);
    seat.reach = other.reach = HKI_REACH_VERBS;
    assert_int_equal(link_of(seat, other), HKI_LINK_VERBS);
    seat.reach = other.reach = HKI_REACH_VERBS | HKI_REACH_TCP;
    assert_int_equal(link_of(seat, other), HKI_LINK_VERBS);

    hki_cluster *cluster;
    assert_int_equal(hki_cluster_uniform(2, 1, 1, &cluster), HK_OK);
    cluster->seats[0].reach |= HKI_REACH_VERBS;
    assert_int_equal(hki_cluster_link(cluster, 0, 1), HKI_LINK_TCP);
    cluster->seats[1].reach |= HKI_REACH_VERBS;
    assert_int_equal(hki_cluster_link(cluster, 0, 1), HKI_LINK_VERBS);
    hki_cluster_free(cluster);
}

/* Hosts 0 and 1 below switch 0, host 2 below switch 1, host 3 at the root, switch 2, host 4 in a tree of its own,
 * switch 3. Two NUMA nodes and two ranks each. */
static hki_cluster *two_racks(void)
{
    static const uint32_t plugged[] = {0, 0, 1, 2, 3};
    hki_cluster *cluster = hki_cluster_new(10, 5, 4, "two racks");
    assert_non_null(cluster);
    for (uint32_t i = 0; i < 4; i++)
        cluster->switches[i] =
            (hki_cluster_switch){.above = i < 2 ? 2 : UINT32_MAX, .uplink_rate = 100 + i, .hop_ps = 1u << i};
    for (uint32_t i = 0; i < 5; i++)
        cluster->hosts[i] =
            (hki_cluster_host){.capacity = 2, .numas = 2, .nics = 1, .above = plugged[i], .nic_rate = 1000 + i};
    for (uint32_t rank = 0; rank < 10; rank++)
        cluster->seats[rank] = (hki_seat){.host = rank / 2, .numa = (uint16_t)(rank % 2), .reach = BOTH};
    assert_int_equal(hki_cluster_settle(cluster), HK_OK);
    assert_int_equal(hki_cluster_resources(cluster), 10 + 2 * 5 + 2 * 4);
    return cluster;
}

typedef struct passed {
    hki_resource_kind kind;
    uint32_t index;
    uint64_t rate;
} passed;

static void assert_route(const hki_cluster *cluster, uint32_t from, uint32_t to, uint64_t hops, const passed *way,
                         uint32_t count)
{
    uint32_t resources[HKI_ROUTE_MOST];
    uint64_t hops_ps = 99;
    assert_int_equal(hki_cluster_route(cluster, from, to, resources, &hops_ps), count);
    assert_int_equal(hops_ps, hops);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(resources[i] < hki_cluster_resources(cluster));
        hki_resource found = hki_cluster_resource(cluster, resources[i]);
        assert_int_equal(found.kind, way[i].kind);
        assert_int_equal(found.index, way[i].index);
        assert_int_equal(found.rate, way[i].rate);
    }
}
#define ROUTE(cluster, from, to, hops, ...)                                                                            \
    assert_route(cluster, from, to, hops, (const passed[]){__VA_ARGS__},                                               \
                 sizeof((const passed[]){__VA_ARGS__}) / sizeof(passed))

static void routes_pass_what_lies_between(void **state)
{
    (void)state;
    hki_cluster *cluster = two_racks();
    ROUTE(cluster, 2, 2, 0, {HKI_RESOURCE_MEMORY, 2, 0});
    ROUTE(cluster, 2, 3, 0, {HKI_RESOURCE_MEMORY, 2, 0}, {HKI_RESOURCE_MEMORY, 3, 0});
    ROUTE(cluster, 0, 2, 1, {HKI_RESOURCE_NIC_OUT, 0, 1000}, {HKI_RESOURCE_NIC_IN, 1, 1001});
    ROUTE(cluster, 2, 5, 1 + 2 + 4, {HKI_RESOURCE_NIC_OUT, 1, 1001}, {HKI_RESOURCE_UPLINK, 0, 100},
          {HKI_RESOURCE_DOWNLINK, 1, 101}, {HKI_RESOURCE_NIC_IN, 2, 1002});
    ROUTE(cluster, 6, 4, 2 + 4, {HKI_RESOURCE_NIC_OUT, 3, 1003}, {HKI_RESOURCE_DOWNLINK, 1, 101},
          {HKI_RESOURCE_NIC_IN, 2, 1002});
    ROUTE(cluster, 4, 6, 2 + 4, {HKI_RESOURCE_NIC_OUT, 2, 1002}, {HKI_RESOURCE_UPLINK, 1, 101},
          {HKI_RESOURCE_NIC_IN, 3, 1003});
    hki_cluster_free(cluster);
}

static void trees_hang_together_above_their_roots(void **state)
{
    (void)state;
    hki_cluster *cluster = two_racks();
    ROUTE(cluster, 0, 9, 1 + 4 + 8, {HKI_RESOURCE_NIC_OUT, 0, 1000}, {HKI_RESOURCE_UPLINK, 0, 100},
          {HKI_RESOURCE_NIC_IN, 4, 1004});
    ROUTE(cluster, 9, 0, 1 + 4 + 8, {HKI_RESOURCE_NIC_OUT, 4, 1004}, {HKI_RESOURCE_DOWNLINK, 0, 100},
          {HKI_RESOURCE_NIC_IN, 0, 1000});
    hki_cluster_free(cluster);
}

static void a_rank_that_is_not_bound_uses_some_memory(void **state)
{
    (void)state;
    hki_cluster *cluster = two_racks();
    for (uint32_t rank = 0; rank < 10; rank++)
        cluster->seats[rank].numa = NONE;
    ROUTE(cluster, 4, 5, 0, {HKI_RESOURCE_MEMORY, 4, 0}, {HKI_RESOURCE_MEMORY, 5, 0});
    hki_cluster_free(cluster);
}

static void settling_finds_what_is_wrong(void **state)
{
    (void)state;
    hki_cluster *cluster = two_racks();
    cluster->switches[2].above = 0;
    assert_int_equal(hki_cluster_settle(cluster), HK_ERR_ARGUMENT);
    assert_non_null(strstr(hk_last_error(), "switch 0 hangs below itself"));
    cluster->switches[2].above = 7;
    assert_int_equal(hki_cluster_settle(cluster), HK_ERR_ARGUMENT);
    cluster->switches[2].above = UINT32_MAX;
    cluster->hosts[4].above = 4;
    assert_int_equal(hki_cluster_settle(cluster), HK_ERR_ARGUMENT);
    assert_non_null(strstr(hk_last_error(), "host 4 is plugged into switch 4"));
    cluster->hosts[4].above = 3;
    cluster->seats[3].host = 5;
    assert_int_equal(hki_cluster_settle(cluster), HK_ERR_ARGUMENT);
    cluster->seats[3].host = 1;
    cluster->seats[3].numa = 2;
    assert_int_equal(hki_cluster_settle(cluster), HK_ERR_ARGUMENT);
    cluster->seats[3].numa = 1;
    cluster->seats[8].host = cluster->seats[9].host = 0;
    assert_int_equal(hki_cluster_settle(cluster), HK_ERR_ARGUMENT);
    assert_string_equal(hk_last_error(), "host 4 has no ranks");
    cluster->seats[8].host = cluster->seats[9].host = 4;
    cluster->hosts[0].capacity = 0;
    assert_int_equal(hki_cluster_settle(cluster), HK_ERR_ARGUMENT);
    cluster->hosts[0].capacity = 1;
    assert_int_equal(hki_cluster_settle(cluster), HK_OK);
    hki_cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(link_classes_have_names),
        cmocka_unit_test(uniform_clusters_have_equal_hosts),
        cmocka_unit_test(uniform_clusters_have_limits),
        cmocka_unit_test(links_are_the_nearest_thing_shared),
        cmocka_unit_test(ranks_that_are_not_bound_share_only_what_they_are_bound_to),
        cmocka_unit_test(links_are_what_both_ends_have),
        cmocka_unit_test(routes_pass_what_lies_between),
        cmocka_unit_test(trees_hang_together_above_their_roots),
        cmocka_unit_test(a_rank_that_is_not_bound_uses_some_memory),
        cmocka_unit_test(settling_finds_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

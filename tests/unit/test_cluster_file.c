/* Clusters read from files. */
#include "topo/cluster_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Quotes are written as apostrophes. */
static hk_status parse(const char *text, const char *folder, hki_cluster **cluster)
{
    char json[2048];
    snprintf(json, sizeof json, "%s", text);
    for (char *at = json; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    hk_status status = hki_cluster_parse(json, strlen(json), "file", folder, cluster);
    if (status == HK_ERR_UNSUPPORTED)
        skip(); /* no jansson, or no hwloc, here */
    return status;
}

static hki_cluster *cluster_of(const char *text)
{
    hki_cluster *cluster = NULL;
    hk_status status = parse(text, ".", &cluster);
    if (status != HK_OK)
        print_error("%s\n", hk_last_error());
    assert_int_equal(status, HK_OK);
    return cluster;
}

static void assert_refused(const char *text, const char *why)
{
    hki_cluster *cluster;
    assert_int_equal(parse(text, NULL, &cluster), HK_ERR_ARGUMENT);
    if (!strstr(hk_last_error(), why))
        fail_msg("\"%s\" does not say \"%s\"", hk_last_error(), why);
}

static void the_shortest_file_is_one_host(void **state)
{
    (void)state;
    hki_cluster *cluster = cluster_of("{'hosts': [{'ranks': 3}]}");
    assert_int_equal(cluster->rank_count, 3);
    assert_int_equal(cluster->host_count, 1);
    assert_int_equal(cluster->switch_count, 1);
    assert_int_equal(cluster->hosts[0].capacity, 3);
    assert_int_equal(cluster->hosts[0].nic_rate, 0);
    assert_int_equal(hki_cluster_link(cluster, 0, 2), HKI_LINK_L3);
    assert_string_equal(cluster->source, "file");
    hki_cluster_free(cluster);
}

static void hosts_of_several_kinds_follow_one_another(void **state)
{
    (void)state;
    hki_cluster *cluster = cluster_of("{'hosts': [{'count': 2, 'ranks': 2, 'nics': 2, 'nic_gbit': 100},"
                                      "{'ranks': 3, 'cores': 1, 'binding': 'none', 'transports': ['tcp']}]}");
    const uint32_t hosts[] = {0, 0, 1, 1, 2, 2, 2};
    for (uint32_t rank = 0; rank < 7; rank++)
        assert_int_equal(cluster->seats[rank].host, hosts[rank]);
    assert_int_equal(cluster->hosts[1].nic_rate, UINT64_C(25000000000));
    assert_int_equal(cluster->hosts[2].capacity, 1);
    assert_int_equal(hki_cluster_link(cluster, 4, 5), HKI_LINK_LOOPBACK);
    assert_int_equal(hki_cluster_link(cluster, 0, 4), HKI_LINK_TCP);
    hki_cluster_free(cluster);
}

static void ranks_may_be_dealt_round_the_hosts(void **state)
{
    (void)state;
    hki_cluster *cluster = cluster_of("{'order': 'cyclic', 'hosts': [{'count': 2, 'ranks': 1}, {'ranks': 3}]}");
    const uint32_t hosts[] = {0, 1, 2, 2, 2};
    for (uint32_t rank = 0; rank < 5; rank++)
        assert_int_equal(cluster->seats[rank].host, hosts[rank]);
    hki_cluster_free(cluster);
    cluster = cluster_of("{'order': 'cyclic', 'hosts': [{'count': 2, 'ranks': 2}]}");
    for (uint32_t rank = 0; rank < 4; rank++)
        assert_int_equal(cluster->seats[rank].host, rank % 2);
    hki_cluster_free(cluster);
}

static void ranks_sit_on_the_cores_that_are_described(void **state)
{
    (void)state;
    hki_cluster *cluster = cluster_of("{'hosts': [{'ranks': 4, 'topology': 'pack:2 numa:2 l3:1 core:2 pu:1'}]}");
    assert_int_equal(cluster->hosts[0].capacity, 8);
    assert_int_equal(hki_cluster_link(cluster, 0, 1), HKI_LINK_PACKAGE); /* spread: a NUMA node for each */
    assert_int_equal(hki_cluster_link(cluster, 0, 2), HKI_LINK_HOST);
    hki_cluster_free(cluster);
    cluster = cluster_of("{'hosts': [{'ranks': 2, 'binding': 'none', 'topology': 'pack:1 numa:1 l3:1 core:4 pu:1'}]}");
    assert_int_equal(hki_cluster_link(cluster, 0, 1), HKI_LINK_L3);
    hki_cluster_free(cluster);
}

static void switches_share_what_is_plugged_in(void **state)
{
    (void)state;
    hki_cluster *cluster =
        cluster_of("{'hosts': [{'count': 5, 'ranks': 1, 'nic_gbit': 10, 'switch': 'rack'}],"
                   "'switches': [{'name': 'rack', 'count': 3, 'above': 'row', 'oversubscription': 2, 'hop_us': 0.5},"
                   "{'name': 'row', 'count': 2, 'above': 'core', 'oversubscription': 1},"
                   "{'name': 'core', 'hop_us': 1}]}");
    const uint32_t racks[] = {0, 0, 1, 1, 2}, rows[] = {3, 3, 4};
    assert_int_equal(cluster->switch_count, 6);
    for (uint32_t host = 0; host < 5; host++)
        assert_int_equal(cluster->hosts[host].above, racks[host]);
    for (uint32_t rack = 0; rack < 3; rack++)
        assert_int_equal(cluster->switches[rack].above, rows[rack]);
    assert_int_equal(cluster->switches[3].above, 5);
    assert_int_equal(cluster->switches[5].above, UINT32_MAX);
    assert_int_equal(cluster->switches[0].uplink_rate, 1250000000);
    assert_int_equal(cluster->switches[2].uplink_rate, 625000000);
    assert_int_equal(cluster->switches[3].uplink_rate, 2500000000);
    assert_int_equal(cluster->switches[0].hop_ps, 500000);
    uint32_t resources[HKI_ROUTE_MOST];
    uint64_t hops;
    assert_int_equal(hki_cluster_route(cluster, 0, 4, resources, &hops), 6);
    assert_int_equal(hops, 2000000);
    hki_cluster_free(cluster);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{'hosts': [{'ranks': 2}", "file, line 1"},
        {"[]", "hosts is no list"},
        {"{}", "hosts is no list"},
        {"{'hosts': []}", "hosts is no list"},
        {"{'hosts': [7]}", "hosts[0].ranks is missing"},
        {"{'hosts': [{'ranks': 2}], 'racks': 3}", "racks is not known; there are comment, hosts, switches, order"},
        {"{'hosts': [{'ranks': 2}, {'ranks': 0}]}", "hosts[1].ranks is no whole number from 1 to 1048576"},
        {"{'hosts': [{'ranks': 2.5}]}", "hosts[0].ranks is no whole number"},
        {"{'hosts': [{'rank': 2}]}", "hosts[0].rank is not known"},
        {"{'hosts': [{'ranks': 1, 'nic_gbit': 1e-300}]}", "hosts[0].nic_gbit is neither 0 nor at least 0.008"},
        {"{'hosts': [{'ranks': 1, 'nic_gbit': -1}]}", "hosts[0].nic_gbit is no number from 0"},
        {"{'hosts': [{'ranks': 1, 'binding': 'l3'}]}", "hosts[0].binding is neither"},
        {"{'hosts': [{'ranks': 1, 'transports': ['shm']}]}", "hosts[0].transports has none that reaches"},
        {"{'hosts': [{'ranks': 1, 'transports': ['ipx']}]}", "hosts[0].transports has something else"},
        {"{'hosts': [{'ranks': 1, 'transports': 'tcp'}]}", "hosts[0].transports is no list"},
        {"{'hosts': [{'ranks': 1}], 'comment': 5}", "comment is no text"},
        {"{'hosts': [{'ranks': 1, 'switch': 'leaf'}]}", "hosts[0].switch names no entry"},
        {"{'hosts': [{'ranks': 1, 'cores': 1, 'topology': 'x'}]}", "hosts[0] is described more than once"},
        {"{'hosts': [{'ranks': 1, 'xml': 'x'}]}", "hosts[0].xml is not looked at here"},
        {"{'hosts': [{'ranks': 1}], 'switches': [{}]}", "switches[0].name is missing"},
        {"{'hosts': [{'ranks': 1, 'switch': 'a'}], 'switches': [{'name': 'a'}, {'name': 'a'}]}", "of another entry"},
        {"{'hosts': [{'ranks': 1, 'switch': 'a'}], 'switches': [{'name': 'a'}, {'name': 'b'}]}",
         "switches[1] has nothing plugged in"},
        {"{'hosts': [{'ranks': 1, 'switch': 'a'}], 'switches': [{'name': 'a', 'above': 'a'}]}", "hangs below itself"},
        {"{'hosts': [{'ranks': 1}], 'switches': [{'name': 'a', 'uplink_gbit': 1, 'oversubscription': 1}]}",
         "switches[0].oversubscription says again"},
        {"{'hosts': [{'ranks': 1}, {'ranks': 1}], 'switches': [{'name': 'a'}, {'name': 'b', 'above': 'a'}]}",
         "hosts[0].switch is missing"},
        {"{'hosts': [{'ranks': 1, 'switch': 'a'}], 'switches': [{'name': 'a', 'above': 'b', 'oversubscription': 2},"
         "{'name': 'b'}]}",
         "switches[0].oversubscription needs the nic_gbit"},
        {"{'hosts': [{'ranks': 1048576, 'count': 2}]}", "more than 2^20 ranks"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(cases[i][0], cases[i][1]);
}

static void files_that_cannot_be_used_are_named(void **state)
{
    (void)state;
    hki_cluster *cluster;
    hk_status status = hki_cluster_read("/nonexistent/cluster.json", &cluster);
    assert_true(status == HK_ERR_SYSTEM || status == HK_ERR_UNSUPPORTED);
    assert_int_equal(parse("{'hosts': [{'ranks': 1, 'xml': 'missing.xml'}]}", "/nonexistent", &cluster),
                     HK_ERR_ARGUMENT);
    assert_non_null(strstr(hk_last_error(), "hosts[0].xml cannot be used: /nonexistent/missing.xml"));
    assert_int_equal(parse("{'hosts': [{'ranks': 1, 'topology': 'rubbish'}]}", ".", &cluster), HK_ERR_ARGUMENT);
    assert_non_null(strstr(hk_last_error(), "hosts[0].topology cannot be used"));
}

static void every_example_is_a_cluster(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t ranks, hosts, levels;
    } examples[] = {{"two_racks", 128, 8, 4}, {"uneven", 30, 4, 1}, {"fat_tree", 4096, 512, 3}};
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        char path[600];
        hki_cluster *cluster;
        snprintf(path, sizeof path, "%s/examples/clusters/%s.json", SOURCE_FOLDER, examples[i].name);
        hk_status status = hki_cluster_read(path, &cluster);
        if (status == HK_ERR_UNSUPPORTED)
            skip();
        if (status != HK_OK)
            fail_msg("%s", hk_last_error());
        assert_int_equal(cluster->rank_count, examples[i].ranks);
        assert_int_equal(cluster->host_count, examples[i].hosts);
        assert_non_null(cluster->levels);
        assert_int_equal(cluster->levels->count, examples[i].levels);
        hki_cluster_free(cluster);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shortest_file_is_one_host),
        cmocka_unit_test(hosts_of_several_kinds_follow_one_another),
        cmocka_unit_test(ranks_may_be_dealt_round_the_hosts),
        cmocka_unit_test(ranks_sit_on_the_cores_that_are_described),
        cmocka_unit_test(switches_share_what_is_plugged_in),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(files_that_cannot_be_used_are_named),
        cmocka_unit_test(every_example_is_a_cluster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

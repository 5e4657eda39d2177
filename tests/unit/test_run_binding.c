/* hocket run: which CPUs each rank gets. */
#include "tools/run.h"
#include "topo/found.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* Hosts with cores of `threads` PUs, CPU c being in package c % 2, as many machines number them. */
static hki_topology *host_of(unsigned cores, unsigned threads)
{
    hki_found_pu found[64];
    for (unsigned i = 0; i < cores * threads; i++)
        found[i] = (hki_found_pu){.os = i,
                                  .core = i % cores,
                                  .package = i % cores % 2,
                                  .numa = i % cores % 2,
                                  .l2 = hki_found_none,
                                  .l3 = hki_found_none,
                                  .usable = true};
    hki_topology *topology;
    assert_int_equal(hki_topology_make(found, cores * threads, HKI_TOPOLOGY_BY_SYSFS, &topology), HK_OK);
    return topology;
}

/* Texts such as "0,4 1 -": the CPUs of each rank; "-" is none. Frees the topology. */
static void assert_bound(hki_topology *topology, run_bind how, int ranks, const char *expected)
{
    run_binding binding;
    char text[400] = "";
    size_t length = 0;
    assert_true(run_binding_make(&binding, topology, how, ranks));
    for (int rank = 0; rank < ranks; rank++) {
        unsigned first = binding.first[rank], end = binding.first[rank + 1];
        if (first == end)
            length += (size_t)snprintf(text + length, sizeof text - length, "%s-", rank > 0 ? " " : "");
        for (unsigned i = first; i < end; i++)
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%u",
                                       i > first  ? ","
                                       : rank > 0 ? " "
                                                  : "",
                                       binding.cpus[i]);
    }
    assert_string_equal(text, expected);
    run_binding_free(&binding);
    hki_topology_free(topology);
}

static void each_rank_gets_its_share_of_neighbouring_cores(void **state)
{
    (void)state;
    assert_bound(host_of(8, 1), RUN_BIND_SHARE, 3, "0,2 4,6,1 3,5,7");
    assert_bound(host_of(4, 2), RUN_BIND_SHARE, 2, "0,4,2,6 1,5,3,7");
    assert_bound(host_of(4, 2), RUN_BIND_SHARE, 4, "0,4 2,6 1,5 3,7");
    assert_bound(host_of(4, 2), RUN_BIND_SHARE, 1, "0,4,2,6,1,5,3,7");
    assert_bound(host_of(3, 2), RUN_BIND_SHARE, 2, "0,3 2,5,1,4"); /* no core in two halves */
    assert_bound(host_of(2, 2), RUN_BIND_SHARE, 3, "0 2 1,3");
    assert_bound(host_of(2, 1), RUN_BIND_SHARE, 5, "0 1 0 1 0");
    assert_bound(host_of(2, 1), RUN_BIND_NONE, 2, "- -");
}

static void cores_are_given_before_second_threads(void **state)
{
    (void)state;
    assert_bound(host_of(4, 2), RUN_BIND_CORE, 2, "0 1");
    assert_bound(host_of(4, 2), RUN_BIND_CORE, 4, "0 2 1 3"); /* neighbours in one package */
    assert_bound(host_of(4, 2), RUN_BIND_CORE, 6, "0 4 2 1 5 3");
    assert_bound(host_of(2, 1), RUN_BIND_CORE, 5, "0 1 0 1 0");
    assert_bound(host_of(1, 1), RUN_BIND_CORE, 2, "0 0");
}

static void cpus_that_are_not_usable_are_given_to_nobody(void **state)
{
    (void)state;
    for (run_bind how = RUN_BIND_SHARE; how <= RUN_BIND_CORE; how++) {
        hki_topology *topology = host_of(4, 1);
        topology->pus[0].usable = topology->pus[3].usable = false; /* CPUs 0 and 3 */
        assert_bound(topology, how, 3, "2 1 2");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rank_gets_its_share_of_neighbouring_cores),
        cmocka_unit_test(cores_are_given_before_second_threads),
        cmocka_unit_test(cpus_that_are_not_usable_are_given_to_nobody),
    };
    return cmocka_run_group_tests_name("binding of ranks", tests, NULL, NULL);
}

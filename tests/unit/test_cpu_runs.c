/* Sets of CPUs in little room. */
#include "topo/cpu_runs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void check_runs(const uint32_t *cpus, size_t count, int wanted_runs)
{
    hki_cpus set, back;
    hki_cpu_runs runs;
    memset(&set, 0, sizeof set);
    memset(&back, 0, sizeof back);
    for (size_t i = 0; i < count; i++)
        hki_cpus_add(&set, cpus[i]);
    hki_cpu_runs_make(&set, &runs);
    hki_cpu_runs_add(&runs, &back);
    assert_memory_equal(&set, &back, sizeof set);
    int used = 0;
    while (used < HKI_CPU_RUNS_MOST && runs.run[used].count > 0)
        used++;
    assert_int_equal(used, wanted_runs);
}

static void test_runs_hold_the_sets_that_launchers_make(void **state)
{
    (void)state;
    static uint32_t all[HKI_TOPOLOGY_PUS_MAX], even[256];
    for (uint32_t i = 0; i < HKI_TOPOLOGY_PUS_MAX; i++)
        all[i] = i;
    for (uint32_t i = 0; i < 256; i++)
        even[i] = 2 * i;
    check_runs(all, 0, 0);
    check_runs(all, HKI_TOPOLOGY_PUS_MAX, 1);
    check_runs(even, 256, 1);
    check_runs((const uint32_t[]){7, 135}, 2, 1); /* a core's two threads */
    check_runs((const uint32_t[]){0, 1, 2, 3, 128, 129, 130, 131}, 8, 2);
    check_runs((const uint32_t[]){1500, 8191}, 2, 1);
}

static void test_runs_of_any_bytes_add_only_cpus(void **state)
{
    (void)state;
    hki_cpu_runs runs;
    hki_cpus set;
    memset(&runs, 0xff, sizeof runs);
    memset(&set, 0, sizeof set);
    hki_cpu_runs_add(&runs, &set);
    for (uint32_t cpu = 0; cpu < HKI_TOPOLOGY_PUS_MAX; cpu++)
        assert_false(hki_cpus_has(&set, cpu));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_hold_the_sets_that_launchers_make),
        cmocka_unit_test(test_runs_of_any_bytes_add_only_cpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

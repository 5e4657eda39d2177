/* Seats read from the files of a made-up host, and of this one. */
#include "topo/cluster.h"
#include "topo/found.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { NONE = HKI_TOPOLOGY_NO_CACHE };

static char root[] = "/tmp/hocket-seat-XXXXXX";

static void put_file(const char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put_file(const char *text, const char *format, ...)
{
    char path[300];
    int length = snprintf(path, sizeof path, "%s", root);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path + length, sizeof path - (size_t)length, format, arguments);
    va_end(arguments);
    for (char *slash = strchr(path + length + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%s\n", text);
    fclose(file);
}

/* Four CPUs: 0 and 2 are one core with an L2, 1 and 3 another; one package and L3; NUMA nodes 0 and 3. */
static int make_host(void **state)
{
    (void)state;
    if (!mkdtemp(root))
        return -1;
    put_file("0,3", "/sys/devices/system/node/online");
    put_file("0,2", "/sys/devices/system/node/node0/cpulist");
    put_file("1,3", "/sys/devices/system/node/node3/cpulist");
    for (int cpu = 0; cpu < 4; cpu++) {
        const char *core = cpu % 2 ? "1,3" : "0,2";
        put_file(core, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu,
                 cpu < 2 ? "core_cpus_list" : "thread_siblings_list");
        put_file("0-3", "/sys/devices/system/cpu/cpu%d/topology/%s", cpu,
                 cpu < 2 ? "package_cpus_list" : "core_siblings_list");
        const struct {
            const char *level, *type, *shared;
        } caches[] = {
            {"1", "Data", core}, {"2", "Instruction", "0-3"}, {"2", "Unified", core}, {"3", "Unified", "0-3"}};
        for (int i = 0; i < 4; i++) {
            put_file(caches[i].level, "/sys/devices/system/cpu/cpu%d/cache/index%d/level", cpu, i);
            put_file(caches[i].type, "/sys/devices/system/cpu/cpu%d/cache/index%d/type", cpu, i);
            put_file(caches[i].shared, "/sys/devices/system/cpu/cpu%d/cache/index%d/shared_cpu_list", cpu, i);
        }
    }
    return 0;
}

static int remove_host(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static hki_cpus cpus_of(const char *digits)
{
    hki_cpus cpus = {{0}};
    for (; *digits; digits++)
        hki_cpus_add(&cpus, (uint32_t)(*digits - '0'));
    return cpus;
}

static void assert_seat(const char *digits, hki_seat wanted)
{
    hki_cpus cpus = cpus_of(digits);
    hki_seat seat = hki_seat_read_below(root, &cpus);
    assert_memory_equal(&seat, &wanted, sizeof seat);
}

static void a_seat_is_what_holds_all_cpus_numbered_by_the_first(void **state)
{
    (void)state;
    assert_seat("0", (hki_seat){.core = 0});
    assert_seat("3", (hki_seat){.numa = 3, .l2 = 1, .core = 1});
    assert_seat("13", (hki_seat){.numa = 3, .l2 = 1, .core = 1});
    assert_seat("12", (hki_seat){.numa = NONE, .l2 = NONE, .core = NONE});
    assert_seat("", (hki_seat){0, NONE, NONE, NONE, NONE, NONE, 0});
    assert_seat("7", (hki_seat){0, NONE, NONE, NONE, NONE, NONE, 0});
}

static void cores_and_nodes_are_counted(void **state)
{
    (void)state;
    const struct {
        const char *digits;
        uint32_t cores;
    } cases[] = {{"", 0}, {"0", 1}, {"02", 1}, {"01", 2}, {"0123", 2}, {"037", 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hki_cpus cpus = cpus_of(cases[i].digits);
        assert_int_equal(hki_topology_read_cores_below(root, &cpus), cases[i].cores);
    }
    assert_int_equal(hki_topology_read_numas_below(root), 4);
    assert_int_equal(hki_topology_read_numas_below("/nonexistent"), 1);
}

/* Of this host, whatever it is, the short reading and the whole one tell the same things apart. */
static void little_reading_finds_what_much_reading_finds(void **state)
{
    (void)state;
    hki_topology *topology;
    assert_int_equal(hki_topology_load_system(&topology), HK_OK);
    hki_cpus all = {{0}};
    for (uint32_t i = 0; i < topology->pu_count && i < 64; i++)
        for (uint32_t j = 0; j < topology->pu_count && j < 64; j++) {
            hki_cpus cpus = {{0}};
            hki_cpus_add(&cpus, topology->pus[i].os);
            hki_cpus_add(&cpus, topology->pus[j].os);
            hki_cpus_add(&all, topology->pus[i].os);
            hki_seat little = hki_seat_read(&cpus), much = hki_seat_of(topology, &cpus);
            assert_int_equal(little.l3 == NONE, much.l3 == NONE);
            assert_int_equal(little.l2 == NONE, much.l2 == NONE);
        }
    if (topology->pu_count <= 64)
        assert_int_equal(hki_topology_read_cores(&all), topology->core_count);
    hki_topology_free(topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seat_is_what_holds_all_cpus_numbered_by_the_first),
        cmocka_unit_test(cores_and_nodes_are_counted),
        cmocka_unit_test(little_reading_finds_what_much_reading_finds),
    };
    return cmocka_run_group_tests(tests, make_host, remove_host);
}

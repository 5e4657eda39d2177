/* What a host is made of: read from made-up hosts, packed, ordered, drawn. */
#include "comm/context.h"
#include "topo/found.h"

#include <ftw.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---------------------------------------------------------------------------------------------------------------
 * Made-up hosts
 * ------------------------------------------------------------------------------------------------------------- */

/* Two packages of two NUMA nodes, each with one L3 over four cores with an L2 and two PUs each: 32 PUs. */
static const char two_packages[] = "pack:2 numa:2 l3:1 l2:4 core:1 pu:2";

static hki_topology *synthetic(const char *description)
{
    hki_topology *topology = NULL;
    hk_status status = hki_topology_load_synthetic(description, &topology);
    if (status == HK_ERR_UNSUPPORTED)
        skip(); /* no hwloc here */
    if (status != HK_OK)
        print_error("%s\n", hk_last_error());
    assert_int_equal(status, HK_OK);
    return topology;
}

/* A host of files below a folder of its own, as /sys and /proc would show them. */
static char root[] = "/tmp/hocket-topology-XXXXXX";

static int remove_one(const char *path, const struct stat *what, int kind, struct FTW *where)
{
    (void)what;
    (void)kind;
    (void)where;
    return remove(path);
}

static int remove_root(void **state)
{
    (void)state;
    nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return 0;
}

static int make_root(void **state)
{
    (void)state;
    memcpy(root + sizeof root - 7, "XXXXXX", 6);
    return mkdtemp(root) ? 0 : -1;
}

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

static void put_cache(unsigned cpu, unsigned index, const char *level, const char *type, const char *size,
                      const char *shared)
{
    put_file(level, "/sys/devices/system/cpu/cpu%u/cache/index%u/level", cpu, index);
    put_file(type, "/sys/devices/system/cpu/cpu%u/cache/index%u/type", cpu, index);
    put_file(size, "/sys/devices/system/cpu/cpu%u/cache/index%u/size", cpu, index);
    put_file(shared, "/sys/devices/system/cpu/cpu%u/cache/index%u/shared_cpu_list", cpu, index);
}

/* Eight CPUs, numbered as many machines do it: CPU c and c + 4 are one core, even cores are in package 0, odd ones in
 * package 1; each package is a NUMA node with an L3. */
static void put_host(void)
{
    put_file("0-7", "/sys/devices/system/cpu/online");
    put_file("0-1", "/sys/devices/system/node/online");
    put_file("0,2,4,6", "/sys/devices/system/node/node0/cpulist");
    put_file("1,3,5,7", "/sys/devices/system/node/node1/cpulist");
    put_file("Node 0 MemTotal:       16777216 kB\nNode 0 MemFree: 5 kB", "/sys/devices/system/node/node0/meminfo");
    put_file("Node 1 MemTotal:       33554432 kB\nNode 1 MemFree: 5 kB", "/sys/devices/system/node/node1/meminfo");
    for (unsigned cpu = 0; cpu < 8; cpu++) {
        char core[16];
        snprintf(core, sizeof core, "%u,%u", cpu % 4, cpu % 4 + 4);
        const char *package = cpu % 2 ? "1,3,5,7" : "0,2,4,6";
        put_file(cpu % 2 ? "1" : "0", "/sys/devices/system/cpu/cpu%u/topology/physical_package_id", cpu);
        put_file(core, "/sys/devices/system/cpu/cpu%u/topology/%s", cpu,
                 cpu % 2 ? "thread_siblings_list" : "core_cpus_list");
        put_cache(cpu, 0, "1", "Data", "32K", core);
        put_cache(cpu, 1, "2", "Unified", "1024K", core);
        put_cache(cpu, 2, "2", "Instruction", "64K", core);
        put_cache(cpu, 3, "3", "Unified", "32M", package);
    }
}

static hki_cpus cpus_of(const char *numbers)
{
    hki_cpus cpus = {{0}};
    for (; *numbers; numbers++)
        hki_cpus_add(&cpus, (uint32_t)(*numbers - '0'));
    return cpus;
}

static hki_topology *load_root(const char *usable)
{
    hki_topology *topology;
    hki_cpus cpus = cpus_of(usable);
    assert_int_equal(hki_topology_load_below(root, &cpus, &topology), HK_OK);
    return topology;
}

static void assert_order(const hki_topology *topology, const uint32_t *expected, uint32_t count)
{
    uint32_t *order = calloc(topology->pu_count, sizeof *order), ordered;
    assert_int_equal(hki_topology_order(topology, order, &ordered), HK_OK);
    assert_int_equal(ordered, count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(topology->pus[order[i]].os, expected[i]);
    free(order);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Through hwloc
 * ------------------------------------------------------------------------------------------------------------- */

static void a_described_host_has_the_parts_described(void **state)
{
    (void)state;
    hki_topology *topology = synthetic(two_packages);
    assert_int_equal(topology->source, HKI_TOPOLOGY_BY_HWLOC);
    assert_int_equal(topology->package_count, 2);
    assert_int_equal(topology->numa_count, 4);
    assert_int_equal(topology->l3_count, 4);
    assert_int_equal(topology->l2_count, 16);
    assert_int_equal(topology->core_count, 16);
    assert_int_equal(topology->pu_count, 32);
    assert_int_equal(hki_topology_usable_cores(topology), 16);
    assert_int_equal(hki_topology_usable_pus(topology), 32);
    for (uint16_t i = 0; i < 32; i++) {
        const hki_pu *pu = &topology->pus[i];
        assert_int_equal(pu->os, i);
        assert_int_equal(pu->core, i / 2);
        assert_int_equal(pu->l2, i / 2);
        assert_int_equal(pu->l3, i / 8);
        assert_int_equal(pu->numa, i / 8);
        assert_int_equal(pu->package, i / 16);
    }
    assert_int_equal(topology->numas[3].os, 3);
    assert_true(topology->numas[3].bytes > 0 && topology->l3_bytes[3] > 0 && topology->l2_bytes[15] > 0);
    hki_topology_free(topology);
}

static void distances_name_the_smallest_thing_that_holds_both(void **state)
{
    (void)state;
    hki_topology *topology = synthetic("pack:2 numa:2 l3:2 l2:2 core:2 pu:2"); /* 16 PUs a node, 8 an L3, 4 an L2 */
    assert_int_equal(topology->pu_count, 64);
    static const struct {
        uint32_t other;
        hki_distance distance;
    } expected[] = {{0, HKI_DISTANCE_CORE},     {1, HKI_DISTANCE_CORE},  {2, HKI_DISTANCE_L2},
                    {3, HKI_DISTANCE_L2},       {4, HKI_DISTANCE_L3},    {7, HKI_DISTANCE_L3},
                    {8, HKI_DISTANCE_NUMA},     {15, HKI_DISTANCE_NUMA}, {16, HKI_DISTANCE_PACKAGE},
                    {31, HKI_DISTANCE_PACKAGE}, {32, HKI_DISTANCE_HOST}, {63, HKI_DISTANCE_HOST}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_int_equal(hki_topology_distance(topology, 0, expected[i].other), expected[i].distance);
        assert_int_equal(hki_topology_distance(topology, expected[i].other, 0), expected[i].distance);
    }
    hki_topology_free(topology);
}

static void without_a_cache_nobody_shares_it(void **state)
{
    (void)state;
    hki_topology *topology = synthetic("pack:2 core:4 pu:1");
    assert_int_equal(topology->l3_count, 0);
    assert_int_equal(topology->pus[0].l3, HKI_TOPOLOGY_NO_CACHE);
    assert_int_equal(topology->numa_count, 1);
    assert_int_equal(hki_topology_distance(topology, 0, 1), HKI_DISTANCE_NUMA);
    hki_topology_free(topology);
}

static void processes_are_spread_over_packages_then_nodes_then_caches(void **state)
{
    (void)state;
    hki_topology *topology = synthetic(two_packages);
    /* First PUs of cores: package 0 and 1 in turn, in each the nodes in turn; then the second PUs likewise. */
    static const uint32_t cores[16] = {0, 16, 8, 24, 2, 18, 10, 26, 4, 20, 12, 28, 6, 22, 14, 30};
    uint32_t expected[32];
    for (int i = 0; i < 16; i++) {
        expected[i] = cores[i];
        expected[i + 16] = cores[i] + 1;
    }
    assert_order(topology, expected, 32);
    hki_topology_free(topology);
    topology = synthetic("l3:2 l2:2 core:2 pu:1");
    assert_order(topology, (const uint32_t[]){0, 4, 2, 6, 1, 5, 3, 7}, 8);
    hki_topology_free(topology);
}

static void every_beginning_of_the_order_is_even_although_the_parts_are_not(void **state)
{
    (void)state;
    hki_topology *topology = synthetic("pack:2 l3:2 core:4 pu:1");
    for (uint32_t i = 8; i < 12; i++)
        topology->pus[i].usable = false; /* all of one L3 of package 1 */
    topology->pus[0].usable = false;
    uint32_t order[16], count, taken[2] = {0, 0};
    assert_int_equal(hki_topology_order(topology, order, &count), HK_OK);
    assert_int_equal(count, 11);
    for (uint32_t i = 0; i < 8; i++) {
        taken[topology->pus[order[i]].package]++;
        assert_in_range(taken[0], taken[1], taken[1] + 1);
    }
    assert_int_equal(hki_topology_usable_cores(topology), 11);
    hki_topology_free(topology);
}

static void nonsense_is_refused_and_named(void **state)
{
    (void)state;
    hki_topology *topology = NULL;
    hki_topology_free(synthetic("core:1 pu:1"));
    assert_int_equal(hki_topology_load_synthetic("package:many", &topology), HK_ERR_ARGUMENT);
    assert_non_null(strstr(hk_last_error(), "package:many"));
    assert_int_equal(hki_topology_load_xml("/no/such/file.xml", &topology), HK_ERR_ARGUMENT);
    assert_non_null(strstr(hk_last_error(), "/no/such/file.xml"));
    put_file("<topology>", "/broken.xml");
    char path[300];
    snprintf(path, sizeof path, "%s/broken.xml", root);
    assert_int_equal(hki_topology_load_xml(path, &topology), HK_ERR_ARGUMENT);
    assert_non_null(strstr(hk_last_error(), path));
    assert_null(topology);
}

/* ---------------------------------------------------------------------------------------------------------------
 * From /sys
 * ------------------------------------------------------------------------------------------------------------- */

static void a_host_is_read_from_its_files(void **state)
{
    (void)state;
    put_host();
    hki_topology *topology = load_root("0123467");
    assert_int_equal(topology->source, HKI_TOPOLOGY_BY_SYSFS);
    static const uint16_t os[8] = {0, 4, 2, 6, 1, 5, 3, 7};
    for (uint16_t i = 0; i < 8; i++) {
        const hki_pu *pu = &topology->pus[i];
        assert_int_equal(pu->os, os[i]);
        assert_int_equal(pu->core, i / 2);
        assert_int_equal(pu->l2, i / 2);
        assert_int_equal(pu->l3, i / 4);
        assert_int_equal(pu->numa, i / 4);
        assert_int_equal(pu->package, i / 4);
        assert_int_equal(pu->usable, os[i] != 5);
    }
    assert_int_equal(topology->l2_bytes[1], 1 << 20); /* not the 64 KiB for instructions */
    assert_int_equal(topology->l3_bytes[1], 32 << 20);
    assert_int_equal(topology->numas[1].os, 1);
    assert_int_equal(topology->numas[1].bytes, UINT64_C(32) << 30);
    assert_int_equal(hki_topology_usable_cores(topology), 4);
    assert_int_equal(hki_topology_find(topology, 6), 3);
    assert_int_equal(hki_topology_find(topology, 8), 8);
    assert_order(topology, (const uint32_t[]){0, 1, 2, 3, 4, 7, 6}, 7);
    hki_topology_free(topology);
    topology = load_root("0134"); /* 4 is of core 0, so it comes last */
    assert_order(topology, (const uint32_t[]){0, 1, 3, 4}, 4);
    hki_topology_free(topology);
}

static void without_files_every_usable_cpu_is_a_core(void **state)
{
    (void)state;
    hki_topology *topology = load_root("135");
    assert_int_equal(topology->source, HKI_TOPOLOGY_BY_AFFINITY);
    assert_int_equal(topology->core_count, 3);
    assert_int_equal(topology->package_count, 1);
    assert_int_equal(topology->numa_count, 1);
    assert_int_equal(topology->l2_count, 0);
    assert_order(topology, (const uint32_t[]){1, 3, 5}, 3);
    hki_topology_free(topology);
}

static void odd_files_do_no_harm(void **state)
{
    (void)state;
    put_host();
    put_file("-1", "/sys/devices/system/cpu/cpu0/topology/physical_package_id");
    put_file("nonsense", "/sys/devices/system/cpu/cpu2/topology/core_cpus_list");
    put_file("3-1", "/sys/devices/system/cpu/cpu3/cache/index1/shared_cpu_list");
    put_file("", "/sys/devices/system/node/node1/cpulist");
    put_file("0-99999999", "/sys/devices/system/node/node0/cpulist");
    put_file("0-7,9999999999999999999999", "/sys/devices/system/cpu/online");
    hki_topology *topology = load_root("01234567");
    assert_int_equal(topology->pu_count, 8);
    assert_int_equal(topology->numa_count, 1);
    assert_int_equal(topology->package_count, 2);
    hki_topology_free(topology);
}

static void the_quota_is_the_smallest_on_the_way_up(void **state)
{
    (void)state;
    assert_int_equal(hki_topology_quota_below(root), 0);
    put_file("0::/outer/inner", "/proc/self/cgroup");
    put_file("max 100000", "/sys/fs/cgroup/outer/inner/cpu.max");
    assert_int_equal(hki_topology_quota_below(root), 0);
    put_file("350000 100000", "/sys/fs/cgroup/outer/cpu.max");
    assert_int_equal(hki_topology_quota_below(root), 3500);
    put_file("400000 100000", "/sys/fs/cgroup/outer/inner/cpu.max");
    assert_int_equal(hki_topology_quota_below(root), 3500);
    put_file("50000 100000", "/sys/fs/cgroup/outer/inner/cpu.max");
    assert_int_equal(hki_topology_quota_below(root), 500);
}

static void the_quota_of_version_1_is_found_also_in_a_container(void **state)
{
    (void)state;
    put_file("12:memory:/docker/abc\n5:cpu,cpuacct:/docker/abc\n0::/", "/proc/self/cgroup");
    put_file("-1", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    put_file("100000", "/sys/fs/cgroup/cpu/cpu.cfs_period_us");
    assert_int_equal(hki_topology_quota_below(root), 0);
    put_file("250000", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    assert_int_equal(hki_topology_quota_below(root), 2500);
    put_file("5:cpuset,cpuacct:/docker/abc", "/proc/self/cgroup");
    assert_int_equal(hki_topology_quota_below(root), 0);
}

static void capacity_is_cores_or_quota(void **state)
{
    (void)state;
    put_host();
    hki_topology *topology = load_root("01234567");
    assert_int_equal(hki_topology_capacity(topology), 4);
    topology->quota = 2001;
    assert_int_equal(hki_topology_capacity(topology), 3);
    topology->quota = 2000;
    assert_int_equal(hki_topology_capacity(topology), 2);
    topology->quota = 1;
    assert_int_equal(hki_topology_capacity(topology), 1);
    topology->quota = 64000;
    assert_int_equal(hki_topology_capacity(topology), 4);
    hki_topology_free(topology);
}

/* ---------------------------------------------------------------------------------------------------------------
 * This host
 * ------------------------------------------------------------------------------------------------------------- */

static void assert_knows_what_is_usable(const hki_topology *topology)
{
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    assert_int_equal(hki_topology_usable_pus(topology), CPU_COUNT(&set));
    for (uint32_t i = 0; i < topology->pu_count; i++)
        assert_int_equal(topology->pus[i].usable, CPU_ISSET(topology->pus[i].os, &set) != 0);
}

static void both_readers_see_the_same_host(void **state)
{
    (void)state;
    hki_topology *one, *other;
    assert_int_equal(hki_topology_load(&one), HK_OK);
    assert_int_equal(hki_topology_load_system(&other), HK_OK);
    assert_knows_what_is_usable(one);
    assert_knows_what_is_usable(other);
    assert_int_equal(one->quota, other->quota);
    if (other->source == HKI_TOPOLOGY_BY_SYSFS) {
        assert_int_equal(one->pu_count, other->pu_count);
        assert_int_equal(one->core_count, other->core_count);
        assert_int_equal(one->package_count, other->package_count);
    }
    hki_topology_free(one);
    hki_topology_free(other);
}

static void loading_leaves_the_environment_and_the_affinity_alone(void **state)
{
    (void)state;
    cpu_set_t before, after;
    hki_topology *topology;
    setenv("HWLOC_HIDE_ERRORS", "1", 1);
    unsetenv("HWLOC_PLUGINS_PATH");
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(hki_topology_load(&topology), HK_OK);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    assert_string_equal(getenv("HWLOC_HIDE_ERRORS"), "1");
    assert_null(getenv("HWLOC_PLUGINS_PATH"));
    unsetenv("HWLOC_HIDE_ERRORS");
    hki_topology_free(topology);
}

/* ---------------------------------------------------------------------------------------------------------------
 * As bytes
 * ------------------------------------------------------------------------------------------------------------- */

static void assert_same(const hki_topology *one, const hki_topology *other)
{
    assert_int_equal(one->source, other->source);
    assert_int_equal(one->quota, other->quota);
    assert_int_equal(one->pu_count, other->pu_count);
    assert_int_equal(one->package_count, other->package_count);
    assert_int_equal(one->numa_count, other->numa_count);
    assert_int_equal(one->l3_count, other->l3_count);
    assert_int_equal(one->l2_count, other->l2_count);
    assert_int_equal(one->core_count, other->core_count);
    for (uint32_t i = 0; i < one->pu_count; i++) {
        assert_int_equal(one->pus[i].os, other->pus[i].os);
        assert_int_equal(one->pus[i].package, other->pus[i].package);
        assert_int_equal(one->pus[i].numa, other->pus[i].numa);
        assert_int_equal(one->pus[i].l3, other->pus[i].l3);
        assert_int_equal(one->pus[i].l2, other->pus[i].l2);
        assert_int_equal(one->pus[i].core, other->pus[i].core);
        assert_int_equal(one->pus[i].usable, other->pus[i].usable);
    }
    for (uint32_t i = 0; i < one->numa_count; i++) {
        assert_int_equal(one->numas[i].os, other->numas[i].os);
        assert_int_equal(one->numas[i].bytes, other->numas[i].bytes);
    }
    assert_memory_equal(one->l3_bytes, other->l3_bytes, one->l3_count * sizeof *one->l3_bytes);
    assert_memory_equal(one->l2_bytes, other->l2_bytes, one->l2_count * sizeof *one->l2_bytes);
}

/* Packs and frees. */
static unsigned char *pack(hki_topology *topology, size_t *bytes)
{
    void *packed;
    assert_int_equal(hki_topology_pack(topology, &packed, bytes), HK_OK);
    hki_topology *copy;
    assert_int_equal(hki_topology_unpack(packed, *bytes, &copy), HK_OK);
    assert_same(topology, copy);
    hki_topology_free(copy);
    hki_topology_free(topology);
    return packed;
}

static hki_topology *odd_host(void)
{
    put_host();
    hki_topology *topology = load_root("0123467");
    topology->quota = 0x12345678;
    return topology;
}

static void what_is_packed_is_unpacked(void **state)
{
    (void)state;
    size_t bytes;
    free(pack(odd_host(), &bytes));
    assert_int_equal(bytes, 21 + 8 * 13 + 2 * 10 + (2 + 4) * 8);
    free(pack(load_root("7"), &bytes));
    hki_topology *topology;
    assert_int_equal(hki_topology_load(&topology), HK_OK);
    free(pack(topology, &bytes));
}

static void a_large_host_is_a_few_kilobytes(void **state)
{
    (void)state;
    size_t bytes;
    free(pack(synthetic("pack:4 numa:4 l3:4 l2:8 core:1 pu:2"), &bytes));
    assert_in_range(bytes, 1024 * 13, 20 << 10);
    free(pack(synthetic("pack:2 core:4 pu:1"), &bytes));
}

static void bytes_cut_short_or_too_long_are_refused(void **state)
{
    (void)state;
    size_t bytes;
    unsigned char *packed = pack(odd_host(), &bytes);
    hki_topology *topology = NULL;
    for (size_t length = 0; length < bytes; length++) {
        unsigned char *exact = malloc(length + (length == 0)); /* so that a sanitizer sees any step over the end */
        memcpy(exact, packed, length);
        assert_int_equal(hki_topology_unpack(exact, length, &topology), HK_ERR_ARGUMENT);
        free(exact);
    }
    unsigned char *longer = calloc(1, bytes + 1);
    memcpy(longer, packed, bytes);
    assert_int_equal(hki_topology_unpack(longer, bytes + 1, &topology), HK_ERR_ARGUMENT);
    assert_null(topology);
    free(longer);
    free(packed);
}

/* Whatever is accepted is safe to ask; the figures (quota, sizes, the nodes' numbers) may be anything. */
static void every_damaged_byte_is_refused_or_harmless(void **state)
{
    (void)state;
    size_t bytes, refused = 0, figures = 2 * 10 + (2 + 4) * 8;
    unsigned char *packed = pack(odd_host(), &bytes);
    for (size_t at = 0; at < bytes; at++) {
        for (unsigned flip = 1; flip < 256; flip <<= 1) {
            hki_topology *topology;
            packed[at] ^= (unsigned char)flip;
            if (hki_topology_unpack(packed, bytes, &topology) == HK_OK) {
                uint32_t order[8], count;
                assert_int_equal(hki_topology_order(topology, order, &count), HK_OK);
                assert_in_range(hki_topology_usable_cores(topology), 0, 8);
                FILE *nowhere = fopen("/dev/null", "w");
                hki_topology_draw(topology, nowhere);
                fclose(nowhere);
                hki_topology_free(topology);
            } else {
                refused++;
                assert_true(at < bytes - figures);
            }
            packed[at] ^= (unsigned char)flip;
        }
    }
    assert_true(refused > (bytes - figures) * 8 * 3 / 4);
    free(packed);
}

static void damage_is_told_by_kind(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        unsigned char value;
        const char *text;
    } cases[] = {{0, 'X', "HKT1"},
                 {4, 9, "source"},
                 {9, 0, "number of hardware threads"},
                 {11, 3, "a count"},
                 {21 + 13, 0, "twice"},          /* the second PU has the number of the first */
                 {21 + 1, 0xff, "out of range"}, /* CPU 65,280 */
                 {21 + 10, 1, "out of turn"},    /* the first core is number 1 */
                 {21 + 12, 2, "usable"}};
    size_t bytes;
    unsigned char *packed = pack(odd_host(), &bytes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hki_topology *topology;
        unsigned char kept = packed[cases[i].at];
        packed[cases[i].at] = cases[i].value;
        assert_int_equal(hki_topology_unpack(packed, bytes, &topology), HK_ERR_ARGUMENT);
        if (!strstr(hk_last_error(), cases[i].text))
            fail_msg("\"%s\" is not in: %s", cases[i].text, hk_last_error());
        packed[cases[i].at] = kept;
    }
    free(packed);
}

static void a_context_unpacks_what_was_handed_on_unless_it_is_damaged(void **state)
{
    (void)state;
    size_t bytes;
    unsigned char *packed = pack(odd_host(), &bytes);
    const hki_place place = {.topology = packed, .topology_bytes = bytes};
    for (int damage = 0; damage < 2; damage++) {
        hki_context context = {0};
        const hki_topology *topology;
        packed[0] = damage ? 0 : packed[0];
        assert_int_equal(hki_context_keep_topology(&context, &place), HK_OK);
        assert_int_equal(hki_context_topology(&context, &topology), HK_OK);
        if (damage)
            assert_knows_what_is_usable(topology); /* of this host */
        assert_int_equal(topology->quota == 0x12345678, !damage);
        hki_context_drop_topology(&context);
    }
    free(packed);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Drawing
 * ------------------------------------------------------------------------------------------------------------- */

static void assert_drawn(hki_topology *topology, const char *expected)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    hki_topology_draw(topology, file);
    fclose(file);
    assert_string_equal(text, expected);
    free(text);
    hki_topology_free(topology);
}

static void drawings_show_what_there_is(void **state)
{
    (void)state;
    put_host();
    hki_topology *topology = load_root("0123467");
    topology->quota = 1500;
    assert_drawn(topology, "2 packages, 2 NUMA nodes, 4 cores, 8 CPUs; read from /sys\n"
                           "usable: 4 cores, 7 CPUs; quota: the time of 1.5 CPUs\n"
                           "package 0\n"
                           "  NUMA node 0, 16 GiB\n"
                           "    L3 of 32 MiB: 2 cores, 2 L2 of 1 MiB, CPUs 0,2,4,6\n"
                           "package 1\n"
                           "  NUMA node 1, 32 GiB\n"
                           "    L3 of 32 MiB: 2 cores, 2 L2 of 1 MiB, CPUs 1,3,5,7 (usable 1,3,7)\n");
    assert_drawn(load_root("02"), "2 packages, 2 NUMA nodes, 4 cores, 8 CPUs; read from /sys\n"
                                  "usable: 2 cores, 2 CPUs\n"
                                  "package 0\n"
                                  "  NUMA node 0, 16 GiB\n"
                                  "    L3 of 32 MiB: 2 cores, 2 L2 of 1 MiB, CPUs 0,2,4,6 (usable 0,2)\n"
                                  "package 1\n"
                                  "  NUMA node 1, 32 GiB\n"
                                  "    L3 of 32 MiB: 2 cores, 2 L2 of 1 MiB, CPUs 1,3,5,7 (none usable)\n");
}

static void a_drawing_without_knowledge_is_short(void **state)
{
    (void)state;
    assert_drawn(load_root("0123"), "1 package, 1 NUMA node, 4 cores, 4 CPUs; read from the affinity mask\n"
                                    "usable: 4 cores, 4 CPUs\n"
                                    "package 0\n"
                                    "    4 cores, CPUs 0-3\n");
}

int main(void)
{
#define in_a_root(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_described_host_has_the_parts_described),
        cmocka_unit_test(distances_name_the_smallest_thing_that_holds_both),
        cmocka_unit_test(without_a_cache_nobody_shares_it),
        cmocka_unit_test(processes_are_spread_over_packages_then_nodes_then_caches),
        cmocka_unit_test(every_beginning_of_the_order_is_even_although_the_parts_are_not),
        in_a_root(nonsense_is_refused_and_named),
        in_a_root(a_host_is_read_from_its_files),
        in_a_root(without_files_every_usable_cpu_is_a_core),
        in_a_root(odd_files_do_no_harm),
        in_a_root(the_quota_is_the_smallest_on_the_way_up),
        in_a_root(the_quota_of_version_1_is_found_also_in_a_container),
        in_a_root(capacity_is_cores_or_quota),
        cmocka_unit_test(both_readers_see_the_same_host),
        cmocka_unit_test(loading_leaves_the_environment_and_the_affinity_alone),
        in_a_root(what_is_packed_is_unpacked),
        cmocka_unit_test(a_large_host_is_a_few_kilobytes),
        in_a_root(bytes_cut_short_or_too_long_are_refused),
        in_a_root(every_damaged_byte_is_refused_or_harmless),
        in_a_root(damage_is_told_by_kind),
        in_a_root(a_context_unpacks_what_was_handed_on_unless_it_is_damaged),
        in_a_root(drawings_show_what_there_is),
        in_a_root(a_drawing_without_knowledge_is_short),
    };
    return cmocka_run_group_tests_name("topology", tests, NULL, NULL);
}

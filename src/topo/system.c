/*
 * A host read from /sys (Documentation/ABI/stable/sysfs-devices-system-cpu, cputopology.rst): some files a CPU, each a
 * number or a list such as "0-3,8". What shares a thing is told by the list of its CPUs, whose first is taken as the
 * thing's identifier.
 */
#include "topo/found.h"

#include "base/error.h"
#include "topo/cluster.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 16384, LEVELS_MAX = 8 };

/* Reads a small file below root, without its last newline. False: not there, empty, or too long to be right. */
static bool read_text(char text[TEXT_BYTES], const char *root, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool read_text(char text[TEXT_BYTES], const char *root, const char *format, ...)
{
    char path[PATH_MAX];
    int prefix = snprintf(path, sizeof path, "%s", root);
    va_list arguments;
    va_start(arguments, format);
    int rest = vsnprintf(path + prefix, sizeof path - (size_t)prefix, format, arguments);
    va_end(arguments);
    if (rest < 0 || (size_t)prefix + (size_t)rest >= sizeof path)
        return false;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    ssize_t length = read(file, text, TEXT_BYTES - 1);
    close(file);
    if (length <= 0 || length == TEXT_BYTES - 1)
        return false;
    text[length - (text[length - 1] == '\n')] = '\0';
    return true;
}

/* Takes the numbers of a list such as "0-3,8" one range at a time; false at its end or at nonsense. */
static bool next_range(const char **text, uint32_t *first, uint32_t *last)
{
    char *end;
    if (!isdigit((unsigned char)**text))
        return false;
    unsigned long low = strtoul(*text, &end, 10), high = low;
    if (*end == '-' && isdigit((unsigned char)end[1]))
        high = strtoul(end + 1, &end, 10);
    *text = end + (*end == ',');
    if (low > high || low >= HKI_TOPOLOGY_PUS_MAX)
        return false;
    *first = (uint32_t)low;
    *last = high < HKI_TOPOLOGY_PUS_MAX ? (uint32_t)high : HKI_TOPOLOGY_PUS_MAX - 1;
    return true;
}

/* "32768K" or "1M" as bytes; 0 when it is neither. */
static uint64_t size_of(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);
    return *end == 'K' ? value << 10 : *end == 'M' ? value << 20 : *end == 'G' ? value << 30 : value;
}

/* ---------------------------------------------------------------------------------------------------------------
 * CPUs
 * ------------------------------------------------------------------------------------------------------------- */

/* The caches of a CPU that hold data: the last one at each level counts. */
static void read_caches(const char *root, hki_found_pu *pu)
{
    char text[TEXT_BYTES];
    for (int index = 0; index < LEVELS_MAX; index++) {
        if (!read_text(text, root, "/sys/devices/system/cpu/cpu%u/cache/index%d/level", pu->os, index))
            return;
        long level = strtol(text, NULL, 10);
        if ((level != 2 && level != 3) ||
            !read_text(text, root, "/sys/devices/system/cpu/cpu%u/cache/index%d/type", pu->os, index) ||
            strcmp(text, "Instruction") == 0)
            continue;
        uint32_t first, last;
        const char *list = text;
        if (!read_text(text, root, "/sys/devices/system/cpu/cpu%u/cache/index%d/shared_cpu_list", pu->os, index) ||
            !next_range(&list, &first, &last))
            first = pu->os;
        uint64_t bytes = 0;
        if (read_text(text, root, "/sys/devices/system/cpu/cpu%u/cache/index%d/size", pu->os, index))
            bytes = size_of(text);
        *(level == 2 ? &pu->l2 : &pu->l3) = first;
        *(level == 2 ? &pu->l2_bytes : &pu->l3_bytes) = bytes;
    }
}

static void read_cpu(const char *root, uint32_t cpu, const hki_cpus *usable, hki_found_pu *pu)
{
    char text[TEXT_BYTES];
    const char *list = text;
    uint32_t last;
    *pu = (hki_found_pu){.os = cpu,
                         .core = cpu,
                         .l2 = hki_found_none,
                         .l3 = hki_found_none,
                         .numa_os = HKI_TOPOLOGY_UNKNOWN_NODE,
                         .usable = hki_cpus_has(usable, cpu)};
    /* Kernels before 5.3 have the older name only. */
    if (read_text(text, root, "/sys/devices/system/cpu/cpu%u/topology/core_cpus_list", cpu) ||
        read_text(text, root, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu))
        next_range(&list, &pu->core, &last);
    /* Some virtual machines say -1. */
    if (read_text(text, root, "/sys/devices/system/cpu/cpu%u/topology/physical_package_id", cpu)) {
        long package = strtol(text, NULL, 10);
        pu->package = package > 0 ? (uint32_t)package : 0;
    }
    read_caches(root, pu);
}

/* ---------------------------------------------------------------------------------------------------------------
 * NUMA nodes
 * ------------------------------------------------------------------------------------------------------------- */

static uint64_t memory_of(const char *root, uint32_t node)
{
    char text[TEXT_BYTES];
    if (!read_text(text, root, "/sys/devices/system/node/node%u/meminfo", node))
        return 0;
    const char *total = strstr(text, "MemTotal:");
    return total ? strtoull(total + strlen("MemTotal:"), NULL, 10) << 10 : 0;
}

/* Gives the CPUs of a node to it; a node of memory alone changes nothing. */
static void read_node(const char *root, uint32_t node, hki_found_pu *found, size_t count)
{
    char text[TEXT_BYTES];
    const char *list = text;
    uint32_t first, last;
    if (!read_text(text, root, "/sys/devices/system/node/node%u/cpulist", node))
        return;
    uint64_t bytes = memory_of(root, node);
    while (next_range(&list, &first, &last)) {
        for (size_t i = 0; i < count; i++) {
            if (found[i].os < first || found[i].os > last)
                continue;
            found[i].numa = node;
            found[i].numa_os = node;
            found[i].numa_bytes = bytes;
        }
    }
}

static void read_nodes(const char *root, hki_found_pu *found, size_t count)
{
    char text[TEXT_BYTES];
    const char *list = text;
    uint32_t first, last;
    if (!read_text(text, root, "/sys/devices/system/node/online"))
        return;
    while (next_range(&list, &first, &last))
        for (uint32_t node = first; node <= last; node++)
            read_node(root, node, found, count);
}

/* ---------------------------------------------------------------------------------------------------------------
 * The host
 * ------------------------------------------------------------------------------------------------------------- */

/* The CPUs that are online, and all usable ones in any case: more than those cannot be told without /sys. */
static hki_topology_source list_cpus(const char *root, const hki_cpus *usable, hki_cpus *cpus)
{
    char text[TEXT_BYTES];
    const char *list = text;
    uint32_t first, last;
    bool told = read_text(text, root, "/sys/devices/system/cpu/online");
    *cpus = *usable;
    while (told && next_range(&list, &first, &last))
        for (uint32_t cpu = first; cpu <= last; cpu++)
            hki_cpus_add(cpus, cpu);
    return told ? HKI_TOPOLOGY_BY_SYSFS : HKI_TOPOLOGY_BY_AFFINITY;
}

hk_status hki_topology_load_below(const char *root, const hki_cpus *usable, hki_topology **topology)
{
    hki_cpus cpus;
    hki_topology_source source = list_cpus(root, usable, &cpus);
    hki_found_pu *found = calloc(HKI_TOPOLOGY_PUS_MAX, sizeof *found);
    if (!found)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for reading the topology of this host");
    size_t count = 0;
    for (uint32_t cpu = 0; cpu < HKI_TOPOLOGY_PUS_MAX; cpu++)
        if (hki_cpus_has(&cpus, cpu))
            read_cpu(root, cpu, usable, &found[count++]);
    read_nodes(root, found, count);
    hk_status status = hki_topology_make(found, count, source, topology);
    free(found);
    return status;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Little of it
 * ------------------------------------------------------------------------------------------------------------- */

static uint32_t first_of(const hki_cpus *cpus)
{
    uint32_t cpu = 0;
    while (cpu < HKI_TOPOLOGY_PUS_MAX && !hki_cpus_has(cpus, cpu))
        cpu++;
    return cpu;
}

/* The first CPU of a list that holds all of the set; HKI_TOPOLOGY_NO_CACHE when it does not. */
static uint16_t holder(const char *list, const hki_cpus *cpus)
{
    hki_cpus outside = *cpus;
    uint32_t first, last, lowest = HKI_TOPOLOGY_NO_CACHE;
    while (next_range(&list, &first, &last)) {
        lowest = first < lowest ? first : lowest;
        for (uint32_t cpu = first; cpu <= last; cpu++)
            hki_cpus_drop(&outside, cpu);
    }
    return first_of(&outside) == HKI_TOPOLOGY_PUS_MAX ? (uint16_t)lowest : HKI_TOPOLOGY_NO_CACHE;
}

/* Reads which CPUs share something with `cpu`, by the new or the old name of it. */
static uint16_t read_holder(const char *root, uint32_t cpu, const char *name, const char *old, const hki_cpus *cpus)
{
    char text[TEXT_BYTES];
    if (read_text(text, root, "/sys/devices/system/cpu/cpu%u/topology/%s", cpu, name) ||
        read_text(text, root, "/sys/devices/system/cpu/cpu%u/topology/%s", cpu, old))
        return holder(text, cpus);
    return HKI_TOPOLOGY_NO_CACHE;
}

static void read_cache_holders(const char *root, uint32_t cpu, const hki_cpus *cpus, hki_seat *seat)
{
    char text[TEXT_BYTES];
    for (int index = 0; index < LEVELS_MAX; index++) {
        if (!read_text(text, root, "/sys/devices/system/cpu/cpu%u/cache/index%d/level", cpu, index))
            return;
        uint16_t *cache = strcmp(text, "2") == 0 ? &seat->l2 : strcmp(text, "3") == 0 ? &seat->l3 : NULL;
        if (cache && read_text(text, root, "/sys/devices/system/cpu/cpu%u/cache/index%d/type", cpu, index) &&
            strcmp(text, "Instruction") != 0 &&
            read_text(text, root, "/sys/devices/system/cpu/cpu%u/cache/index%d/shared_cpu_list", cpu, index))
            *cache = holder(text, cpus);
    }
}

static uint16_t read_node_holder(const char *root, const hki_cpus *cpus)
{
    char text[TEXT_BYTES], nodes[TEXT_BYTES];
    const char *list = nodes;
    uint32_t first, last;
    if (!read_text(nodes, root, "/sys/devices/system/node/online"))
        return HKI_TOPOLOGY_NO_CACHE;
    while (next_range(&list, &first, &last))
        for (uint32_t node = first; node <= last; node++)
            if (read_text(text, root, "/sys/devices/system/node/node%u/cpulist", node) &&
                holder(text, cpus) != HKI_TOPOLOGY_NO_CACHE)
                return (uint16_t)node;
    return HKI_TOPOLOGY_NO_CACHE;
}

hki_seat hki_seat_read_below(const char *root, const hki_cpus *cpus)
{
    const uint16_t none = HKI_TOPOLOGY_NO_CACHE;
    uint32_t cpu = first_of(cpus);
    hki_seat seat = {.package = none, .numa = none, .l3 = none, .l2 = none, .core = none};
    if (cpu == HKI_TOPOLOGY_PUS_MAX)
        return seat;
    seat.package = read_holder(root, cpu, "package_cpus_list", "core_siblings_list", cpus);
    seat.core = read_holder(root, cpu, "core_cpus_list", "thread_siblings_list", cpus);
    seat.numa = read_node_holder(root, cpus);
    read_cache_holders(root, cpu, cpus, &seat);
    return seat;
}

hki_seat hki_seat_read(const hki_cpus *cpus)
{
    return hki_seat_read_below("", cpus);
}

uint32_t hki_topology_read_cores_below(const char *root, const hki_cpus *cpus)
{
    char text[TEXT_BYTES];
    hki_cpus left = *cpus;
    uint32_t cores = 0, first, last;
    for (uint32_t cpu = first_of(&left); cpu < HKI_TOPOLOGY_PUS_MAX; cpu = first_of(&left), cores++) {
        const char *list = text;
        bool told = read_text(text, root, "/sys/devices/system/cpu/cpu%u/topology/core_cpus_list", cpu) ||
                    read_text(text, root, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
        hki_cpus_drop(&left, cpu);
        while (told && next_range(&list, &first, &last))
            for (uint32_t other = first; other <= last; other++)
                hki_cpus_drop(&left, other);
    }
    return cores;
}

uint32_t hki_topology_read_cores(const hki_cpus *cpus)
{
    return hki_topology_read_cores_below("", cpus);
}

uint32_t hki_topology_read_numas_below(const char *root)
{
    char text[TEXT_BYTES];
    const char *list = text;
    uint32_t first, last, numas = 1;
    bool told = read_text(text, root, "/sys/devices/system/node/online");
    while (told && next_range(&list, &first, &last))
        numas = last + 1 > numas ? last + 1 : numas;
    return numas;
}

uint32_t hki_topology_read_numas(void)
{
    return hki_topology_read_numas_below("");
}

/* ---------------------------------------------------------------------------------------------------------------
 * Quota
 * ------------------------------------------------------------------------------------------------------------- */

/* Thousandths of a CPU from microseconds in a period; 0: no limit. */
static uint32_t thousandths(long quota, long period)
{
    if (quota <= 0 || period <= 0)
        return 0;
    uint64_t value = ((uint64_t)quota * 1000 + (uint64_t)period - 1) / (uint64_t)period;
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

/* The limit of one group of version 2 ("max 100000" or "150000 100000") or of version 1 (two files, -1: none). */
static uint32_t limit_of(const char *root, const char *mount, const char *path, bool second)
{
    char text[TEXT_BYTES], *end;
    if (second) {
        if (!read_text(text, root, "%s%s/cpu.max", mount, path))
            return 0;
        long quota = strtol(text, &end, 10);
        return end > text ? thousandths(quota, strtol(end, NULL, 10)) : 0;
    }
    if (!read_text(text, root, "%s%s/cpu.cfs_quota_us", mount, path))
        return 0;
    long quota = strtol(text, NULL, 10);
    return read_text(text, root, "%s%s/cpu.cfs_period_us", mount, path) ? thousandths(quota, strtol(text, NULL, 10))
                                                                        : 0;
}

static uint32_t smaller_limit(uint32_t left, uint32_t right)
{
    return left == 0 || (right > 0 && right < left) ? right : left;
}

/* The smallest limit of the group and all above it. A container may see its own group as the root of the mount while
 * path names it as the host does: what is not found there limits nothing, and the root is looked at in any case. */
static uint32_t limit_upwards(const char *root, const char *mount, char *path, bool second)
{
    uint32_t limit = 0;
    for (char *cut = path + strlen(path); cut; cut = strrchr(path, '/')) {
        *cut = '\0';
        limit = smaller_limit(limit, limit_of(root, mount, path, second));
    }
    return limit;
}

/* Whether a list "cpu,cpuacct" names the controller of CPU time. */
static bool names_cpu(const char *controllers, size_t length)
{
    for (const char *at = controllers, *end = controllers + length; at < end;) {
        size_t word = strcspn(at, ",:");
        if (word == 3 && memcmp(at, "cpu", 3) == 0)
            return true;
        at += word + 1;
    }
    return false;
}

uint32_t hki_topology_quota_below(const char *root)
{
    char text[TEXT_BYTES];
    uint32_t limit = 0;
    if (!read_text(text, root, "/proc/self/cgroup"))
        return 0;
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n"))) { /* number:controllers:path, without controllers in version 2 */
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        size_t length = (size_t)(path - controllers - 1);
        path++;
        char copy[TEXT_BYTES];
        memcpy(copy, path, strlen(path) + 1);
        if (length == 0) {
            limit = smaller_limit(limit, limit_upwards(root, "/sys/fs/cgroup", path, true));
            limit = smaller_limit(limit, limit_upwards(root, "/sys/fs/cgroup/unified", copy, true));
        } else if (names_cpu(controllers + 1, length)) {
            limit = smaller_limit(limit, limit_upwards(root, "/sys/fs/cgroup/cpu", path, false));
        }
    }
    return limit;
}

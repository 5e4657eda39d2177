/* A topology as text: one paragraph a package, one line for the cores below each L3, or each NUMA node without. */
#include "topo/topology.h"

static const char *plural(uint32_t count)
{
    return count == 1 ? "" : "s";
}

/* "32 MiB", "1.5 MiB", "512 KiB": at most one decimal. */
static void put_bytes(uint64_t bytes, FILE *file)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    double value = (double)bytes;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    double tenths = (double)(uint64_t)(value * 10 + 0.5) / 10;
    fprintf(file, "%g %s", tenths < 1000 ? tenths : (double)(uint64_t)(tenths + 0.5), units[unit]);
}

/* Which PUs are meant. */
typedef struct pu_range {
    uint32_t first, end; /* indices */
    int usable;          /* 0 or 1; -1: either */
} pu_range;

static bool in_range(const hki_topology *topology, pu_range range, uint32_t os)
{
    for (uint32_t i = range.first; i < range.end; i++)
        if (topology->pus[i].os == os)
            return range.usable < 0 || topology->pus[i].usable == range.usable;
    return false;
}

/* "0-3,8-11", by the system's numbers. */
static void put_list(const hki_topology *topology, pu_range range, FILE *file)
{
    const char *comma = "";
    for (uint32_t os = 0; os < HKI_TOPOLOGY_PUS_MAX; os++) {
        if (!in_range(topology, range, os))
            continue;
        uint32_t last = os;
        while (in_range(topology, range, last + 1))
            last++;
        fprintf(file, last > os ? "%s%u-%u" : "%s%u", comma, os, last);
        comma = ",";
        os = last;
    }
}

static uint32_t count_usable(const hki_topology *topology, pu_range range)
{
    uint32_t count = 0;
    for (uint32_t i = range.first; i < range.end; i++)
        count += topology->pus[i].usable;
    return count;
}

/* "8 cores, 8 L2 of 1 MiB, CPUs 0-7,64-71". In logical order, a number that differs from the last is another thing. */
static void draw_cores(const hki_topology *topology, pu_range range, FILE *file)
{
    const hki_pu *pus = topology->pus;
    uint32_t cores = 0, caches = 0;
    uint64_t smallest = UINT64_MAX, largest = 0;
    for (uint32_t i = range.first; i < range.end; i++) {
        cores += i == range.first || pus[i].core != pus[i - 1].core;
        if (pus[i].l2 == HKI_TOPOLOGY_NO_CACHE || (i > range.first && pus[i].l2 == pus[i - 1].l2))
            continue;
        uint64_t bytes = topology->l2_bytes[pus[i].l2];
        smallest = bytes < smallest ? bytes : smallest;
        largest = bytes > largest ? bytes : largest;
        caches++;
    }
    fprintf(file, "%u core%s", cores, plural(cores));
    if (caches > 0) {
        fprintf(file, ", %u L2 of ", caches);
        put_bytes(smallest, file);
    }
    if (caches > 0 && largest != smallest) {
        fprintf(file, " to ");
        put_bytes(largest, file);
    }
    fprintf(file, ", CPU%s ", plural(range.end - range.first));
    put_list(topology, range, file);
    uint32_t usable = count_usable(topology, range);
    if (usable == 0)
        fprintf(file, " (none usable)");
    if (usable > 0 && usable < range.end - range.first) {
        fprintf(file, " (usable ");
        range.usable = 1;
        put_list(topology, range, file);
        fprintf(file, ")");
    }
    fprintf(file, "\n");
}

static void draw_numa(const hki_topology *topology, const hki_pu *pu, FILE *file)
{
    const hki_numa_node *node = &topology->numas[pu->numa];
    if (node->os == HKI_TOPOLOGY_UNKNOWN_NODE)
        return;
    fprintf(file, "  NUMA node %u", node->os);
    if (node->bytes > 0) {
        fprintf(file, ", ");
        put_bytes(node->bytes, file);
    }
    fprintf(file, "\n");
}

static void draw_l3(const hki_topology *topology, const hki_pu *pu, FILE *file)
{
    fprintf(file, "    ");
    if (pu->l3 == HKI_TOPOLOGY_NO_CACHE)
        return;
    fprintf(file, "L3 of ");
    put_bytes(topology->l3_bytes[pu->l3], file);
    fprintf(file, ": ");
}

static void draw_head(const hki_topology *topology, FILE *file)
{
    static const char *const sources[HKI_TOPOLOGY_SOURCES] = {"hwloc", "/sys", "the affinity mask"};
    uint32_t cores = hki_topology_usable_cores(topology), pus = hki_topology_usable_pus(topology);
    fprintf(file, "%u package%s, %u NUMA node%s, %u core%s, %u CPU%s; read from %s\n", topology->package_count,
            plural(topology->package_count), topology->numa_count, plural(topology->numa_count), topology->core_count,
            plural(topology->core_count), topology->pu_count, plural(topology->pu_count), sources[topology->source]);
    fprintf(file, "usable: %u core%s, %u CPU%s", cores, plural(cores), pus, plural(pus));
    if (topology->quota > 0)
        fprintf(file, "; quota: the time of %g CPU%s", topology->quota / 1000.0, topology->quota == 1000 ? "" : "s");
    fprintf(file, "\n");
}

void hki_topology_draw(const hki_topology *topology, FILE *file)
{
    const hki_pu *pus = topology->pus;
    draw_head(topology, file);
    for (uint32_t first = 0, end; first < topology->pu_count; first = end) {
        const hki_pu *pu = &pus[first], *before = first > 0 ? pu - 1 : NULL;
        end = first + 1;
        while (end < topology->pu_count && pus[end].package == pu->package && pus[end].numa == pu->numa &&
               pus[end].l3 == pu->l3)
            end++;
        if (!before || before->package != pu->package)
            fprintf(file, "package %u\n", pu->package);
        if (!before || before->package != pu->package || before->numa != pu->numa)
            draw_numa(topology, pu, file);
        draw_l3(topology, pu, file);
        draw_cores(topology, (pu_range){first, end, -1}, file);
    }
}

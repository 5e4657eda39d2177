#include "topo/topology.h"

#include "base/error.h"
#include "base/log.h"
#include "topo/found.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(HKI_TOPOLOGY_PUS_MAX % (8 * sizeof(unsigned long)) == 0, "an affinity mask is made of whole words");

/* ---------------------------------------------------------------------------------------------------------------
 * Making
 * ------------------------------------------------------------------------------------------------------------- */

hki_topology *hki_topology_new(const hki_topology *counts)
{
    hki_topology *made = malloc(sizeof *made);
    if (!made)
        return NULL;
    *made = *counts;
    made->pus = calloc(made->pu_count + 1, sizeof *made->pus);
    made->numas = calloc(made->numa_count + 1, sizeof *made->numas);
    made->l3_bytes = calloc(made->l3_count + 1, sizeof *made->l3_bytes);
    made->l2_bytes = calloc(made->l2_count + 1, sizeof *made->l2_bytes);
    if (made->pus && made->numas && made->l3_bytes && made->l2_bytes)
        return made;
    hki_topology_free(made);
    return NULL;
}

void hki_topology_free(hki_topology *topology)
{
    if (!topology)
        return;
    free(topology->pus);
    free(topology->numas);
    free(topology->l3_bytes);
    free(topology->l2_bytes);
    free(topology);
}

static int compare_numbers(uint32_t left, uint32_t right)
{
    return (left > right) - (left < right);
}

static int compare_found(const void *left_pu, const void *right_pu)
{
    const hki_found_pu *left = left_pu, *right = right_pu;
    int order = compare_numbers(left->package, right->package);
    order = order ? order : compare_numbers(left->numa, right->numa);
    order = order ? order : compare_numbers(left->l3, right->l3);
    order = order ? order : compare_numbers(left->l2, right->l2);
    order = order ? order : compare_numbers(left->core, right->core);
    return order ? order : compare_numbers(left->os, right->os);
}

/* The identifiers of one kind met so far: each one's place is its number. */
typedef struct seen {
    uint32_t *identifiers, count;
} seen;

/* The number of an identifier, the next free one if it is new. Neighbours mostly share, so the search starts at the
 * end. */
static uint16_t number_of(seen *kind, uint32_t identifier)
{
    if (identifier == hki_found_none)
        return HKI_TOPOLOGY_NO_CACHE;
    for (uint32_t i = kind->count; i-- > 0;)
        if (kind->identifiers[i] == identifier)
            return (uint16_t)i;
    kind->identifiers[kind->count] = identifier;
    return (uint16_t)kind->count++;
}

enum { PACKAGE, NUMA, L3, L2, CORE, KINDS };

/* Fills made, which has room for `count` of everything, from the sorted PUs. */
static void number_all(const hki_found_pu *found, size_t count, seen kinds[KINDS], hki_topology *made)
{
    for (size_t i = 0; i < count; i++) {
        hki_pu *pu = &made->pus[i];
        *pu = (hki_pu){.os = (uint16_t)found[i].os,
                       .package = number_of(&kinds[PACKAGE], found[i].package),
                       .numa = number_of(&kinds[NUMA], found[i].numa),
                       .l3 = number_of(&kinds[L3], found[i].l3),
                       .l2 = number_of(&kinds[L2], found[i].l2),
                       .core = number_of(&kinds[CORE], found[i].core),
                       .usable = found[i].usable};
        made->numas[pu->numa] = (hki_numa_node){(uint16_t)found[i].numa_os, found[i].numa_bytes};
        if (pu->l3 != HKI_TOPOLOGY_NO_CACHE)
            made->l3_bytes[pu->l3] = found[i].l3_bytes;
        if (pu->l2 != HKI_TOPOLOGY_NO_CACHE)
            made->l2_bytes[pu->l2] = found[i].l2_bytes;
    }
    made->package_count = kinds[PACKAGE].count;
    made->numa_count = kinds[NUMA].count;
    made->l3_count = kinds[L3].count;
    made->l2_count = kinds[L2].count;
    made->core_count = kinds[CORE].count;
}

hk_status hki_topology_make(hki_found_pu *found, size_t count, hki_topology_source source, hki_topology **made)
{
    uint32_t all = (uint32_t)count;
    hki_topology room = {.source = source, .pu_count = all, .numa_count = all, .l3_count = all, .l2_count = all};
    hki_topology *topology = hki_topology_new(&room);
    uint32_t *identifiers = malloc((count + 1) * KINDS * sizeof *identifiers);
    if (!topology || !identifiers) {
        free(identifiers);
        hki_topology_free(topology);
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a topology of %zu hardware threads", count);
    }
    seen kinds[KINDS];
    for (int kind = 0; kind < KINDS; kind++)
        kinds[kind] = (seen){.identifiers = identifiers + (size_t)kind * count};
    qsort(found, count, sizeof *found, compare_found);
    number_all(found, count, kinds, topology);
    free(identifiers);
    *made = topology;
    return HK_OK;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Loading
 * ------------------------------------------------------------------------------------------------------------- */

hk_status hki_cpus_usable(hki_cpus *cpus)
{
    union {
        cpu_set_t set;
        unsigned long words[HKI_TOPOLOGY_PUS_MAX / (8 * sizeof(unsigned long))];
    } mask;
    if (sched_getaffinity(0, sizeof mask, &mask.set) != 0)
        return hki_error_errno(HK_ERR_SYSTEM, errno, "cannot get the CPUs that this process may use");
    memset(cpus, 0, sizeof *cpus);
    for (uint32_t cpu = 0; cpu < HKI_TOPOLOGY_PUS_MAX; cpu++)
        if (CPU_ISSET_S(cpu, sizeof mask, &mask.set))
            hki_cpus_add(cpus, cpu);
    return HK_OK;
}

bool hki_topology_holds(const hki_topology *topology, const hki_cpus *cpus)
{
    hki_cpus left = *cpus;
    for (uint32_t i = 0; i < topology->pu_count; i++) {
        uint32_t cpu = topology->pus[i].os;
        hki_cpus_drop(&left, cpu);
    }
    static const hki_cpus none;
    return memcmp(&left, &none, sizeof none) == 0;
}

hk_status hki_topology_load_system(hki_topology **topology)
{
    hki_cpus usable;
    HK_TRY(hki_cpus_usable(&usable));
    HK_TRY(hki_topology_load_below("", &usable, topology));
    (*topology)->quota = hki_topology_quota();
    return HK_OK;
}

hk_status hki_topology_load(hki_topology **topology)
{
    hki_cpus usable;
    HK_TRY(hki_cpus_usable(&usable));
    hki_topology *loaded;
    hk_status status = hki_topology_load_hwloc(&usable, &loaded);
    if (status == HK_OK && !hki_topology_holds(loaded, &usable)) {
        hki_topology_free(loaded);
        status = hki_error(HK_ERR_UNSUPPORTED, "hwloc does not know all CPUs that this process may use");
    }
    if (status != HK_OK) {
        hki_log(HK_LOG_DEBUG, "topology is read from /sys: %s", hk_last_error());
        return hki_topology_load_system(topology);
    }
    loaded->quota = hki_topology_quota();
    *topology = loaded;
    return HK_OK;
}

uint32_t hki_topology_quota(void)
{
    return hki_topology_quota_below("");
}

/* ---------------------------------------------------------------------------------------------------------------
 * Questions
 * ------------------------------------------------------------------------------------------------------------- */

static bool share_cache(uint16_t left, uint16_t right)
{
    return left == right && left != HKI_TOPOLOGY_NO_CACHE;
}

hki_distance hki_topology_distance(const hki_topology *topology, uint32_t left, uint32_t right)
{
    const hki_pu *a = &topology->pus[left], *b = &topology->pus[right];
    if (a->core == b->core)
        return HKI_DISTANCE_CORE;
    if (share_cache(a->l2, b->l2))
        return HKI_DISTANCE_L2;
    if (share_cache(a->l3, b->l3))
        return HKI_DISTANCE_L3;
    if (a->numa == b->numa)
        return HKI_DISTANCE_NUMA;
    return a->package == b->package ? HKI_DISTANCE_PACKAGE : HKI_DISTANCE_HOST;
}

const char *hki_distance_name(hki_distance distance)
{
    static const char *const names[HKI_DISTANCES] = {"same core",      "same L2",      "same L3",
                                                     "same NUMA node", "same package", "same host"};
    return distance < HKI_DISTANCES ? names[distance] : "?";
}

uint32_t hki_topology_find(const hki_topology *topology, uint32_t os)
{
    uint32_t i = 0;
    while (i < topology->pu_count && topology->pus[i].os != os)
        i++;
    return i;
}

uint32_t hki_topology_usable_pus(const hki_topology *topology)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < topology->pu_count; i++)
        count += topology->pus[i].usable;
    return count;
}

uint32_t hki_topology_cores_of(const hki_topology *topology, const hki_cpus *cpus)
{
    bool counted[HKI_TOPOLOGY_PUS_MAX] = {false};
    uint32_t count = 0;
    for (uint32_t i = 0; i < topology->pu_count; i++) {
        const hki_pu *pu = &topology->pus[i];
        bool member = hki_cpus_has(cpus, pu->os);
        count += member && !counted[pu->core];
        counted[pu->core] |= member;
    }
    return count;
}

uint32_t hki_topology_usable_cores(const hki_topology *topology)
{
    hki_cpus usable = {{0}};
    for (uint32_t i = 0; i < topology->pu_count; i++)
        if (topology->pus[i].usable)
            hki_cpus_add(&usable, topology->pus[i].os);
    return hki_topology_cores_of(topology, &usable);
}

uint32_t hki_topology_capacity(const hki_topology *topology)
{
    uint32_t cores = hki_topology_usable_cores(topology);
    uint32_t quota = topology->quota / 1000 + (topology->quota % 1000 > 0);
    uint32_t capacity = quota > 0 && quota < cores ? quota : cores;
    return capacity > 0 ? capacity : 1;
}

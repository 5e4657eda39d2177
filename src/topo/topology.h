/*
 * What one host is made of, as far as processes on it care: packages, NUMA nodes, shared caches, cores, and their
 * hardware threads (PUs). A plain value without pointers into anything else, so that one process of a host can read it
 * and hand it to the others as a few kilobytes.
 *
 * PUs are in *logical order*: by package, NUMA node, L3, L2, core, and the system's number. Packages, NUMA nodes,
 * caches and cores are numbered from 0 as they first appear in that order, whatever the system calls them. A PU is
 * *usable* when this process may run on it.
 */
#ifndef HKI_TOPO_TOPOLOGY_H
#define HKI_TOPO_TOPOLOGY_H

#include "topo/nics.h"

#include <hocket/hocket.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    HKI_TOPOLOGY_PUS_MAX = 8192,       /* what an affinity mask is made for */
    HKI_TOPOLOGY_NO_CACHE = 0xffff,    /* l2 or l3 of a PU that has none */
    HKI_TOPOLOGY_UNKNOWN_NODE = 0xffff /* system's number of a NUMA node that the system does not name */
};

typedef enum hki_topology_source {
    HKI_TOPOLOGY_BY_HWLOC,
    HKI_TOPOLOGY_BY_SYSFS,
    HKI_TOPOLOGY_BY_AFFINITY, /* nothing is known but which CPUs there are */
    HKI_TOPOLOGY_SOURCES
} hki_topology_source;

typedef struct hki_pu {
    uint16_t os; /* the system's number: what an affinity mask counts */
    uint16_t package, numa, l3, l2, core;
    bool usable;
} hki_pu;

typedef struct hki_numa_node {
    uint16_t os;
    uint64_t bytes; /* of memory; 0: not known */
} hki_numa_node;

typedef struct hki_topology {
    hki_topology_source source;
    uint32_t quota; /* thousandths of a CPU's time that the cgroup allows all its processes together; 0 = no limit */
    uint32_t pu_count, package_count, numa_count, l3_count, l2_count, core_count;
    hki_pu *pus;
    hki_numa_node *numas;
    uint64_t *l3_bytes, *l2_bytes; /* size of each cache; 0: not known */
} hki_topology;

/* A set of CPUs, by the system's numbers. */
typedef struct hki_cpus {
    unsigned char bits[HKI_TOPOLOGY_PUS_MAX / 8];
} hki_cpus;

static inline bool hki_cpus_has(const hki_cpus *cpus, uint32_t cpu)
{
    return cpu < HKI_TOPOLOGY_PUS_MAX && (cpus->bits[cpu / 8] >> cpu % 8 & 1);
}

static inline void hki_cpus_add(hki_cpus *cpus, uint32_t cpu)
{
    if (cpu < HKI_TOPOLOGY_PUS_MAX)
        cpus->bits[cpu / 8] = (unsigned char)(cpus->bits[cpu / 8] | 1u << cpu % 8);
}

static inline void hki_cpus_drop(hki_cpus *cpus, uint32_t cpu)
{
    if (cpu < HKI_TOPOLOGY_PUS_MAX)
        cpus->bits[cpu / 8] = (unsigned char)(cpus->bits[cpu / 8] & ~(1u << cpu % 8));
}

/* Where this thread may run. HK_ERR_SYSTEM. */
hk_status hki_cpus_usable(hki_cpus *cpus);
/* Reads this host through hwloc when this build and the host have it, else from /sys. For programs, not for a library
 * inside one: hwloc reads the environment, which is changed meanwhile, so no other thread may run. hwloc is loaded for
 * the call alone. HK_ERR_NO_MEMORY, HK_ERR_SYSTEM (no affinity mask). */
hk_status hki_topology_load(hki_topology **topology);
/* Reads this host from /sys and nothing else: silent, no library loaded, threads may run. What /sys does not tell is
 * left out; without it every usable CPU is a core of its own. HK_ERR_NO_MEMORY, HK_ERR_SYSTEM. */
hk_status hki_topology_load_system(hki_topology **topology);
/* Some host's topology from a file that `lstopo file.xml` wrote, or from hwloc's synthetic description ("package:2
 * core:4 pu:2"). Usable is what was allowed there; no quota. Same conditions as hki_topology_load; a child process
 * reads it, since hwloc crashes on damaged files. HK_ERR_UNSUPPORTED (no hwloc), HK_ERR_ARGUMENT (not readable,
 * nonsense, too large, or takes longer than 10 s; names it), HK_ERR_NO_MEMORY, HK_ERR_SYSTEM (no process). */
hk_status hki_topology_load_xml(const char *path, hki_topology **topology);
hk_status hki_topology_load_synthetic(const char *description, hki_topology **topology);
void hki_topology_free(hki_topology *topology);

/* Thousandths of a CPU that this process's cgroup and those above it allow at most; 0 = no limit. Version 1 and 2. */
uint32_t hki_topology_quota(void);

/* --- as bytes -------------------------------------------------------------------------------------------------------
 */

/* Writes the topology to newly allocated *packed, the same bytes for the same topology. HK_ERR_NO_MEMORY. */
hk_status hki_topology_pack(const hki_topology *topology, void **packed, size_t *bytes);
/* Reads what hki_topology_pack wrote, from anywhere: every byte is checked. HK_ERR_ARGUMENT (says what is wrong with
 * them), HK_ERR_NO_MEMORY. */
hk_status hki_topology_unpack(const void *packed, size_t bytes, hki_topology **topology);

/* --- questions ------------------------------------------------------------------------------------------------------
 */

/* How far apart two PUs are: the smallest thing that holds both. */
typedef enum hki_distance {
    HKI_DISTANCE_CORE, /* or the same PU */
    HKI_DISTANCE_L2,
    HKI_DISTANCE_L3,
    HKI_DISTANCE_NUMA,
    HKI_DISTANCE_PACKAGE,
    HKI_DISTANCE_HOST,
    HKI_DISTANCES
} hki_distance;

/* Both are indices into pus. */
hki_distance hki_topology_distance(const hki_topology *topology, uint32_t left, uint32_t right);
/* "same L3" and the like. */
const char *hki_distance_name(hki_distance distance);
/* Whether every one of these CPUs is a PU of the topology. */
bool hki_topology_holds(const hki_topology *topology, const hki_cpus *cpus);
/* Index into pus of the system's CPU; pu_count when there is none. */
uint32_t hki_topology_find(const hki_topology *topology, uint32_t os);
/* Cores with a usable PU; usable PUs. */
uint32_t hki_topology_usable_cores(const hki_topology *topology);
uint32_t hki_topology_usable_pus(const hki_topology *topology);
/* Cores with a PU among these. */
uint32_t hki_topology_cores_of(const hki_topology *topology, const hki_cpus *cpus);
/* Two numbers that can be read from /sys much faster than all of a host: cores with a CPU among these, and how far NUMA
 * nodes are numbered (at least 1). */
uint32_t hki_topology_read_cores(const hki_cpus *cpus);
uint32_t hki_topology_read_numas(void);
/* Processes that can run at full speed at once: usable cores, or what the quota allows if that is less; at least 1. */
uint32_t hki_topology_capacity(const hki_topology *topology);

/* Usable PUs in the order in which to give them out, as indices into pus (room for pu_count); *ordered of them. One of
 * each core comes before the second of any. Within that every beginning of the list is spread as evenly as can be: over
 * packages, in each over its NUMA nodes, then L3s, then L2s, so that few processes have most memory bandwidth and cache
 * each. HK_ERR_NO_MEMORY. */
hk_status hki_topology_order(const hki_topology *topology, uint32_t *order, uint32_t *ordered);

/* Draws it for people, as indented lines. */
void hki_topology_draw(const hki_topology *topology, FILE *file);
/* The same as a picture (SVG): packages, NUMA nodes, caches and cores as boxes within boxes, and NICs, if given.
 * HK_ERR_NO_MEMORY. */
hk_status hki_topology_picture(const hki_topology *topology, const hki_nics *nics, const char *title, FILE *file);

#endif

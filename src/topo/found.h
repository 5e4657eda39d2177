/* What the readers (system.c, with_hwloc.c) have in common: PUs as they are found, with any identifiers, become a
 * topology in logical order. */
#ifndef HKI_TOPO_FOUND_H
#define HKI_TOPO_FOUND_H

#include "topo/topology.h"

static const uint32_t hki_found_none = UINT32_MAX; /* no such cache */

/* Identifiers tell things of one kind apart on the whole host, and order them; two PUs with equal ones share the thing.
 */
typedef struct hki_found_pu {
    uint32_t os, package, numa, l3, l2, core;
    uint64_t l3_bytes, l2_bytes, numa_bytes;
    uint32_t numa_os; /* HKI_TOPOLOGY_UNKNOWN_NODE: not known */
    bool usable;
} hki_found_pu;

/* Sorts found, which has at most HKI_TOPOLOGY_PUS_MAX PUs, and makes a topology of it. HK_ERR_NO_MEMORY. */
hk_status hki_topology_make(hki_found_pu *found, size_t count, hki_topology_source source, hki_topology **made);
/* One with the counts of *counts, and arrays for them with zeroes. NULL: no memory. */
hki_topology *hki_topology_new(const hki_topology *counts);

/* This host through hwloc, with these usable. HK_ERR_UNSUPPORTED when there is no hwloc, HK_ERR_NO_MEMORY. */
hk_status hki_topology_load_hwloc(const hki_cpus *usable, hki_topology **topology);
/* hki_topology_load_xml and hki_topology_load_synthetic by this process itself, which may crash. */
hk_status hki_topology_load_xml_here(const char *path, hki_topology **topology);
hk_status hki_topology_load_synthetic_here(const char *description, hki_topology **topology);
/* Has a child process load from something, in case that crashes or takes so many seconds: HK_ERR_ARGUMENT, naming it.
 * What the loader finds is passed on, errors included. */
typedef hk_status hki_topology_loader(const char *from, hki_topology **topology);
hk_status hki_topology_load_apart(hki_topology_loader *load, const char *from, int seconds, hki_topology **topology);
/* The same from /sys below a root, which is "" but in tests. HK_ERR_NO_MEMORY. */
hk_status hki_topology_load_below(const char *root, const hki_cpus *usable, hki_topology **topology);
uint32_t hki_topology_quota_below(const char *root);
uint32_t hki_topology_read_cores_below(const char *root, const hki_cpus *cpus);
uint32_t hki_topology_read_numas_below(const char *root);

#endif

/*
 * Flows that share resources: each has the least of its own rate and of an equal share of everything that it passes, at
 * every moment anew. Times in picoseconds; rates as picoseconds per KiB.
 */
#ifndef HKI_COST_FLOWS_H
#define HKI_COST_FLOWS_H

#include "cost/figures.h"

typedef struct hki_flow {
    uint64_t left;            /* bytes · 2^20 that are still to pass, as of `since` */
    uint64_t since;           /* moves from then on */
    uint64_t own_ps, pace_ps; /* per KiB: alone, and now */
    uint32_t owner;           /* the caller's number of it */
    uint32_t version;         /* of its end */
    uint32_t resources[HKI_ROUTE_MOST], places[HKI_ROUTE_MOST]; /* what it passes, and its place in their lists */
    uint32_t resource_count;
    bool dirty; /* its end is to be worked out again */
} hki_flow;

typedef struct hki_shared {
    uint64_t full_ps; /* per KiB when it is alone; 0: as the flow's own */
    uint32_t *flows;
    uint32_t count, capacity;
} hki_shared;

typedef struct hki_flows {
    const hki_cluster *cluster;
    hki_shared *shared; /* by resource of the cluster */
    uint32_t shared_count;
    hki_flow *flows;
    uint32_t *spare; /* slots that are free */
    uint32_t *dirty; /* flows whose pace may have changed */
    uint32_t capacity, spare_count, dirty_count;
} hki_flows;

/* At most `most` flows at a time. HK_ERR_NO_MEMORY. */
hk_status hki_flows_open(hki_flows *flows, const hki_cluster *cluster, const hki_figures *figures, uint32_t most);
void hki_flows_close(hki_flows *flows);
/* Begins at `begin`, and is in the way of others from now on. Returns its slot; UINT32_MAX: no memory. */
uint32_t hki_flows_start(hki_flows *flows, uint32_t from, uint32_t to, uint64_t bytes, uint64_t own_ps, uint64_t begin,
                         uint32_t owner);
void hki_flows_end(hki_flows *flows, uint32_t slot);
/* A flow whose end has changed by what began or ended at `now`: its slot and new end; false: no more. To be asked after
 * all that happens at one moment. */
bool hki_flows_changed(hki_flows *flows, uint64_t now, uint32_t *slot, uint64_t *end);

#endif

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
    uint32_t resources[HKI_ROUTE_MOST], places[HKI_ROUTE_MOST]; /* what it passes, and its place in their lists */
    uint32_t resource_count;
    bool dirty; /* its end is to be worked out again */
} hki_flow;

/* When a flow ends as things stand; at UINT64_MAX: it is not known yet, or there is no flow. Of those that end at one
 * moment the least order, which is when that was found, is first. */
typedef struct hki_flow_end {
    uint64_t at, order;
} hki_flow_end;

typedef struct hki_shared {
    uint64_t full_ps;  /* per KiB when it is alone; 0: as the flow's own */
    uint64_t least_ps; /* per KiB: no flow that has passed is quicker by itself */
    uint32_t *flows;
    uint32_t count, capacity;
} hki_shared;

typedef struct hki_flows {
    const hki_cluster *cluster;
    const uint32_t *instead; /* by resource, what is passed in its place (see period.h); NULL: nothing. The caller's */
    hki_shared *shared;      /* by resource of the cluster */
    uint32_t shared_count;
    hki_flow *flows;
    uint32_t *spare; /* slots that are free */
    uint32_t *dirty; /* flows whose pace may have changed */
    uint32_t capacity, spare_count, dirty_count;
    uint32_t used;      /* slots from here on have never had a flow */
    hki_flow_end *ends; /* by slot */
    uint32_t *first;    /* by HKI_FLOW_BLOCK slots: the one that ends first; UINT32_MAX: to be looked for again */
    uint32_t soonest;   /* of all, if that is known */
    bool soonest_known;
} hki_flows;

/* What changes makes one block be looked through again, and all blocks once: with a few thousand flows at most, that is
 * quicker than a heap in which most ends move whenever a flow of a crowded memory comes or goes. */
enum { HKI_FLOW_BLOCK = 16 };

/* At most `most` flows at a time. HK_ERR_NO_MEMORY. */
hk_status hki_flows_open(hki_flows *flows, const hki_cluster *cluster, const hki_figures *figures, uint32_t most);
void hki_flows_close(hki_flows *flows);
/* As they were when opened: nothing of what flowed is left. */
void hki_flows_reset(hki_flows *flows);
/* Begins at `begin`, and is in the way of others from now on. Returns its slot; UINT32_MAX: no memory. */
uint32_t hki_flows_start(hki_flows *flows, uint32_t from, uint32_t to, uint64_t bytes, uint64_t own_ps, uint64_t begin,
                         uint32_t owner);
void hki_flows_end(hki_flows *flows, uint32_t slot);
/* Finds the ends that have changed by what began or ended at `now`, which get the next orders. To be asked after all
 * that happens at one moment. */
void hki_flows_settle(hki_flows *flows, uint64_t now, uint64_t *order);
/* The slot of the flow that ends first; UINT32_MAX: there is none. */
uint32_t hki_flows_first(hki_flows *flows);

#endif

/* Walks traces in the order of time, by the rules in price.h. */
#ifndef HKI_COST_WALK_H
#define HKI_COST_WALK_H

#include "cost/price.h"
#include "cost/trace.h"

/* What a message meets on its way: for walks of some ranks that stand for all. By step; only sends are looked at. Link
 * and crowd are the worst of all ranks' n-th messages, for which the others wait; latencies add up along chains of
 * messages, which take other links in turn, so their mean counts. */
enum { HKI_PATH_PARTS = 1024 };
typedef struct hki_path {
    uint64_t hops_ps;                 /* of the switches between: the mean */
    uint64_t crowd_ps;                /* per KiB at the least, since others pass the same at the same time */
    uint32_t crowd;                   /* so many share a NIC that carries what one link does */
    uint16_t parts[HKI_LINK_CLASSES]; /* of HKI_PATH_PARTS messages, so many take each kind of link */
    uint8_t link;                     /* hki_link_class of the slowest */
} hki_path;

/* Walks one after the other, which use the same memory. cluster and figures are borrowed; models of walks name the
 * same, or these in bulk. HK_ERR_NO_MEMORY. */
typedef struct hki_walker hki_walker;
hk_status hki_walker_new(const hki_cluster *cluster, const hki_figures *figures, hki_walker **walker);
void hki_walker_free(hki_walker *walker);

/* Walks all steps. `bytes`: of each step; mean: see hki_traces_measure. paths: NULL when all ranks are traced; links
 * are then found in the cluster, and flows share resources as they meet; so they do where the first part of a cluster
 * is traced, with resources of its own `instead` of others (see period.h; else NULL). Beyond limit_ps a walk is given
 * up: the price is HKI_PRICE_BEYOND and nothing else. HK_ERR_NO_MEMORY; HK_ERR_INTERNAL when steps wait for each other
 * for ever. */
hk_status hki_walk(hki_walker *walker, const hki_model *model, const hki_traces *traces, const uint64_t *bytes,
                   const uint64_t *mean, const hki_path *paths, const uint32_t *instead, uint64_t limit_ps,
                   hki_price *price);

#endif

/*
 * Clusters that repeat themselves: the same hosts below every child of the one root switch, each with ranks at the same
 * places, numbered one part after another. Where every rank of such a cluster does what the rank of the same place in
 * the first part does, with peers as many parts further on, the first part tells what all do.
 */
#ifndef HKI_COST_PERIOD_H
#define HKI_COST_PERIOD_H

#include "topo/cluster.h"

typedef struct hki_period {
    uint32_t ranks;      /* of a part, the first 0 … ranks - 1; 0: the cluster does not repeat itself */
    uint32_t *resources; /* by resource: the one of the first part that is at the same place, or itself */
} hki_period;

/* Finds the least part. HK_ERR_NO_MEMORY. To be closed. */
hk_status hki_period_open(const hki_cluster *cluster, hki_period *period);
void hki_period_close(hki_period *period);

#endif

/*
 * What a call takes by an algorithm at the least, told by the schedules of a few ranks: for how long bytes occupy the
 * busiest of their ways and cores, and their host's NICs. Nothing is walked, so that it costs a fraction of a price.
 */
#ifndef HKI_COST_LOWER_BOUND_H
#define HKI_COST_LOWER_BOUND_H

#include "cost/price.h"

typedef struct hki_lower_bound {
    uint64_t least_ps; /* 0: it cannot be told */
    uint64_t chain_ps; /* the same, of rounds that wait for one another */
    uint64_t steps;    /* that all ranks make, about */
} hki_lower_bound;

/* By the algorithm in one segment; where it is segmented, with the least figures of every link, so that it holds for
 * more segments too if those send no less. writer: as of hki_algorithm_look. HK_ERR_NO_MEMORY. */
hk_status hki_lower_bound_find(const hki_model *model, const hki_algorithm *algorithm, const hki_call *call,
                               uint64_t bytes, hki_builder **writer, hki_lower_bound *result);

/* What the bytes that any algorithm has to move take to pass the one memory that there is, or the NICs of the host that
 * has most to send or to take in. 0: nothing is known of either. */
uint64_t hki_lower_bound_of_any(const hki_model *model, const hki_call *call, uint64_t bytes);

#endif

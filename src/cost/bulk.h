/*
 * Bulk: calls with so much data that the caches of a host do not hold them. What counts is all data of
 * the ranks that share a cache, not the length of a message: a call in many short segments reads and writes memory as
 * well.
 */
#ifndef HKI_COST_BULK_H
#define HKI_COST_BULK_H

#include "algo/algo.h"
#include "cost/figures.h"

/* Bytes of input and output, on the average of ranks, of a call of `bytes` bytes (as hki_select counts them). What an
 * algorithm keeps aside is left out: pipelines use the same little of it again and again. */
uint64_t hki_bulk_data(hki_collective collective, uint32_t ranks, uint64_t bytes);
/* The most ranks of the cluster that share a last cache. HK_ERR_NO_MEMORY. */
hk_status hki_bulk_sharers(const hki_cluster *cluster, uint32_t *sharers);
/* What of its bulk figures a link adds for so many bytes of data behind one cache, in 1/1024: 0 … 1024. */
uint32_t hki_bulk_part(const hki_bulk_figures *bulk, uint64_t data);
/* Figures with what `data` bytes behind one cache add to them: `figures` itself where that is nothing, else `room`. */
const hki_figures *hki_bulk_figures_for(const hki_figures *figures, uint64_t data, hki_figures *room);

#endif

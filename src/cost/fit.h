/*
 * Figures from measurements: α and β per range of sizes, piecewise by least squares. Errors count relative to the time,
 * so that 1 % of a microsecond weighs as much as 1 % of a millisecond. Break points are those that fit best, and as few
 * as explain the measurements (Schwarz's criterion); where messages begin to wait for their receiver is always one.
 */
#ifndef HKI_COST_FIT_H
#define HKI_COST_FIT_H

#include "cost/tuning.h"

enum { HKI_FIT_SAMPLES_MOST = 256 };

/* Medians of one size. Picoseconds; 0: not measured. */
typedef struct hki_fit_sample {
    uint64_t bytes;
    uint64_t one_way_ps;  /* a message from one rank to the other: half of a ping-pong */
    uint64_t exchange_ps; /* one each way at the same time */
    uint64_t gap_ps;      /* between messages that are sent one after another without an answer */
} hki_fit_sample;

/* Fits a kind of link to samples of growing size, in at most HKI_FIGURE_RANGES ranges. eager: messages of more bytes
 * move only once the receiver has asked. core_ps follows from exchanges, overhead_ps from gaps; where those were not
 * measured it is 0 and half of α. HK_ERR_ARGUMENT: fewer than three samples or too many, sizes that do not grow, or no
 * time. */
hk_status hki_fit_link(const hki_fit_sample *samples, uint32_t count, uint64_t eager, hki_link_figures *figures,
                       hki_fit_quality quality[HKI_FIGURE_RANGES]);

/* Medians of messages of one size, long enough for their bytes to be all that counts. */
typedef struct hki_bulk_sample {
    uint64_t data; /* of both ranks, if they share a cache: see bulk.h */
    uint64_t bytes;
    uint64_t one_way_ps, exchange_ps;
} hki_bulk_sample;

/* Fits bulk figures of a link, whose ranges are there, to samples of growing data, the first of which are little enough
 * for caches. The bulk figures stay if there are fewer than two samples; they become zero if bulk takes no longer.
 * False, and they stay as well: it takes so much longer as no memory makes it (HKI_BULK_MOST times what it takes in
 * caches), but a machine that does something else. */
enum { HKI_BULK_MOST = 4 };
bool hki_fit_bulk(const hki_bulk_sample *samples, uint32_t count, hki_link_figures *figures);

#endif

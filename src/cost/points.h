/*
 * What is measured for the cost model, and figures from it: by `hocket tune` of a machine, and by the ranks of a job
 * that calibrate at their start.
 */
#ifndef HKI_COST_POINTS_H
#define HKI_COST_POINTS_H

#include "cost/fit.h"
#include "cost/tuning.h"

/* What a point tells. */
typedef enum hki_tune_series {
    HKI_TUNE_ONE_WAY,          /* one message of `bytes` from one rank of a pair to the other */
    HKI_TUNE_EXCHANGE,         /* one each way at the same time */
    HKI_TUNE_STREAM,           /* one way, one after another: from one to the next */
    HKI_TUNE_COPY,             /* `bytes` copied within a rank */
    HKI_TUNE_REDUCE,           /* `bytes` of `type` reduced with as many by `operators` within a rank */
    HKI_TUNE_TURNS,            /* an all-reduce of one round among `ranks` ranks that share `cpus` CPUs */
    HKI_TUNE_TOGETHER,         /* an exchange by all `ranks` / 2 pairs of a host at once */
    HKI_TUNE_LIMIT,            /* the largest message that goes eager: no time */
    HKI_TUNE_COUNTS,           /* what a call with a count for each rank takes more than one without */
    HKI_TUNE_BULK_ONE_WAY,     /* as _ONE_WAY and … */
    HKI_TUNE_BULK_EXCHANGE,    /* … _EXCHANGE, of `data` in all of ranks that share a cache: see bulk.h */
    HKI_TUNE_COPY_FAR,         /* as _COPY, of more than the caches of a core hold, … */
    HKI_TUNE_COPY_BULK,        /* … and of more than any does */
    HKI_TUNE_LASTING_STREAM,   /* as _STREAM and … */
    HKI_TUNE_LASTING_EXCHANGE, /* … _EXCHANGE, for so long that the link has nothing saved up: see comm/duet.h */
    HKI_TUNE_SERIES
} hki_tune_series;

typedef struct hki_tune_point {
    uint32_t series, link; /* hki_tune_series; hki_link_class */
    uint64_t bytes, data;
    uint32_t type, operators; /* HKI_TUNE_REDUCE */
    uint32_t ranks, cpus;
    double us; /* median */
} hki_tune_point;

enum { HKI_TUNE_POINTS = 4096 };

typedef struct hki_tune_points {
    hki_tune_point items[HKI_TUNE_POINTS];
    uint32_t count;
} hki_tune_points;

/* Adds a point. HK_ERR_NO_MEMORY: there are too many. */
hk_status hki_tune_point_add(hki_tune_points *points, const hki_tune_point *point);

/* Measures copies and reductions in this process, some 50 ms long, and adds them. HK_ERR_NO_MEMORY. */
hk_status hki_tune_kernels(hki_tune_points *points);
/* And copies of more than caches hold: another 50 ms, and 64 MiB of memory. HK_ERR_NO_MEMORY. */
hk_status hki_tune_copies_in_bulk(hki_tune_points *points);

/* Makes figures of points, over those that tuning->figures holds: what was not measured stays. What was gets this
 * origin; but for links to be tuned of which the measurements contradict each other (tuning->doubtful): on a machine
 * that is busy with something else. (A calibration has been asked for, has a second, and stays.) HK_ERR_ARGUMENT: the
 * points of a link are too few; HK_ERR_NO_MEMORY. */
hk_status hki_tune_fit(const hki_tune_points *points, hki_origin origin, hki_tuning *tuning);

/* Whether what was measured of a link explains itself: a measurement that does not is to be repeated. False as well if
 * the points are too few, or there is no memory. */
bool hki_tune_is_clear(const hki_tune_points *points, uint32_t link);

#endif

/*
 * Figures of a link from measured times. One way a message of n bytes takes α + nβ, and where two ranks exchange
 * messages, α + n·both; each within the range of sizes that one protocol serves. Ranges are found by the points: of all
 * ways to cut the sizes, the one whose least-squares lines leave least (by dynamic programming), each further range
 * having to earn its parameters (Schwarz's criterion).
 *
 * Errors count relative to the time, since a choice between algorithms depends on ratios; the points should be medians,
 * since samples' tails say nothing about protocols. No parameter is negative.
 */
#ifndef HKI_COST_FIT_H
#define HKI_COST_FIT_H

#include <hocket/hocket.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum hki_fit_series {
    HKI_FIT_ONE_WAY,  /* α + nβ */
    HKI_FIT_EXCHANGE, /* α + n·both */
    HKI_FIT_STREAM,   /* from one message to the next of many one way: gap + n·flow */
    HKI_FIT_SERIES
} hki_fit_series;

typedef struct hki_fit_point {
    hki_fit_series series;
    uint64_t bytes;
    double us;
} hki_fit_point;

/* A parameter, and the half of its 95 % confidence interval; infinite where the points are as many as the parameters.
 */
typedef struct hki_fit_value {
    double value, half;
} hki_fit_value;

typedef struct hki_fit_range {
    uint64_t upto;                                             /* bytes; UINT64_MAX in the last */
    hki_fit_value alpha_us, beta_us, both_us, gap_us, flow_us; /* β, both and flow: per KiB */
    double residual, worst; /* of one-way and exchange points, relative: root mean square, and the largest */
    uint32_t points;
} hki_fit_range;

enum { HKI_FIT_RANGES = 6, HKI_FIT_POINTS = 256 };

/* Cuts into at most `most` ranges of two sizes or more; none holds sizes on both sides of one of the `breaks` (up to
 * and including so many bytes one protocol, beyond another). *count ≤ HKI_FIT_RANGES. HK_ERR_ARGUMENT (less than two
 * sizes in all, or more points than HKI_FIT_POINTS, or times that are none), HK_ERR_NO_MEMORY. */
hk_status hki_fit(const hki_fit_point *points, size_t point_count, const uint64_t *breaks, size_t break_count,
                  uint32_t most, hki_fit_range ranges[HKI_FIT_RANGES], uint32_t *count);

#endif

/*
 * Links are measured in several passes over some time, since a machine may change: the CPUs of a virtual one are moved
 * by their host, and a cache line may then take four times as long from one to the other for some seconds. Passes are
 * compared by their smallest messages; those that are unlike most others do not count.
 */
#ifndef HKI_TOOLS_TUNE_PASSES_H
#define HKI_TOOLS_TUNE_PASSES_H

#include "cost/points.h"

#include <stdio.h>

enum { HKI_TUNE_PASSES = 3 };

typedef struct hki_tune_passes {
    hki_tune_points points[HKI_TUNE_PASSES];
    uint32_t count;
} hki_tune_passes;

/* Adds the points of all passes, one for each that was measured, with the median of its times (the lower one of two) in
 * the passes that count for its link. Says on `report` of which links passes were left out. HK_ERR_NO_MEMORY. */
hk_status hki_tune_passes_merge(const hki_tune_passes *passes, hki_tune_points *merged, FILE *report);

#endif

/*
 * Which ranks are walked for a price. All, as long as they are few or make few steps. Else, where all do alike, those
 * of the first part of a cluster that repeats itself, or one or two in the middle of what the messages of all meet.
 */
#ifndef HKI_COST_SAMPLE_H
#define HKI_COST_SAMPLE_H

#include "cost/period.h"
#include "cost/walk.h"

/* Where samples are taken. The first two are borrowed. */
typedef struct hki_sampled {
    const hki_cluster *cluster;
    const hki_figures *figures;
    hki_period period;
} hki_sampled;

/* What hki_walk is to be given. */
typedef struct hki_sample {
    hki_traces *traces;
    hki_path *paths;         /* NULL: all ranks are traced, or those of a part */
    const uint32_t *instead; /* the period's resources where a part is traced */
} hki_sample;

/* All ranks are walked, also where they do alike, up to so many steps of all: about two milliseconds' walk. */
enum { HKI_SAMPLE_FULLY = 8192 };
/* As hki_algorithm.alike, but where all ranks are few: HKI_UNLIKE. */
hki_alike hki_sample_alike(const hki_algorithm *algorithm, const hki_call *call);
/* About how many steps all ranks make, and whether so many of ranks that do unlike things are walked rather than told
 * from those of fewer ranks. HK_ERR_NO_MEMORY. */
hk_status hki_sample_count(const hki_algorithm *algorithm, const hki_call *call, uint64_t *steps);
bool hki_sample_is_short(const hki_algorithm *algorithm, uint64_t steps);
/* fully: all ranks. HK_ERR_UNSUPPORTED (the algorithm refuses, or has too many steps to walk), HK_ERR_NO_MEMORY. */
hk_status hki_sample_new(const hki_sampled *place, const hki_algorithm *algorithm, const hki_call *call, bool fully,
                         hki_sample *sample);
void hki_sample_free(hki_sample *sample);
/* Of memory. */
size_t hki_sample_bytes(const hki_sample *sample);

#endif

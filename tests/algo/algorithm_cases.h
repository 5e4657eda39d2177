/* Which calls an algorithm is tried with: shared by the tests of this folder. */
#ifndef ALGORITHM_CASES_H
#define ALGORITHM_CASES_H

#include <stdbool.h>
#include <stdint.h>

#include "algo/algo.h"

/* How the ranks of one case use their buffers. */
typedef enum case_form { FORM_SEPARATE, FORM_IN_PLACE, FORM_PACKED, FORM_MIXED, FORM_COUNT } case_form;

static inline const char *case_form_name(case_form form)
{
    static const char *const names[] = {"separate", "in place", "packed at start", "mixed"};
    return names[form];
}

/* Mixed: every third rank in place; in-place use may differ between ranks, since it changes no message. */
static inline bool case_form_applies(hki_collective collective, case_form form)
{
    bool has_two_buffers = collective != HKI_COLL_BARRIER && collective != HKI_COLL_BROADCAST;
    if (form == FORM_PACKED)
        return collective == HKI_COLL_REDUCE_SCATTER || collective == HKI_COLL_REDUCE_SCATTERV;
    return form == FORM_SEPARATE || has_two_buffers;
}

static inline bool case_is_rooted(hki_collective collective)
{
    switch (collective) {
    case HKI_COLL_BROADCAST:
    case HKI_COLL_REDUCE:
    case HKI_COLL_GATHER:
    case HKI_COLL_GATHERV:
    case HKI_COLL_SCATTER:
    case HKI_COLL_SCATTERV:
        return true;
    default:
        return false;
    }
}

/* The call as rank `rank` makes it. */
static inline hki_call case_call(const hki_algorithm *algorithm, uint32_t ranks, uint32_t rank, uint32_t root,
                                 uint32_t segments, case_form form, const hki_levels *levels)
{
    hki_call call = {.collective = algorithm->collective,
                     .ranks = ranks,
                     .rank = rank,
                     .root = root,
                     .segments = segments,
                     .commutative = !algorithm->keeps_order,
                     .levels = levels};
    bool in_place = form == FORM_IN_PLACE || (form == FORM_MIXED && rank % 3 == 0);
    call.in_place = form == FORM_PACKED ? HKI_PACKED_AT_START : in_place ? HKI_ALIGNED : HKI_SEPARATE;
    return call;
}

#endif

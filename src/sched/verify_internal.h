/* What the verifier's passes share. They run in this order, each relying on what those before it have proved. */
#ifndef HKI_SCHED_VERIFY_INTERNAL_H
#define HKI_SCHED_VERIFY_INTERNAL_H

#include "sched/model.h"
#include "sched/values.h"
#include "sched/verify.h"

typedef struct hki_verifier {
    const hki_schedule *const *schedules;
    uint32_t ranks;
    const char *algorithm;
    const hki_promise *promise;
    hki_verify_report *report;
    size_t *base;      /* base[rank] + step numbers all steps; base[ranks] is their number */
    uint32_t *partner; /* of each message step: the counterpart's step on the peer */
} hki_verifier;

/* Structure and grids: every step is well formed. */
hk_status hki_verify_structure(hki_verifier *verifier);
/* Messages: finds partners, compares lengths, counts what is sent. */
hk_status hki_verify_messages(hki_verifier *verifier);
/* Races within each rank. */
hk_status hki_verify_hazards(hki_verifier *verifier);
/* Runs everything and compares the result with what the collective promises. */
hk_status hki_verify_run(hki_verifier *verifier);

/* Records a fault, with the dumped step where there is one (rank, step and block may be HKI_NOWHERE), and returns
 * HK_ERR_INTERNAL. */
hk_status hki_verify_fail(hki_verifier *verifier, hki_fault fault, uint32_t rank, uint32_t step, uint32_t block,
                          const char *format, ...) __attribute__((format(printf, 6, 7)));
hk_status hki_verify_no_memory(hki_verifier *verifier);

/* Walks the blocks of a range one by one. Kept apart from hki_range_next, so that builder and verifier do not share a
 * mistake. */
typedef struct hki_walk {
    const hki_range *range;
    uint64_t run_start, in_run; /* within the ring */
    uint32_t i;
} hki_walk;

static inline hki_walk hki_walk_begin(const hki_range *range)
{
    hki_walk walk = {.range = range, .run_start = range->wrap ? range->first % range->wrap : 0};
    return walk;
}

/* Sets *block to the next block; false at the end. */
static inline bool hki_walk_next(hki_walk *walk, uint32_t *block)
{
    const hki_range *range = walk->range;
    if (walk->i == range->count)
        return false;
    uint64_t linear = walk->run_start + walk->in_run;
    *block = range->base + (uint32_t)(linear < range->wrap ? linear : linear % range->wrap);
    if (++walk->in_run == range->run) {
        walk->in_run = 0;
        walk->run_start = (walk->run_start + range->stride) % range->wrap;
    }
    walk->i++;
    return true;
}

/* Number of source spans of a step, and each of them. */
static inline uint32_t hki_source_count(const hki_step *step)
{
    if (step->verb == HKI_VERB_REDUCE)
        return step->source_count;
    return step->verb == HKI_VERB_RECV ? 0 : 1;
}

static inline const hki_span *hki_source(const hki_schedule *schedule, const hki_step *step, uint32_t i)
{
    return step->verb == HKI_VERB_REDUCE ? &schedule->sources[step->first_source + i] : &step->source;
}

static inline bool hki_is_message(const hki_step *step)
{
    return step->verb <= HKI_VERB_RECV_REDUCE;
}

#endif

/*
 * Which candidate is the best, with as few prices as can be: branch and bound. What nothing can be quicker than is told
 * first by the textbook's form, then by a few schedules (lower_bound.h), then, for more segments, by the price in one.
 * Who promises most comes next; when nobody can be quicker than the best by more than prices tell apart, that is it.
 */
#ifndef HKI_COST_CONTEST_H
#define HKI_COST_CONTEST_H

#include "cost/candidate.h"

/* Prices those of the candidates that are HKI_PRICED so far (which says that they may be) and could win, each in what
 * seems its best number of segments; others become HKI_OUTRUN or HKI_TOO_LONG. HK_ERR_NO_MEMORY. */
hk_status hki_contest(hki_pricer *pricer, const hki_question *question, hki_candidate *candidates, uint32_t count);

#endif

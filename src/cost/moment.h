/* Times that know what they consist of. */
#ifndef HKI_COST_MOMENT_H
#define HKI_COST_MOMENT_H

#include <stdint.h>

/* A time, and what the chain of steps that leads to it spent; the rest of it was latency. */
typedef struct hki_moment {
    uint64_t at, beta, gamma, contention;
    uint64_t turns; /* not seen, or not made, because other ranks had the core: as often as there is latency */
} hki_moment;

static inline uint64_t hki_alpha_of(const hki_moment *moment)
{
    return moment->at - moment->beta - moment->gamma - moment->contention - moment->turns;
}

static inline const hki_moment *hki_later(const hki_moment *a, const hki_moment *b)
{
    return a->at >= b->at ? a : b;
}

static inline void hki_spend_alpha(hki_moment *to, uint64_t ps)
{
    to->at += ps;
}

static inline void hki_spend_beta(hki_moment *to, uint64_t ps)
{
    to->at += ps;
    to->beta += ps;
}

static inline void hki_spend_gamma(hki_moment *to, uint64_t ps)
{
    to->at += ps;
    to->gamma += ps;
}

static inline void hki_spend_contention(hki_moment *to, uint64_t ps)
{
    to->at += ps;
    to->contention += ps;
}

static inline void hki_spend_turns(hki_moment *to, uint64_t ps)
{
    to->at += ps;
    to->turns += ps;
}

#endif

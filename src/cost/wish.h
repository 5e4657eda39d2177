/*
 * What HOCKET_ALGORITHM asks for: a list of collective:algorithm, collective:^algorithm (not that one) or ^algorithm
 * (not that one, whatever the collective), each for all sizes or, with @LOW-HIGH behind, for calls of at least LOW and
 * less than HIGH bytes; either may be missing.
 */
#ifndef HKI_COST_WISH_H
#define HKI_COST_WISH_H

#include "algo/algo.h"

typedef struct hki_wish {
    const hki_algorithm *algorithm;
    bool forbids;
    uint64_t low, high; /* bytes: low ≤ bytes < high; 0 and UINT64_MAX: all */
} hki_wish;

typedef struct hki_wishes {
    hki_wish *items;
    uint32_t count;
} hki_wishes;

/* Reads the setting. HK_ERR_SETTING says what is wrong: no such collective or algorithm, none at all, a size that is
 * none, two algorithms for one size, a size where ranks do not all know one. HK_ERR_NO_MEMORY. */
hk_status hki_wishes_read(const char *text, hki_wishes *wishes);
void hki_wishes_free(hki_wishes *wishes);

/* The algorithm that a collective of so many bytes is to be served by; NULL: none in particular. */
const hki_algorithm *hki_wishes_forced(const hki_wishes *wishes, hki_collective collective, uint64_t bytes);
bool hki_wishes_forbid(const hki_wishes *wishes, const hki_algorithm *algorithm, uint64_t bytes);
/* Sizes that differ in this number, of one collective, are asked for something else; below hki_wishes_zones(). */
uint32_t hki_wishes_zone(const hki_wishes *wishes, hki_collective collective, uint64_t bytes);
uint32_t hki_wishes_zones(const hki_wishes *wishes, hki_collective collective);

/* Whether ranks do not all know the size of a call of this collective: what is chosen then depends on P alone. */
bool hki_size_is_private(hki_collective collective);

#endif

/* Choices in words, and where they change with the size: for logs and for `hocket explain`. */
#ifndef HKI_COST_EXPLAIN_H
#define HKI_COST_EXPLAIN_H

#include "cost/select.h"

enum { HKI_CHOICE_TEXT = 320, HKI_CROSSOVERS_MOST = 256 };

/* "allreduce of 1048576 bytes on 2 ranks: direct in 4 segments, 50.1 us: alpha 2, beta 71, gamma 27, contention 0 %;
 * next ring, 61.0 us". Returns text. */
const char *hki_choice_text(const hki_choice *choice, char *text, size_t room);
/* What speaks for the algorithm; `next` may be NULL. Returns text. */
const char *hki_choice_reason(const hki_candidate *best, const hki_candidate *next, char *text, size_t room);

/* From `bytes` on, up to the next one's or the end, the same choice. */
typedef struct hki_crossover {
    uint64_t bytes;
    const hki_algorithm *algorithm; /* NULL: none can serve */
    uint32_t segments;
    uint64_t price_ps; /* at `bytes`; 0: it was not priced, since it was asked for or too long to walk */
} hki_crossover;

/* The choices for all classes of sizes from `from` to `to` bytes, as ranks make them, asked with this call. Among many
 * ranks, sizes within an octave are looked at where its ends differ. Where ranks do not all know the size there is one
 * choice. *count ≤ HKI_CROSSOVERS_MOST. HK_ERR_NO_MEMORY. */
hk_status hki_crossovers_find(hki_chooser *chooser, const hki_call *call, hk_type type, hki_op_class operators,
                              uint64_t from, uint64_t to, hki_crossover crossovers[HKI_CROSSOVERS_MOST],
                              uint32_t *count);

#endif

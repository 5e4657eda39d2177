/* Names of sets of ranks, for errors. */
#ifndef HKI_BOOT_RANKS_H
#define HKI_BOOT_RANKS_H

#include <stdbool.h>
#include <stddef.h>

enum { HKI_RANKS_TEXT = 160 }; /* a size that fits "ranks 0, 3, 5-9 and 117 more" */

/* Writes "rank 2", "ranks 0, 2, 5-9" or, when it does not fit, "ranks 0, 2, 5-9, … (117 in all)"; "no rank" for none.
 * Returns text. */
const char *hki_ranks_text(char *text, size_t capacity, const bool *members, int ranks);

#endif

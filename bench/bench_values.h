/*
 * What the ranks put into their buffers, and what must come out: a serial reference that is computed from the element's
 * position alone, independently of any library. Values are small integers, so that every sum is exact in every type and
 * order and results can be compared bit for bit.
 */
#ifndef HKI_BENCH_VALUES_H
#define HKI_BENCH_VALUES_H

#include "bench/bench_cell.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes this rank's input of the cell, as of round `seed`, to its place in `buffer` (which has cell->extent elements).
 */
void hki_bench_fill(const hki_bench_cell *cell, uint32_t seed, void *buffer);

/* A cheaper fill for timed rounds: the same kind of values, repeated every few KiB; different for every seed. */
void hki_bench_rewrite(const hki_bench_cell *cell, uint32_t seed, void *buffer);

/* Sets the output to a pattern that no result has. Not for cells with input and output in one buffer. */
void hki_bench_poison(const hki_bench_cell *cell, void *output);

typedef struct hki_bench_wrong {
    uint64_t index; /* of the first wrong element, within this rank's output (or input) */
    bool in_input;  /* the input was changed */
    char found[32], expected[32];
} hki_bench_wrong;

/* Is the output what round `seed` must give here? Also that an input of its own is as it was filled. `wrong` is set
 * when not. A rank without output (not the root, say) is right. */
bool hki_bench_check(const hki_bench_cell *cell, uint32_t seed, const void *input, const void *output,
                     hki_bench_wrong *wrong);

#ifdef __cplusplus
}
#endif
#endif

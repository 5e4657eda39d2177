/*
 * Where the blocks of a grid lie, for the sizes of one call. Two coordinates are told apart: the offset in the content
 * (all blocks one after another) and the offset in the buffer; they differ where the caller gave displacements.
 */
#ifndef HKI_SCHED_LAYOUT_H
#define HKI_SCHED_LAYOUT_H

#include "sched/bind.h"

typedef struct hki_layout {
    const hki_grid *grid;
    uint64_t count;                /* elements: of the whole, or of each part */
    const uint64_t *counts;        /* of the parts (CUT_COUNTS), or NULL */
    const uint64_t *displacements; /* of the parts, or NULL: packed */
    const uint64_t *starts;        /* offsets of parts in the content, if the caller has summed counts; else NULL */
    uint64_t line;                 /* the library's own cuts fall on multiples of so many elements */
} hki_layout;

void hki_layout_init(hki_layout *layout, const hki_schedule *schedule, const hki_sizes *sizes, unsigned buffer);

/* Offset in the content, in elements, at which a block begins; `block` may be the number of blocks: the end. Constant
 * time, but for per-part counts without `starts`. */
uint64_t hki_layout_edge(const hki_layout *layout, uint32_t block);
/* Offset in the buffer, in elements, at which a block begins. */
uint64_t hki_layout_place(const hki_layout *layout, uint32_t block);
/* How many of the `count` blocks from `block` on lie without a gap. */
uint32_t hki_layout_run(const hki_layout *layout, uint32_t block, uint32_t count);
/* False if the buffer would not fit 2^63 bytes. */
bool hki_layout_fits(const hki_layout *layout, uint32_t element_bytes);

#endif

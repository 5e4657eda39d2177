/*
 * Who touched which blocks last: an ordered map from the indices of one memory space to the step that wrote them last
 * and the steps that read them since. It holds one entry per stretch of equal history, so its size and the cost of a
 * touch (logarithmic, plus the stretches met) depend on the steps so far and never on the number of blocks.
 */
#ifndef HKI_SCHED_INTERVALS_H
#define HKI_SCHED_INTERVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HKI_NO_STEP UINT32_MAX

/* A growing list of numbers. */
typedef struct hki_numbers {
    uint32_t *items;
    uint32_t count, capacity;
} hki_numbers;

bool hki_numbers_add(hki_numbers *numbers, uint32_t item); /* false: out of memory */
void hki_numbers_free(hki_numbers *numbers);

/* Grows an array of items of `size` bytes so that *capacity ≥ needed, by doubling. NULL: out of memory, array kept. */
void *hki_grow(void *items, uint32_t *capacity, uint64_t needed, size_t size);

typedef struct hki_stretch hki_stretch;
typedef struct hki_reader hki_reader;

typedef struct hki_intervals {
    hki_stretch *stretches; /* a treap in an array; freed entries are chained by `left` */
    hki_reader *readers;    /* cells of the readers' lists */
    uint32_t stretch_count, stretch_capacity, free_stretch;
    uint32_t reader_count, reader_capacity;
    uint32_t root;
} hki_intervals;

void hki_intervals_init(hki_intervals *map);
void hki_intervals_free(hki_intervals *map);
void hki_intervals_clear(hki_intervals *map); /* nobody has touched anything; memory is kept */

/* Step `step` reads or writes [first, first + count): appends to `before` the steps that it must wait for (read after
 * write; write after read or, where nobody read, after write). Steps may be appended twice, or be `step` itself. False:
 * out of memory. */
bool hki_intervals_read(hki_intervals *map, uint32_t first, uint32_t count, uint32_t step, hki_numbers *before);
bool hki_intervals_write(hki_intervals *map, uint32_t first, uint32_t count, uint32_t step, hki_numbers *before);

#endif

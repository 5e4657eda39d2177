/*
 * Expressions over contributions, each distinct one stored once, so that equal numbers mean equal bits. Expression r,
 * for r below the number of ranks, is rank r's own data. Every expression knows its operands in order, as runs of
 * consecutive ranks: reduced in rank order means a single run.
 */
#ifndef HKI_SCHED_VALUES_H
#define HKI_SCHED_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HKI_NO_VALUE UINT32_MAX

typedef enum hki_value_kind {
    HKI_VALUE_LEAF,
    HKI_VALUE_REDUCED,  /* left op right, rounded */
    HKI_VALUE_FUSED,    /* left op right inside one REDUCE of three or more sources, rounded only at its end */
    HKI_VALUE_FINISHED, /* left, divided */
    HKI_VALUE_UNION     /* of sets of ranks: no order, and overlaps are allowed */
} hki_value_kind;

typedef struct hki_run {
    uint32_t first, last;
} hki_run;

typedef struct hki_value {
    uint32_t left, right;
    uint32_t first_run, run_count; /* in hki_values.runs */
    uint32_t least, most, count;   /* of the contributing ranks */
    uint8_t kind;
} hki_value;

typedef struct hki_values {
    hki_value *items;
    hki_run *runs;
    uint32_t *table; /* hash table of items: number + 1, 0 = empty; at most half full */
    uint32_t count, capacity;
    uint32_t run_count, run_capacity;
    uint32_t table_size;
    bool no_memory;
} hki_values;

/* Makes the ranks' own values. False: out of memory. */
bool hki_values_init(hki_values *values, uint32_t ranks);
void hki_values_free(hki_values *values);

/* The value of kind (left, right); right is ignored for FINISHED. HKI_NO_VALUE when a contribution is in both operands
 * (not for UNION), or when memory is out (then no_memory is set). */
uint32_t hki_values_make(hki_values *values, hki_value_kind kind, uint32_t left, uint32_t right);

/* True when the contributions are exactly the ranks first … last. */
bool hki_value_is_exactly(const hki_values *values, uint32_t value, uint32_t first, uint32_t last);
/* True when they stand in rank order. */
bool hki_value_in_order(const hki_values *values, uint32_t value);
/* Writes the contributions as text such as "2..4,0..1". */
void hki_value_text(const hki_values *values, uint32_t value, char *text, size_t size);

#endif

/* What `hocket bench limits` has found out, and its reports. */
#ifndef HKI_BENCH_LIMITS_H
#define HKI_BENCH_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

enum { HKI_LIMITS_SIZES = 32 };

/* Ways in which two processes can move the bytes: limits.c says how. */
typedef enum hki_limits_way {
    HKI_LIMITS_SLOTS,
    HKI_LIMITS_GET,
    HKI_LIMITS_MAPPED,
    HKI_LIMITS_TCP,
    HKI_LIMITS_STREAM,
    HKI_LIMITS_WAYS
} hki_limits_way;

extern const char *const hki_limits_way_names[HKI_LIMITS_WAYS];

/* Microseconds by way, the better of its forms; NaN: it does not work, or was not asked for. */
typedef struct hki_limits_cell {
    size_t bytes;
    double time[HKI_LIMITS_WAYS];
} hki_limits_cell;

typedef struct hki_limits {
    double handover_ns, copy_gbs;
    bool wanted[HKI_LIMITS_WAYS];
    hki_limits_cell cells[HKI_LIMITS_SIZES];
    size_t count;
} hki_limits;

/* To standard output. */
void hki_limits_report_json(const hki_limits *result);
void hki_limits_report_text(const hki_limits *result);

#endif

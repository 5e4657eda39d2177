/* Writes JSON to a stream: the few forms that the benchmarks need, without a library that peers' drivers would have to
 * bring along. */
#ifndef HKI_BENCH_JSON_H
#define HKI_BENCH_JSON_H

#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A member of an object each: "name": value. The caller writes braces and commas. */
void hki_bench_json_text(FILE *out, const char *name, const char *value);
void hki_bench_json_integer(FILE *out, const char *name, int64_t value);
/* Six significant digits; not finite becomes null. */
void hki_bench_json_number(FILE *out, const char *name, double value);
/* 1, 0; anything else becomes null. */
void hki_bench_json_truth(FILE *out, const char *name, int value);

#ifdef __cplusplus
}
#endif
#endif

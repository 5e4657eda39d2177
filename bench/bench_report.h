/* How results are written: a table for people, JSON and CSV for programs. */
#ifndef HKI_BENCH_REPORT_H
#define HKI_BENCH_REPORT_H

#include "bench/bench_loop.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The object of one cell, without a newline: {"collective": …, "time_us": {…}, …}. */
void hki_bench_cell_json(FILE *out, const char *library, const char *transport, const hki_bench_cell *cell,
                         const hki_bench_result *result);
/* The heading line, and one line a cell; more columns with --regret. */
void hki_bench_csv_heading(FILE *out, bool regret);
void hki_bench_cell_csv(FILE *out, const char *library, const char *transport, const hki_bench_cell *cell,
                        const hki_bench_result *result);
void hki_bench_table_heading(FILE *out);
void hki_bench_cell_row(FILE *out, const hki_bench_cell *cell, const hki_bench_result *result);

/* The same for --regret: what was chosen, what was best, and what was predicted. */
void hki_bench_regret_heading(FILE *out);
void hki_bench_regret_row(FILE *out, const hki_bench_cell *cell, const hki_bench_result *result);

/* "8", "64K", "1.5M": as it would be given on the command line; exact. */
void hki_bench_size_text(uint64_t bytes, char *text, size_t room);

#ifdef __cplusplus
}
#endif
#endif

/* The command line of `hocket bench`. */
#ifndef HKI_BENCH_OPTIONS_H
#define HKI_BENCH_OPTIONS_H

#include "bench/bench_loop.h"

typedef struct hki_bench_options {
    bool wanted[HKI_BENCH_COUNT]; /* collectives to measure */
    bool named;                   /* they were named, so that what cannot be measured is an error */
    int ranks;                    /* -n; 0 = not given */
    uint64_t min, max, step;      /* bytes, bytes, factor; max UINT64_MAX = not given */
    hki_bench_request request;    /* type, operator, root, in-place, uneven */
    hki_bench_effort effort;
    bool mappable; /* --alloc */
    bool regret;
    bool progress, list, help;
    const char *algorithm; /* NULL = the library's choice */
    const char *transport; /* NULL = the library's choice */
    const char *bind;      /* for `hocket run`; NULL = its own default */
    const char *json, *csv;
} hki_bench_options;

/* False, after a message on stderr, when the command line is wrong. */
bool hki_bench_options_parse(int argc, char **argv, hki_bench_options *options);

/* The text of --help. */
void hki_bench_options_help(void);
/* What --list prints. */
void hki_bench_options_list(void);

#endif

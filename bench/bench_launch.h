/* Whether a program that can start ranks itself is one of them already. */
#ifndef HKI_BENCH_LAUNCH_H
#define HKI_BENCH_LAUNCH_H

#include <stdbool.h>

/* Was this process started as a rank, by `hocket run` or another launcher? */
bool hki_bench_under_launcher(void);

#endif

/* What one rank of `hocket bench` does once it has joined: measures every cell and, on rank 0, writes the results. */
#ifndef HKI_BENCH_RUN_H
#define HKI_BENCH_RUN_H

#include "bench/bench_options.h"

/* Collective over comm. Returns the program's exit status: 0; 1 after a failure or a wrong result; 2 when the command
 * line does not fit the job. */
int hki_bench_run(hk_comm *comm, const hki_bench_options *options);

#endif

/* Entry points of the benchmarks, for the hocket program. argv[0] is the subcommand's name; exit status returned. */
#ifndef HKI_BENCH_BENCH_H
#define HKI_BENCH_BENCH_H

/* `hocket bench`: 0; 1 after a failure or, with --check, a wrong result; 2 for a wrong command line. */
int hki_tool_bench(int argc, char **argv);

/* `hocket bench limits`: what this machine can do at best, without any library. */
int hki_bench_limits(int argc, char **argv);

#endif

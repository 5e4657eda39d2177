/* `hocket bench limits`, a benchmark of its own (`hocket bench` itself is declared with the other subcommands). */
#ifndef HKI_BENCH_BENCH_H
#define HKI_BENCH_BENCH_H

/* What this machine can do at best, without any library. argv[0] is "limits"; 0, 1 after a failure, 2 for wrong
 * usage. */
int hki_bench_limits(int argc, char **argv);

#endif

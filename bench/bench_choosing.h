/* `hocket bench choosing`: how long the library takes to choose an algorithm. */
#ifndef HKI_BENCH_CHOOSING_H
#define HKI_BENCH_CHOOSING_H

/* Measures in this process, for clusters that are made up, and prints a table; a rank is not needed. argv[0] is
 * "choosing"; then perhaps
 *   --hosts H --ranks R  on so many hosts so many ranks each (default: 1 of 64, 8 of 8, 512 of 8)
 *   --collective C       only this one, every size in a line of its own
 * Returns the exit status: 0, 1 after a failure, 2 for a bad argument (said on standard error). */
int hki_bench_choosing(int argc, char **argv);

#endif

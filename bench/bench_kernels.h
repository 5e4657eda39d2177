/* `hocket bench kernels`: how fast this CPU reduces, against how fast it copies. */
#ifndef HKI_BENCH_KERNELS_H
#define HKI_BENCH_KERNELS_H

/* Measures in this process and prints a table; a rank is not needed. argv[0] is "kernels"; then any of
 *   --kernels S     only this set (default: every set that this CPU has)
 *   --type T --op O all sizes of one type and operator (default: float32 sum, then one size of every pair)
 *   --sources K     sources of the k-way kernel (default 4)
 *   --max B         largest operand, as 64M (default)
 * Returns the exit status: 0, or 2 for a bad argument (said on standard error). */
int hki_bench_kernels(int argc, char **argv);

#endif

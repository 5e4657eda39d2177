/* Statistics of a series of samples. */
#ifndef HKI_BENCH_STATS_H
#define HKI_BENCH_STATS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of one series; the unit is the samples'. */
typedef struct hki_bench_times {
    double min, p25, p50, avg, p99;
} hki_bench_times;

/* The q-quantile (0 … 1) of `count` ascending samples, linear between neighbours; 0 when there are none. */
double hki_bench_quantile(const double *sorted, size_t count, double q);

/* Sorts the samples in place and summarises them. All zero when there are none. */
hki_bench_times hki_bench_summarise(double *samples, size_t count);

/* The median of `count` ascending samples lies between these two of them with 95 % confidence, by order statistics;
 * fewer than six samples cannot tell, and give the least and the greatest. */
void hki_bench_median_interval(const double *sorted, size_t count, double *low, double *high);

#ifdef __cplusplus
}
#endif
#endif

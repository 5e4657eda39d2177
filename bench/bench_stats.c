#include "bench/bench_stats.h"

#include <stdlib.h>

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double hki_bench_quantile(const double *sorted, size_t count, double q)
{
    if (count == 0)
        return 0.0;
    double position = q * (double)(count - 1);
    size_t below = (size_t)position;
    if (below + 1 >= count)
        return sorted[count - 1];
    double part = position - (double)below;
    return sorted[below] + part * (sorted[below + 1] - sorted[below]);
}

hki_bench_times hki_bench_summarise(double *samples, size_t count)
{
    hki_bench_times times = {0.0, 0.0, 0.0, 0.0, 0.0};
    if (count == 0)
        return times;
    qsort(samples, count, sizeof *samples, ascending);
    double sum = 0.0;
    for (size_t i = 0; i < count; i++)
        sum += samples[i];
    times.min = samples[0];
    times.p25 = hki_bench_quantile(samples, count, 0.25);
    times.p50 = hki_bench_quantile(samples, count, 0.50);
    times.avg = sum / (double)count;
    times.p99 = hki_bench_quantile(samples, count, 0.99);
    return times;
}

void hki_bench_median_interval(const double *sorted, size_t count, double *low, double *high)
{
    *low = *high = 0.0;
    if (count == 0)
        return;
    /* As many samples lie below the median as heads fall in so many throws: the most that fewer than 2.5 % of all
     * series stay below are left out at each end. */
    double chance = 1.0, below = 0.0;
    size_t out = 0;
    for (size_t i = 0; i < count && i < 1000; i++)
        chance *= 0.5;
    for (; out < (count - 1) / 2; out++) {
        below += chance;
        if (below > 0.025)
            break;
        chance *= (double)(count - out) / (double)(out + 1);
    }
    size_t first = out > 0 ? out - 1 : 0;
    *low = sorted[first];
    *high = sorted[count - 1 - first];
}

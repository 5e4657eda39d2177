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
    hki_bench_times times = {0.0, 0.0, 0.0, 0.0};
    if (count == 0)
        return times;
    qsort(samples, count, sizeof *samples, ascending);
    double sum = 0.0;
    for (size_t i = 0; i < count; i++)
        sum += samples[i];
    times.min = samples[0];
    times.p50 = hki_bench_quantile(samples, count, 0.50);
    times.avg = sum / (double)count;
    times.p99 = hki_bench_quantile(samples, count, 0.99);
    return times;
}

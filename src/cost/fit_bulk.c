/* Where caches end, and what bytes take beyond them. */
#include "cost/fit.h"

#include <math.h>

#include "cost/bulk.h"

typedef struct fit {
    const hki_bulk_sample *samples; /* the first is what caches hold */
    uint32_t count;
} fit;

static double per_kib(const hki_bulk_sample *sample, bool both)
{
    return (double)(both ? sample->exchange_ps : sample->one_way_ps) * 1024 / (double)sample->bytes;
}

/* Picoseconds per KiB that a sample takes more than the first. */
static double excess(const fit *f, uint32_t i, bool both)
{
    return per_kib(&f->samples[i], both) - per_kib(&f->samples[0], both);
}

static double part_of(const fit *f, uint32_t i, const hki_bulk_figures *bulk)
{
    return hki_bulk_part(bulk, f->samples[i].data) / 1024.0;
}

/* All of what bytes take more: a line through 0 over the parts of it that samples have. */
static double whole_of(const fit *f, const hki_bulk_figures *bulk, bool both)
{
    double product = 0, square = 0;
    for (uint32_t i = 1; i < f->count; i++) {
        double part = part_of(f, i, bulk);
        product += part * excess(f, i, both);
        square += part * part;
    }
    return square > 0 && product > 0 ? product / square : 0;
}

/* Sum of squared errors of both kinds. */
static double cost_of(const fit *f, const hki_bulk_figures *bulk, double one_way, double both)
{
    double cost = 0;
    for (uint32_t i = 1; i < f->count; i++) {
        double part = part_of(f, i, bulk);
        cost += pow(excess(f, i, false) - part * one_way, 2) + pow(excess(f, i, true) - part * both, 2);
    }
    return cost;
}

static uint64_t rounded(double value)
{
    return value < 1e15 ? (uint64_t)(value + 0.5) : (uint64_t)1e15;
}

/* An exchange in bulk tells the core's time as one in caches does: see fit.c. */
static void set_times(const hki_range_figures *range, double one_way, double both, hki_bulk_figures *bulk)
{
    double beta = (double)range->beta_ps, core = (double)range->core_ps;
    double each = (2 * core > beta ? 2 * core : beta) + both;
    bulk->beta_ps = rounded(one_way);
    bulk->core_ps = each > 1.1 * (beta + one_way) && each / 2 > core ? rounded(each / 2 - core) : 0;
}

/* Whether what is found could be memory's doing. */
static bool may_be(const fit *f, double one_way, double both)
{
    const double most = HKI_BULK_MOST - 1;
    return one_way <= most * per_kib(&f->samples[0], false) && both <= most * per_kib(&f->samples[0], true);
}

bool hki_fit_bulk(const hki_bulk_sample *samples, uint32_t count, hki_link_figures *figures)
{
    const fit f = {samples, count};
    hki_bulk_figures found = {0};
    double least = INFINITY;
    bool believed = true;
    if (count < 2)
        return true;
    const hki_range_figures *range = hki_figures_range(figures, samples[0].bytes);
    for (uint32_t from = 0; from < count; from++)
        for (uint32_t full = from + 1; full < count; full++) {
            hki_bulk_figures tried = {.from = samples[from].data, .full = samples[full].data};
            double one_way = whole_of(&f, &tried, false), both = whole_of(&f, &tried, true);
            double cost = cost_of(&f, &tried, one_way, both);
            if (cost >= least)
                continue;
            least = cost;
            set_times(range, one_way, both, &tried);
            found = tried;
            believed = may_be(&f, one_way, both);
        }
    if (believed)
        figures->bulk = found.beta_ps + found.core_ps ? found : (hki_bulk_figures){0};
    return believed;
}

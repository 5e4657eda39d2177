#include "cost/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Samples in a range: two points lie on a line whatever they are. Up to which size ranges begin: of longer messages no
 * protocol makes a difference; what does is how much data there is (fit_bulk.c). */
enum { RANGE_LEAST = 3, LAST_BEGIN = 2 << 20 };

/* Over samples first … last: a message takes alpha + beta·bytes one way, and alpha + both·bytes where both send at the
 * same time (both = 0: not measured). */
typedef struct line {
    double alpha, beta, both;
    double cost;       /* sum of squared relative errors of messages one way */
    double beta_error; /* standard error of beta */
} line;

/* Sums of weights 1/t² that a fit needs; every time is 1 of its own. */
typedef struct sums {
    double w, x, xx, y, xy;
} sums;

static sums sum_up(const hki_fit_sample *samples, uint32_t first, uint32_t last, bool exchanges)
{
    sums s = {0};
    for (uint32_t i = first; i <= last; i++) {
        double x = (double)samples[i].bytes;
        double y = (double)(exchanges ? samples[i].exchange_ps : samples[i].one_way_ps), w = y > 0 ? 1 / (y * y) : 0;
        s.w += w;
        s.x += w * x;
        s.xx += w * x * x;
        s.y += w * y;
        s.xy += w * x * y;
    }
    return s;
}

/* What a byte takes beyond alpha; not less than nothing. */
static double slope(const sums *s, double alpha)
{
    double value = s->xx > 0 ? (s->xy - alpha * s->x) / s->xx : 0;
    return value > 0 ? value : 0;
}

/* The alpha that leaves least of both kinds of messages, each of which has a slope of its own. Exchanges weigh more:
 * they are most of what collectives do, and over tcp take a quarter more than half of a ping-pong, whose receivers wait
 * for nothing else. */
static double common_alpha(const sums *one_way, const sums *exchange)
{
    double weight = 0, sum = 0;
    const sums *const all[] = {one_way, exchange};
    static const double weights[] = {1, 3};
    for (int i = 0; i < 2; i++) {
        const sums *s = all[i];
        if (s->w <= 0)
            continue;
        bool sloping = s->xy * s->w > s->x * s->y; /* else bytes would take less than nothing */
        weight += weights[i] * (sloping ? s->w - s->x * s->x / s->xx : s->w);
        sum += weights[i] * (sloping ? s->y - s->x * s->xy / s->xx : s->y);
    }
    double alpha = weight > 0 ? sum / weight : 0;
    return alpha > 0 ? alpha : 0;
}

static double cost_of(const hki_fit_sample *samples, uint32_t first, uint32_t last, const line *fit, bool exchanges)
{
    double cost = 0, each = exchanges ? fit->both : fit->beta;
    for (uint32_t i = first; i <= last; i++) {
        double y = (double)(exchanges ? samples[i].exchange_ps : samples[i].one_way_ps);
        double error = y > 0 ? (fit->alpha + each * (double)samples[i].bytes) / y - 1 : 0;
        cost += error * error;
    }
    return cost;
}

/* The best lines with α and β not below 0. */
static line fit_line(const hki_fit_sample *samples, uint32_t first, uint32_t last)
{
    sums one_way = sum_up(samples, first, last, false), exchange = sum_up(samples, first, last, true);
    double alpha = common_alpha(&one_way, &exchange);
    line fit = {.alpha = alpha, .beta = slope(&one_way, alpha), .both = slope(&exchange, alpha)};
    fit.cost = cost_of(samples, first, last, &fit, false);
    double determinant = one_way.w * one_way.xx - one_way.x * one_way.x;
    uint32_t freedom = last - first + 1 > 2 ? last - first - 1 : 1;
    if (determinant > 0)
        fit.beta_error = sqrt(fit.cost / freedom * one_way.w / determinant);
    return fit;
}

/* What the lines of messages one way and of exchanges leave. */
static double cost_of_range(const hki_fit_sample *samples, uint32_t first, uint32_t last)
{
    line fit = fit_line(samples, first, last);
    return fit.cost + cost_of(samples, first, last, &fit, true);
}

/* Best cost of the first `end` samples in `parts` ranges, and where the last of them begins. */
typedef struct cell {
    double cost;
    uint32_t begin;
} cell;

typedef struct table {
    cell cells[HKI_FIGURE_RANGES + 1][HKI_FIT_SAMPLES_MOST + 1];
} table;

/* begins: samples from there on are a rendezvous, and are in no range with those before. */
static void fill(table *t, const hki_fit_sample *samples, uint32_t count, uint32_t begins)
{
    for (uint32_t end = 0; end <= count; end++)
        t->cells[0][end] = (cell){end ? INFINITY : 0, 0};
    for (uint32_t parts = 1; parts <= HKI_FIGURE_RANGES; parts++)
        for (uint32_t end = 0; end <= count; end++) {
            cell *best = &t->cells[parts][end];
            *best = (cell){INFINITY, 0};
            for (uint32_t begin = 0; begin + RANGE_LEAST <= end; begin++) {
                if (isinf(t->cells[parts - 1][begin].cost) || (begin < begins && end > begins) ||
                    (begin > 0 && samples[begin].bytes > LAST_BEGIN))
                    continue;
                double cost = t->cells[parts - 1][begin].cost + cost_of_range(samples, begin, end - 1);
                if (cost < best->cost)
                    *best = (cell){cost, begin};
            }
        }
}

/* Whether a cut into ranges makes sense at its ends. The last range has no end: one in which noise hides that bytes
 * take time would promise that any number of them takes none. And no message is short enough to take no time. */
static bool makes_sense(const table *t, const hki_fit_sample *samples, uint32_t parts, uint32_t count)
{
    if (fit_line(samples, t->cells[parts][count].begin, count - 1).beta <= 0)
        return false;
    uint32_t end = count;
    for (uint32_t i = parts; i > 1; i--)
        end = t->cells[i][end].begin;
    return fit_line(samples, 0, end - 1).alpha > 0;
}

/* As many ranges as pay: each costs four numbers more. Errors below 1 % are noise, and explain nothing. count: samples;
 * points: times in them. */
static uint32_t parts_that_pay(const table *t, const hki_fit_sample *samples, uint32_t count, double points)
{
    const double noise = 0.01 * 0.01;
    double least = INFINITY;
    uint32_t best = 1;
    for (uint32_t parts = 1; parts <= HKI_FIGURE_RANGES; parts++) {
        double cost = t->cells[parts][count].cost;
        if (isinf(cost) || (parts > 1 && !makes_sense(t, samples, parts, count)))
            continue;
        double worth = points * log(cost / points + noise) + 4.0 * parts * log(points);
        if (worth < least) {
            least = worth;
            best = parts;
        }
    }
    return best;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(double *values, uint32_t count)
{
    if (count == 0)
        return 0;
    qsort(values, count, sizeof *values, compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* What an exchange takes beyond α is both cores moving both messages, if that is clearly more than nβ. */
static double core_of(const line *fit)
{
    return fit->both > 1.1 * fit->beta ? fit->both / 2 : 0;
}

/* A way is occupied for overhead + nβ: what a stream of messages takes for each, without its bytes. */
static double overhead_of(const hki_fit_sample *samples, uint32_t first, uint32_t last, const line *fit)
{
    double values[HKI_FIT_SAMPLES_MOST];
    uint32_t count = 0;
    for (uint32_t i = first; i <= last; i++)
        if (samples[i].gap_ps)
            values[count++] = (double)samples[i].gap_ps - fit->beta * (double)samples[i].bytes;
    double overhead = count ? median(values, count) : fit->alpha / 2;
    return overhead < 0 ? 0 : overhead > fit->alpha ? fit->alpha : overhead;
}

static uint64_t rounded(double value)
{
    return value < 1e15 ? (uint64_t)(value + 0.5) : (uint64_t)1e15;
}

static void take_range(const hki_fit_sample *samples, uint32_t first, uint32_t last, bool rendezvous,
                       hki_range_figures *range, hki_fit_quality *quality)
{
    double residuals[HKI_FIT_SAMPLES_MOST];
    line fit = fit_line(samples, first, last);
    for (uint32_t i = first; i <= last; i++)
        residuals[i - first] =
            fabs((double)samples[i].one_way_ps / (fit.alpha + fit.beta * (double)samples[i].bytes) - 1);
    *range = (hki_range_figures){.upto = samples[last].bytes,
                                 .alpha_ps = rounded(fit.alpha),
                                 .beta_ps = rounded(fit.beta * 1024),
                                 .overhead_ps = rounded(overhead_of(samples, first, last, &fit)),
                                 .core_ps = rounded(core_of(&fit) * 1024),
                                 .rendezvous = rendezvous};
    *quality = (hki_fit_quality){.residual = median(residuals, last - first + 1),
                                 .confidence = fit.beta > 0 ? 1.96 * fit.beta_error / fit.beta : 0,
                                 .samples = last - first + 1};
}

/* Where messages are a rendezvous; 0: nowhere, or too few are on one side for a range. */
static uint32_t where_rendezvous_begins(const hki_fit_sample *samples, uint32_t count, uint64_t eager)
{
    uint32_t begins = 0;
    while (begins < count && samples[begins].bytes <= eager)
        begins++;
    return begins < RANGE_LEAST || count - begins < RANGE_LEAST ? 0 : begins;
}

static hk_status check(const hki_fit_sample *samples, uint32_t count)
{
    if (count < RANGE_LEAST || count > HKI_FIT_SAMPLES_MOST)
        return hki_error(HK_ERR_ARGUMENT, "a fit takes %d to %d sizes, not %u", RANGE_LEAST, HKI_FIT_SAMPLES_MOST,
                         count);
    for (uint32_t i = 0; i < count; i++)
        if (samples[i].one_way_ps == 0 || (i > 0 && samples[i].bytes <= samples[i - 1].bytes))
            return hki_error(HK_ERR_ARGUMENT, "the measurement of %llu bytes has no time, or comes out of order",
                             (unsigned long long)samples[i].bytes);
    return HK_OK;
}

hk_status hki_fit_link(const hki_fit_sample *samples, uint32_t count, uint64_t eager, hki_link_figures *figures,
                       hki_fit_quality quality[HKI_FIGURE_RANGES])
{
    HK_TRY(check(samples, count));
    table *t = malloc(sizeof *t);
    if (!t)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a fit");
    fill(t, samples, count, where_rendezvous_begins(samples, count, eager));
    double points = count;
    for (uint32_t i = 0; i < count; i++)
        points += samples[i].exchange_ps != 0;
    uint32_t parts = parts_that_pay(t, samples, count, points), end = count;
    *figures = (hki_link_figures){.ranges = parts, .origin = HKI_TUNED};
    for (uint32_t i = parts; i-- > 0;) {
        uint32_t begin = t->cells[i + 1][end].begin;
        take_range(samples, begin, end - 1, samples[begin].bytes > eager, &figures->range[i], &quality[i]);
        end = begin;
    }
    figures->range[parts - 1].upto = UINT64_MAX;
    free(t);
    return HK_OK;
}

#include "cost/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* The parameters of a line or a pair of lines: a point is weight · (value - row · parameters). */
enum { PARAMETERS = 3 };

typedef struct equations {
    double normal[PARAMETERS][PARAMETERS], right[PARAMETERS], square; /* AᵀA, Aᵀb, bᵀb */
    uint32_t points;
} equations;

typedef struct solution {
    double value[PARAMETERS], inverse[PARAMETERS][PARAMETERS], error; /* sum of squares left */
    uint32_t free;                                                    /* parameters that are not zero by force */
} solution;

static void add_row(equations *s, const double row[PARAMETERS])
{
    for (int i = 0; i < PARAMETERS; i++) {
        s->right[i] += row[i]; /* the value is 1: errors are relative to it */
        for (int k = 0; k < PARAMETERS; k++)
            s->normal[i][k] += row[i] * row[k];
    }
    s->square += 1;
    s->points++;
}

/* Inverts the part of a symmetric matrix that `chosen` names, by Gauss and Jordan with pivots. False: singular. */
static bool invert(const double matrix[PARAMETERS][PARAMETERS], unsigned chosen, double inverse[PARAMETERS][PARAMETERS])
{
    double work[PARAMETERS][2 * PARAMETERS] = {{0}};
    for (int i = 0; i < PARAMETERS; i++) {
        for (int k = 0; k < PARAMETERS; k++)
            work[i][k] = (chosen >> i & chosen >> k & 1) ? matrix[i][k] : 0;
        if (!(chosen >> i & 1))
            work[i][i] = 1;
        work[i][PARAMETERS + i] = 1;
    }
    for (int column = 0; column < PARAMETERS; column++) {
        int pivot = column;
        for (int i = column + 1; i < PARAMETERS; i++)
            pivot = fabs(work[i][column]) > fabs(work[pivot][column]) ? i : pivot;
        double scale = matrix[column][column] > 0 ? matrix[column][column] : 1;
        if (fabs(work[pivot][column]) < 1e-12 * scale)
            return false;
        for (int k = 0; k < 2 * PARAMETERS; k++) {
            double swapped = work[column][k];
            work[column][k] = work[pivot][k];
            work[pivot][k] = swapped;
        }
        double divisor = work[column][column];
        for (int k = 0; k < 2 * PARAMETERS; k++)
            work[column][k] /= divisor;
        for (int i = 0; i < PARAMETERS; i++) {
            double factor = work[i][column];
            for (int k = 0; i != column && k < 2 * PARAMETERS; k++)
                work[i][k] -= factor * work[column][k];
        }
    }
    for (int i = 0; i < PARAMETERS; i++)
        memcpy(inverse[i], &work[i][PARAMETERS], sizeof inverse[i]);
    return true;
}

/* Least squares with some parameters zero. False: they are not determined, or negative. */
static bool solve_with(const equations *s, unsigned chosen, solution *found)
{
    *found = (solution){.error = s->square, .free = (uint32_t)__builtin_popcount(chosen)};
    if (!invert(s->normal, chosen, found->inverse))
        return false;
    for (int i = 0; i < PARAMETERS; i++) {
        if (!(chosen >> i & 1))
            continue;
        for (int k = 0; k < PARAMETERS; k++)
            found->value[i] += chosen >> k & 1 ? found->inverse[i][k] * s->right[k] : 0;
        if (found->value[i] < 0)
            return false;
        found->error -= found->value[i] * s->right[i];
    }
    found->error = fmax(found->error, 0);
    return true;
}

/* The best of all solutions without a negative parameter. So few parameters are tried one set after another. */
static solution solve(const equations *s)
{
    solution best = {.error = s->square}, found;
    for (unsigned chosen = 1; chosen < 1u << PARAMETERS; chosen++)
        if (solve_with(s, chosen, &found) && found.error < best.error)
            best = found;
    return best;
}

/* Student's t for a two-sided 95 % interval. */
static double student(uint32_t freedom)
{
    static const double table[] = {12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                   2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086};
    enum { ROWS = sizeof table / sizeof *table };
    return freedom == 0 ? INFINITY : freedom <= ROWS ? table[freedom - 1] : 1.96 + 2.5 / freedom;
}

static hki_fit_value value_of(const equations *s, const solution *found, int i)
{
    uint32_t freedom = s->points > found->free ? s->points - found->free : 0;
    double variance = freedom ? found->error / freedom * found->inverse[i][i] : 0;
    return (hki_fit_value){found->value[i], freedom ? student(freedom) * sqrt(fmax(variance, 0)) : INFINITY};
}

/* ---- one range ---- */

typedef struct points {
    const hki_fit_point *items;
    size_t count;
    uint64_t sizes[HKI_FIT_POINTS]; /* ascending, each once */
    uint32_t size_count;
} points;

static bool within(const hki_fit_point *point, uint64_t first, uint64_t last)
{
    return point->bytes >= first && point->bytes <= last;
}

/* One-way and exchange points in a range: α is theirs in common. */
static equations pair_system(const points *all, uint64_t first, uint64_t last)
{
    equations s = {.points = 0};
    for (size_t i = 0; i < all->count; i++) {
        const hki_fit_point *point = &all->items[i];
        double kib = (double)point->bytes / 1024 / point->us;
        const double row[PARAMETERS] = {1 / point->us, point->series == HKI_FIT_ONE_WAY ? kib : 0,
                                        point->series == HKI_FIT_EXCHANGE ? kib : 0};
        if (point->series != HKI_FIT_STREAM && within(point, first, last))
            add_row(&s, row);
    }
    return s;
}

static equations stream_system(const points *all, uint64_t first, uint64_t last)
{
    equations s = {.points = 0};
    for (size_t i = 0; i < all->count; i++) {
        const hki_fit_point *point = &all->items[i];
        const double row[PARAMETERS] = {1 / point->us, (double)point->bytes / 1024 / point->us, 0};
        if (point->series == HKI_FIT_STREAM && within(point, first, last))
            add_row(&s, row);
    }
    return s;
}

static void measure_residuals(const points *all, uint64_t first, uint64_t last, hki_fit_range *range)
{
    double sum = 0;
    for (size_t i = 0; i < all->count; i++) {
        const hki_fit_point *point = &all->items[i];
        if (point->series == HKI_FIT_STREAM || !within(point, first, last))
            continue;
        double slope = point->series == HKI_FIT_ONE_WAY ? range->beta_us.value : range->both_us.value;
        double error = fabs((range->alpha_us.value + (double)point->bytes / 1024 * slope) / point->us - 1);
        sum += error * error;
        range->worst = fmax(range->worst, error);
        range->points++;
    }
    range->residual = range->points ? sqrt(sum / range->points) : 0;
}

static hki_fit_range fit_range(const points *all, uint64_t first, uint64_t last)
{
    hki_fit_range range = {.upto = last};
    equations pair = pair_system(all, first, last), stream = stream_system(all, first, last);
    solution found = solve(&pair), flow = solve(&stream);
    range.alpha_us = value_of(&pair, &found, 0);
    range.beta_us = value_of(&pair, &found, 1);
    range.both_us = value_of(&pair, &found, 2);
    range.gap_us = value_of(&stream, &flow, 0);
    range.flow_us = value_of(&stream, &flow, 1);
    measure_residuals(all, first, last, &range);
    return range;
}

/* ---- cutting ---- */

typedef struct cutting {
    const points *all;
    const uint64_t *breaks;
    size_t break_count;
    uint32_t from[HKI_FIT_RANGES + 1][HKI_FIT_POINTS + 1]; /* where the last of so many ranges begins */
    double error[HKI_FIT_RANGES + 1][HKI_FIT_POINTS + 1];  /* of the sizes before, in so many ranges */
} cutting;

static bool may_be_one(const cutting *c, uint32_t first, uint32_t last)
{
    for (size_t i = 0; i < c->break_count; i++)
        if (c->all->sizes[first] <= c->breaks[i] && c->all->sizes[last] > c->breaks[i])
            return false;
    return last > first; /* two sizes at least: one says nothing about a slope */
}

static double error_of(const cutting *c, uint32_t first, uint32_t last)
{
    if (!may_be_one(c, first, last))
        return INFINITY;
    equations s = pair_system(c->all, c->all->sizes[first], c->all->sizes[last]);
    return solve(&s).error;
}

/* error[r][k]: the least that r ranges leave of the first k sizes. */
static void fill(cutting *c, uint32_t most)
{
    uint32_t sizes = c->all->size_count;
    for (uint32_t r = 0; r <= most; r++)
        for (uint32_t k = 0; k <= sizes; k++)
            c->error[r][k] = r == 0 && k == 0 ? 0 : INFINITY;
    for (uint32_t first = 0; first < sizes; first++)
        for (uint32_t last = first; last < sizes; last++) {
            double own = error_of(c, first, last);
            for (uint32_t r = 1; r <= most && isfinite(own); r++)
                if (c->error[r - 1][first] + own < c->error[r][last + 1]) {
                    c->error[r][last + 1] = c->error[r - 1][first] + own;
                    c->from[r][last + 1] = first;
                }
        }
}

/* The number of ranges that explains most for its parameters; 0: no number will do. */
static uint32_t best_number(const cutting *c, uint32_t most)
{
    static const double precision = 1e-4; /* of a median, squared: what lies below is chance */
    double n = 0, least = INFINITY;
    uint32_t best = 0;
    for (size_t i = 0; i < c->all->count; i++)
        n += c->all->items[i].series != HKI_FIT_STREAM;
    for (uint32_t r = 1; r <= most; r++) {
        double left = c->error[r][c->all->size_count];
        double criterion = n * log(fmax(left / n, precision)) + (PARAMETERS + 1) * r * log(n);
        if (isfinite(left) && criterion < least) {
            least = criterion;
            best = r;
        }
    }
    return best;
}

static int ascending(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static hk_status take_points(const hki_fit_point *items, size_t count, points *all)
{
    *all = (points){.items = items, .count = count};
    if (count > HKI_FIT_POINTS)
        return hki_error(HK_ERR_ARGUMENT, "%zu points are too many to fit", count);
    for (size_t i = 0; i < count; i++) {
        if (!(items[i].us > 0) || !isfinite(items[i].us))
            return hki_error(HK_ERR_ARGUMENT, "a time of %g us for %llu bytes cannot be fitted", items[i].us,
                             (unsigned long long)items[i].bytes);
        if (items[i].series != HKI_FIT_STREAM)
            all->sizes[all->size_count++] = items[i].bytes;
    }
    qsort(all->sizes, all->size_count, sizeof *all->sizes, ascending);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < all->size_count; i++)
        if (kept == 0 || all->sizes[kept - 1] != all->sizes[i])
            all->sizes[kept++] = all->sizes[i];
    all->size_count = kept;
    return kept >= 2 ? HK_OK : hki_error(HK_ERR_ARGUMENT, "less than two sizes cannot be fitted");
}

/* A range ends at a break if one lies between its last size and the next. */
static uint64_t end_of(const cutting *c, uint32_t last)
{
    const points *all = c->all;
    uint64_t end = last + 1 < all->size_count ? all->sizes[last] : UINT64_MAX;
    for (size_t i = 0; i < c->break_count; i++)
        if (end != UINT64_MAX && c->breaks[i] >= all->sizes[last] && c->breaks[i] < all->sizes[last + 1])
            end = c->breaks[i];
    return end;
}

static hk_status cut(cutting *c, uint32_t most, hki_fit_range *ranges, uint32_t *count)
{
    fill(c, most);
    uint32_t number = best_number(c, most), behind = c->all->size_count;
    if (number == 0)
        return hki_error(HK_ERR_ARGUMENT, "too few sizes between the protocols' limits to be fitted");
    for (uint32_t r = number; r > 0; r--) {
        uint32_t first = c->from[r][behind];
        ranges[r - 1] = fit_range(c->all, c->all->sizes[first], c->all->sizes[behind - 1]);
        ranges[r - 1].upto = end_of(c, behind - 1);
        behind = first;
    }
    *count = number;
    return HK_OK;
}

hk_status hki_fit(const hki_fit_point *items, size_t point_count, const uint64_t *breaks, size_t break_count,
                  uint32_t most, hki_fit_range ranges[HKI_FIT_RANGES], uint32_t *count)
{
    points *all = malloc(sizeof *all);
    cutting *c = malloc(sizeof *c);
    hk_status status = all && c ? HK_OK : hki_error(HK_ERR_NO_MEMORY, "no memory to fit figures");
    if (status == HK_OK)
        status = take_points(items, point_count, all);
    if (status == HK_OK) {
        c->all = all;
        c->breaks = breaks;
        c->break_count = break_count;
        status = cut(c, most < HKI_FIT_RANGES ? most : HKI_FIT_RANGES, ranges, count);
    }
    free(all);
    free(c);
    return status;
}

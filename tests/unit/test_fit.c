/* Fits of link figures: what went into synthetic times comes out. */
#include "cost/fit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOST = 200 };

typedef struct truth {
    uint64_t upto;
    double alpha, beta, both, gap;
} truth;

/* Times of 8 B … 16 MiB by these ranges, each off by up to `noise` of itself. */
static size_t make_points(const truth *ranges, double noise, hki_fit_point *points)
{
    size_t count = 0;
    srand(1);
    for (uint64_t bytes = 8; bytes <= UINT64_C(16) << 20; bytes *= 2) {
        const truth *range = ranges;
        while (bytes > range->upto)
            range++;
        double kib = (double)bytes / 1024;
        const double us[HKI_FIT_SERIES] = {range->alpha + kib * range->beta, range->alpha + kib * range->both,
                                           range->gap + kib * range->beta};
        for (int series = 0; series < HKI_FIT_SERIES; series++) {
            double off = 1 + noise * (2.0 * rand() / RAND_MAX - 1);
            points[count++] = (hki_fit_point){(hki_fit_series)series, bytes, us[series] * off};
        }
    }
    return count;
}

static const truth three[] = {
    {4096, 0.1, 0.05, 0.06, 0.04}, {65536, 2, 0.03, 0.05, 0.5}, {UINT64_MAX, 5, 0.1, 0.16, 1}};

static void near(double value, double expected, double part)
{
    if (fabs(value - expected) > part * expected)
        fail_msg("%g is not within %g of %g", value, part, expected);
}

static void finds_ranges_and_figures(void **state)
{
    (void)state;
    hki_fit_point points[MOST];
    hki_fit_range ranges[HKI_FIT_RANGES];
    uint32_t count;
    size_t made = make_points(three, 0, points);
    assert_int_equal(hki_fit(points, made, NULL, 0, 6, ranges, &count), HK_OK);
    assert_int_equal(count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(ranges[i].upto, three[i].upto);
        near(ranges[i].alpha_us.value, three[i].alpha, 1e-6);
        near(ranges[i].beta_us.value, three[i].beta, 1e-6);
        near(ranges[i].both_us.value, three[i].both, 1e-6);
        near(ranges[i].gap_us.value, three[i].gap, 1e-6);
        assert_true(ranges[i].residual < 1e-6 && ranges[i].worst < 1e-6);
    }
}

/* Intervals are wide enough for the truth, but not for everything; residuals are of the size of the noise. */
static void tells_how_sure_it_is(void **state)
{
    (void)state;
    hki_fit_point points[MOST];
    hki_fit_range ranges[HKI_FIT_RANGES];
    uint32_t count;
    const uint64_t breaks[] = {4096, 65536};
    size_t made = make_points(three, 0.04, points);
    assert_int_equal(hki_fit(points, made, breaks, 2, 3, ranges, &count), HK_OK);
    assert_int_equal(count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(fabs(ranges[i].alpha_us.value - three[i].alpha) < 2 * ranges[i].alpha_us.half);
        assert_true(fabs(ranges[i].beta_us.value - three[i].beta) < 2 * ranges[i].beta_us.half);
        assert_true(ranges[i].beta_us.half < ranges[i].beta_us.value);
        assert_true(ranges[i].residual > 0.002 && ranges[i].residual <= ranges[i].worst && ranges[i].worst < 0.08);
    }
}

static void cuts_at_breaks_that_lie_between_sizes(void **state)
{
    (void)state;
    hki_fit_point points[MOST];
    hki_fit_range ranges[HKI_FIT_RANGES];
    uint32_t count;
    const truth one[] = {{UINT64_MAX, 1, 0.1, 0.1, 0.5}};
    const uint64_t breaks[] = {5000};
    size_t made = make_points(one, 0, points);
    assert_int_equal(hki_fit(points, made, NULL, 0, 6, ranges, &count), HK_OK);
    assert_int_equal(count, 1);
    assert_int_equal(hki_fit(points, made, breaks, 1, 6, ranges, &count), HK_OK);
    assert_int_equal(count, 2);
    assert_int_equal(ranges[0].upto, 5000);
    assert_int_equal(ranges[1].upto, UINT64_MAX);
}

/* A line through times that fall with the size would have to begin below zero or slope down. */
static void never_makes_figures_negative(void **state)
{
    (void)state;
    const hki_fit_point points[] = {{HKI_FIT_ONE_WAY, 1024, 4},    {HKI_FIT_ONE_WAY, 2048, 3},
                                    {HKI_FIT_EXCHANGE, 1024, 0.5}, {HKI_FIT_EXCHANGE, 2048, 2.5},
                                    {HKI_FIT_ONE_WAY, 4096, 2},    {HKI_FIT_EXCHANGE, 4096, 8}};
    hki_fit_range ranges[HKI_FIT_RANGES];
    uint32_t count;
    assert_int_equal(hki_fit(points, 6, NULL, 0, 1, ranges, &count), HK_OK);
    assert_int_equal(count, 1);
    assert_true(ranges[0].alpha_us.value >= 0 && ranges[0].beta_us.value >= 0 && ranges[0].both_us.value >= 0);
}

static void refuses_what_cannot_be_fitted(void **state)
{
    (void)state;
    hki_fit_point points[HKI_FIT_POINTS + 1] = {{HKI_FIT_ONE_WAY, 8, 1}, {HKI_FIT_ONE_WAY, 16, 0}};
    hki_fit_range ranges[HKI_FIT_RANGES];
    uint32_t count = 77;
    const uint64_t breaks[] = {8};
    assert_int_equal(hki_fit(points, 1, NULL, 0, 6, ranges, &count), HK_ERR_ARGUMENT);
    assert_int_equal(hki_fit(points, 2, NULL, 0, 6, ranges, &count), HK_ERR_ARGUMENT);
    assert_int_equal(hki_fit(points, HKI_FIT_POINTS + 1, NULL, 0, 6, ranges, &count), HK_ERR_ARGUMENT);
    points[1].us = 2;
    assert_int_equal(hki_fit(points, 2, breaks, 1, 6, ranges, &count), HK_ERR_ARGUMENT);
    assert_int_equal(count, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_ranges_and_figures),
        cmocka_unit_test(tells_how_sure_it_is),
        cmocka_unit_test(cuts_at_breaks_that_lie_between_sizes),
        cmocka_unit_test(never_makes_figures_negative),
        cmocka_unit_test(refuses_what_cannot_be_fitted),
    };
    return cmocka_run_group_tests_name("fit", tests, NULL, NULL);
}

/* Fits: what was put in comes out, with noise near it, and break points where they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cost/fit.h"

/* Sizes from 8 bytes in steps of √2, times of `ranges` ranges, moved up and down by `noise` percent in turn. */
static uint32_t measure(const hki_range_figures *ranges, uint32_t count, double noise, hki_fit_sample *samples)
{
    const hki_link_figures link = {.ranges = count};
    hki_link_figures with = link;
    memcpy(with.range, ranges, count * sizeof *ranges);
    uint32_t made = 0, random = 12345;
    for (uint64_t bytes = 8; bytes < 64 << 20; bytes = bytes * 3 / 2) {
        const hki_range_figures *range = hki_figures_range(&with, bytes);
        random = random * 1664525u + 1013904223u;
        double factor = 1 + noise / 100 * ((double)(random >> 8) / (1 << 23) - 1);
        uint64_t one_way = range->alpha_ps + hki_bytes_ps(bytes, range->beta_ps);
        uint64_t both = range->alpha_ps + 2 * hki_bytes_ps(bytes, range->core_ps);
        samples[made++] = (hki_fit_sample){
            .bytes = bytes,
            .one_way_ps = (uint64_t)((double)one_way * factor),
            .exchange_ps = (uint64_t)((double)(both > one_way ? both : one_way) * factor),
            .gap_ps = (uint64_t)((double)(range->overhead_ps + hki_bytes_ps(bytes, range->beta_ps)) * factor)};
    }
    return made;
}

static void expect_near(uint64_t value, uint64_t wanted, uint64_t percent)
{
    assert_in_range(value, wanted - wanted * percent / 100 - 2, wanted + wanted * percent / 100 + 2);
}

static const hki_range_figures two[] = {{8192, 300000, 51200, 100000, 40960, false},
                                        {UINT64_MAX, 2500000, 30720, 900000, 25600, true}};

static void a_line_is_found_exactly(void **state)
{
    (void)state;
    const hki_range_figures one = {UINT64_MAX, 5000000, 102400, 2000000, 0, true};
    hki_fit_sample samples[HKI_FIT_SAMPLES_MOST];
    hki_fit_quality quality[HKI_FIGURE_RANGES];
    hki_link_figures figures;
    uint32_t count = measure(&one, 1, 0, samples);
    assert_int_equal(hki_fit_link(samples, count, 4, &figures, quality), HK_OK);
    assert_int_equal(figures.ranges, 1);
    assert_int_equal(figures.range[0].upto, UINT64_MAX);
    expect_near(figures.range[0].alpha_ps, one.alpha_ps, 0);
    expect_near(figures.range[0].beta_ps, one.beta_ps, 0);
    expect_near(figures.range[0].overhead_ps, one.overhead_ps, 0);
    assert_int_equal(figures.range[0].core_ps, 0); /* an exchange takes no longer than one way */
    assert_true(figures.range[0].rendezvous);
    assert_true(quality[0].residual < 1e-4 && quality[0].confidence < 1e-4);
    assert_int_equal(quality[0].samples, count);
}

static void ranges_are_told_apart(void **state)
{
    (void)state;
    hki_fit_sample samples[HKI_FIT_SAMPLES_MOST];
    hki_fit_quality quality[HKI_FIGURE_RANGES];
    hki_link_figures figures;
    uint32_t count = measure(two, 2, 3, samples);
    assert_int_equal(hki_fit_link(samples, count, 8192, &figures, quality), HK_OK);
    assert_int_equal(figures.ranges, 2);
    assert_in_range(figures.range[0].upto, 8192 / 2, 8192);
    for (int i = 0; i < 2; i++) {
        expect_near(figures.range[i].alpha_ps, two[i].alpha_ps, 5);
        expect_near(figures.range[i].beta_ps, two[i].beta_ps, 8);
        expect_near(figures.range[i].core_ps, two[i].core_ps, 12);
        assert_int_equal(figures.range[i].rendezvous, two[i].rendezvous);
        assert_true(quality[i].residual > 0.001 && quality[i].residual < 0.03);
        /* the truth lies in the interval, or close by */
        double off = (double)figures.range[i].beta_ps / (double)two[i].beta_ps - 1;
        assert_true((off < 0 ? -off : off) < 2 * quality[i].confidence);
    }
}

static void noise_makes_no_ranges(void **state)
{
    (void)state;
    const hki_range_figures one = {UINT64_MAX, 1000000, 40960, 0, 0, false};
    hki_fit_sample samples[HKI_FIT_SAMPLES_MOST];
    hki_fit_quality quality[HKI_FIGURE_RANGES];
    hki_link_figures figures;
    uint32_t count = measure(&one, 1, 10, samples);
    assert_int_equal(hki_fit_link(samples, count, UINT64_MAX, &figures, quality), HK_OK);
    assert_in_range(figures.ranges, 1, 2);
}

/* The last messages seem to take no longer the more bytes they have, the first no time but for their bytes. */
static void noise_at_the_ends_does_not_make_messages_free(void **state)
{
    (void)state;
    const hki_range_figures one = {UINT64_MAX, 1000000, 40960, 0, 0, false};
    hki_fit_sample samples[HKI_FIT_SAMPLES_MOST];
    hki_fit_quality quality[HKI_FIGURE_RANGES];
    hki_link_figures figures;
    uint32_t count = measure(&one, 1, 0, samples);
    for (uint32_t i = 0; i < 4; i++) {
        samples[i].one_way_ps = samples[i].exchange_ps = 2000 * samples[i].bytes;
        samples[count - 1 - i].one_way_ps = samples[count - 1 - i].exchange_ps = UINT64_C(4000000000) + i * 100000000;
    }
    assert_int_equal(hki_fit_link(samples, count, UINT64_MAX, &figures, quality), HK_OK);
    assert_true(figures.range[0].alpha_ps > 0);
    assert_true(figures.range[figures.ranges - 1].beta_ps > 0);
}

static void what_cannot_be_fitted_is_refused(void **state)
{
    (void)state;
    hki_fit_sample samples[HKI_FIT_SAMPLES_MOST];
    hki_fit_quality quality[HKI_FIGURE_RANGES];
    hki_link_figures figures;
    uint32_t count = measure(two, 2, 0, samples);
    assert_int_equal(hki_fit_link(samples, 2, 0, &figures, quality), HK_ERR_ARGUMENT);
    samples[3].bytes = samples[2].bytes;
    assert_int_equal(hki_fit_link(samples, count, 0, &figures, quality), HK_ERR_ARGUMENT);
    samples[3].bytes++;
    samples[5].one_way_ps = 0;
    assert_int_equal(hki_fit_link(samples, count, 0, &figures, quality), HK_ERR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_found_exactly),
        cmocka_unit_test(ranges_are_told_apart),
        cmocka_unit_test(noise_makes_no_ranges),
        cmocka_unit_test(noise_at_the_ends_does_not_make_messages_free),
        cmocka_unit_test(what_cannot_be_fitted_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

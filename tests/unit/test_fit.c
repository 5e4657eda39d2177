/* Fits: what was put in comes out, with noise near it, and break points where they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "cost/fit.h"
#include "cost/points.h"

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

/* Longer and longer messages of a link with these bulk figures. */
static uint32_t measure_bulk(const hki_link_figures *link, hki_bulk_sample *samples)
{
    const hki_range_figures *range = &link->range[0];
    uint32_t made = 0;
    for (uint64_t data = 4 << 20; data <= 128 << 20; data *= 2) {
        uint64_t part = link->bulk.full == 0      ? 0
                        : data <= link->bulk.from ? 0
                        : data >= link->bulk.full
                            ? 1024
                            : (data - link->bulk.from) * 1024 / (link->bulk.full - link->bulk.from);
        samples[made++] = (hki_bulk_sample){
            .data = data,
            .bytes = 1 << 20,
            .one_way_ps = range->alpha_ps + 1024 * (range->beta_ps + link->bulk.beta_ps * part / 1024),
            .exchange_ps = range->alpha_ps + 1024 * 2 * (range->core_ps + link->bulk.core_ps * part / 1024)};
    }
    return made;
}

static void bulk_is_found_by_how_much_data_there_is(void **state)
{
    (void)state;
    hki_link_figures link = {.ranges = 1, .range = {{UINT64_MAX, 700000, 32000, 0, 25000, true}}}, found = link;
    link.bulk = (hki_bulk_figures){.from = 16 << 20, .full = 64 << 20, .beta_ps = 40000, .core_ps = 30000};
    hki_bulk_sample samples[16];
    uint32_t count = measure_bulk(&link, samples);
    assert_true(hki_fit_bulk(samples, count, &found));
    assert_int_equal(found.bulk.from, link.bulk.from);
    assert_int_equal(found.bulk.full, link.bulk.full);
    expect_near(found.bulk.beta_ps, link.bulk.beta_ps, 1);
    expect_near(found.bulk.core_ps, link.bulk.core_ps, 1);
    hki_fit_bulk(samples, 1, &found);    /* which says nothing */
    samples[count - 1].exchange_ps *= 9; /* nor does this */
    assert_false(hki_fit_bulk(samples, count, &found));
    assert_int_equal(found.bulk.full, link.bulk.full);
    link.bulk = (hki_bulk_figures){0};
    hki_fit_bulk(samples, measure_bulk(&link, samples), &found);
    assert_int_equal(found.bulk.full, 0);
}

/* Ranges do not hold both kinds of messages, though one line explains all of them. */
static void messages_that_wait_are_a_range_of_their_own(void **state)
{
    (void)state;
    const hki_range_figures one = {UINT64_MAX, 1000000, 40960, 500000, 30720, false};
    hki_fit_sample samples[HKI_FIT_SAMPLES_MOST];
    hki_fit_quality quality[HKI_FIGURE_RANGES];
    hki_link_figures figures;
    uint32_t count = measure(&one, 1, 0, samples);
    assert_int_equal(hki_fit_link(samples, count, 32768, &figures, quality), HK_OK);
    assert_int_equal(figures.ranges, 2);
    assert_true(figures.range[0].upto <= 32768 && figures.range[0].upto > 32768 / 2);
    assert_true(!figures.range[0].rendezvous && figures.range[1].rendezvous);
}

/* Points of a link, one of every so many by this factor too long. */
static void add_link(hki_tune_points *points, uint32_t link, double factor)
{
    uint32_t made = 0;
    for (uint64_t bytes = 8; bytes <= 4 << 20; bytes *= 2, made++)
        for (uint32_t series = HKI_TUNE_ONE_WAY; series <= HKI_TUNE_STREAM; series++) {
            double us = (0.3 + (double)bytes * 30e-6) * (made % 2 ? factor : 1);
            const hki_tune_point point = {.series = series, .link = link, .bytes = bytes, .us = us};
            assert_int_equal(hki_tune_point_add(points, &point), HK_OK);
        }
}

/* Points of a link that lets `burst` bytes pass at once after a pause, and 1 KiB each 8 us from then on. */
static void add_shaped(hki_tune_points *points, uint32_t link, uint64_t burst, double lasting)
{
    for (uint64_t bytes = 8; bytes <= 4 << 20; bytes *= 2)
        for (uint32_t series = HKI_TUNE_ONE_WAY; series <= HKI_TUNE_STREAM; series++) {
            double slow = bytes > burst ? (double)(bytes - burst) / 1024 * 8 : 0;
            const hki_tune_point point = {
                .series = series, .link = link, .bytes = bytes, .us = 10 + (double)bytes / 1024 * 0.4 + slow};
            assert_int_equal(hki_tune_point_add(points, &point), HK_OK);
        }
    for (uint32_t series = HKI_TUNE_LASTING_STREAM; series <= HKI_TUNE_LASTING_EXCHANGE && lasting > 0; series++) {
        const hki_tune_point point = {.series = series, .link = link, .bytes = 4 << 20, .us = 4096 * lasting};
        assert_int_equal(hki_tune_point_add(points, &point), HK_OK);
    }
}

static uint64_t fit_shaped(uint64_t burst, double lasting, uint64_t bytes)
{
    hki_tune_points *points = calloc(1, sizeof *points);
    hki_tuning *tuning = calloc(1, sizeof *tuning);
    tuning->figures = hki_figures_built_in;
    add_shaped(points, HKI_LINK_TCP, burst, lasting);
    assert_int_equal(hki_tune_fit(points, HKI_TUNED, tuning), HK_OK);
    assert_int_equal(tuning->figures.link[HKI_LINK_TCP].origin, HKI_TUNED);
    const hki_range_figures *range = hki_figures_range(&tuning->figures.link[HKI_LINK_TCP], bytes);
    uint64_t ps = range->alpha_ps + hki_bytes_ps(bytes, range->beta_ps);
    free(tuning);
    free(points);
    return ps;
}

/* What is told of a link is what it sustains, of all messages that are more than latency; links that are only somewhat
 * faster in short messages keep that. */
static void bursts_do_not_count(void **state)
{
    (void)state;
    for (uint64_t bytes = 128 << 10; bytes <= 16 << 20; bytes *= 2) {
        double us = (double)bytes / 1024 * 8;
        assert_in_range(fit_shaped(512 << 10, 8, bytes), us * 0.9e6, us * 1.2e6);
        assert_in_range(fit_shaped(2 << 20, 8, bytes), us * 0.9e6, us * 1.2e6);
    }
    assert_int_equal(fit_shaped(UINT64_MAX, 0.5, 256 << 10), fit_shaped(UINT64_MAX, 0, 256 << 10));
}

static void what_contradicts_itself_is_not_believed(void **state)
{
    (void)state;
    hki_tune_points *points = calloc(1, sizeof *points);
    hki_tuning *tuning = calloc(1, sizeof *tuning);
    tuning->figures = hki_figures_built_in;
    add_link(points, HKI_LINK_L3, 1);
    add_link(points, HKI_LINK_LOOPBACK, 9);
    assert_true(hki_tune_is_clear(points, HKI_LINK_L3));
    assert_false(hki_tune_is_clear(points, HKI_LINK_LOOPBACK));
    assert_int_equal(hki_tune_fit(points, HKI_TUNED, tuning), HK_OK);
    assert_int_equal(tuning->figures.link[HKI_LINK_L3].origin, HKI_TUNED);
    assert_int_equal(tuning->doubtful[HKI_LINK_L3].samples, 0);
    assert_memory_equal(&tuning->figures.link[HKI_LINK_LOOPBACK], &hki_figures_built_in.link[HKI_LINK_LOOPBACK],
                        sizeof(hki_link_figures));
    assert_true(tuning->doubtful[HKI_LINK_LOOPBACK].samples > 0);
    assert_true(tuning->doubtful[HKI_LINK_LOOPBACK].residual > 0.5);
    free(tuning);
    free(points);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_found_exactly),
        cmocka_unit_test(ranges_are_told_apart),
        cmocka_unit_test(noise_makes_no_ranges),
        cmocka_unit_test(noise_at_the_ends_does_not_make_messages_free),
        cmocka_unit_test(what_cannot_be_fitted_is_refused),
        cmocka_unit_test(bulk_is_found_by_how_much_data_there_is),
        cmocka_unit_test(messages_that_wait_are_a_range_of_their_own),
        cmocka_unit_test(bursts_do_not_count),
        cmocka_unit_test(what_contradicts_itself_is_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Passes of a tuning: those that saw the machine like most others count, and their medians are what is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tune_passes.h"
#include "topo/cluster.h"

static hki_tune_passes *passes;
static hki_tune_points *merged;
static char report[1024];

static int make(void **state)
{
    (void)state;
    passes = calloc(1, sizeof *passes);
    merged = calloc(1, sizeof *merged);
    memset(report, 0, sizeof report);
    return passes && merged ? 0 : 1;
}

static int clear(void **state)
{
    (void)state;
    free(passes);
    free(merged);
    return 0;
}

static void add(uint32_t pass, uint32_t link, hki_tune_series series, uint64_t bytes, double us)
{
    const hki_tune_point point = {.series = series, .link = link, .bytes = bytes, .us = us};
    assert_int_equal(hki_tune_point_add(&passes->points[pass], &point), HK_OK);
    passes->count = pass + 1 > passes->count ? pass + 1 : passes->count;
}

static void merge(void)
{
    FILE *out = fmemopen(report, sizeof report, "w");
    assert_non_null(out);
    assert_int_equal(hki_tune_passes_merge(passes, merged, out), HK_OK);
    fclose(out);
}

#define near(a, b) assert_true((a) - (b) < 1e-9 && (b) - (a) < 1e-9)

static void the_median_of_passes_is_taken(void **state)
{
    (void)state;
    static const double small[] = {1.0, 1.2, 1.1}, large[] = {50, 70, 90};
    for (uint32_t pass = 0; pass < 3; pass++) {
        add(pass, HKI_LINK_L3, HKI_TUNE_EXCHANGE, 8, small[pass]);
        add(pass, HKI_LINK_L3, HKI_TUNE_STREAM, 4096, large[pass]);
    }
    merge();
    assert_int_equal(merged->count, 2);
    near(merged->items[0].us, 1.1);
    near(merged->items[1].us, 70);
    assert_string_equal(report, "");
}

/* One pass of three saw lines take four times as long: it does not count for that link, and does for another. */
static void a_pass_in_another_state_is_left_out(void **state)
{
    (void)state;
    static const double small[] = {0.3, 0.08, 0.07}, large[] = {90, 50, 60};
    for (uint32_t pass = 0; pass < 3; pass++) {
        add(pass, HKI_LINK_L3, HKI_TUNE_EXCHANGE, 8, small[pass]);
        add(pass, HKI_LINK_L3, HKI_TUNE_EXCHANGE, 4096, large[pass]);
        add(pass, HKI_LINK_LOOPBACK, HKI_TUNE_EXCHANGE, 8, 4 + pass * 0.1);
    }
    merge();
    assert_int_equal(merged->count, 3);
    near(merged->items[0].us, 0.07); /* the lower one of two */
    near(merged->items[1].us, 50);
    near(merged->items[2].us, 4.1);
    assert_non_null(strstr(report, "8 bytes took 0.3, 0.08, 0.07 us in 3 passes; the figures are those of 2"));
    assert_non_null(strstr(report, hki_link_class_name(HKI_LINK_L3)));
    assert_null(strstr(report, hki_link_class_name(HKI_LINK_LOOPBACK)));
}

static void the_fastest_counts_where_all_differ(void **state)
{
    (void)state;
    static const double small[] = {3, 1, 2};
    for (uint32_t pass = 0; pass < 3; pass++)
        add(pass, HKI_LINK_L3, HKI_TUNE_EXCHANGE, 8, small[pass]);
    merge();
    near(merged->items[0].us, 1);
    assert_non_null(strstr(report, "those of 1"));
}

/* Two measurements of one kind, as of calls with counts, stay two; a point that one pass lacks is taken from others. */
static void points_keep_their_turns(void **state)
{
    (void)state;
    for (uint32_t pass = 0; pass < 3; pass++) {
        add(pass, HKI_LINK_L3, HKI_TUNE_EXCHANGE, 8, 1);
        add(pass, HKI_LINK_L3, HKI_TUNE_COUNTS, 0, 0.1 * (pass + 1));
        add(pass, HKI_LINK_L3, HKI_TUNE_COUNTS, 0, 5 + pass);
    }
    add(0, HKI_LINK_L3, HKI_TUNE_STREAM, 64, 9);
    add(2, HKI_LINK_L3, HKI_TUNE_STREAM, 64, 7);
    merge();
    assert_int_equal(merged->count, 4);
    near(merged->items[1].us, 0.2);
    near(merged->items[2].us, 6);
    near(merged->items[3].us, 7);
}

static void nothing_measured_is_nothing_merged(void **state)
{
    (void)state;
    passes->count = 3;
    merge();
    assert_int_equal(merged->count, 0);
    assert_string_equal(report, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_median_of_passes_is_taken, make, clear),
        cmocka_unit_test_setup_teardown(a_pass_in_another_state_is_left_out, make, clear),
        cmocka_unit_test_setup_teardown(the_fastest_counts_where_all_differ, make, clear),
        cmocka_unit_test_setup_teardown(points_keep_their_turns, make, clear),
        cmocka_unit_test_setup_teardown(nothing_measured_is_nothing_merged, make, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

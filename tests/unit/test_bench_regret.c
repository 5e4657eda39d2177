/* Judging choices: the best is picked on odd rounds and timed on even ones; what cannot be told apart is equal. */
#include "bench/bench_regret.h"
#include "bench/bench_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROUNDS = 20 };

#define near(a, b) assert_true((a) - (b) < 1e-9 && (b) - (a) < 1e-9)

static hki_bench_regret *make(int rivals)
{
    hki_bench_regret *regret = calloc(1, sizeof *regret);
    assert_non_null(regret);
    regret->count = rivals;
    regret->rounds = ROUNDS;
    return regret;
}

/* Times in odd and even rounds (counted from 1), each give or take `spread`. */
static void set(hki_bench_rival *rival, double odd, double even, double spread)
{
    for (int i = 0; i < ROUNDS; i++)
        rival->us[i] = (i % 2 == 0 ? odd : even) + spread * ((i / 2 % 5) - 2) / 2;
}

static void medians_have_intervals(void **state)
{
    (void)state;
    const double ten[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    double low, high;
    hki_bench_median_interval(ten, 10, &low, &high);
    near(low, 2); /* of ten throws fewer than two are heads in 1.07 % of all cases, fewer than three in 5.5 % */
    near(high, 9);
    hki_bench_median_interval(ten, 5, &low, &high);
    near(low, 1);
    near(high, 5);
    hki_bench_median_interval(ten, 1, &low, &high);
    near(low, 1);
    near(high, 1);
    hki_bench_median_interval(ten, 0, &low, &high);
    near(low, 0);
}

static void a_better_rival_is_regretted(void **state)
{
    (void)state;
    hki_bench_regret *regret = make(3);
    set(&regret->rivals[0], 12, 12, 0.5);
    set(&regret->rivals[1], 10, 10, 0.5);
    set(&regret->rivals[2], 11, 9, 0.5); /* better on even rounds, but not picked by odd ones */
    hki_bench_regret_judge(regret);
    assert_int_equal(regret->best, 1);
    near(regret->value, 0.2);
    near(regret->rivals[0].odd_us, 12);
    near(regret->rivals[2].even_us, 9);
    free(regret);
}

static void equals_are_not_regretted(void **state)
{
    (void)state;
    hki_bench_regret *regret = make(2);
    set(&regret->rivals[0], 12, 12, 3);
    set(&regret->rivals[1], 10, 10, 3);
    hki_bench_regret_judge(regret);
    assert_int_equal(regret->best, 0);
    near(regret->value, 0);
    free(regret);
}

/* What was fast on odd rounds by chance shows its true time on even ones. */
static void luck_is_not_regretted(void **state)
{
    (void)state;
    hki_bench_regret *regret = make(2);
    set(&regret->rivals[0], 10, 10, 0.1);
    set(&regret->rivals[1], 5, 11, 0.1);
    hki_bench_regret_judge(regret);
    assert_int_equal(regret->best, 0);
    near(regret->value, 0);
    free(regret);
}

static void cells_are_summed_up(void **state)
{
    (void)state;
    hki_bench_regrets regrets = {0};
    hki_bench_regret *regret = make(1);
    char text[1024];
    for (int i = 0; i < 100; i++) {
        hki_bench_result result = {.time = {.p50 = 10},
                                   .predicted_us = i < 75 ? 8 : 30,
                                   .simulated_us = i < 50   ? 12
                                                   : i < 80 ? 20
                                                            : 0};
        regret->value = i < 80 ? 0 : 0.5;
        assert_true(hki_bench_regrets_add(&regrets, regret, &result));
    }
    FILE *out = fmemopen(text, sizeof text, "w");
    hki_bench_regrets_print(out, &regrets);
    fclose(out);
    assert_non_null(strstr(text, "over 100 cells: median 0.0 %, 90th percentile 50.0 %"));
    assert_non_null(strstr(text, "predicted / measured: median 0.80, within 0.7 ... 1.5 in 75 %"));
    assert_non_null(strstr(text, "simulated / measured: median 1.20, within 0.7 ... 1.5 in 62 % of 80 cells"));
    assert_non_null(strstr(text, "predicted 20 %, simulated 20 %"));
    hki_bench_regrets_free(&regrets);
    free(regret);
}

/* A quarter of the cells while a barrier takes four times as long as figures say: told apart, and nothing left out. */
static void cells_in_another_state_are_told_apart(void **state)
{
    (void)state;
    hki_bench_regrets regrets = {.again = 7};
    hki_bench_regret *regret = make(1);
    char text[1024];
    for (int i = 0; i < 40; i++) {
        hki_bench_result result = {.time = {.p50 = i < 10 ? 40 : 10}, .predicted_us = 9, .state = i < 10 ? 4 : 1.1};
        assert_true(hki_bench_regrets_add(&regrets, regret, &result));
    }
    FILE *out = fmemopen(text, sizeof text, "w");
    hki_bench_regrets_print(out, &regrets);
    fclose(out);
    assert_non_null(strstr(text, "another state than its figures in 10 of 40 cells (7 were measured again for that)"));
    assert_non_null(strstr(text, "in the others predicted / measured: median 0.90, within 0.7 ... 1.5 in 100 %"));
    assert_non_null(strstr(text, "over 40 cells"));
    assert_non_null(strstr(text, "within 0.7 ... 1.5 in 75 % of the cells"));
    hki_bench_regrets_free(&regrets);
    free(regret);
}

static void states_are_alike_within_what_prices_are_exact_to(void **state)
{
    (void)state;
    assert_true(hki_bench_state_is_tuned(1) && hki_bench_state_is_tuned(1.3) && hki_bench_state_is_tuned(0.8));
    assert_true(hki_bench_state_is_tuned(0)); /* unknown */
    assert_false(hki_bench_state_is_tuned(1.5) || hki_bench_state_is_tuned(4) || hki_bench_state_is_tuned(0.25));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians_have_intervals),
        cmocka_unit_test(a_better_rival_is_regretted),
        cmocka_unit_test(equals_are_not_regretted),
        cmocka_unit_test(luck_is_not_regretted),
        cmocka_unit_test(cells_are_summed_up),
        cmocka_unit_test(cells_in_another_state_are_told_apart),
        cmocka_unit_test(states_are_alike_within_what_prices_are_exact_to),
    };
    return cmocka_run_group_tests_name("bench_regret", tests, NULL, NULL);
}

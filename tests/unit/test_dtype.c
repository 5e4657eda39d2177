/* Types, operators and reducers: names, misfits, operators that a program makes, and the floating-point mode. */
#include "base/settings.h"
#include "dtype/dtype.h"

#include <fenv.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_error_says(const char *word)
{
    if (strstr(hk_last_error(), word) == NULL)
        fail_msg("the error \"%s\" does not say \"%s\"", hk_last_error(), word);
}

/* ---- types ---- */

static void types_have_names_and_sizes(void **state)
{
    (void)state;
    assert_int_equal(hk_type_size(HK_BFLOAT16), 2);
    assert_int_equal(hk_type_size(HK_FLOAT64), 8);
    assert_string_equal(hk_type_name(HK_BFLOAT16), "bfloat16");
    assert_string_equal(hk_type_name(HK_BYTE), "uint8");
    assert_int_equal(hk_type_size(HK_OPAQUE(24)), 24);
    assert_int_equal(hk_type_size(HK_OPAQUE(1 << 24)), 1 << 24);
    assert_string_equal(hk_type_name(HK_OPAQUE(24)), "opaque");
}

static void unknown_types_have_no_size(void **state)
{
    (void)state;
    const hk_type unknown[] = {HK_TYPE_COUNT, 4711, HK_OPAQUE(0), HK_OPAQUE((1 << 24) + 1), UINT32_MAX};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        hki_reducer reducer;
        assert_int_equal(hk_type_size(unknown[i]), 0);
        assert_string_equal(hk_type_name(unknown[i]), "unknown");
        assert_false(hki_type_valid(unknown[i]));
        assert_int_equal(hki_reducer_find(unknown[i], HK_SUM, &reducer), HK_ERR_TYPE);
    }
}

/* ---- which operator fits which type ---- */

static void bitwise_and_logical_operators_refuse_floats(void **state)
{
    (void)state;
    for (hk_type type = 0; type < HK_TYPE_COUNT; type++)
        for (hk_op op = 0; op < HK_OP_COUNT; op++) {
            hki_reducer reducer = {.op = 4711};
            hk_status status = hki_reducer_find(type, op, &reducer);
            if (type < HK_FLOAT16 || op < HK_BAND) {
                assert_int_equal(status, HK_OK);
                assert_non_null(reducer.two);
                assert_non_null(reducer.many);
                assert_true(reducer.commutative);
                hki_reducer_release(&reducer);
                continue;
            }
            assert_int_equal(status, HK_ERR_OPERATOR);
            assert_int_equal(reducer.op, 4711); /* untouched */
            assert_error_says(hk_op_name(op));
            assert_error_says(hk_type_name(type));
        }
}

static void opaque_elements_need_a_made_operator(void **state)
{
    (void)state;
    hki_reducer reducer;
    assert_int_equal(hki_reducer_find(HK_OPAQUE(24), HK_SUM, &reducer), HK_ERR_OPERATOR);
    assert_error_says("sum");
    assert_error_says("opaque of 24 bytes");
    assert_error_says("hk_op_create");
}

static void unknown_operators_are_refused(void **state)
{
    (void)state;
    const hk_op unknown[] = {HK_OP_COUNT, 4711, UINT32_MAX, UINT32_C(0x80000000) | 4711};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        hki_reducer reducer;
        assert_int_equal(hki_reducer_find(HK_INT32, unknown[i], &reducer), HK_ERR_OPERATOR);
        assert_false(hki_op_valid(unknown[i]));
        assert_string_equal(hk_op_name(unknown[i]), "unknown");
        assert_int_equal(hk_op_free(unknown[i]), HK_ERR_OPERATOR);
    }
}

/* ---- made operators ---- */

/* Affine maps x → a·x + b on int64 pairs compose associatively and do not commute. */
static void compose(const void *left, const void *right, void *out, uint64_t count, hk_type type, void *context)
{
    size_t bytes = hk_type_size(type); /* may be padded */
    ++*(unsigned *)context;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t l[2], r[2], result[2];
        memcpy(l, (const char *)left + i * bytes, sizeof l);
        memcpy(r, (const char *)right + i * bytes, sizeof r);
        result[0] = l[0] * r[0];
        result[1] = l[0] * r[1] + l[1];
        memcpy((char *)out + i * bytes, result, sizeof result);
    }
}

static void made_operators_bear_their_arguments(void **state)
{
    (void)state;
    unsigned calls = 0;
    hk_op op, none = 77;
    hki_reducer reducer;
    assert_int_equal(hk_op_create(NULL, 1, NULL, &none), HK_ERR_ARGUMENT);
    assert_int_equal(hk_op_create(compose, 1, NULL, NULL), HK_ERR_ARGUMENT);
    assert_int_equal(none, 77);
    assert_int_equal(hk_op_create(compose, 0, &calls, &op), HK_OK);
    assert_string_equal(hk_op_name(op), "user");
    assert_true(hki_op_valid(op));
    assert_int_equal(hki_reducer_find(HK_OPAQUE(16), op, &reducer), HK_OK);
    assert_false(reducer.commutative);
    assert_int_equal(reducer.element_bytes, 16);
    uint64_t left[2] = {2, 3}, right[2] = {5, 7}, out[2];
    hki_reduce_two(&reducer, out, left, right, 1, true);
    assert_int_equal(out[0], 10);
    assert_int_equal(out[1], 17);
    assert_int_equal(calls, 1);
    hki_reducer_release(&reducer);
    assert_int_equal(hk_op_free(op), HK_OK);
}

/* Folding k sources in place on any of them equals folding pairs into a third buffer, for small and huge elements. */
static void check_fold(uint32_t element, uint64_t count)
{
    enum { SOURCES = 6 };
    unsigned calls = 0;
    size_t bytes = element * count;
    hk_op op;
    hki_reducer reducer;
    assert_int_equal(hk_op_create(compose, 0, &calls, &op), HK_OK);
    assert_int_equal(hki_reducer_find(HK_OPAQUE(element), op, &reducer), HK_OK);
    char *data = calloc(2 * SOURCES + 2, bytes), *expected = data + 2 * SOURCES * bytes, *out = expected + bytes;
    const void *sources[SOURCES];
    for (size_t i = 0; i < SOURCES * bytes; i += 8)
        memcpy(data + i, &(uint64_t){i * 2654435761u + 1}, 8);
    for (unsigned k = 1; k <= SOURCES; k++)
        for (int in_place = -1; in_place < (int)k; in_place++) {
            char *copies = data + SOURCES * bytes, *result = in_place < 0 ? out : copies + (size_t)in_place * bytes;
            memcpy(copies, data, SOURCES * bytes);
            memcpy(expected, data, bytes);
            for (unsigned s = 1; s < k; s++)
                hki_reduce_two(&reducer, expected, expected, data + s * bytes, count, false);
            for (unsigned s = 0; s < k; s++)
                sources[s] = copies + s * bytes;
            hki_reduce_many(&reducer, result, sources, k, count, 3);
            for (uint64_t i = 0; i < count; i++)
                assert_memory_equal(result + i * element, expected + i * element, k == 1 ? element : 16);
        }
    free(data);
    hki_reducer_release(&reducer);
    assert_int_equal(hk_op_free(op), HK_OK);
}

static void made_operators_fold_in_order_and_in_place(void **state)
{
    (void)state;
    check_fold(16, 1000);
    check_fold(24, 171);
    check_fold(8192, 3); /* larger than a block */
}

static void a_freed_operator_lives_until_released(void **state)
{
    (void)state;
    unsigned calls = 0;
    hk_op op;
    hki_reducer reducer, late;
    assert_int_equal(hk_op_create(compose, 0, &calls, &op), HK_OK);
    assert_int_equal(hki_reducer_find(HK_OPAQUE(16), op, &reducer), HK_OK);
    assert_int_equal(hk_op_free(op), HK_OK);
    assert_int_equal(hk_op_free(op), HK_ERR_OPERATOR);
    assert_int_equal(hki_reducer_find(HK_OPAQUE(16), op, &late), HK_ERR_OPERATOR);
    assert_string_equal(hk_op_name(op), "unknown");
    uint64_t value[2] = {1, 1};
    hki_reduce_two(&reducer, value, value, value, 1, false);
    assert_int_equal(value[1], 2);
    hki_reducer_release(&reducer);
}

static void at_most_1024_operators_live(void **state)
{
    (void)state;
    static hk_op ops[1024];
    unsigned calls = 0;
    hk_op extra = 77;
    for (unsigned i = 0; i < 1024; i++)
        assert_int_equal(hk_op_create(compose, 1, &calls, &ops[i]), HK_OK);
    assert_int_equal(hk_op_create(compose, 1, &calls, &extra), HK_ERR_NO_MEMORY);
    assert_error_says("1024");
    assert_int_equal(extra, 77);
    hk_op old = ops[500];
    assert_int_equal(hk_op_free(old), HK_OK);
    assert_int_equal(hk_op_create(compose, 1, &calls, &ops[500]), HK_OK);
    assert_int_not_equal(ops[500], old); /* the handle of a freed operator never comes back */
    assert_false(hki_op_valid(old));
    for (unsigned i = 0; i < 1024; i++)
        assert_int_equal(hk_op_free(ops[i]), HK_OK);
}

static void *make_and_free(void *unused)
{
    for (int i = 0; i < 2000; i++) {
        unsigned calls = 0;
        hk_op op;
        hki_reducer reducer;
        float scalar = 2;
        if (hk_op_create_premul_sum(&scalar, HK_FLOAT32, &op) != HK_OK ||
            hki_reducer_find(HK_FLOAT32, op, &reducer) != HK_OK || hk_op_free(op) != HK_OK)
            return unused; /* NULL: failed */
        hki_reducer_release(&reducer);
        if (hk_op_create(compose, 0, &calls, &op) != HK_OK || hk_op_free(op) != HK_OK)
            return unused;
    }
    return &make_and_free;
}

static void threads_make_operators_at_once(void **state)
{
    (void)state;
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_and_free, NULL), 0);
    for (int i = 0; i < 3; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        assert_non_null(result);
    }
}

/* ---- premul_sum, average ---- */

static void premul_sum_scales_inputs_of_its_type(void **state)
{
    (void)state;
    enum { COUNT = 700 }; /* more than one block of the scalar's copies */
    float half = 0.5f, in[COUNT], out[COUNT];
    hk_op op;
    hki_reducer reducer;
    assert_int_equal(hk_op_create_premul_sum(NULL, HK_FLOAT32, &op), HK_ERR_ARGUMENT);
    assert_int_equal(hk_op_create_premul_sum(&half, HK_OPAQUE(4), &op), HK_ERR_TYPE);
    assert_int_equal(hk_op_create_premul_sum(&half, HK_FLOAT32, &op), HK_OK);
    assert_string_equal(hk_op_name(op), "premul_sum");
    assert_int_equal(hki_reducer_find(HK_INT32, op, &reducer), HK_ERR_OPERATOR);
    assert_error_says("premul_sum");
    assert_error_says("int32");
    assert_int_equal(hki_reducer_find(HK_FLOAT32, op, &reducer), HK_OK);
    assert_true(reducer.scales_input);
    assert_true(reducer.commutative);
    for (int i = 0; i < COUNT; i++)
        in[i] = (float)i;
    hki_reducer_scale(&reducer, out, in, COUNT);
    hki_reducer_scale(&reducer, in, in, COUNT); /* in place */
    hki_reduce_two(&reducer, out, out, in, COUNT, false);
    for (int i = 0; i < COUNT; i++)
        assert_true(out[i] == (float)i);
    hki_reducer_release(&reducer);
    assert_int_equal(hk_op_free(op), HK_OK);
}

static void premul_sum_of_integers_wraps(void **state)
{
    (void)state;
    int8_t scalar = 3, in[2] = {100, -100}, out[2];
    hk_op op;
    hki_reducer reducer;
    assert_int_equal(hk_op_create_premul_sum(&scalar, HK_INT8, &op), HK_OK);
    assert_int_equal(hki_reducer_find(HK_INT8, op, &reducer), HK_OK);
    hki_reducer_scale(&reducer, out, in, 2);
    assert_int_equal(out[0], 44); /* 300 mod 256 */
    assert_int_equal(out[1], -44);
    hki_reducer_release(&reducer);
    assert_int_equal(hk_op_free(op), HK_OK);
}

static void averages_divide_once_at_the_end(void **state)
{
    (void)state;
    hki_reducer avg, sum;
    int32_t a[2] = {-7, 7}, b[2] = {0, 2}, out[2];
    const void *sources[] = {a, b};
    assert_int_equal(hki_reducer_find(HK_INT32, HK_AVG, &avg), HK_OK);
    assert_int_equal(hki_reducer_find(HK_INT32, HK_SUM, &sum), HK_OK);
    hki_reduce_two(&avg, out, a, b, 2, false);
    assert_int_equal(out[1], 9); /* a step on the way does not divide */
    hki_reduce_finish(&avg, out, 2, 2);
    assert_int_equal(out[0], -3); /* towards zero */
    assert_int_equal(out[1], 4);
    hki_reduce_many(&avg, out, sources, 2, 2, 2);
    assert_int_equal(out[0], -3);
    hki_reduce_many(&sum, out, sources, 2, 2, 2);
    hki_reduce_finish(&sum, out, 2, 2);
    assert_int_equal(out[0], -7); /* other operators do not divide */
    hki_reducer_release(&avg);
    hki_reducer_release(&sum);
}

/* 16-bit floats are rounded once: after all sums, and after the division. */
static void averages_round_once(void **state)
{
    (void)state;
    hki_reducer avg;
    uint16_t x = 0x4380, one = 0x3f80, three = 0x4040, out = 0; /* 256, 1, 3 in bfloat16 */
    assert_int_equal(hki_reducer_find(HK_BFLOAT16, HK_AVG, &avg), HK_OK);
    hki_reduce_many(&avg, &out, (const void *[]){&x, &one, &one}, 3, 1, 3);
    assert_int_equal(out, 0x42ac); /* 258 / 3 = 86; rounded at each sum: 256 / 3 → 85.5 */
    hki_reduce_many(&avg, &out, (const void *[]){&x, &three}, 2, 1, 5);
    assert_int_equal(out, 0x424f); /* 259 / 5 → 51.75; rounded before the division: 260 / 5 = 52 */
}

/* ---- mode and choice ---- */

static float next_above_one(void)
{
    /* The sum is volatile, too: otherwise a compiler may add after the next change of the mode. */
    volatile float one = 1, little = 0x1p-30f, sum = one + little;
    return sum; /* 1 to nearest, more when rounded upwards */
}

static void kernels_round_to_nearest_whatever_the_caller_does(void **state)
{
    (void)state;
    fesetround(FE_UPWARD);
    uint32_t mode = hki_fp_enter();
    float inside = next_above_one();
    hki_fp_leave(mode);
    float after = next_above_one();
    fesetround(FE_TONEAREST);
    mode = hki_fp_enter();
    hki_fp_leave(mode);
    float standard = next_above_one();
    assert_true(inside == 1.0f);
    assert_true(after > 1.0f);
    assert_true(standard == 1.0f);
}

#if defined(__x86_64__)
#include <xmmintrin.h>

static void denormals_are_kept_for_callers_that_flush_them(void **state)
{
    (void)state;
    unsigned before = _mm_getcsr();
    float tiny[2] = {0x1p-140f, 0x1p-141f}, out[2];
    hki_reducer sum;
    assert_int_equal(hki_reducer_find(HK_FLOAT32, HK_SUM, &sum), HK_OK);
    _mm_setcsr(before | 0x8040); /* flush to zero, denormals are zero */
    uint32_t mode = hki_fp_enter();
    hki_reduce_two(&sum, out, tiny, tiny, 2, false);
    hki_fp_leave(mode);
    unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    assert_int_equal(after & 0x8040, 0x8040);
    assert_true(out[0] == 0x1p-139f && out[1] == 0x1p-140f);
}
#endif

static void kernels_can_be_chosen(void **state)
{
    (void)state;
    assert_true(hki_kernels_choose("reference"));
    assert_string_equal(hki_kernels_name(), "reference");
    assert_false(hki_kernels_choose("sse9"));
    assert_string_equal(hki_kernels_name(), "reference");
    assert_true(hki_kernels_choose("auto"));
}

static void the_setting_chooses_and_a_wrong_one_is_an_error(void **state)
{
    (void)state;
    hki_reducer reducer;
    setenv("HOCKET_KERNELS", "sse9", 1);
    hki_settings_reset();
    assert_int_equal(hki_reducer_find(HK_FLOAT32, HK_SUM, &reducer), HK_ERR_SETTING);
    assert_error_says("HOCKET_KERNELS=sse9");
    setenv("HOCKET_KERNELS", "reference", 1);
    hki_settings_reset();
    assert_string_equal(hki_kernels_name(), "reference");
    unsetenv("HOCKET_KERNELS");
    hki_settings_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_setting_chooses_and_a_wrong_one_is_an_error), /* first: before anything was chosen */
        cmocka_unit_test(types_have_names_and_sizes),
        cmocka_unit_test(unknown_types_have_no_size),
        cmocka_unit_test(bitwise_and_logical_operators_refuse_floats),
        cmocka_unit_test(opaque_elements_need_a_made_operator),
        cmocka_unit_test(unknown_operators_are_refused),
        cmocka_unit_test(made_operators_bear_their_arguments),
        cmocka_unit_test(made_operators_fold_in_order_and_in_place),
        cmocka_unit_test(a_freed_operator_lives_until_released),
        cmocka_unit_test(at_most_1024_operators_live),
        cmocka_unit_test(threads_make_operators_at_once),
        cmocka_unit_test(premul_sum_scales_inputs_of_its_type),
        cmocka_unit_test(premul_sum_of_integers_wraps),
        cmocka_unit_test(averages_divide_once_at_the_end),
        cmocka_unit_test(averages_round_once),
        cmocka_unit_test(kernels_round_to_nearest_whatever_the_caller_does),
#if defined(__x86_64__)
        cmocka_unit_test(denormals_are_kept_for_callers_that_flush_them),
#endif
        cmocka_unit_test(kernels_can_be_chosen),
    };
    return cmocka_run_group_tests_name("dtype", tests, NULL, NULL);
}

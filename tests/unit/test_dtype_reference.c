/* The reference kernels against arithmetic done otherwise: integers in 128 bits, floats in quadruple precision and
 * rounded to their format by scaling. */
#include "dtype/kernels.h"
#include "dtype_values.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#if defined(__x86_64__)
typedef __float128 wide;
#else
typedef long double wide; /* quadruple on arm64 */
#endif

static uint64_t read_bits(const void *data, uint64_t index, hk_type type)
{
    uint64_t bits = 0;
    size_t bytes = hk_type_size(type);
    memcpy(&bits, (const char *)data + index * bytes, bytes);
    return bits;
}

/* ---- integers ---- */

static bool is_signed(hk_type type)
{
    return type == HK_INT8 || type == HK_INT16 || type == HK_INT32 || type == HK_INT64;
}

/* The value that the low bits of v have in the type. */
static __int128 wrap(__int128 v, hk_type type)
{
    unsigned width = (unsigned)hk_type_size(type) * 8;
    unsigned __int128 low = (unsigned __int128)v & ((((unsigned __int128)1) << width) - 1);
    if (is_signed(type) && low >> (width - 1))
        return (__int128)low - ((__int128)1 << width);
    return (__int128)low;
}

static __int128 combine_integers(hk_op op, __int128 a, __int128 b)
{
    switch (op) {
    case HK_SUM:
    case HK_AVG:
        return a + b;
    case HK_PROD:
        return (__int128)((unsigned __int128)a * (unsigned __int128)b);
    case HK_MIN:
        return a < b ? a : b;
    case HK_MAX:
        return a > b ? a : b;
    case HK_BAND:
        return a & b;
    case HK_BOR:
        return a | b;
    case HK_BXOR:
        return a ^ b;
    case HK_LAND:
        return a && b;
    case HK_LOR:
        return a || b;
    default:
        return !a != !b;
    }
}

static uint64_t integer_oracle(hk_type type, hk_op op, const void *const *sources, unsigned k, uint64_t i, uint32_t d)
{
    __int128 result = wrap((__int128)read_bits(sources[0], i, type), type);
    if (k == 1 && (op == HK_LAND || op == HK_LOR || op == HK_LXOR))
        result = result != 0;
    for (unsigned s = 1; s < k; s++)
        result = wrap(combine_integers(op, result, wrap((__int128)read_bits(sources[s], i, type), type)), type);
    if (op == HK_AVG && d > 1)
        result /= d;
    uint64_t bits = (uint64_t)result;
    return read_bits(&bits, 0, type);
}

/* ---- floats: a format has `digits` bits of significand and least normal exponent `low` (of 1.x · 2^low) ---- */

typedef struct format {
    int digits, low, high;
} format;

static format format_of(hk_type type)
{
    switch (type) {
    case HK_FLOAT16:
        return (format){11, -14, 15};
    case HK_BFLOAT16:
        return (format){8, -126, 127};
    case HK_FLOAT32:
        return (format){24, -126, 127};
    default:
        return (format){53, -1022, 1023};
    }
}

static double decode(uint64_t bits, hk_type type)
{
    format f = format_of(type);
    unsigned width = (unsigned)hk_type_size(type) * 8;
    uint64_t fraction = bits & ((UINT64_C(1) << (f.digits - 1)) - 1);
    int exponent = (int)(bits >> (f.digits - 1) & ((UINT64_C(1) << (width - (unsigned)f.digits)) - 1));
    double sign = bits >> (width - 1) & 1 ? -1.0 : 1.0;
    if (exponent == f.high - f.low + 2)
        return fraction ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp((double)fraction, f.low - f.digits + 1);
    return sign * ldexp((double)(fraction + (UINT64_C(1) << (f.digits - 1))), exponent - 1 + f.low - f.digits + 1);
}

static uint64_t encode(double value, hk_type type)
{
    format f = format_of(type);
    unsigned width = (unsigned)hk_type_size(type) * 8;
    uint64_t sign = signbit(value) ? UINT64_C(1) << (width - 1) : 0;
    uint64_t top = ((UINT64_C(1) << (width - (unsigned)f.digits)) - 1) << (f.digits - 1);
    if (isnan(value))
        return top | UINT64_C(1) << (f.digits - 2);
    int exponent = 0;
    frexp(value, &exponent); /* value = 0.1x · 2^exponent */
    int place = (exponent - 1 < f.low || value == 0 ? f.low : exponent - 1) - f.digits + 1; /* of the last digit */
    if (isinf(value))
        return sign | top;
    double digits = nearbyint(ldexp(fabs(value), -place)); /* to nearest even */
    if (ldexp(digits, place) >= ldexp(1.0, f.high) * 2)
        return sign | top;
    return sign | (((uint64_t)(place - (f.low - f.digits + 1)) << (f.digits - 1)) + (uint64_t)digits);
}

static double combine_floats(hk_type type, hk_op op, double a, double b)
{
    wide exact;
    switch (op) {
    case HK_MIN:
    case HK_MAX:
        if (isnan(a) || isnan(b))
            return NAN;
        if (a == b)
            return (op == HK_MIN) == (signbit(a) != 0) ? a : b;
        return (op == HK_MIN) == (a < b) ? a : b;
    case HK_PROD:
        exact = (wide)a * (wide)b;
        break;
    default:
        exact = (wide)a + (wide)b;
    }
    return type == HK_FLOAT64 ? (double)exact : (double)(float)exact;
}

static uint64_t float_oracle(hk_type type, hk_op op, const void *const *sources, unsigned k, uint64_t i, uint32_t d)
{
    double result = decode(read_bits(sources[0], i, type), type);
    for (unsigned s = 1; s < k; s++)
        result = combine_floats(type, op, result, decode(read_bits(sources[s], i, type), type));
    if (op == HK_AVG && d > 1)
        result = type == HK_FLOAT64 ? (double)((wide)result / d) : (double)(float)((wide)result / (float)d);
    return encode(result, type);
}

/* ---- tests ---- */

enum { COUNT = 1500, SOURCES = 9 };

static void check_pair(hk_type type, hk_op op, uint64_t *state)
{
    static const uint32_t divisors[SOURCES + 1] = {0, 1, 2, 3, 4, 5, 7, 1000, 65537, 4000000000u};
    const hki_kernel_entry *entry = &hki_kernels_reference.entries[type][op];
    static char data[SOURCES][COUNT * 8], out[COUNT * 8];
    const void *sources[SOURCES];
    for (unsigned s = 0; s < SOURCES; s++) {
        fill_values(data[s], COUNT, type, state);
        sources[s] = data[s];
    }
    for (unsigned k = 1; k <= SOURCES; k++) {
        entry->many(out, sources, k, COUNT, divisors[k]);
        if (k == 2 && op != HK_AVG)
            entry->two(out, sources[0], sources[1], COUNT);
        for (uint64_t i = 0; i < COUNT; i++) {
            uint64_t expected = type >= HK_FLOAT16 ? float_oracle(type, op, sources, k, i, divisors[k])
                                                   : integer_oracle(type, op, sources, k, i, divisors[k]);
            if (read_bits(out, i, type) != expected)
                fail_msg("%s %s of %u sources: %llx, expected %llx (first two operands %llx, %llx)", hk_type_name(type),
                         hk_op_name(op), k, (unsigned long long)read_bits(out, i, type), (unsigned long long)expected,
                         (unsigned long long)read_bits(sources[0], i, type),
                         (unsigned long long)read_bits(sources[1], i, type));
        }
    }
}

static void every_type_and_operator_agrees_with_exact_arithmetic(void **test_state)
{
    (void)test_state;
    uint64_t state = 20240607, pairs = 0;
    for (hk_type type = 0; type < HK_TYPE_COUNT; type++)
        for (hk_op op = 0; op < HK_OP_COUNT; op++)
            if (hki_kernels_reference.entries[type][op].two != NULL) {
                check_pair(type, op, &state);
                pairs++;
            }
    assert_int_equal(pairs, 8 * HK_OP_COUNT + 4 * 5); /* integers take all, floats the five of arithmetic */
}

/* All 65,536 values of a 16-bit float survive one source of sum unchanged, but for NaN, which becomes canonical. */
static void check_identity(hk_type type)
{
    static uint16_t all[65536], out[65536];
    for (unsigned i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    const void *source = all;
    hki_kernels_reference.entries[type][HK_SUM].many(out, &source, 1, 65536, 1);
    for (unsigned i = 0; i < 65536; i++)
        assert_int_equal(out[i], encode(decode(i, type), type));
}

static void all_values_of_16_bit_floats_pass_through(void **test_state)
{
    (void)test_state;
    check_identity(HK_FLOAT16);
    check_identity(HK_BFLOAT16);
}

/* A float32 sum that lies on, just above and just below the middle between two 16-bit neighbours. */
static void halves_round_to_even(void **test_state)
{
    (void)test_state;
    static const struct {
        hk_type type;
        uint16_t left, right, sum;
    } cases[] = {
        {HK_FLOAT16, 0x6800, 0x3c00, 0x6800},  /* 2048 + 1 = 2049 → 2048, even */
        {HK_FLOAT16, 0x6801, 0x3c00, 0x6802},  /* 2050 + 1 = 2051 → 2052, even */
        {HK_FLOAT16, 0x6800, 0x3c01, 0x6801},  /* just above the middle */
        {HK_FLOAT16, 0x7bff, 0x4bff, 0x7bff},  /* 65504 + 15.99 stays the largest */
        {HK_FLOAT16, 0x7bff, 0x4c00, 0x7c00},  /* 65504 + 16 = 65520 → infinity */
        {HK_BFLOAT16, 0x4380, 0x3f80, 0x4380}, /* 256 + 1 = 257 → 256 */
        {HK_BFLOAT16, 0x4381, 0x3f80, 0x4382}, /* 258 + 1 = 259 → 260 */
        {HK_BFLOAT16, 0x7f7f, 0x7b00, 0x7f80}, /* largest + half a step → infinity */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint16_t out = 0;
        hki_kernels_reference.entries[cases[i].type][HK_SUM].two(&out, &cases[i].left, &cases[i].right, 1);
        assert_int_equal(out, cases[i].sum);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_operator_agrees_with_exact_arithmetic),
        cmocka_unit_test(all_values_of_16_bit_floats_pass_through),
        cmocka_unit_test(halves_round_to_even),
    };
    return cmocka_run_group_tests_name("dtype reference", tests, NULL, NULL);
}

#include "collective_values.h"

#include "dtype/elements.h"

#include <string.h>

uint64_t values_noise(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t x = seed ^ a * UINT64_C(0x9e3779b97f4a7c15) ^ (b + 1) * UINT64_C(0xd6e8feb86659fd93);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* --- numbers: integers are kept as in their type, sign-extended ------------------------------------------------------
 */

typedef union number {
    uint64_t u;
    int64_t i;
    double f;
} number;

typedef enum kind { SIGNED, UNSIGNED, FLOATING } kind;

static kind kind_of(hk_type type)
{
    switch (type) {
    case HK_INT8:
    case HK_INT16:
    case HK_INT32:
    case HK_INT64:
        return SIGNED;
    case HK_UINT8:
    case HK_UINT16:
    case HK_UINT32:
    case HK_UINT64:
        return UNSIGNED;
    default:
        return FLOATING;
    }
}

static number wrap(hk_type type, uint64_t bits)
{
    unsigned spare = 64 - 8 * (unsigned)hk_type_size(type);
    number value = {.u = bits << spare};
    if (kind_of(type) == SIGNED)
        value.i >>= spare;
    else
        value.u >>= spare;
    return value;
}

static void store(hk_type type, number value, void *out, uint64_t index)
{
    switch (type) {
    case HK_FLOAT16:
        store_float16(out, index, (float)value.f);
        break;
    case HK_BFLOAT16:
        store_bfloat16(out, index, (float)value.f);
        break;
    case HK_FLOAT32:
        store_float32(out, index, (float)value.f);
        break;
    case HK_FLOAT64:
        store_float64(out, index, value.f);
        break;
    default: /* little-endian, as is every machine that Hocket serves */
        memcpy((char *)out + index * hk_type_size(type), &value.u, hk_type_size(type));
    }
}

/* Values repeat with a period that no cut has, so that large buffers cost no more than copying. */
enum { PERIOD = 4099 };

static uint64_t first_period(uint64_t count)
{
    return count < PERIOD ? count : PERIOD;
}

static void repeat(hk_type type, uint64_t count, void *out)
{
    size_t size = hk_type_size(type);
    for (uint64_t done = PERIOD; done < count; done *= 2)
        memcpy((char *)out + done * size, out, (done < count - done ? done : count - done) * size);
}

/* --- what is contributed ---------------------------------------------------------------------------------------------
 */

/* The scalar of a rank's pre-multiplied sum. */
static number scalar(const values_of *of, int rank)
{
    uint64_t noise = values_noise(of->seed, 77, (uint64_t)rank);
    if (kind_of(of->type) == FLOATING)
        return (number){.f = (double)(noise % 5) - 2};
    return wrap(of->type, noise);
}

/* Powers of two, few of them other than one: products stay exact in 8 bits of mantissa and 5 of exponent. */
static number factor(int rank, uint64_t noise)
{
    double magnitude = rank >= 8 ? 1 : noise % 3 == 0 ? 2 : noise % 3 == 1 ? 0.5 : 1;
    return (number){.f = noise >> 32 & 1 ? -magnitude : magnitude};
}

static number contribution(const values_of *of, int rank, uint64_t noise)
{
    if (kind_of(of->type) != FLOATING) {
        /* Logical operators see zeros often enough. */
        bool zero = of->op >= HK_LAND && of->op <= HK_LXOR && noise >> 40 & 1;
        return zero ? (number){.u = 0} : wrap(of->type, noise);
    }
    if (of->op == HK_PROD)
        return factor(rank, noise);
    if (of->op == HK_MIN || of->op == HK_MAX)
        return (number){.f = (double)(noise % 511) - 255};
    return (number){.f = (double)(noise % 9) - 4};
}

static uint64_t key_of(int rank, int block)
{
    return (uint64_t)rank << 32 | (uint64_t)block;
}

/* Bytes as they come: for what is only moved, and for the operators on opaque elements. */
static void raw(const values_of *of, uint64_t key, uint64_t first, uint64_t count, void *out)
{
    size_t size = hk_type_size(of->type);
    for (uint64_t i = 0; i < count; i++) {
        for (size_t at = 0; at < size; at += 8) {
            uint64_t noise = values_noise(of->seed, key, (first + i) * (1 + size / 8) + at / 8);
            memcpy((char *)out + i * size + at, &noise, size - at < 8 ? size - at : 8);
        }
    }
}

void values_input(const values_of *of, int rank, int block, uint64_t count, void *out)
{
    uint64_t key = key_of(rank, block), some = first_period(count);
    if (!of->reduces || of->type >= HK_TYPE_COUNT)
        raw(of, key, 0, some, out);
    for (uint64_t i = 0; i < some && of->reduces && of->type < HK_TYPE_COUNT; i++)
        store(of->type, contribution(of, rank, values_noise(of->seed, key, i)), out, i);
    repeat(of->type, count, out);
}

/* --- what comes of it ------------------------------------------------------------------------------------------------
 */

static number combine_integers(hk_type type, int op, number a, number b)
{
    bool less = kind_of(type) == SIGNED ? a.i < b.i : a.u < b.u;
    switch (op) {
    case HK_PROD:
        return wrap(type, a.u * b.u);
    case HK_MIN:
        return less ? a : b;
    case HK_MAX:
        return less ? b : a;
    case HK_BAND:
        return wrap(type, a.u & b.u);
    case HK_BOR:
        return wrap(type, a.u | b.u);
    case HK_BXOR:
        return wrap(type, a.u ^ b.u);
    case HK_LAND:
        return (number){.u = a.u && b.u};
    case HK_LOR:
        return (number){.u = a.u || b.u};
    case HK_LXOR:
        return (number){.u = !a.u != !b.u};
    case VALUES_COUNTING:
        return wrap(type, a.u + b.u + 1);
    default:
        return wrap(type, a.u + b.u);
    }
}

static number combine(hk_type type, int op, number a, number b)
{
    if (kind_of(type) != FLOATING)
        return combine_integers(type, op, a, b);
    switch (op) {
    case HK_PROD:
        return (number){.f = a.f * b.f};
    case HK_MIN:
        return a.f < b.f ? a : b;
    case HK_MAX:
        return a.f < b.f ? b : a;
    default:
        return (number){.f = a.f + b.f};
    }
}

static number divided(hk_type type, number sum, int ranks)
{
    switch (kind_of(type)) {
    case SIGNED:
        return (number){.i = sum.i / ranks};
    case UNSIGNED:
        return (number){.u = sum.u / (unsigned)ranks};
    default: /* in the type that is computed in: rounding twice is part of the rule */
        return (number){.f = type == HK_FLOAT64 ? sum.f / ranks : (double)((float)sum.f / (float)ranks)};
    }
}

static number scaled(const values_of *of, int rank, number value)
{
    number by = scalar(of, rank);
    if (kind_of(of->type) == FLOATING)
        return (number){.f = by.f * value.f};
    return wrap(of->type, by.u * value.u);
}

/* A logical operator's result is 0 or 1 even when one rank alone contributes to a prefix: then it is the input. */
static void reduced_numbers(const values_of *of, int low, int high, int block, uint64_t count, void *out)
{
    for (uint64_t i = 0; i < count; i++) {
        number total = {.u = 0};
        for (int rank = low; rank <= high; rank++) {
            number one = contribution(of, rank, values_noise(of->seed, key_of(rank, block), i));
            if (of->op == VALUES_PREMUL)
                one = scaled(of, rank, one);
            total = rank == low ? one : combine(of->type, of->op, total, one);
        }
        store(of->type, of->op == HK_AVG ? divided(of->type, total, of->ranks) : total, out, i);
    }
}

static void affine(const void *left, const void *right, void *out, uint64_t count, hk_type type, void *context)
{
    (void)type;
    (void)context;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t l[2], r[2], result[2];
        memcpy(l, (const char *)left + 8 * i, 8);
        memcpy(r, (const char *)right + 8 * i, 8);
        result[0] = l[0] * r[0];
        result[1] = r[0] * l[1] + r[1];
        memcpy((char *)out + 8 * i, result, 8);
    }
}

static void triangular(const void *left, const void *right, void *out, uint64_t count, hk_type type, void *context)
{
    (void)type;
    (void)context;
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *l = (const uint8_t *)left + 3 * i, *r = (const uint8_t *)right + 3 * i;
        uint8_t result[3] = {(uint8_t)(l[0] * r[0]), (uint8_t)(l[0] * r[1] + l[1] * r[2]), (uint8_t)(l[2] * r[2])};
        memcpy((char *)out + 3 * i, result, 3);
    }
}

static void counting(const void *left, const void *right, void *out, uint64_t count, hk_type type, void *context)
{
    (void)type;
    const uint64_t *step = context;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t l, r;
        memcpy(&l, (const char *)left + 8 * i, 8);
        memcpy(&r, (const char *)right + 8 * i, 8);
        l += r + *step;
        memcpy((char *)out + 8 * i, &l, 8);
    }
}

static void reduced_opaque(const values_of *of, int low, int high, int block, uint64_t count, void *out)
{
    hk_op_function *function = of->op == VALUES_AFFINE ? affine : triangular;
    for (uint64_t i = 0; i < count; i++) {
        char total[8], one[8];
        raw(of, key_of(low, block), i, 1, total);
        for (int rank = low + 1; rank <= high; rank++) {
            raw(of, key_of(rank, block), i, 1, one);
            function(total, one, total, 1, of->type, NULL);
        }
        memcpy((char *)out + i * hk_type_size(of->type), total, hk_type_size(of->type));
    }
}

void values_reduced(const values_of *of, int low, int high, int block, uint64_t count, void *out)
{
    if (of->type >= HK_TYPE_COUNT)
        reduced_opaque(of, low, high, block, first_period(count), out);
    else
        reduced_numbers(of, low, high, block, first_period(count), out);
    repeat(of->type, count, out);
}

/* --- operators -------------------------------------------------------------------------------------------------------
 */

bool values_op_fits(int op, hk_type type)
{
    switch (op) {
    case VALUES_COUNTING:
        return type == HK_UINT64;
    case VALUES_AFFINE:
        return type == HK_OPAQUE(8);
    case VALUES_TRIANGULAR:
        return type == HK_OPAQUE(3);
    default:
        return type < HK_TYPE_COUNT && (op < HK_BAND || op == VALUES_PREMUL || kind_of(type) != FLOATING);
    }
}

bool values_op_commutes(int op)
{
    return op != VALUES_AFFINE && op != VALUES_TRIANGULAR;
}

const char *values_op_name(int op)
{
    static const char *const made[] = {"premul_sum", "user counting", "user affine", "user triangular"};
    return op < HK_OP_COUNT ? hk_op_name((hk_op)op) : made[op - HK_OP_COUNT];
}

hk_status values_op_make(const values_of *of, int rank, hk_op *op)
{
    static uint64_t one = 1;
    switch (of->op) {
    case VALUES_PREMUL: {
        uint64_t bits;
        store(of->type, scalar(of, rank), &bits, 0);
        return hk_op_create_premul_sum(&bits, of->type, op);
    }
    case VALUES_COUNTING:
        return hk_op_create(counting, 1, &one, op);
    case VALUES_AFFINE:
        return hk_op_create(affine, 0, NULL, op);
    case VALUES_TRIANGULAR:
        return hk_op_create(triangular, 0, NULL, op);
    default:
        *op = (hk_op)of->op;
        return HK_OK;
    }
}

void values_op_free(hk_op op)
{
    if (op >= HK_OP_COUNT)
        (void)hk_op_free(op);
}

/*
 * The kernels of a vector instruction set, written once. The including file has defined, on raw vectors:
 *   least_T, greatest_T     T = the eight integer types
 *   least_T, greatest_T     T = float32, float64: some NaN when an operand is NaN, and −0 before +0
 *   canonical_T             T = float32, float64: NaN elements made canonical
 *   widen_float16_low/high  the first/second half of float16 elements as float32
 *   narrow_float16          two vectors of float32 (without NaN payloads) to float16, to nearest even
 *   store_stream            non-temporal store at an aligned address, when HAS_STREAM; stream_fence after the last
 *   load_part, store_part   the first `bytes` < VECTOR of memory, when HAS_PART; without it, most short arrays go to
 *                           the reference kernels
 * and SET, the name of the set. It gives vector_set.
 *
 * The drivers take the operation as functions, which compilers inline:
 *   load     storage → lanes: what is computed in. 16-bit floats widen to two vectors of float32, all else to one
 *   step     one vector ⊕ one vector
 *   divide   NULL, or the division of an average
 *   store    lanes → storage, NaN made canonical
 */
#ifndef HKI_DTYPE_VECTOR_KERNELS_H
#define HKI_DTYPE_VECTOR_KERNELS_H

#include "dtype/vector.h"

typedef struct lanes {
    raw low, high; /* high: 16-bit floats only */
} lanes;

typedef lanes load_function(raw value);
typedef raw store_function(lanes value);
typedef raw step_function(raw left, raw right);
typedef raw divide_function(raw value, uint32_t divisor);

typedef struct operation {
    load_function *load;
    step_function *step;
    divide_function *divide;
    store_function *store;
    hki_kernel2 *const *short_two; /* the reference's, for arrays shorter than a vector where there is no HAS_PART */
    hki_kernel *const *short_many;
} operation;

/* ---------------------------------------------------------------------------------------------------------------
 * Drivers. In-place use works because a vector is loaded before any store can touch it: the last (and, streaming, the
 * first) vector, which overlaps its neighbours, is computed before the loop and stored after it.
 * ------------------------------------------------------------------------------------------------------------- */

enum { UNROLL = 4, BLOCK = UNROLL * VECTOR };

INLINE lanes combine(operation op, lanes left, lanes right)
{
    return (lanes){op.step(left.low, right.low), op.step(left.high, right.high)};
}

INLINE raw reduce_two(operation op, const char *left, const char *right)
{
    return op.store(combine(op, op.load(load_raw(left)), op.load(load_raw(right))));
}

#ifndef HAS_PART
/* Eight bytes in a vector of zeros: the shortest arrays that matter are one or two numbers. */
INLINE raw load_word(const void *memory)
{
    uint64_t word;
    memcpy(&word, memory, sizeof word);
    return (raw)(vector_uint64){word};
}

INLINE void store_word(void *memory, raw value)
{
    uint64_t word = ((vector_uint64)value)[0];
    memcpy(memory, &word, sizeof word);
}
#endif

/* Fewer bytes than a vector. */
INLINE void drive_short_two(operation op, void *out, const void *left, const void *right, size_t bytes, uint64_t count)
{
#ifdef HAS_PART
    (void)count;
    store_part(out, bytes, op.store(combine(op, op.load(load_part(left, bytes)), op.load(load_part(right, bytes)))));
#else
    if (bytes == sizeof(uint64_t))
        store_word(out, op.store(combine(op, op.load(load_word(left)), op.load(load_word(right)))));
    else
        (*op.short_two)(out, left, right, count);
#endif
}

INLINE void drive_two(operation op, char *out, const char *left, const char *right, uint64_t count, size_t element)
{
    size_t bytes = count * element, at = 0;
    if (bytes < VECTOR) {
        drive_short_two(op, out, left, right, bytes, count);
        return;
    }
    raw last = reduce_two(op, left + bytes - VECTOR, right + bytes - VECTOR);
    for (; bytes - at >= BLOCK; at += BLOCK) {
        raw results[UNROLL];
#pragma GCC unroll 4
        for (size_t u = 0; u < UNROLL; u++)
            results[u] = reduce_two(op, left + at + u * VECTOR, right + at + u * VECTOR);
#pragma GCC unroll 4
        for (size_t u = 0; u < UNROLL; u++)
            store_raw(out + at + u * VECTOR, results[u]);
    }
    for (; bytes - at >= VECTOR; at += VECTOR)
        store_raw(out + at, reduce_two(op, left + at, right + at));
    store_raw(out + bytes - VECTOR, last);
}

#ifdef HAS_STREAM
/* Shorter results are stored as usual: waiting for the fence costs about 0.2 µs (measured on an AMD EPYC, Zen 5). */
enum { STREAM_MINIMUM = 8192 };

/* Bytes from out to the next vector's boundary; SIZE_MAX when elements straddle all boundaries, or the array is too
 * short to be worth it. */
INLINE size_t stream_start(const char *out, size_t bytes, size_t element)
{
    size_t start = -(uintptr_t)out % VECTOR;
    return bytes >= STREAM_MINIMUM && start % element == 0 ? start : SIZE_MAX;
}

INLINE void drive_two_stream(operation op, char *out, const char *left, const char *right, uint64_t count,
                             size_t element)
{
    size_t bytes = count * element, at = stream_start(out, bytes, element);
    if (at == SIZE_MAX) {
        drive_two(op, out, left, right, count, element);
        return;
    }
    raw first = reduce_two(op, left, right), last = reduce_two(op, left + bytes - VECTOR, right + bytes - VECTOR);
    for (; bytes - at >= BLOCK; at += BLOCK) {
        raw results[UNROLL];
#pragma GCC unroll 4
        for (size_t u = 0; u < UNROLL; u++)
            results[u] = reduce_two(op, left + at + u * VECTOR, right + at + u * VECTOR);
#pragma GCC unroll 4
        for (size_t u = 0; u < UNROLL; u++)
            store_stream(out + at + u * VECTOR, results[u]);
    }
    for (; bytes - at >= VECTOR; at += VECTOR)
        store_raw(out + at, reduce_two(op, left + at, right + at));
    store_raw(out, first);
    store_raw(out + bytes - VECTOR, last);
    stream_fence();
}

static void copy_stream(void *out, const void *in, size_t bytes)
{
    char *to = out;
    const char *from = in;
    size_t at = stream_start(to, bytes, 1);
    if (at == SIZE_MAX) {
        if (bytes > 0)
            memcpy(out, in, bytes);
        return;
    }
    store_raw(to, load_raw(from));
    for (; bytes - at >= BLOCK; at += BLOCK) {
        raw results[UNROLL];
#pragma GCC unroll 4
        for (size_t u = 0; u < UNROLL; u++)
            results[u] = load_raw(from + at + u * VECTOR);
#pragma GCC unroll 4
        for (size_t u = 0; u < UNROLL; u++)
            store_stream(to + at + u * VECTOR, results[u]);
    }
    memcpy(to + at, from + at, bytes - at);
    stream_fence();
}
#endif

INLINE raw finish_lanes(operation op, lanes value, uint32_t divisor)
{
    if (op.divide != NULL && divisor > 1)
        value = (lanes){op.divide(value.low, divisor), op.divide(value.high, divisor)};
    return op.store(value);
}

INLINE raw reduce_many(operation op, const void *const *sources, unsigned source_count, size_t at, uint32_t divisor)
{
    lanes result = op.load(load_raw((const char *)sources[0] + at));
    for (unsigned s = 1; s < source_count; s++)
        result = combine(op, result, op.load(load_raw((const char *)sources[s] + at)));
    return finish_lanes(op, result, divisor);
}

INLINE void drive_short_many(operation op, void *out, const void *const *sources, unsigned source_count, size_t bytes,
                             uint64_t count, uint32_t divisor)
{
#ifdef HAS_PART
    (void)count;
    lanes result = op.load(load_part(sources[0], bytes));
    for (unsigned s = 1; s < source_count; s++)
        result = combine(op, result, op.load(load_part(sources[s], bytes)));
    store_part(out, bytes, finish_lanes(op, result, divisor));
#else
    (void)bytes;
    (*op.short_many)(out, sources, source_count, count, divisor);
#endif
}

/* BLOCK bytes from `at` of all sources. */
INLINE void reduce_block(operation op, char *out, const void *const *sources, unsigned source_count, size_t at,
                         uint32_t divisor)
{
    lanes results[UNROLL];
#pragma GCC unroll 4
    for (size_t u = 0; u < UNROLL; u++)
        results[u] = op.load(load_raw((const char *)sources[0] + at + u * VECTOR));
    for (unsigned s = 1; s < source_count; s++) {
        const char *source = (const char *)sources[s] + at;
#pragma GCC unroll 4
        for (size_t u = 0; u < UNROLL; u++)
            results[u] = combine(op, results[u], op.load(load_raw(source + u * VECTOR)));
    }
#pragma GCC unroll 4
    for (size_t u = 0; u < UNROLL; u++)
        store_raw(out + at + u * VECTOR, finish_lanes(op, results[u], divisor));
}

INLINE void drive_many(operation op, char *out, const void *const *sources, unsigned source_count, uint64_t count,
                       size_t element, uint32_t divisor)
{
    size_t bytes = count * element, at = 0;
    if (bytes < VECTOR) {
        drive_short_many(op, out, sources, source_count, bytes, count, divisor);
        return;
    }
    raw last = reduce_many(op, sources, source_count, bytes - VECTOR, divisor);
    for (; bytes - at >= BLOCK; at += BLOCK)
        reduce_block(op, out, sources, source_count, at, divisor);
    for (; bytes - at >= VECTOR; at += VECTOR)
        store_raw(out + at, reduce_many(op, sources, source_count, at, divisor));
    store_raw(out + bytes - VECTOR, last);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Loads and stores
 * ------------------------------------------------------------------------------------------------------------- */

INLINE lanes load_plain(raw value)
{
    return (lanes){value, value};
}

INLINE raw store_plain(lanes value)
{
    return value.low;
}

#define LOAD_TRUTH(width)                                                                                              \
    INLINE lanes load_truth##width(raw value)                                                                          \
    {                                                                                                                  \
        raw truth = (raw)((vector_uint##width)value != 0) & SPLAT(uint##width, 1);                                     \
        return (lanes){truth, truth};                                                                                  \
    }
LOAD_TRUTH(8)
LOAD_TRUTH(16)
LOAD_TRUTH(32)
LOAD_TRUTH(64)
#undef LOAD_TRUTH

INLINE raw store_canonical32(lanes value)
{
    return canonical_float32(value.low);
}

INLINE raw store_canonical64(lanes value)
{
    return canonical_float64(value.low);
}

INLINE lanes load_float16_lanes(raw value)
{
    return (lanes){widen_float16_low(value), widen_float16_high(value)};
}

INLINE raw store_float16_lanes(lanes value)
{
    return narrow_float16(canonical_float32(value.low), canonical_float32(value.high));
}

/* bfloat16 is the upper half of a float32. Elements of even number are the lower halves of 32-bit words on a
 * little-endian CPU; taking even and odd ones apart needs no shuffle. */
INLINE lanes load_bfloat16_lanes(raw value)
{
    vector_uint32 words = (vector_uint32)value;
    return (lanes){(raw)(words << 16), (raw)(words & 0xffff0000u)};
}

/* The float32 bits plus what carries into the upper half when that rounds up, to nearest even. NaN is canonical, so
 * that nothing overflows. */
INLINE vector_uint32 rounded_bfloat16(raw value)
{
    vector_uint32 bits = (vector_uint32)canonical_float32(value);
    return bits + 0x7fffu + (bits >> 16 & 1u);
}

INLINE raw store_bfloat16_lanes(lanes value)
{
    return (raw)(rounded_bfloat16(value.low) >> 16 | (rounded_bfloat16(value.high) & 0xffff0000u));
}

/* ---------------------------------------------------------------------------------------------------------------
 * Steps. Integers' sums, products and bitwise operations do not depend on the sign, so that one per width serves.
 * ------------------------------------------------------------------------------------------------------------- */

#define STEP(name, vector, operator)                                                                                   \
    INLINE raw name(raw left, raw right)                                                                               \
    {                                                                                                                  \
        return (raw)((vector)left operator(vector) right);                                                             \
    }
STEP(sum8, vector_uint8, +)
STEP(sum16, vector_uint16, +)
STEP(sum32, vector_uint32, +)
STEP(sum64, vector_uint64, +)
STEP(prod8, vector_uint8, *)
STEP(prod16, vector_uint16, *)
STEP(prod32, vector_uint32, *)
STEP(prod64, vector_uint64, *)
STEP(band, raw, &)
STEP(bor, raw, |)
STEP(bxor, raw, ^)
STEP(add_float32, vector_float32, +)
STEP(add_float64, vector_float64, +)
STEP(multiply_float32, vector_float32, *)
STEP(multiply_float64, vector_float64, *)
#undef STEP

/* No CPU divides vectors of integers. Those of up to 32 bits go through Q, float32 or float64, which gives the exact
 * quotient: one that is not whole is at least 1/divisor away from the next whole number, a share of 1/value of itself,
 * and rounding moves it by less than 2^-24 (values below 2^16) or 2^-53 (below 2^32). Compilers make vectors of it. */
#define DIVIDE_INTEGER(type, T, Q)                                                                                     \
    INLINE raw quotient_##type(raw value, uint32_t divisor)                                                            \
    {                                                                                                                  \
        T elements[VECTOR / sizeof(T)];                                                                                \
        memcpy(elements, &value, sizeof elements);                                                                     \
        for (size_t i = 0; i < VECTOR / sizeof(T); i++)                                                                \
            elements[i] = (T)((Q)elements[i] / (Q)divisor);                                                            \
        memcpy(&value, elements, sizeof elements);                                                                     \
        return value;                                                                                                  \
    }
DIVIDE_INTEGER(int8, int8_t, float)
DIVIDE_INTEGER(uint8, uint8_t, float)
DIVIDE_INTEGER(int16, int16_t, float)
DIVIDE_INTEGER(uint16, uint16_t, float)
DIVIDE_INTEGER(int32, int32_t, double)
DIVIDE_INTEGER(uint32, uint32_t, double)
DIVIDE_INTEGER(int64, int64_t, int64_t)
DIVIDE_INTEGER(uint64, uint64_t, uint64_t)
#undef DIVIDE_INTEGER

INLINE raw quotient_float32(raw value, uint32_t divisor)
{
    return (raw)((vector_float32)value / (float)divisor);
}

INLINE raw quotient_float64(raw value, uint32_t divisor)
{
    return (raw)((vector_float64)value / (double)divisor);
}

/* ---------------------------------------------------------------------------------------------------------------
 * The kernels: X(name, TYPE, OPERATOR, element bytes, load, step, store), then those of averages.
 * ------------------------------------------------------------------------------------------------------------- */

#define WIDTH_KERNELS(X, width, bytes)                                                                                 \
    X(sum##width, UINT##width, SUM, bytes, load_plain, sum##width, store_plain)                                        \
    X(prod##width, UINT##width, PROD, bytes, load_plain, prod##width, store_plain)                                     \
    X(band##width, UINT##width, BAND, bytes, load_plain, band, store_plain)                                            \
    X(bor##width, UINT##width, BOR, bytes, load_plain, bor, store_plain)                                               \
    X(bxor##width, UINT##width, BXOR, bytes, load_plain, bxor, store_plain)                                            \
    X(land##width, UINT##width, LAND, bytes, load_truth##width, band, store_plain)                                     \
    X(lor##width, UINT##width, LOR, bytes, load_truth##width, bor, store_plain)                                        \
    X(lxor##width, UINT##width, LXOR, bytes, load_truth##width, bxor, store_plain)                                     \
    X(min_int##width, INT##width, MIN, bytes, load_plain, least_int##width, store_plain)                               \
    X(max_int##width, INT##width, MAX, bytes, load_plain, greatest_int##width, store_plain)                            \
    X(min_uint##width, UINT##width, MIN, bytes, load_plain, least_uint##width, store_plain)                            \
    X(max_uint##width, UINT##width, MAX, bytes, load_plain, greatest_uint##width, store_plain)

#define FLOAT_KERNELS(X, type, TYPE, bytes, load, arithmetic, store)                                                   \
    X(sum_##type, TYPE, SUM, bytes, load, add_##arithmetic, store)                                                     \
    X(prod_##type, TYPE, PROD, bytes, load, multiply_##arithmetic, store)                                              \
    X(min_##type, TYPE, MIN, bytes, load, least_##arithmetic, store)                                                   \
    X(max_##type, TYPE, MAX, bytes, load, greatest_##arithmetic, store)

#define KERNEL_LIST(X)                                                                                                 \
    WIDTH_KERNELS(X, 8, 1)                                                                                             \
    WIDTH_KERNELS(X, 16, 2)                                                                                            \
    WIDTH_KERNELS(X, 32, 4)                                                                                            \
    WIDTH_KERNELS(X, 64, 8)                                                                                            \
    FLOAT_KERNELS(X, float16, FLOAT16, 2, load_float16_lanes, float32, store_float16_lanes)                            \
    FLOAT_KERNELS(X, bfloat16, BFLOAT16, 2, load_bfloat16_lanes, float32, store_bfloat16_lanes)                        \
    FLOAT_KERNELS(X, float32, FLOAT32, 4, load_plain, float32, store_canonical32)                                      \
    FLOAT_KERNELS(X, float64, FLOAT64, 8, load_plain, float64, store_canonical64)

/* X(type, TYPE, element bytes, load, step, divide, store) */
#define AVERAGE_LIST(X)                                                                                                \
    X(int8, INT8, 1, load_plain, sum8, quotient_int8, store_plain)                                                     \
    X(uint8, UINT8, 1, load_plain, sum8, quotient_uint8, store_plain)                                                  \
    X(int16, INT16, 2, load_plain, sum16, quotient_int16, store_plain)                                                 \
    X(uint16, UINT16, 2, load_plain, sum16, quotient_uint16, store_plain)                                              \
    X(int32, INT32, 4, load_plain, sum32, quotient_int32, store_plain)                                                 \
    X(uint32, UINT32, 4, load_plain, sum32, quotient_uint32, store_plain)                                              \
    X(int64, INT64, 8, load_plain, sum64, quotient_int64, store_plain)                                                 \
    X(uint64, UINT64, 8, load_plain, sum64, quotient_uint64, store_plain)                                              \
    X(float16, FLOAT16, 2, load_float16_lanes, add_float32, quotient_float32, store_float16_lanes)                     \
    X(bfloat16, BFLOAT16, 2, load_bfloat16_lanes, add_float32, quotient_float32, store_bfloat16_lanes)                 \
    X(float32, FLOAT32, 4, load_plain, add_float32, quotient_float32, store_canonical32)                               \
    X(float64, FLOAT64, 8, load_plain, add_float64, quotient_float64, store_canonical64)

#define OPERATION(TYPE, OP, load_, step_, divide_, store_)                                                             \
    (operation)                                                                                                        \
    {                                                                                                                  \
        .load = (load_), .step = (step_), .divide = (divide_), .store = (store_),                                      \
        .short_two = &hki_kernels_reference.entries[HK_##TYPE][HK_##OP].two,                                           \
        .short_many = &hki_kernels_reference.entries[HK_##TYPE][HK_##OP].many                                          \
    }

#define DEFINE_MANY(name, TYPE, OP, bytes, load, step, divide, store)                                                  \
    static void name##_many(void *out, const void *const *sources, unsigned source_count, uint64_t count,              \
                            uint32_t divisor)                                                                          \
    {                                                                                                                  \
        drive_many(OPERATION(TYPE, OP, load, step, divide, store), out, sources, source_count, count, bytes, divisor); \
    }

#define DEFINE_TWO(name, TYPE, OP, bytes, load, step, store)                                                           \
    static void name##_two(void *out, const void *left, const void *right, uint64_t count)                             \
    {                                                                                                                  \
        drive_two(OPERATION(TYPE, OP, load, step, NULL, store), out, left, right, count, bytes);                       \
    }

#ifdef HAS_STREAM
#define DEFINE_STREAM(name, TYPE, OP, bytes, load, step, store)                                                        \
    static void name##_stream(void *out, const void *left, const void *right, uint64_t count)                          \
    {                                                                                                                  \
        drive_two_stream(OPERATION(TYPE, OP, load, step, NULL, store), out, left, right, count, bytes);                \
    }
#define STREAM(name) name##_stream
#define COPY_STREAM copy_stream
#else
#define DEFINE_STREAM(name, TYPE, OP, bytes, load, step, store)
#define STREAM(name) NULL
#define COPY_STREAM NULL
#endif

#define DEFINE_KERNELS(name, TYPE, OP, bytes, load, step, store)                                                       \
    DEFINE_TWO(name, TYPE, OP, bytes, load, step, store)                                                               \
    DEFINE_STREAM(name, TYPE, OP, bytes, load, step, store)                                                            \
    DEFINE_MANY(name, TYPE, OP, bytes, load, step, NULL, store)
KERNEL_LIST(DEFINE_KERNELS)

#define DEFINE_AVERAGE(type, TYPE, bytes, load, step, divide, store)                                                   \
    DEFINE_MANY(avg_##type, TYPE, AVG, bytes, load, step, divide, store)
AVERAGE_LIST(DEFINE_AVERAGE)

#define ENTRY(name)                                                                                                    \
    {                                                                                                                  \
        name##_two, STREAM(name), name##_many                                                                          \
    }
#define AVERAGE_ENTRY(sum, type)                                                                                       \
    {                                                                                                                  \
        sum##_two, STREAM(sum), avg_##type##_many                                                                      \
    }
#define INTEGER_ENTRIES(type, width)                                                                                   \
    {                                                                                                                  \
        [HK_SUM] = ENTRY(sum##width), [HK_PROD] = ENTRY(prod##width), [HK_MIN] = ENTRY(min_##type),                    \
        [HK_MAX] = ENTRY(max_##type), [HK_AVG] = AVERAGE_ENTRY(sum##width, type), [HK_BAND] = ENTRY(band##width),      \
        [HK_BOR] = ENTRY(bor##width), [HK_BXOR] = ENTRY(bxor##width), [HK_LAND] = ENTRY(land##width),                  \
        [HK_LOR] = ENTRY(lor##width), [HK_LXOR] = ENTRY(lxor##width)                                                   \
    }
#define FLOAT_ENTRIES(type)                                                                                            \
    {                                                                                                                  \
        [HK_SUM] = ENTRY(sum_##type), [HK_PROD] = ENTRY(prod_##type), [HK_MIN] = ENTRY(min_##type),                    \
        [HK_MAX] = ENTRY(max_##type), [HK_AVG] = AVERAGE_ENTRY(sum_##type, type)                                       \
    }

static const hki_kernel_set vector_set = {
    .name = SET,
    .entries =
        {
            [HK_INT8] = INTEGER_ENTRIES(int8, 8),
            [HK_UINT8] = INTEGER_ENTRIES(uint8, 8),
            [HK_INT16] = INTEGER_ENTRIES(int16, 16),
            [HK_UINT16] = INTEGER_ENTRIES(uint16, 16),
            [HK_INT32] = INTEGER_ENTRIES(int32, 32),
            [HK_UINT32] = INTEGER_ENTRIES(uint32, 32),
            [HK_INT64] = INTEGER_ENTRIES(int64, 64),
            [HK_UINT64] = INTEGER_ENTRIES(uint64, 64),
            [HK_FLOAT16] = FLOAT_ENTRIES(float16),
            [HK_BFLOAT16] = FLOAT_ENTRIES(bfloat16),
            [HK_FLOAT32] = FLOAT_ENTRIES(float32),
            [HK_FLOAT64] = FLOAT_ENTRIES(float64),
        },
    .copy_stream = COPY_STREAM,
};

#endif

/*
 * One element at a time: how each type is loaded, combined, divided and stored. This defines the bits that every kernel
 * must give; the reference kernels are loops over it.
 *
 * Names end in the type: load_T (storage → the type that is computed in), store_T, sum_T, … divide_T. Loads and stores
 * take any alignment.
 */
#ifndef HKI_DTYPE_ELEMENTS_H
#define HKI_DTYPE_ELEMENTS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t float32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float32_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Canonical NaNs: positive, quiet, without payload. */
#define NAN_FLOAT16 UINT16_C(0x7e00)
#define NAN_BFLOAT16 UINT16_C(0x7fc0)
#define NAN_FLOAT32 UINT32_C(0x7fc00000)
#define NAN_FLOAT64 UINT64_C(0x7ff8000000000000)

/* Exact, denormals included. */
static inline float float32_from_float16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, magnitude = half & 0x7fffu;
    if (magnitude >= 0x7c00u) /* infinity, NaN */
        return float32_from_bits(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    if (magnitude >= 0x0400u) /* normal: rebias the exponent from 15 to 127 */
        return float32_from_bits(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
    return float32_from_bits(sign | float32_bits((float)magnitude * 0x1p-24f));
}

/* To nearest even; overflow gives infinity, NaN the canonical one, small values float16's denormals. */
static inline uint16_t float16_from_float32(float value)
{
    uint32_t bits = float32_bits(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return NAN_FLOAT16;
    if (magnitude >= 0x47800000u) /* 65536 and above */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { /* below 2^-14: 0.5's last place is 2^-24, float16's smallest step */
        float rounded = float32_from_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (float32_bits(rounded) - float32_bits(0.5f)));
    }
    magnitude += 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | (magnitude - ((127u - 15u) << 23)) >> 13);
}

static inline float float32_from_bfloat16(uint16_t value)
{
    return float32_from_bits((uint32_t)value << 16);
}

/* To nearest even; NaN gives the canonical one. */
static inline uint16_t bfloat16_from_float32(float value)
{
    uint32_t bits = float32_bits(value);
    if (value != value)
        return NAN_BFLOAT16;
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* Integers: arithmetic is done in U, at least as wide as unsigned int, so that it wraps; W holds every quotient. */
#define INTEGER_ELEMENT(name, T, U, W)                                                                                 \
    static inline T load_##name(const void *data, uint64_t index)                                                      \
    {                                                                                                                  \
        T value;                                                                                                       \
        memcpy(&value, (const char *)data + index * sizeof value, sizeof value);                                       \
        return value;                                                                                                  \
    }                                                                                                                  \
    static inline void store_##name(void *data, uint64_t index, T value)                                               \
    {                                                                                                                  \
        memcpy((char *)data + index * sizeof value, &value, sizeof value);                                             \
    }                                                                                                                  \
    static inline T sum_##name(T left, T right)                                                                        \
    {                                                                                                                  \
        return (T)((U)left + (U)right);                                                                                \
    }                                                                                                                  \
    static inline T prod_##name(T left, T right)                                                                       \
    {                                                                                                                  \
        return (T)((U)left * (U)right);                                                                                \
    }                                                                                                                  \
    static inline T min_##name(T left, T right)                                                                        \
    {                                                                                                                  \
        return left < right ? left : right;                                                                            \
    }                                                                                                                  \
    static inline T max_##name(T left, T right)                                                                        \
    {                                                                                                                  \
        return left > right ? left : right;                                                                            \
    }                                                                                                                  \
    static inline T band_##name(T left, T right)                                                                       \
    {                                                                                                                  \
        return (T)((U)left & (U)right);                                                                                \
    }                                                                                                                  \
    static inline T bor_##name(T left, T right)                                                                        \
    {                                                                                                                  \
        return (T)((U)left | (U)right);                                                                                \
    }                                                                                                                  \
    static inline T bxor_##name(T left, T right)                                                                       \
    {                                                                                                                  \
        return (T)((U)left ^ (U)right);                                                                                \
    }                                                                                                                  \
    static inline T truth_##name(const void *data, uint64_t index)                                                     \
    {                                                                                                                  \
        return load_##name(data, index) != 0;                                                                          \
    }                                                                                                                  \
    static inline T divide_##name(T value, uint32_t divisor)                                                           \
    {                                                                                                                  \
        return (T)((W)value / (W)divisor); /* C truncates towards zero */                                              \
    }

INTEGER_ELEMENT(int8, int8_t, uint32_t, int64_t)
INTEGER_ELEMENT(uint8, uint8_t, uint32_t, uint64_t)
INTEGER_ELEMENT(int16, int16_t, uint32_t, int64_t)
INTEGER_ELEMENT(uint16, uint16_t, uint32_t, uint64_t)
INTEGER_ELEMENT(int32, int32_t, uint32_t, int64_t)
INTEGER_ELEMENT(uint32, uint32_t, uint32_t, uint64_t)
INTEGER_ELEMENT(int64, int64_t, uint64_t, int64_t)
INTEGER_ELEMENT(uint64, uint64_t, uint64_t, uint64_t)
#undef INTEGER_ELEMENT

/* Floating point: the arithmetic of T. Any NaN will do here; stores make it the canonical one. */
#define FLOAT_ARITHMETIC(name, T)                                                                                      \
    static inline T sum_##name(T left, T right)                                                                        \
    {                                                                                                                  \
        return left + right;                                                                                           \
    }                                                                                                                  \
    static inline T prod_##name(T left, T right)                                                                       \
    {                                                                                                                  \
        return left * right;                                                                                           \
    }                                                                                                                  \
    static inline T min_##name(T left, T right)                                                                        \
    {                                                                                                                  \
        if (left != left || left < right)                                                                              \
            return left;                                                                                               \
        return left == right && signbit(left) ? left : right;                                                          \
    }                                                                                                                  \
    static inline T max_##name(T left, T right)                                                                        \
    {                                                                                                                  \
        if (left != left || left > right)                                                                              \
            return left;                                                                                               \
        return left == right && !signbit(left) ? left : right;                                                         \
    }                                                                                                                  \
    static inline T divide_##name(T value, uint32_t divisor)                                                           \
    {                                                                                                                  \
        return value / (T)divisor;                                                                                     \
    }

FLOAT_ARITHMETIC(float32, float)
FLOAT_ARITHMETIC(float64, double)
FLOAT_ARITHMETIC(float16, float)
FLOAT_ARITHMETIC(bfloat16, float)
#undef FLOAT_ARITHMETIC

static inline float load_float32(const void *data, uint64_t index)
{
    float value;
    memcpy(&value, (const char *)data + index * sizeof value, sizeof value);
    return value;
}

static inline void store_float32(void *data, uint64_t index, float value)
{
    if (value != value)
        value = float32_from_bits(NAN_FLOAT32);
    memcpy((char *)data + index * sizeof value, &value, sizeof value);
}

static inline double load_float64(const void *data, uint64_t index)
{
    double value;
    memcpy(&value, (const char *)data + index * sizeof value, sizeof value);
    return value;
}

static inline void store_float64(void *data, uint64_t index, double value)
{
    uint64_t nan = NAN_FLOAT64;
    if (value != value)
        memcpy(&value, &nan, sizeof value);
    memcpy((char *)data + index * sizeof value, &value, sizeof value);
}

static inline float load_float16(const void *data, uint64_t index)
{
    return float32_from_float16(load_uint16(data, index));
}

static inline void store_float16(void *data, uint64_t index, float value)
{
    store_uint16(data, index, float16_from_float32(value));
}

static inline float load_bfloat16(const void *data, uint64_t index)
{
    return float32_from_bfloat16(load_uint16(data, index));
}

static inline void store_bfloat16(void *data, uint64_t index, float value)
{
    store_uint16(data, index, bfloat16_from_float32(value));
}

#endif

/* Bit patterns for tests of reductions: the awkward values of each type, and random ones between. */
#ifndef TESTS_DTYPE_VALUES_H
#define TESTS_DTYPE_VALUES_H

#include <hocket/hocket.h>

#include <string.h>

/* xorshift64*: seeded, so that a failure repeats. */
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

/* Zeros, denormals, ones, halves, the largest, infinities, and NaNs that are quiet, signalling, negative, with payload.
 */
static const uint64_t awkward_float16[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x8400,
                                           0x3c00, 0xbc00, 0x3800, 0x3c01, 0x7bff, 0xfbff, 0x7c00, 0xfc00,
                                           0x7e00, 0xfe00, 0x7c01, 0xfdff, 0x7fff, 0x6800, 0x6801, 0x1000};
static const uint64_t awkward_bfloat16[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x007f, 0x807f, 0x0080, 0x8080,
                                            0x3f80, 0xbf80, 0x3f00, 0x3f81, 0x7f7f, 0xff7f, 0x7f80, 0xff80,
                                            0x7fc0, 0xffc0, 0x7f81, 0xffbf, 0x7fff, 0x4380, 0x4381, 0x3b80};
static const uint64_t awkward_float32[] = {0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff,
                                           0x00800000, 0x80800000, 0x3f800000, 0xbf800000, 0x3f000000, 0x3f800001,
                                           0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000,
                                           0x7f800001, 0xffbfffff, 0x7fffffff, 0x4b800000, 0x4b800001, 0x33800000};
static const uint64_t awkward_float64[] = {
    0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x8000000000000001, 0x000fffffffffffff,
    0x800fffffffffffff, 0x0010000000000000, 0x8010000000000000, 0x3ff0000000000000, 0xbff0000000000000,
    0x3fe0000000000000, 0x3ff0000000000001, 0x7fefffffffffffff, 0xffefffffffffffff, 0x7ff0000000000000,
    0xfff0000000000000, 0x7ff8000000000000, 0xfff8000000000000, 0x7ff0000000000001, 0xfff7ffffffffffff,
    0x7fffffffffffffff, 0x4340000000000000, 0x4340000000000001, 0x3ca0000000000000};
/* Cut to the type's width these are its smallest, largest, and neighbours. */
static const uint64_t awkward_integer[] = {0,
                                           1,
                                           2,
                                           3,
                                           0x7f,
                                           0x80,
                                           0xff,
                                           0x7fff,
                                           0x8000,
                                           0xffff,
                                           0x7fffffff,
                                           0x80000000,
                                           0xffffffff,
                                           0x7fffffffffffffff,
                                           0x8000000000000000,
                                           0xffffffffffffffff};

/* Where a float of ordinary size has its exponent, so that random ones meet: 1.0 with a random mantissa. */
static inline uint64_t ordinary_float(hk_type type, uint64_t random)
{
    switch (type) {
    case HK_FLOAT16:
        return (random & 0x83ff) | (0x3400 + (random >> 32 & 0xc00));
    case HK_BFLOAT16:
        return (random & 0x80ff) | 0x3f00;
    case HK_FLOAT32:
        return (random & 0x80ffffff) | 0x3f000000;
    default:
        return (random & 0x801fffffffffffff) | 0x3fe0000000000000;
    }
}

/* The next value of a type, as bits: awkward, of ordinary size, or any bits. */
static inline uint64_t next_value(hk_type type, uint64_t *state)
{
    uint64_t random = next_random(state), kind = random >> 60, pick = random >> 8 & 0xffff;
#define PICK(list) list[pick % (sizeof list / sizeof list[0])]
    if (kind < 5)
        switch (type) {
        case HK_FLOAT16:
            return PICK(awkward_float16);
        case HK_BFLOAT16:
            return PICK(awkward_bfloat16);
        case HK_FLOAT32:
            return PICK(awkward_float32);
        case HK_FLOAT64:
            return PICK(awkward_float64);
        default:
            return PICK(awkward_integer);
        }
#undef PICK
    random = next_random(state);
    if (kind < 11 && type >= HK_FLOAT16)
        return ordinary_float(type, random);
    return random;
}

/* Fills count elements at any address. Little-endian, as the narrowing of value is. */
static inline void fill_values(void *data, uint64_t count, hk_type type, uint64_t *state)
{
    size_t bytes = hk_type_size(type);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t value = next_value(type, state);
        memcpy((char *)data + i * bytes, &value, bytes);
    }
}

#endif

/* Reduction kernels in 32-byte vectors, for x86-64 CPUs with AVX2 and F16C. Compiled with those flags, and chosen at
 * run time only. */
#include "dtype/kernels.h"

#if defined(__AVX2__) && defined(__F16C__)

#include <immintrin.h>

#define SET "avx2"
#define VECTOR 32
#define HAS_STREAM
#include "dtype/vector.h"

#define INTEGER_ORDER(type, suffix)                                                                                    \
    INLINE raw least_##type(raw left, raw right)                                                                       \
    {                                                                                                                  \
        return (raw)_mm256_min_##suffix((__m256i)left, (__m256i)right);                                                \
    }                                                                                                                  \
    INLINE raw greatest_##type(raw left, raw right)                                                                    \
    {                                                                                                                  \
        return (raw)_mm256_max_##suffix((__m256i)left, (__m256i)right);                                                \
    }
INTEGER_ORDER(int8, epi8)
INTEGER_ORDER(uint8, epu8)
INTEGER_ORDER(int16, epi16)
INTEGER_ORDER(uint16, epu16)
INTEGER_ORDER(int32, epi32)
INTEGER_ORDER(uint32, epu32)
#undef INTEGER_ORDER

/* AVX2 has no minimum of 64-bit integers. */
#define LONG_ORDER(type)                                                                                               \
    INLINE raw least_##type(raw left, raw right)                                                                       \
    {                                                                                                                  \
        return choose((raw)((vector_##type)left < (vector_##type)right), left, right);                                 \
    }                                                                                                                  \
    INLINE raw greatest_##type(raw left, raw right)                                                                    \
    {                                                                                                                  \
        return choose((raw)((vector_##type)left > (vector_##type)right), left, right);                                 \
    }
LONG_ORDER(int64)
LONG_ORDER(uint64)
#undef LONG_ORDER

/* The instruction returns its second operand for two zeros and for a NaN. Taken both ways round and joined, zeros get
 * the sign asked for (min: a minus if any, max: a plus if any). A NaN is chosen by comparison. */
#define FLOAT_ORDER(type, suffix, vector, bits, canonical_nan)                                                         \
    INLINE raw unordered_or_##type(vector result, vector left, vector right)                                           \
    {                                                                                                                  \
        vector nan = (vector)SPLAT(bits, canonical_nan);                                                               \
        return (raw)_mm256_blendv_##suffix(result, nan, _mm256_cmp_##suffix(left, right, _CMP_UNORD_Q));               \
    }                                                                                                                  \
    INLINE raw least_##type(raw l, raw r)                                                                              \
    {                                                                                                                  \
        vector left = (vector)l, right = (vector)r;                                                                    \
        vector both = _mm256_or_##suffix(_mm256_min_##suffix(left, right), _mm256_min_##suffix(right, left));          \
        return unordered_or_##type(both, left, right);                                                                 \
    }                                                                                                                  \
    INLINE raw greatest_##type(raw l, raw r)                                                                           \
    {                                                                                                                  \
        vector left = (vector)l, right = (vector)r;                                                                    \
        vector both = _mm256_and_##suffix(_mm256_max_##suffix(left, right), _mm256_max_##suffix(right, left));         \
        return unordered_or_##type(both, left, right);                                                                 \
    }                                                                                                                  \
    INLINE raw canonical_##type(raw value)                                                                             \
    {                                                                                                                  \
        return unordered_or_##type((vector)value, (vector)value, (vector)value);                                       \
    }
FLOAT_ORDER(float32, ps, __m256, uint32, NAN_FLOAT32)
FLOAT_ORDER(float64, pd, __m256d, uint64, NAN_FLOAT64)
#undef FLOAT_ORDER

INLINE raw widen_float16_low(raw value)
{
    return (raw)_mm256_cvtph_ps(_mm256_castsi256_si128((__m256i)value));
}

INLINE raw widen_float16_high(raw value)
{
    return (raw)_mm256_cvtph_ps(_mm256_extracti128_si256((__m256i)value, 1));
}

INLINE raw narrow_float16(raw low, raw high)
{
    __m128i first = _mm256_cvtps_ph((__m256)low, _MM_FROUND_TO_NEAREST_INT);
    __m128i second = _mm256_cvtps_ph((__m256)high, _MM_FROUND_TO_NEAREST_INT);
    return (raw)_mm256_set_m128i(second, first);
}

INLINE void store_stream(void *memory, raw value)
{
    _mm256_stream_si256(memory, (__m256i)value);
}

INLINE void stream_fence(void)
{
    _mm_sfence();
}

#include "dtype/vector_kernels.h"

const hki_kernel_set *const hki_kernels_avx2 = &vector_set;

#else

const hki_kernel_set *const hki_kernels_avx2 = NULL;

#endif

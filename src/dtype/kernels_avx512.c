/* Reduction kernels in 64-byte vectors, for x86-64 CPUs with AVX-512 F, BW, VL and DQ. Compiled with those flags, and
 * chosen at run time only. */
#include "dtype/kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)

#include <immintrin.h>

#define SET "avx512"
#define VECTOR 64
#define HAS_STREAM
#define HAS_PART
#include "dtype/vector.h"

#define INTEGER_ORDER(type, suffix)                                                                                    \
    INLINE raw least_##type(raw left, raw right)                                                                       \
    {                                                                                                                  \
        return (raw)_mm512_min_##suffix((__m512i)left, (__m512i)right);                                                \
    }                                                                                                                  \
    INLINE raw greatest_##type(raw left, raw right)                                                                    \
    {                                                                                                                  \
        return (raw)_mm512_max_##suffix((__m512i)left, (__m512i)right);                                                \
    }
INTEGER_ORDER(int8, epi8)
INTEGER_ORDER(uint8, epu8)
INTEGER_ORDER(int16, epi16)
INTEGER_ORDER(uint16, epu16)
INTEGER_ORDER(int32, epi32)
INTEGER_ORDER(uint32, epu32)
INTEGER_ORDER(int64, epi64)
INTEGER_ORDER(uint64, epu64)
#undef INTEGER_ORDER

/* The instruction returns its second operand for two zeros and for a NaN. Taken both ways round and joined, zeros get
 * the sign asked for (min: a minus if any, max: a plus if any). A NaN is chosen by comparison. */
#define FLOAT_ORDER(type, suffix, vector, bits, canonical_nan)                                                         \
    INLINE raw unordered_or_##type(vector result, vector left, vector right)                                           \
    {                                                                                                                  \
        vector nan = (vector)SPLAT(bits, canonical_nan);                                                               \
        return (raw)_mm512_mask_mov_##suffix(result, _mm512_cmp_##suffix##_mask(left, right, _CMP_UNORD_Q), nan);      \
    }                                                                                                                  \
    INLINE raw least_##type(raw l, raw r)                                                                              \
    {                                                                                                                  \
        vector left = (vector)l, right = (vector)r;                                                                    \
        vector both = _mm512_or_##suffix(_mm512_min_##suffix(left, right), _mm512_min_##suffix(right, left));          \
        return unordered_or_##type(both, left, right);                                                                 \
    }                                                                                                                  \
    INLINE raw greatest_##type(raw l, raw r)                                                                           \
    {                                                                                                                  \
        vector left = (vector)l, right = (vector)r;                                                                    \
        vector both = _mm512_and_##suffix(_mm512_max_##suffix(left, right), _mm512_max_##suffix(right, left));         \
        return unordered_or_##type(both, left, right);                                                                 \
    }                                                                                                                  \
    INLINE raw canonical_##type(raw value)                                                                             \
    {                                                                                                                  \
        return unordered_or_##type((vector)value, (vector)value, (vector)value);                                       \
    }
FLOAT_ORDER(float32, ps, __m512, uint32, NAN_FLOAT32)
FLOAT_ORDER(float64, pd, __m512d, uint64, NAN_FLOAT64)
#undef FLOAT_ORDER

INLINE raw widen_float16_low(raw value)
{
    return (raw)_mm512_cvtph_ps(_mm512_castsi512_si256((__m512i)value));
}

INLINE raw widen_float16_high(raw value)
{
    return (raw)_mm512_cvtph_ps(_mm512_extracti64x4_epi64((__m512i)value, 1));
}

INLINE raw narrow_float16(raw low, raw high)
{
    __m256i first = _mm512_maskz_cvtps_ph(0xffff, (__m512)low, _MM_FROUND_TO_NEAREST_INT);
    __m256i second = _mm512_maskz_cvtps_ph(0xffff, (__m512)high, _MM_FROUND_TO_NEAREST_INT);
    return (raw)_mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}

INLINE void store_stream(void *memory, raw value)
{
    _mm512_stream_si512(memory, (__m512i)value);
}

INLINE void stream_fence(void)
{
    _mm_sfence();
}

/* Masked-off bytes are neither read nor written; they load as zeros, which raise no exception in any operation. */
INLINE raw load_part(const void *memory, size_t bytes)
{
    return (raw)_mm512_maskz_loadu_epi8((UINT64_C(1) << bytes) - 1, memory);
}

INLINE void store_part(void *memory, size_t bytes, raw value)
{
    _mm512_mask_storeu_epi8(memory, (UINT64_C(1) << bytes) - 1, (__m512i)value);
}

#include "dtype/vector_kernels.h"

const hki_kernel_set *const hki_kernels_avx512 = &vector_set;

#else

const hki_kernel_set *const hki_kernels_avx512 = NULL;

#endif

/* Reduction kernels in 16-byte vectors, for little-endian arm64 CPUs, all of which have them. */
#include "dtype/kernels.h"

#if defined(__aarch64__) && defined(__ARM_NEON) && defined(__AARCH64EL__)

#include <arm_neon.h>

#define SET "neon"
#define VECTOR 16
#include "dtype/vector.h"

#define ORDER(type, suffix, vector)                                                                                    \
    INLINE raw least_##type(raw left, raw right)                                                                       \
    {                                                                                                                  \
        return (raw)vminq_##suffix((vector)left, (vector)right);                                                       \
    }                                                                                                                  \
    INLINE raw greatest_##type(raw left, raw right)                                                                    \
    {                                                                                                                  \
        return (raw)vmaxq_##suffix((vector)left, (vector)right);                                                       \
    }
ORDER(int8, s8, int8x16_t)
ORDER(uint8, u8, uint8x16_t)
ORDER(int16, s16, int16x8_t)
ORDER(uint16, u16, uint16x8_t)
ORDER(int32, s32, int32x4_t)
ORDER(uint32, u32, uint32x4_t)
/* The floating-point instructions return NaN for a NaN operand, and take −0 to be below +0. */
ORDER(float32, f32, float32x4_t)
ORDER(float64, f64, float64x2_t)
#undef ORDER

/* NEON has no minimum of 64-bit integers. */
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

INLINE raw canonical_float32(raw value)
{
    return choose((raw)((vector_float32)value == (vector_float32)value), value, SPLAT(uint32, NAN_FLOAT32));
}

INLINE raw canonical_float64(raw value)
{
    return choose((raw)((vector_float64)value == (vector_float64)value), value, SPLAT(uint64, NAN_FLOAT64));
}

INLINE raw widen_float16_low(raw value)
{
    return (raw)vcvt_f32_f16(vget_low_f16((float16x8_t)value));
}

INLINE raw widen_float16_high(raw value)
{
    return (raw)vcvt_high_f32_f16((float16x8_t)value);
}

INLINE raw narrow_float16(raw low, raw high)
{
    return (raw)vcvt_high_f16_f32(vcvt_f16_f32((float32x4_t)low), (float32x4_t)high);
}

#include "dtype/vector_kernels.h"

const hki_kernel_set *const hki_kernels_neon = &vector_set;

#else

const hki_kernel_set *const hki_kernels_neon = NULL;

#endif

/*
 * The floating-point mode of this thread. A caller may have set another rounding, flush-to-zero (as -ffast-math does at
 * start-up) or unmasked exceptions; kernels that ran in it would give other bits than the peers' do, or trap.
 */
#include "dtype/dtype.h"

#if defined(__x86_64__)

#include <xmmintrin.h>

uint32_t hki_fp_get(void)
{
    return _mm_getcsr();
}

void hki_fp_set(uint32_t mode)
{
    _mm_setcsr(mode);
}

uint32_t hki_fp_default(uint32_t mode)
{
    return HKI_FP_DEFAULT | (mode & HKI_FP_STICKY);
}

#elif defined(__aarch64__)

/* FPCR: rounding (22, 23), flush-to-zero (24), default NaN (25), half-precision flush (19), trap enables (8 … 15). */
#define MODE_BITS UINT32_C(0x03c8ff00)

uint32_t hki_fp_get(void)
{
    uint64_t value;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(value));
    return (uint32_t)value;
}

void hki_fp_set(uint32_t mode)
{
    uint64_t value = mode;
    __asm__ __volatile__("msr fpcr, %0" : : "r"(value) : "memory");
}

uint32_t hki_fp_default(uint32_t mode)
{
    return mode & ~MODE_BITS;
}

#else

#include <fenv.h>

/* Elsewhere the rounding mode is all that C gives access to. */
uint32_t hki_fp_get(void)
{
    return (uint32_t)fegetround();
}

void hki_fp_set(uint32_t mode)
{
    fesetround((int)mode);
}

uint32_t hki_fp_default(uint32_t mode)
{
    (void)mode;
    return FE_TONEAREST;
}

#endif

/*
 * The floating-point mode of this thread. A caller may have set another rounding, flush-to-zero (as -ffast-math does at
 * start-up) or unmasked exceptions; kernels that ran in it would give other bits than the peers' do, or trap.
 */
#include "dtype/dtype.h"

#if defined(__x86_64__)

#include <xmmintrin.h>

#define DEFAULT_MODE 0x1f80u /* all exceptions masked, to nearest, no flush-to-zero, no denormals-are-zero */
#define STICKY_FLAGS 0x003fu /* say what happened, and change nothing */

uint32_t hki_fp_enter(void)
{
    uint32_t mode = _mm_getcsr();
    if ((mode & ~STICKY_FLAGS) != DEFAULT_MODE)
        _mm_setcsr(DEFAULT_MODE);
    return mode;
}

void hki_fp_leave(uint32_t mode)
{
    if ((mode & ~STICKY_FLAGS) != DEFAULT_MODE)
        _mm_setcsr(mode);
}

#elif defined(__aarch64__)

/* FPCR: rounding (22, 23), flush-to-zero (24), default NaN (25), half-precision flush (19), trap enables (8 … 15). */
#define MODE_BITS UINT32_C(0x03c8ff00)

static uint32_t fpcr(void)
{
    uint64_t value;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(value));
    return (uint32_t)value;
}

static void set_fpcr(uint32_t mode)
{
    uint64_t value = mode;
    __asm__ __volatile__("msr fpcr, %0" : : "r"(value) : "memory");
}

uint32_t hki_fp_enter(void)
{
    uint32_t mode = fpcr();
    if (mode & MODE_BITS)
        set_fpcr(mode & ~MODE_BITS);
    return mode;
}

void hki_fp_leave(uint32_t mode)
{
    if (mode & MODE_BITS)
        set_fpcr(mode);
}

#else

#include <fenv.h>

/* Elsewhere the rounding mode is all that C gives access to. */
uint32_t hki_fp_enter(void)
{
    int mode = fegetround();
    if (mode != FE_TONEAREST)
        fesetround(FE_TONEAREST);
    return (uint32_t)mode;
}

void hki_fp_leave(uint32_t mode)
{
    if ((int)mode != FE_TONEAREST)
        fesetround((int)mode);
}

#endif

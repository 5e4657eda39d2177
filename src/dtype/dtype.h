/*
 * Element types, operators and reduction kernels. Kernels come from reference code that defines the bits; AVX2, AVX-512
 * and NEON sets override entries with faster ones that give the same bits.
 */
#ifndef HKI_DTYPE_DTYPE_H
#define HKI_DTYPE_DTYPE_H

#include <hocket/hocket.h>

#include <stdbool.h>

/* out = sources[0] op sources[1] op … (left to right; float16 and bfloat16 accumulate in float32 and round once), for
 * count elements. out may equal any one source; no other overlap. Average: with `divisor` > 1 the result is divided by
 * it before the one rounding; the other operators ignore it. No alignment is required. */
typedef void hki_kernel(void *out, const void *const *sources, unsigned source_count, uint64_t count, uint32_t divisor);
/* The commonest case, two sources: out = left op right. */
typedef void hki_kernel2(void *out, const void *left, const void *right, uint64_t count);

typedef struct hki_reducer {
    hki_kernel2 *two;        /* never NULL for a fitting predefined operator */
    hki_kernel2 *two_stream; /* the same with non-temporal stores, for results not read soon; NULL: use two */
    hki_kernel *many;
    hk_op op;
    hk_type type;
    uint32_t element_bytes;
    bool commutative;
    bool scales_input; /* premul_sum: inputs are to be passed through hki_reducer_scale first */
    void *user;        /* user-defined: its entry */
} hki_reducer;

/* Finds how to reduce. HK_ERR_TYPE, HK_ERR_OPERATOR (the text says which does not fit). A user-defined operator is
 * referenced until hki_reducer_release. */
hk_status hki_reducer_find(hk_type type, hk_op op, hki_reducer *reducer);
void hki_reducer_release(hki_reducer *reducer);

/* out = left op right; out = s0 op s1 op …, ÷ divisor. These also serve user-defined operators. `stream` asks for
 * non-temporal stores. */
void hki_reduce_two(const hki_reducer *reducer, void *out, const void *left, const void *right, uint64_t count,
                    bool stream);
void hki_reduce_many(const hki_reducer *reducer, void *out, const void *const *sources, unsigned source_count,
                     uint64_t count, uint32_t divisor);
/* data = data ÷ divisor in place: the `finish` of an average. Nothing for other operators. */
void hki_reduce_finish(const hki_reducer *reducer, void *data, uint64_t count, uint32_t divisor);
/* out = scalar × in: what premul_sum does to a rank's own input before anything else. */
void hki_reducer_scale(const hki_reducer *reducer, void *out, const void *in, uint64_t count);

/* memcpy; with `stream` by non-temporal stores. */
void hki_copy_bytes(void *out, const void *in, size_t bytes, bool stream);

#if defined(__x86_64__)
#define HKI_FP_DEFAULT 0x1f80u /* MXCSR: all exceptions masked, to nearest, no flush-to-zero, no denormals-are-zero */
#define HKI_FP_STICKY 0x003fu  /* its flags that say what happened, and change nothing */
#endif

/* Floating-point mode: kernels run in round-to-nearest with denormals kept; enter sets it and returns the caller's
 * mode, leave restores it. Cheap when it is the default already. Reducing does not call them: whoever reduces does,
 * once around all that it reduces. */
uint32_t hki_fp_get(void);
void hki_fp_set(uint32_t mode);
uint32_t hki_fp_default(uint32_t mode); /* the mode with everything of ours at its default; equal: nothing to set */

static inline uint32_t hki_fp_enter(void)
{
#if defined(__x86_64__)
    uint32_t mode = __builtin_ia32_stmxcsr();
    if (__builtin_expect((mode & ~HKI_FP_STICKY) == HKI_FP_DEFAULT, 1))
        return mode;
#else
    uint32_t mode = hki_fp_get();
#endif
    if (hki_fp_default(mode) != mode)
        hki_fp_set(hki_fp_default(mode));
    return mode;
}

static inline void hki_fp_leave(uint32_t mode)
{
#if defined(__x86_64__)
    if (__builtin_expect((mode & ~HKI_FP_STICKY) == HKI_FP_DEFAULT, 1))
        return;
#endif
    if (hki_fp_default(mode) != mode)
        hki_fp_set(mode);
}

/* Which set is in use ("reference", "avx2", "avx512", "neon"), chosen at first use from the CPU and HOCKET_KERNELS. */
const char *hki_kernels_name(void);
/* For tests and the micro-benchmark: choose by name in this process; false if the CPU lacks it. */
bool hki_kernels_choose(const char *name);

bool hki_type_valid(hk_type type);
bool hki_op_valid(hk_op op);

#endif

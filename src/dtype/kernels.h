/*
 * Sets of reduction kernels. The reference set has an entry for every type and every operator that fits it; the others
 * override entries and leave NULL where they have nothing faster. All sets give the same bits:
 *  - operands are taken from left to right; nothing is reassociated or contracted;
 *  - a NaN result is always the canonical one (positive, quiet, no payload), because which payload survives depends on
 *    the instruction set and on how a compiler orders operands;
 *  - min and max return NaN when an operand is NaN, and order −0 before +0;
 *  - float16 and bfloat16 are widened to float32 (exact), reduced there, and rounded once, to nearest even;
 *  - integers wrap; logical operators reduce truth values (0 or 1), so one source is normalised too.
 */
#ifndef HKI_DTYPE_KERNELS_H
#define HKI_DTYPE_KERNELS_H

#include "dtype/dtype.h"

typedef struct hki_kernel_entry {
    hki_kernel2 *two;
    hki_kernel2 *two_stream; /* NULL: two serves */
    hki_kernel *many;
} hki_kernel_entry;

typedef struct hki_kernel_set {
    const char *name;
    hki_kernel_entry entries[HK_TYPE_COUNT][HK_OP_COUNT];
    /* memcpy with non-temporal stores, any alignment and length; NULL: memcpy serves. */
    void (*copy_stream)(void *out, const void *in, size_t bytes);
} hki_kernel_set;

extern const hki_kernel_set hki_kernels_reference;
/* NULL where the file was not compiled for that instruction set. */
extern const hki_kernel_set *const hki_kernels_avx2;
extern const hki_kernel_set *const hki_kernels_avx512;
extern const hki_kernel_set *const hki_kernels_neon;

/* The set in use; chosen at first use. HK_ERR_SETTING when HOCKET_KERNELS names one that is unknown or that this CPU
 * lacks. */
hk_status hki_kernels_current(const hki_kernel_set **set);
/* The entry of a type and an operator: the set's, else the reference's. `two` is NULL when they do not fit. */
const hki_kernel_entry *hki_kernels_entry(const hki_kernel_set *set, hk_type type, hk_op op);

#endif

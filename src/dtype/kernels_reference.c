/*
 * The reference kernels: plain loops over the elements of elements.h, for every type and every operator that fits it.
 * They serve where no faster set does, and short tails; the other sets are tested against them.
 */
#include "dtype/elements.h"
#include "dtype/kernels.h"

/* Kernels id_two and id_many of one type and operator. T: the type computed in; load: load_T, or truth_T. */
#define KERNELS(id, T, load, combine, store)                                                                           \
    static void id##_two(void *out, const void *left, const void *right, uint64_t count)                               \
    {                                                                                                                  \
        for (uint64_t i = 0; i < count; i++)                                                                           \
            store(out, i, combine(load(left, i), load(right, i)));                                                     \
    }                                                                                                                  \
    static inline T id##_fold(const void *const *sources, unsigned source_count, uint64_t index)                       \
    {                                                                                                                  \
        T result = load(sources[0], index);                                                                            \
        for (unsigned s = 1; s < source_count; s++)                                                                    \
            result = combine(result, load(sources[s], index));                                                         \
        return result;                                                                                                 \
    }                                                                                                                  \
    static void id##_many(void *out, const void *const *sources, unsigned source_count, uint64_t count,                \
                          uint32_t divisor)                                                                            \
    {                                                                                                                  \
        (void)divisor;                                                                                                 \
        for (uint64_t i = 0; i < count; i++)                                                                           \
            store(out, i, id##_fold(sources, source_count, i));                                                        \
    }

/* The average: a sum whose last step divides. */
#define AVERAGE(type)                                                                                                  \
    static void avg_##type##_many(void *out, const void *const *sources, unsigned source_count, uint64_t count,        \
                                  uint32_t divisor)                                                                    \
    {                                                                                                                  \
        if (divisor <= 1) {                                                                                            \
            sum_##type##_kernel_many(out, sources, source_count, count, 1);                                            \
            return;                                                                                                    \
        }                                                                                                              \
        for (uint64_t i = 0; i < count; i++)                                                                           \
            store_##type(out, i, divide_##type(sum_##type##_kernel_fold(sources, source_count, i), divisor));          \
    }

#define ARITHMETIC(type, T)                                                                                            \
    KERNELS(sum_##type##_kernel, T, load_##type, sum_##type, store_##type)                                             \
    KERNELS(prod_##type##_kernel, T, load_##type, prod_##type, store_##type)                                           \
    KERNELS(min_##type##_kernel, T, load_##type, min_##type, store_##type)                                             \
    KERNELS(max_##type##_kernel, T, load_##type, max_##type, store_##type)                                             \
    AVERAGE(type)

#define LOGIC(type, T)                                                                                                 \
    KERNELS(band_##type##_kernel, T, load_##type, band_##type, store_##type)                                           \
    KERNELS(bor_##type##_kernel, T, load_##type, bor_##type, store_##type)                                             \
    KERNELS(bxor_##type##_kernel, T, load_##type, bxor_##type, store_##type)                                           \
    KERNELS(land_##type##_kernel, T, truth_##type, band_##type, store_##type)                                          \
    KERNELS(lor_##type##_kernel, T, truth_##type, bor_##type, store_##type)                                            \
    KERNELS(lxor_##type##_kernel, T, truth_##type, bxor_##type, store_##type)

#define INTEGER(type, T) ARITHMETIC(type, T) LOGIC(type, T)

INTEGER(int8, int8_t)
INTEGER(uint8, uint8_t)
INTEGER(int16, int16_t)
INTEGER(uint16, uint16_t)
INTEGER(int32, int32_t)
INTEGER(uint32, uint32_t)
INTEGER(int64, int64_t)
INTEGER(uint64, uint64_t)
ARITHMETIC(float16, float)
ARITHMETIC(bfloat16, float)
ARITHMETIC(float32, float)
ARITHMETIC(float64, double)

#define ENTRY(op, type)                                                                                                \
    {                                                                                                                  \
        op##_##type##_kernel_two, NULL, op##_##type##_kernel_many                                                      \
    }
#define ARITHMETIC_ENTRIES(type)                                                                                       \
    [HK_SUM] = ENTRY(sum, type), [HK_PROD] = ENTRY(prod, type), [HK_MIN] = ENTRY(min, type),                           \
    [HK_MAX] = ENTRY(max, type), [HK_AVG] = {sum_##type##_kernel_two, NULL, avg_##type##_many}
#define INTEGER_ENTRIES(type)                                                                                          \
    ARITHMETIC_ENTRIES(type), [HK_BAND] = ENTRY(band, type), [HK_BOR] = ENTRY(bor, type),                              \
                              [HK_BXOR] = ENTRY(bxor, type), [HK_LAND] = ENTRY(land, type),                            \
                              [HK_LOR] = ENTRY(lor, type), [HK_LXOR] = ENTRY(lxor, type)

const hki_kernel_set hki_kernels_reference = {
    .name = "reference",
    .entries =
        {
            [HK_INT8] = {INTEGER_ENTRIES(int8)},
            [HK_UINT8] = {INTEGER_ENTRIES(uint8)},
            [HK_INT16] = {INTEGER_ENTRIES(int16)},
            [HK_UINT16] = {INTEGER_ENTRIES(uint16)},
            [HK_INT32] = {INTEGER_ENTRIES(int32)},
            [HK_UINT32] = {INTEGER_ENTRIES(uint32)},
            [HK_INT64] = {INTEGER_ENTRIES(int64)},
            [HK_UINT64] = {INTEGER_ENTRIES(uint64)},
            [HK_FLOAT16] = {ARITHMETIC_ENTRIES(float16)},
            [HK_BFLOAT16] = {ARITHMETIC_ENTRIES(bfloat16)},
            [HK_FLOAT32] = {ARITHMETIC_ENTRIES(float32)},
            [HK_FLOAT64] = {ARITHMETIC_ENTRIES(float64)},
        },
};

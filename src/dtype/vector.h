/*
 * Vector types of VECTOR bytes, by the vector extension that gcc and clang share. A kernels_ISA.c defines VECTOR,
 * includes this, defines what its instructions do better than C can say (the list is in vector_kernels.h), and then
 * includes vector_kernels.h.
 */
#ifndef HKI_DTYPE_VECTOR_H
#define HKI_DTYPE_VECTOR_H

#include "dtype/elements.h"
#include "dtype/kernels.h"

#define INLINE static inline __attribute__((always_inline))

/* Bytes of a vector whatever its elements; a cast to another vector type reinterprets them. */
typedef uint8_t raw __attribute__((vector_size(VECTOR)));
/* Memory at any address, of any type. */
typedef raw raw_memory __attribute__((aligned(1), may_alias));

#define HK_X(NAME, name, storage, bytes) typedef storage vector_##name __attribute__((vector_size(VECTOR)));
HK_TYPE_LIST(HK_X)
#undef HK_X

INLINE raw load_raw(const void *memory)
{
    return *(const raw_memory *)memory;
}

INLINE void store_raw(void *memory, raw value)
{
    *(raw_memory *)memory = value;
}

/* Where mask (all ones or all zeros an element) chosen, else other. */
INLINE raw choose(raw mask, raw chosen, raw other)
{
    return (mask & chosen) | (~mask & other);
}

/* A vector of one element's copies. */
#define SPLAT(type, value) ((raw)((vector_##type){} + (value)))

#endif

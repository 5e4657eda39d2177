/*
 * What ranks contribute to a collective under test, and what must come of it, element by element, in arithmetic of the
 * test's own. Values are drawn so that every order of reduction gives the same bits: sums and products of
 * floating-point numbers are exact. (That order does not matter to other values is tested apart, by comparing bits.)
 */
#ifndef HKI_TESTS_COLLECTIVE_VALUES_H
#define HKI_TESTS_COLLECTIVE_VALUES_H

#include <hocket/hocket.h>

#include <stdbool.h>

/* Operators beyond the predefined ones, which keep their numbers. */
enum {
    VALUES_PREMUL = HK_OP_COUNT, /* pre-multiplied sum, a scalar of its own on each rank */
    VALUES_COUNTING,             /* user-defined, commutative: left + right + 1 on uint64 counts its applications */
    VALUES_AFFINE,               /* user-defined, not commutative: x → ax + b modulo 2^32, in 8 opaque bytes */
    VALUES_TRIANGULAR,           /* user-defined, not commutative: triangular matrices modulo 256 in 3 opaque bytes */
    VALUES_OPERATORS
};

/* The same on all ranks. */
typedef struct values_of {
    uint64_t seed;
    hk_type type;
    int op; /* meaningful where the collective reduces */
    bool reduces;
    int ranks;
} values_of;

/* A reproducible number from a key: every bit depends on all of the key. */
uint64_t values_noise(uint64_t seed, uint64_t a, uint64_t b);

/* Whether the operator takes elements of the type. */
bool values_op_fits(int op, hk_type type);
bool values_op_commutes(int op);
const char *values_op_name(int op);

/* Makes the operator that a rank passes to Hocket, and frees it. */
hk_status values_op_make(const values_of *of, int rank, hk_op *op);
void values_op_free(hk_op op);

/* Writes what `rank` contributes to the `count` elements of a block. */
void values_input(const values_of *of, int rank, int block, uint64_t count, void *out);
/* Writes the reduction of what ranks low … high contribute, in this order; an average divides by all ranks. */
void values_reduced(const values_of *of, int low, int high, int block, uint64_t count, void *out);

#endif

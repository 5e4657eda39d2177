/*
 * Operators that a program makes. A made operator is named by a handle that is never reused: the number of its making,
 * with the top bit set. It stays in the registry until it was freed and nothing in flight refers to it any more.
 */
#ifndef HKI_DTYPE_OPERATORS_H
#define HKI_DTYPE_OPERATORS_H

#include "dtype/dtype.h"

/* Bytes of the scalar's copies that a premul_sum keeps: inputs are multiplied by them block by block. */
#define HKI_SCALE_BYTES 1024u

typedef struct hki_operator {
    hk_op handle;
    unsigned references;      /* 0: the slot is free. One of the program until hk_op_free, one of each reducer */
    bool freed;               /* by the program: no longer found */
    hk_op_function *function; /* NULL for premul_sum */
    void *context;
    bool commutative;
    hk_type type; /* premul_sum: the one type that it serves */
    void *scale;  /* premul_sum: HKI_SCALE_BYTES of copies of the scalar */
} hki_operator;

/* Finds a made operator and refers to it until hki_operator_release; NULL if there is none of this handle. Any
 * thread. */
hki_operator *hki_operator_acquire(hk_op op);
void hki_operator_release(hki_operator *entry);

#endif

/*
 * Scratch: memory of operations in flight, kept for the next ones, since fresh pages cost microseconds each. Larger
 * blocks come from a transport where possible, so that peers can pull from them.
 */
#ifndef HKI_COMM_SCRATCH_H
#define HKI_COMM_SCRATCH_H

#include "base/list.h"

#include <hocket/transport.h>

enum { HKI_SCRATCH_CLASSES = 40 };

typedef struct hki_scratch_pool {
    const hk_transport_ops *ops; /* NULL: ordinary memory only */
    hk_transport *transport;
    const hk_transport_ops *also_ops; /* another transport that registers what the first one gives; or NULL */
    hk_transport *also;
    hki_node spare[HKI_SCRATCH_CLASSES]; /* by power of two */
    size_t held;                         /* bytes in spare lists */
    size_t cap;                          /* of held */
} hki_scratch_pool;

/* The first of `count` transports gives larger blocks, if it gives any. */
void hki_scratch_open(hki_scratch_pool *pool, const hk_transport_ops *const *ops, hk_transport *const *transports,
                      uint32_t count);
void hki_scratch_close(hki_scratch_pool *pool);
/* At least `bytes` bytes, 64-byte aligned; NULL: out of memory. */
void *hki_scratch_take(hki_scratch_pool *pool, size_t bytes);
void hki_scratch_give(hki_scratch_pool *pool, void *memory);

#endif

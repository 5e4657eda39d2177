/*
 * Binding: from blocks to bytes. A bound program is what the executor runs: the schedule's steps in their order, with
 * offsets relative to the three buffers, so that it serves any buffers of the same count. Steps of length zero are
 * dropped (on both ends alike, since both know the length); signals (spans of no blocks) stay.
 */
#ifndef HKI_SCHED_BIND_H
#define HKI_SCHED_BIND_H

#include <hocket/hocket.h>

#include "sched/ir.h"

/* Sizes of one call. counts/displacements: arrays of `ranks` elements, NULL = equal counts / packed. */
typedef struct hki_sizes {
    uint64_t count;            /* elements: whole vector (CUT_EVEN), or each part (CUT_COUNTS) */
    const uint64_t *counts[2]; /* of INPUT and OUTPUT, where cut by COUNTS; CUT_ONE takes its length from those of
                                  the other buffer, or is `count` long when that has none */
    const uint64_t *displacements[2]; /* elements */
    uint32_t element_bytes;
} hki_sizes;

/* Contiguous bytes of a buffer (base = hki_buffer). */
typedef struct hki_piece {
    uint64_t offset, bytes;
    uint32_t base;
} hki_piece;

typedef struct hki_bound_step {
    uint8_t verb, flags;
    uint32_t peer, ordinal;
    uint64_t bytes;                          /* total length of the step */
    uint32_t destination, destination_count; /* pieces[destination …] */
    uint32_t source, source_count;           /* pieces of source; RECV_REDUCE, COPY and REDUCE have all operands cut at
                                                common edges, so source k's pieces are pieces[source +
                                                k·destination_count …], and source_count = operands·destination_count */
    uint32_t operands;                       /* number of sources: 0 for RECV, k for REDUCE, else 1 */
    uint32_t first_successor, successor_count; /* steps that wait for this one: successors[] */
    uint32_t waits;                            /* number of steps that this one waits for */
} hki_bound_step;

typedef struct hki_bound {
    uint32_t step_count, piece_count;
    hki_bound_step *steps;
    hki_piece *pieces;
    uint32_t *successors;
    uint64_t scratch_bytes; /* 64-byte-aligned slots, summed */
    uint64_t largest_message;
    size_t memory; /* bytes of this object */
} hki_bound;

/* Binds a schedule in time proportional to its spans' runs of blocks (and to the parts, where counts are per part).
 * Adjacent pieces are merged. Dropped steps pass their dependencies on. HK_ERR_NO_MEMORY; HK_ERR_COUNT when a buffer
 * would exceed 2^63 bytes; HK_ERR_INTERNAL when operands of a step differ in length. */
hk_status hki_bind(const hki_schedule *schedule, const hki_sizes *sizes, hki_bound **bound);
void hki_bound_free(hki_bound *bound);

/* First element of block `block` of a grid of INPUT (0) or OUTPUT (1), and its length, in elements. The library's own
 * cuts fall on 64-byte lines relative to the start of what they cut. */
void hki_block_extent(const hki_schedule *schedule, const hki_sizes *sizes, unsigned buffer, uint32_t block,
                      uint64_t *first, uint64_t *length);

#endif

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
    uint64_t count;                   /* elements: whole vector (CUT_EVEN), or each part (CUT_COUNTS) */
    const uint64_t *counts[2];        /* of INPUT and OUTPUT, where cut by COUNTS; for CUT_ONE those of the other */
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
    uint32_t source, source_count;           /* pieces of source; REDUCE: source k's pieces are
                                                pieces[source + k·destination_count …] after bind has cut all
                                                operands at common edges; `operands` = number of sources */
    uint32_t operands;
    uint32_t first_successor, successor_count; /* steps that wait for this one: successors[] */
    uint32_t waits;                            /* number of steps that this one waits for */
} hki_bound_step;

typedef struct hki_bound {
    uint32_t step_count;
    hki_bound_step *steps;
    hki_piece *pieces;
    uint32_t *successors;
    uint64_t scratch_bytes; /* 64-byte-aligned slots, summed */
    uint64_t largest_message;
    size_t memory; /* bytes of this object */
} hki_bound;

/* Binds a schedule. RECV_REDUCE: destination and source pieces are cut at common edges too (equal counts). Dropped
 * steps pass their dependencies on. Adjacent pieces are merged. HK_ERR_NO_MEMORY; HK_ERR_COUNT on overflow of 2^63
 * bytes. */
hk_status hki_bind(const hki_schedule *schedule, const hki_sizes *sizes, hki_bound **bound);
void hki_bound_free(hki_bound *bound);

/* First element of block `block` of a grid of INPUT (0) or OUTPUT (1), and its length, in elements. The library's own
 * cuts fall on 64-byte lines relative to the start of what they cut. */
void hki_block_extent(const hki_schedule *schedule, const hki_sizes *sizes, unsigned buffer, uint32_t block,
                      uint64_t *first, uint64_t *length);

#endif

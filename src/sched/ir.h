/*
 * The schedule: what one rank does in one collective, as steps over blocks. Written by generators (src/algo) through
 * the builder, read by bind, verifier, cost model, executor, simulator and dump.
 *
 * Buffers and grids. INPUT and OUTPUT are each cut into blocks by a grid; boundaries in elements come at binding, so
 * one schedule serves every count. SCRATCH consists of slots; a slot's size is the largest content that any step puts
 * into it. INPUT is never written.
 */
#ifndef HKI_SCHED_IR_H
#define HKI_SCHED_IR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum hki_buffer { HKI_INPUT, HKI_OUTPUT, HKI_SCRATCH } hki_buffer;

typedef enum hki_verb { HKI_VERB_SEND, HKI_VERB_RECV, HKI_VERB_RECV_REDUCE, HKI_VERB_COPY, HKI_VERB_REDUCE } hki_verb;

typedef enum hki_collective {
#define HKI_COLLECTIVE_LIST(X)                                                                                         \
    X(BARRIER, barrier)                                                                                                \
    X(BROADCAST, broadcast)                                                                                            \
    X(REDUCE, reduce)                                                                                                  \
    X(ALLREDUCE, allreduce)                                                                                            \
    X(REDUCE_SCATTER, reduce_scatter)                                                                                  \
    X(REDUCE_SCATTERV, reduce_scatterv)                                                                                \
    X(ALLGATHER, allgather)                                                                                            \
    X(ALLGATHERV, allgatherv)                                                                                          \
    X(GATHER, gather)                                                                                                  \
    X(GATHERV, gatherv)                                                                                                \
    X(SCATTER, scatter)                                                                                                \
    X(SCATTERV, scatterv)                                                                                              \
    X(ALLTOALL, alltoall)                                                                                              \
    X(ALLTOALLV, alltoallv)                                                                                            \
    X(SCAN, scan)                                                                                                      \
    X(EXSCAN, exscan)
#define HKI_X(NAME, name) HKI_COLL_##NAME,
    HKI_COLLECTIVE_LIST(HKI_X)
#undef HKI_X
        HKI_COLL_COUNT
} hki_collective;

/* How a buffer is cut. Every part is cut again into `segments` equal pieces (a power of two ≤ 64), so the grid has
 * parts·segments blocks; block = part·segments + segment. */
typedef enum hki_cut {
    HKI_CUT_NONE,     /* the buffer is not used */
    HKI_CUT_EVEN,     /* the whole vector of `count` elements in `parts` equal parts, edges on cache lines */
    HKI_CUT_FRACTION, /* the same with edges at given fractions of the whole (common refinements) */
    HKI_CUT_COUNTS,   /* part i has counts[i] elements at displacement[i] (equal counts: count at i·count) */
    HKI_CUT_ONE       /* one part: this rank's own share, of counts[own] elements */
} hki_cut;

typedef struct hki_fraction {
    uint32_t numerator, denominator;
} hki_fraction;

typedef struct hki_grid {
    hki_cut cut;
    uint32_t parts;
    uint32_t segments;
    uint32_t own;              /* CUT_ONE: index of the part in the COUNTS grid of the other buffer */
    const hki_fraction *edges; /* CUT_FRACTION: parts + 1 of them, the first 0 and the last 1; owned by the schedule */
} hki_grid;

/* A set of blocks: index(i) = base + (first + (i / run)·stride + i % run) mod wrap, for i < count. Contiguous ranges
 * have run = count. The ring [base, base + wrap) is the whole grid, or the part of it that a group of ranks works on.
 */
typedef struct hki_range {
    uint32_t first, count, run, stride, wrap, base;
} hki_range;

static inline uint32_t hki_range_index(const hki_range *range, uint32_t i)
{
    uint64_t linear = range->first + (uint64_t)(i / range->run) * range->stride + i % range->run;
    return range->base + (uint32_t)(linear % range->wrap);
}

/* Walks a range by maximal runs of consecutive blocks: from position *i (0 to begin), sets *first to the next run's
 * first block and *count to its length, and moves *i behind it. False at the end. */
static inline bool hki_range_next(const hki_range *range, uint32_t *i, uint32_t *first, uint32_t *count)
{
    if (*i >= range->count)
        return false;
    uint32_t length = range->count - *i;
    if (range->stride != range->run && length > range->run - *i % range->run)
        length = range->run - *i % range->run;
    *first = hki_range_index(range, *i);
    if (length > range->base + range->wrap - *first)
        length = range->base + range->wrap - *first;
    *count = length;
    *i += length;
    return true;
}

/* A span of no blocks (blocks.count == 0) is a signal: a message without content that is sent all the same (barriers).
 *
 * Where a step reads or writes. In INPUT and OUTPUT: `blocks` of the buffer's own grid. In SCRATCH: `blocks` of the
 * grid of buffer `of` say what lies there and so how long it is (that buffer itself may be insignificant here, but must
 * have a grid): packed one after another into the one slot `slot` when slots == 1; else every block has a slot of its
 * own, block x being in slot + (x - blocks.base), so that rings and strides work in scratch as they do elsewhere. */
typedef struct hki_span {
    uint8_t buffer; /* hki_buffer */
    uint8_t of;     /* INPUT or OUTPUT: whose grid `blocks` refers to (equal to buffer unless SCRATCH) */
    uint32_t slot;  /* SCRATCH only */
    uint32_t slots; /* SCRATCH only: 1 = packed into one, or blocks.count */
    hki_range blocks;
} hki_span;

enum {                             /* flags of a step */
       HKI_FINISH = 1u << 0,       /* completes its blocks: applies the division of an average, once per output block */
       HKI_INCOMING_LEFT = 1u << 1 /* RECV_REDUCE: incoming op local (else local op incoming) */
};

/* SEND     peer ← source                    RECV         destination ← peer
 * COPY     destination ← source             RECV_REDUCE  destination ← source op incoming (or incoming op source)
 * REDUCE   destination ← sources[0] op sources[1] op …, rounding only at the end                                   */
typedef struct hki_step {
    uint8_t verb;
    uint8_t flags;
    uint32_t peer;    /* SEND, RECV, RECV_REDUCE: rank in the communicator */
    uint32_t ordinal; /* n-th message between the two in this direction in this schedule, from 0 */
    hki_span destination;
    hki_span source;
    uint32_t first_source, source_count; /* REDUCE: in hki_schedule.sources */
    uint32_t first_dep, dep_count;       /* in hki_schedule.deps: earlier steps that must be complete */
} hki_step;

/* In-place use: INPUT blocks [input, input+count) are the same bytes as OUTPUT blocks [output, output+count). With
 * `whole`, the buffers overlap in some other way, so that any INPUT block conflicts with any OUTPUT block. */
typedef struct hki_alias {
    uint32_t input, output, count;
    bool whole;
} hki_alias;

typedef struct hki_schedule {
    hki_collective collective;
    uint32_t ranks, rank, root;
    hki_grid grid[2]; /* of INPUT and OUTPUT */
    hki_alias alias;
    uint32_t slots; /* SCRATCH */
    uint32_t step_count, source_count, dep_count;
    hki_step *steps;
    hki_span *sources;
    uint32_t *deps;
    uint32_t rounds; /* longest chain of messages through this rank's own steps: a lower bound of the whole's rounds */
    bool linear;     /* program order is a valid blocking order (every generator's is, with eager sends) */
    uint32_t *peers; /* the distinct ranks this rank talks to */
    uint32_t peer_count;
    size_t bytes; /* memory of this schedule, for the cache */
} hki_schedule;

/* Number of blocks of a grid. */
static inline uint32_t hki_grid_blocks(const hki_grid *grid)
{
    return grid->parts * grid->segments;
}

/* Why a span is none of a schedule with these grids and so many scratch slots, as a phrase ("exceeds its grid"); NULL
 * if it is one. */
const char *hki_span_fault(const hki_grid *grids, uint32_t slots, const hki_span *span);

void hki_schedule_free(hki_schedule *schedule);

#endif

/*
 * What one cell of a benchmark is: a collective, a type, an operator and a size, and what follows from them for one
 * rank: counts, buffers, the bandwidth convention. Knows no library, so that every library is measured by the same
 * code; types and operators are named by Hocket's header only.
 *
 * Sizes follow nccl-tests: `bytes` is the full vector; where blocks are per rank (all-gather, reduce-scatter,
 * all-to-all, gather, scatter) it is all P blocks together, and so is a multiple of P elements.
 */
#ifndef HKI_BENCH_CELL_H
#define HKI_BENCH_CELL_H

#include <hocket/hocket.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The one list of what can be measured: X(NAME, name, input, output, rooted, reduces, uneven, in-place, bus).
 *   input, output: elements per rank: NONE, WHOLE (the full vector) or SHARE (this rank's part of it);
 *   rooted: the WHOLE side exists at the root only (input of scatter and broadcast, output of reduce and gather);
 *   uneven: takes a count for each rank;
 *   in-place: has an in-place form;
 *   bus: what the algorithm's bandwidth is multiplied with to become the bus's (nccl-tests). */
#define HKI_BENCH_LIST(X)                                                                                              \
    X(BARRIER, barrier, NONE, NONE, false, false, false, false, ONE)                                                   \
    X(BROADCAST, broadcast, WHOLE, WHOLE, true, false, false, false, ONE)                                              \
    X(REDUCE, reduce, WHOLE, WHOLE, true, true, false, true, ONE)                                                      \
    X(ALLREDUCE, allreduce, WHOLE, WHOLE, false, true, false, true, BOTH_WAYS)                                         \
    X(REDUCE_SCATTER, reduce_scatter, WHOLE, SHARE, false, true, false, true, OTHERS)                                  \
    X(REDUCE_SCATTERV, reduce_scatterv, WHOLE, SHARE, false, true, true, true, OTHERS)                                 \
    X(ALLGATHER, allgather, SHARE, WHOLE, false, false, false, true, OTHERS)                                           \
    X(ALLGATHERV, allgatherv, SHARE, WHOLE, false, false, true, true, OTHERS)                                          \
    X(GATHER, gather, SHARE, WHOLE, true, false, false, true, OTHERS)                                                  \
    X(GATHERV, gatherv, SHARE, WHOLE, true, false, true, true, OTHERS)                                                 \
    X(SCATTER, scatter, WHOLE, SHARE, true, false, false, true, OTHERS)                                                \
    X(SCATTERV, scatterv, WHOLE, SHARE, true, false, true, true, OTHERS)                                               \
    X(ALLTOALL, alltoall, WHOLE, WHOLE, false, false, false, true, OTHERS)                                             \
    X(ALLTOALLV, alltoallv, WHOLE, WHOLE, false, false, true, true, OTHERS)                                            \
    X(SCAN, scan, WHOLE, WHOLE, false, true, false, true, ONE)                                                         \
    X(EXSCAN, exscan, WHOLE, WHOLE, false, true, false, false, ONE)                                                    \
    X(SENDRECV, sendrecv, WHOLE, WHOLE, false, false, false, false, ONE)                                               \
    X(PINGPONG, pingpong, WHOLE, WHOLE, false, false, false, false, ONE)                                               \
    X(STREAM, stream, WHOLE, WHOLE, false, false, false, false, ONE)

typedef enum hki_bench_kind {
#define HKI_X(NAME, name, input, output, rooted, reduces, uneven, in_place, bus) HKI_BENCH_##NAME,
    HKI_BENCH_LIST(HKI_X)
#undef HKI_X
        HKI_BENCH_COUNT
} hki_bench_kind;

typedef enum hki_bench_extent { HKI_BENCH_NONE, HKI_BENCH_WHOLE, HKI_BENCH_SHARE } hki_bench_extent;
/* 1; (P−1)/P; 2(P−1)/P */
typedef enum hki_bench_bus { HKI_BENCH_ONE, HKI_BENCH_OTHERS, HKI_BENCH_BOTH_WAYS } hki_bench_bus;

typedef struct hki_bench_traits {
    const char *name;
    hki_bench_extent input, output;
    bool rooted, reduces, uneven, in_place;
    hki_bench_bus bus;
} hki_bench_traits;

const hki_bench_traits *hki_bench_traits_of(hki_bench_kind kind);
/* By name; -1 if there is none. */
int hki_bench_kind_find(const char *name);
/* Messages instead of a collective; messages between ranks 0 and 1 only. */
bool hki_bench_is_message(hki_bench_kind kind);
bool hki_bench_is_pair(hki_bench_kind kind);
/* Predefined types and operators by name ("float32", "sum"); -1 if unknown. Need no library. */
int hki_bench_type_find(const char *name);
int hki_bench_op_find(const char *name);
const char *hki_bench_type_name(hk_type type);
const char *hki_bench_op_name(hk_op op);

/* One cell, as one rank sees it. Counts and offsets are elements. */
typedef struct hki_bench_cell {
    hki_bench_kind kind;
    hk_type type;
    hk_op op;
    int rank, ranks, root;
    bool in_place;
    uint64_t bytes;                    /* the actual size, after rounding */
    uint64_t count;                    /* what the call's count argument is (v forms: this rank's share) */
    uint64_t *counts, *displacements;  /* v forms: share of each rank; all-to-all: of each peer. NULL otherwise */
    uint64_t input, output;            /* elements that this rank gives and gets */
    uint64_t input_at, output_at;      /* where they begin in their buffer (in-place forms; else 0) */
    bool shared;                       /* input and output lie in one buffer, of `extent` elements */
    bool send_in_place, recv_in_place; /* which argument is replaced by the library's in-place mark */
    uint64_t extent;                   /* elements of the buffer that holds the input */
    size_t element;                    /* bytes */
} hki_bench_cell;

/* What a cell is made from. `uneven`: the v forms get shares that differ by rank; else equal ones. */
typedef struct hki_bench_request {
    hki_bench_kind kind;
    hk_type type;
    hk_op op;
    int rank, ranks, root;
    bool in_place, uneven;
    uint64_t bytes; /* wanted */
} hki_bench_request;

/* The size that a cell of these wishes really has. */
uint64_t hki_bench_actual_bytes(const hki_bench_request *request);
/* False when out of memory. */
bool hki_bench_cell_make(const hki_bench_request *request, hki_bench_cell *cell);
void hki_bench_cell_clear(hki_bench_cell *cell);

/* Elements of the block that `from` sends to `to` in an all-to-all of this cell, and where it begins in from's input.
 */
uint64_t hki_bench_block(const hki_bench_cell *cell, int from, int to, uint64_t *begin);

/* GB/s (10^9) of the algorithm, and of the bus, for one call in `microseconds`; 0 for a call without content. */
double hki_bench_algorithm_bandwidth(const hki_bench_cell *cell, double microseconds);
double hki_bench_bus_bandwidth(const hki_bench_cell *cell, double microseconds);

#ifdef __cplusplus
}
#endif
#endif

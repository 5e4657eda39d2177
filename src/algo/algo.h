/*
 * The algorithms: one file each, one line in algos.def each. Everything that a tool, a test or the selection wants to
 * know about an algorithm is in its hki_algorithm.
 */
#ifndef HKI_ALGO_ALGO_H
#define HKI_ALGO_ALGO_H

#include "sched/builder.h"
#include "topo/levels.h"

/* What an algorithm is asked for: only what is equal on all ranks, but for `rank` and the in-place form. */
typedef struct hki_call {
    hki_collective collective;
    uint32_t ranks, rank, root;
    uint32_t segments; /* power of two, 1 … 64 */
    enum {
        HKI_SEPARATE,       /* two buffers */
        HKI_ALIGNED,        /* same bytes where blocks coincide: equal pointers, the aligned slice */
        HKI_PACKED_AT_START /* reduce-scatter with HK_IN_PLACE: result at the start of the input */
    } in_place;
    bool commutative;         /* of the operator; true where there is none */
    const hki_levels *levels; /* topology view: a hki_cluster's; NULL = all ranks alike */
} hki_call;

/* How alike the ranks of a call do: what the cost model may leave out. */
typedef enum hki_alike {
    HKI_UNLIKE,
    /* All ranks make the same steps at the same time, with other peers: the n-th message that a rank receives is the
     * n-th that its sender sends. One rank tells what all do. */
    HKI_ALIKE,
    /* The same among all ranks but some that hand their part to a neighbour first and get the result from it (a folded
     * group): ranks 0 and 1, which are such a pair if there is one, tell what all do. */
    HKI_ALIKE_IN_PAIRS,
    /* The same among the ranks of a node, with peers of the same place in it or as many places further on: one of each
     * node tells what all do. */
    HKI_ALIKE_IN_NODES
} hki_alike;

/* Another algorithm, as a part of one. */
typedef struct hki_part {
    hki_collective collective;
    const char *name; /* NULL: none */
} hki_part;

typedef struct hki_algorithm {
    hki_collective collective;
    const char *name;       /* as in --algorithm: lower case, underscores */
    const char *summary;    /* one line */
    const char *source;     /* paper or standard */
    const char *constraint; /* in words; "" when any P */
    bool keeps_order;       /* serves non-commutative operators: reduces in rank order */
    bool segmented;         /* uses call.segments */
    bool sprawls;           /* some rank talks to all others though the collective does not ask for it */
    bool hierarchical;      /* made for call.levels: without them it is some flat algorithm over again */
    bool sliced;            /* each rank of a host carries a slice of the vector, which is what segments cut */
    /* NULL when the algorithm can serve the call, else why not (a static text). May itself be NULL: serves any. */
    const char *(*refuses)(const hki_call *call);
    /* Sets shape->grid and shape->segments for the call. Edges of CUT_FRACTION are malloc'ed and become the caller's;
     * NULL edges mean that there was no memory. */
    void (*cut)(const hki_call *call, hki_shape *shape);
    /* Writes the calling rank's steps; P > 1. */
    void (*generate)(hki_builder *builder, const hki_call *call);
    /* Textbook forms, for tests and `info --algorithms`. Rounds: a bound on the longest chain of messages, reached
     * for one segment and P a power of two (most reach it for any P). Bytes sent by the busiest rank, exactly, for
     * equal shares, as a fraction of the full vector n (n = count·size, times P where blocks are per rank). Not a
     * number: there is no form for the call. P > 1. */
    double (*rounds)(const hki_call *call);
    double (*sent)(const hki_call *call);
    const char *rounds_text, *sent_text, *scratch_text;
    /* Messages that leave side by side, of those that `rounds` counts one after another, as through one port: such
     * cost a round together, and overheads. 0: one. */
    uint32_t abreast;
    /* For the cost model: NULL: unlike. */
    hki_alike (*alike)(const hki_call *call);
    /* Algorithms that it is a composition of, one after the other: among many ranks it is priced as their sum. */
    hki_part parts[2];
    /* Ranks begin the second while messages of the first are still on their way to others, and both get in each other's
     * way at the ends of hosts: their sum tells only of ranks of one host. */
    bool parts_interleave;
} hki_algorithm;

/* All of them, in the order of algos.def. */
const hki_algorithm *hki_algorithms(size_t *count);
/* By name; NULL if there is none. */
const hki_algorithm *hki_algorithm_find(hki_collective collective, const char *name);
/* Why it cannot serve the call (order, P, segments …), or NULL. */
const char *hki_algorithm_refuses(const hki_algorithm *algorithm, const hki_call *call);
/* Generates the calling rank's schedule. HK_ERR_NO_MEMORY, HK_ERR_UNSUPPORTED (with the reason recorded). */
hk_status hki_algorithm_schedule(const hki_algorithm *algorithm, const hki_call *call, hki_schedule **schedule);
/* The same for whoever only looks at schedules, of many ranks one after the other: it lies in the builder, without its
 * list of peers, until the next is written there. loose: without dependencies and ordinals as well. *builder: NULL at
 * first; the caller frees it, also after errors. */
hk_status hki_algorithm_look(const hki_algorithm *algorithm, const hki_call *call, bool loose, hki_builder **builder,
                             const hki_schedule **schedule);

/* "allreduce" ↔ HKI_COLL_ALLREDUCE; -1 if unknown. */
const char *hki_collective_name(hki_collective collective);
int hki_collective_find(const char *name);
/* Whether it has an operator. */
bool hki_collective_reduces(hki_collective collective);

#endif

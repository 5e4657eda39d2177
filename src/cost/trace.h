/*
 * Traces: what schedules say about time, and nothing else. Verbs, lengths in blocks, who waits for whom, and which two
 * steps are the ends of one message. They hold for every number of bytes, so that one set prices all sizes.
 *
 * A set has the traces of all ranks, or *stands for* them: where all ranks do alike, the messages that a traced rank
 * sends to ranks that are not traced are taken for those that it receives from such ranks, the first for the first and
 * so on, since they would come from one that does the same at the same time.
 *
 * Or it has those that a *symmetry* takes all others to: ranks lie in rows of equal width, and do the same as the rank
 * so many rows, or so many places within the row, before them, with peers as many further on (modulo their number); or
 * as the one whose numbers differ in some bits, with peers whose numbers differ in the same. What a traced rank sends
 * to one that is not traced is taken for what the receiver's counterpart has from one as far away. So the first row of
 * a cluster that repeats itself (see period.h) tells what all do, or one rank of every row, or one rank.
 */
#ifndef HKI_COST_TRACE_H
#define HKI_COST_TRACE_H

#include "algo/algo.h"
#include "sched/bind.h"
#include "sched/layout.h"

typedef struct hki_trace_step {
    hki_range blocks; /* of grid `of`: its length */
    uint32_t rank;    /* who makes it: index into hki_traces.rank */
    uint32_t peer;    /* messages: rank in the communicator */
    uint32_t mate;    /* messages: the step at the other end, in hki_traces.steps */
    uint32_t operands;
    uint32_t waits; /* number of steps that it waits for */
    uint32_t first_successor, successor_count;
    uint8_t verb, of;
    bool signal; /* a message without content, sent all the same */
} hki_trace_step;

/* How what ranks do follows from what others do. */
typedef enum hki_motion { HKI_STILL, HKI_BY_SHIFT, HKI_BY_EXCHANGE } hki_motion;
typedef struct hki_symmetry {
    uint32_t width; /* of rows, of which the ranks are a multiple; 0: there is none */
    hki_motion row, place;
} hki_symmetry;
/* The rank that one becomes when the symmetry takes the first of its kind to `by`. */
uint32_t hki_moved(const hki_symmetry *symmetry, uint32_t ranks, uint32_t rank, uint32_t by);

typedef struct hki_traces {
    uint32_t ranks; /* of the call */
    hki_symmetry symmetry;
    uint32_t count;  /* of them traced */
    uint32_t *rank;  /* which */
    uint32_t *first; /* count + 1: where the steps of each begin */
    hki_trace_step *steps;
    uint32_t *successors;
    hki_grid grid[2]; /* edges are owned */
    size_t bytes;     /* of memory */
} hki_traces;

/* Traces `count` ranks of a call (all of them, in order, or some that stand for all); ranks: NULL: the first.
 * call->rank and the in-place form are not looked at. HK_ERR_UNSUPPORTED (the algorithm refuses), HK_ERR_NO_MEMORY,
 * HK_ERR_INTERNAL (messages without another end: some cannot stand for all). */
hk_status hki_traces_new(const hki_algorithm *algorithm, const hki_call *call, const uint32_t *ranks, uint32_t count,
                         hki_traces **traces);
/* Which ranks of the rows are traced, those of the same place in other rows or of the same row being alike. */
typedef enum hki_excerpt { HKI_FIRST_ROW, HKI_FIRST_PLACES, HKI_FIRST_RANK } hki_excerpt;
/* Traces those that a symmetry in rows of `width`, of which the ranks are a multiple, takes all others to.
 * HK_ERR_UNSUPPORTED also: there is no such symmetry, as far as two or three other ranks tell. */
hk_status hki_traces_new_excerpt(const hki_algorithm *algorithm, const hki_call *call, uint32_t width,
                                 hki_excerpt excerpt, hki_traces **traces);
void hki_traces_free(hki_traces *traces);
static inline uint32_t hki_traces_steps(const hki_traces *traces)
{
    return traces->first[traces->count];
}
/* Bytes of every step of a call of these sizes, with equal counts. Where some ranks stand for all, parts of the
 * library's own cuts are taken as equally long, a line at least; `mean`: of what all ranks send in their place, where a
 * vector has fewer lines than parts. */
void hki_traces_measure(const hki_traces *traces, const hki_sizes *sizes, uint64_t *bytes, uint64_t *mean);
/* Bytes of one step of a schedule, as laid out by these sizes. */
uint64_t hki_step_bytes(const hki_step *step, const hki_layout layout[2], uint32_t element_bytes);

#endif

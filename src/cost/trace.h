/*
 * Traces: what schedules say about time, and nothing else. Verbs, lengths in blocks, who waits for whom, and which two
 * steps are the ends of one message. They hold for every number of bytes, so that one set prices all sizes.
 *
 * A set has the traces of all ranks, or *stands for* them: where all ranks do alike, the messages that a traced rank
 * sends to ranks that are not traced are taken for those that it receives from such ranks, the first for the first and
 * so on, since they would come from one that does the same at the same time.
 *
 * Or it has those of the first *part* of a cluster that repeats itself (see period.h), and what a rank of it sends to
 * another part is taken for what the receiver's counterpart in the first part has from a part as far away.
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

typedef struct hki_traces {
    uint32_t ranks;  /* of the call */
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
/* Traces the first `part` ranks, of which the call's are a multiple. HK_ERR_UNSUPPORTED also: messages have no other
 * end there, neither of a rank as many parts on (modulo their number) nor of one whose part's number differs in the
 * same bits. */
hk_status hki_traces_new_part(const hki_algorithm *algorithm, const hki_call *call, uint32_t part, hki_traces **traces);
void hki_traces_free(hki_traces *traces);
static inline uint32_t hki_traces_steps(const hki_traces *traces)
{
    return traces->first[traces->count];
}
/* Bytes of every step of a call of these sizes, with equal counts. Where some ranks stand for all, parts of the
 * library's own cuts are taken as equally long. */
void hki_traces_measure(const hki_traces *traces, const hki_sizes *sizes, uint64_t *bytes);
/* Bytes of one step of a schedule, as laid out by these sizes. */
uint64_t hki_step_bytes(const hki_step *step, const hki_layout layout[2], uint32_t element_bytes);

#endif

/*
 * The verifier: runs the schedules of all ranks of a collective symbolically and proves that they do what the
 * collective promises, whatever the order in which independent steps happen to run.
 *
 * A block's content is an expression over contributions: which ranks' data, in which order, associated how. Checked:
 *
 *  - structure: spans lie in their grids and slots, dependencies point backwards, all ranks cut alike;
 *  - messages: every SEND has its RECV by ordinal, and both agree block by block about length (for per-rank counts,
 *    lengths are equal only where the block is the same);
 *  - no race: two steps of a rank that touch the same bytes, one of them writing, are ordered by the schedule's own
 *    dependencies. A SEND reads its source until it completes, so this includes what a peer still reads. In place,
 *    INPUT and OUTPUT blocks are the same bytes;
 *  - no deadlock when every SEND is a rendezvous (it completes only together with its RECV);
 *  - INPUT is never written, read only where it is significant and, in place, before its bytes are overwritten; OUTPUT
 *    is written only where it is significant; nothing is read before it was written;
 *  - the postcondition of the collective: each output block holds each contribution exactly once; of reductions
 *    finished exactly once (one rank alone may leave that out; prefixes know no average and are not finished); of
 *    all-reduce associated alike on all ranks, so that all hold the same bits. Of a barrier: no rank leaves before
 * every rank has entered.
 *
 * Source of the idea: symbolic execution of collectives as in SCCL (Cai et al., PPoPP 2021) and MSCCLang; expressions
 * instead of sets so that order and association are seen as well.
 */
#ifndef HKI_SCHED_VERIFY_H
#define HKI_SCHED_VERIFY_H

#include <hocket/hocket.h>

#include "sched/ir.h"

/* What can be wrong: X(NAME, text). */
#define HKI_FAULT_LIST(X)                                                                                              \
    X(NONE, "nothing")                                                                                                 \
    X(STRUCTURE, "malformed step")                                                                                     \
    X(GRID, "ranks cut a buffer differently")                                                                          \
    X(UNMATCHED, "message without a counterpart")                                                                      \
    X(LENGTH, "lengths differ")                                                                                        \
    X(RACE, "race")                                                                                                    \
    X(DEADLOCK, "deadlock")                                                                                            \
    X(INPUT_WRITTEN, "INPUT is written")                                                                               \
    X(INPUT_CLOBBERED, "INPUT is read after its bytes were overwritten")                                               \
    X(INPUT_INSIGNIFICANT, "INPUT is read where it is not significant")                                                \
    X(OUTPUT_INSIGNIFICANT, "OUTPUT is written where it is not significant")                                           \
    X(UNDEFINED, "a block is read before it was written")                                                              \
    X(MIXED, "different blocks are reduced with each other")                                                           \
    X(DOUBLE, "a contribution is counted twice")                                                                       \
    X(DOUBLE_FINISH, "a finished block is finished or reduced again")                                                  \
    X(MISSING_FINISH, "an output block is never finished")                                                             \
    X(LOST, "an output block is never written")                                                                        \
    X(WRONG_BLOCK, "an output block holds another block's data")                                                       \
    X(WRONG_CONTRIBUTIONS, "an output block lacks contributions, or has others")                                       \
    X(ASSOCIATION, "ranks associate the same block differently")                                                       \
    X(BARRIER, "a rank leaves the barrier early")

typedef enum hki_fault {
#define HKI_X(NAME, text) HKI_FAULT_##NAME,
    HKI_FAULT_LIST(HKI_X)
#undef HKI_X
} hki_fault;

#define HKI_NOWHERE UINT32_MAX

typedef struct hki_verify_report {
    /* What failed and where; HKI_NOWHERE where it does not apply. */
    hki_fault fault;
    uint32_t rank, step, block;
    /* What was counted; valid when nothing failed. */
    bool keeps_order;       /* every result is reduced in rank order: serves non-commutative operators */
    uint32_t rounds;        /* longest chain of messages, over all ranks */
    uint64_t steps;         /* of all ranks */
    uint64_t messages;      /* of all ranks */
    uint64_t rank_messages; /* sent by the rank that sends most messages */
    double sent; /* sent by the rank that sends most bytes, as a fraction of the full vector: of count elements,
                    or of all ranks' parts together */
} hki_verify_report;

/* Verifies schedules[0 … ranks-1], the schedules of all ranks of one collective. `algorithm` is for messages and may be
 * NULL. Fills the report (on failure too). HK_ERR_INTERNAL when a check fails: the error text names collective,
 * algorithm, ranks, rank, step and block. HK_ERR_NO_MEMORY: also when more than 8 GiB would be needed. */
hk_status hki_verify(const hki_schedule *const *schedules, uint32_t ranks, const char *algorithm,
                     hki_verify_report *report);

/* "RACE" …; "?" for none. */
const char *hki_fault_name(hki_fault fault);

#endif

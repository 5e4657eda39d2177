/*
 * One call of a collective under test: buffers with guards, in every form that the API allows, started either way, and
 * compared byte by byte with what must be in memory afterwards, whatever lies around the blocks included.
 */
#ifndef HKI_TESTS_COLLECTIVE_CALL_H
#define HKI_TESTS_COLLECTIVE_CALL_H

#include "collective_values.h"

#include "algo/algo.h"

#include <stddef.h>

enum { CALL_RANKS = 16, CALL_BLOCKS = CALL_RANKS };

typedef enum call_form {
    CALL_SEPARATE,
    CALL_IN_PLACE, /* HK_IN_PLACE */
    CALL_ALIGNED,  /* equal pointers, or the slice where the rank's block lies */
    CALL_MIXED,    /* each rank in its own way */
    CALL_FORMS
} call_form;

/* The same on all ranks. */
typedef struct call_case {
    const hki_algorithm *algorithm; /* forced by whoever runs the case; here for its collective and name */
    values_of values;
    uint64_t count;
    uint64_t counts[CALL_RANKS][CALL_RANKS]; /* per-rank counts: all-to-all's [from][to], others' [0][rank] */
    int root;
    uint32_t segments; /* as forced, for messages */
    call_form form;
    bool displaced; /* blocks in any order, with gaps */
    bool blocking;
} call_case;

/* Memory for buffers: one piece, so that none is allocated for each call. */
typedef struct call_arena {
    unsigned char *memory;
    size_t bytes, used;
} call_arena;

typedef struct call_side {
    int blocks;
    uint64_t first[CALL_BLOCKS], length[CALL_BLOCKS]; /* elements */
    uint64_t span;                                    /* elements from the begin to the end of what is used */
} call_side;

/* A buffer between guards, and what it must hold in the end. */
typedef struct call_region {
    unsigned char *memory, *expected;
    size_t bytes; /* with guards */
    unsigned char *begin;
} call_region;

typedef struct call_running {
    const call_case *is;
    int rank;
    call_form form; /* of this rank */
    call_side side[2];
    call_region region[2];                                        /* the second is unused when in place */
    uint64_t counts[2][CALL_RANKS], displacements[2][CALL_RANKS]; /* as passed */
    hk_op op;
    hk_request *request;
} call_running;

bool call_is_rooted(hki_collective collective);
/* Whether counts are per rank. */
bool call_varies(hki_collective collective);

/* Lays out the buffers, fills them, and starts the call; when it is a blocking one, it has ended. Ends the rank's
 * process with a message when the call fails. The case stays the caller's and must live until call_finish. */
void call_start(call_running *call, const call_case *is, hk_comm *comm, call_arena *arena);
/* Waits for the call, unless it was a blocking one. */
void call_wait(call_running *call);
/* Compares memory with what is expected, and frees what the call made; ends the process with a message on a
 * difference. */
void call_finish(call_running *call);

/* One case from start to end, with the arena emptied first. */
void call_run(const call_case *is, hk_comm *comm, call_arena *arena);

#endif

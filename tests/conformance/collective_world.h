/*
 * Where collectives are tested: the transports and protocols there are, one row each, and jobs of processes on them.
 *
 * CONFORMANCE_WAYS=tcp,mixed runs the rows of these names only; CONFORMANCE_ALL=1 runs everything on every row, which a
 * normal run samples; CONFORMANCE_SEED=N draws other cases.
 */
#ifndef HKI_TESTS_COLLECTIVE_WORLD_H
#define HKI_TESTS_COLLECTIVE_WORLD_H

#include "collective_call.h"

#include "../support/ranks.h"

/* One way for messages to go. */
typedef struct world_way {
    const char *name;
    const char *needs;    /* transports that must be built in: "shm tcp" */
    const char *settings; /* of the environment: "NAME=value NAME=value" */
    int hosts;            /* that the ranks pretend to be on */
    bool interleaved;     /* neighbouring ranks are on different hosts */
    int only;             /* so many ranks; 0: the usual numbers */
    bool apart;           /* rank 0 is on a host of its own */
    bool mapped;          /* buffers from hk_alloc */
    bool whole;           /* sampled least in a normal run */
    bool slow;            /* over whatever HOCKET_TRANSPORT says, where a message takes a millisecond: only when
                             CONFORMANCE_WAYS names it, and little then */
} world_way;

extern const world_way world_ways[];
extern const size_t world_way_count;

/* Whether a way is asked for, and possible; says so when it is not possible. */
bool world_way_wanted(const world_way *way);
bool world_everything(void);
uint64_t world_seed(void);

/* A rank of a job: its arena is large enough for what the cases draw. */
typedef struct world_rank {
    const world_way *way;
    hk_comm *comm;
    int rank, ranks;
    const hki_levels *levels; /* which of them share a host */
    size_t eager;             /* bytes of the largest message sent unasked */
    call_arena arena;
} world_rank;

typedef void world_body(world_rank *self, void *argument);

/* Runs the body on so many processes; how many failed. */
int world_run(const world_way *way, int ranks, world_body *body, void *argument);

/* Makes the algorithm serve its collective, with a communicator that remembers nothing; the former is freed. */
void world_force(world_rank *self, hk_comm **comm, const hki_algorithm *algorithm, uint32_t segments);

#endif

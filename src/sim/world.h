/*
 * The steps of all ranks of one collective, as the simulator walks them: generated and bound rank by rank, each
 * schedule freed again, 24 bytes a step and 4 a dependency. Both ends of every message know each other.
 */
#ifndef HKI_SIM_WORLD_H
#define HKI_SIM_WORLD_H

#include "algo/algo.h"
#include "sched/bind.h"
#include "topo/cluster.h"

#define HKI_SIM_NO_STEP UINT32_MAX

/* What a step moves or computes: few differ, so steps name them by number. */
typedef struct hki_sim_work {
    uint64_t bytes;
    uint32_t operands; /* sources of a REDUCE; else 1 */
} hki_sim_work;

typedef struct hki_sim_step {
    uint32_t peer;      /* rank at the other end; of COPY and REDUCE their own */
    uint32_t match;     /* the step at the other end; messages only */
    uint32_t successor; /* its first in successors[]; they end where those of the next step begin */
    uint32_t next;      /* how many steps it waits for; once there are none, a link of the engine's queues */
    uint32_t previous;  /* the same, backwards */
    uint32_t work : 20; /* in works[] */
    uint32_t link : 4;  /* messages: hki_link_class between the two */
    uint32_t verb : 3;
    uint32_t state : 5; /* the engine's */
} hki_sim_step;

/* Steps of rank r are first[r] … first[r + 1] - 1. The last step of all is followed by one that only ends successors.
 */
typedef struct hki_sim_world {
    uint32_t ranks;
    uint32_t step_count, step_capacity;
    uint32_t successor_count, successor_capacity;
    uint32_t work_count, work_capacity;
    uint32_t *first;
    hki_sim_step *steps;
    uint32_t *successors;
    hki_sim_work *works;
    uint64_t messages, bytes; /* sent by all ranks */
    uint64_t busiest_bytes;   /* sent by the rank that sends most */
} hki_sim_world;

/* Makes it for call->ranks ranks (call->rank and in-place form are not looked at). HK_ERR_UNSUPPORTED: the algorithm
 * refuses the call. HK_ERR_COUNT: more than `most_steps` steps (UINT32_MAX - 1 at most). HK_ERR_NO_MEMORY.
 * HK_ERR_INTERNAL: messages without a counterpart. The world is empty then. */
hk_status hki_sim_world_make(const hki_cluster *cluster, const hki_algorithm *algorithm, const hki_call *call,
                             const hki_sizes *sizes, uint64_t most_steps, hki_sim_world *world);
void hki_sim_world_free(hki_sim_world *world);

/* How many steps it would have, from the schedules of a few ranks: the first, the root's, the last and some between.
 * Blocks that lie apart take their time to bind, too: eight of them count as a step. Looks at fewer ranks where these
 * tell that it is more than `most`. */
hk_status hki_sim_world_estimate(const hki_algorithm *algorithm, const hki_call *call, uint64_t most, uint64_t *steps);

/* The rank whose step this is. */
uint32_t hki_sim_world_rank(const hki_sim_world *world, uint32_t step);

static inline bool hki_sim_receives(const hki_sim_step *step)
{
    return step->verb == HKI_VERB_RECV || step->verb == HKI_VERB_RECV_REDUCE;
}

static inline bool hki_sim_is_message(const hki_sim_step *step)
{
    return step->verb != HKI_VERB_COPY && step->verb != HKI_VERB_REDUCE;
}

#endif

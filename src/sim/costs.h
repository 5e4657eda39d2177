/*
 * What steps and messages take when nothing is in their way: the figures, worked out once for every work and link
 * class, so that the event loop only looks up.
 */
#ifndef HKI_SIM_COSTS_H
#define HKI_SIM_COSTS_H

#include "cost/price.h"
#include "sim/world.h"

typedef struct hki_sim_message_cost {
    uint64_t alpha_ps, overhead_ps;
    uint64_t bytes_ps; /* nβ */
    uint64_t core_ps;  /* of each end's core, moving them */
    bool rendezvous;
} hki_sim_message_cost;

typedef struct hki_sim_costs {
    const hki_model *model;
    hki_sim_message_cost *messages; /* by work, then by link class */
    uint64_t *reduce_ps, *copy_ps;  /* by work: (operands - 1)·nγ, n·copy */
    bool hops;                      /* some switch adds latency */
} hki_sim_costs;

/* HK_ERR_NO_MEMORY. */
hk_status hki_sim_costs_open(const hki_model *model, const hki_sim_world *world, hki_sim_costs *costs);
void hki_sim_costs_close(hki_sim_costs *costs);

/* What `ps` of a rank's own time becomes where ranks take turns on too few cores. */
uint64_t hki_sim_turns(const hki_cluster *cluster, uint32_t rank, uint64_t ps);
/* What making a step takes, with what it computes, but for a RECV_REDUCE's reduction. */
uint64_t hki_sim_make_ps(const hki_sim_costs *costs, uint32_t rank, const hki_sim_step *step);
/* What the reduction of a RECV_REDUCE takes once all has arrived: 0 where the core reduces while it moves. */
uint64_t hki_sim_reduce_ps(const hki_sim_costs *costs, uint32_t rank, const hki_sim_step *step);
/* What moving a message's bytes takes the core of `rank`, whose step is one of its ends. */
uint64_t hki_sim_move_ps(const hki_sim_costs *costs, uint32_t rank, const hki_sim_step *step);
/* Of that, the reduction of what comes. */
uint64_t hki_sim_reduce_moving_ps(const hki_sim_costs *costs, uint32_t rank, const hki_sim_step *step);
/* How much later a rank that takes turns with others sees what happens: 0 where there are cores for all. */
uint64_t hki_sim_turn_ps(const hki_sim_costs *costs, uint32_t rank);
/* What the switches between two ranks add to the latency. */
uint64_t hki_sim_hops_ps(const hki_sim_costs *costs, uint32_t from, uint32_t to);

/* Of a message, at either of its ends. */
static inline const hki_sim_message_cost *hki_sim_message(const hki_sim_costs *costs, const hki_sim_step *step)
{
    return &costs->messages[step->work * (size_t)HKI_LINK_CLASSES + step->link];
}

#endif

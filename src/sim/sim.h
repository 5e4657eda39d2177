/*
 * The simulator: discrete events on virtual time over the very schedules that run, by the rules of cost/price.h, every
 * rank's every step, with contention for what messages share. See README.md for what is modelled and what is not.
 */
#ifndef HKI_SIM_SIM_H
#define HKI_SIM_SIM_H

#include "sim/costs.h"
#include "sim/world.h"

typedef struct hki_sim_options {
    uint64_t most_steps; /* refuse worlds of more steps; 0: as many as can be numbered */
    bool record;         /* keep times and loads: for paths and pictures; 32 bytes a step */
} hki_sim_options;

/* When a step happened, in picoseconds. */
typedef struct hki_sim_times {
    uint64_t made;  /* the rank had made it */
    uint64_t moved; /* SEND: the message left; RECV, RECV_REDUCE: it arrived */
    uint64_t core;  /* messages: the rank's core had moved the bytes */
    uint64_t last;  /* SEND: its way out was free again; others: the step was complete */
} hki_sim_times;

/* Of a shared resource. */
typedef struct hki_sim_load {
    uint64_t bytes;   /* that passed it */
    uint64_t busy_ps; /* how long something passed it, and … */
    uint32_t most;    /* … flows at once; both counted where the resource can be in the way */
    bool limits;      /* as it can */
} hki_sim_load;

typedef struct hki_sim {
    hki_model model; /* borrows what the caller's borrows, but for figures in bulk */
    hki_figures bulk;
    const hki_algorithm *algorithm;
    hki_call call;
    hki_sim_world world;
    hki_sim_costs costs;
    uint64_t total_ps; /* when the last step was complete, and its rank goes on */
    uint32_t last;     /* that step; HKI_SIM_NO_STEP: there is none */
    bool in_order;     /* no message is a rendezvous: ranks make their steps in program order */
    uint64_t events;
    uint64_t *rank_end;   /* of each rank */
    hki_sim_times *times; /* of each step, if recorded */
    hki_sim_load *loads;  /* of each resource of the cluster, if recorded */
} hki_sim;

/* Simulates a call of `bytes` bytes (as hki_select counts them), with equal counts. The same arguments give the same
 * result, always: events at the same time come in the order of ranks and steps. HK_ERR_ARGUMENT: the cluster has
 * another number of ranks than the call; HK_ERR_UNSUPPORTED: the algorithm refuses the call; HK_ERR_COUNT: too many
 * steps; HK_ERR_NO_MEMORY. */
hk_status hki_sim_run(const hki_model *model, const hki_algorithm *algorithm, const hki_call *call, uint64_t bytes,
                      const hki_sim_options *options, hki_sim **sim);
void hki_sim_free(hki_sim *sim);

/* When a step of a recorded simulation was complete. */
uint64_t hki_sim_end(const hki_sim *sim, uint32_t step);
/* When all bytes of a message (its SEND) had passed, so that its ways were free: its latency is yet to come. */
uint64_t hki_sim_flown(const hki_sim *sim, uint32_t send);

/* A stretch of the critical path. */
typedef enum hki_sim_leg_kind {
    HKI_SIM_LEG_MESSAGE, /* a message on its way to a step */
    HKI_SIM_LEG_WAY,     /* a message that kept another one from leaving, or from coming in */
    HKI_SIM_LEG_MAKE,    /* a rank makes a step, with what it copies or reduces */
    HKI_SIM_LEG_MOVE,    /* its core moves a message's bytes */
    HKI_SIM_LEG_REDUCE,  /* its core reduces what has arrived */
    HKI_SIM_LEG_TURN     /* it sees the end when its turn comes */
} hki_sim_leg_kind;

typedef struct hki_sim_leg {
    hki_sim_leg_kind kind;
    uint32_t step;                             /* of messages: the SEND */
    uint32_t rank, peer;                       /* of messages: from, to; else both the rank */
    uint64_t begin_ps, end_ps;                 /* end of one leg = begin of the next */
    uint64_t alpha_ps, beta_ps, gamma_ps;      /* what it consists of, … */
    uint64_t copy_ps, local_ps, contention_ps; /* … which adds up to its length */
} hki_sim_leg;

/* From time 0 to the end of the last step: what each thing waited for that nothing else delayed. */
typedef struct hki_sim_path {
    hki_sim_leg *legs; /* in order of time */
    uint32_t count, capacity;
    uint32_t messages;                                                      /* of the legs */
    uint64_t alpha_ps, beta_ps, gamma_ps, copy_ps, local_ps, contention_ps; /* add up to total_ps of the simulation */
} hki_sim_path;

/* Of a recorded simulation. HK_ERR_ARGUMENT: it is not recorded; HK_ERR_NO_MEMORY. */
hk_status hki_sim_path_find(const hki_sim *sim, hki_sim_path *path);
void hki_sim_path_free(hki_sim_path *path);

#endif

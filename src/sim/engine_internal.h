/* What the parts of the event loop share: engine.c (steps and messages), jobs.c (what ranks do), ways.c (who may send).
 */
#ifndef HKI_SIM_ENGINE_INTERNAL_H
#define HKI_SIM_ENGINE_INTERNAL_H

#include "sim/engine.h"
#include "sim/flows.h"
#include "sim/queue.h"

enum { NONE = HKI_SIM_NO_STEP };
enum { MADE = HKI_SIM_MADE, GONE = HKI_SIM_GONE, MOVED = HKI_SIM_MOVED, HELD = HKI_SIM_HELD };

/* Kinds of events; each has a step, or a rank. */
typedef enum event_kind {
    POSTED,   /* rank: the message's step that it was making */
    JOB_DONE, /* rank: its core's job */
    BEGINS,   /* SEND: its bytes begin to pass what is shared */
    FLOWN,    /* SEND: they have passed; the way in is free again, and that out if it waited for the receiver's */
    OUT_FREE, /* SEND that the receiver holds up: the way out is free again */
    ARRIVES,  /* SEND: is at the receiver */
    SEEN,     /* RECV: its core has moved it, and sees the last byte */
    KINDS
} event_kind;

typedef struct list {
    uint32_t head, tail;
} list;

/* What a rank has to do: make a step (of messages: post it), move a message's bytes, reduce what has arrived. */
typedef enum job_kind { MAKE, MOVE, REDUCE } job_kind;

typedef struct job {
    uint32_t step, next;
    job_kind kind;
} job;

typedef struct rank_state {
    list posts;         /* messages' steps to be made, the first being made; numbers of jobs */
    list jobs;          /* of its core, likewise: beside posting it moves, copies and reduces */
    list leaving;       /* SENDs that are made and have not left */
    list coming;        /* RECVs of messages that ask first, both ends made */
    list held;          /* SENDs to here that have left without asking */
    uint32_t sending;   /* the SEND that uses the way out, or NONE */
    uint32_t receiving; /* the SEND that uses the way in, or NONE */
    bool out_noted, in_noted;
} rank_state;

typedef struct engine {
    hki_sim *sim;
    hki_sim_step *steps;
    rank_state *ranks;
    job *jobs;
    uint32_t job_count, job_capacity, free_job;
    hki_sim_queue queue;
    hki_sim_flows flows;
    uint64_t now;
    uint32_t completed;
    uint32_t *out_notes, out_count; /* ranks one of whose ways has become free, or has a new message */
    uint32_t *in_notes, in_count;
    bool routes; /* must be looked up for each message */
    bool no_memory;
} engine;

/* ---- jobs.c ---- */

/* Puts a job behind the others of its kind: a message's step behind what the rank posts, all else behind its core's. */
void hki_sim_job_add(engine *run, uint32_t rank, uint32_t step, job_kind kind);
/* The first job of a list is done, and so is all that it leads to: begins with the next. */
void hki_sim_job_next(engine *run, uint32_t rank, list *jobs);

/* ---- engine.c ---- */

/* A message's end: SEND is gone, or RECV's message is here. */
void hki_sim_gone(engine *run, uint32_t rank, uint32_t step);
/* Its rank's core has moved it, and sees the last byte. */
void hki_sim_seen(engine *run, uint32_t rank, uint32_t step);
void hki_sim_arrives(engine *run, uint32_t send);

/* ---- ways.c ---- */

/* A SEND is made: it may leave when it can. */
void hki_sim_wants_out(engine *run, uint32_t rank, uint32_t send);
/* Both ends of a message that asks first are made. */
void hki_sim_agree(engine *run, uint32_t send);
/* The events BEGINS, OUT_FREE and FLOWN. */
void hki_sim_on_begins(engine *run, uint32_t send);
void hki_sim_on_out_free(engine *run, uint32_t send);
void hki_sim_on_flown(engine *run, uint32_t send);
/* After all events of a time: whoever can leave leaves. */
void hki_sim_use_ways(engine *run);

/* ---- what all of them use ---- */

static inline void at(engine *run, uint64_t ps, event_kind kind, uint32_t subject)
{
    if (!hki_sim_queue_add(&run->queue, (hki_sim_event){ps, (uint64_t)subject * KINDS + kind}))
        run->no_memory = true;
}

static inline void note_out(engine *run, uint32_t rank)
{
    if (!run->ranks[rank].out_noted)
        run->out_notes[run->out_count++] = rank;
    run->ranks[rank].out_noted = true;
}

static inline void note_in(engine *run, uint32_t rank)
{
    if (!run->ranks[rank].in_noted)
        run->in_notes[run->in_count++] = rank;
    run->ranks[rank].in_noted = true;
}

static inline hki_sim_times *times_of(const engine *run, uint32_t step)
{
    static _Thread_local hki_sim_times nobody;
    return run->sim->times ? &run->sim->times[step] : &nobody;
}

/* The rank whose step a message's is. */
static inline uint32_t own_rank(const engine *run, uint32_t step)
{
    return run->steps[run->steps[step].match].peer;
}

/* Of a message, at either of its ends. */
static inline const hki_sim_message_cost *cost_of(const engine *run, uint32_t step)
{
    return hki_sim_message(&run->sim->costs, &run->steps[step]);
}

static inline bool is(const engine *run, uint32_t step, uint32_t state)
{
    return (run->steps[step].state & state) == state;
}

/* What of a message's latency occupies nobody. */
static inline uint64_t latency(const engine *run, uint32_t send)
{
    const hki_sim_message_cost *cost = cost_of(run, send);
    uint32_t from = own_rank(run, send), to = run->steps[send].peer;
    return cost->alpha_ps - cost->overhead_ps + hki_sim_hops_ps(&run->sim->costs, from, to) +
           hki_sim_turn_ps(&run->sim->costs, to);
}

#endif

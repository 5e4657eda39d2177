/* What a walk holds of steps and ranks, and the memory that walks use one after the other. */
#ifndef HKI_COST_WALK_STATE_H
#define HKI_COST_WALK_STATE_H

#include "cost/crowding.h"
#include "cost/events.h"
#include "cost/flows.h"
#include "cost/moment.h"
#include "cost/walk.h"

enum { NONE = UINT32_MAX };

typedef enum event_kind {
    MADE,    /* the core is done with the step */
    OUT,     /* the rank's way out is free */
    FLOWN,   /* the last byte of the message has passed both ways */
    ARRIVED, /* the message has */
    DONE     /* the step is complete */
} event_kind;

/* Doubly linked lists of sends, through links in their state. */
typedef struct list {
    uint32_t head, tail;
} list;

/* How far a message is: its SEND or RECV is posted; it has left before the way in was free; it has arrived (of the
 * RECV). */
enum { POSTED = 1, LEFT = 2, HELD = 4, HERE = 8 };

typedef struct step_state {
    hki_moment ready; /* when the steps before are complete */
    hki_moment mark;  /* messages: when posted; then when complete */
    hki_moment moved; /* SEND: when its core has moved the bytes; RECV: when it has, and they have arrived */
    uint32_t waits, flow;
    uint32_t rounds;               /* messages in a row, each of which waits for the one before, up to this step */
    uint32_t next[2], previous[2]; /* in its sender's list [0], in the receiver's [1] */
    uint8_t phase;
    const hki_range_figures *range;      /* SEND */
    uint64_t beta_ps, hops_ps, alone_ps; /* of the message: per KiB, of switches; nβ */
    hki_moment left;                     /* SEND: when its flow began */
} step_state;

typedef struct rank_state {
    hki_moment maker;   /* when its core has made the steps so far … */
    hki_moment core;    /* … and all else */
    hki_moment out, in; /* when its ways are free, or were last */
    list sends;         /* posted and not gone */
    list waiting;       /* rendezvous to here that are posted at both ends and not gone */
    list held;          /* others that have left and wait for the way in */
    bool out_busy, in_busy;
    bool noted[2];             /* in walk.turns */
    uint64_t sent, sending_ps; /* bytes, and how long its way out is occupied by them alone */
    uint32_t messages;
} rank_state;

typedef struct walk {
    const hki_model *model;
    const hki_traces *traces;
    const uint64_t *bytes;
    const uint64_t *mean; /* of what all ranks send at that time */
    const hki_path *paths;
    const uint32_t *instead; /* resources that flows pass in place of others */
    step_state *steps;
    rank_state *ranks;
    hki_crowding *crowded; /* by traced rank */
    hki_events *events;
    hki_flows *flows; /* no paths */
    /* Ranks of which at this moment the way out got free or a message was posted, and those of which the way in did, or
     * one was agreed on. */
    uint32_t *turns[2];
    uint32_t turn_count[2];
    uint32_t complete;
    hki_moment end;
    uint32_t last;   /* rank that ended last */
    uint32_t rounds; /* of the step with the most */
    bool in_order;   /* ranks make their steps in program order */
    bool no_memory;
    bool is_beyond; /* the limit */
    uint64_t limit_ps;
} walk;

/* Begins a walk in the walker's memory: no step is ready yet that waits for another. HK_ERR_NO_MEMORY. */
hk_status hki_walk_open(hki_walker *walker, walk *w);

static inline bool receives(const hki_trace_step *step)
{
    return step->verb == HKI_VERB_RECV || step->verb == HKI_VERB_RECV_REDUCE;
}

#endif

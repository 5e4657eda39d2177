/*
 * Messages that share what carries them: memory, NICs, uplinks. Flows that pass one resource at the same time get equal
 * shares of its rate; a flow moves at the least of its shares, and never faster than its own link. Shares are worked
 * out anew when flows begin or end. What a flow that is slower elsewhere leaves of its share is not handed on (as
 * max-min fairness would): that keeps a change local to the resources it touches, which is what makes 65,536 ranks
 * possible, and it is the rule that prices follow.
 *
 * A rank receives one message at a time, so a flow is known by the rank that it goes to.
 */
#ifndef HKI_SIM_FLOWS_H
#define HKI_SIM_FLOWS_H

#include "cost/price.h"

typedef struct hki_sim_flow {
    double left;  /* picoseconds that remain at full speed */
    double speed; /* 1: as fast as its link */
    double work;  /* picoseconds at full speed, all in all */
    double bytes;
    uint64_t settled; /* when `left` was right */
    uint64_t end;     /* if nothing changes */
    uint32_t heap;    /* its place in the heap */
    uint32_t count;
    bool stale; /* its speed is to be worked out */
    uint32_t resource[HKI_ROUTE_MOST], place[HKI_ROUTE_MOST];
} hki_sim_flow;

typedef struct hki_sim_resource {
    bool limits;    /* it can be in the way */
    double rate;    /* bytes a picosecond; 0: what the link of each flow carries */
    double fastest; /* of the links that lead over it: a greater share slows nobody */
    double share;   /* of each flow: bytes a picosecond, or, without a rate, a part of its link's */
    uint32_t *flows;
    uint32_t count, capacity, most;
    uint64_t busy_ps, busy_since; /* how long it has had flows, but for the present ones; since when it has had some */
    bool dirty;
} hki_sim_resource;

typedef struct hki_sim_flows {
    bool limits; /* some resource may be in the way */
    uint32_t resource_count;
    hki_sim_resource *resources;
    hki_sim_flow *flows; /* by rank */
    uint32_t *heap;      /* ranks with a flow, by end */
    uint32_t heap_count;
    uint32_t *dirty, dirty_count; /* resources whose flows have changed */
    uint32_t *stale, stale_count; /* ranks whose flows are to be worked out */
} hki_sim_flows;

/* HK_ERR_NO_MEMORY. */
hk_status hki_sim_flows_open(const hki_model *model, hki_sim_flows *flows);
void hki_sim_flows_close(hki_sim_flows *flows);

/* Whether any of these resources can be in the way. */
bool hki_sim_flows_matter(const hki_sim_flows *flows, const uint32_t *resources, uint32_t count);
/* The message to a rank begins to move; alone it would take `ps`. False: out of memory. */
bool hki_sim_flows_begin(hki_sim_flows *flows, uint32_t rank, uint64_t now, uint64_t bytes, uint64_t ps,
                         const uint32_t *resources, uint32_t count);
/* Works out shares and ends after all that happened at `now`. */
void hki_sim_flows_settle(hki_sim_flows *flows, uint64_t now);
/* When the next flow ends, as things stand; UINT64_MAX: there is none. */
uint64_t hki_sim_flows_next(const hki_sim_flows *flows);
/* Takes the flow that ends first; returns its rank. */
uint32_t hki_sim_flows_end(hki_sim_flows *flows, uint64_t now);

#endif

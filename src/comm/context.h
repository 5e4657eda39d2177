/*
 * Contexts: everything that communicators made from one another share. Links, matching, plans, requests, scratch.
 */
#ifndef HKI_COMM_CONTEXT_H
#define HKI_COMM_CONTEXT_H

#include "base/list.h"
#include "boot/boot.h"
#include "comm/plan.h"
#include "comm/scratch.h"
#include "cost/figures.h"
#include "exec/exec.h"
#include "topo/cluster.h"

#include <hocket/transport.h>

#include <pthread.h>

enum { HKI_MOST_TRANSPORTS = 4 };

/* There may be thousands of operations in flight, of which others ask by number. */
enum { HKI_OPERATION_BUCKETS = 512 };

typedef struct hki_context {
    hki_node node; /* in the process's list of contexts */
    uint64_t id;
    uint32_t forks; /* the process's fork count when it was made: another value means that this is a child */
    uint32_t rank, ranks;
    uint32_t local_cpus;   /* that the ranks of this host may use between them: how many, as the quota allows, and */
    hki_cpus local_set;    /* which */
    hki_figures figures;   /* of the cost model, equal on all */
    hki_cluster *cluster;  /* where the ranks of the world are, equal on all */
    void *packed_topology; /* of this host, as it was handed on; NULL: it was not */
    size_t packed_bytes;
    hki_topology *topology; /* NULL until somebody asks */
    hk_peer *peers;
    uint8_t token[HKI_KEY_BYTES];
    uint32_t transport_count;
    const hk_transport_ops *ops[HKI_MOST_TRANSPORTS];
    hk_transport *transports[HKI_MOST_TRANSPORTS];
    hk_transport_limits limits[HKI_MOST_TRANSPORTS];
    hk_transport_services services;
    hki_endpoint endpoint;
    hki_engine engine;
    hki_plan_cache plans;
    hki_scratch_pool scratch;
    hki_node comms;                             /* hk_comm */
    hki_node offers;                            /* hki_offer: communicators that are being made */
    hki_node requests;                          /* in flight, in order */
    hki_node operations[HKI_OPERATION_BUCKETS]; /* collective requests in flight, by their operation's number */
    hki_node spare;                             /* requests for reuse */
    hki_node plain;                             /* hk_alloc memory that no transport gave */
    size_t eager;        /* smallest eager limit of all links: what a straight line may send at once */
    double timeout;      /* default, seconds */
    uint64_t next_check; /* when dead peers are looked for again */
    bool locking;
    /* Not fair, and need not be: whoever holds it gets everybody's operations on. Handing it over in order, by tickets,
     * was measured no better: 8-byte all-reduces of 2 to 8 ranks with 2 and 4 threads each, on two busy cores. */
    pthread_mutex_t lock;
} hki_context;

/* Makes a context: joins, exchanges who is where, opens transports and makes links. */
hk_status hki_context_open(const hk_options *options, hki_context **context);
/* Says goodbye and frees everything. The context's communicators and requests must be gone. */
void hki_context_close(hki_context *context);

/* What this host is made of (host.c): what the launcher handed on, else read from /sys at the first call. The context
 * is entered, and keeps it. Usable is what the launcher, or this process, may use. HK_ERR_NO_MEMORY, HK_ERR_SYSTEM. */
hk_status hki_context_topology(hki_context *context, const hki_topology **topology);
/* Keeps what was handed on, unread. HK_ERR_NO_MEMORY. */
hk_status hki_context_keep_topology(hki_context *context, const hki_place *place);
void hki_context_drop_topology(hki_context *context);

/* Frees what hk_alloc took from ordinary memory (memory.c). */
void hki_memory_close(hki_context *context);

/* True in the process that made the context, false in a child after fork. */
extern uint32_t hki_forks; /* how often this process was forked off another */
static inline bool hki_context_here(const hki_context *context)
{
    return context->forks == hki_forks;
}

static inline void hki_context_enter(hki_context *context)
{
    if (context->locking)
        pthread_mutex_lock(&context->lock);
}

static inline void hki_context_leave(hki_context *context)
{
    if (context->locking)
        pthread_mutex_unlock(&context->lock);
}

#endif

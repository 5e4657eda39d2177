/*
 * What a schedule costs, found by walking it. The rules of time, which the simulator follows too, so that the two can
 * be compared:
 *
 *  1. A step is ready when the steps it depends on are complete; one without length (but for signals) is then complete
 *     at once. A rank's core makes steps (step_ps each) one at a time, in the order in which they become ready; beside
 *     that, since it looks up in between, it moves bytes, copies and reduces, one thing after another. Bytes on their
 *     way do not occupy it, but for core_ps per KiB: the sender's core from the departure on, the receiver's then too,
 *     or as soon as it is free.
 *  2. A message leaves when its SEND is made and the sender's way out is free. One of a range that is a rendezvous also
 *     waits until the receiver has made the RECV, and its way in is free; those behind it do not wait for it. Another
 *     waits at the receiver until the way in is free. It occupies the way out of the sender, and the way in of the
 *     receiver, for overhead + nβ, and has arrived α + nβ (and what the switches between add) after it left. SEND and
 *     RECV are complete when it has arrived and the own core has moved it. Of what happens at one moment messages leave
 *     last, so that which way is known to be free first decides nothing.
 *  3. A rank's two ways (one port each way, full duplex) are per rank; links of shared memory and of the network have
 *     the same ones.
 *  4. RECV_REDUCE takes nγ more of the core's time: as the bytes come, where the core moves them (core_ps), else, and
 *     where ranks take turns, so that all is there when one's turn comes, once all have arrived. COPY takes n·copy,
 * REDUCE of k sources (k-1)·nγ; all of the core's time.
 *  5. Flows that pass one resource at the same time (a node's memory, NICs, uplinks) share its rate equally; a flow has
 *     the least of its shares and of its link's 1/β. What this adds is the price's contention. A NIC of no rate carries
 *     what one link of the flow's class does.
 *  6. With more ranks on a host than its capacity, ranks take turns: what a core does for a rank takes ranks / capacity
 *     times as long, and a message is seen by such a rank half a round of turns later, ranks / capacity · switch / 2,
 *     as is the end of the whole. What is spent so beyond what a core of one's own would take is contention, too.
 *     (Measured with 8 ranks on 2 cores: all-reduces of one round of messages take four
 *     switches, every further round about two.)
 *  7. On one host a call of which no message is a rendezvous is run in program order, as the executor does it: what
 *     comes behind a RECV in the schedule of a rank waits for it, too. (Among hosts that is left out: a few ranks that
 *     stand for all would wait for the slowest link each time.)
 *  8. Where the data of a call, in the memory that holds most of them, are more than caches hold, every byte takes
 * longer by the bulk figures of its link: see bulk.h.
 *  9. A call with a count for each rank begins counts_ps later: such calls are put together anew every time.
 *
 * Without shared resources in the way, with overhead = α and core_ps = 0 these are the textbook's forms: a ring
 * all-reduce has 2(P-1)α + 2(P-1)/P·nβ + (P-1)/P·nγ, a binomial broadcast log2 P·(α + nβ).
 */
#ifndef HKI_COST_PRICE_H
#define HKI_COST_PRICE_H

#include "algo/algo.h"
#include "cost/figures.h"
#include "sched/bind.h"

/* What prices depend on besides the call. Both are borrowed. */
typedef struct hki_model {
    const hki_cluster *cluster;
    const hki_figures *figures;
    hk_type type;           /* of the elements reduced */
    hki_op_class operators; /* and by what */
} hki_model;

/* Calls of more bytes, for whose times there is no room, are priced as of so many. */
#define HKI_PRICE_BYTES_MOST (UINT64_C(1) << 40)

/* Of the rank that ends last, but for rounds and bytes. The parts of `total_ps` are those of the critical path, and add
 * up to it. */
typedef struct hki_price {
    uint64_t total_ps, alpha_ps, beta_ps, gamma_ps, contention_ps;
    uint64_t turns_ps;      /* of contention_ps, what comes with every message, as latency does: rule 6 */
    uint32_t rounds;        /* most messages in a row, each of which waits for the one before */
    uint64_t bytes_sent;    /* by the busiest of the ranks looked at */
    uint32_t messages_sent; /* likewise */
    uint32_t effort;        /* steps that were walked */
    uint64_t floor_ps; /* how long the busiest way out, or the one memory that there is, is occupied by its messages */
} hki_price;

/* In the place of a price that is more than the limit of its pricer. */
#define HKI_PRICE_BEYOND UINT64_MAX

/* Remembers traces between prices. cluster and figures are borrowed. HK_ERR_NO_MEMORY. */
typedef struct hki_pricer hki_pricer;
hk_status hki_pricer_new(const hki_cluster *cluster, const hki_figures *figures, hki_pricer **pricer);
void hki_pricer_free(hki_pricer *pricer);
const hki_cluster *hki_pricer_cluster(const hki_pricer *pricer);
/* Steps that were walked so far for prices: what prices cost, told without a clock. */
uint64_t hki_pricer_walked(const hki_pricer *pricer);
/* What the textbook's form of an algorithm says of a call in at most call->segments segments, with the means of the
 * least α, overhead and β of the links between neighbouring ranks: little more than nothing can be faster. 0: there is
 * no form. */
uint64_t hki_pricer_form(const hki_pricer *pricer, const hki_algorithm *algorithm, const hki_call *call,
                         uint64_t bytes);
/* From now on prices may be given up, with a total of HKI_PRICE_BEYOND, as soon as they are sure to be more.
 * UINT64_MAX, as at first: none is. */
void hki_pricer_limit(hki_pricer *pricer, uint64_t limit_ps);
/* Whether a composition is priced as the sum of its parts. Where a vector has fewer lines than ranks, most of them have
 * nothing to do in it, but something in a collective of blocks: across hosts that makes a difference. */
bool hki_price_is_sum(const hki_cluster *cluster, const hki_algorithm *algorithm, const hki_call *call, uint64_t bytes);
/* How many segments' worth of steps a price of this call walks. */
uint32_t hki_price_segments(const hki_call *call);
/* How many percent of the latency of messages of `bytes` bytes smaller ones have at the least, over the links between
 * neighbouring ranks: at most 100. */
uint32_t hki_pricer_latency_percent(const hki_pricer *pricer, uint64_t bytes, uint64_t smaller);
const hki_figures *hki_pricer_figures(const hki_pricer *pricer);
/* Prices a call of `bytes` bytes (as hki_select counts them) by the algorithm in call->segments. call->rank and
 * in-place form are not looked at. type: of the elements; operators: by which they are reduced. Looks at as few ranks
 * and segments as tell: see price.c. HK_ERR_UNSUPPORTED (the algorithm refuses the call, or is too much to walk),
 * HK_ERR_NO_MEMORY. */
hk_status hki_pricer_price(hki_pricer *pricer, const hki_algorithm *algorithm, const hki_call *call, hk_type type,
                           hki_op_class operators, uint64_t bytes, hki_price *price);

/* A single price: the same without a memory. */
hk_status hki_price_call(const hki_model *model, const hki_algorithm *algorithm, const hki_call *call, uint64_t bytes,
                         hki_price *price);
/* The same by walking every rank's every step: the truth that the former is tested against. */
hk_status hki_price_fully(const hki_model *model, const hki_algorithm *algorithm, const hki_call *call, uint64_t bytes,
                          hki_price *price);
/* When the first step of a call can be made: rule 9. */
uint64_t hki_price_begin(const hki_figures *figures, hki_collective collective);
/* Sizes of the call of `bytes` bytes: elements of `element_bytes` of the vector or of each rank's block, rounded up. */
hki_sizes hki_price_sizes(hki_collective collective, uint32_t ranks, uint64_t bytes, uint32_t element_bytes);

#endif

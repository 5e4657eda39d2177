/* What the parts of the pricer share: its memory of traces, and prices that go on from others. */
#ifndef HKI_COST_PRICE_STATE_H
#define HKI_COST_PRICE_STATE_H

#include "cost/price.h"
#include "cost/sample.h"

enum {
    HKI_PRICE_LINE = 64,                /* bytes: the library cuts no finer */
    HKI_PRICE_POINTS = 3,               /* numbers of ranks that a price is told from */
    HKI_PRICE_STAND_IN_STEPS = 1 << 15, /* of ranks that stand for all: more would take too long */
};

/* What is kept of an algorithm for one kind of call. */
typedef struct hki_price_memory {
    struct hki_price_memory *next;
    const hki_algorithm *algorithm;
    hki_call call; /* in its segments */
    hki_sample sample;
} hki_price_memory;

struct hki_pricer {
    const hki_cluster *cluster;
    const hki_figures *figures;
    hki_sampled place;
    uint64_t typical_alpha_ps, typical_overhead_ps, typical_beta_ps; /* least of a link's ranges, mean of links */
    bool neighbours[HKI_LINK_CLASSES];                               /* some are linked so */
    uint64_t limit_ps;
    hki_walker *walker;
    uint32_t sharers; /* ranks that share a cache, where that is most */
    hki_price_memory *memories;
    size_t bytes;
    uint64_t *lengths; /* of steps, for the walk that is made */
    uint64_t *means;   /* hki_traces_measure */
    uint32_t length_count;
    uint64_t walked;         /* steps */
    hki_cluster *smaller[2]; /* a fourth of the ranks that are walked at most, and those; NULL: not yet asked for */
    hki_pricer *of_smaller[2];
    hki_cluster *even[HKI_PRICE_POINTS]; /* those and all on hosts of equal size; NULL: not yet asked for */
};

/* The traces of a call, kept or made now; fully: of all ranks. Errors of hki_sample_new. */
hk_status hki_pricer_remember(hki_pricer *pricer, const hki_algorithm *algorithm, const hki_call *call, bool fully,
                              hki_price_memory **result);
/* HK_ERR_UNSUPPORTED, with the reason. */
hk_status hki_price_too_long(const hki_algorithm *algorithm, const hki_call *call);
/* How far the parts of a price go on beyond two, in 1024ths of what lies between them. */
typedef struct hki_growth {
    int64_t latency, bytes;
} hki_growth;
hki_price hki_price_grow(const hki_price *from, const hki_price *to, const hki_growth *growth);

/* ---- many ranks (price_scaled.c) ---- */

/* More ranks than so many are told from fewer. */
uint32_t hki_price_scaled_ranks(const hki_cluster *cluster);
/* From two smaller clusters on, as the textbook's forms do. `blocks`: every rank's block is to be as long as in the
 * call, not the whole. Errors of hki_pricer_price. */
hk_status hki_price_scaled(hki_pricer *pricer, const hki_model *model, const hki_algorithm *algorithm,
                           const hki_call *call, uint64_t bytes, bool blocks, hki_price *price);
/* Whether the steps of a rank grow with the number of ranks, as in rings and where everyone exchanges with everyone:
 * then a price by fewer ranks, with messages as long, goes on as they do, and a walk of thousands of rounds is spared.
 * `steps`: of a rank, about. 0: it is not so. */
hk_status hki_price_find_steep(hki_pricer *pricer, const hki_algorithm *algorithm, const hki_call *call,
                               uint64_t *steps);
hk_status hki_price_steep(hki_pricer *pricer, const hki_model *model, const hki_algorithm *algorithm,
                          const hki_call *call, uint64_t bytes, uint64_t steps, hki_price *price);

#endif

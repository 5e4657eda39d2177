/* The algorithms that could serve a call, each in its best number of segments, with their prices. */
#ifndef HKI_COST_CANDIDATE_H
#define HKI_COST_CANDIDATE_H

#include "cost/price.h"
#include "cost/wish.h"

enum { HKI_CANDIDATES_MOST = 32 };

typedef enum hki_candidacy {
    HKI_PRICED,
    HKI_OUTRUN,    /* nothing that is told without a walk lets it be quicker than the best: not walked */
    HKI_TOO_LONG,  /* its schedule has too many steps to walk */
    HKI_SPRAWLING, /* it would make more connections than another does: `why` says which */
    HKI_FORBIDDEN,
    HKI_REFUSING /* `why` says why */
} hki_candidacy;

typedef struct hki_candidate {
    const hki_algorithm *algorithm;
    uint32_t segments;
    hki_candidacy candidacy;
    const char *why;
    uint64_t form_ps; /* hki_pricer_form: 0: it has none */
    hki_price price;  /* HKI_PRICED */
} hki_candidate;

/* What prices are asked about: nothing in it differs between ranks. */
typedef struct hki_question {
    hki_call call; /* segments and rank are not looked at */
    hk_type type;
    hki_op_class operators;
    uint64_t bytes;
    uint64_t wished_bytes; /* by which HOCKET_ALGORITHM goes: of the call itself, where `bytes` stands for a class */
} hki_question;

/* All algorithms of the call's collective, the best first, those that were not priced last. `fully`: prices those as
 * well that the textbook's form rules out. *count ≤ HKI_CANDIDATES_MOST. HK_ERR_NO_MEMORY. */
hk_status hki_candidates_find(hki_pricer *pricer, const hki_wishes *wishes, const hki_question *question, bool fully,
                              hki_candidate candidates[HKI_CANDIDATES_MOST], uint32_t *count);
enum { HKI_FINER = 4 }; /* times as many segments are tried next: in between, prices differ by little */
/* The most segments that are tried: a power of HKI_FINER, 1 where an algorithm has none. */
uint32_t hki_candidate_finest(const hki_pricer *pricer, const hki_question *question, const hki_algorithm *algorithm);
/* Whether so many more segments are worth it: they cost a rank steps, which weigh more than a price tells. */
bool hki_candidate_gains(uint64_t fewer_ps, uint64_t more_ps);
/* Whether a call that takes so long is to be cut in so many pieces, so that hosts' own part of it hides behind the link
 * between them. */
bool hki_candidate_hides(const hki_pricer *pricer, uint64_t call_ps, uint32_t segments);
/* One algorithm that serves the call, in its best number of segments, or (segments > 0) in so many. */
hk_status hki_candidate_price(hki_pricer *pricer, const hki_question *question, uint32_t segments,
                              hki_candidate *candidate);
/* The best number of segments of one algorithm, for whoever has no pricer: 1 where it cannot be priced.
 * HK_ERR_NO_MEMORY. */
hk_status hki_segments_find(const hki_model *model, const hki_algorithm *algorithm, const hki_call *call,
                            uint64_t bytes, uint32_t *segments);

#endif

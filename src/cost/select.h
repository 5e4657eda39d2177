/*
 * The final choice of an algorithm: the cheapest by the cost model of all that can serve. It depends only on what is
 * equal on all ranks: where they are, the agreed figures, the collective, type and operator, P, the root, and the
 * number of bytes where all ranks know it; never on in-place use or anything local.
 */
#ifndef HKI_COST_SELECT_H
#define HKI_COST_SELECT_H

#include "cost/candidate.h"

/* Chooses for the ranks of one cluster, and remembers: four classes of sizes an octave are priced when a size of them
 * first occurs; from then on a choice is a look-up, without clock or allocation. One thread at a time. */
typedef struct hki_chooser hki_chooser;

/* cluster and figures are borrowed. Reads HOCKET_ALGORITHM: HK_ERR_SETTING; HK_ERR_NO_MEMORY. */
hk_status hki_chooser_new(const hki_cluster *cluster, const hki_figures *figures, hki_chooser **chooser);
void hki_chooser_free(hki_chooser *chooser);

/* Chooses for a call of `bytes` bytes (the full vector, or all ranks' blocks together; where hki_size_is_private it is
 * not looked at) and the number of segments; segments, rank and in-place form of the call are not looked at. type: of
 * the elements; operators: HKI_OPS_ADD where there is none. HK_ERR_UNSUPPORTED: HOCKET_ALGORITHM asks for one that
 * refuses the call (the text says why), or forbids all that could serve. HK_ERR_NO_MEMORY. */
hk_status hki_select(hki_chooser *chooser, const hki_call *call, hk_type type, hki_op_class operators, uint64_t bytes,
                     const hki_algorithm **algorithm, uint32_t *segments);

/* A choice, and what it was among. */
typedef struct hki_choice {
    hki_question question; /* as it was asked: of the least size of the class, and with the root that counts */
    bool forced;           /* asked for by HOCKET_ALGORITHM, or by hki_select_force: the only candidate */
    hki_candidate candidates[HKI_CANDIDATES_MOST]; /* what is chosen first; not all are priced */
    uint32_t count;                                /* ≥ 1 */
} hki_choice;

/* The same, with its reasons, and not remembered. */
hk_status hki_choose(hki_chooser *chooser, const hki_call *call, hk_type type, hki_op_class operators, uint64_t bytes,
                     hki_choice *choice);

/* The class of a size, and the least and most of its bytes. */
enum { HKI_SIZE_CLASSES = 256 };
uint32_t hki_size_class(uint64_t bytes);
uint64_t hki_size_class_least(uint32_t size_class);

/* What the choice asks about a call of this size: the least of its class. On one host it is asked with root 0. */
hki_question hki_question_of(const hki_call *call, hk_type type, hki_op_class operators, uint64_t bytes);
hki_pricer *hki_chooser_pricer(hki_chooser *chooser);
const hki_wishes *hki_chooser_wishes(const hki_chooser *chooser);

/* Whether HOCKET_ALGORITHM is well-formed and names what exists: HK_ERR_SETTING says what does not. */
hk_status hki_select_check(void);

/* For tests and measurements: from now on this process serves the collective by this algorithm in so many segments (0:
 * as many as fit the size), whatever HOCKET_ALGORITHM says; NULL: by choice again. A communicator remembers its last
 * call with its algorithm, so force before making the communicator, alike on all ranks. */
void hki_select_force(hki_collective collective, const hki_algorithm *algorithm, uint32_t segments);
/* The same for the communicators of one chooser only, for which it comes first: others of the process go on as they
 * do. */
void hki_chooser_force(hki_chooser *chooser, hki_collective collective, const hki_algorithm *algorithm,
                       uint32_t segments);

#endif

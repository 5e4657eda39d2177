/*
 * What each collective promises, as one table, and the identity of blocks that follows from it: which logical block
 * lies where in INPUT and OUTPUT, whose contributions a result must hold, and which blocks are sure to be equally long.
 */
#ifndef HKI_SCHED_MODEL_H
#define HKI_SCHED_MODEL_H

#include "sched/ir.h"

/* On which ranks a buffer is significant. */
typedef enum hki_where { HKI_ON_NONE, HKI_ON_ROOT, HKI_ON_ALL, HKI_ON_ALL_BUT_FIRST } hki_where;

/* What a buffer holds. */
typedef enum hki_form {
    HKI_FORM_VECTOR, /* the whole vector, cut alike everywhere */
    HKI_FORM_OWN,    /* this rank's part of what the ranks' parts make up */
    HKI_FORM_PARTS,  /* all ranks' parts */
    HKI_FORM_PAIRS   /* a part for or from each rank, different on each rank */
} hki_form;

/* Whose contributions a result holds. */
typedef enum hki_whose {
    HKI_OF_ROOT,
    HKI_OF_PART, /* the rank whose part it is */
    HKI_OF_ALL,
    HKI_OF_UP_TO_SELF, /* ranks 0 … self */
    HKI_OF_BELOW_SELF  /* ranks 0 … self - 1 */
} hki_whose;

typedef struct hki_promise {
    hki_where where[2]; /* INPUT, OUTPUT */
    hki_form form[2];
    hki_whose whose;
    bool finishes;  /* results are finished, once each: an average can be asked for (not of prefixes) */
    bool equal;     /* all parts are equally long */
    bool same_bits; /* all ranks must hold the same bits */
    bool output_in; /* OUTPUT holds the root's data at the start: there is no INPUT */
} hki_promise;

const hki_promise *hki_promise_of(hki_collective collective);
/* Whether one rank plays another part than all others. */
bool hki_promise_rooted(hki_collective collective);

/* "allreduce" … */
const char *hki_promise_name(hki_collective collective);

bool hki_significant(const hki_schedule *schedule, unsigned buffer);

/* Identity of block `block` of the grid of INPUT or OUTPUT on this rank: equal numbers are equal logical blocks. */
uint64_t hki_block_identity(const hki_schedule *schedule, unsigned buffer, uint32_t block);
/* Equal numbers: surely equal lengths. */
uint64_t hki_block_length_class(const hki_schedule *schedule, unsigned buffer, uint32_t block);
/* Whose contributions OUTPUT block `block` holds at the end: ranks *first … *last. */
void hki_block_contributors(const hki_schedule *schedule, uint32_t block, uint32_t *first, uint32_t *last);
/* Fraction of the full vector that a block is, for equal parts. */
double hki_block_fraction(const hki_schedule *schedule, unsigned buffer, uint32_t block);
/* Why the grid of `buffer` does not fit the collective or differs from `reference` (a grid of the same form on another
 * rank, or NULL); NULL if all is well. */
const char *hki_grid_fault(const hki_schedule *schedule, unsigned buffer, const hki_grid *reference);

#endif

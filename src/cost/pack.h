/*
 * Figures as few bytes, so that rank 0's go to all: a value keeps 18 bits of precision. Every rank, rank 0 as well,
 * uses what comes out again, so that all compute the same prices.
 */
#ifndef HKI_COST_PACK_H
#define HKI_COST_PACK_H

#include "cost/figures.h"

enum { HKI_PACKED_FIGURES_MOST = 1792 };

/* Packs what is not built in. Returns the length. */
size_t hki_figures_pack(const hki_figures *figures, unsigned char packed[HKI_PACKED_FIGURES_MOST]);
/* Reads what a peer packed, over the built-in figures. False: it does not fit together; *figures is untouched. */
bool hki_figures_unpack(const unsigned char *packed, size_t bytes, hki_figures *figures);

#endif

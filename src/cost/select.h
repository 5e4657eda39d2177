/*
 * The final choice of an algorithm. It depends only on what is equal on all ranks: the collective, whether the operator
 * commutes, P, the root, and the number of bytes where all ranks know it; never on in-place use or anything local.
 */
#ifndef HKI_COST_SELECT_H
#define HKI_COST_SELECT_H

#include "algo/algo.h"

/* Chooses for a call of `bytes` bytes (the full vector, or all ranks' blocks together; 0: unknown to some rank, so that
 * P alone decides). Also chooses the number of segments; call->segments is not looked at. Honours HOCKET_ALGORITHM.
 * HK_ERR_SETTING: it names no such collective or algorithm, or two for one collective; HK_ERR_UNSUPPORTED: the forced
 * one refuses the call (the text says why), or all that could serve are forbidden. */
hk_status hki_select(const hki_call *call, uint64_t bytes, const hki_algorithm **algorithm, uint32_t *segments);

/* Whether HOCKET_ALGORITHM is well-formed and names what exists: HK_ERR_SETTING says what does not. */
hk_status hki_select_check(void);

/* Tests only: from now on this process serves the collective by this algorithm in so many segments (0: as many as fit
 * the size), whatever HOCKET_ALGORITHM says; NULL: by choice again. A communicator remembers its last call with its
 * algorithm, so force before making the communicator, alike on all ranks. */
void hki_select_force(hki_collective collective, const hki_algorithm *algorithm, uint32_t segments);

/* Segments for an algorithm that was named rather than chosen. */
uint32_t hki_select_segments(const hki_algorithm *algorithm, const hki_call *call, uint64_t bytes);

#endif

/*
 * Wire identifiers: the 31 bits by which messages name their communicator.
 *
 * Messages have no room for the whole id, so two ids may look alike there. Members therefore agree on an identifier as
 * they make a communicator: its id gives a few candidates, in the same order on all ranks; each member says which of
 * them are free at its place (an offer); the first that is free everywhere is taken, by all or by none. With the
 * highest bit set, an identifier names the communicator in which the members vote on who is alive (shrink.c).
 */
#ifndef HKI_COMM_WIRES_H
#define HKI_COMM_WIRES_H

#include "comm/context.h"

/* Taken without being asked for: by the communicator that a context is made with, and by calibration before it. */
enum { HKI_WIRE_WORLD = 1, HKI_WIRE_CALIBRATION = 2 };
#define HKI_WIRE_VOTE (UINT32_C(1) << 31)

/* What one member offers. Its candidates are nobody else's at this rank until it is closed. */
typedef struct hki_offer {
    hki_node node; /* in context.offers */
    uint64_t id;
    uint32_t free; /* bit i: candidate i is free here; sent to the others */
} hki_offer;

static inline uint64_t hki_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

/* The context is entered for both. */
void hki_offer_open(hki_context *context, hki_offer *offer, uint64_t id);
void hki_offer_close(hki_offer *offer);
/* The identifier that all members take, from what is free with all of them. HK_ERR_INTERNAL, on all of them: none. */
hk_status hki_wire_choose(uint64_t id, uint32_t free, uint32_t *wire);
/* The n-th candidate of an id, n = 0 … 7. */
uint32_t hki_wire_candidate(uint64_t id, uint32_t n);

/* Ids of what is made from a communicator, equal on all members: by its operation number (split, dup), or by the
 * number of times that this list was made before (`list` is a hash of ranks and
 * tag) or that the parent was shrunk. */
uint64_t hki_id_of_split(uint64_t parent, uint64_t operation, int32_t color);
uint64_t hki_id_of_dup(uint64_t parent, uint64_t operation);
uint64_t hki_id_of_group(uint64_t parent, uint64_t list, uint64_t made);
uint64_t hki_id_of_shrink(uint64_t parent, uint64_t shrinks);

#endif

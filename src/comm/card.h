/*
 * The card that every rank hands to every other while a context is made: sections of any length, each of a kind, one
 * after another in a record of fixed length, which is what an exchange takes. A section: kind (1), length (2,
 * little-endian), bytes. Cards come from peers: what does not fit together ends the card.
 */
#ifndef HKI_COMM_CARD_H
#define HKI_COMM_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HKI_CARD_BYTES = 2176, HKI_CARD_HEAD = 3 };

typedef enum hki_card_kind {
    HKI_CARD_END,
    HKI_CARD_ADDRESS, /* one a transport: its name, a zero, and its address there */
    HKI_CARD_SEAT,    /* where the rank runs */
    HKI_CARD_HOST,    /* what its host has; of the first rank of each host */
    HKI_CARD_FIGURES  /* of the cost model; of rank 0 */
} hki_card_kind;

typedef struct hki_card {
    unsigned char bytes[HKI_CARD_BYTES]; /* zero behind the last section */
} hki_card;

/* Adds a section. False: there is no room left for it; the card is as it was. */
bool hki_card_add(hki_card *card, hki_card_kind kind, const void *data, size_t bytes);
/* The n-th section of a kind, from 0, and its length. NULL: there is none. */
const void *hki_card_find(const hki_card *card, hki_card_kind kind, unsigned n, size_t *bytes);

#endif

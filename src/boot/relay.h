/*
 * Relays. Where many ranks meet in a store that rank 0 serves over TCP, the result of an exchange is large, and all
 * want it from one process. So rank r gets it from rank (r − 1) / 8, which serves it on from a store of its own: no
 * rank gives more than 8 large answers, and log₈ P hops bring it everywhere. What a relay does not give is got from
 * rank 0 after all.
 */
#ifndef HKI_BOOT_RELAY_H
#define HKI_BOOT_RELAY_H

#include "boot/boot.h"

enum { HKI_RELAY_RANKS = 64 }; /* fewer are served as soon by one; guessed */

typedef struct hki_relay hki_relay;

/* For this rank of job `name` in the store. NULL where none is needed, or possible: few ranks, another kind of store.
 */
hki_relay *hki_relay_open(const hk_store *store, const char *name, int rank, int ranks);
/* Whether this rank is to get results from another than rank 0. NULL is allowed, here and below. */
bool hki_relay_wanted(const hki_relay *relay);
/* Where it gets them; NULL: from the common store after all. To be called once the relay has set its own record. */
const hk_store *hki_relay_source(hki_relay *relay);
/* The source has failed: the common store serves from now on. */
void hki_relay_give_up(hki_relay *relay);
/* Where this rank sets results for others; NULL: nowhere. */
const hk_store *hki_relay_sink(const hki_relay *relay);
/* Waits for those who still read, at most some seconds. */
void hki_relay_close(hki_relay *relay);

#endif

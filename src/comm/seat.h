/* Where a rank runs, as it tells the others (sections SEAT and HOST of its card), and the cluster made of what all
 * said. Numbers are little-endian. Peers' cards are checked, so that all ranks make the same of them, or none do. */
#ifndef HKI_COMM_SEAT_H
#define HKI_COMM_SEAT_H

#include "comm/card.h"
#include "comm/context.h"

/* Adds this rank's sections to its card. What cannot be found out is left open, never an error. */
void hki_seat_tell(hki_context *context, hki_card *card);
/* Makes context->cluster of everybody's cards. HK_ERR_BOOTSTRAP (a card without a seat, or with nonsense),
 * HK_ERR_NO_MEMORY. */
hk_status hki_seat_take(hki_context *context, const hki_card *cards);

#endif

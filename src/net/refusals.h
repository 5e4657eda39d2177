/* Who was refused: how many, who was the last, and whether that is worth a line in the log. A few strangers are news, a
 * thousand lines of them are an attack on the log. What repeats the one before, from the same host and for the same
 * reason, is not said again within the hour. */
#ifndef HKI_NET_REFUSALS_H
#define HKI_NET_REFUSALS_H

#include "net/address.h"

#include <stdbool.h>

enum {
    HKI_REFUSALS_SAID = 16, /* lines an hour */
    HKI_REFUSALS_REASON = 128,
    HKI_REFUSALS_TEXT = HKI_REFUSALS_REASON + HKI_ADDRESS_TEXT + 64
};

/* Start with zeros. */
typedef struct hki_refusals {
    uint64_t count;   /* of all */
    hki_address from; /* the last one */
    char why[HKI_REFUSALS_REASON];
    unsigned said; /* lines in the hour that began at `since` */
    uint64_t since;
} hki_refusals;

/* Whether this one is to be logged, at the time `now` (hki_now); *ending, to be put behind, says so when it is the last
 * for an hour. */
bool hki_refusals_add(hki_refusals *refusals, const hki_address *from, const char *why, uint64_t now,
                      const char **ending);
/* "3 connections were turned away, the last from 10.0.0.1:4000: no proof"; HKI_REFUSALS_TEXT holds it whole. Empty when
 * there were none. */
void hki_refusals_text(const hki_refusals *refusals, char *text, size_t capacity);

#endif

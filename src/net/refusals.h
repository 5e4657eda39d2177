/* Who was refused, as far as it is worth a line in the log: a few strangers are news, a thousand lines of them are an
 * attack on the log. What repeats the last line, from the same host and for the same reason, is not said again. */
#ifndef HKI_NET_REFUSALS_H
#define HKI_NET_REFUSALS_H

#include "net/address.h"

#include <stdbool.h>

enum { HKI_REFUSALS_SAID = 16, HKI_REFUSALS_REASON = 128 };

/* Start with zeros. */
typedef struct hki_refusals {
    unsigned said;
    hki_address from; /* of the last line */
    char why[HKI_REFUSALS_REASON];
} hki_refusals;

/* Whether this one is to be logged; *ending, to be put behind, says so when it is the last. */
bool hki_refusals_add(hki_refusals *refusals, const hki_address *from, const char *why, const char **ending);

#endif

#include "net/refusals.h"

#include <stdio.h>
#include <string.h>

bool hki_refusals_add(hki_refusals *refusals, const hki_address *from, const char *why, const char **ending)
{
    char reason[HKI_REFUSALS_REASON];
    snprintf(reason, sizeof reason, "%s", why);
    bool repeats =
        refusals->said > 0 && hki_address_same_host(from, &refusals->from) && strcmp(reason, refusals->why) == 0;
    if (repeats || refusals->said == HKI_REFUSALS_SAID)
        return false;
    refusals->said++;
    refusals->from = *from;
    memcpy(refusals->why, reason, sizeof reason);
    *ending = refusals->said == HKI_REFUSALS_SAID ? " (the last of these lines)" : "";
    return true;
}

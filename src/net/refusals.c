#include "net/refusals.h"

#include <stdio.h>
#include <string.h>

static const uint64_t hour = UINT64_C(3600) * 1000000000;

bool hki_refusals_add(hki_refusals *refusals, const hki_address *from, const char *why, uint64_t now,
                      const char **ending)
{
    char reason[HKI_REFUSALS_REASON];
    snprintf(reason, sizeof reason, "%s", why);
    bool repeats = hki_address_same_host(from, &refusals->from) && strcmp(reason, refusals->why) == 0;
    refusals->count++;
    refusals->from = *from;
    memcpy(refusals->why, reason, sizeof reason);
    if (refusals->said > 0 && now - refusals->since >= hour)
        refusals->said = 0;
    if (refusals->said == HKI_REFUSALS_SAID || (refusals->said > 0 && repeats))
        return false;
    if (refusals->said++ == 0)
        refusals->since = now;
    *ending = refusals->said == HKI_REFUSALS_SAID ? " (the last of these lines for an hour)" : "";
    return true;
}

void hki_refusals_text(const hki_refusals *refusals, char *text, size_t capacity)
{
    char from[HKI_ADDRESS_TEXT];
    if (capacity > 0)
        text[0] = '\0';
    if (refusals->count == 0)
        return;
    hki_address_text(&refusals->from, from);
    if (refusals->count == 1)
        snprintf(text, capacity, "a connection from %s was turned away: %s", from, refusals->why);
    else
        snprintf(text, capacity, "%llu connections were turned away, the last from %s: %s",
                 (unsigned long long)refusals->count, from, refusals->why);
}

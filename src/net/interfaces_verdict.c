/* Which interfaces are used, and why, as users read it. */
#include "net/interfaces.h"

#include <stdio.h>
#include <string.h>

static bool allowed(const hki_interface *one, const char *choice)
{
    hki_interface list[1] = {*one};
    char reason[HKI_INTERFACES_REASON];
    /* By itself, so that no other item of a list can be at fault. */
    for (const char *item = choice + (*choice == '^'); item != NULL; item = strchr(item, ',')) {
        char text[HKI_ADDRESS_TEXT + 8];
        item += *item == ',';
        snprintf(text, sizeof text, "%.*s", (int)strcspn(item, ","), item);
        list[0] = *one;
        if (hki_interfaces_choose(text, list, 1, reason) == 1)
            return *choice != '^';
    }
    return *choice == '^';
}

static const char *usual(const hki_interface *one, bool outward, bool wide)
{
    if (one->loopback)
        return outward ? "used for ranks of this machine" : "used: nothing else is up";
    if (!wide)
        return "skipped: without a job key only loopback is used (HOCKET_KEY_FILE gives one)";
    if (hki_address_is_link_local(&one->address))
        return "used last: the address is good on its own link only";
    if (one->bridge)
        return "used after others: a bridge without a default route, of containers most likely";
    if (one->outward)
        return "used: a default route leaves there";
    return NULL;
}

void hki_interface_verdict(const hki_interface *one, const char *choice, bool outward, bool wide,
                           char verdict[HKI_INTERFACE_VERDICT])
{
    const char *words = NULL;
    if (!one->up)
        words = "skipped: it is down, or nothing is attached to it";
    else if (*choice != '\0')
        words = allowed(one, choice) ? "used: HOCKET_INTERFACE allows it" : "skipped: HOCKET_INTERFACE leaves it out";
    else
        words = usual(one, outward, wide);
    if (words != NULL)
        snprintf(verdict, HKI_INTERFACE_VERDICT, "%s", words);
    else
        snprintf(verdict, HKI_INTERFACE_VERDICT, "used: ranks of its network (/%u) are reached there", one->prefix);
}

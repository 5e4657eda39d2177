/* The network interfaces of this machine, and which of them may be used (HOCKET_INTERFACE). */
#ifndef HKI_NET_INTERFACES_H
#define HKI_NET_INTERFACES_H

#include "net/address.h"

#include <net/if.h>

/* One address of an interface that is up. */
typedef struct hki_interface {
    char name[IF_NAMESIZE];
    uint32_t index;
    bool loopback;
    uint8_t prefix; /* bits of the address that name its network */
    hki_address address;
} hki_interface;

enum { HKI_INTERFACES_MOST = 64, HKI_INTERFACES_REASON = 256 };

/* All of them, at most `capacity`; IPv6 addresses that are link-local last within their interface. Returns how many, or
 * -1 with errno. */
int hki_interfaces_list(hki_interface *list, size_t capacity);

/*
 * Keeps of list[0 … count) those that `choice` allows and returns how many, in order of preference; `reason` says why
 * they. choice: "" all but loopback (loopback if there is nothing else); else a comma-separated list of names
 * ("eth0", "eth*") and networks ("10.0.0.0/8", "fd00::/8", "192.0.2.1"), the first preferred; "^" before the list: all
 * but those. Returns 0 when nothing is left; then reason says what there is; and -1 when choice is malformed.
 */
int hki_interfaces_choose(const char *choice, hki_interface *list, int count, char reason[HKI_INTERFACES_REASON]);

#endif

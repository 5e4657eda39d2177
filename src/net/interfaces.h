/* The network interfaces of this machine, and which of them may be used (HOCKET_INTERFACE). */
#ifndef HKI_NET_INTERFACES_H
#define HKI_NET_INTERFACES_H

#include "net/address.h"

#include <net/if.h>

/* One address of an interface. */
typedef struct hki_interface {
    char name[IF_NAMESIZE];
    uint32_t index;
    bool up; /* and something is attached to it */
    bool loopback;
    bool outward;   /* a default route leaves there */
    bool bridge;    /* that no default route leaves by: of containers or virtual machines, most likely */
    uint8_t prefix; /* bits of the address that name its network */
    hki_address address;
} hki_interface;

enum { HKI_INTERFACES_MOST = 64, HKI_INTERFACES_REASON = 256, HKI_INTERFACE_VERDICT = 160 };

/* Those that are up, at most `capacity`, best first: where a default route leaves, others, bridges of
 * containers, link-local addresses.
 * Returns how many, or -1 with errno. */
int hki_interfaces_list(hki_interface *list, size_t capacity);
/* The same with those that are down. */
int hki_interfaces_survey(hki_interface *list, size_t capacity);

/*
 * Keeps of list[0 … count) those that `choice` allows and returns how many, in order of preference; `reason` says why
 * they. choice: "" all but loopback (loopback if there is nothing else); else a comma-separated list of names
 * ("eth0", "eth*") and networks ("10.0.0.0/8", "fd00::/8", "192.0.2.1"), the first preferred; "^" before the list: all
 * but those. Returns 0 when nothing is left, or when a name among others is none that there is (a pattern may match
 * nothing, and so may what is forbidden: hosts differ); then reason says what there is; and -1 when choice is
 * malformed.
 */
int hki_interfaces_choose(const char *choice, hki_interface *list, int count, char reason[HKI_INTERFACES_REASON]);

/* Whether one address of a survey is used under `choice` (well-formed), and why, in words: "used: a default route
 * leaves there", "skipped: …". outward: any address of the survey is not loopback and up; wide: other machines may be
 * talked to. */
void hki_interface_verdict(const hki_interface *one, const char *choice, bool outward, bool wide,
                           char verdict[HKI_INTERFACE_VERDICT]);

/* Bytes a second that an interface carries each way, as the system says; 0: it does not say, or the interface is no
 * hardware (loopback, a bridge, one end of a pair), whose speed means nothing. */
uint64_t hki_interface_rate(const char *name);

#endif

/* Names of hosts. */
#ifndef HKI_NET_RESOLVE_H
#define HKI_NET_RESOLVE_H

#include "net/address.h"

enum { HKI_HOST_TEXT = 256 };

/* "host:port", "10.0.0.1:4000", "[fe80::1%eth0]:4000"; the port is 0 when there is none ("host", "[::1]"). False when
 * malformed or longer than HKI_HOST_TEXT. */
bool hki_host_port_parse(const char *text, char host[HKI_HOST_TEXT], uint16_t *port);
/* Addresses of a host's name, or of an address, in the order that the system prefers, each with `port`. Returns how
 * many; when that is 0, *why says why. May ask a name server, and then takes as long as that does. */
int hki_resolve(const char *host, uint16_t port, hki_address *list, int capacity, const char **why);

#endif

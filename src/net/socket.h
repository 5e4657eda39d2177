/* TCP sockets: non-blocking, closed on exec. Functions that make one return it, or a negative errno. */
#ifndef HKI_NET_SOCKET_H
#define HKI_NET_SOCKET_H

#include "net/address.h"

/* Listens at the address (all-zero bytes: at every address of the family); address->port 0: any free port, which is
 * written back. `buffer` as for tune. */
int hki_socket_listen(hki_address *address, size_t buffer);
/* Starts to connect: writable when that has ended, see hki_socket_error. */
int hki_socket_connect(const hki_address *to, size_t buffer);
/* The same from that address of this machine; NULL: from whichever leads there. */
int hki_socket_connect_from(const hki_address *from, const hki_address *to, size_t buffer);
/* Takes a connection; *from is who it is. -EAGAIN when none waits. */
int hki_socket_accept(int listener, hki_address *from);
/* How connecting ended: 0 or an errno. */
int hki_socket_error(int fd);
/* No delay, keep-alive (a silent end is noticed within half a minute), and buffers of `buffer` bytes each (0: as the
 * kernel sees fit). Best effort. */
void hki_socket_tune(int fd, size_t buffer);
/* By which algorithm the connection holds back for a congested network ("reno", "cubic", …): 0 or a negative errno;
 * -ENOENT: this kernel has none of that name, -EPERM: it has one that only an administrator may use. */
int hki_socket_congestion(int fd, const char *name);
/* Whether both ends of a connection are on this machine: nothing between them but its memory. */
bool hki_socket_stays_here(int fd);

#endif

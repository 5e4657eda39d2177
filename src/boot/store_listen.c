/* Listening at one port of several addresses. */
#include "base/error.h"
#include "boot/store_tcp.h"
#include "net/socket.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { ANY_PORT_TRIES = 64 }; /* a port that is free at the first address may be taken at another */

void hki_listeners_close(hki_listeners *listeners)
{
    for (int i = 0; i < listeners->count; i++)
        close(listeners->fds[i]);
    listeners->count = 0;
}

/* Addresses that are not this machine's, or of a family that it does not speak, are passed over. Returns 0, or the
 * errno for which another port may do better. */
static int listen_at(const hki_address *at, int count, uint16_t port, hki_listeners *listeners)
{
    int last = EADDRNOTAVAIL;
    *listeners = (hki_listeners){.port = port};
    for (int i = 0; i < count && listeners->count < HKI_LISTEN_MOST; i++) {
        hki_address address = at[i];
        address.port = listeners->port;
        int fd = hki_socket_listen(&address, 0);
        if (fd == -EADDRINUSE || fd == -EACCES) {
            hki_listeners_close(listeners);
            return -fd;
        }
        if (fd < 0) {
            last = -fd;
            continue;
        }
        listeners->port = address.port;
        listeners->fds[listeners->count++] = fd;
    }
    return listeners->count > 0 ? 0 : last;
}

hk_status hki_listeners_open(const hki_address *at, int count, uint16_t first, unsigned ports, hki_listeners *listeners)
{
    int failure = EADDRNOTAVAIL;
    unsigned tries = first == 0 ? ANY_PORT_TRIES : ports;
    for (unsigned i = 0; i < tries && first + i <= UINT16_MAX; i++) {
        failure = listen_at(at, count, first == 0 ? 0 : (uint16_t)(first + i), listeners);
        if (failure == 0)
            return HK_OK;
        if (failure != EADDRINUSE && failure != EACCES)
            break;
    }
    char text[HKI_ADDRESS_TEXT] = "no address";
    if (count > 0)
        hki_address_text(&at[0], text);
    if (first != 0 && ports > 1)
        return hki_error_errno(HK_ERR_TRANSPORT, failure, "cannot listen at %s, ports %u to %u, for the other ranks",
                               text, (unsigned)first, first + ports - 1);
    return hki_error_errno(HK_ERR_TRANSPORT, failure, "cannot listen at %s, port %u, for the other ranks", text,
                           (unsigned)first);
}

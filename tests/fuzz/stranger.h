/* What the fuzz targets of the handshake share: a stranger who says the input, in pieces, to a server or to a client.
 * Whatever it is, it must never end well. */
#ifndef HKI_TESTS_STRANGER_H
#define HKI_TESTS_STRANGER_H

#include "net/handshake.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static inline hki_verdict_code stranger_admit(void *context, const hki_parties *parties)
{
    (void)context;
    (void)parties;
    abort(); /* only who has proved itself is asked about */
}

/* What the end answers is not looked at, but must not fill the socket. */
static inline void stranger_drain(int fd)
{
    char nothing[4096];
    while (recv(fd, nothing, sizeof nothing, MSG_DONTWAIT) > 0)
        ;
}

/* data[0], bit 0: to a server, else to a client; the other bits: pieces of how many times `unit` bytes. `tls`: what the
 * connection begins with, or NULL. */
static inline void stranger_meets(const uint8_t *data, size_t size, size_t unit, hki_tls_context *tls)
{
    static const uint8_t key[HKI_HANDSHAKE_KEY] = "a key that the input cannot know";
    const hki_parties parties = {.client_rank = 1, .client_id = 2, .server_id = 3};
    hki_handshake shake;
    int ends[2];
    if (size == 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return;
    bool server = data[0] & 1;
    size_t piece = ((size_t)(data[0] >> 1) + 1) * unit;
    hki_stream stream = {.fd = ends[0]};
    if (!hki_stream_secure(&stream, tls, server))
        abort();
    if (server)
        hki_handshake_server(&shake, &stream, HKI_PURPOSE_STORE, 0, 3, key, stranger_admit, NULL);
    else
        hki_handshake_client(&shake, &stream, HKI_PURPOSE_STORE, &parties, key);
    hki_shake state = hki_handshake_step(&shake);
    for (size_t at = 1; at < size && state == HKI_SHAKE_AGAIN; at += piece) {
        size_t bytes = size - at < piece ? size - at : piece;
        if (send(ends[1], data + at, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
            break;
        state = hki_handshake_step(&shake);
        stranger_drain(ends[1]);
    }
    close(ends[1]);
    while (state == HKI_SHAKE_AGAIN)
        state = hki_handshake_step(&shake);
    if (state == HKI_SHAKE_DONE || state == HKI_SHAKE_LATER || shake.proved)
        abort();
    hki_stream_close(&stream);
}

#endif

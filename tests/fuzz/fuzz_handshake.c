/* Whatever comes over a connection that has not proved itself: to a server, and to a client. The first byte of the
 * input says which, and how the rest is cut into pieces. A handshake with a stranger must never end well. */
#include "net/handshake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static hki_verdict_code admit(void *context, const hki_parties *parties)
{
    (void)context;
    (void)parties;
    abort(); /* only who has proved itself is asked about */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t key[HKI_HANDSHAKE_KEY] = "a key that the input cannot know";
    const hki_parties parties = {.client_rank = 1, .client_id = 2, .server_id = 3};
    hki_handshake shake;
    hki_stream stream;
    int ends[2];
    if (size == 0 || size > 1024 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return 0;
    stream = (hki_stream){.fd = ends[0]};
    bool server = data[0] & 1;
    size_t piece = (size_t)(data[0] >> 1) + 1;
    if (server)
        hki_handshake_server(&shake, &stream, HKI_PURPOSE_STORE, 0, 3, key, admit, NULL);
    else
        hki_handshake_client(&shake, &stream, HKI_PURPOSE_STORE, &parties, key);
    hki_shake state = hki_handshake_step(&shake);
    for (size_t at = 1; at < size && state == HKI_SHAKE_AGAIN; at += piece) {
        size_t bytes = size - at < piece ? size - at : piece;
        if (send(ends[1], data + at, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
            break;
        state = hki_handshake_step(&shake);
    }
    close(ends[1]);
    while (state == HKI_SHAKE_AGAIN)
        state = hki_handshake_step(&shake);
    if (state == HKI_SHAKE_DONE || state == HKI_SHAKE_LATER || shake.proved)
        abort();
    close(ends[0]);
    return 0;
}

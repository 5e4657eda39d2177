/* Whatever comes over a connection that begins with TLS: to a server, and to a client. The first byte of the input says
 * which, and how the rest is cut into pieces. Who does not know the key must never get through. */
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

static hki_tls_context *shared_context(void)
{
    static const uint8_t secret[HKI_TLS_SECRET] = "a key that the input cannot know";
    static const hki_tls_settings settings = {"required", "", "", ""};
    static hki_tls_context *context;
    char reason[HKI_TLS_REASON];
    if (context == NULL && hki_tls_context_make(&settings, secret, &context, reason) != HKI_TLS_MADE) {
        fprintf(stderr, "nothing to try: %s\n", reason);
        exit(0);
    }
    return context;
}

/* What this end answers is not looked at, but must not fill the socket. */
static void drain(int fd)
{
    char nothing[4096];
    while (recv(fd, nothing, sizeof nothing, MSG_DONTWAIT) > 0)
        ;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t key[HKI_HANDSHAKE_KEY] = "a key that the input cannot know";
    const hki_parties parties = {.client_rank = 1, .client_id = 2, .server_id = 3};
    hki_handshake shake;
    int ends[2];
    if (size == 0 || size > 4096 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return 0;
    bool server = data[0] & 1;
    size_t piece = ((size_t)(data[0] >> 1) + 1) * 8;
    hki_stream stream = {.fd = ends[0]};
    if (!hki_stream_secure(&stream, shared_context(), server))
        abort();
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
        drain(ends[1]);
    }
    close(ends[1]);
    while (state == HKI_SHAKE_AGAIN)
        state = hki_handshake_step(&shake);
    if (state == HKI_SHAKE_DONE || state == HKI_SHAKE_LATER || shake.proved)
        abort();
    hki_stream_close(&stream);
    return 0;
}

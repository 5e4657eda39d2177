/*
 * Who may join: the first bytes on every TCP connection, before anything else is sent or parsed. Both sides prove, by
 * HMAC-SHA-256 over everything said so far, that they know the job's key, without showing it:
 *
 *   client                                             server
 *   HELLO    version, byte order, purpose, ranks,  →
 *            ids, nonce
 *                                                  ←   CHALLENGE  version, byte order, nonce
 *   PROOF    MAC("client", HELLO, CHALLENGE)       →
 *                                                  ←   VERDICT    code, MAC("server", HELLO, CHALLENGE, code)
 *   CONFIRM  (accepted only)                       →
 *
 * Where the connection has TLS (net/tls.h), that comes first, and all this is said inside it. An end that meets one of
 * the other kind says so to it, and names the setting.
 *
 * Both nonces are fresh, so nothing can be replayed; the role is part of what is authenticated, so nothing can be
 * reflected. The server counts on a connection only once it is confirmed, so that a client that has turned to another
 * one meanwhile loses nothing. Exactly the bytes of the handshake are read; those that follow are the connection's.
 * A stranger can make a server hold one hki_handshake (well under a KiB, no allocation), and with TLS what OpenSSL
 * keeps of a connection (about 90 KiB while half a greeting is there, measured); how many and for how long is the
 * caller's to limit. The layout of each message is in the README of transports/tcp.
 */
#ifndef HKI_NET_HANDSHAKE_H
#define HKI_NET_HANDSHAKE_H

#include "net/stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HKI_HANDSHAKE_VERSION = 1,
    HKI_HANDSHAKE_KEY = 32,
    HKI_HANDSHAKE_NONCE = 32,
    HKI_HELLO_BYTES = 72,
    HKI_CHALLENGE_BYTES = 48,
    HKI_PROOF_BYTES = 32,
    HKI_VERDICT_BYTES = 40,
    HKI_CONFIRM_BYTES = 8
};

/* What the connection is for; another purpose is refused. */
typedef enum hki_purpose {
    HKI_PURPOSE_LINK = 1,
    HKI_PURPOSE_STORE = 2,
    /* These come to those who listen for links: */
    HKI_PURPOSE_WATCH = 3,
    HKI_PURPOSE_LANE = 16, /* plus the number of the lane */
    HKI_PURPOSE_LAST_LANE = 31
} hki_purpose;

/* Who is at both ends, as the client says, and as the server must find it. */
typedef struct hki_parties {
    uint32_t client_rank, server_rank;
    uint64_t client_id, server_id; /* of contexts: two of one job and rank are told apart by them */
} hki_parties;

typedef enum hki_verdict_code {
    HKI_ACCEPT = 1,
    HKI_LATER = 2, /* not now: another connection to this client is under way, or it is not expected yet */
    HKI_REFUSE = 3 /* never */
} hki_verdict_code;

/* The server's decision about a client that has proved itself. */
typedef hki_verdict_code hki_admit(void *context, const hki_parties *parties);

typedef enum hki_shake {
    HKI_SHAKE_AGAIN, /* waits for the socket: see `writing` */
    HKI_SHAKE_DONE,
    HKI_SHAKE_LATER, /* client: the server says, later */
    HKI_SHAKE_FAILED /* see `reason` */
} hki_shake;

typedef enum hki_shake_step {
    HKI_STEP_HELLO,
    HKI_STEP_CHALLENGE,
    HKI_STEP_PROOF,
    HKI_STEP_VERDICT,
    HKI_STEP_CONFIRM,
    HKI_STEP_OVER
} hki_shake_step;

typedef struct hki_handshake {
    hki_stream *stream;
    bool server;
    bool proved;  /* server: the client knows the key */
    bool writing; /* waits until the socket is writable, else readable */
    bool later;
    bool turned_down;    /* failed for good: the other end refuses this one, or is of another kind */
    bool hung_up;        /* failed: the other end closed or reset the connection, and did not say why */
    hki_shake_step step; /* being sent or awaited */
    size_t moved;        /* bytes of it so far */
    hki_purpose purpose; /* server: as the client says, once the hello has been heard */
    hki_parties parties; /* server: of the client only once it is known */
    hki_admit *admit;
    void *context;
    const char *reason;
    char told[HKI_TLS_REASON]; /* what TLS says; it is gone with the connection */
    uint8_t key[HKI_HANDSHAKE_KEY];
    uint8_t hello[HKI_HELLO_BYTES], challenge[HKI_CHALLENGE_BYTES];
    uint8_t proof[HKI_PROOF_BYTES], verdict[HKI_VERDICT_BYTES], confirm[HKI_CONFIRM_BYTES];
} hki_handshake;

/* Over a connection that stays the caller's, and where it is. The client says who it is and whom it wants. False
 * when the kernel has no random bytes. */
bool hki_handshake_client(hki_handshake *shake, hki_stream *stream, hki_purpose purpose, const hki_parties *parties,
                          const uint8_t key[HKI_HANDSHAKE_KEY]);
/* The server knows its own rank and id; `admit` is called once, when the client has proved itself. */
bool hki_handshake_server(hki_handshake *shake, hki_stream *stream, hki_purpose purpose, uint32_t rank, uint64_t id,
                          const uint8_t key[HKI_HANDSHAKE_KEY], hki_admit *admit, void *context);
/* Goes as far as it can without blocking. After anything but AGAIN the handshake is over, and its keys are wiped. */
hki_shake hki_handshake_step(hki_handshake *shake);

/* Whether there is a key at all: without one the core gives zeros. */
static inline bool hki_key_given(const uint8_t key[HKI_HANDSHAKE_KEY])
{
    uint8_t any = 0;
    for (int i = 0; i < HKI_HANDSHAKE_KEY; i++)
        any = (uint8_t)(any | key[i]);
    return any != 0;
}

#endif

/*
 * TLS 1.3 over a connected, non-blocking socket, by OpenSSL, which is loaded when the first context is made.
 *
 * Both ends prove themselves. Either by certificates (HOCKET_TLS_CERTIFICATE, HOCKET_TLS_KEY, HOCKET_TLS_CA: each must
 * be issued by that authority, and names are not looked at, since ranks have none), or, without those, by the job's key
 * as an external pre-shared key with (EC)DHE: recorded traffic stays secret should the key become known later. The
 * pre-shared key is derived from the job's with a label of its own. No version below 1.3, no tickets, no early data.
 * Each call may empty OpenSSL's queue of errors of the calling thread.
 *
 * The handshake of net/handshake.h follows inside, so who may join stays one mechanism.
 */
#ifndef HKI_NET_TLS_H
#define HKI_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

enum {
    HKI_TLS_SECRET = 32,
    HKI_TLS_REASON = 256,
    HKI_TLS_ALERT = 0x15,    /* first byte of a record that says why a connection ends */
    HKI_TLS_HANDSHAKE = 0x16 /* first byte of all that a client says */
};

/* The values of HOCKET_TLS, HOCKET_TLS_CERTIFICATE, HOCKET_TLS_KEY and HOCKET_TLS_CA: never NULL. */
typedef struct hki_tls_settings {
    const char *mode, *certificate, *key, *authority;
} hki_tls_settings;

typedef enum hki_tls_made {
    HKI_TLS_MADE,
    HKI_TLS_OFF,        /* not wanted: no context */
    HKI_TLS_SETTING,    /* the settings are not right */
    HKI_TLS_UNAVAILABLE /* OpenSSL cannot be loaded, or was left out when this library was built */
} hki_tls_made;

/* What connections of one job share; used by any number of threads. */
typedef struct hki_tls_context hki_tls_context;
/* One connection. Sending and receiving may be done by different threads at a time. */
typedef struct hki_tls hki_tls;

/* From settings, and a secret that only ranks of the job know (all zeros: none). Anything but MADE and OFF is an error
 * that `reason` explains, naming the setting. *context is NULL unless MADE. */
hki_tls_made hki_tls_context_make(const hki_tls_settings *settings, const uint8_t secret[HKI_TLS_SECRET],
                                  hki_tls_context **context, char reason[HKI_TLS_REASON]);
/* Connections that exist stay usable. NULL is nothing. */
void hki_tls_context_free(hki_tls_context *context);

/* Over the socket, which stays the caller's. NULL when there is no memory. */
hki_tls *hki_tls_new(hki_tls_context *context, int fd, bool server);
/* Says that nothing follows, if the connection still works; then frees. */
void hki_tls_free(hki_tls *tls);

typedef enum hki_tls_state {
    HKI_TLS_AGAIN,   /* waits for the socket: see *writing */
    HKI_TLS_READY,   /* the handshake is over */
    HKI_TLS_HUNG_UP, /* failed, and nothing says why */
    HKI_TLS_FAILED   /* see hki_tls_reason */
} hki_tls_state;

/* Takes the handshake as far as it goes. A client's is over before the server has judged its certificate: a refusal
 * then shows when it receives. */
hki_tls_state hki_tls_step(hki_tls *tls, bool *writing);
/* Why step, send or receive failed. As old as the connection. */
const char *hki_tls_reason(const hki_tls *tls);

/* As send and recv, after the handshake: bytes, or −1 with errno; EPROTO stands for what only hki_tls_reason can tell.
 * After EAGAIN from a send the bytes may be *committed*: partly under way, so that the same ones must be offered again
 * before any others. A receive fills the pieces, or takes all that is there, so a short one leaves nothing behind. */
ssize_t hki_tls_send(hki_tls *tls, const struct iovec *pieces, size_t count);
bool hki_tls_committed(hki_tls *tls);
ssize_t hki_tls_receive(hki_tls *tls, const struct iovec *pieces, size_t count);

/* Tells an end that began to talk TLS (or expects to) that this one does not, so that it can say so instead of only
 * losing the connection. Takes from the socket what has come. */
void hki_tls_decline(int fd);

/* Tests: after how many records new keys are taken. */
void hki_tls_set_records_per_key(hki_tls *tls, uint64_t records);

#endif

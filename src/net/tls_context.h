/* What net/tls_context.c makes and net/tls.c uses. */
#ifndef HKI_NET_TLS_CONTEXT_H
#define HKI_NET_TLS_CONTEXT_H

#include "net/mac.h"
#include "net/openssl.h"
#include "net/tls.h"

#ifdef HKI_HAVE_OPENSSL

#include <stdatomic.h>

struct hki_tls_context {
    SSL_CTX *ssl;
    BIO_METHOD *method; /* of sockets */
    _Atomic int users;  /* its owner, and connections */
    bool certified;     /* ends prove themselves by certificates, not by the key */
    uint8_t key[HKI_MAC_BYTES];
};

/* What OpenSSL complains about first: its words, or `otherwise`. */
const char *hki_tls_complaint(const char *otherwise);
/* The calls that move bytes over a connection's socket (net/tls.c); NULL when there is no memory. */
BIO_METHOD *hki_tls_method(void);

#endif

#endif

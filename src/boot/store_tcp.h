/* A store that one process serves over TCP: both ends, for whatever finds out where the server is. */
#ifndef HKI_BOOT_STORE_TCP_H
#define HKI_BOOT_STORE_TCP_H

#include "boot/boot.h"
#include "net/resolve.h"
#include "net/tls.h"

enum { HKI_LISTEN_MOST = 8, HKI_DIAL_MOST = 16, HKI_PORTS_TRIED = 16 };

/* Sockets that listen at one port of several addresses. */
typedef struct hki_listeners {
    int count;
    int fds[HKI_LISTEN_MOST];
    uint16_t port;
} hki_listeners;

/* Listens at all of `at` that are this machine's, at the first of the ports first … first+ports-1 that is free (first
 * = 0: any). An unspecified address (all zeros) stands for all of its family. HK_ERR_TRANSPORT, HK_ERR_ARGUMENT. */
hk_status hki_listeners_open(const hki_address *at, int count, uint16_t first, unsigned ports,
                             hki_listeners *listeners);
void hki_listeners_close(hki_listeners *listeners);

/* How a store is told from others: the key that both ends prove, and a number. Clients that look for another number, as
 * of the job's next context, are turned away and come again. */
typedef struct hki_store_identity {
    uint8_t key[HKI_KEY_BYTES];
    uint64_t id;
} hki_store_identity;

/* What encrypts this store's connections; NULL when HOCKET_TLS is off. HK_ERR_SETTING. */
hk_status hki_store_tls(const hki_store_identity *identity, hki_tls_context **context);

/* Serves a new store from a thread of its own. The listeners stay the caller's, and must stay open until the store is
 * freed; who connects in between is served by the next. hk_store_free waits until all clients have hung up, at most
 * `linger` seconds. HK_ERR_NO_MEMORY, HK_ERR_SYSTEM; HK_ERR_SETTING: HOCKET_TLS. */
hk_status hki_store_serve(const hki_listeners *listeners, const hki_store_identity *identity, double linger,
                          hk_store **store);

/* Where the server may be: at any of the ports first … first+ports-1 of `host`, or of the addresses if that is NULL. */
typedef struct hki_dial {
    const char *host;              /* asked for anew at each round: it may come to be known only while ranks wait */
    hki_address at[HKI_DIAL_MOST]; /* host = NULL: with their ports */
    int count;
    uint16_t first;
    unsigned ports;
    const char *settings; /* for errors: what says where the server is */
} hki_dial;

/* Tries, with growing, jittered pauses, until the server is found or `timeout` seconds are over: HK_ERR_BOOTSTRAP,
 * which says what was tried; HK_ERR_REFUSED when the server turned the key down, or has another HOCKET_TLS;
 * HK_ERR_SETTING. */
hk_status hki_store_dial(const hki_dial *dial, const hki_store_identity *identity, double timeout, hk_store **store);

/* The address from which a store of hki_store_dial talks to its server, port 0. False for any other store. */
bool hki_store_own_address(const hk_store *store, hki_address *own);

/* The store of hki_store_serve in one that hk_store_tcp made; any other store itself. */
const hk_store *hki_store_tcp_inner(const hk_store *store);
/* Whom such a store has turned away so far, and why, as hki_refusals_text: empty for any other store. */
void hki_store_turned_away(const hk_store *store, char *text, size_t capacity);

#endif

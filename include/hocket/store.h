/*
 * A store: a small key-value space through which the ranks of a job find each other. A framework that has one of its
 * own (TCPStore, etcd, Redis) hands it to hk_comm_create in this form; Hocket brings the others.
 */
#ifndef HOCKET_STORE_H
#define HOCKET_STORE_H

#include <hocket/hocket.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All functions may be called from the thread that calls hk_comm_create only, and only during that call. Keys are
 * printable ASCII, at most 64 bytes; values any bytes, at most 1 MiB. They return HK_OK or why they failed. */
typedef struct hk_store {
    size_t size; /* sizeof(hk_store) */
    void *context;
    /* Stores a copy of the value under key; a key is set once in a job. */
    hk_status (*set)(void *context, const char *key, const void *value, size_t bytes);
    /* Waits until key is set, at most `timeout` seconds (HK_ERR_TIMEOUT), then copies it: *bytes is the capacity of
     * value going in and the length coming out (HK_ERR_TRUNCATED when it does not fit). */
    hk_status (*get)(void *context, const char *key, void *value, size_t *bytes, double timeout);
    /* Waits until all keys are set, at most `timeout` seconds. NULL: Hocket uses get. */
    hk_status (*wait)(void *context, const char *const *keys, size_t count, double timeout);
} hk_store;

/* A store within one process: ranks are threads. Free after every rank has joined. */
HK_API hk_status hk_store_local(hk_store **store);
/* A store in a directory that all ranks see (created if missing, mode 0700). */
HK_API hk_status hk_store_file(const char *directory, hk_store **store);
/* A store that one process serves over TCP (serving = 1, at the addresses of `host` that are its own) and the others
 * use. host: a name, or an IPv4 or IPv6 address. key: 16 … 64 bytes that all processes share, and prove before anything
 * else is heard; NULL: `host` must be the loopback. A client looks for the server for `timeout` seconds, so that it may
 * start before; the server's hk_store_free waits as long for clients to free theirs. HOCKET_TLS=required encrypts what
 * it says. Errors: HK_ERR_ARGUMENT, HK_ERR_TRANSPORT (cannot listen), HK_ERR_BOOTSTRAP (not found; says what was
 * tried), HK_ERR_REFUSED (other key, or HOCKET_TLS is another there), HK_ERR_SETTING (HOCKET_TLS cannot be met). */
HK_API hk_status hk_store_tcp(const char *host, uint16_t port, int serving, const void *key, size_t key_bytes,
                              double timeout, hk_store **store);
/* Frees a store made by one of the functions above. NULL is allowed. */
HK_API void hk_store_free(hk_store *store);

#ifdef __cplusplus
}
#endif
#endif

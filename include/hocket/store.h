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
/* Frees a store made by hk_store_local or hk_store_file. NULL is allowed. */
HK_API void hk_store_free(hk_store *store);

#ifdef __cplusplus
}
#endif
#endif

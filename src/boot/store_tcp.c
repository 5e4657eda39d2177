/* hk_store_tcp: a store over TCP for callers who bring their own rank and number of ranks. */
#include "boot/store_tcp.h"
#include "base/error.h"
#include "base/settings.h"
#include "boot/source.h"
#include "boot/store_made.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The serving process's: the store, and the listeners that belong to it. */
typedef struct host_store {
    hki_made_store made;
    hk_store *inner;
    hki_listeners listeners;
} host_store;

static hk_status host_set(void *context, const char *key, const void *value, size_t bytes)
{
    hk_store *inner = ((host_store *)context)->inner;
    return inner->set(inner->context, key, value, bytes);
}

static hk_status host_get(void *context, const char *key, void *value, size_t *bytes, double timeout)
{
    hk_store *inner = ((host_store *)context)->inner;
    return inner->get(inner->context, key, value, bytes, timeout);
}

static void host_free(hki_made_store *made)
{
    host_store *self = (host_store *)made;
    hk_store_free(self->inner);
    hki_listeners_close(&self->listeners);
    free(self);
}

const hk_store *hki_store_tcp_inner(const hk_store *store)
{
    return store->get == host_get ? ((const host_store *)store->context)->inner : store;
}

/* False when some address of the host is not this machine's loopback. */
static hk_status addresses(const char *host, hki_address at[HKI_LISTEN_MOST], int *count, bool *loopback)
{
    const char *why = "";
    *count = hki_resolve(host, 0, at, HKI_LISTEN_MOST, &why);
    if (*count == 0)
        return hki_error(HK_ERR_ARGUMENT, "store_tcp: host %s: %s", host, why);
    *loopback = true;
    for (int i = 0; i < *count; i++)
        *loopback &= hki_address_is_loopback(&at[i]);
    return HK_OK;
}

static hk_status serve(const hki_address *at, int count, uint16_t port, const hki_store_identity *identity,
                       double timeout, hk_store **store)
{
    host_store *self = calloc(1, sizeof *self);
    if (!self)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a store");
    hk_status status = hki_listeners_open(at, count, port, 1, &self->listeners);
    if (status == HK_OK)
        status = hki_store_serve(&self->listeners, identity, timeout, &self->inner);
    if (status != HK_OK) {
        hki_listeners_close(&self->listeners);
        free(self);
        return status;
    }
    self->made.store = (hk_store){.size = sizeof(hk_store), .context = self, .set = host_set, .get = host_get};
    self->made.free = host_free;
    *store = &self->made.store;
    return HK_OK;
}

static hk_status check(const char *host, uint16_t port, const void *key, size_t key_bytes, hk_store **store)
{
    if (!host || !store)
        return hki_error(HK_ERR_ARGUMENT, "store_tcp: %s is NULL", host ? "store" : "host");
    if (port == 0)
        return hki_error(HK_ERR_ARGUMENT, "store_tcp: port is 0; all processes must know the same one");
    if (key && (key_bytes < 16 || key_bytes > HKI_SECRET_MOST))
        return hki_error(HK_ERR_ARGUMENT, "store_tcp: key_bytes is %zu; a key has 16 to 64 bytes", key_bytes);
    return HK_OK;
}

hk_status hk_store_tcp(const char *host, uint16_t port, int serving, const void *key, size_t key_bytes, double timeout,
                       hk_store **store)
{
    hki_address at[HKI_LISTEN_MOST];
    hki_store_identity identity = {.id = 0};
    int count = 0;
    bool loopback = false;
    HK_TRY(check(host, port, key, key_bytes, store));
    if (serving || !key)
        HK_TRY(addresses(host, at, &count, &loopback));
    if (!key && !loopback && !hki_boot_keyless())
        return hki_error(HK_ERR_ARGUMENT,
                         "store_tcp: key is NULL, but %s is not this machine alone; give a key, or set "
                         "HOCKET_KEY=none to do without",
                         host);
    if (key)
        hki_boot_derive_key(key, key_bytes, "store", identity.key);
    double bounded = timeout > 0 ? timeout : 0;
    hki_dial dial = {.host = host, .first = port, .ports = 1, .settings = "hk_store_tcp"};
    hk_status status =
        serving ? serve(at, count, port, &identity, bounded, store) : hki_store_dial(&dial, &identity, bounded, store);
    explicit_bzero(&identity, sizeof identity);
    return status;
}

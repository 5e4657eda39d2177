/* A store within one process: a list of entries under one lock. Jobs of threads are small, so a list will do. */
#include <hocket/store.h>

#include "base/error.h"
#include "boot/store_made.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct entry {
    struct entry *next;
    char *key;
    size_t bytes;
    unsigned char value[];
} entry;

typedef struct local_store {
    hki_made_store made;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    entry *entries;
} local_store;

static entry *find(const local_store *store, const char *key)
{
    entry *found = store->entries;
    while (found && strcmp(found->key, key) != 0)
        found = found->next;
    return found;
}

static entry *entry_new(const char *key, const void *value, size_t bytes)
{
    entry *made = malloc(sizeof *made + bytes);
    char *copy = strdup(key);
    if (!made || !copy) {
        free(made);
        free(copy);
        return NULL;
    }
    made->key = copy;
    made->bytes = bytes;
    if (bytes > 0)
        memcpy(made->value, value, bytes);
    return made;
}

static hk_status local_set(void *context, const char *key, const void *value, size_t bytes)
{
    local_store *store = context;
    HK_TRY(hki_store_check(key, bytes));
    entry *made = entry_new(key, value, bytes);
    if (!made)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for %zu bytes of key %s", bytes, key);
    pthread_mutex_lock(&store->lock);
    bool taken = find(store, key) != NULL;
    if (!taken) {
        made->next = store->entries;
        store->entries = made;
        pthread_cond_broadcast(&store->changed);
    }
    pthread_mutex_unlock(&store->lock);
    if (!taken)
        return HK_OK;
    free(made->key);
    free(made);
    return hki_error(HK_ERR_REFUSED, "key %s is set already", key);
}

static hk_status copy_out(const entry *found, void *value, size_t *bytes)
{
    if (found->bytes > *bytes)
        return hki_error(HK_ERR_TRUNCATED, "key %s holds %zu bytes, more than the %zu that fit", found->key,
                         found->bytes, *bytes);
    if (found->bytes > 0)
        memcpy(value, found->value, found->bytes);
    *bytes = found->bytes;
    return HK_OK;
}

static hk_status local_get(void *context, const char *key, void *value, size_t *bytes, double timeout)
{
    local_store *store = context;
    struct timespec deadline = hki_store_deadline(timeout);
    int failure = 0;
    pthread_mutex_lock(&store->lock);
    entry *found = find(store, key);
    while (!found && failure != ETIMEDOUT) {
        failure = pthread_cond_timedwait(&store->changed, &store->lock, &deadline);
        found = find(store, key);
    }
    hk_status status = found ? copy_out(found, value, bytes)
                             : hki_error(HK_ERR_TIMEOUT, "key %s was not set within %g s", key, timeout);
    pthread_mutex_unlock(&store->lock);
    return status;
}

const void *hki_store_local_peek(hk_store *made, const char *key, size_t *bytes)
{
    local_store *store = made->context;
    pthread_mutex_lock(&store->lock);
    const entry *found = find(store, key);
    pthread_mutex_unlock(&store->lock);
    if (!found)
        return NULL;
    *bytes = found->bytes;
    return found->value;
}

static void local_free(hki_made_store *made)
{
    local_store *store = (local_store *)made;
    while (store->entries) {
        entry *first = store->entries;
        store->entries = first->next;
        free(first->key);
        free(first);
    }
    pthread_cond_destroy(&store->changed);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

hk_status hk_store_local(hk_store **store)
{
    if (!store)
        return hki_error(HK_ERR_ARGUMENT, "hk_store_local: store is NULL");
    local_store *made = calloc(1, sizeof *made);
    if (!made)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a store");
    made->made.store = (hk_store){.size = sizeof(hk_store), .context = made, .set = local_set, .get = local_get};
    made->made.free = local_free;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&made->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&made->lock, NULL);
    *store = &made->made.store;
    return HK_OK;
}

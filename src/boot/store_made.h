/* What the stores that Hocket makes itself have in common. */
#ifndef HKI_BOOT_STORE_MADE_H
#define HKI_BOOT_STORE_MADE_H

#include <hocket/store.h>

#include <stdbool.h>
#include <time.h>

enum { HKI_STORE_KEY_MAX = 64, HKI_STORE_VALUE_MAX = 1 << 20 };

/* First member of each made store; hk_store_free calls free. */
typedef struct hki_made_store {
    hk_store store;
    void (*free)(struct hki_made_store *store);
} hki_made_store;

/* HK_ERR_ARGUMENT unless key is 1 … 64 bytes of printable ASCII and the value at most 1 MiB. */
hk_status hki_store_check(const char *key, size_t bytes);
/* The value of key in a store of hk_store_local, or NULL. It stays where it is until the store is freed. */
const void *hki_store_local_peek(hk_store *store, const char *key, size_t *bytes);
/* CLOCK_MONOTONIC now plus `seconds` (at least 0, at most some 30 years). */
struct timespec hki_store_deadline(double seconds);

#endif

#include "boot/store_made.h"

#include "base/error.h"

#include <string.h>

void hk_store_free(hk_store *store)
{
    if (store)
        ((hki_made_store *)store)->free((hki_made_store *)store);
}

hk_status hki_store_check(const char *key, size_t bytes)
{
    size_t length = strlen(key);
    if (length == 0 || length > HKI_STORE_KEY_MAX)
        return hki_error(HK_ERR_ARGUMENT, "a store's key has 1 to %d bytes, not %zu", (int)HKI_STORE_KEY_MAX, length);
    for (size_t i = 0; i < length; i++)
        if (key[i] <= ' ' || key[i] > '~')
            return hki_error(HK_ERR_ARGUMENT, "byte %zu of a store's key is not printable ASCII", i);
    if (bytes > HKI_STORE_VALUE_MAX)
        return hki_error(HK_ERR_ARGUMENT, "key %s: %zu bytes are more than the 1 MiB that a store takes", key, bytes);
    return HK_OK;
}

struct timespec hki_store_deadline(double seconds)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    double bounded = seconds > 0 ? (seconds < 1e9 ? seconds : 1e9) : 0;
    at.tv_sec += (time_t)bounded;
    at.tv_nsec += (long)((bounded - (double)(time_t)bounded) * 1e9);
    if (at.tv_nsec >= 1000000000L) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000L;
    }
    return at;
}

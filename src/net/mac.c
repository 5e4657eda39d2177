#include "net/mac.h"

#include "base/log.h"
#include "net/openssl.h"
#include "net/sha256.h"

#include <limits.h>
#include <stdatomic.h>

#ifdef HKI_HAVE_OPENSSL

static _Atomic(const hki_openssl *) library;

static bool by_library(const void *key, size_t key_bytes, const void *message, size_t message_bytes,
                       uint8_t mac[HKI_MAC_BYTES])
{
    const hki_openssl *openssl = atomic_load_explicit(&library, memory_order_acquire);
    unsigned bytes = 0;
    return openssl != NULL && key_bytes <= INT_MAX &&
           openssl->HMAC(openssl->EVP_sha256(), key, (int)key_bytes, message, message_bytes, mac, &bytes) != NULL &&
           bytes == HKI_MAC_BYTES;
}

bool hki_mac_use_library(void)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    const char *why;
    const hki_openssl *openssl = hki_openssl_crypto(&why);
    atomic_store_explicit(&library, openssl, memory_order_release);
    if (!atomic_flag_test_and_set(&said) && openssl == NULL)
        hki_log(HK_LOG_INFO, "keys are proved with the library's own HMAC-SHA-256: %s", why);
    return openssl != NULL;
}

#else

static bool by_library(const void *key, size_t key_bytes, const void *message, size_t message_bytes,
                       uint8_t mac[HKI_MAC_BYTES])
{
    (void)key, (void)key_bytes, (void)message, (void)message_bytes, (void)mac;
    return false;
}

bool hki_mac_use_library(void)
{
    return false;
}

#endif

void hki_mac(const void *key, size_t key_bytes, const void *message, size_t message_bytes, uint8_t mac[HKI_MAC_BYTES])
{
    if (!by_library(key, key_bytes, message, message_bytes, mac))
        hki_hmac_sha256(key, key_bytes, message, message_bytes, mac);
}

bool hki_mac_equal(const uint8_t *left, const uint8_t *right)
{
    uint8_t difference = 0;
    for (size_t i = 0; i < HKI_MAC_BYTES; i++)
        difference = (uint8_t)(difference | (left[i] ^ right[i]));
    return difference == 0;
}

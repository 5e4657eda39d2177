/* SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104): what job keys are derived and proved with. */
#ifndef HKI_NET_SHA256_H
#define HKI_NET_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { HKI_SHA256_BYTES = 32 };

typedef struct hki_sha256 {
    uint32_t state[8];
    uint64_t bytes; /* taken in so far */
    uint8_t block[64];
} hki_sha256;

void hki_sha256_start(hki_sha256 *hash);
void hki_sha256_add(hki_sha256 *hash, const void *data, size_t bytes);
/* Writes the digest; the hash must be started again before further use. */
void hki_sha256_end(hki_sha256 *hash, uint8_t digest[HKI_SHA256_BYTES]);

void hki_hmac_sha256(const void *key, size_t key_bytes, const void *message, size_t message_bytes,
                     uint8_t mac[HKI_SHA256_BYTES]);

#endif

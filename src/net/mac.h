/*
 * HMAC-SHA-256 (RFC 2104, FIPS 180-4): what keys are derived and proved with.
 *
 * There are two implementations behind this one interface. Connections between hosts are proved with OpenSSL's
 * libcrypto, which is looked after by more people than this project has, and which sites may demand. But every rank
 * derives keys when it joins, most never leave their host, and loading libcrypto costs 1.5 ms of CPU in each of them
 * (measured; a fifth of a second for 128 ranks on one core), and not every machine has it. So the hundred lines of
 * net/sha256.c serve until libcrypto is asked for, and where there is none. SHA-256 has no branch and no table look-up
 * that depends on its data, so plain C leaks no timing either. A test holds both to the published vectors and to each
 * other.
 */
#ifndef HKI_NET_MAC_H
#define HKI_NET_MAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HKI_MAC_BYTES = 32 };

/* Never fails: should libcrypto refuse (no memory, a policy), the other implementation answers. */
void hki_mac(const void *key, size_t key_bytes, const void *message, size_t message_bytes, uint8_t mac[HKI_MAC_BYTES]);

/* Takes the same time wherever the first difference lies. */
bool hki_mac_equal(const uint8_t *left, const uint8_t *right);

/* From now on libcrypto answers, if it can be loaded; says so in the log once. Any thread. True if it does. */
bool hki_mac_use_library(void);

#endif

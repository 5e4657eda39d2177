/* SHA-256 and HMAC against the examples of FIPS 180-4 and RFC 4231, by both implementations of the latter. The first
 * tests come before libcrypto is loaded. */
#include "net/mac.h"
#include "net/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void assert_digest(const uint8_t digest[HKI_SHA256_BYTES], const char *expected)
{
    char text[2 * HKI_SHA256_BYTES + 1];
    for (int i = 0; i < HKI_SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(text, expected);
}

static void hash_in_pieces(const void *data, size_t bytes, size_t piece, uint8_t digest[HKI_SHA256_BYTES])
{
    hki_sha256 hash;
    hki_sha256_start(&hash);
    for (size_t at = 0; at < bytes; at += piece)
        hki_sha256_add(&hash, (const char *)data + at, bytes - at < piece ? bytes - at : piece);
    hki_sha256_end(&hash, digest);
}

static void digests_are_those_of_the_standard(void **state)
{
    (void)state;
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    uint8_t digest[HKI_SHA256_BYTES];
    hash_in_pieces("", 0, 1, digest);
    assert_digest(digest, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    hash_in_pieces("abc", 3, 3, digest);
    assert_digest(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    for (size_t piece = 1; piece <= strlen(two_blocks); piece++) {
        hash_in_pieces(two_blocks, strlen(two_blocks), piece, digest);
        assert_digest(digest, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    }
}

static void a_million_letters_hash_as_in_the_standard(void **state)
{
    (void)state;
    uint8_t digest[HKI_SHA256_BYTES];
    hki_sha256 hash;
    hki_sha256_start(&hash);
    for (int i = 0; i < 10000; i++) {
        char letters[100];
        memset(letters, 'a', sizeof letters);
        hki_sha256_add(&hash, letters, sizeof letters);
    }
    hki_sha256_end(&hash, digest);
    assert_digest(digest, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* RFC 4231: cases 1 to 4, 6 and 7 (5 is a truncated one). */
static void expect_macs_of_the_standard(void)
{
    static const char larger_key[] = "Test Using Larger Than Block-Size Key - Hash Key First";
    static const char larger_both[] = "This is a test using a larger than block-size key and a larger than block-size "
                                      "data. The key needs to be hashed before being used by the HMAC algorithm.";
    uint8_t mac[HKI_MAC_BYTES], key[131], data[50];
    memset(key, 0x0b, 20);
    hki_mac(key, 20, "Hi There", 8, mac);
    assert_digest(mac, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    hki_mac("Jefe", 4, "what do ya want for nothing?", 28, mac);
    assert_digest(mac, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    memset(data, 0xdd, sizeof data);
    hki_mac(key, 20, data, sizeof data, mac);
    assert_digest(mac, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    hki_mac(key, sizeof key, larger_key, strlen(larger_key), mac);
    assert_digest(mac, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    hki_mac(key, sizeof key, larger_both, strlen(larger_both), mac);
    assert_digest(mac, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
    for (unsigned i = 0; i < 25; i++)
        key[i] = (uint8_t)(i + 1);
    memset(data, 0xcd, sizeof data);
    hki_mac(key, 25, data, sizeof data, mac);
    assert_digest(mac, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
}

static void macs_are_those_of_the_standard(void **state)
{
    (void)state;
    expect_macs_of_the_standard();
}

static void macs_of_libcrypto_are_the_same(void **state)
{
    (void)state;
    static uint8_t key[200], message[300];
    if (!hki_mac_use_library())
        skip();
    expect_macs_of_the_standard();
    for (size_t bytes = 0; bytes < sizeof message; bytes += 7) {
        uint8_t own[HKI_MAC_BYTES], library[HKI_MAC_BYTES];
        for (size_t i = 0; i < bytes; i++) {
            message[i] = (uint8_t)(i * 31 + bytes);
            key[i % sizeof key] = (uint8_t)(i * 17 + bytes);
        }
        size_t key_bytes = bytes % (sizeof key + 1);
        hki_hmac_sha256(key, key_bytes, message, bytes, own);
        hki_mac(key, key_bytes, message, bytes, library);
        assert_memory_equal(own, library, sizeof own);
    }
}

static void macs_differ_wherever_a_bit_differs(void **state)
{
    (void)state;
    uint8_t left[HKI_MAC_BYTES] = {1, 2, 3}, right[HKI_MAC_BYTES] = {1, 2, 3};
    assert_true(hki_mac_equal(left, right));
    for (unsigned bit = 0; bit < HKI_MAC_BYTES * 8; bit++) {
        right[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(hki_mac_equal(left, right));
        right[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_are_those_of_the_standard),
        cmocka_unit_test(a_million_letters_hash_as_in_the_standard),
        cmocka_unit_test(macs_are_those_of_the_standard),
        cmocka_unit_test(macs_of_libcrypto_are_the_same),
        cmocka_unit_test(macs_differ_wherever_a_bit_differs),
    };
    return cmocka_run_group_tests_name("mac", tests, NULL, NULL);
}

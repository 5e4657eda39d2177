/* SHA-256 and HMAC against the examples of FIPS 180-4 and RFC 4231. */
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

static void macs_are_those_of_the_standard(void **state)
{
    (void)state;
    uint8_t mac[HKI_SHA256_BYTES], key[131];
    memset(key, 0x0b, 20);
    hki_hmac_sha256(key, 20, "Hi There", 8, mac);
    assert_digest(mac, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    hki_hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, mac);
    assert_digest(mac, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key); /* longer than a block: hashed first */
    static const char message[] = "Test Using Larger Than Block-Size Key - Hash Key First";
    hki_hmac_sha256(key, sizeof key, message, strlen(message), mac);
    assert_digest(mac, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_are_those_of_the_standard),
        cmocka_unit_test(a_million_letters_hash_as_in_the_standard),
        cmocka_unit_test(macs_are_those_of_the_standard),
    };
    return cmocka_run_group_tests_name("sha256", tests, NULL, NULL);
}

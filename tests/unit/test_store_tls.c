/* A store over TLS: values, keys, and ends of which only one has TLS. (Its rules are tried by unit.boot_tcp.) */
#include "../support/ports.h"

#include "base/settings.h"

#include <hocket/store.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { KEY_BYTES = 32 };

static const char right_key[KEY_BYTES + 1] = "the right key of this very test!";
static const char wrong_key[KEY_BYTES + 1] = "another key, of another job, no!";

static void expect_error(const char *text)
{
    if (!strstr(hk_last_error(), text))
        fail_msg("\"%s\" is not in: %s", text, hk_last_error());
}

static void set_tls(const char *value)
{
    setenv("HOCKET_TLS", value, 1);
    hki_settings_reset();
}

static void a_value_goes_through_tls_whole(void **state)
{
    (void)state;
    set_tls("required");
    hk_store *server, *client;
    uint16_t port = free_port();
    size_t bytes = 1 << 20, room = bytes;
    char *value = malloc(bytes), *got = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        value[i] = (char)(i * 7 + i / 251);
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 1, right_key, KEY_BYTES, 5, &server), HK_OK);
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 0, right_key, KEY_BYTES, 5, &client), HK_OK);
    assert_int_equal(client->set(client->context, "large", value, bytes), HK_OK);
    assert_int_equal(client->get(client->context, "large", got, &room, 5), HK_OK);
    assert_int_equal(room, bytes);
    assert_memory_equal(got, value, bytes);
    hk_store_free(client);
    hk_store_free(server);
    free(value);
    free(got);
}

/* One end has TLS, the other has not: both ways round, the client is told at once, and the store goes on. */
static void ends_that_differ_in_tls_are_told(void **state)
{
    (void)state;
    static const char *const words[2][2] = {{"off", "required"}, {"required", "off"}};
    for (int i = 0; i < 2; i++) {
        hk_store *server, *client;
        uint16_t port = free_port();
        set_tls(words[i][0]);
        assert_int_equal(hk_store_tcp("127.0.0.1", port, 1, right_key, KEY_BYTES, 5, &server), HK_OK);
        set_tls(words[i][1]);
        assert_int_equal(hk_store_tcp("127.0.0.1", port, 0, right_key, KEY_BYTES, 20, &client), HK_ERR_REFUSED);
        expect_error("HOCKET_TLS");
        expect_error(i == 0 ? "off there" : "required there");
        expect_error("127.0.0.1");
        set_tls(words[i][0]);
        assert_int_equal(hk_store_tcp("127.0.0.1", port, 0, right_key, KEY_BYTES, 5, &client), HK_OK);
        assert_int_equal(client->set(client->context, "k", "v", 1), HK_OK);
        hk_store_free(client);
        hk_store_free(server);
    }
}

static void tls_needs_a_key_or_a_certificate(void **state)
{
    (void)state;
    set_tls("required");
    hk_store *store;
    assert_int_equal(hk_store_tcp("127.0.0.1", free_port(), 1, NULL, 0, 5, &store), HK_ERR_SETTING);
    expect_error("HOCKET_TLS_CERTIFICATE");
}

static void another_key_is_refused_within_tls(void **state)
{
    (void)state;
    set_tls("required");
    hk_store *server, *client;
    uint16_t port = free_port();
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 1, right_key, KEY_BYTES, 5, &server), HK_OK);
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 0, wrong_key, KEY_BYTES, 20, &client), HK_ERR_REFUSED);
    expect_error("another job key");
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 0, right_key, KEY_BYTES, 5, &client), HK_OK);
    hk_store_free(client);
    hk_store_free(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_goes_through_tls_whole),
        cmocka_unit_test(another_key_is_refused_within_tls),
        cmocka_unit_test(ends_that_differ_in_tls_are_told),
        cmocka_unit_test(tls_needs_a_key_or_a_certificate),
    };
#ifndef HKI_HAVE_OPENSSL
    return 77;
#endif
    return cmocka_run_group_tests_name("store_tls", tests, NULL, NULL);
}

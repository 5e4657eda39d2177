/* What joining over TCP says when it fails, so that whoever reads it knows what to change. */
#include "../support/ports.h"

#include "base/settings.h"
#include "boot/boot.h"
#include "boot/source.h"
#include "boot/store_tcp.h"
#include "net/socket.h"

#include <hocket/store.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

enum { KEY_BYTES = 32 };

static const char right_key[KEY_BYTES + 1] = "the right key of this very test!";
static const char wrong_key[KEY_BYTES + 1] = "another key, of another job, no!";

static bool says(const char *error, const char *text)
{
    if (!strstr(error, text))
        print_error("\"%s\" is not in: %s\n", text, error);
    return strstr(error, text) != NULL;
}

static void a_server_that_is_not_there_is_named(void **state)
{
    (void)state;
    hk_store *store;
    uint16_t port = free_port();
    char where[64];
    snprintf(where, sizeof where, "127.0.0.1:%u (Connection refused", (unsigned)port);
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 0, right_key, KEY_BYTES, 0.2, &store), HK_ERR_BOOTSTRAP);
    assert_true(says(hk_last_error(), where));
    assert_true(says(hk_last_error(), "0.2 s"));
}

/* poll refuses to look at more descriptors than a process may have. */
static void a_kernel_that_cannot_wait_ends_a_question_at_once(void **state)
{
    (void)state;
    hk_store *server, *client;
    uint16_t port = free_port();
    struct rlimit before, none;
    char value[8];
    size_t bytes = sizeof value;
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 1, NULL, 0, 5, &server), HK_OK);
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 0, NULL, 0, 5, &client), HK_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    hk_status status = client->get(client->context, "never", value, &bytes, 600);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, HK_ERR_SYSTEM);
    assert_true(says(hk_last_error(), "cannot wait for the rank that serves the others"));
    hk_store_free(client);
    hk_store_free(server);
}

static void a_long_list_of_places_ends_in_how_many_more(void **state)
{
    (void)state;
    const hki_store_identity identity = {.id = 1};
    hki_dial dial = {.count = HKI_DIAL_MOST, .settings = "this test"};
    hk_store *store;
    int fds[HKI_DIAL_MOST];
    for (int i = 0; i < HKI_DIAL_MOST; i++) {
        dial.at[i] = (hki_address){.family = AF_INET, .bytes = {127, 0, 0, 1}};
        fds[i] = hki_socket_listen(&dial.at[i], 0);
        assert_true(fds[i] >= 0);
        close(fds[i]); /* nobody listens there any more */
    }
    assert_int_equal(hki_store_dial(&dial, &identity, 0.5, &store), HK_ERR_BOOTSTRAP);
    const char *text = hk_last_error(), *more = strstr(text, ") and ");
    unsigned named = 0, left = 0;
    for (const char *one = text; (one = strstr(one, "127.0.0.1:")) != NULL; one++)
        named++;
    assert_non_null(more);
    assert_int_equal(sscanf(more, ") and %u more", &left), 1);
    assert_string_equal(more + strlen(more) - 5, " more");
    assert_int_equal(named + left, HKI_DIAL_MOST);
}

/* Rank 1 has another key, and rank 0 waits for it in vain: it must be told of the stranger. */
static void who_was_turned_away_is_told_with_who_is_missing(void **state)
{
    (void)state;
    hk_store *server, *client;
    hki_boot *boot;
    uint16_t port = free_port();
    hk_options options = HK_OPTIONS_INIT;
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 1, right_key, KEY_BYTES, 5, &server), HK_OK);
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 0, wrong_key, KEY_BYTES, 60, &client), HK_ERR_REFUSED);
    options.rank = 0;
    options.ranks = 2;
    options.store = server;
    setenv("HOCKET_JOIN_TIMEOUT", "0.5", 1);
    hki_settings_reset();
    assert_int_equal(hki_boot_join(&options, &boot), HK_ERR_BOOTSTRAP);
    assert_true(says(hk_last_error(), "rank 1 of 2 did not arrive"));
    assert_true(says(hk_last_error(), "3 connections were turned away, the last from 127.0.0.1:"));
    unsetenv("HOCKET_JOIN_TIMEOUT");
    hki_settings_reset();
    hk_store_free(server);
}

static void without_strangers_none_are_told_of(void **state)
{
    (void)state;
    hk_store *server, *other;
    char text[64] = "something";
    assert_int_equal(hk_store_tcp("127.0.0.1", free_port(), 1, right_key, KEY_BYTES, 5, &server), HK_OK);
    hki_store_turned_away(server, text, sizeof text);
    assert_string_equal(text, "");
    assert_int_equal(hk_store_local(&other), HK_OK);
    hki_store_turned_away(other, text, sizeof text);
    assert_string_equal(text, "");
    hk_store_free(other);
    hk_store_free(server);
}

static void expect_bad_store(const char *text, const char *error)
{
    hk_options options = HK_OPTIONS_INIT;
    hki_boot *boot;
    setenv("HOCKET_STORE", text, 1);
    hki_settings_reset();
    assert_int_equal(hki_boot_by_settings(&options, &boot), HK_ERR_SETTING);
    assert_true(says(hk_last_error(), error));
}

static void what_is_no_store_says_what_would_be_one(void **state)
{
    (void)state;
    setenv("HOCKET_RANK", "0", 1);
    setenv("HOCKET_RANKS", "2", 1);
    expect_bad_store("", "HOCKET_STORE is not set");
    expect_bad_store("tcp://::1:29500", "in brackets: tcp://[::1]:29500");
    expect_bad_store("tcp://fe80::1:2:29500", "in brackets: tcp://[fe80::1:2]:29500");
    expect_bad_store("tcp://host:port", "HOCKET_STORE=tcp://host:port: tcp://host:port or file:directory is expected");
    expect_bad_store("tcp://host", "is expected");
    unsetenv("HOCKET_STORE");
    unsetenv("HOCKET_RANK");
    unsetenv("HOCKET_RANKS");
    unsetenv("HOCKET_JOINED");
    hki_settings_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_that_is_not_there_is_named),
        cmocka_unit_test(a_kernel_that_cannot_wait_ends_a_question_at_once),
        cmocka_unit_test(a_long_list_of_places_ends_in_how_many_more),
        cmocka_unit_test(who_was_turned_away_is_told_with_who_is_missing),
        cmocka_unit_test(without_strangers_none_are_told_of),
        cmocka_unit_test(what_is_no_store_says_what_would_be_one),
    };
    return cmocka_run_group_tests_name("boot_errors", tests, NULL, NULL);
}

/* What a plug-in must be to be accepted, and how an older one is completed. */
#include "comm/plugin.h"
#include "echo_transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const hk_transport_limits modest = {.eager_bytes = HK_TRANSPORT_WHOLE, .piece_bytes = 4096};

static void expect_refusal(const hk_transport_ops *ops, const char *part, const char *other_part)
{
    hk_transport_ops complete = {.name = "untouched"};
    assert_int_equal(hki_plugin_complete(ops, "echo", "FILE", &complete), HK_ERR_UNSUPPORTED);
    assert_non_null(strstr(hk_last_error(), part));
    assert_non_null(strstr(hk_last_error(), other_part));
    assert_non_null(strstr(hk_last_error(), "FILE"));
    assert_string_equal(complete.name, "untouched");
}

static void one_of_this_version_is_taken_as_it_is(void **state)
{
    (void)state;
    hk_transport_ops complete;
    assert_int_equal(hki_plugin_complete(&hk_transport_echo, "echo", "FILE", &complete), HK_OK);
    assert_memory_equal(&complete, &hk_transport_echo, sizeof complete);
}

/* This library's structure has grown since: what the older one does not have is not read from behind it. */
static void an_older_shorter_table_is_completed_with_null(void **state)
{
    (void)state;
    hk_transport_ops older = hk_transport_echo, needs;
    const size_t end = offsetof(hk_transport_ops, counters) + sizeof older.counters;
    memset(&needs, 0x5a, sizeof needs);
    memcpy(&needs, &older, offsetof(hk_transport_ops, alloc));
    needs.counters = older.counters;
    needs.size = end;
    hk_transport_ops complete;
    assert_int_equal(hki_plugin_complete(&needs, "echo", "FILE", &complete), HK_OK);
    needs.size = offsetof(hk_transport_ops, counters);
    expect_refusal(&needs, "lacks the function", "counters"); /* beyond its end lies no function, but 0x5a */
    needs.size = offsetof(hk_transport_ops, peek) + 1;        /* half a pointer is none either */
    expect_refusal(&needs, "size is", "sizeof");
}

static void other_versions_are_refused_and_both_named(void **state)
{
    (void)state;
    char theirs[32], ours[32];
    hk_transport_ops other = hk_transport_echo;
    other.abi = HK_TRANSPORT_ABI + 7;
    snprintf(theirs, sizeof theirs, "version %u of", other.abi);
    snprintf(ours, sizeof ours, "has version %u", HK_TRANSPORT_ABI);
    expect_refusal(&other, theirs, ours);
    other = hk_transport_echo;
    other.size = sizeof other + 8;
    snprintf(theirs, sizeof theirs, "take %zu bytes", other.size);
    snprintf(ours, sizeof ours, " %zu", sizeof other);
    expect_refusal(&other, theirs, ours);
    other.size = 3;
    expect_refusal(&other, "size is 3", "hk_transport_echo");
}

static void a_missing_function_is_named(void **state)
{
    (void)state;
    hk_transport_ops lacking = hk_transport_echo;
    lacking.link_state = NULL;
    expect_refusal(&lacking, "hk_transport_echo", "\"link_state\"");
    lacking = hk_transport_echo;
    lacking.name = "ohce";
    expect_refusal(&lacking, "hk_transport_echo", "\"ohce\"");
}

static void what_is_claimed_must_be_there(void **state)
{
    (void)state;
    hk_transport_limits limits = modest;
    assert_int_equal(hki_plugin_check_limits(&hk_transport_echo, &limits), HK_OK);
    limits.capabilities = HK_TRANSPORT_SLEEP;
    assert_int_equal(hki_plugin_check_limits(&hk_transport_echo, &limits), HK_ERR_TRANSPORT);
    assert_non_null(strstr(hk_last_error(), "\"sleep\""));
    limits.capabilities = HK_TRANSPORT_GET | HK_TRANSPORT_LOCAL;
    assert_int_equal(hki_plugin_check_limits(&hk_transport_echo, &limits), HK_ERR_TRANSPORT);
    assert_non_null(strstr(hk_last_error(), "\"describe\""));
    limits = modest;
    limits.eager_bytes--;
    assert_int_equal(hki_plugin_check_limits(&hk_transport_echo, &limits), HK_ERR_TRANSPORT);
    limits = modest;
    limits.piece_bytes = 0;
    assert_int_equal(hki_plugin_check_limits(&hk_transport_echo, &limits), HK_ERR_TRANSPORT);
}

static void names_that_are_paths_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"", "../echo", "a b", "echo.so", "a_name_that_is_much_too_long_to_be_one"};
    const hk_transport_ops *ops = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(hki_plugin_load(names[i], &ops), HK_ERR_SETTING);
        assert_non_null(strstr(hk_last_error(), "is not the name of a transport"));
    }
    assert_int_equal(hki_plugin_load("absent", &ops), HK_ERR_SETTING);
    assert_non_null(strstr(hk_last_error(), "libhocket_transport_absent.so"));
    assert_null(ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_this_version_is_taken_as_it_is),
        cmocka_unit_test(an_older_shorter_table_is_completed_with_null),
        cmocka_unit_test(other_versions_are_refused_and_both_named),
        cmocka_unit_test(a_missing_function_is_named),
        cmocka_unit_test(what_is_claimed_must_be_there),
        cmocka_unit_test(names_that_are_paths_are_refused),
    };
    return cmocka_run_group_tests_name("plugin", tests, NULL, NULL);
}

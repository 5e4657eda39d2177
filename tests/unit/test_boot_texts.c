/* What joining reads: key files, places, lines of a launcher, meeting points, questions to a store, agents' records. */
#include "base/settings.h"
#include "boot/boot.h"
#include "boot/kvs.h"
#include "boot/meeting.h"
#include "boot/store_wire.h"
#include "net/resolve.h"
#include "tools/run.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static bool says(const char *error, const char *text)
{
    if (!strstr(error, text))
        print_error("\"%s\" is not in: %s\n", text, error);
    return strstr(error, text) != NULL;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Key files
 * ------------------------------------------------------------------------------------------------------------- */

static hk_status join_with_file(const char *path, const char *text, mode_t mode)
{
    hki_boot *boot;
    hk_options options = HK_OPTIONS_INIT;
    if (text) {
        unlink(path);
        int fd = open(path, O_CREAT | O_WRONLY, 0600);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        assert_int_equal(fchmod(fd, mode), 0);
        close(fd);
    }
    setenv("HOCKET_KEY_FILE", path, 1);
    hki_settings_reset();
    hk_status status = hki_boot_join(&options, &boot);
    if (status == HK_OK) {
        assert_true(hki_boot_place(boot)->has_key);
        hki_boot_leave(boot);
    }
    return status;
}

static void key_files_must_be_private_and_long_enough(void **state)
{
    (void)state;
    char path[] = "/tmp/hocket-key-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(join_with_file(path, "0123456789abcdef0123456789abcdef\n", 0600), HK_OK);
    assert_int_equal(join_with_file(path, "0123456789abcdef0123456789abcdef\n", 0640), HK_ERR_REFUSED);
    assert_true(says(hk_last_error(), "chmod 600"));
    assert_int_equal(join_with_file(path, "short", 0600), HK_ERR_SETTING);
    assert_true(says(hk_last_error(), "fewer than 16"));
    char longer[80];
    memset(longer, 'x', sizeof longer);
    longer[70] = '\0';
    assert_int_equal(join_with_file(path, longer, 0600), HK_ERR_SETTING);
    assert_true(says(hk_last_error(), "more than 64"));
    unlink(path);
    assert_int_equal(join_with_file(path, NULL, 0), HK_ERR_SETTING);
    assert_true(says(hk_last_error(), path));
    assert_int_equal(join_with_file("/tmp", NULL, 0), HK_ERR_REFUSED);
    unsetenv("HOCKET_KEY_FILE");
    setenv("HOCKET_KEY", "my secret", 1);
    hki_settings_reset();
    hki_boot *boot;
    hk_options options = HK_OPTIONS_INIT;
    assert_int_equal(hki_boot_join(&options, &boot), HK_ERR_SETTING);
    assert_true(says(hk_last_error(), "no place for a key"));
    unsetenv("HOCKET_KEY");
    hki_settings_reset();
}

/* ---------------------------------------------------------------------------------------------------------------
 * Texts
 * ------------------------------------------------------------------------------------------------------------- */

static void places_are_read(void **state)
{
    (void)state;
    const struct {
        const char *text, *host; /* NULL: malformed */
        unsigned port;
    } cases[] = {{"node1:4000", "node1", 4000},
                 {"10.0.0.1:1", "10.0.0.1", 1},
                 {"[::1]:65535", "::1", 65535},
                 {"node1", "node1", 0},
                 {"[::1]", "::1", 0},
                 {"", NULL, 0},
                 {":4000", NULL, 0},
                 {"node1:", NULL, 0},
                 {"node1:0", NULL, 0},
                 {"node1:65536", NULL, 0},
                 {"node1:4000x", NULL, 0},
                 {"[::1", NULL, 0},
                 {"[node1]:4000", NULL, 0},
                 {"[::1]4000", NULL, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char host[HKI_HOST_TEXT];
        uint16_t port;
        bool good = hki_host_port_parse(cases[i].text, host, &port);
        if (good != (cases[i].host != NULL))
            print_error("%s\n", cases[i].text);
        assert_int_equal(good, cases[i].host != NULL);
        if (good) {
            assert_string_equal(host, cases[i].host);
            assert_int_equal(port, cases[i].port);
        }
    }
}

static void fields_of_pmi_lines_are_found_by_name(void **state)
{
    (void)state;
    char value[8];
    assert_true(hki_pmi_field("cmd=get_result rc=0 value=abc", "value", value, sizeof value));
    assert_string_equal(value, "abc");
    assert_true(hki_pmi_field("value=x cmd=y", "value", value, sizeof value));
    assert_string_equal(value, "x");
    assert_true(hki_pmi_field("cmd=x rc=", "rc", value, sizeof value));
    assert_string_equal(value, "");
    assert_false(hki_pmi_field("cmd=get_result myvalue=abc", "value", value, sizeof value));
    assert_false(hki_pmi_field("cmd=get_result value=12345678", "value", value, sizeof value));
    assert_false(hki_pmi_field("", "value", value, sizeof value));
    assert_false(hki_pmi_field("value", "value", value, sizeof value));
}

static void meeting_points_survive_being_text(void **state)
{
    (void)state;
    hki_meeting meeting = {.id = UINT64_C(0x0123456789abcdef), .count = 2}, read;
    char text[HKI_MEETING_TEXT];
    memset(meeting.key, 0xa5, sizeof meeting.key);
    assert_true(hki_address_parse("10.1.2.3", &meeting.at[0]));
    assert_true(hki_address_parse("fd00::7", &meeting.at[1]));
    meeting.at[0].port = meeting.at[1].port = 4242;
    hki_meeting_text(&meeting, text);
    assert_true(hki_meeting_parse(text, &read));
    assert_int_equal(read.id, meeting.id);
    assert_int_equal(read.count, 2);
    assert_memory_equal(read.key, meeting.key, sizeof read.key);
    for (int i = 0; i < 2; i++) {
        assert_true(hki_address_same_host(&read.at[i], &meeting.at[i]));
        assert_int_equal(read.at[i].port, 4242);
    }
    for (size_t cut = 1; cut < strlen(text); cut += 7) {
        char part[HKI_MEETING_TEXT];
        snprintf(part, sizeof part, "%.*s", (int)(strlen(text) - cut), text);
        assert_false(hki_meeting_parse(part, &read));
    }
    text[9] = 'f'; /* a count beyond what there is */
    assert_false(hki_meeting_parse(text, &read));
}

static void questions_are_read_whatever_pieces_they_come_in(void **state)
{
    (void)state;
    uint8_t text[HKI_STORE_HEADER + 3 + 5];
    hki_store_write_question(text, HKI_STORE_SET, 3, 5);
    memcpy(text + HKI_STORE_HEADER, "keyvalue", 8);
    for (size_t piece = 1; piece <= sizeof text; piece++) {
        hki_question question = {0};
        hki_question_state now = HKI_QUESTION_MORE;
        size_t at = 0;
        while (at < sizeof text) {
            size_t room;
            assert_int_equal(now, HKI_QUESTION_MORE);
            void *to = hki_question_room(&question, &room);
            room = room < piece ? room : piece;
            memcpy(to, text + at, room);
            at += room;
            now = hki_question_took(&question, room);
        }
        assert_int_equal(now, HKI_QUESTION_COMPLETE);
        assert_string_equal(question.key, "key");
        assert_memory_equal(question.body, "value", 5);
        hki_question_clear(&question);
    }
    const struct {
        uint32_t kind;
        size_t key_bytes;
        uint64_t argument;
    } bad[] = {{0, 3, 0}, {3, 3, 0}, {HKI_STORE_GET, 0, 0}, {HKI_STORE_GET, 65, 0}, {HKI_STORE_SET, 3, (1 << 20) + 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hki_question question = {0};
        size_t room;
        uint8_t *to = hki_question_room(&question, &room);
        assert_int_equal(room, HKI_STORE_HEADER);
        hki_store_write_question(to, bad[i].kind, bad[i].key_bytes, bad[i].argument);
        assert_int_equal(hki_question_took(&question, room), HKI_QUESTION_BAD);
        hki_question_clear(&question);
    }
}

static void records_survive_the_way_to_an_agent(void **state)
{
    (void)state;
    char *command[] = {"prog", "", "with space", NULL}, *settings[] = {"HOCKET_LOG=warn", NULL};
    run_record record = {
        .options = {.ranks = 3, .bind = RUN_BIND_CORE, .grace = 1.5, .tag_output = true, .command = command},
        .share = {.host = "b", .first = 2, .total = 5, .meeting = "a", .port = 20000, .ports = 16},
        .directory = "/tmp",
        .settings = settings};
    memset(record.share.key, 0x5a, sizeof record.share.key);
    size_t bytes;
    char *text = run_record_write(&record, &bytes);
    assert_non_null(text);
    assert_memory_equal(text, "HKR1", 4);
    for (size_t cut = 0; cut < bytes - 8; cut++) { /* whatever is missing at the end, it is noticed */
        char *copy = malloc(bytes - 8);
        run_record read;
        memcpy(copy, text + 8, bytes - 8);
        bool whole = run_record_read(copy, bytes - 8 - cut, &read);
        assert_int_equal(whole, cut == 0);
        if (whole) {
            assert_int_equal(read.options.ranks, 3);
            assert_int_equal(read.options.bind, RUN_BIND_CORE);
            assert_true(read.options.grace > 1.49 && read.options.grace < 1.51);
            assert_true(read.options.tag_output && !read.options.keep_going);
            assert_string_equal(read.options.command[2], "with space");
            assert_null(read.options.command[3]);
            assert_string_equal(read.settings[0], "HOCKET_LOG=warn");
            assert_null(read.settings[1]);
            assert_int_equal(read.share.first, 2);
            assert_int_equal(read.share.port, 20000);
            assert_memory_equal(read.share.key, record.share.key, sizeof read.share.key);
            run_record_free(&read);
        }
        free(copy);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key_files_must_be_private_and_long_enough),
        cmocka_unit_test(places_are_read),
        cmocka_unit_test(fields_of_pmi_lines_are_found_by_name),
        cmocka_unit_test(meeting_points_survive_being_text),
        cmocka_unit_test(questions_are_read_whatever_pieces_they_come_in),
        cmocka_unit_test(records_survive_the_way_to_an_agent),
    };
    return cmocka_run_group_tests_name("boot_texts", tests, NULL, NULL);
}

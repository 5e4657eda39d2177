/* JSON documents: read, made, written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"

#include <hocket/hocket.h>

static void values_are_found_by_kind(void **state)
{
    (void)state;
    const char text[] = "{\"a\": 3, \"b\": 1.5, \"c\": \"x\", \"d\": [1, 2, {\"e\": null}]}";
    hki_json *document = NULL;
    assert_int_equal(hki_json_parse(text, sizeof text - 1, "text", &document), HK_OK);
    int64_t integer = -1;
    double number = -1;
    assert_true(hki_json_integer(hki_json_member(document, "a"), &integer));
    assert_int_equal(integer, 3);
    assert_true(hki_json_number(hki_json_member(document, "a"), &number) && number == 3);
    assert_false(hki_json_integer(hki_json_member(document, "b"), &integer));
    assert_int_equal(integer, 3);
    assert_true(hki_json_number(hki_json_member(document, "b"), &number) && number == 1.5);
    assert_string_equal(hki_json_text(hki_json_member(document, "c")), "x");
    assert_null(hki_json_text(hki_json_member(document, "a")));
    const hki_json *list = hki_json_member(document, "d");
    assert_int_equal(hki_json_count(list), 3);
    assert_int_equal(hki_json_count(document), 0);
    assert_true(hki_json_integer(hki_json_item(list, 1), &integer) && integer == 2);
    assert_null(hki_json_item(list, 3));
    assert_null(hki_json_member(list, "a"));
    assert_null(hki_json_member(hki_json_member(document, "none"), "a"));
    hki_json_free(document);
}

static void what_is_no_document_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "{", "{\"a\": }", "{\"a\": 1, \"a\": 2}", "{} x", "{\"a\": 1e999}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        hki_json *document = NULL;
        assert_int_equal(hki_json_parse(texts[i], strlen(texts[i]), "some name", &document), HK_ERR_ARGUMENT);
        assert_null(document);
        assert_non_null(strstr(hk_last_error(), "some name"));
    }
    hki_json *document = NULL;
    assert_int_equal(hki_json_read("/nonexistent/file", &document), HK_ERR_SYSTEM);
    assert_non_null(strstr(hk_last_error(), "/nonexistent/file"));
}

static void what_is_written_is_read_again(void **state)
{
    (void)state;
    char path[] = "/tmp/hocket-json-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    hki_json *made = NULL, *document = NULL;
    assert_int_equal(hki_json_new(&made), HK_OK);
    hki_json_put_text(made, "name", "quote \" and \xc3\xa4");
    hki_json *list = hki_json_put_array(made, "list");
    for (int i = 0; i < 3; i++)
        hki_json_put_integer(hki_json_add_object(list), "i", i);
    hki_json_put_number(hki_json_put_object(made, "part"), "x", 0.25);
    hki_json_put_number(made, "none", (double)NAN);
    assert_int_equal(hki_json_write(made, path), HK_OK);
    hki_json_free(made);
    assert_int_equal(hki_json_read(path, &document), HK_OK);
    assert_string_equal(hki_json_text(hki_json_member(document, "name")), "quote \" and \xc3\xa4");
    int64_t integer = -1;
    assert_true(hki_json_integer(hki_json_member(hki_json_item(hki_json_member(document, "list"), 2), "i"), &integer));
    assert_int_equal(integer, 2);
    double number = 0;
    assert_true(hki_json_number(hki_json_member(hki_json_member(document, "part"), "x"), &number) && number == 0.25);
    assert_non_null(hki_json_member(document, "none"));
    assert_false(hki_json_number(hki_json_member(document, "none"), &number));
    hki_json_free(document);
    unlink(path);
    assert_int_equal(hki_json_new(&made), HK_OK);
    assert_int_equal(hki_json_write(made, "/nonexistent/file"), HK_ERR_SYSTEM);
    hki_json_free(made);
}

static void whether_a_file_can_be_written_is_told_without_harm(void **state)
{
    (void)state;
    char folder[] = "/tmp/hocket-json-XXXXXX", path[64], text[8] = "";
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    assert_int_equal(hki_json_may_write(path), HK_OK);
    assert_int_equal(access(path, F_OK), -1);
    FILE *file = fopen(path, "we");
    assert_true(file && fputs("kept", file) >= 0 && fclose(file) == 0);
    assert_int_equal(hki_json_may_write(path), HK_OK);
    file = fopen(path, "re");
    assert_true(file && fread(text, 1, sizeof text - 1, file) == 4 && fclose(file) == 0);
    assert_string_equal(text, "kept");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing else is left there */
    assert_int_equal(hki_json_may_write(path), HK_ERR_SYSTEM);
    assert_non_null(strstr(hk_last_error(), path));
    assert_int_equal(hki_json_may_write("/dev/full"), HK_ERR_SYSTEM);
    assert_int_equal(hki_json_may_write("/dev/null"), HK_OK);
}

static void what_is_no_file_is_written_to_and_stays(void **state)
{
    (void)state;
    char folder[] = "/tmp/hocket-json-XXXXXX", path[64], text[3] = "";
    struct stat status;
    hki_json *made = NULL;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    int pipe = open(path, O_RDWR | O_NONBLOCK);
    assert_true(pipe >= 0);
    assert_int_equal(hki_json_may_write(path), HK_OK);
    assert_int_equal(read(pipe, text, sizeof text), -1); /* nothing yet */
    assert_int_equal(hki_json_new(&made), HK_OK);
    assert_int_equal(hki_json_write(made, path), HK_OK);
    hki_json_free(made);
    assert_true(read(pipe, text, 2) == 2);
    assert_string_equal(text, "{}");
    assert_true(stat(path, &status) == 0 && S_ISFIFO(status.st_mode));
    close(pipe);
    unlink(path);
    rmdir(folder);
}

/* A build or a host without jansson says so; nothing to test then. */
static bool have_jansson(void)
{
    hki_json *made = NULL;
    hk_status status = hki_json_new(&made);
    if (status == HK_OK)
        hki_json_free(made);
    return status == HK_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_found_by_kind),
        cmocka_unit_test(what_is_no_document_is_refused),
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(whether_a_file_can_be_written_is_told_without_harm),
        cmocka_unit_test(what_is_no_file_is_written_to_and_stays),
    };
    return have_jansson() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}

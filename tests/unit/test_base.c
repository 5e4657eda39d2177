/* The base layer: status texts, the thread's last error, log lines, settings, lists. */
#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/words.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct log_lines {
    unsigned count;
    hk_log_level level;
    char last[2048];
} log_lines;

static void collect(hk_log_level level, const char *line, void *context)
{
    log_lines *lines = context;
    lines->count++;
    lines->level = level;
    snprintf(lines->last, sizeof lines->last, "%s", line);
}

/* Every test starts and ends with none of the settings given. */
static int forget_settings(void **state)
{
    (void)state;
    size_t count;
    const hki_setting *settings = hki_settings(&count);
    for (size_t i = 0; i < count; i++)
        unsetenv(settings[i].name);
    hk_set_log(NULL, HK_LOG_NONE, NULL);
    hki_log_identity("");
    hki_settings_reset();
    return 0;
}

static void set(const char *name, const char *value)
{
    setenv(name, value, 1);
    hki_settings_reset();
}

static void every_status_has_a_name_and_a_text(void **state)
{
    (void)state;
    assert_string_equal(hk_status_name(HK_ERR_TIMEOUT), "HK_ERR_TIMEOUT");
    assert_string_equal(hk_status_string(HK_OK), "success");
    assert_non_null(hk_status_string((hk_status)9999));
    assert_string_equal(hk_status_name((hk_status)9999), "unknown status");
}

static void version_text_and_numbers_agree(void **state)
{
    (void)state;
    int major, minor, patch;
    char text[64];
    const char *version = hk_version(&major, &minor, &patch);
    snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
    assert_string_equal(version, text);
    assert_string_equal(hk_version(NULL, NULL, NULL), text);
}

static void an_error_is_recorded_and_returned(void **state)
{
    (void)state;
    assert_int_equal(hki_error(HK_ERR_ROOT, "root %d of %d", 7, 4), HK_ERR_ROOT);
    assert_string_equal(hk_last_error(), "root 7 of 4");
    assert_int_equal(hki_error_errno(HK_ERR_SYSTEM, 2, "open %s", "x"), HK_ERR_SYSTEM);
    assert_string_equal(hk_last_error(), "open x: No such file or directory");
}

static void an_error_may_quote_the_last_one(void **state)
{
    (void)state;
    hki_error(HK_ERR_SYSTEM, "cause");
    hki_error(HK_ERR_BOOTSTRAP, "join failed: %s", hk_last_error());
    assert_string_equal(hk_last_error(), "join failed: cause");
    hki_error_set(HK_ERR_SYSTEM, hk_last_error() + 13);
    assert_string_equal(hk_last_error(), "cause");
}

static void a_long_error_is_cut_at_a_whole_character(void **state)
{
    (void)state;
    char text[3000] = "";
    for (size_t i = 0; i + 2 < sizeof text; i += 2)
        memcpy(text + i, "é", 3);
    for (int shift = 0; shift < 2; shift++) {
        hki_error(HK_ERR_SYSTEM, "%s%s", shift ? "x" : "", text);
        size_t length = strlen(hk_last_error());
        assert_in_range(length, 1000, 1023);
        assert_string_equal(hk_last_error() + length - 3, "…");
        assert_memory_equal(hk_last_error() + length - 5, "é", 2);
    }
}

static void *error_of_another_thread(void *seen)
{
    snprintf(seen, 64, "%s", hk_last_error());
    hki_error(HK_ERR_SYSTEM, "theirs");
    return NULL;
}

static void the_last_error_belongs_to_its_thread(void **state)
{
    (void)state;
    char seen[64] = "?";
    pthread_t thread;
    hki_error(HK_ERR_SYSTEM, "mine");
    assert_int_equal(pthread_create(&thread, NULL, error_of_another_thread, seen), 0);
    pthread_join(thread, NULL);
    assert_string_equal(seen, "");
    assert_string_equal(hk_last_error(), "mine");
}

/* Runs `writer` with standard error redirected; returns what was written. */
static const char *standard_error_of(void (*writer)(void))
{
    static char text[4096];
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);
    assert_non_null(file);
    dup2(fileno(file), STDERR_FILENO);
    writer();
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void write_two_lines(void)
{
    hki_log(HK_LOG_WARN, "careful %d", 1);
    hki_log(HK_LOG_INFO, "by the way");
}

static void nothing_is_printed_unless_asked(void **state)
{
    (void)state;
    assert_string_equal(standard_error_of(write_two_lines), "");
    assert_false(hki_log_wants(HK_LOG_ERROR));
    set("HOCKET_LOG", "warn");
    assert_true(hki_log_wants(HK_LOG_WARN));
    assert_false(hki_log_wants(HK_LOG_INFO));
    assert_string_equal(standard_error_of(write_two_lines), "hocket warn: careful 1\n");
    hki_log_identity("rank 3 @ here");
    set("HOCKET_LOG", "Info");
    assert_string_equal(standard_error_of(write_two_lines), "hocket warn: [rank 3 @ here] careful 1\n"
                                                            "hocket info: [rank 3 @ here] by the way\n");
}

static void log_lines_go_to_the_callers_function(void **state)
{
    (void)state;
    log_lines lines = {0};
    hk_set_log(collect, HK_LOG_WARN, &lines);
    assert_string_equal(standard_error_of(write_two_lines), "");
    assert_int_equal(lines.count, 1);
    assert_int_equal(lines.level, HK_LOG_WARN);
    assert_string_equal(lines.last, "careful 1");
    hki_settings_reset();
    assert_true(hki_log_wants(HK_LOG_WARN));
    hk_set_log(NULL, HK_LOG_DEBUG, NULL);
    assert_false(hki_log_wants(HK_LOG_ERROR));
}

static void a_long_line_is_cut(void **state)
{
    (void)state;
    log_lines lines = {0};
    hk_set_log(collect, HK_LOG_DEBUG, &lines);
    hki_log_identity("me");
    hki_log(HK_LOG_INFO, "%0*d", 5000, 0);
    assert_in_range(strlen(lines.last), 1400, 1600);
}

static void bytes_are_parsed_with_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},          {"100", 100},        {"64K", 65536},         {"64k", 65536},
                {"1.5M", 1572864}, {"2G", 2147483648u}, {"1Ti", 1099511627776}, {"8KiB", 8192},
                {"10B", 10},       {"1e3", 1000},       {"0.5K", 512}};
    static const char *const bad[] = {"", "K", "-1", "1Q", "1 ", "64KK", "1.2.3", "0x10", "5e9G", "1 K"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t bytes = 77;
        assert_true(hki_parse_bytes(good[i].text, &bytes));
        assert_int_equal(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t bytes = 77;
        if (hki_parse_bytes(bad[i], &bytes))
            fail_msg("\"%s\" was read as %llu bytes", bad[i], (unsigned long long)bytes);
        assert_int_equal(bytes, 77);
    }
}

static void defaults_hold_until_given(void **state)
{
    (void)state;
    assert_true(hki_setting_seconds(HKI_SET_TIMEOUT) == 1800);
    assert_int_equal(hki_setting_integer(HKI_SET_PLAN_CACHE), 4 << 20);
    assert_string_equal(hki_setting_text(HKI_SET_KERNELS), "auto");
    assert_false(hki_setting_given(HKI_SET_TIMEOUT));
    set("HOCKET_TIMEOUT", "2.5");
    set("HOCKET_PLAN_CACHE", "1M");
    set("HOCKET_VERIFY", "yes");
    set("HOCKET_SPIN", "-1");
    assert_true(hki_setting_seconds(HKI_SET_TIMEOUT) == 2.5);
    assert_int_equal(hki_setting_integer(HKI_SET_PLAN_CACHE), 1 << 20);
    assert_int_equal(hki_setting_integer(HKI_SET_VERIFY), 1);
    assert_int_equal(hki_setting_integer(HKI_SET_SPIN), -1);
    assert_true(hki_setting_given(HKI_SET_TIMEOUT));
    assert_int_equal(hki_settings_check(), HK_OK);
}

static void every_default_is_valid_and_every_setting_has_help(void **state)
{
    (void)state;
    size_t count;
    const hki_setting *settings = hki_settings(&count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(strncmp(settings[i].name, "HOCKET_", 7), 0);
        assert_true(strlen(settings[i].help) > 10);
        if (settings[i].type != HKI_SETTING_TEXT)
            set(settings[i].name, settings[i].standard);
    }
    assert_int_equal(hki_settings_check(), HK_OK);
}

static void a_bad_value_is_an_error_that_names_it(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value;
    } bad[] = {{"HOCKET_TIMEOUT", "soon"}, {"HOCKET_TIMEOUT", "-1"},     {"HOCKET_SPIN", "1.5"},
               {"HOCKET_VERIFY", "maybe"}, {"HOCKET_PLAN_CACHE", "4Z"},  {"HOCKET_LOG", "loud"},
               {"HOCKET_SPIN", "-2"},      {"HOCKET_JOIN_TIMEOUT", "0"}, {"HOCKET_TIMEOUT", "2,5"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        set(bad[i].name, bad[i].value);
        assert_int_equal(hki_settings_check(), HK_ERR_SETTING);
        assert_non_null(strstr(hk_last_error(), bad[i].name));
        assert_non_null(strstr(hk_last_error(), bad[i].value));
        unsetenv(bad[i].name);
    }
    set("HOCKET_TIMEOUT", "soon");
    assert_true(hki_setting_seconds(HKI_SET_TIMEOUT) == 1800);
    set("HOCKET_TIMEOUT", "");
    assert_int_equal(hki_settings_check(), HK_OK);
}

static void an_unknown_name_is_reported_with_the_nearest(void **state)
{
    (void)state;
    log_lines lines = {0};
    hk_set_log(collect, HK_LOG_WARN, &lines);
    assert_int_equal(hki_settings_check(), HK_OK);
    unsigned before = lines.count;
    setenv("HOCKET_TIMOUT", "3", 1);
    assert_int_equal(hki_settings_check(), HK_OK);
    unsetenv("HOCKET_TIMOUT");
    assert_int_equal(lines.count, before + 1);
    assert_non_null(strstr(lines.last, "HOCKET_TIMOUT"));
    assert_non_null(strstr(lines.last, "did you mean HOCKET_TIMEOUT"));
    setenv("HOCKET_ENTIRELY_DIFFERENT", "3", 1);
    hki_settings_check();
    unsetenv("HOCKET_ENTIRELY_DIFFERENT");
    assert_int_equal(lines.count, before + 2);
    assert_null(strstr(lines.last, "did you mean"));
}

static void ranks_compare_what_must_agree_and_nothing_else(void **state)
{
    (void)state;
    hki_agreed_setting standard[HKI_SETTINGS_AGREED], now[HKI_SETTINGS_AGREED];
    size_t count, at, agreed = 0;
    const hki_setting *settings = hki_settings(&count);
    hki_settings_tell(standard);
    for (size_t i = 0; i < count; i++) {
        char number[32];
        snprintf(number, sizeof number, "%.0f", settings[i].low > 1 ? settings[i].low : 1);
        set(settings[i].name, settings[i].type == HKI_SETTING_TEXT ? "warn" : number);
        hki_settings_tell(now);
        const hki_setting *differs = hki_settings_differ(standard, now, &at);
        assert_ptr_equal(differs, settings[i].agree ? &settings[i] : NULL);
        assert_true(!differs || (at == agreed && strcmp(now[at].text, hki_setting_text((hki_setting_id)i)) == 0));
        agreed += settings[i].agree;
        unsetenv(settings[i].name);
    }
    assert_int_equal(agreed, HKI_SETTINGS_AGREED);
    set("HOCKET_VERIFY", "no");
    hki_settings_tell(now);
    assert_null(hki_settings_differ(standard, now, &at));
}

static void long_settings_differ_beyond_what_is_told_of_them(void **state)
{
    (void)state;
    hki_agreed_setting one[HKI_SETTINGS_AGREED], other[HKI_SETTINGS_AGREED];
    char text[200];
    size_t at;
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    set("HOCKET_ALGORITHM", text);
    hki_settings_tell(one);
    text[sizeof text - 2] = 'y';
    set("HOCKET_ALGORITHM", text);
    hki_settings_tell(other);
    assert_non_null(hki_settings_differ(one, other, &at));
    assert_string_equal(one[at].text + strlen(one[at].text) - 4, "x...");
    unsetenv("HOCKET_ALGORITHM");
    hki_settings_reset();
}

static void a_kept_text_survives_a_change_of_the_environment(void **state)
{
    (void)state;
    set("HOCKET_KERNELS", "reference");
    const char *kept = hki_setting_text(HKI_SET_KERNELS);
    set("HOCKET_KERNELS", "avx2");
    assert_string_equal(kept, "reference");
    assert_string_equal(hki_setting_text(HKI_SET_KERNELS), "avx2");
}

static void *use_everything(void *sum)
{
    for (int i = 0; i < 200; i++) {
        *(int64_t *)sum += hki_setting_integer(HKI_SET_PLAN_CACHE);
        hki_log(HK_LOG_INFO, "line %d", i);
        hki_error(HK_ERR_SYSTEM, "error %d", i);
    }
    return NULL;
}

static void threads_read_settings_and_log_at_once(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    int64_t sums[THREADS] = {0};
    log_lines lines = {0};
    hk_set_log(collect, HK_LOG_INFO, &lines);
    set("HOCKET_PLAN_CACHE", "3");
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_everything, &sums[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(sums[i], 600);
    }
    assert_int_equal(lines.count, THREADS * 200);
}

typedef struct gate {
    sem_t inside, leave;
} log_gate;

/* A log function that stays inside until it may leave. */
static void wait_inside(hk_log_level level, const char *line, void *context)
{
    (void)level;
    (void)line;
    log_gate *gate = context;
    sem_post(&gate->inside);
    sem_wait(&gate->leave);
}

static void *log_one_line(void *unused)
{
    (void)unused;
    hki_log(HK_LOG_INFO, "long");
    return NULL;
}

static void *open_later(void *context)
{
    usleep(20000);
    sem_post(&((log_gate *)context)->leave);
    return NULL;
}

/* fork waits for the line that another thread is writing, so that the child does not find the lock taken for ever. */
static void a_child_forked_while_a_line_is_written_can_log(void **state)
{
    (void)state;
    log_gate gate;
    pthread_t writer, opener;
    sem_init(&gate.inside, 0, 0);
    sem_init(&gate.leave, 0, 0);
    hk_set_log(wait_inside, HK_LOG_INFO, &gate);
    assert_int_equal(pthread_create(&writer, NULL, log_one_line, NULL), 0);
    sem_wait(&gate.inside);
    assert_int_equal(pthread_create(&opener, NULL, open_later, &gate), 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(5);
        hk_set_log(NULL, HK_LOG_NONE, NULL);
        _exit(42);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    pthread_join(writer, NULL);
    pthread_join(opener, NULL);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

static void word_distance_counts_slips(void **state)
{
    (void)state;
    assert_int_equal(hki_word_distance("bench", 5, "bench"), 0);
    assert_int_equal(hki_word_distance("bnch", 4, "bench"), 1);
    assert_int_equal(hki_word_distance("kitten", 6, "sitting"), 3);
    assert_int_equal(hki_word_distance("", 0, "run"), 3);
    assert_int_equal(hki_word_distance("running", 3, "run"), 0);
    char word[100];
    memset(word, 'x', sizeof word);
    assert_int_equal(hki_word_distance(word, sizeof word, "run"), 64);
}

typedef struct item {
    int value;
    hki_node node;
} item;

static void a_list_keeps_order_and_removes_safely(void **state)
{
    (void)state;
    hki_node head;
    item items[4];
    hki_list_init(&head);
    assert_true(hki_list_empty(&head));
    for (int i = 0; i < 4; i++) {
        items[i].value = i;
        hki_list_append(&head, &items[i].node);
    }
    hki_list_each_safe (node, following, &head) {
        if (hki_list_entry(node, item, node)->value % 2 == 0)
            hki_list_remove(node);
    }
    hki_list_remove(&items[0].node);
    int expected = 1;
    hki_list_each (node, &head) {
        assert_int_equal(hki_list_entry(node, item, node)->value, expected);
        expected += 2;
    }
    assert_int_equal(expected, 5);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, forget_settings, forget_settings)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_status_has_a_name_and_a_text),
        TEST(version_text_and_numbers_agree),
        TEST(an_error_is_recorded_and_returned),
        TEST(an_error_may_quote_the_last_one),
        TEST(a_long_error_is_cut_at_a_whole_character),
        TEST(the_last_error_belongs_to_its_thread),
        TEST(nothing_is_printed_unless_asked),
        TEST(log_lines_go_to_the_callers_function),
        TEST(a_long_line_is_cut),
        TEST(bytes_are_parsed_with_units),
        TEST(defaults_hold_until_given),
        TEST(every_default_is_valid_and_every_setting_has_help),
        TEST(a_bad_value_is_an_error_that_names_it),
        TEST(an_unknown_name_is_reported_with_the_nearest),
        TEST(ranks_compare_what_must_agree_and_nothing_else),
        TEST(long_settings_differ_beyond_what_is_told_of_them),
        TEST(a_kept_text_survives_a_change_of_the_environment),
        TEST(threads_read_settings_and_log_at_once),
        TEST(a_child_forked_while_a_line_is_written_can_log),
        TEST(word_distance_counts_slips),
        TEST(a_list_keeps_order_and_removes_safely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

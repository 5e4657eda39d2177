/*
 * That ThreadSanitizer is content with the rings' memory order, and would not be if the store that publishes a line
 * were weaker: builds test_shm_ring.c twice, and runs both.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/hocket-race-XXXXXX";

/* The source tree, from this file's own name. */
static void source_root(char *root, size_t bytes)
{
    snprintf(root, bytes, "%s", __FILE__);
    char *tail = strstr(root, "tests/unit/test_shm_race.c");
    assert_non_null(tail);
    *tail = '\0';
    if (root[0] == '\0')
        snprintf(root, bytes, "./");
}

static int run(const char *command)
{
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Exit status of the ring's test under ThreadSanitizer, which is 66 when a race was reported. 77: cannot be built. */
static int run_under_tsan(const char *definition)
{
    char root[1024], command[4096];
    source_root(root, sizeof root);
    const char *compiler = getenv("CC");
    if (setenv("RACE_ROOT", root, 1) != 0 || setenv("RACE_CC", compiler != NULL ? compiler : "cc", 1) != 0)
        return 77;
    snprintf(command, sizeof command,
             "cd $RACE_ROOT && $RACE_CC -std=gnu17 -D_GNU_SOURCE -O1 -g -fsanitize=thread -DRING_MESSAGES=20000 %s "
             "-Iinclude -Isrc -I. -o %s/ring tests/unit/test_shm_ring.c transports/shm/segment.c -lcmocka -lpthread "
             ">%s/log 2>&1",
             definition, folder, folder);
    if (run(command) != 0)
        return 77;
    snprintf(command, sizeof command, "cd %s && TSAN_OPTIONS='exitcode=66 halt_on_error=1' timeout 60 ./ring >log 2>&1",
             folder);
    return run(command);
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return run(command);
}

/* A machine without the sanitizer's runtime (or with addresses it cannot live with) skips; a race is never skipped. */
static void the_order_as_written_holds(void **state)
{
    (void)state;
    int status = run_under_tsan("");
    if (status == 77)
        skip();
    assert_int_equal(status, 0);
}

static void one_weakened_release_store_is_reported(void **state)
{
    (void)state;
    int status = run_under_tsan("-DHKI_WEAKEN_RELEASE");
    if (status == 77)
        skip();
    assert_int_equal(status, 66);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_as_written_holds),
        cmocka_unit_test(one_weakened_release_store_is_reported),
    };
    return cmocka_run_group_tests_name("shm race", tests, set_up, tear_down);
}

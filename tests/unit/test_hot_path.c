/*
 * The price of one small all-reduce in instructions of one rank: entry point, arguments, plan, executor, messages and
 * kernel, over a transport that costs next to nothing. A count is exact, so unlike a time it can be held in a test.
 */
#include "echo_transport.h"

#include "comm/inspect.h"
#include "comm/transports.h"

#include <hocket/store.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { LIMIT = 350, FEW = 1000, MANY = 3000 };

static hk_store *store;

static void *join(void *argument)
{
    hk_options options = HK_OPTIONS_INIT;
    options.rank = *(int *)argument;
    options.ranks = 2;
    options.store = store;
    hk_comm *comm = NULL;
    return hk_comm_create(&options, &comm) == HK_OK ? comm : NULL;
}

/* Both ranks join; afterwards rank 0 works alone, against its own echo. */
static hk_comm *join_both(hk_comm **other)
{
    static int ranks[2] = {0, 1};
    pthread_t thread;
    void *second = NULL;
    if (!hki_transports_add(&hk_transport_echo) || hk_store_local(&store) != HK_OK ||
        pthread_create(&thread, NULL, join, &ranks[1]) != 0)
        return NULL;
    hk_comm *first = join(&ranks[0]);
    pthread_join(thread, &second);
    *other = second;
    return first;
}

static int loop(int calls)
{
    hk_comm *other, *comm = join_both(&other);
    float in[2] = {1, 2}, out[2] = {0, 0};
    if (!comm)
        return 1;
    for (int i = 0; i < calls; i++) {
        if (hk_allreduce(in, out, 2, HK_FLOAT32, HK_SUM, comm) != HK_OK)
            return 1;
    }
    bool right = out[0] == 2 && out[1] == 4 && strcmp(hki_comm_transport(comm, 1), "echo") == 0;
    hk_comm_free(comm);
    hk_comm_free(other);
    hk_store_free(store);
    return right ? 0 : 1;
}

/* Instructions within hk_allreduce in a run of this program with so many calls; 0 if valgrind is not there. */
static unsigned long long count_instructions(int calls)
{
    char self[4096], command[8192];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    snprintf(
        command, sizeof command,
        "valgrind --tool=callgrind --toggle-collect=hk_allreduce --callgrind-out-file=/dev/null '%s' loop %d 2>&1 | "
        "sed -n 's/.*Collected : //p'",
        self, calls);
    FILE *pipe = popen(command, "r");
    unsigned long long count = 0;
    assert_non_null(pipe);
    if (fscanf(pipe, "%llu", &count) != 1)
        count = 0;
    pclose(pipe);
    return count;
}

static void small_allreduce_takes_few_instructions(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
    skip();
#endif
    if (system("valgrind --version > /dev/null 2>&1") != 0) {
        print_message("SKIPPED: valgrind is not installed\n");
        skip();
    }
    unsigned long long few = count_instructions(FEW), many = count_instructions(MANY);
    assert_true(few > 0 && many > few);
    double each = (double)(many - few) / (MANY - FEW);
    print_message("%.1f instructions a rank for an all-reduce of 8 bytes between 2 ranks (limit %d)\n", each, LIMIT);
    assert_true(each <= LIMIT);
}

static void echoed_allreduce_is_right(void **state)
{
    (void)state;
    assert_int_equal(loop(10), 0);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "loop") == 0)
        return loop(atoi(argv[2]));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(echoed_allreduce_is_right),
        cmocka_unit_test(small_allreduce_takes_few_instructions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

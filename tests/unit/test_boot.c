/* Finding each other through stores: threads as ranks. */
#include "base/clock.h"
#include "base/error.h"
#include "base/settings.h"
#include "boot/boot.h"
#include "boot/ranks.h"

#include <hocket/store.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS_MAX = 16 };

/* One rank's joining and exchanges, as a thread. */
typedef struct member {
    hk_options options;
    size_t bytes;   /* of the second exchange */
    double timeout; /* of the second exchange */
    bool leaves;    /* after joining, before the second exchange */
    hk_status joined, exchanged;
    hki_place place;
    char error[512];
    bool right; /* what it got */
} member;

static void *member_main(void *argument)
{
    member *self = argument;
    hki_boot *boot;
    self->joined = hki_boot_join(&self->options, &boot);
    if (self->joined != HK_OK) {
        snprintf(self->error, sizeof self->error, "%s", hk_last_error());
        return NULL;
    }
    self->place = *hki_boot_place(boot);
    if (!self->leaves) {
        size_t ranks = (size_t)self->options.ranks;
        char *mine = malloc(self->bytes + 1), *all = malloc(ranks * self->bytes + 1);
        memset(mine, 'A' + self->options.rank, self->bytes);
        self->exchanged = hki_boot_exchange(boot, mine, self->bytes, all, self->timeout);
        self->right = true;
        for (size_t i = 0; self->exchanged == HK_OK && i < ranks * self->bytes; i++)
            self->right &= all[i] == (char)('A' + i / self->bytes);
        if (self->exchanged != HK_OK)
            snprintf(self->error, sizeof self->error, "%s", hk_last_error());
        free(mine);
        free(all);
    }
    hki_boot_leave(boot);
    return NULL;
}

/* Members 0 … ranks-1 of one job with good options. */
static void make_members(member *members, int ranks, const hk_store *store)
{
    for (int rank = 0; rank < ranks; rank++) {
        hk_options options = HK_OPTIONS_INIT;
        options.rank = rank;
        options.ranks = ranks;
        options.store = store;
        members[rank] = (member){.options = options, .bytes = 100, .timeout = 10};
    }
}

static void run_members(member *members, int count)
{
    pthread_t threads[RANKS_MAX];
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, member_main, &members[i]), 0);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static void assert_all_joined(const member *members, int ranks)
{
    for (int rank = 0; rank < ranks; rank++) {
        if (members[rank].error[0])
            print_error("rank %d: %s\n", rank, members[rank].error);
        assert_int_equal(members[rank].joined, HK_OK);
        assert_int_equal(members[rank].exchanged, HK_OK);
        assert_true(members[rank].right);
        assert_int_equal(members[rank].place.rank, rank);
        assert_int_equal(members[rank].place.ranks, ranks);
        assert_true(members[rank].place.has_key);
        assert_memory_equal(members[rank].place.key, members[0].place.key, HKI_KEY_BYTES);
    }
}

static bool says(const char *error, const char *text)
{
    if (!strstr(error, text))
        print_error("\"%s\" is not in: %s\n", text, error);
    return strstr(error, text) != NULL;
}

/* ---------------------------------------------------------------------------------------------------------------
 * A store as a framework may have it: sets overwrite silently, errors are not recorded, keys are counted
 * ------------------------------------------------------------------------------------------------------------- */

typedef struct plain_store {
    hk_store store;
    hk_store *inner;
    char seen[256][80]; /* keys set */
    int sets, waits;
    pthread_mutex_t lock;
} plain_store;

static hk_status plain_set(void *context, const char *key, const void *value, size_t bytes)
{
    plain_store *self = context;
    char versioned[80];
    pthread_mutex_lock(&self->lock);
    int version = 0;
    for (int i = 0; i < self->sets; i++)
        version += strcmp(self->seen[i], key) == 0;
    snprintf(self->seen[self->sets++], sizeof self->seen[0], "%s", key);
    snprintf(versioned, sizeof versioned, "%.50s#%d", key, version);
    hk_status status = self->inner->set(self->inner->context, versioned, value, bytes);
    pthread_mutex_unlock(&self->lock);
    return status;
}

/* Gets the latest version there is. */
static hk_status plain_get(void *context, const char *key, void *value, size_t *bytes, double timeout)
{
    plain_store *self = context;
    char versioned[80];
    snprintf(versioned, sizeof versioned, "%.50s#0", key);
    size_t capacity = *bytes;
    hk_status status = self->inner->get(self->inner->context, versioned, value, bytes, timeout);
    for (int version = 1; status == HK_OK; version++) {
        size_t length = capacity;
        snprintf(versioned, sizeof versioned, "%.50s#%d", key, version);
        if (self->inner->get(self->inner->context, versioned, value, &length, 0) != HK_OK)
            break;
        *bytes = length;
    }
    return status;
}

static hk_status plain_wait(void *context, const char *const *keys, size_t count, double timeout)
{
    plain_store *self = context;
    pthread_mutex_lock(&self->lock);
    self->waits++;
    pthread_mutex_unlock(&self->lock);
    for (size_t i = 0; i < count; i++) {
        char value[4096];
        size_t bytes = sizeof value;
        HK_TRY(plain_get(context, keys[i], value, &bytes, timeout));
    }
    return HK_OK;
}

static void plain_open(plain_store *self)
{
    *self = (plain_store){.lock = PTHREAD_MUTEX_INITIALIZER};
    assert_int_equal(hk_store_local(&self->inner), HK_OK);
    self->store = (hk_store){sizeof(hk_store), self, plain_set, plain_get, plain_wait};
}

/* ---------------------------------------------------------------------------------------------------------------
 * Stores
 * ------------------------------------------------------------------------------------------------------------- */

static void store_rules(hk_store *store)
{
    char value[16];
    size_t bytes = sizeof value;
    uint64_t start = hki_now();
    assert_int_equal(store->get(store->context, "job/0/1", value, &bytes, 0.05), HK_ERR_TIMEOUT);
    assert_in_range(hki_now() - start, 50000000, 1000000000);
    assert_true(says(hk_last_error(), "job/0/1"));
    assert_int_equal(store->set(store->context, "job/0/1", "value", 5), HK_OK);
    assert_int_equal(store->set(store->context, "job/0/1", "other", 5), HK_ERR_REFUSED);
    bytes = sizeof value;
    assert_int_equal(store->get(store->context, "job/0/1", value, &bytes, 0), HK_OK);
    assert_int_equal(bytes, 5);
    assert_memory_equal(value, "value", 5);
    bytes = 4;
    assert_int_equal(store->get(store->context, "job/0/1", value, &bytes, 0), HK_ERR_TRUNCATED);
    assert_int_equal(bytes, 4);
    assert_int_equal(store->set(store->context, "job/0/2", NULL, 0), HK_OK);
    bytes = sizeof value;
    assert_int_equal(store->get(store->context, "job/0/2", value, &bytes, 0), HK_OK);
    assert_int_equal(bytes, 0);
    assert_int_equal(store->set(store->context, "", "v", 1), HK_ERR_ARGUMENT);
    assert_int_equal(store->set(store->context, "white space", "v", 1), HK_ERR_ARGUMENT);
    char longest[70];
    memset(longest, 'k', sizeof longest);
    longest[65] = '\0';
    assert_int_equal(store->set(store->context, longest, "v", 1), HK_ERR_ARGUMENT);
    longest[64] = '\0';
    assert_int_equal(store->set(store->context, longest, "v", 1), HK_OK);
    static const char *const awkward[] = {"..", "../up", ".new-1", "%2F", "/", "a%2Fb"};
    for (size_t i = 0; i < sizeof awkward / sizeof *awkward; i++)
        assert_int_equal(store->set(store->context, awkward[i], &i, sizeof i), HK_OK);
    for (size_t i = 0, got; i < sizeof awkward / sizeof *awkward; i++) {
        bytes = sizeof got;
        assert_int_equal(store->get(store->context, awkward[i], &got, &bytes, 0), HK_OK);
        assert_int_equal(got, i);
    }
}

static char directory[64];

static int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/hocket-test-XXXXXX");
    return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

static void the_local_store_keeps_the_rules(void **state)
{
    (void)state;
    hk_store *store;
    assert_int_equal(hk_store_local(&store), HK_OK);
    store_rules(store);
    hk_store_free(store);
    hk_store_free(NULL);
    assert_int_equal(hk_store_local(NULL), HK_ERR_ARGUMENT);
}

static void the_file_store_keeps_the_rules(void **state)
{
    (void)state;
    hk_store *store;
    char path[80];
    snprintf(path, sizeof path, "%s/store", directory);
    assert_int_equal(hk_store_file(path, &store), HK_OK);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    store_rules(store);
    hk_store_free(store);
}

static void the_file_store_refuses_a_directory_that_others_write(void **state)
{
    (void)state;
    hk_store *store;
    assert_int_equal(chmod(directory, 0777), 0);
    assert_int_equal(hk_store_file(directory, &store), HK_ERR_REFUSED);
    assert_true(says(hk_last_error(), directory));
    assert_int_equal(hk_store_file("/no/such/place", &store), HK_ERR_SYSTEM);
    assert_true(says(hk_last_error(), "/no/such/place"));
}

static void *set_late(void *argument)
{
    hk_store *store = argument;
    usleep(100000);
    store->set(store->context, "late", "x", 1);
    return NULL;
}

static void the_file_store_wakes_soon_after_a_set(void **state)
{
    (void)state;
    hk_store *store;
    pthread_t thread;
    char value;
    size_t bytes = 1;
    assert_int_equal(hk_store_file(directory, &store), HK_OK);
    assert_int_equal(pthread_create(&thread, NULL, set_late, store), 0);
    uint64_t start = hki_now();
    assert_int_equal(store->get(store->context, "late", &value, &bytes, 5), HK_OK);
    assert_in_range(hki_now() - start, 90000000, 600000000);
    pthread_join(thread, NULL);
    hk_store_free(store);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Joining
 * ------------------------------------------------------------------------------------------------------------- */

static void ranks_join_through_each_kind_of_store(void **state)
{
    (void)state;
    static const int sizes[] = {2, 3, 8, 16};
    plain_store *plain = malloc(sizeof *plain);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int kind = 0; kind < 3; kind++) {
            hk_store *store = NULL;
            char path[80];
            snprintf(path, sizeof path, "%s/%zu", directory, i);
            if (kind == 0)
                assert_int_equal(hk_store_local(&store), HK_OK);
            else if (kind == 1)
                assert_int_equal(hk_store_file(path, &store), HK_OK);
            else
                plain_open(plain);
            member members[RANKS_MAX];
            make_members(members, sizes[i], kind == 2 ? &plain->store : store);
            run_members(members, sizes[i]);
            assert_all_joined(members, sizes[i]);
            hk_store_free(kind == 2 ? plain->inner : store);
        }
    }
    free(plain);
}

static void joining_costs_a_store_two_sets_and_gets_a_rank(void **state)
{
    (void)state;
    plain_store *plain = malloc(sizeof *plain);
    member members[8];
    plain_open(plain);
    make_members(members, 8, &plain->store);
    run_members(members, 8);
    assert_all_joined(members, 8);
    assert_int_equal(plain->sets, 2 * (8 + 1)); /* two exchanges: a record of each rank, and the result */
    assert_int_equal(plain->waits, 2);          /* of rank 0 alone */
    hk_store_free(plain->inner);
    free(plain);
}

static void results_longer_than_a_value_of_the_store_go_in_parts(void **state)
{
    (void)state;
    hk_store *store;
    member members[5];
    assert_int_equal(hk_store_local(&store), HK_OK);
    make_members(members, 5, store);
    for (int i = 0; i < 5; i++)
        members[i].bytes = 700000;
    run_members(members, 5);
    assert_all_joined(members, 5);
    hk_store_free(store);
}

static void a_key_of_the_callers_makes_the_same_key_on_all_ranks(void **state)
{
    (void)state;
    hk_store *store;
    member members[3], other[3];
    assert_int_equal(hk_store_local(&store), HK_OK);
    make_members(members, 3, store);
    make_members(other, 3, store);
    for (int i = 0; i < 3; i++) {
        members[i].options.key = other[i].options.key = "0123456789abcdef";
        members[i].options.key_bytes = other[i].options.key_bytes = 16;
        other[i].options.name = "another";
    }
    run_members(members, 3);
    assert_all_joined(members, 3);
    run_members(other, 3);
    assert_all_joined(other, 3);
    assert_memory_not_equal(members[0].place.key, other[0].place.key, HKI_KEY_BYTES);
    hk_store_free(store);
}

static void different_keys_are_refused_by_name(void **state)
{
    (void)state;
    hk_store *store;
    member members[3];
    assert_int_equal(hk_store_local(&store), HK_OK);
    make_members(members, 3, store);
    for (int i = 0; i < 3; i++) {
        members[i].options.key = i == 2 ? "fedcba9876543210" : "0123456789abcdef";
        members[i].options.key_bytes = 16;
        members[i].timeout = 0.3;
    }
    run_members(members, 3);
    assert_int_equal(members[2].joined, HK_ERR_REFUSED);
    assert_int_equal(members[0].joined, HK_ERR_REFUSED);
    assert_true(says(members[0].error, "rank 2 of job hocket was given another job key than rank 0"));
    hk_store_free(store);
}

/* Who has none learns that, too. */
static void a_rank_without_a_key_is_told_apart_from_one_with_another(void **state)
{
    (void)state;
    for (int without = 0; without < 3; without += 2) {
        hk_store *store;
        member members[3];
        assert_int_equal(hk_store_local(&store), HK_OK);
        make_members(members, 3, store);
        for (int i = 0; i < 3; i++) {
            members[i].options.key = i == without ? NULL : "0123456789abcdef";
            members[i].options.key_bytes = i == without ? 0 : 16;
        }
        run_members(members, 3);
        for (int i = 0; i < 3; i++)
            assert_int_equal(members[i].joined, HK_ERR_REFUSED);
        if (without == 0) {
            assert_true(
                says(members[0].error, "rank 1 of job hocket was given a job key, but none was given to rank 0"));
            assert_true(says(members[1].error, "rank 0 of job hocket was given no job key"));
        } else {
            assert_true(says(members[0].error, "rank 2 of job hocket was given no job key"));
            assert_true(says(members[0].error, "unlike rank 0"));
        }
        hk_store_free(store);
    }
}

/* Runs `count` of the members of a job of `ranks`; all must fail at joining within the time set for it. */
static void join_incomplete(const hk_store *store, member *members, int ranks, int count)
{
    make_members(members, ranks, store);
    setenv("HOCKET_JOIN_TIMEOUT", "0.3", 1);
    hki_settings_reset();
    run_members(members, count);
    unsetenv("HOCKET_JOIN_TIMEOUT");
    hki_settings_reset();
}

static void missing_ranks_are_named_by_all_others(void **state)
{
    (void)state;
    hk_store *store;
    member members[8];
    assert_int_equal(hk_store_local(&store), HK_OK);
    join_incomplete(store, members, 8, 4);
    for (int rank = 0; rank < 4; rank++) {
        assert_int_equal(members[rank].joined, HK_ERR_BOOTSTRAP);
        assert_true(says(members[rank].error, "ranks 4-7 of 8 did not arrive within 0.3 s"));
    }
    hk_store_free(store);
}

static void a_missing_rank_0_is_named(void **state)
{
    (void)state;
    hk_store *store;
    member members[3];
    assert_int_equal(hk_store_local(&store), HK_OK);
    make_members(members, 3, store);
    setenv("HOCKET_JOIN_TIMEOUT", "0.2", 1);
    hki_settings_reset();
    run_members(members + 1, 2);
    unsetenv("HOCKET_JOIN_TIMEOUT");
    hki_settings_reset();
    for (int rank = 1; rank < 3; rank++)
        assert_true(says(members[rank].error, "rank 0 of 3 did not arrive"));
    hk_store_free(store);
}

static void a_rank_that_stops_between_exchanges_is_named(void **state)
{
    (void)state;
    hk_store *store;
    member members[4];
    assert_int_equal(hk_store_local(&store), HK_OK);
    make_members(members, 4, store);
    for (int rank = 0; rank < 4; rank++)
        members[rank].timeout = 0.3;
    members[2].leaves = true;
    run_members(members, 4);
    for (int rank = 0; rank < 4; rank++) {
        assert_int_equal(members[rank].joined, HK_OK);
        if (rank == 2)
            continue;
        assert_int_equal(members[rank].exchanged, HK_ERR_BOOTSTRAP);
        assert_true(says(members[rank].error, "rank 2 of 4 did not arrive"));
    }
    hk_store_free(store);
}

static void two_processes_of_one_rank_are_refused(void **state)
{
    (void)state;
    hk_store *store;
    member members[4];
    assert_int_equal(hk_store_local(&store), HK_OK);
    make_members(members, 3, store);
    members[3] = members[1]; /* a second rank 1 */
    run_members(members, 4);
    const member *refused = members[1].joined != HK_OK ? &members[1] : &members[3];
    assert_int_equal(refused->joined, HK_ERR_REFUSED);
    assert_true(says(refused->error, "rank 1 has already joined job hocket"));
    hk_store_free(store);
}

/* With a store that overwrites, the second one is noticed by the random numbers in the records. */
static void a_late_double_is_refused_even_by_a_store_that_overwrites(void **state)
{
    (void)state;
    plain_store *plain = malloc(sizeof *plain);
    plain_open(plain);
    member members[3], late;
    make_members(members, 3, &plain->store);
    late = members[1];
    run_members(members, 3);
    assert_all_joined(members, 3);
    run_members(&late, 1);
    assert_int_equal(late.joined, HK_ERR_REFUSED);
    assert_true(says(late.error, "another process has joined job hocket as rank 1"));
    hk_store_free(plain->inner);
    free(plain);
}

static void ranks_that_disagree_on_the_number_of_ranks_are_told(void **state)
{
    (void)state;
    hk_store *store;
    member members[3];
    assert_int_equal(hk_store_local(&store), HK_OK);
    make_members(members, 3, store);
    members[2].options.ranks = 5;
    run_members(members, 3);
    for (int rank = 0; rank < 3; rank++) {
        assert_int_equal(members[rank].joined, HK_ERR_BOOTSTRAP);
        assert_true(says(members[rank].error, "rank 2 of job hocket says that there are 5 ranks, rank 0 says 3"));
    }
    hk_store_free(store);
}

static void options_that_cannot_be_are_named(void **state)
{
    (void)state;
    hki_boot *boot;
    hk_store *store;
    assert_int_equal(hk_store_local(&store), HK_OK);
    hk_store broken = {.size = sizeof broken};
    const struct {
        hk_options options;
        const char *text;
    } cases[] = {
        {{.rank = 3, .ranks = 3, .store = store}, "options.rank is 3, but options.ranks is 3"},
        {{.rank = -2, .ranks = 3, .store = store}, "options.rank is -2"},
        {{.rank = -1, .store = store}, "options.rank and options.ranks must be too"},
        {{.rank = 0, .ranks = 2}, "options.store is NULL"},
        {{.rank = 0, .ranks = 2, .store = &broken}, "options.store: size"},
        {{.rank = 0, .ranks = 1, .key = "short", .key_bytes = 5}, "options.key_bytes is 5"},
        {{.rank = 0, .ranks = 1, .name = ""}, "options.name has 0"},
        {{.rank = 0, .ranks = 1, .name = "a/b"}, "options.name: character 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(hki_boot_join(&cases[i].options, &boot), HK_ERR_ARGUMENT);
        assert_true(says(hk_last_error(), cases[i].text));
    }
    hk_store_free(store);
}

static void without_a_launcher_one_is_alone(void **state)
{
    (void)state;
    hki_boot *boot;
    hk_options options = HK_OPTIONS_INIT;
    int mine = 7, all = 0;
    assert_int_equal(hki_boot_join(&options, &boot), HK_OK);
    assert_int_equal(hki_boot_place(boot)->rank, 0);
    assert_int_equal(hki_boot_place(boot)->ranks, 1);
    assert_false(hki_boot_place(boot)->has_key);
    assert_int_equal(hki_boot_exchange(boot, &mine, sizeof mine, &all, 1), HK_OK);
    assert_int_equal(all, 7);
    hki_boot_leave(boot);
}

static void sets_of_ranks_are_named_briefly(void **state)
{
    (void)state;
    char text[HKI_RANKS_TEXT];
    bool members[2000] = {0};
    assert_string_equal(hki_ranks_text(text, sizeof text, members, 2000), "no rank");
    members[3] = true;
    assert_string_equal(hki_ranks_text(text, sizeof text, members, 2000), "rank 3");
    members[4] = members[7] = members[8] = members[9] = true;
    assert_string_equal(hki_ranks_text(text, sizeof text, members, 2000), "ranks 3, 4, 7-9");
    for (int i = 11; i < 2000; i += 2)
        members[i] = true;
    hki_ranks_text(text, sizeof text, members, 2000);
    assert_true(says(text, "… (1000 in all)"));
}

static int lowest_free_descriptor(void)
{
    int fd = dup(STDIN_FILENO);
    close(fd);
    return fd;
}

/* Its listeners are closed again, though nobody is met there. */
static void an_id_serves_one_rank_as_well(void **state)
{
    (void)state;
    hk_unique_id id, zero = {{0}};
    hki_boot *boot;
    hk_options options = HK_OPTIONS_INIT;
    int before = lowest_free_descriptor();
    assert_int_equal(hk_unique_id_create(&id), HK_OK);
    assert_true(lowest_free_descriptor() > before);
    options.rank = 0;
    options.ranks = 1;
    options.id = &id;
    assert_int_equal(hki_boot_join(&options, &boot), HK_OK);
    assert_int_equal(hki_boot_place(boot)->ranks, 1);
    hki_boot_leave(boot);
    assert_int_equal(lowest_free_descriptor(), before);
    options.id = &zero;
    assert_int_equal(hki_boot_join(&options, &boot), HK_ERR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_local_store_keeps_the_rules),
        cmocka_unit_test_setup_teardown(the_file_store_keeps_the_rules, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(the_file_store_refuses_a_directory_that_others_write, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(the_file_store_wakes_soon_after_a_set, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(ranks_join_through_each_kind_of_store, make_directory, remove_directory),
        cmocka_unit_test(joining_costs_a_store_two_sets_and_gets_a_rank),
        cmocka_unit_test(results_longer_than_a_value_of_the_store_go_in_parts),
        cmocka_unit_test(a_key_of_the_callers_makes_the_same_key_on_all_ranks),
        cmocka_unit_test(different_keys_are_refused_by_name),
        cmocka_unit_test(a_rank_without_a_key_is_told_apart_from_one_with_another),
        cmocka_unit_test(missing_ranks_are_named_by_all_others),
        cmocka_unit_test(a_missing_rank_0_is_named),
        cmocka_unit_test(a_rank_that_stops_between_exchanges_is_named),
        cmocka_unit_test(two_processes_of_one_rank_are_refused),
        cmocka_unit_test(a_late_double_is_refused_even_by_a_store_that_overwrites),
        cmocka_unit_test(ranks_that_disagree_on_the_number_of_ranks_are_told),
        cmocka_unit_test(options_that_cannot_be_are_named),
        cmocka_unit_test(without_a_launcher_one_is_alone),
        cmocka_unit_test(an_id_serves_one_rank_as_well),
        cmocka_unit_test(sets_of_ranks_are_named_briefly),
    };
    return cmocka_run_group_tests_name("boot", tests, NULL, NULL);
}

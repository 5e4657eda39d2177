/* Finding each other over TCP: threads as ranks, and strangers who should not be among them. */
#include "../support/ports.h"

#include "base/clock.h"
#include "base/settings.h"
#include "boot/boot.h"
#include "boot/meeting.h"
#include "boot/source.h"
#include "net/handshake.h"
#include "net/resolve.h"
#include "net/socket.h"

#include <hocket/store.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS_MAX = 16, KEY_BYTES = 32 };

static const char right_key[KEY_BYTES + 1] = "the right key of this very test!";
static const char wrong_key[KEY_BYTES + 1] = "another key, of another job, no!";

static bool says(const char *error, const char *text)
{
    if (!strstr(error, text))
        print_error("\"%s\" is not in: %s\n", text, error);
    return strstr(error, text) != NULL;
}

static void sleep_ms(long ms)
{
    struct timespec length = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&length, NULL);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Ranks as threads
 * ------------------------------------------------------------------------------------------------------------- */

typedef struct member {
    int rank, ranks;
    uint16_t port; /* of a store over TCP; 0: by id */
    const hk_unique_id *id;
    const char *key;
    long delay_ms; /* before it starts */
    int exchanges;
    double timeout;
    hk_status status;
    hki_place place;
    char error[512];
    bool right;
} member;

static hk_status take_part(member *self, hki_boot *boot)
{
    self->right = true;
    self->place = *hki_boot_place(boot);
    for (int n = 0; n < self->exchanges; n++) {
        int mine = self->rank * 1000 + n, all[RANKS_MAX];
        hk_status status = hki_boot_exchange(boot, &mine, sizeof mine, all, self->timeout);
        if (status != HK_OK)
            return status;
        for (int rank = 0; rank < self->ranks; rank++)
            self->right &= all[rank] == rank * 1000 + n;
    }
    return HK_OK;
}

static hk_status join(member *self)
{
    hk_options options = HK_OPTIONS_INIT;
    hk_store *store = NULL;
    hki_boot *boot;
    options.rank = self->rank;
    options.ranks = self->ranks;
    options.id = self->id;
    options.key = self->key;
    options.key_bytes = self->key ? KEY_BYTES : 0;
    hk_status status = HK_OK;
    if (self->port != 0)
        status = hk_store_tcp("127.0.0.1", self->port, self->rank == 0, self->key, self->key ? KEY_BYTES : 0,
                              self->timeout, &store);
    options.store = store;
    if (status == HK_OK)
        status = hki_boot_join(&options, &boot);
    if (status == HK_OK) {
        status = take_part(self, boot);
        snprintf(self->error, sizeof self->error, "%s", status == HK_OK ? "" : hk_last_error());
        hki_boot_leave(boot);
    } else {
        snprintf(self->error, sizeof self->error, "%s", hk_last_error());
    }
    hk_store_free(store);
    return status;
}

static void *member_main(void *argument)
{
    member *self = argument;
    sleep_ms(self->delay_ms);
    self->status = join(self);
    return NULL;
}

static void make_members(member *members, int ranks, uint16_t port, const char *key)
{
    for (int rank = 0; rank < ranks; rank++)
        members[rank] = (member){.rank = rank, .ranks = ranks, .port = port, .key = key, .exchanges = 3, .timeout = 20};
}

static void start_members(member *members, int count, pthread_t *threads)
{
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, member_main, &members[i]), 0);
}

static void end_members(int count, pthread_t *threads)
{
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static void run_members(member *members, int count)
{
    pthread_t threads[RANKS_MAX];
    start_members(members, count, threads);
    end_members(count, threads);
}

static void assert_all_joined(const member *members, int ranks)
{
    for (int rank = 0; rank < ranks; rank++) {
        if (members[rank].status != HK_OK)
            print_error("rank %d: %s\n", rank, members[rank].error);
        assert_int_equal(members[rank].status, HK_OK);
        assert_true(members[rank].right);
        assert_true(members[rank].place.has_key);
        assert_memory_equal(members[rank].place.key, members[0].place.key, HKI_KEY_BYTES);
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * The store
 * ------------------------------------------------------------------------------------------------------------- */

static void assert_holds(const hk_store *store, const char *key, const char *value)
{
    char text[64];
    size_t bytes = sizeof text;
    assert_int_equal(store->get(store->context, key, text, &bytes, 30), HK_OK);
    assert_int_equal(bytes, strlen(value));
    assert_memory_equal(text, value, bytes);
}

static void both_ends_of_a_store_keep_the_rules(void **state)
{
    (void)state;
    hk_store *ends[2];
    uint16_t port = free_port();
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 1, right_key, KEY_BYTES, 5, &ends[0]), HK_OK);
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 0, right_key, KEY_BYTES, 5, &ends[1]), HK_OK);
    for (int i = 0; i < 2; i++) {
        const hk_store *here = ends[i], *there = ends[1 - i];
        const char *key = i == 0 ? "a" : "b";
        char small[2];
        size_t bytes = sizeof small;
        uint64_t before = hki_now();
        assert_int_equal(here->get(here->context, key, small, &bytes, 0.05), HK_ERR_TIMEOUT);
        assert_true(hki_now() - before >= 50000000);
        assert_int_equal(here->set(here->context, key, "value", 5), HK_OK);
        assert_int_equal(there->set(there->context, key, "other", 5), HK_ERR_REFUSED);
        assert_holds(here, key, "value");
        assert_holds(there, key, "value");
        bytes = sizeof small;
        assert_int_equal(there->get(there->context, key, small, &bytes, 1), HK_ERR_TRUNCATED);
        assert_holds(there, key, "value"); /* the answers are still in step */
        assert_int_equal(here->set(here->context, "with space", "", 0), HK_ERR_ARGUMENT);
    }
    assert_int_equal(ends[1]->set(ends[1]->context, "empty", "", 0), HK_OK);
    assert_holds(ends[0], "empty", "");
    hk_store_free(ends[1]);
    hk_store_free(ends[0]);
}

static void a_value_of_a_mebibyte_goes_through(void **state)
{
    (void)state;
    hk_store *server, *client;
    uint16_t port = free_port();
    size_t bytes = 1 << 20;
    char *value = malloc(bytes), *got = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        value[i] = (char)(i * 7 + i / 251);
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 1, NULL, 0, 5, &server), HK_OK);
    assert_int_equal(hk_store_tcp("localhost", port, 0, NULL, 0, 5, &client), HK_OK);
    assert_int_equal(client->set(client->context, "large", value, bytes), HK_OK);
    assert_int_equal(client->get(client->context, "large", got, &bytes, 5), HK_OK);
    assert_int_equal(bytes, 1 << 20);
    assert_memory_equal(value, got, bytes);
    assert_int_equal(client->set(client->context, "too large", value, bytes + 1), HK_ERR_ARGUMENT);
    hk_store_free(client);
    hk_store_free(server);
    free(value);
    free(got);
}

static void *set_later(void *argument)
{
    const hk_store *store = argument;
    sleep_ms(100);
    store->set(store->context, "late", "x", 1);
    return NULL;
}

static void a_client_that_waits_is_told_at_once_whoever_sets(void **state)
{
    (void)state;
    for (int by_client = 0; by_client < 2; by_client++) {
        hk_store *server, *waiter, *setter;
        uint16_t port = free_port();
        pthread_t thread;
        assert_int_equal(hk_store_tcp("127.0.0.1", port, 1, NULL, 0, 5, &server), HK_OK);
        assert_int_equal(hk_store_tcp("127.0.0.1", port, 0, NULL, 0, 5, &waiter), HK_OK);
        assert_int_equal(hk_store_tcp("127.0.0.1", port, 0, NULL, 0, 5, &setter), HK_OK);
        pthread_create(&thread, NULL, set_later, by_client ? setter : server);
        assert_holds(waiter, "late", "x"); /* else it would be told at the end that the key was not set */
        pthread_join(thread, NULL);
        hk_store_free(waiter);
        hk_store_free(setter);
        hk_store_free(server);
    }
}

static void a_place_beyond_this_machine_needs_a_key(void **state)
{
    (void)state;
    hk_store *store;
    for (int serving = 0; serving < 2; serving++) {
        assert_int_equal(hk_store_tcp("0.0.0.0", 29999, serving, NULL, 0, 0.1, &store), HK_ERR_ARGUMENT);
        assert_true(says(hk_last_error(), "HOCKET_KEY=none"));
    }
    assert_int_equal(hk_store_tcp("127.0.0.1", 0, 1, NULL, 0, 1, &store), HK_ERR_ARGUMENT);
    assert_int_equal(hk_store_tcp("127.0.0.1", 29999, 1, "short", 5, 1, &store), HK_ERR_ARGUMENT);
}

static void another_key_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    hk_store *server, *client;
    uint16_t port = free_port();
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 1, right_key, KEY_BYTES, 5, &server), HK_OK);
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 0, wrong_key, KEY_BYTES, 5, &client), HK_ERR_REFUSED);
    assert_true(says(hk_last_error(), "HOCKET_KEY_FILE"));
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 0, NULL, 0, 5, &client), HK_ERR_REFUSED);
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 0, right_key, KEY_BYTES, 5, &client), HK_OK);
    assert_int_equal(client->set(client->context, "k", "v", 1), HK_OK);
    assert_holds(server, "k", "v");
    hk_store_free(client);
    hk_store_free(server);
}

/* A child's copies of the descriptors must neither hold the parent up nor be hung up by the child. */
static void a_child_that_frees_its_copy_hurts_nobody(void **state)
{
    (void)state;
    hk_store *server, *client;
    uint16_t port = free_port();
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 1, right_key, KEY_BYTES, 600, &server), HK_OK);
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 0, right_key, KEY_BYTES, 5, &client), HK_OK);
    int stay[2];
    assert_int_equal(pipe(stay), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(stay[1]);
        hk_store_free(client);
        ssize_t got = read(stay[0], &byte, 1); /* keeps the server's descriptors open meanwhile */
        hk_store_free(server);
        _exit(got == 0 ? 0 : 1);
    }
    close(stay[0]);
    sleep_ms(50);
    assert_int_equal(client->set(client->context, "k", "v", 1), HK_OK);
    assert_holds(server, "k", "v");
    hk_store_free(client);
    uint64_t before = hki_now();
    hk_store_free(server);
    assert_true(hki_now() - before < UINT64_C(60000000000)); /* not the 600 s that it waits for clients */
    close(stay[1]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Joining
 * ------------------------------------------------------------------------------------------------------------- */

static void ranks_join_in_any_order_of_starting(void **state)
{
    (void)state;
    member members[8];
    for (int late = 0; late < 8; late += 7) { /* the serving rank, or a client */
        make_members(members, 8, free_port(), right_key);
        members[late].delay_ms = 300;
        run_members(members, 8);
        assert_all_joined(members, 8);
    }
}

static void missing_ranks_are_named(void **state)
{
    (void)state;
    member members[4];
    setenv("HOCKET_JOIN_TIMEOUT", "0.5", 1);
    hki_settings_reset();
    make_members(members, 4, free_port(), right_key);
    members[2].port = 0; /* these two do not come: they have no store, and say so */
    members[3].port = 0;
    run_members(members, 4);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(members[rank].status, HK_ERR_BOOTSTRAP);
        assert_true(says(members[rank].error, "ranks 2, 3 of 4 did not arrive"));
    }
    assert_int_equal(members[2].status, HK_ERR_ARGUMENT);
    unsetenv("HOCKET_JOIN_TIMEOUT");
    hki_settings_reset();
}

static void two_processes_of_one_rank_are_refused_by_name(void **state)
{
    (void)state;
    member members[4];
    make_members(members, 3, free_port(), right_key);
    members[3] = members[1];
    members[3].delay_ms = 50;
    members[2].delay_ms = 300;
    run_members(members, 4);
    const member *refused = members[1].status != HK_OK ? &members[1] : &members[3];
    assert_int_equal(refused->status, HK_ERR_REFUSED);
    assert_true(says(refused->error, "rank 1 has already joined"));
    assert_int_equal(members[0].status, HK_OK); /* and the others have their job */
}

static void two_jobs_at_once_do_not_meet(void **state)
{
    (void)state;
    member members[8];
    pthread_t threads[8];
    make_members(members, 4, free_port(), right_key);
    make_members(members + 4, 4, free_port(), wrong_key);
    start_members(members, 8, threads);
    end_members(8, threads);
    assert_all_joined(members, 4);
    assert_all_joined(members + 4, 4);
    assert_memory_not_equal(members[0].place.key, members[4].place.key, HKI_KEY_BYTES);
}

static void ranks_meet_by_a_unique_id(void **state)
{
    (void)state;
    member members[5];
    hk_unique_id id;
    assert_int_equal(hk_unique_id_create(&id), HK_OK);
    make_members(members, 5, 0, NULL);
    for (int rank = 0; rank < 5; rank++)
        members[rank].id = &id;
    members[1].delay_ms = 100;
    run_members(members, 5);
    assert_all_joined(members, 5);
}

static void an_id_with_another_key_leads_nowhere(void **state)
{
    (void)state;
    hk_unique_id id, forged;
    hki_meeting meeting;
    uint8_t bytes[HKI_MEETING_BYTES];
    hki_boot *boot;
    assert_int_equal(hk_unique_id_create(&id), HK_OK);
    assert_true(hki_meeting_read(id.bytes, sizeof id.bytes, &meeting));
    meeting.key[3] ^= 1;
    meeting.id ^= 1; /* so that this process does not know it for its own */
    forged = id;
    memcpy(forged.bytes, bytes, hki_meeting_write(&meeting, bytes));
    hk_options options = HK_OPTIONS_INIT;
    options.rank = 1;
    options.ranks = 2;
    options.id = &forged;
    setenv("HOCKET_JOIN_TIMEOUT", "0.3", 1);
    hki_settings_reset();
    assert_int_equal(hki_boot_join(&options, &boot), HK_ERR_BOOTSTRAP);
    forged.bytes[0] ^= 1;
    assert_int_equal(hki_boot_join(&options, &boot), HK_ERR_ARGUMENT);
    assert_int_equal(hk_unique_id_free(&id), HK_OK);
    unsetenv("HOCKET_JOIN_TIMEOUT");
    hki_settings_reset();
}

/* ---------------------------------------------------------------------------------------------------------------
 * Strangers
 * ------------------------------------------------------------------------------------------------------------- */

typedef enum mischief { SAYS_NOTHING, HANGS_UP, GARBAGE, HALF_A_HELLO, FALSE_PROOF, REPLAY, ECHO, MISCHIEFS } mischief;

typedef struct rogue {
    hki_address at;
    atomic_bool stop;
    atomic_int done;
    hki_handshake heard; /* an honest client's, listened to */
    int answered;        /* times that a server said more than a challenge */
} rogue;

static void write_some(int fd, const void *data, size_t bytes)
{
    (void)!send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static size_t read_some(int fd, void *data, size_t bytes)
{
    struct pollfd descriptor = {.fd = fd, .events = POLLIN};
    if (poll(&descriptor, 1, 200) <= 0)
        return 0;
    ssize_t got = recv(fd, data, bytes, MSG_DONTWAIT);
    return got > 0 ? (size_t)got : 0;
}

/* Says hello, then `proof`, or back what it was told if that is NULL. A server that is taken in says more than a
 * challenge. */
static void prove(rogue *self, int fd, const void *hello, const void *proof)
{
    uint8_t heard[512] = {0};
    write_some(fd, hello, HKI_HELLO_BYTES);
    size_t bytes = read_some(fd, heard, HKI_CHALLENGE_BYTES);
    write_some(fd, proof ? proof : heard, HKI_PROOF_BYTES);
    bytes += read_some(fd, heard, sizeof heard);
    self->answered += bytes > HKI_CHALLENGE_BYTES;
}

static void misbehave(rogue *self, mischief how, int fd, unsigned seed)
{
    uint8_t noise[300];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)(rand_r(&seed) >> 8);
    switch (how) {
    case GARBAGE:
        write_some(fd, noise, sizeof noise);
        break;
    case HALF_A_HELLO:
        write_some(fd, self->heard.hello, HKI_HELLO_BYTES / 2);
        break;
    case FALSE_PROOF:
        prove(self, fd, self->heard.hello, noise);
        break;
    case REPLAY:
        prove(self, fd, self->heard.hello, self->heard.proof);
        break;
    case ECHO:
        prove(self, fd, self->heard.hello, NULL);
        break;
    default:
        break;
    }
}

/* Some of its connections stay open, 600 at most. */
static void *rogue_main(void *argument)
{
    enum { KEPT = 600 };
    rogue *self = argument;
    int *kept = malloc(KEPT * sizeof *kept);
    for (int i = 0; i < KEPT; i++)
        kept[i] = -1;
    for (unsigned n = 0; !atomic_load(&self->stop) || atomic_load(&self->done) < 1000; n++) {
        int fd = hki_socket_connect(&self->at, 0);
        struct pollfd descriptor = {.fd = fd, .events = POLLOUT};
        if (fd < 0)
            continue;
        poll(&descriptor, 1, 100);
        mischief how = (mischief)(n % MISCHIEFS);
        misbehave(self, how, fd, n);
        int *slot = &kept[n % KEPT];
        if (how == HANGS_UP) {
            close(fd);
        } else {
            if (*slot >= 0)
                close(*slot);
            *slot = fd;
        }
        atomic_fetch_add(&self->done, 1);
    }
    for (int i = 0; i < KEPT; i++)
        if (kept[i] >= 0)
            close(kept[i]);
    free(kept);
    return NULL;
}

/* What an honest client says, to be said again by another. */
static void listen_in(rogue *self)
{
    uint8_t key[HKI_KEY_BYTES];
    hki_boot_derive_key(right_key, KEY_BYTES, "store", key);
    const hki_parties parties = {0};
    int fd = hki_socket_connect(&self->at, 0);
    struct pollfd descriptor = {.fd = fd, .events = POLLOUT};
    assert_true(fd >= 0);
    assert_int_equal(poll(&descriptor, 1, 5000), 1);
    hki_stream stream = {.fd = fd};
    assert_true(hki_handshake_client(&self->heard, &stream, HKI_PURPOSE_STORE, &parties, key));
    for (;;) {
        hki_shake state = hki_handshake_step(&self->heard);
        if (state == HKI_SHAKE_DONE)
            break;
        assert_int_equal(state, HKI_SHAKE_AGAIN);
        descriptor.events = self->heard.writing ? POLLOUT : POLLIN;
        assert_int_equal(poll(&descriptor, 1, 5000), 1);
    }
    close(fd);
}

static void a_thousand_strangers_stop_nobody(void **state)
{
    (void)state;
    member members[6];
    pthread_t threads[6], stranger;
    static rogue bad;
    hk_store *first;
    uint16_t port = free_port();
    bad.at = (hki_address){.family = AF_INET, .port = port, .bytes = {127, 0, 0, 1}};
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 1, right_key, KEY_BYTES, 5, &first), HK_OK);
    listen_in(&bad);
    hk_store_free(first);
    make_members(members, 6, port, right_key);
    for (int rank = 0; rank < 6; rank++)
        members[rank].exchanges = 300;
    for (int rank = 1; rank < 6; rank++)
        members[rank].delay_ms = 100 * rank; /* they have to come in while strangers are at the door */
    assert_int_equal(pthread_create(&stranger, NULL, rogue_main, &bad), 0);
    start_members(members, 6, threads);
    end_members(6, threads);
    atomic_store(&bad.stop, true);
    pthread_join(stranger, NULL);
    assert_all_joined(members, 6);
    assert_true(atomic_load(&bad.done) >= 1000);
    assert_int_equal(bad.answered, 0);
}

static void note_crowding(hk_log_level level, const char *line, void *context)
{
    (void)level;
    if (strstr(line, "more connections than can wait"))
        atomic_store((atomic_bool *)context, true);
}

/* More silent connections than may wait, all held open: whoever comes last gets in nevertheless, since others had to
 * give way for being too many, not for being slow. */
static void silent_connections_give_way(void **state)
{
    (void)state;
    enum { SILENT = 400 };
    hk_store *server, *client;
    uint16_t port = free_port();
    static int fds[SILENT];
    atomic_bool crowded = false;
    hk_set_log(note_crowding, HK_LOG_WARN, &crowded);
    const hki_address at = {.family = AF_INET, .port = port, .bytes = {127, 0, 0, 1}};
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 1, right_key, KEY_BYTES, 5, &server), HK_OK);
    for (int i = 0; i < SILENT; i++)
        fds[i] = hki_socket_connect(&at, 0);
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 0, right_key, KEY_BYTES, 60, &client), HK_OK);
    hk_set_log(NULL, HK_LOG_NONE, NULL);
    assert_true(atomic_load(&crowded));
    assert_int_equal(client->set(client->context, "k", "v", 1), HK_OK);
    int hung_up = 0;
    for (int i = 0; i < SILENT; i++) {
        char byte;
        hung_up += recv(fds[i], &byte, 1, MSG_DONTWAIT) == 0;
        close(fds[i]);
    }
    assert_true(hung_up >= SILENT - 256);
    hk_store_free(client);
    hk_store_free(server);
}

static void count_warnings(hk_log_level level, const char *line, void *context)
{
    (void)line;
    if (level <= HK_LOG_WARN)
        atomic_fetch_add((atomic_int *)context, 1);
}

/* A rank that tries several places at once, or whose dial crosses another's, leaves half-way: no refusal, and no news.
 */
static void who_leaves_of_its_own_accord_is_no_news(void **state)
{
    (void)state;
    atomic_int warnings = 0;
    hk_store *server, *client;
    uint16_t port = free_port();
    const hki_address at = {.family = AF_INET, .port = port, .bytes = {127, 0, 0, 1}};
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 1, right_key, KEY_BYTES, 5, &server), HK_OK);
    hk_set_log(count_warnings, HK_LOG_WARN, &warnings);
    for (int i = 0; i < 10; i++) {
        const struct linger reset = {.l_onoff = i % 2};
        int fd = hki_socket_connect(&at, 0);
        assert_true(fd >= 0);
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fd);
    }
    assert_int_equal(hk_store_tcp("127.0.0.1", port, 0, right_key, KEY_BYTES, 5, &client), HK_OK);
    hk_store_free(client);
    hk_store_free(server);
    hk_set_log(NULL, HK_LOG_NONE, NULL);
    assert_int_equal(atomic_load(&warnings), 0);
}

/* ---------------------------------------------------------------------------------------------------------------
 * TLS
 * ------------------------------------------------------------------------------------------------------------- */

#ifdef HKI_HAVE_OPENSSL

static int with_tls(void **state)
{
    (void)state;
    setenv("HOCKET_TLS", "required", 1);
    hki_settings_reset();
    return 0;
}

static int without_tls(void **state)
{
    (void)state;
    unsetenv("HOCKET_TLS");
    hki_settings_reset();
    return 0;
}

static int run_with_tls(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_of_a_store_keep_the_rules),
        cmocka_unit_test(a_child_that_frees_its_copy_hurts_nobody),
        cmocka_unit_test(ranks_join_in_any_order_of_starting),
        cmocka_unit_test(two_jobs_at_once_do_not_meet),
        cmocka_unit_test(ranks_meet_by_a_unique_id),
        cmocka_unit_test(silent_connections_give_way),
        cmocka_unit_test(who_leaves_of_its_own_accord_is_no_news),
    };
    return cmocka_run_group_tests_name("boot_tcp with TLS", tests, with_tls, without_tls);
}

#else

static int run_with_tls(void)
{
    return 0;
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_of_a_store_keep_the_rules),
        cmocka_unit_test(a_value_of_a_mebibyte_goes_through),
        cmocka_unit_test(a_client_that_waits_is_told_at_once_whoever_sets),
        cmocka_unit_test(a_place_beyond_this_machine_needs_a_key),
        cmocka_unit_test(another_key_is_refused_and_changes_nothing),
        cmocka_unit_test(a_child_that_frees_its_copy_hurts_nobody),
        cmocka_unit_test(ranks_join_in_any_order_of_starting),
        cmocka_unit_test(missing_ranks_are_named),
        cmocka_unit_test(two_processes_of_one_rank_are_refused_by_name),
        cmocka_unit_test(two_jobs_at_once_do_not_meet),
        cmocka_unit_test(ranks_meet_by_a_unique_id),
        cmocka_unit_test(an_id_with_another_key_leads_nowhere),
        cmocka_unit_test(a_thousand_strangers_stop_nobody),
        cmocka_unit_test(silent_connections_give_way),
        cmocka_unit_test(who_leaves_of_its_own_accord_is_no_news),
    };
    return cmocka_run_group_tests_name("boot_tcp", tests, NULL, NULL) + run_with_tls();
}

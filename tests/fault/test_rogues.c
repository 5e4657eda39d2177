/*
 * Strangers at the doors of a job that works: a thousand connections to whatever its ranks and its store listen at, by
 * somebody who has listened in. Results stay right, nobody is stopped or let in, memory and descriptors stay bounded,
 * and who was refused is said, with its address, a bounded number of times. With TLS and without.
 */
#include "../support/ports.h"
#include "../support/ranks.h"

#include "base/settings.h"
#include "boot/source.h"
#include "comm/comm.h"
#include "net/handshake.h"
#include "net/socket.h"

#include <hocket/store.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { RANKS = 3, DOORS = 4, ATTACKS = 1000, KEPT = 100, LONG = 50000, KEY_BYTES = 32 };
enum { STRANGERS = 64, STORE_STRANGERS = 256, LOG_LINES = 16, GROWTH_KIB = 24 << 10 }; /* the library's limits */

static const char key[KEY_BYTES + 1] = "the key of a job with strangers!";

/* What a rank, or the store (the last), tells the rogue: where it listens, and what an honest client would know. */
typedef struct door {
    hki_address at;
    uint8_t token[HKI_HANDSHAKE_KEY];
    uint64_t context;
} door;

typedef struct scene {
    const char *tls; /* HOCKET_TLS */
    uint16_t store_port;
    door doors[DOORS];
    int open;                    /* ranks that work; a barrier's place */
    atomic_int attacks;          /* the rogue's */
    int most_descriptors[RANKS]; /* above those before the first attack */
    long growth_kib[RANKS];
    char log[64]; /* file */
} scene;

/* ---- a rank ---- */

/* The IPv4 port at which this process listens, other than the store's. */
static uint16_t listening_port(uint16_t but)
{
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_in address = {0};
        socklen_t length = sizeof address, flag_length = sizeof(int);
        int listens = 0;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &flag_length) == 0 && listens &&
            getsockname(fd, (struct sockaddr *)&address, &length) == 0 && address.sin_family == AF_INET &&
            ntohs(address.sin_port) != but)
            return ntohs(address.sin_port);
    }
    return 0;
}

static void show_door(scene *where, hk_comm *comm, int rank)
{
    door *mine = &where->doors[rank];
    mine->at = (hki_address){.family = AF_INET, .bytes = {127, 0, 0, 1}, .port = listening_port(where->store_port)};
    EXPECT(mine->at.port != 0);
    memcpy(mine->token, comm->context->token, sizeof mine->token);
    mine->context = comm->context->id;
}

/* One round of work: a small or a large sum, checked; the flag ends it for all at once. */
static bool work(hk_comm *comm, int rank, int round, bool enough)
{
    static int64_t in[LONG], out[LONG];
    uint64_t count = round % 4 == 3 ? LONG : 10;
    in[0] = enough;
    for (uint64_t i = 1; i < count; i++)
        in[i] = (int64_t)i * (rank + 1) + round;
    EXPECT_OK(hk_allreduce(in, out, count, HK_INT64, HK_SUM, comm));
    for (uint64_t i = 1; i < count; i++)
        EXPECT(out[i] == (int64_t)i * RANKS * (RANKS + 1) / 2 + RANKS * (int64_t)round);
    return out[0] == 0;
}

/* The store answers meanwhile: each rank reads what its neighbour has set. */
static void use_store(const hk_store *store, int rank, int round)
{
    char name[32], value[16] = "";
    size_t bytes = sizeof value;
    snprintf(name, sizeof name, "round.%d.%d", round, rank);
    EXPECT_OK(store->set(store->context, name, &round, sizeof round));
    snprintf(name, sizeof name, "round.%d.%d", round, (rank + 1) % RANKS);
    EXPECT_OK(store->get(store->context, name, value, &bytes, 20));
    EXPECT(bytes == sizeof round && memcmp(value, &round, sizeof round) == 0);
}

static void work_until_enough(scene *where, hk_comm *comm, const hk_store *store, int rank)
{
    int before = ranks_descriptors(), round = 0;
    long resident = ranks_resident(0);
    do {
        if (round % 32 == 0)
            use_store(store, rank, round);
        int now = ranks_descriptors() - before;
        if (now > where->most_descriptors[rank])
            where->most_descriptors[rank] = now;
    } while (work(comm, rank, round++, atomic_load(&where->attacks) >= ATTACKS));
    where->growth_kib[rank] = ranks_resident(0) - resident;
}

static int live(hk_comm *none, int rank, void *argument)
{
    scene *where = argument;
    hk_store *store;
    hk_comm *comm;
    (void)none;
    EXPECT(freopen(where->log, "a", stderr) != NULL);
    setenv("HOCKET_LOG", "warn", 1);
    setenv("HOCKET_TRANSPORT", "tcp", 1);
    setenv("HOCKET_INTERFACE", "127.0.0.1", 1);
    setenv("HOCKET_TIMEOUT", "40", 1);
    setenv("HOCKET_TLS", where->tls, 1);
    hki_settings_reset();
    EXPECT_OK(hk_store_tcp("127.0.0.1", where->store_port, rank == 0, key, KEY_BYTES, 20, &store));
    hk_options options = ranks_join(rank, RANKS, store);
    EXPECT_OK(hk_comm_create(&options, &comm));
    for (int i = 0; i < 8; i++) /* connections and buffers are there */
        EXPECT(work(comm, rank, i, false));
    show_door(where, comm, rank);
    ranks_meet(&where->open, RANKS + 1);
    work_until_enough(where, comm, store, rank);
    EXPECT_OK(hk_comm_free(comm));
    hk_store_free(store);
    return RANKS_FREED;
}

/* ---- what an honest client says, on its way through the rogue ---- */

typedef struct record {
    uint8_t bytes[4096];
    size_t first, count; /* of them, said before anything was heard; all */
} record;

/* Hands on what has come from `from`, at most once. False: nothing came. */
static bool relay(int from, int to, record *kept, bool *answered)
{
    uint8_t text[4096];
    ssize_t got = recv(from, text, sizeof text, MSG_DONTWAIT);
    if (got <= 0)
        return false;
    if (kept != NULL && kept->count + (size_t)got <= sizeof kept->bytes) {
        memcpy(kept->bytes + kept->count, text, (size_t)got);
        kept->count += (size_t)got;
        if (!*answered)
            kept->first = kept->count;
    } else if (kept == NULL) {
        *answered = true;
    }
    return send(to, text, (size_t)got, MSG_NOSIGNAL) == got;
}

static int call_on(const door *at)
{
    int fd = hki_socket_connect(&at->at, 0);
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    if (fd >= 0)
        (void)poll(&ready, 1, 5000);
    return fd;
}

/* An honest handshake that succeeds: a rank that is connected already is told "later", a client of the store "yes". */
static void listen_in(const scene *where, int which, record *kept)
{
    const door *at = &where->doors[which];
    bool store = which == RANKS, answered = false;
    hki_tls_settings settings = {where->tls, "", "", ""};
    hki_tls_context *context;
    hki_handshake honest;
    char reason[HKI_TLS_REASON];
    int middle[2], fd = call_on(at);
    hki_parties parties = {.client_rank = (uint32_t)((which + 1) % RANKS),
                           .server_rank = (uint32_t)which,
                           .client_id = where->doors[(which + 1) % RANKS].context,
                           .server_id = at->context};
    if (store)
        parties = (hki_parties){.server_id = at->context};
    memset(kept, 0, sizeof *kept);
    EXPECT(fd >= 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, middle) == 0);
    EXPECT(hki_tls_context_make(&settings, at->token, &context, reason) <= HKI_TLS_OFF);
    hki_stream stream = {.fd = middle[0]};
    EXPECT(hki_stream_secure(&stream, context, false));
    EXPECT(hki_handshake_client(&honest, &stream, store ? HKI_PURPOSE_STORE : HKI_PURPOSE_LINK, &parties, at->token));
    hki_shake state = HKI_SHAKE_AGAIN;
    for (double end = ranks_seconds() + 10; state == HKI_SHAKE_AGAIN && ranks_seconds() < end;) {
        state = hki_handshake_step(&honest);
        if (!relay(middle[1], fd, kept, &answered) && !relay(fd, middle[1], NULL, &answered))
            ranks_nap(0.0001);
    }
    EXPECT(state == (store ? HKI_SHAKE_DONE : HKI_SHAKE_LATER));
    EXPECT(kept->first > 0 && kept->count > kept->first);
    hki_stream_close(&stream);
    hki_tls_context_free(context);
    close(middle[1]);
    close(fd);
}

/* ---- the rogue ---- */

typedef enum mischief {
    SAYS_NOTHING,
    HANGS_UP,
    RESETS,
    GARBAGE,
    HALF,
    ALL_BUT_THE_PROOF,
    REPLAY,
    REFLECT,
    FALSIFIED,
    HUGE_LENGTHS,
    FLOOD,
    MISCHIEFS
} mischief;

static void say(int fd, const void *bytes, size_t count)
{
    (void)!send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static ssize_t hear(int fd, void *to, size_t room, int milliseconds)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    return poll(&ready, 1, milliseconds) > 0 ? recv(fd, to, room, MSG_DONTWAIT) : -2;
}

/* Whether the door is shut on us: nothing more comes, and soon. Who is let in is not hung up on. */
static bool is_turned_away(int fd)
{
    uint8_t text[4096];
    ssize_t got;
    do
        got = hear(fd, text, sizeof text, 5000);
    while (got > 0);
    return got != -2;
}

/* Lengths that nobody should allocate for: a TLS record's, a frame's, a question's to the store. */
static void say_huge_lengths(int fd, unsigned n)
{
    static const uint8_t texts[3][24] = {{0x16, 3, 1, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 3, 3},
                                         {0xff, 0xff, 0xff, 0xff, 0x48},
                                         {1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
    uint8_t filler[2048];
    memset(filler, 0xff, sizeof filler);
    say(fd, texts[n % 3], sizeof texts[0]);
    say(fd, filler, sizeof filler);
}

/* What was listened in on again; `change`: with a bit of the proof, or what stands for it, another. */
static bool replay(int fd, const record *heard, bool change)
{
    uint8_t text[4096];
    record said = *heard;
    if (change)
        said.bytes[said.count - 1] ^= 1;
    say(fd, said.bytes, said.first);
    (void)hear(fd, text, sizeof text, 1000);
    say(fd, said.bytes + said.first, said.count - said.first);
    return is_turned_away(fd);
}

static bool reflect(int fd, const record *heard)
{
    uint8_t text[4096];
    say(fd, heard->bytes, heard->first);
    for (ssize_t got; (got = hear(fd, text, sizeof text, 1000)) > 0;)
        say(fd, text, (size_t)got);
    return is_turned_away(fd);
}

/* False when it was let in. */
static bool misbehave(int fd, mischief how, const record *heard, unsigned n)
{
    uint8_t noise[3000];
    const struct linger at_once = {.l_onoff = 1};
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)(rand_r(&n) >> 8);
    switch (how) {
    case RESETS:
        say(fd, heard->bytes, 20);
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        return true;
    case GARBAGE:
        noise[0] = n % 2 ? noise[0] : 0x16;
        say(fd, noise, 300);
        return true;
    case HALF:
        say(fd, heard->bytes, heard->first / 2);
        return true;
    case ALL_BUT_THE_PROOF:
        say(fd, heard->bytes, heard->first);
        return true;
    case REPLAY:
    case FALSIFIED:
        return replay(fd, heard, how == FALSIFIED);
    case REFLECT:
        return reflect(fd, heard);
    case HUGE_LENGTHS:
        say_huge_lengths(fd, n);
        return true;
    case FLOOD:
        for (int i = 0; i < 20; i++)
            say(fd, noise, sizeof noise);
        return true;
    default:
        return true;
    }
}

/* Some of its connections stay open. */
static _Noreturn void be_rogue(scene *where)
{
    static record heard[DOORS];
    int kept[KEPT] = {0};
    ranks_meet(&where->open, RANKS + 1);
    for (int i = 0; i < DOORS; i++)
        listen_in(where, i, &heard[i]);
    for (unsigned n = 0; n < ATTACKS; n++) {
        int which = (int)(n % DOORS), fd = call_on(&where->doors[which]), *slot = &kept[n % KEPT];
        mischief how = (mischief)(n / DOORS % MISCHIEFS);
        EXPECT(fd >= 0);
        if (!misbehave(fd, how, &heard[which], n)) {
            atomic_store(&where->attacks, ATTACKS); /* enough is known */
            exit(RANKS_FAILED);
        }
        if (*slot > 0)
            close(*slot);
        *slot = how == HANGS_UP || how == RESETS ? 0 : fd;
        if (*slot == 0)
            close(fd);
        atomic_fetch_add(&where->attacks, 1);
    }
    exit(0);
}

/* ---- the test ---- */

static int count_lines(const char *path, const char *part)
{
    char line[1024];
    int count = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        count += strstr(line, part) != NULL;
    fclose(file);
    return count;
}

static void expect_bounds(const scene *where)
{
    for (int rank = 0; rank < RANKS; rank++) {
        /* Those accepted of strangers, and a few of the library's own that come and go. */
        assert_in_range(where->most_descriptors[rank], 0, STRANGERS + (rank == 0 ? STORE_STRANGERS : 0) + 16);
        if (!RANKS_SANITIZED)
            assert_in_range(where->growth_kib[rank] + GROWTH_KIB, 0, 2 * GROWTH_KIB);
    }
    assert_in_range(count_lines(where->log, "refused a connection from 127.0.0.1:"), RANKS, RANKS * LOG_LINES);
    assert_in_range(count_lines(where->log, "turned away 127.0.0.1:"), 1, LOG_LINES);
}

static void attack(const char *tls)
{
    static const ranks_options options = {.no_context = true};
    scene *where = ranks_shared(sizeof *where);
    ranks_job job;
    int status, log;
    where->tls = tls;
    where->store_port = free_port();
    door *store = &where->doors[RANKS];
    store->at = (hki_address){.family = AF_INET, .bytes = {127, 0, 0, 1}, .port = where->store_port};
    hki_boot_derive_key(key, KEY_BYTES, "store", store->token);
    snprintf(where->log, sizeof where->log, "/tmp/hocket-rogues-XXXXXX");
    assert_true((log = mkstemp(where->log)) >= 0);
    close(log);
    ranks_start(&job, RANKS, &options, live, where);
    pid_t rogue = fork();
    if (rogue == 0) {
        alarm(RANKS_SANITIZED ? 3 * RANKS_SECONDS : RANKS_SECONDS);
        be_rogue(where);
    }
    int failed = ranks_wait(&job);
    if (failed > 0)
        kill(rogue, SIGKILL);
    assert_int_equal(waitpid(rogue, &status, 0), rogue);
    if (failed > 0 || status != 0)
        fail_msg("%d ranks failed, the rogue ended with %d: see %s", failed, status, where->log);
    assert_int_equal(atomic_load(&where->attacks), ATTACKS);
    expect_bounds(where);
    unlink(where->log);
}

static void a_thousand_strangers_harm_no_job(void **state)
{
    (void)state;
    attack("off");
}

static void nor_one_with_tls(void **state)
{
    (void)state;
#ifdef HKI_HAVE_OPENSSL
    attack("required");
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_strangers_harm_no_job),
        cmocka_unit_test(nor_one_with_tls),
    };
    return cmocka_run_group_tests_name("rogues", tests, NULL, NULL);
}

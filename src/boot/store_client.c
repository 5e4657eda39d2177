/* The asking end of a store over TCP: finding the server, and one question at a time. */
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "boot/source.h"
#include "boot/store_tcp.h"
#include "boot/store_wire.h"
#include "net/handshake.h"
#include "net/socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    REFUSALS_MOST = 3, /* a server may also hang up because it is crowded */
    TRIED_TEXT = 400,
    MORE_TEXT = sizeof " and 65536 more"
};
/* Per address, in seconds; guessed. Among several places, one that is silent (a stranger's port, an address that leads
 * nowhere) must not keep the others waiting: there the first round gives each little time, the next twice as much. */
static const double connect_seconds = 3, handshake_seconds = 10, first_round_seconds = 0.25;
/* Pauses between rounds, in seconds: doubled from first to last, each taken by 50 to 100 %. */
static const double first_pause = 0.01, last_pause = 0.5;
static const double answer_seconds = 10; /* beyond what the server was asked to wait */

static uint64_t after(double seconds)
{
    return hki_now() + (uint64_t)((seconds < 1e9 ? seconds : 1e9) * 1e9);
}

static uint64_t earlier(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

/* 0 when ready, ETIMEDOUT at the deadline, or why the kernel cannot wait. */
static int await(int fd, short events, uint64_t deadline)
{
    for (;;) {
        uint64_t now = hki_now();
        if (now >= deadline)
            return ETIMEDOUT;
        uint64_t ms = (deadline - now) / 1000000 + 1;
        struct pollfd descriptor = {.fd = fd, .events = events};
        int ready = poll(&descriptor, 1, ms < 60000 ? (int)ms : 60000);
        if (ready > 0)
            return 0;
        if (ready < 0 && errno != EINTR)
            return errno;
    }
}

/* ---- finding the server ---- */

typedef enum outcome { FOUND, ABSENT, TURNED_DOWN } outcome;

typedef struct search {
    const hki_dial *dial;
    const hki_store_identity *identity;
    hki_tls_context *tls; /* NULL: off */
    uint64_t deadline;
    int refusals; /* in a row */
    unsigned rounds;
    bool several;           /* places to try */
    char tried[TRIED_TEXT]; /* in this round: "10.0.0.1:4000 (Connection refused), …" */
    unsigned more;          /* which that text has no room for */
    hki_stream found;
} search;

static uint64_t limit(const search *self, double seconds)
{
    double given = first_round_seconds * (double)(1u << (self->rounds < 10 ? self->rounds : 10));
    return earlier(self->deadline, after(self->several && given < seconds ? given : seconds));
}

static void note(search *self, const hki_address *at, const char *why)
{
    char text[HKI_ADDRESS_TEXT], one[TRIED_TEXT - MORE_TEXT];
    size_t used = strlen(self->tried);
    hki_address_text(at, text);
    int length = snprintf(one, sizeof one, "%s%s (%s)", used > 0 ? ", " : "", text, why);
    if (self->more > 0 || used + (size_t)length >= sizeof one)
        self->more++;
    else
        memcpy(self->tried + used, one, (size_t)length + 1);
}

/* Ends the list when all places have been tried. */
static void note_more(search *self)
{
    size_t used = strlen(self->tried);
    if (self->more > 0)
        snprintf(self->tried + used, sizeof self->tried - used, " and %u more", self->more);
}

/* A wrong key shows only by the server's hanging up after the proof. */
static bool proof_was_sent(const hki_handshake *shake)
{
    static const uint8_t nothing[HKI_PROOF_BYTES];
    return memcmp(shake->proof, nothing, sizeof nothing) != 0;
}

static outcome shake_hands(search *self, hki_stream *stream, const hki_address *at)
{
    hki_handshake shake;
    const hki_parties parties = {.server_id = self->identity->id};
    uint64_t deadline = limit(self, handshake_seconds);
    if (!hki_stream_secure(stream, self->tls, false)) {
        note(self, at, "no memory");
        return ABSENT;
    }
    if (!hki_handshake_client(&shake, stream, HKI_PURPOSE_STORE, &parties, self->identity->key)) {
        note(self, at, "the kernel has no random bytes");
        return ABSENT;
    }
    int failure = 0;
    hki_shake state = hki_handshake_step(&shake);
    while (state == HKI_SHAKE_AGAIN && (failure = await(stream->fd, shake.writing ? POLLOUT : POLLIN, deadline)) == 0)
        state = hki_handshake_step(&shake);
    if (state == HKI_SHAKE_DONE)
        return FOUND;
    bool disproved = state == HKI_SHAKE_FAILED && !shake.turned_down && proof_was_sent(&shake);
    note(self, at,
         state != HKI_SHAKE_AGAIN ? disproved ? "it hung up on this rank's proof of the job key" : shake.reason
         : failure == ETIMEDOUT   ? "connected, but it does not answer"
                                  : strerror(failure));
    return disproved || shake.turned_down ? TURNED_DOWN : ABSENT;
}

/* A client that dials a port of its own machine where nobody listens may be given that very port, and meet itself. */
static bool met_itself(int fd)
{
    struct sockaddr_storage own = {0}, other = {0};
    socklen_t own_bytes = sizeof own, other_bytes = sizeof other;
    return getsockname(fd, (struct sockaddr *)&own, &own_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&other, &other_bytes) == 0 && own_bytes == other_bytes &&
           memcmp(&own, &other, own_bytes) == 0;
}

static outcome try_one(search *self, const hki_address *at)
{
    hki_stream stream = {.fd = hki_socket_connect(at, 0)};
    if (stream.fd < 0) {
        bool scopeless = hki_address_is_link_local(at) && at->scope == 0;
        note(self, at, scopeless ? "a link-local address needs its interface: fe80::1%eth0" : strerror(-stream.fd));
        return ABSENT;
    }
    outcome result = ABSENT;
    int failure = await(stream.fd, POLLOUT, limit(self, connect_seconds));
    if (failure != 0)
        note(self, at, failure == ETIMEDOUT ? "no answer" : strerror(failure));
    else if ((failure = hki_socket_error(stream.fd)) != 0)
        note(self, at, strerror(failure));
    else if (met_itself(stream.fd))
        note(self, at, "nobody listens");
    else
        result = shake_hands(self, &stream, at);
    if (result == FOUND)
        self->found = stream;
    else
        hki_stream_close(&stream);
    return result;
}

/* One round over all places where the server may be. */
static outcome try_all(search *self)
{
    const hki_dial *dial = self->dial;
    hki_address list[HKI_DIAL_MOST];
    const char *why = "";
    int count = dial->count;
    self->tried[0] = '\0';
    self->more = 0;
    if (dial->host != NULL)
        count = hki_resolve(dial->host, 0, list, HKI_DIAL_MOST, &why);
    else
        memcpy(list, dial->at, (size_t)count * sizeof *list);
    if (count == 0)
        snprintf(self->tried, sizeof self->tried, "%s (%s)", dial->host != NULL ? dial->host : "no address", why);
    outcome result = ABSENT;
    unsigned ports = dial->host != NULL ? dial->ports : 1;
    self->several = (unsigned)count * ports > 1;
    for (unsigned port = 0; port < ports && dial->first + port <= UINT16_MAX; port++) {
        for (int i = 0; i < count && hki_now() < self->deadline; i++) {
            if (dial->host != NULL)
                list[i].port = (uint16_t)(dial->first + port);
            outcome one = try_one(self, &list[i]);
            if (one == FOUND)
                return one;
            result = one == TURNED_DOWN ? one : result;
        }
    }
    note_more(self);
    return result;
}

static void rest(const search *self)
{
    double pause = first_pause;
    uint64_t random = 0;
    for (unsigned i = 0; i < self->rounds && pause < last_pause; i++)
        pause *= 2;
    pause = pause < last_pause ? pause : last_pause;
    (void)hki_boot_random(&random, sizeof random);
    pause *= 0.5 + (double)(random % 1024) / 2048;
    uint64_t now = hki_now(), end = earlier(self->deadline, now + (uint64_t)(pause * 1e9));
    if (end <= now)
        return;
    struct timespec length = {.tv_sec = (time_t)((end - now) / 1000000000u),
                              .tv_nsec = (long)((end - now) % 1000000000u)};
    nanosleep(&length, NULL);
}

static hk_status find_server(search *self, double timeout)
{
    bool one_place = self->dial->host == NULL || self->dial->ports == 1;
    for (;; self->rounds++) {
        outcome result = try_all(self);
        if (result == FOUND)
            return HK_OK;
        self->refusals = result == TURNED_DOWN ? self->refusals + 1 : 0;
        /* Among several ports another job's server may be met; at the one place, it is ours. */
        if (one_place && self->refusals == REFUSALS_MOST)
            return hki_error(HK_ERR_REFUSED,
                             "the rank that serves the others turned this one down: %s; is the job key "
                             "(HOCKET_KEY_FILE, options.key) the same, and HOCKET_TLS?",
                             self->tried);
        if (self->rounds == 8)
            hki_log(HK_LOG_INFO, "still looking for the rank that serves the others: %s", self->tried);
        rest(self);
        if (hki_now() >= self->deadline)
            return hki_error(HK_ERR_BOOTSTRAP, "the rank that serves the others was not found within %g s by %s: %s",
                             timeout, self->dial->settings, self->tried);
    }
}

/* ---- questions ---- */

typedef struct asker {
    hki_made_store made;
    hki_stream stream;
    pid_t owner;
    bool broken; /* question and answer no longer alternate */
} asker;

static hk_status server_lost(asker *self, const char *how)
{
    self->broken = true;
    return hki_error(HK_ERR_PEER_LOST, "the rank that serves the others %s while this one joined", how);
}

static hk_status await_server(asker *self, short events, uint64_t deadline)
{
    int failure = await(self->stream.fd, events, deadline);
    if (failure == 0)
        return HK_OK;
    if (failure == ETIMEDOUT)
        return server_lost(self, "does not answer (stopped?)");
    self->broken = true;
    return hki_error_errno(HK_ERR_SYSTEM, failure, "cannot wait for the rank that serves the others");
}

static hk_status send_bytes(asker *self, const void *data, size_t bytes, bool more, uint64_t deadline)
{
    const uint8_t *next = data;
    while (bytes > 0) {
        ssize_t sent = hki_stream_send(&self->stream, next, bytes, more);
        if (sent >= 0) {
            next += sent;
            bytes -= (size_t)sent;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            HK_TRY(await_server(self, POLLOUT, deadline));
        } else if (errno != EINTR) {
            return server_lost(self, "ended, or hung up,");
        }
    }
    return HK_OK;
}

static hk_status receive_bytes(asker *self, void *data, size_t bytes, uint64_t deadline)
{
    uint8_t *next = data;
    while (bytes > 0) {
        ssize_t got = hki_stream_receive(&self->stream, next, bytes);
        if (got > 0) {
            next += got;
            bytes -= (size_t)got;
        } else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            HK_TRY(await_server(self, POLLIN, deadline));
        } else if (got == 0 || errno != EINTR) {
            return server_lost(self, "ended, or hung up,");
        }
    }
    return HK_OK;
}

static hk_status ask(asker *self, uint32_t kind, const char *key, uint64_t argument, const void *value, size_t bytes,
                     uint64_t deadline)
{
    uint8_t question[HKI_STORE_HEADER + HKI_STORE_KEY_MAX];
    size_t key_bytes = strlen(key);
    if (self->broken)
        return hki_error(HK_ERR_PEER_LOST, "the connection to the rank that serves the others broke before");
    hki_store_write_question(question, kind, key_bytes, argument);
    for (size_t i = 0; i < key_bytes; i++)
        question[HKI_STORE_HEADER + i] = (uint8_t)key[i];
    HK_TRY(send_bytes(self, question, HKI_STORE_HEADER + key_bytes, bytes > 0, deadline));
    return send_bytes(self, value, bytes, false, deadline);
}

/* The answer's first part. */
static hk_status hear(asker *self, hk_status *status, uint64_t *bytes, uint64_t deadline)
{
    uint8_t header[HKI_STORE_HEADER];
    HK_TRY(receive_bytes(self, header, sizeof header, deadline));
    return hki_store_read_answer(header, status, bytes) ? HK_OK : server_lost(self, "answered in an unknown way");
}

static hk_status asked_set(void *context, const char *key, const void *value, size_t bytes)
{
    asker *self = context;
    hk_status status = HK_OK;
    uint64_t none, deadline = after(2 * answer_seconds);
    HK_TRY(hki_store_check(key, bytes));
    HK_TRY(ask(self, HKI_STORE_SET, key, bytes, value, bytes, deadline));
    HK_TRY(hear(self, &status, &none, deadline));
    if (status == HK_ERR_REFUSED)
        return hki_error(status, "key %s is set already", key);
    return status == HK_OK ? HK_OK : hki_error(status, "the store cannot set key %s", key);
}

/* Reads what does not fit and forgets it, so that the next answer is found. */
static hk_status skip(asker *self, uint64_t bytes, uint64_t deadline)
{
    uint8_t nowhere[4096];
    while (bytes > 0) {
        size_t piece = bytes < sizeof nowhere ? (size_t)bytes : sizeof nowhere;
        HK_TRY(receive_bytes(self, nowhere, piece, deadline));
        bytes -= piece;
    }
    return HK_OK;
}

static hk_status asked_get(void *context, const char *key, void *value, size_t *bytes, double timeout)
{
    asker *self = context;
    hk_status status = HK_OK;
    uint64_t length = 0;
    double bounded = timeout > 0 ? (timeout < 1e9 ? timeout : 1e9) : 0;
    uint64_t deadline = after(bounded + answer_seconds);
    HK_TRY(hki_store_check(key, 0));
    HK_TRY(ask(self, HKI_STORE_GET, key, (uint64_t)(bounded * 1000), NULL, 0, deadline));
    HK_TRY(hear(self, &status, &length, deadline));
    if (status == HK_ERR_TIMEOUT)
        return hki_error(status, "key %s was not set within %g s", key, timeout);
    if (status != HK_OK)
        return hki_error(status, "the store cannot get key %s", key);
    if (length > *bytes) {
        HK_TRY(skip(self, length, deadline));
        return hki_error(HK_ERR_TRUNCATED, "key %s holds %llu bytes, more than the %zu that fit", key,
                         (unsigned long long)length, *bytes);
    }
    HK_TRY(receive_bytes(self, value, (size_t)length, deadline));
    *bytes = (size_t)length;
    return HK_OK;
}

bool hki_store_own_address(const hk_store *store, hki_address *own)
{
    struct sockaddr_storage where = {0};
    socklen_t length = sizeof where;
    if (store->get != asked_get)
        return false;
    const asker *self = store->context;
    if (getsockname(self->stream.fd, (struct sockaddr *)&where, &length) != 0 ||
        !hki_address_from_socket((const struct sockaddr *)&where, own))
        return false;
    own->port = 0;
    return true;
}

static void asked_free(hki_made_store *made)
{
    asker *self = (asker *)made;
    if (self->owner == getpid())
        hki_stream_hang_up(&self->stream); /* a child after fork may hold the descriptor as well */
    else
        close(self->stream.fd);
    free(self);
}

hk_status hki_store_dial(const hki_dial *dial, const hki_store_identity *identity, double timeout, hk_store **store)
{
    search found = {.dial = dial, .identity = identity, .deadline = after(timeout), .found.fd = -1};
    asker *self = calloc(1, sizeof *self);
    if (!self)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a store");
    hk_status status = hki_store_tls(identity, &found.tls);
    if (status == HK_OK)
        status = find_server(&found, timeout);
    hki_tls_context_free(found.tls);
    if (status != HK_OK) {
        free(self);
        return status;
    }
    self->stream = found.found;
    self->owner = getpid();
    self->made.store = (hk_store){.size = sizeof(hk_store), .context = self, .set = asked_set, .get = asked_get};
    self->made.free = asked_free;
    *store = &self->made.store;
    return HK_OK;
}

/*
 * The serving end of a store over TCP: a thread, one epoll, and a local store in which this process looks directly.
 *
 * Strangers. Nothing of a connection is parsed before the handshake has proved the key. Until then it costs one
 * `client` and no more, has HANDSHAKE_SECONDS, and at most PENDING_MOST wait at once: the oldest gives way to a new
 * one, so that whoever connects and says nothing keeps nobody out. A rank that has to give way comes again.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "boot/store_tcp.h"
#include "boot/store_wire.h"
#include "net/handshake.h"
#include "net/refusals.h"
#include "net/socket.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PENDING_MOST = 256, HANDSHAKE_SECONDS = 10, ACCEPTS_PER_TURN = 64 };
static const uint64_t short_of_descriptors = 50000000; /* pause in ns; guessed */
static const uint64_t never = UINT64_MAX;

typedef struct client {
    hki_node node; /* of pending or of admitted, by age */
    hki_stream stream;
    bool admitted, waiting, answering;
    bool wants_out;    /* registered for EPOLLOUT */
    uint64_t deadline; /* of the handshake; of a question that waits */
    hki_address from;
    hki_handshake shake;
    hki_question question;
    uint8_t header[HKI_STORE_HEADER]; /* of the answer */
    const uint8_t *value;             /* lies in the table, which outlives the thread */
    size_t value_bytes, sent;
} client;

typedef struct server {
    hki_made_store made;
    hk_store *table;
    hki_listeners listeners; /* not owned */
    hki_store_identity identity;
    hki_tls_context *tls; /* NULL: off */
    double linger;
    pid_t owner; /* children after fork have no thread */
    pthread_t thread;
    int poller, wake;
    atomic_bool stop;
    pthread_mutex_t lock; /* of refusals: the thread adds, joining tells of them */
    hki_refusals refusals;
    /* The thread's own from here on. */
    hki_node pending, admitted;
    unsigned pending_count;
    uint64_t deaf_until; /* descriptors ran short */
    bool deaf;
} server;

/* ---- clients that come and go ---- */

static void watch(const server *self, client *one, bool out)
{
    struct epoll_event event = {.events = out ? EPOLLOUT : EPOLLIN, .data.ptr = one};
    if (one->wants_out == out)
        return;
    epoll_ctl(self->poller, EPOLL_CTL_MOD, one->stream.fd, &event);
    one->wants_out = out;
}

/* A child after fork may hold the descriptor as well, so closing it alone neither hangs up nor ends its events. */
static void drop(server *self, client *one)
{
    epoll_ctl(self->poller, EPOLL_CTL_DEL, one->stream.fd, NULL);
    hki_stream_hang_up(&one->stream);
    hki_list_remove(&one->node);
    self->pending_count -= !one->admitted;
    hki_question_clear(&one->question);
    free(one);
}

/* Who hung up of its own accord was not turned away: a rank that tries several places leaves a slow one. */
static void refuse(server *self, client *one, const char *why)
{
    char from[HKI_ADDRESS_TEXT];
    const char *ending;
    bool worth_a_line = false;
    if (!one->shake.hung_up) {
        pthread_mutex_lock(&self->lock);
        worth_a_line = hki_refusals_add(&self->refusals, &one->from, why, hki_now(), &ending);
        pthread_mutex_unlock(&self->lock);
    }
    hki_address_text(&one->from, from);
    if (worth_a_line)
        hki_log(HK_LOG_WARN, "store: turned away %s: %s%s", from, why, ending);
    drop(self, one);
}

/* Any number of ranks, and ranks of any number: two that claim the same are told apart by what they set. */
static hki_verdict_code admit(void *context, const hki_parties *parties)
{
    (void)context;
    (void)parties;
    return HKI_ACCEPT;
}

static void greet(server *self, int fd, const hki_address *from)
{
    client *one = calloc(1, sizeof *one);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
    if (one != NULL)
        one->stream.fd = fd;
    if (one == NULL || !hki_stream_secure(&one->stream, self->tls, true) ||
        !hki_handshake_server(&one->shake, &one->stream, HKI_PURPOSE_STORE, 0, self->identity.id, self->identity.key,
                              admit, self) ||
        epoll_ctl(self->poller, EPOLL_CTL_ADD, fd, &event) != 0) {
        if (one != NULL)
            hki_stream_close(&one->stream);
        else
            close(fd);
        free(one);
        return;
    }
    hki_socket_tune(fd, 0);
    one->from = *from;
    one->deadline = hki_now() + HANDSHAKE_SECONDS * UINT64_C(1000000000);
    hki_list_append(&self->pending, &one->node);
    self->pending_count++;
}

static client *oldest(const hki_node *list)
{
    return hki_list_entry(list->next, client, node);
}

static void listen_again(server *self, bool deaf)
{
    self->deaf = deaf;
    for (int i = 0; i < self->listeners.count; i++) {
        struct epoll_event event = {.events = deaf ? 0 : EPOLLIN, .data.ptr = &self->listeners.fds[i]};
        epoll_ctl(self->poller, EPOLL_CTL_MOD, self->listeners.fds[i], &event);
    }
}

static void take_newcomers(server *self, int listener)
{
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        hki_address from;
        int fd = hki_socket_accept(listener, &from);
        if (fd == -EAGAIN || fd == -EWOULDBLOCK)
            return;
        if (fd >= 0) {
            if (self->pending_count == PENDING_MOST)
                refuse(self, oldest(&self->pending), "more connections than can wait for their proof");
            greet(self, fd, &from);
        } else if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS) {
            if (!hki_list_empty(&self->pending)) {
                refuse(self, oldest(&self->pending), "this process is short of descriptors");
                continue;
            }
            self->deaf_until = hki_now() + short_of_descriptors;
            listen_again(self, true);
            return;
        } /* else that connection has gone already */
    }
}

/* ---- questions and answers ---- */

static void answer(server *self, client *one, hk_status status, const void *value, size_t bytes)
{
    hki_store_write_answer(one->header, status, bytes);
    one->value = value;
    one->value_bytes = bytes;
    one->sent = 0;
    one->waiting = false;
    one->answering = true;
    hki_question_clear(&one->question);
    watch(self, one, true);
}

/* Answers a GET if its key is set. */
static bool look(server *self, client *one)
{
    size_t bytes;
    const void *value = hki_store_local_peek(self->table, one->question.key, &bytes);
    if (value != NULL)
        answer(self, one, HK_OK, value, bytes);
    return value != NULL;
}

/* Answers those who wait for key, or for any if that is NULL. */
static void look_for_all(server *self, const char *key)
{
    hki_list_each (node, &self->admitted) {
        client *one = hki_list_entry(node, client, node);
        if (one->waiting && (key == NULL || strcmp(key, one->question.key) == 0))
            look(self, one);
    }
}

static void take_question(server *self, client *one)
{
    const hki_question *question = &one->question;
    if (question->kind == HKI_STORE_SET) {
        char key[HKI_STORE_KEY_MAX + 1];
        memcpy(key, question->key, sizeof key);
        hk_status status = self->table->set(self->table->context, key, question->body, (size_t)question->argument);
        answer(self, one, status, NULL, 0);
        if (status == HK_OK)
            look_for_all(self, key);
    } else if (!look(self, one)) {
        uint64_t wait = question->argument < UINT64_C(1) << 40 ? question->argument : UINT64_C(1) << 40;
        one->waiting = true;
        one->deadline = hki_now() + wait * 1000000u;
    }
}

/* Takes what has come; whoever stops doing so for a while calls it again before the socket is waited for, since TLS may
 * hold more. False when the client is to be dropped: it hung up, or broke the protocol. */
static bool hear(server *self, client *one)
{
    while (!one->answering) {
        uint8_t surplus;
        size_t room = sizeof surplus;
        void *to = one->waiting ? &surplus : hki_question_room(&one->question, &room);
        ssize_t got = hki_stream_receive(&one->stream, to, room);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return true;
        if (got <= 0 || one->waiting)
            return false;
        hki_question_state state = hki_question_took(&one->question, (size_t)got);
        if (state == HKI_QUESTION_BAD)
            return false;
        if (state == HKI_QUESTION_COMPLETE)
            take_question(self, one);
    }
    return true;
}

static bool tell(server *self, client *one)
{
    while (one->sent < HKI_STORE_HEADER + one->value_bytes) {
        bool heading = one->sent < HKI_STORE_HEADER, more = heading && one->value_bytes > 0;
        const uint8_t *from = heading ? one->header + one->sent : one->value + (one->sent - HKI_STORE_HEADER);
        size_t bytes = (heading ? HKI_STORE_HEADER : HKI_STORE_HEADER + one->value_bytes) - one->sent;
        ssize_t sent = hki_stream_send(&one->stream, from, bytes, more);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK;
        one->sent += (size_t)sent;
    }
    one->answering = false;
    watch(self, one, false);
    return hear(self, one);
}

/* ---- the thread ---- */

static void shake_hands(server *self, client *one)
{
    switch (hki_handshake_step(&one->shake)) {
    case HKI_SHAKE_AGAIN:
        watch(self, one, one->shake.writing);
        break;
    case HKI_SHAKE_DONE:
        one->admitted = true;
        self->pending_count--;
        hki_list_remove(&one->node);
        hki_list_append(&self->admitted, &one->node);
        watch(self, one, false);
        if (!hear(self, one))
            drop(self, one);
        break;
    default:
        refuse(self, one, one->shake.reason);
    }
}

static void take_event(server *self, void *what)
{
    if (what == self) {
        uint64_t count;
        while (read(self->wake, &count, sizeof count) > 0)
            ;
        look_for_all(self, NULL);
        return;
    }
    for (int i = 0; i < self->listeners.count; i++) {
        if (what == &self->listeners.fds[i]) {
            take_newcomers(self, self->listeners.fds[i]);
            return;
        }
    }
    client *one = what;
    if (!one->admitted)
        shake_hands(self, one);
    else if (!(one->answering ? tell(self, one) : hear(self, one)))
        drop(self, one);
}

/* Ends what has waited too long. Returns when to look again. */
static uint64_t keep_time(server *self)
{
    uint64_t now = hki_now(), next = never;
    while (!hki_list_empty(&self->pending) && oldest(&self->pending)->deadline <= now)
        refuse(self, oldest(&self->pending), "it did not prove itself in time");
    if (!hki_list_empty(&self->pending))
        next = oldest(&self->pending)->deadline;
    hki_list_each (node, &self->admitted) {
        client *one = hki_list_entry(node, client, node);
        if (one->waiting && one->deadline <= now)
            answer(self, one, HK_ERR_TIMEOUT, NULL, 0);
        else if (one->waiting && one->deadline < next)
            next = one->deadline;
    }
    if (self->deaf && self->deaf_until <= now)
        listen_again(self, false);
    else if (self->deaf && self->deaf_until < next)
        next = self->deaf_until;
    return next;
}

static int milliseconds_until(uint64_t when)
{
    uint64_t now = hki_now();
    if (when == never)
        return -1;
    if (when <= now)
        return 0;
    uint64_t ms = (when - now) / 1000000 + 1;
    return ms < 60000 ? (int)ms : 60000;
}

/* An event may drop a client other than its own, for which an event is in the same batch: so one at a time. */
static void serve(server *self, uint64_t until)
{
    uint64_t next = keep_time(self);
    struct epoll_event event;
    int ready = epoll_wait(self->poller, &event, 1, milliseconds_until(next < until ? next : until));
    if (ready > 0)
        take_event(self, event.data.ptr);
}

static void *serve_until_stopped(void *argument)
{
    server *self = argument;
    while (!atomic_load(&self->stop))
        serve(self, never);
    for (int i = 0; i < self->listeners.count; i++)
        epoll_ctl(self->poller, EPOLL_CTL_DEL, self->listeners.fds[i], NULL);
    self->deaf = false;
    look_for_all(self, NULL); /* what was set last */
    uint64_t end = hki_now() + (uint64_t)(self->linger * 1e9);
    while (!hki_list_empty(&self->admitted) && hki_now() < end)
        serve(self, end);
    if (!hki_list_empty(&self->admitted))
        hki_log(HK_LOG_WARN, "store: some ranks still read after %g s", self->linger);
    while (!hki_list_empty(&self->pending))
        drop(self, oldest(&self->pending));
    while (!hki_list_empty(&self->admitted))
        drop(self, oldest(&self->admitted));
    return NULL;
}

/* ---- the store, for this process ---- */

static void wake(const server *self)
{
    uint64_t one = 1;
    while (write(self->wake, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

static hk_status served_set(void *context, const char *key, const void *value, size_t bytes)
{
    server *self = context;
    HK_TRY(self->table->set(self->table->context, key, value, bytes));
    wake(self);
    return HK_OK;
}

static hk_status served_get(void *context, const char *key, void *value, size_t *bytes, double timeout)
{
    server *self = context;
    return self->table->get(self->table->context, key, value, bytes, timeout);
}

void hki_store_turned_away(const hk_store *store, char *text, size_t capacity)
{
    hki_refusals refusals = {0};
    store = hki_store_tcp_inner(store);
    if (store->get == served_get) {
        server *self = store->context;
        pthread_mutex_lock(&self->lock);
        refusals = self->refusals;
        pthread_mutex_unlock(&self->lock);
    }
    hki_refusals_text(&refusals, text, capacity);
}

static void release(server *self)
{
    if (self->poller >= 0)
        close(self->poller);
    if (self->wake >= 0)
        close(self->wake);
    hk_store_free(self->table);
    if (self->owner == getpid()) /* a lock of OpenSSL's may have been held when a child was forked */
        hki_tls_context_free(self->tls);
    explicit_bzero(&self->identity, sizeof self->identity);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

static void served_free(hki_made_store *made)
{
    server *self = (server *)made;
    if (self->owner == getpid()) {
        atomic_store(&self->stop, true);
        wake(self);
        pthread_join(self->thread, NULL);
    }
    release(self);
}

static hk_status start(server *self)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = self};
    self->poller = epoll_create1(EPOLL_CLOEXEC);
    self->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->poller < 0 || self->wake < 0 || epoll_ctl(self->poller, EPOLL_CTL_ADD, self->wake, &event) != 0)
        return hki_error_errno(HK_ERR_SYSTEM, errno, "cannot serve a store");
    for (int i = 0; i < self->listeners.count; i++) {
        event.data.ptr = &self->listeners.fds[i];
        if (epoll_ctl(self->poller, EPOLL_CTL_ADD, self->listeners.fds[i], &event) != 0)
            return hki_error_errno(HK_ERR_SYSTEM, errno, "cannot serve a store");
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the program's */
    int failure = pthread_create(&self->thread, NULL, serve_until_stopped, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failure == 0 ? HK_OK : hki_error_errno(HK_ERR_SYSTEM, failure, "cannot start a thread to serve a store");
}

hk_status hki_store_serve(const hki_listeners *listeners, const hki_store_identity *identity, double linger,
                          hk_store **store)
{
    server *self = calloc(1, sizeof *self);
    if (!self)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a store");
    self->poller = self->wake = -1;
    self->listeners = *listeners;
    self->identity = *identity;
    self->linger = linger < 1e6 ? linger : 1e6;
    self->owner = getpid();
    pthread_mutex_init(&self->lock, NULL);
    hki_list_init(&self->pending);
    hki_list_init(&self->admitted);
    hk_status status = hk_store_local(&self->table);
    if (status == HK_OK)
        status = hki_store_tls(identity, &self->tls);
    if (status == HK_OK)
        status = start(self);
    if (status != HK_OK) {
        release(self);
        return status;
    }
    self->made.store = (hk_store){.size = sizeof(hk_store), .context = self, .set = served_set, .get = served_get};
    self->made.free = served_free;
    *store = &self->made.store;
    return HK_OK;
}

/*
 * Joining through the descriptor that `hocket run` hands on. The process that joins first consumes it: HOCKET_LAUNCH
 * leaves the environment and the descriptor closes on exec, so a program that this one starts is alone and does not
 * pose as its parent. The descriptor stays with the process, for further contexts. A child by fork alone is alone, too.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "boot/launch.h"
#include "boot/source.h"
#include "boot/spot.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The process's one descriptor. Contexts that are made at the same time by several threads take turns from join to
 * leave. `owner` is the pid of the process that consumed it, 0 before. */
static struct {
    atomic_int owner;
    int socket;
    pthread_mutex_t lock;
    pthread_cond_t idle;
    bool busy;
    unsigned contexts; /* begun among several hosts */
} launch = {.socket = -1, .lock = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER};

/* ---------------------------------------------------------------------------------------------------------------
 * The socket
 * ------------------------------------------------------------------------------------------------------------- */

static hk_status launcher_gone(void)
{
    return hki_error(HK_ERR_BOOTSTRAP, "`hocket run` is gone, or closed the connection, while this rank joined");
}

/* Waits for the socket. HK_ERR_TIMEOUT (no text recorded) at the deadline. */
static hk_status await(short events, uint64_t deadline)
{
    for (;;) {
        uint64_t now = hki_now();
        if (now >= deadline)
            return HK_ERR_TIMEOUT;
        uint64_t ms = (deadline - now) / 1000000 + 1;
        struct pollfd descriptor = {.fd = launch.socket, .events = events};
        int ready = poll(&descriptor, 1, ms < 60000 ? (int)ms : 60000);
        if (ready > 0)
            return HK_OK;
        if (ready < 0 && errno != EINTR)
            return hki_error_errno(HK_ERR_SYSTEM, errno, "cannot wait for `hocket run`");
    }
}

static hk_status send_bytes(const void *data, size_t bytes, uint64_t deadline)
{
    const char *next = data;
    while (bytes > 0) {
        ssize_t sent = send(launch.socket, next, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            next += sent;
            bytes -= (size_t)sent;
        } else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            HK_TRY(await(POLLOUT, deadline));
        } else if (sent < 0 && errno != EINTR) {
            return launcher_gone();
        }
    }
    return HK_OK;
}

static hk_status receive_bytes(void *data, size_t bytes, uint64_t deadline)
{
    char *next = data;
    while (bytes > 0) {
        ssize_t got = recv(launch.socket, next, bytes, MSG_DONTWAIT);
        if (got > 0) {
            next += got;
            bytes -= (size_t)got;
        } else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            HK_TRY(await(POLLIN, deadline));
        } else if (got == 0 || errno != EINTR) {
            return launcher_gone();
        }
    }
    return HK_OK;
}

static uint64_t after(double seconds)
{
    return hki_now() + (uint64_t)((seconds < 1e9 ? seconds : 1e9) * 1e9);
}

static hk_status send_message(uint32_t kind, const void *payload, size_t bytes, uint64_t deadline)
{
    hki_launch_header header = {HKI_LAUNCH_MAGIC, kind, bytes};
    HK_TRY(send_bytes(&header, sizeof header, deadline));
    return send_bytes(payload, bytes, deadline);
}

static hk_status unknown_answer(void)
{
    return hki_error(HK_ERR_BOOTSTRAP, "`hocket run` answered in an unknown way: another version of Hocket?");
}

/* Receives what must be on its way, since an answer has begun to arrive. */
static hk_status receive_rest(void *data, size_t bytes)
{
    hk_status status = receive_bytes(data, bytes, after(10));
    return status == HK_ERR_TIMEOUT ? hki_error(HK_ERR_BOOTSTRAP, "`hocket run` stopped in the middle of an answer")
                                    : status;
}

static hk_status receive_failure(uint64_t bytes)
{
    char text[HKI_LAUNCH_TEXT_MAX + 1];
    size_t length = bytes < HKI_LAUNCH_TEXT_MAX ? (size_t)bytes : HKI_LAUNCH_TEXT_MAX;
    HK_TRY(receive_rest(text, length));
    text[length] = '\0';
    return hki_error(HK_ERR_BOOTSTRAP, "%s", text);
}

/* Receives the beginning of the answer `kind` and how many bytes follow, or the failure that came instead.
 * HK_ERR_TIMEOUT only as long as nothing has arrived. */
static hk_status receive_header(uint32_t kind, uint64_t *bytes, uint64_t deadline)
{
    hki_launch_header header;
    HK_TRY(await(POLLIN, deadline));
    HK_TRY(receive_rest(&header, sizeof header));
    if (header.magic != HKI_LAUNCH_MAGIC || (header.kind != HKI_LAUNCH_FAIL && header.kind != kind))
        return unknown_answer();
    if (header.kind == HKI_LAUNCH_FAIL)
        return receive_failure(header.bytes);
    *bytes = header.bytes;
    return HK_OK;
}

/* The same with exactly `bytes` bytes following, which it receives as well. */
static hk_status receive_message(uint32_t kind, void *payload, size_t bytes, uint64_t deadline)
{
    uint64_t following;
    HK_TRY(receive_header(kind, &following, deadline));
    return following == bytes ? receive_rest(payload, bytes) : unknown_answer();
}

/* ---------------------------------------------------------------------------------------------------------------
 * Consuming the descriptor
 * ------------------------------------------------------------------------------------------------------------- */

bool hki_boot_launched(void)
{
    int owner = atomic_load(&launch.owner);
    return owner ? owner == (int)getpid() : *hki_setting_text(HKI_SET_LAUNCH) != '\0';
}

/* The socket that HOCKET_LAUNCH names, checked to be one of a launcher of this user. */
static hk_status check_socket(const char *text, int *checked)
{
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (end == text || *end != '\0' || number < 0 || number > 1 << 24 || errno != 0)
        return hki_error(HK_ERR_SETTING, "HOCKET_LAUNCH is \"%s\", not a descriptor; it is set by `hocket run` only",
                         text);
    int domain = 0, type = 0;
    struct ucred peer = {0};
    socklen_t domain_bytes = sizeof domain, type_bytes = sizeof type, peer_bytes = sizeof peer;
    if (getsockopt((int)number, SOL_SOCKET, SO_DOMAIN, &domain, &domain_bytes) != 0 ||
        getsockopt((int)number, SOL_SOCKET, SO_TYPE, &type, &type_bytes) != 0 || domain != AF_UNIX ||
        type != SOCK_STREAM || getsockopt((int)number, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) != 0)
        return hki_error(HK_ERR_BOOTSTRAP,
                         "descriptor %ld (HOCKET_LAUNCH) is not the one that `hocket run` opened: whoever started this "
                         "process closed it; to run alone, unset HOCKET_LAUNCH",
                         number);
    if (peer.uid != 0 && peer.uid != geteuid())
        return hki_error(HK_ERR_REFUSED, "descriptor %ld (HOCKET_LAUNCH) belongs to user %ld, not to this one", number,
                         (long)peer.uid);
    *checked = (int)number;
    return HK_OK;
}

/* Makes the descriptor this process's own, at its first join. Called with the lock held. */
static hk_status consume(void)
{
    if (atomic_load(&launch.owner))
        return HK_OK;
    HK_TRY(check_socket(hki_setting_text(HKI_SET_LAUNCH), &launch.socket));
    if (fcntl(launch.socket, F_SETFD, FD_CLOEXEC) != 0)
        return hki_error_errno(HK_ERR_SYSTEM, errno, "cannot keep descriptor %d from children", launch.socket);
    size_t count;
    unsetenv(hki_settings(&count)[HKI_SET_LAUNCH].name);
    atomic_store(&launch.owner, (int)getpid());
    return HK_OK;
}

static hk_status take_turn(void)
{
    pthread_mutex_lock(&launch.lock);
    while (launch.busy)
        pthread_cond_wait(&launch.idle, &launch.lock);
    hk_status status = consume();
    launch.busy = status == HK_OK;
    pthread_mutex_unlock(&launch.lock);
    return status;
}

static void end_turn(void)
{
    send_message(HKI_LAUNCH_LEAVE, NULL, 0, after(1));
    pthread_mutex_lock(&launch.lock);
    launch.busy = false;
    pthread_cond_signal(&launch.idle);
    pthread_mutex_unlock(&launch.lock);
}

/* ---------------------------------------------------------------------------------------------------------------
 * The source
 * ------------------------------------------------------------------------------------------------------------- */

typedef struct launcher_boot {
    hki_boot boot;
    hki_boot *meeting; /* of ranks of several hosts, who do not exchange by the launcher */
    void *topology;
} launcher_boot;

static hk_status launcher_exchange(hki_boot *boot, const void *mine, size_t bytes, void *all, double timeout)
{
    launcher_boot *self = (launcher_boot *)boot;
    if (self->meeting)
        return hki_boot_exchange(self->meeting, mine, bytes, all, timeout);
    if (bytes > HKI_LAUNCH_RECORD_MAX)
        return hki_error(HK_ERR_ARGUMENT, "a record of %zu bytes is too long to be exchanged", bytes);
    uint64_t deadline = after(timeout);
    size_t all_bytes = (size_t)boot->place.ranks * bytes;
    hk_status status = send_message(HKI_LAUNCH_EXCHANGE, mine, bytes, deadline);
    if (status == HK_OK)
        status = receive_message(HKI_LAUNCH_RESULT, all, all_bytes, deadline);
    if (status != HK_ERR_TIMEOUT)
        return status;
    status = send_message(HKI_LAUNCH_WHO, NULL, 0, after(5));
    if (status == HK_OK)
        status = receive_message(HKI_LAUNCH_RESULT, all, all_bytes, after(5));
    return status == HK_ERR_TIMEOUT
               ? hki_error(HK_ERR_BOOTSTRAP, "`hocket run` does not answer rank %d (stopped?)", boot->place.rank)
               : status;
}

static void launcher_leave(hki_boot *boot)
{
    hki_boot_leave(((launcher_boot *)boot)->meeting);
    end_turn();
    free(((launcher_boot *)boot)->topology);
    free(boot);
}

static const hki_boot_ops launcher_ops = {.exchange = launcher_exchange, .leave = launcher_leave};

/* Receives the place and the topology behind it, newly allocated (NULL: none). */
static hk_status receive_place(hki_launch_place *place, void **topology, uint64_t deadline)
{
    uint64_t bytes;
    HK_TRY(receive_header(HKI_LAUNCH_PLACE, &bytes, deadline));
    if (bytes < sizeof *place)
        return unknown_answer();
    HK_TRY(receive_rest(place, sizeof *place));
    if (place->topology_bytes > HKI_LAUNCH_TOPOLOGY_MAX || place->topology_bytes != bytes - sizeof *place)
        return unknown_answer();
    if (place->topology_bytes == 0)
        return HK_OK;
    *topology = malloc((size_t)place->topology_bytes);
    if (!*topology)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for joining");
    return receive_rest(*topology, (size_t)place->topology_bytes);
}

static hk_status ask_place(hki_launch_place *place, void **topology)
{
    hki_launch_join join = {.pid = (int32_t)getpid()};
    HK_TRY(hki_boot_random(&join.nonce, sizeof join.nonce));
    uint64_t deadline = after(hki_setting_seconds(HKI_SET_JOIN_TIMEOUT));
    hk_status status = send_message(HKI_LAUNCH_JOIN, &join, sizeof join, deadline);
    if (status == HK_OK)
        status = receive_place(place, topology, deadline);
    if (status == HK_ERR_TIMEOUT)
        return hki_error(HK_ERR_BOOTSTRAP, "`hocket run` does not answer (stopped?)");
    HK_TRY(status);
    place->host[sizeof place->host - 1] = '\0';
    if (place->nonce != join.nonce || place->rank < 0 || place->rank >= place->ranks)
        return hki_error(HK_ERR_BOOTSTRAP, "`hocket run` gave an answer that was not meant for this process: do two "
                                           "processes join as the same rank at once?");
    return HK_OK;
}

/* Ranks of other hosts do not reach this launcher: all meet at rank 0. */
static hk_status meet(launcher_boot *self, const hk_options *options, const hki_launch_place *place)
{
    hk_options placed = *options;
    hki_spot where = {.first = place->port, .ports = place->ports, .settings = "hocket run --hosts"};
    snprintf(where.host, sizeof where.host, "%s", place->host);
    placed.rank = place->rank;
    placed.ranks = place->ranks;
    placed.key = options->key ? options->key : place->key;
    placed.key_bytes = options->key ? options->key_bytes : sizeof place->key;
    return hki_boot_at_spot(&where, &placed, launch.contexts++, "hocket run --hosts", NULL, &self->meeting);
}

hk_status hki_boot_by_launcher(const hk_options *options, hki_boot **boot)
{
    hki_launch_place place;
    launcher_boot *self = calloc(1, sizeof *self);
    if (!self)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for joining");
    hk_status status = take_turn();
    if (status != HK_OK) {
        free(self);
        return status;
    }
    status = ask_place(&place, &self->topology);
    if (status == HK_OK && place.ranks > 1 && place.host[0] != '\0')
        status = meet(self, options, &place);
    if (status != HK_OK) {
        launcher_leave(&self->boot);
        return status;
    }
    self->boot.ops = &launcher_ops;
    self->boot.place = (hki_place){.rank = place.rank,
                                   .ranks = place.ranks,
                                   .has_key = true,
                                   .source = "hocket run",
                                   .topology = self->topology,
                                   .topology_bytes = (size_t)place.topology_bytes};
    const void *secret = options->key ? options->key : place.key;
    hki_boot_derive_key(secret, options->key ? options->key_bytes : sizeof place.key, hki_boot_name(options),
                        self->boot.place.key);
    hki_log(HK_LOG_DEBUG, "joined as rank %d of %d (%d of %d on this host)", place.rank, place.ranks, place.local_rank,
            place.local_ranks);
    *boot = &self->boot;
    return HK_OK;
}

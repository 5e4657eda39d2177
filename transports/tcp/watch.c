/*
 * Who is still there? All of it but the last section runs in the control thread, so that ranks which compute, and ranks
 * without a link to the lost one, learn of it as well.
 *
 * Rank r watches ranks r ± 1, 2, 4, … (modulo the number of ranks): O(log P) connections, made some seconds after the
 * start, over which nothing is sent but the news of a loss and, at the end, a goodbye. The kernel does the watching:
 * its keep-alive probes find out within HOCKET_HEARTBEAT that the other kernel does not answer, and cost no process
 * anything; a process that is only stopped is answered for by its kernel, and so is not taken for lost. A connection
 * that ends without a goodbye is a process that has ended. Whoever finds a loss, by this or by other means, tells those
 * that it is connected to, and they tell theirs: O(log P) hops, and it arrives also when several ranks are lost at
 * once.
 *
 *   message   u32 type · u32 rank · u32 cause · u32 witness
 *             ALIVE: the server's first, from which on both ends count the connection
 *             LOST: that rank is lost, for that cause, which the witness has seen
 *             GOODBYE: the sender leaves in order
 */
#include "tcp.h"

#include "base/clock.h"
#include "net/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

enum { ALIVE = 0x41, LOST = 0x4c, GOODBYE = 0x47 }; /* types */
enum { SILENT, ENDED, BROKEN, SEEN, CAUSES };       /* causes */
enum {
    NOTICED_ABSENCE = 100000000, /* ns; a guess */
    PROBES = 3,                  /* unanswered, after which the kernel gives up */
    CONNECT_MS = 500,            /* for an address in the first pass; doubles with each; guessed, as what follows */
    FIRST_PAUSE_MS = 50,
    DOUBLINGS = 6,     /* of both */
    REFUSED_PASSES = 3 /* nobody listens there any more: it has left */
};

static const hki_loss nothing;

static uint64_t after(uint64_t now, double seconds)
{
    return now + (uint64_t)(seconds * 1e9);
}

static bool lively(const hki_watch *watch)
{
    return watch->stream.fd >= 0;
}

void hki_watch_keep_alive(const hk_transport *transport, int fd)
{
    if (transport->heartbeat <= 0)
        return;
    int step = (int)(transport->heartbeat / (PROBES + 1)), probes = PROBES, on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &step, sizeof step);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &step, sizeof step);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

/* ---- losses ---- */

static void hang_up(hki_watch *watch)
{
    if (!lively(watch))
        return;
    atomic_store(&watch->fd, -1);
    hki_stream_close(&watch->stream);
}

static void listen_for_room(hk_transport *transport, hki_watch *watch, bool blocked)
{
    struct epoll_event event = {.events = blocked ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = watch};
    if (watch->blocked != blocked)
        (void)epoll_ctl(transport->control.epoll, EPOLL_CTL_MOD, watch->stream.fd, &event);
    watch->blocked = blocked;
}

static void write_message(hki_watch *watch, uint32_t type, const hki_loss *loss)
{
    hki_wire_put32(watch->out, type);
    hki_wire_put32(watch->out + 4, loss->rank);
    hki_wire_put32(watch->out + 8, loss->cause);
    hki_wire_put32(watch->out + 12, loss->witness);
    watch->out_left = sizeof watch->out;
}

/* The next thing that the other end has not been told. False: nothing. */
static bool next_message(const hki_tcp_control *control, hki_watch *watch)
{
    if (!watch->greeted)
        write_message(watch, ALIVE, &nothing);
    else if (watch->told < control->loss_count)
        write_message(watch, LOST, &control->losses[watch->told++]);
    else
        return false;
    watch->greeted = true;
    return true;
}

/* Sends what there is to tell, as far as it goes; an error shows at the next receive. */
static void tell(hk_transport *transport, hki_watch *watch)
{
    bool blocked = false;
    while (!blocked && (watch->out_left > 0 || next_message(&transport->control, watch))) {
        const unsigned char *from = watch->out + sizeof watch->out - watch->out_left;
        ssize_t sent = hki_stream_send(&watch->stream, from, watch->out_left, false);
        if (sent > 0)
            watch->out_left -= (size_t)sent;
        else if (errno != EINTR)
            blocked = true;
    }
    listen_for_room(transport, watch, blocked);
}

static void condemn(hk_link *link, const char *why)
{
    hk_transport *transport = link->transport;
    snprintf(link->verdict, sizeof link->verdict, "%s", why);
    if (!link->dial.established) {
        hki_dial_condemn(link, link->verdict);
        return;
    }
    atomic_store(&link->condemned, true);
    atomic_store(&transport->condemned, true);
}

/* Why a rank is lost, as this rank's own errors say it. */
static void explain(const hk_transport *transport, const hki_loss *loss, char text[HKI_TCP_VERDICT])
{
    static const char *const causes[CAUSES] = {[SILENT] = "does not answer: its host is down, or the network to it",
                                               [ENDED] = "hung up without a goodbye: its process has ended",
                                               [BROKEN] = "is cut off: the connection to it broke down",
                                               [SEEN] = "has ended, or is cut off"};
    const hk_peer *self = transport->services->self;
    const hk_link *link = hki_tcp_link((hk_transport *)(uintptr_t)transport, loss->rank);
    int used = snprintf(text, HKI_TCP_VERDICT, "rank %u on %.64s %s", loss->rank,
                        link != NULL ? link->peer.host_name : "this host", causes[loss->cause]);
    if (loss->witness != (uint32_t)self->rank && used > 0 && used < HKI_TCP_VERDICT)
        snprintf(text + used, HKI_TCP_VERDICT - (size_t)used, " (seen by rank %u)", loss->witness);
}

/* A rank is lost: its link ends, if there is one, and the others are told. The first word counts. */
static void mourn(hk_transport *transport, const hki_loss *loss)
{
    hki_tcp_control *control = &transport->control;
    hk_link *link = hki_tcp_link(transport, loss->rank);
    char text[HKI_TCP_VERDICT];
    if (atomic_exchange(&transport->lost[loss->rank], HKI_KNOWN_LOST) == HKI_KNOWN_LOST)
        return;
    explain(transport, loss, text);
    transport->services->log(transport->services->core, HK_LOG_INFO, "tcp: %s", text);
    control->losses[control->loss_count++] = *loss;
    if (link != NULL && !link->acquaintance)
        condemn(link, text);
    for (uint32_t i = 0; i < control->watch_count; i++)
        if (lively(&control->watches[i]))
            tell(transport, &control->watches[i]);
}

static void see(hk_transport *transport, uint32_t rank, uint32_t cause)
{
    const hki_loss loss = {.rank = rank, .cause = cause, .witness = (uint32_t)transport->services->self->rank};
    mourn(transport, &loss);
}

static void lose(hk_transport *transport, hki_watch *watch, uint32_t cause)
{
    watch->over = true;
    hang_up(watch);
    see(transport, watch->rank, cause);
}

static void take_reports(hk_transport *transport)
{
    if (!atomic_exchange(&transport->control.reports, false))
        return;
    for (uint32_t rank = 0; rank < transport->services->ranks; rank++)
        if (atomic_load(&transport->lost[rank]) == HKI_REPORTED)
            see(transport, rank, SEEN);
}

/* ---- connections ---- */

static void retry(hki_watch *watch, uint64_t now)
{
    uint32_t doublings = watch->passes < DOUBLINGS ? watch->passes : DOUBLINGS;
    watch->again = now + (UINT64_C(1000000) * FIRST_PAUSE_MS << doublings);
}

static void end(hk_transport *transport, hki_watch *watch, int error)
{
    bool silence = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH; /* what probes come to */
    if (watch->counts) {
        lose(transport, watch, error == 0 || error == ECONNRESET ? ENDED : silence ? SILENT : BROKEN);
        return;
    }
    hang_up(watch); /* it has never been there: perhaps it is just leaving */
    hki_watch_answered(watch, transport);
    retry(watch, hki_now());
}

static void hear(hk_transport *transport, hki_watch *watch)
{
    uint32_t type = hki_wire_get32(watch->in);
    const hki_loss loss = {.rank = hki_wire_get32(watch->in + 4),
                           .cause = hki_wire_get32(watch->in + 8),
                           .witness = hki_wire_get32(watch->in + 12)};
    bool sensible = loss.rank < transport->services->ranks && loss.cause < CAUSES;
    watch->in_bytes = 0;
    watch->counts = true;
    if (type == LOST && sensible) {
        if (loss.rank != (uint32_t)transport->services->self->rank)
            mourn(transport, &loss);
    } else if (type == GOODBYE) {
        watch->over = true;
        hang_up(watch);
    } else if (type != ALIVE) {
        lose(transport, watch, BROKEN);
    }
}

void hki_watch_event(hk_transport *transport, hki_watch *watch, uint32_t events)
{
    if (lively(watch) && (events & EPOLLOUT))
        tell(transport, watch);
    while (lively(watch)) {
        ssize_t got =
            hki_stream_receive(&watch->stream, watch->in + watch->in_bytes, sizeof watch->in - watch->in_bytes);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            end(transport, watch, got < 0 ? errno : 0);
            return;
        }
        watch->in_bytes += (size_t)got;
        if (watch->in_bytes == sizeof watch->in)
            hear(transport, watch);
    }
}

/* ---- making them ---- */

static hki_watch *watch_of(hki_tcp_control *control, uint32_t rank)
{
    for (uint32_t i = 0; i < control->watch_count; i++)
        if (control->watches[i].rank == rank)
            return &control->watches[i];
    return NULL;
}

static void add(hk_transport *transport, uint32_t rank, bool dials, uint64_t now)
{
    hki_tcp_control *control = &transport->control;
    if (rank == (uint32_t)transport->services->self->rank || watch_of(control, rank) != NULL)
        return;
    control->watches[control->watch_count] = (hki_watch){.rank = rank,
                                                         .dials = dials,
                                                         .stream.fd = -1,
                                                         .fd = -1,
                                                         .again = now,
                                                         .deadline = after(now, transport->heartbeat)};
    atomic_fetch_add(&control->watch_count, 1);
}

/* Both ends come to the same list: what is r + step to one is the other's r - step, in the same round. */
static void begin(hk_transport *transport, uint64_t now)
{
    uint32_t ranks = transport->services->ranks, self = (uint32_t)transport->services->self->rank;
    transport->control.watching_began = true;
    for (uint32_t step = 1; step < ranks && transport->control.watch_count + 2 <= HKI_TCP_WATCHES; step *= 2) {
        uint32_t up = (self + step) % ranks, down = (self + ranks - step) % ranks;
        add(transport, up, up != down || self < up, now);
        add(transport, down, false, now);
    }
}

hki_verdict_code hki_watch_admit(hki_attempt *attempt, const hki_parties *parties)
{
    hk_transport *transport = attempt->transport;
    const hk_link *link = hki_tcp_link(transport, parties->client_rank);
    if (transport->heartbeat <= 0 || parties->client_rank >= transport->services->ranks)
        return HKI_REFUSE;
    if (!transport->control.watching_began)
        begin(transport, hki_now());
    hki_watch *watch = watch_of(&transport->control, parties->client_rank);
    if (link == NULL)
        return HKI_LATER;
    if (watch == NULL || watch->dials || watch->over || link->peer.context != parties->client_id)
        return HKI_REFUSE;
    if (watch->attempt != NULL || lively(watch))
        return HKI_LATER;
    attempt->watch = watch;
    watch->attempt = attempt;
    return HKI_ACCEPT;
}

void hki_watch_establish(hki_attempt *attempt)
{
    hk_transport *transport = attempt->transport;
    hki_watch *watch = attempt->watch;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = watch};
    watch->stream = hki_attempt_release(attempt);
    watch->told = 0;
    watch->in_bytes = watch->out_left = 0;
    watch->blocked = false;
    watch->greeted = watch->dials;
    watch->counts = !watch->dials;
    if (epoll_ctl(transport->control.epoll, EPOLL_CTL_MOD, watch->stream.fd, &event) != 0) {
        hki_stream_close(&watch->stream);
        return;
    }
    atomic_store(&watch->fd, watch->stream.fd);
    hki_watch_keep_alive(transport, watch->stream.fd);
    transport->services->log(transport->services->core, HK_LOG_DEBUG, "tcp: ranks %d and %u watch each other",
                             (int)transport->services->self->rank, watch->rank);
    tell(transport, watch);
    hki_watch_event(transport, watch, 0); /* what came with the handshake's end */
}

void hki_watch_answered(hki_watch *watch, const hk_transport *transport)
{
    watch->deadline = after(hki_now(), transport->heartbeat);
    watch->unanswered = 0;
}

void hki_watch_failed(hki_attempt *attempt, bool refusal)
{
    hki_watch *watch = attempt->watch;
    hk_transport *transport = attempt->transport;
    const hk_link *link = hki_tcp_link(transport, watch->rank);
    bool reached = !attempt->connecting; /* this is the right address: others may lead nowhere, and take their time */
    hki_attempt_drop(attempt);
    watch->others |= !refusal;
    if (reached) {
        retry(watch, hki_now());
        return;
    }
    if (link != NULL && ++watch->candidate < link->candidate_count) {
        watch->again = hki_now();
        return;
    }
    watch->refused = watch->others ? 0 : watch->refused + 1;
    watch->over = watch->refused == REFUSED_PASSES;
    watch->others = false;
    watch->candidate = 0;
    watch->passes++;
    watch->unanswered++;
    retry(watch, hki_now());
}

static void dial(hk_transport *transport, hki_watch *watch, uint64_t now)
{
    hk_link *link = hki_tcp_link(transport, watch->rank);
    uint32_t doublings = watch->passes < DOUBLINGS ? watch->passes : DOUBLINGS;
    if (link == NULL) { /* not made yet, or no way leads there */
        watch->again = after(now, transport->heartbeat / (PROBES + 1));
        hki_watch_answered(watch, transport);
        return;
    }
    watch->attempt = hki_attempt_dial(link, NULL, &link->candidates[watch->candidate],
                                      now + (UINT64_C(1000000) * CONNECT_MS << doublings));
    if (watch->attempt != NULL) {
        watch->attempt->watch = watch;
        return;
    }
    watch->others = true;
    watch->candidate = (watch->candidate + 1) % link->candidate_count;
    watch->passes += watch->candidate == 0;
    watch->unanswered += watch->candidate == 0;
    retry(watch, now);
}

/* Time in which this thread had no core proves nothing against others: it is added to what they have. */
static void allow_for_own_absence(hki_tcp_control *control, uint64_t now)
{
    uint64_t absent = now > control->watch_due ? now - control->watch_due : 0;
    for (uint32_t i = 0; absent > NOTICED_ABSENCE && i < control->watch_count; i++)
        control->watches[i].deadline += absent;
}

uint64_t hki_watch_times(hk_transport *transport, uint64_t now)
{
    hki_tcp_control *control = &transport->control;
    uint64_t next = UINT64_MAX;
    if (transport->heartbeat <= 0)
        return next;
    if (!control->watching_began && now < control->watch_from && !atomic_load(&control->reports))
        return control->watch_from;
    if (!control->watching_began)
        begin(transport, now);
    take_reports(transport);
    allow_for_own_absence(control, now);
    for (uint32_t i = 0; i < control->watch_count; i++) {
        hki_watch *watch = &control->watches[i];
        if (!watch->dials || watch->over || lively(watch))
            continue;
        if (watch->attempt == NULL && now >= watch->deadline && watch->unanswered > 0)
            lose(transport, watch, SILENT);
        else if (watch->attempt == NULL && now >= watch->again)
            dial(transport, watch, now);
        if (!watch->over && watch->attempt == NULL && watch->again < next)
            next = watch->again;
    }
    control->watch_due = next;
    return next;
}

/* ---- the caller's thread ---- */

bool hki_watch_open(hk_transport *transport)
{
    uint32_t ranks = transport->services->ranks;
    hki_tcp_control *control = &transport->control;
    transport->lost = calloc(ranks, sizeof *transport->lost);
    control->losses = calloc(ranks, sizeof *control->losses);
    /* Not all at once, and not in jobs that are over sooner. */
    double wait = transport->heartbeat / (PROBES + 1);
    wait *= 0.5 + (double)(transport->services->self->context % 1024) / 2048;
    control->watch_from = after(hki_now(), wait);
    control->watch_due = UINT64_MAX;
    return transport->lost != NULL && control->losses != NULL;
}

void hki_watch_close(hk_transport *transport)
{
    hki_tcp_control *control = &transport->control;
    for (uint32_t i = 0; i < control->watch_count; i++) {
        hki_watch *watch = &control->watches[i];
        if (!lively(watch))
            continue;
        tell(transport, watch);
        if (watch->out_left == 0) {
            write_message(watch, GOODBYE, &nothing);
            (void)!hki_stream_send(&watch->stream, watch->out, sizeof watch->out, false);
        }
        while (hki_stream_receive(&watch->stream, watch->in, sizeof watch->in) > 0)
            ; /* unread, it would make close reset the connection */
        hang_up(watch);
    }
}

void hki_watch_judge(hk_transport *transport)
{
    if (!atomic_load_explicit(&transport->condemned, memory_order_relaxed) ||
        !atomic_exchange(&transport->condemned, false))
        return;
    for (uint32_t rank = 0; rank < transport->services->ranks; rank++) {
        hk_link *link = hki_tcp_link(transport, rank);
        if (link == NULL || !atomic_exchange(&link->condemned, false) || link->state == HK_LINK_GOODBYE)
            continue;
        hki_tcp_adopt(transport); /* its connection may just have been handed over */
        if (link->state != HK_LINK_UP)
            continue;
        link->hung_up = true;
        link->error = ETIMEDOUT;
        hki_tcp_end(link);
        if (link->state == HK_LINK_LOST)
            snprintf(link->reason, sizeof link->reason, "%s", link->verdict);
    }
}

void hki_watch_acquaint(hk_transport *transport, const hk_peer *peer, const void *address, size_t bytes)
{
    uint32_t rank = (uint32_t)peer->rank, ranks = transport->services->ranks;
    uint32_t up = (rank + ranks - (uint32_t)transport->services->self->rank) % ranks, down = ranks - up;
    bool power = (up & (up - 1)) == 0 || (down & (down - 1)) == 0;
    if (transport->heartbeat <= 0 || !power || hki_tcp_link(transport, rank) != NULL)
        return;
    hk_link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return; /* then the two do not watch each other */
    link->transport = transport;
    link->peer = *peer;
    link->acquaintance = true;
    link->stream.fd = link->offered.fd = -1;
    hki_list_init(&link->lively);
    hki_list_init(&link->dial.node);
    if (hki_tcp_candidates(link, address, bytes) != HK_OK) {
        free(link);
        return;
    }
    atomic_store_explicit(&transport->links[rank], link, memory_order_release);
}

bool hki_watch_report(hk_transport *transport, uint32_t rank)
{
    unsigned char unknown = HKI_ALIVE;
    const hk_link *link = hki_tcp_link(transport, rank);
    if (transport->heartbeat <= 0 || !transport->control.running || rank >= transport->services->ranks)
        return false;
    if (link != NULL && !link->acquaintance && link->other_end.family == 0)
        return false; /* it was never reached from here: others may do better */
    if (atomic_compare_exchange_strong(&transport->lost[rank], &unknown, HKI_REPORTED)) {
        atomic_store(&transport->control.reports, true);
        hki_tcp_control_ring(transport);
    }
    return true;
}

/*
 * How connections come about; all of it runs in the control thread. Both sides of a pair may dial at once, and exactly
 * one connection must come of it: while a rank's own dial has reached the peer, the lower rank puts the other's dial
 * off, and the higher one gives up its own when the other's has proved itself. A server counts on a connection only
 * when it is confirmed, so a dial that was given up half-way harms nobody.
 */
#include "tcp.h"

#include "base/clock.h"
#include "net/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

/* All guessed, but the reason beside them. */
enum {
    FIRST_PAUSE_MS = 2, /* a peer that is about to expect us, or to dial us, does so soon */
    LONGEST_PAUSE_MS = 250,
    CONNECT_MS = 500,          /* to wait for an address in the first pass; doubles with each */
    LONGEST_CONNECT_MS = 8000, /* TCP tries a SYN again after 1 and 3 s */
    HANDSHAKE_MS = 10000,      /* a machine with far more ranks than cores is slow */
    REFUSED_PASSES = 3,        /* nobody listens there any more, or somebody who is of another kind (TLS) */
    STRANGERS = 64             /* connections unproved at a time, or two a rank if that is more */
};

/* ---- attempts ---- */

hki_stream hki_attempt_release(hki_attempt *attempt)
{
    hki_tcp_control *control = &attempt->transport->control;
    hki_stream stream = attempt->stream;
    attempt->stream.fd = -1;
    control->strangers -= !attempt->dialled && !attempt->shake.proved;
    hk_link *link = attempt->link;
    if (link != NULL && link->dial.attempt == attempt)
        link->dial.attempt = NULL;
    if (link != NULL && link->dial.half == attempt)
        link->dial.half = NULL;
    if (attempt->watch != NULL && attempt->watch->attempt == attempt)
        attempt->watch->attempt = NULL;
    hki_list_remove(&attempt->node);
    hki_list_append(&control->over, &attempt->node); /* events of this round may still speak of it */
    return stream;
}

void hki_attempt_drop(hki_attempt *attempt)
{
    if (attempt->stream.fd < 0)
        return;
    hki_stream stream = hki_attempt_release(attempt);
    hki_stream_close(&stream);
}

static hki_attempt *begin(hk_transport *transport, int fd, const hki_address *address, uint32_t events)
{
    hki_attempt *attempt = calloc(1, sizeof *attempt);
    struct epoll_event event = {.events = events, .data.ptr = attempt};
    if (attempt == NULL || epoll_ctl(transport->control.epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        free(attempt);
        close(fd);
        return NULL;
    }
    attempt->transport = transport;
    attempt->stream.fd = fd;
    attempt->address = *address;
    hki_list_append(&transport->control.attempts, &attempt->node);
    return attempt;
}

static void listen_for(hki_attempt *attempt, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = attempt};
    (void)epoll_ctl(attempt->transport->control.epoll, EPOLL_CTL_MOD, attempt->stream.fd, &event);
}

/* ---- ends of dialling ---- */

static void settle(hk_link *link)
{
    link->dial.established = true;
    hki_list_remove(&link->dial.node);
}

/* From which of this machine's interfaces the connection leaves: the kernel's choice by its routes. */
static void describe_way(const hk_transport *transport, int fd, char text[HKI_ADDRESS_TEXT + IF_NAMESIZE])
{
    struct sockaddr_storage where = {0};
    socklen_t length = sizeof where;
    hki_address own;
    const char *name = "";
    text[0] = '\0';
    if (getsockname(fd, (struct sockaddr *)&where, &length) != 0 ||
        !hki_address_from_socket((const struct sockaddr *)&where, &own))
        return;
    for (int i = 0; i < transport->interface_count; i++)
        if (hki_address_same_host(&own, &transport->interfaces[i].address))
            name = transport->interfaces[i].name;
    own.port = 0;
    char address[HKI_ADDRESS_TEXT];
    hki_address_text(&own, address);
    snprintf(text, HKI_ADDRESS_TEXT + IF_NAMESIZE, "%s %s", name, address);
}

/* The link has its connection: this one. */
static void establish(hk_link *link, hki_attempt *attempt)
{
    hk_transport *transport = link->transport;
    char other[HKI_ADDRESS_TEXT], way[HKI_ADDRESS_TEXT + IF_NAMESIZE];
    if (link->dial.attempt != NULL && link->dial.attempt != attempt)
        hki_attempt_drop(link->dial.attempt);
    (void)epoll_ctl(transport->control.epoll, EPOLL_CTL_DEL, attempt->stream.fd, NULL);
    hki_address_text(&attempt->address, other);
    describe_way(transport, attempt->stream.fd, way);
    transport->services->log(transport->services->core, HK_LOG_INFO, "tcp: rank %d on %s %s %s, over %s",
                             (int)link->peer.rank, link->peer.host_name,
                             attempt->dialled ? "reached at" : "has connected from", other, way);
    link->other_end = attempt->address;
    hki_tcp_congestion(transport, attempt->stream.fd);
    settle(link);
    hki_tcp_offer(link, hki_attempt_release(attempt));
}

static void give_up(hk_link *link, const char *why)
{
    const hk_peer *self = link->transport->services->self;
    snprintf(link->reason, sizeof link->reason, "rank %d on %.64s is not reached from rank %d on %.64s, %s: tried %s",
             (int)link->peer.rank, link->peer.host_name, (int)self->rank, self->host_name, why, link->dial.tried);
    if (link->dial.attempt != NULL)
        hki_attempt_drop(link->dial.attempt);
    settle(link);
    hki_tcp_offer(link, (hki_stream){.fd = -1});
}

void hki_dial_condemn(hk_link *link, const char *why)
{
    snprintf(link->reason, sizeof link->reason, "%s", why);
    if (link->dial.attempt != NULL)
        hki_attempt_drop(link->dial.attempt);
    if (link->dial.half != NULL)
        hki_attempt_drop(link->dial.half);
    settle(link);
    hki_tcp_offer(link, (hki_stream){.fd = -1});
}

/* ---- dialling ---- */

hki_attempt *hki_attempt_dial(hk_link *link, const hki_address *from, const hki_address *to, uint64_t deadline)
{
    int fd = hki_socket_connect_from(from, to, link->transport->buffer);
    hki_attempt *attempt = fd >= 0 ? begin(link->transport, fd, to, EPOLLOUT) : NULL;
    errno = fd < 0 ? -fd : ENOMEM;
    if (attempt == NULL)
        return NULL;
    attempt->dialled = attempt->connecting = true;
    attempt->link = link;
    attempt->deadline = deadline;
    return attempt;
}

static void pause_dial(hk_link *link, uint64_t now)
{
    hki_dial *dial = &link->dial;
    dial->again = now + dial->pause;
    dial->pause = dial->pause * 2 < LONGEST_PAUSE_MS * MS ? dial->pause * 2 : LONGEST_PAUSE_MS * MS;
}

static void note_failure(hk_link *link, const char *why, bool refusal)
{
    hki_dial *dial = &link->dial;
    char address[HKI_ADDRESS_TEXT];
    size_t at = dial->next > 0 ? strlen(dial->tried) : 0;
    hki_address_text(&link->candidates[dial->next], address);
    snprintf(dial->tried + at, sizeof dial->tried - at, "%s%s (%s)", at > 0 ? ", " : "", address, why);
    dial->others |= !refusal;
    dial->next++;
}

static void try_next(hk_link *link, uint64_t now)
{
    hki_dial *dial = &link->dial;
    uint64_t patience = dial->passes < 4 ? (uint64_t)CONNECT_MS << dial->passes : (uint64_t)LONGEST_CONNECT_MS;
    for (; dial->next < link->candidate_count;) {
        const hki_address *to = &link->candidates[dial->next];
        dial->attempt = hki_attempt_dial(link, NULL, to, now + patience * MS);
        if (dial->attempt != NULL)
            return;
        note_failure(link, strerror(errno), errno == ECONNREFUSED);
    }
    dial->refused = dial->others ? 0 : dial->refused + 1;
    dial->others = false;
    dial->next = 0;
    dial->passes++;
    pause_dial(link, now);
}

void hki_dial_want(hk_link *link)
{
    hki_dial *dial = &link->dial;
    if (dial->established || !hki_list_empty(&dial->node))
        return;
    uint64_t now = hki_now();
    dial->pause = FIRST_PAUSE_MS * MS;
    dial->deadline = now + (uint64_t)(link->transport->connect_timeout * 1e9);
    snprintf(dial->tried, sizeof dial->tried, "nothing");
    hki_list_append(&link->transport->control.dialling, &dial->node);
    if (dial->half == NULL)
        try_next(link, now);
}

/* The dial has come to nothing this time. */
static void dial_failed(hki_attempt *attempt, const char *why, bool refusal)
{
    hk_link *link = attempt->link;
    uint64_t now = hki_now();
    if (attempt->watch != NULL) {
        hki_watch_failed(attempt, refusal);
        return;
    }
    if (attempt->lane != 0) {
        hki_lane_failed(attempt, why);
        return;
    }
    hki_attempt_drop(attempt);
    note_failure(link, why, refusal);
    try_next(link, now);
}

/* The peer puts this dial off: it dials itself, or does not know of us yet. */
static void dial_later(hki_attempt *attempt)
{
    hk_link *link = attempt->link;
    if (attempt->watch != NULL) {
        hki_watch_failed(attempt, false);
        return;
    }
    if (attempt->lane != 0) {
        hki_lane_failed(attempt, "it puts us off");
        return;
    }
    hki_attempt_drop(attempt);
    pause_dial(link, hki_now());
}

/* Connected, or not. */
static bool connected(hki_attempt *attempt)
{
    hk_link *link = attempt->link;
    hk_transport *transport = attempt->transport;
    hki_parties parties = {.client_rank = (uint32_t)transport->services->self->rank,
                           .server_rank = (uint32_t)link->peer.rank,
                           .client_id = transport->services->self->context,
                           .server_id = link->peer.context};
    int error = hki_socket_error(attempt->stream.fd);
    if (error != 0) {
        dial_failed(attempt, strerror(error), error == ECONNREFUSED);
        return false;
    }
    attempt->connecting = false;
    attempt->deadline = hki_now() + HANDSHAKE_MS * MS;
    if (!hki_stream_secure(&attempt->stream, transport->tls, false)) {
        dial_failed(attempt, "no memory for TLS", false);
        return false;
    }
    if (attempt->watch != NULL)
        hki_watch_answered(attempt->watch, transport);
    hki_purpose purpose = attempt->watch != NULL ? HKI_PURPOSE_WATCH
                          : attempt->lane != 0   ? (hki_purpose)(HKI_PURPOSE_LANE + attempt->lane)
                                                 : HKI_PURPOSE_LINK;
    if (hki_handshake_client(&attempt->shake, &attempt->stream, purpose, &parties, transport->services->token))
        return true;
    dial_failed(attempt, "no random numbers", false);
    return false;
}

/* ---- being dialled ---- */

/* Decides about a client that knows the key. */
static hki_verdict_code admit(void *context, const hki_parties *parties)
{
    hki_attempt *attempt = context;
    hk_transport *transport = attempt->transport;
    hk_link *link = hki_tcp_link(transport, parties->client_rank);
    transport->control.strangers--;
    if (attempt->shake.purpose == HKI_PURPOSE_WATCH)
        return hki_watch_admit(attempt, parties);
    if (attempt->shake.purpose > HKI_PURPOSE_LANE)
        return hki_lane_admit(attempt, parties);
    if (link == NULL)
        return parties->client_rank < transport->services->ranks ? HKI_LATER : HKI_REFUSE;
    if (link->peer.context != parties->client_id || link->acquaintance)
        return HKI_REFUSE;
    hki_dial *dial = &link->dial;
    bool dialling = dial->attempt != NULL && !dial->attempt->connecting;
    if (dial->established || dial->half != NULL ||
        (dialling && (uint32_t)transport->services->self->rank < parties->client_rank))
        return HKI_LATER;
    if (dial->attempt != NULL)
        hki_attempt_drop(dial->attempt);
    dial->half = attempt;
    attempt->link = link;
    return HKI_ACCEPT;
}

/* Who hangs up unproved was not refused: most likely a rank whose dial has crossed this one's, and which gave it up. */
static void complain(const hki_attempt *attempt, const char *why)
{
    hk_transport *transport = attempt->transport;
    char from[HKI_ADDRESS_TEXT];
    const char *ending;
    if (attempt->shake.hung_up)
        return;
    atomic_fetch_add(&transport->control.refused, 1);
    if (!hki_refusals_add(&transport->control.refusals, &attempt->address, why, hki_now(), &ending))
        return;
    hki_address_text(&attempt->address, from);
    transport->services->log(transport->services->core, HK_LOG_WARN, "tcp: refused a connection from %s: %s%s", from,
                             why, ending);
}

static void answer_failed(hki_attempt *attempt, const char *why)
{
    hk_link *link = attempt->link;
    if (!attempt->shake.proved)
        complain(attempt, why);
    hki_attempt_drop(attempt);
    if (link != NULL && !link->dial.established && !hki_list_empty(&link->dial.node))
        link->dial.again = hki_now(); /* the other's dial came to nothing: our own goes on */
}

/* Strangers are bounded: the one that has waited longest goes. */
static void make_room(hk_transport *transport)
{
    uint32_t most = transport->services->ranks * 2 > STRANGERS ? transport->services->ranks * 2 : STRANGERS;
    if (transport->control.strangers < most)
        return;
    hki_list_each (node, &transport->control.attempts) {
        hki_attempt *attempt = hki_list_entry(node, hki_attempt, node);
        if (attempt->dialled || attempt->shake.proved)
            continue;
        answer_failed(attempt, "too many at a time say nothing");
        return;
    }
}

void hki_attempt_accept(hk_transport *transport, int fd, const hki_address *from)
{
    const hk_peer *self = transport->services->self;
    make_room(transport);
    hki_attempt *attempt = begin(transport, fd, from, EPOLLIN);
    if (attempt == NULL)
        return;
    transport->control.strangers++;
    attempt->deadline = hki_now() + HANDSHAKE_MS * MS;
    if (!hki_stream_secure(&attempt->stream, transport->tls, true) ||
        !hki_handshake_server(&attempt->shake, &attempt->stream, HKI_PURPOSE_LINK, (uint32_t)self->rank, self->context,
                              transport->services->token, admit, attempt))
        hki_attempt_drop(attempt);
}

/* ---- events ---- */

void hki_attempt_event(hki_attempt *attempt)
{
    if (attempt->stream.fd < 0 || (attempt->connecting && !connected(attempt)))
        return;
    switch (hki_handshake_step(&attempt->shake)) {
    case HKI_SHAKE_AGAIN:
        listen_for(attempt, attempt->shake.writing ? EPOLLOUT : EPOLLIN);
        break;
    case HKI_SHAKE_DONE:
        if (attempt->watch != NULL)
            hki_watch_establish(attempt);
        else if (attempt->lane != 0)
            hki_lane_establish(attempt);
        else
            establish(attempt->link, attempt);
        break;
    case HKI_SHAKE_LATER:
        if (attempt->dialled)
            dial_later(attempt);
        else
            hki_attempt_drop(attempt);
        break;
    case HKI_SHAKE_FAILED:
        if (attempt->dialled)
            dial_failed(attempt, attempt->shake.reason, attempt->shake.turned_down);
        else
            answer_failed(attempt, attempt->shake.reason);
        break;
    }
}

static void attempt_late(hki_attempt *attempt)
{
    if (!attempt->dialled)
        answer_failed(attempt, "it did not finish the handshake in time");
    else
        dial_failed(attempt, attempt->connecting ? "no answer" : "no end of the handshake", false);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t hki_dial_times(hk_transport *transport, uint64_t now)
{
    uint64_t next = UINT64_MAX;
    hki_list_each_safe (node, following, &transport->control.dialling) {
        hk_link *link = hki_list_entry(node, hk_link, dial.node);
        hki_dial *dial = &link->dial;
        if (now >= dial->deadline)
            give_up(link, "in the time that HOCKET_CONNECT_TIMEOUT allows");
        else if (dial->refused >= REFUSED_PASSES && dial->half == NULL)
            give_up(link, "and all that was tried refuses");
        else if (dial->attempt == NULL && dial->half == NULL && now >= dial->again)
            try_next(link, now);
        if (dial->established)
            continue;
        next = earlier(next, dial->deadline);
        if (dial->attempt == NULL && dial->half == NULL)
            next = earlier(next, dial->again);
    }
    /* Dropping one may drop others: begin anew after each. */
    for (bool again = true; again;) {
        again = false;
        hki_list_each (node, &transport->control.attempts) {
            hki_attempt *attempt = hki_list_entry(node, hki_attempt, node);
            if (now < attempt->deadline) {
                next = earlier(next, attempt->deadline);
                continue;
            }
            attempt_late(attempt);
            again = true;
            break;
        }
    }
    return next;
}

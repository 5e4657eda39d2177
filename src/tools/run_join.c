#include "tools/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---------------------------------------------------------------------------------------------------------------
 * Answers
 * ------------------------------------------------------------------------------------------------------------- */

static void release(run_reply *reply)
{
    if (--reply->references == 0)
        free(reply);
}

static run_reply *reply_new(uint32_t kind, size_t bytes)
{
    hki_launch_header header = {HKI_LAUNCH_MAGIC, kind, bytes};
    run_reply *reply = malloc(sizeof *reply + sizeof header + bytes);
    if (!reply)
        return NULL;
    reply->references = 1;
    reply->bytes = sizeof header + bytes;
    memcpy(reply->data, &header, sizeof header);
    return reply;
}

static char *reply_payload(run_reply *reply)
{
    return reply->data + sizeof(hki_launch_header);
}

static void want_out(run_join *join, int rank, bool wanted)
{
    run_link *link = &join->links[rank];
    if (link->wants_out == wanted)
        return;
    struct epoll_event event = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0),
                                .data.u64 = run_event(RUN_EVENT_LINK, rank)};
    epoll_ctl(join->poller, EPOLL_CTL_MOD, link->fd, &event);
    link->wants_out = wanted;
}

/* Sends what the socket takes. A rank that hung up is noticed by reading. */
static void send_out(run_join *join, int rank)
{
    run_link *link = &join->links[rank];
    while (link->fd >= 0 && link->out_count > 0) {
        run_reply *reply = link->out[0];
        ssize_t sent = send(link->fd, reply->data + link->out_sent, reply->bytes - link->out_sent, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            break;
        link->out_sent += (size_t)sent;
        if (link->out_sent < reply->bytes)
            continue;
        release(reply);
        link->out_count--;
        memmove(link->out, link->out + 1, link->out_count * sizeof *link->out);
        link->out_sent = 0;
    }
    if (link->fd >= 0)
        want_out(join, rank, link->out_count > 0);
}

/* Takes over the caller's reference. The protocol has one question at a time, so the queue does not fill up unless a
 * rank breaks it; then it is hung up on. */
static void answer(run_join *join, int rank, run_reply *reply)
{
    run_link *link = &join->links[rank];
    if (!reply)
        return;
    if (link->fd < 0 || link->out_count == RUN_REPLIES) {
        release(reply);
        if (link->fd >= 0)
            shutdown(link->fd, SHUT_RDWR);
        return;
    }
    link->out[link->out_count++] = reply;
    send_out(join, rank);
}

static void answer_failure(run_join *join, int rank, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void answer_failure(run_join *join, int rank, const char *format, ...)
{
    char text[HKI_LAUNCH_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    run_reply *reply = reply_new(HKI_LAUNCH_FAIL, strlen(text));
    if (reply)
        memcpy(reply_payload(reply), text, strlen(text));
    answer(join, rank, reply);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Exchanges
 * ------------------------------------------------------------------------------------------------------------- */

/* The rank no longer waits: its exchange was answered, or it left. */
static void stop_waiting(run_join *join, run_link *link)
{
    if (!link->waiting)
        return;
    link->waiting = false;
    join->waiting--;
    free(link->record);
    link->record = NULL;
    link->position++;
}

/* All records are in: the result goes to everyone, one copy for all. */
static void complete(run_join *join)
{
    size_t bytes = join->links[0].record_bytes;
    run_reply *result = reply_new(HKI_LAUNCH_RESULT, bytes * (size_t)join->ranks);
    bool fits = result != NULL;
    for (int rank = 0; rank < join->ranks && fits; rank++) {
        fits = join->links[rank].record_bytes == bytes;
        if (fits && bytes > 0)
            memcpy(reply_payload(result) + (size_t)rank * bytes, join->links[rank].record, bytes);
    }
    if (result)
        result->references += (size_t)join->ranks;
    for (int rank = 0; rank < join->ranks; rank++) {
        stop_waiting(join, &join->links[rank]);
        if (fits)
            answer(join, rank, result);
        else
            answer_failure(join, rank,
                           "ranks gave records of different lengths: different programs, or versions of "
                           "Hocket, in one job?");
    }
    if (!fits && result)
        result->references -= (size_t)join->ranks;
    if (result)
        release(result);
}

/* Lowest exchange that someone waits for, and the highest that someone is at. */
static void spread(const run_join *join, uint64_t *lowest, uint64_t *highest)
{
    *lowest = UINT64_MAX;
    *highest = 0;
    for (int rank = 0; rank < join->ranks; rank++) {
        const run_link *link = &join->links[rank];
        if (link->waiting && link->position < *lowest)
            *lowest = link->position;
        if (link->position > *highest)
            *highest = link->position;
    }
}

/* Records why the joining that `position` belongs to failed, unless that is known. False when it is. */
static bool set_broken(run_join *join, uint64_t position, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool set_broken(run_join *join, uint64_t position, const char *format, ...)
{
    uint64_t number = (position >> 32) + 1;
    if (join->broken == number)
        return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(join->broken_text, sizeof join->broken_text, format, arguments);
    va_end(arguments);
    join->broken = number;
    return true;
}

/* Ends the waiting of all at `position` with the reason recorded. */
static void fail_waiting(run_join *join, uint64_t position)
{
    for (int rank = 0; rank < join->ranks; rank++) {
        run_link *link = &join->links[rank];
        if (!link->waiting || link->position != position)
            continue;
        stop_waiting(join, link);
        answer_failure(join, rank, "%s", join->broken_text);
    }
}

/* Ranks that wait for `position` wait for others which are past it: those will not come. */
static void fail_position(run_join *join, uint64_t position, bool *missing, bool *waiting)
{
    bool ended = false;
    for (int rank = 0; rank < join->ranks; rank++) {
        missing[rank] = join->links[rank].position > position;
        waiting[rank] = join->links[rank].waiting && join->links[rank].position == position;
        ended |= join->links[rank].position == UINT64_MAX;
    }
    char missing_text[HKI_RANKS_TEXT], waiting_text[HKI_RANKS_TEXT];
    hki_ranks_text(missing_text, sizeof missing_text, missing, join->ranks);
    hki_ranks_text(waiting_text, sizeof waiting_text, waiting, join->ranks);
    bool news =
        set_broken(join, position, "the ranks of this job cannot join: %s ended, or gave up, before; waiting: %s",
                   missing_text, waiting_text);
    fail_waiting(join, position);
    if (ended && news)
        join->lost(join->context, missing_text, waiting_text);
}

/* After any change: completes the exchange that everyone is at, or fails those that cannot be completed any more. */
static void settle(run_join *join)
{
    uint64_t lowest, highest;
    spread(join, &lowest, &highest);
    if (join->waiting == join->ranks && lowest == highest) {
        complete(join);
        return;
    }
    bool *missing = NULL, *waiting = NULL;
    while (join->waiting > 0 && highest > lowest) {
        if (!missing)
            missing = calloc((size_t)join->ranks, sizeof *missing);
        if (!waiting)
            waiting = calloc((size_t)join->ranks, sizeof *waiting);
        if (!missing || !waiting)
            break;
        fail_position(join, lowest, missing, waiting);
        spread(join, &lowest, &highest);
    }
    free(missing);
    free(waiting);
}

/* A rank's time is up: tells it, and all who wait with it, who is not there. */
static void answer_who(run_join *join, int rank)
{
    if (!join->links[rank].waiting)
        return; /* answered by now */
    uint64_t position = join->links[rank].position;
    bool *missing = calloc((size_t)join->ranks, sizeof *missing);
    for (int other = 0; other < join->ranks && missing; other++)
        missing[other] = !join->links[other].waiting || join->links[other].position != position;
    char text[HKI_RANKS_TEXT] = "some rank";
    if (missing)
        hki_ranks_text(text, sizeof text, missing, join->ranks);
    free(missing);
    set_broken(join, position, "%s of %d did not arrive before the time of rank %d was up", text, join->ranks, rank);
    fail_waiting(join, position);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Questions
 * ------------------------------------------------------------------------------------------------------------- */

static void leave(run_join *join, run_link *link)
{
    stop_waiting(join, link);
    link->joined = false;
    link->position = ((link->position >> 32) + 1) << 32;
}

static void place_among_hosts(const run_share *share, hki_launch_place *place)
{
    place->rank += share->first;
    place->ranks = share->total;
    place->port = share->port;
    place->ports = share->ports;
    memcpy(place->key, share->key, sizeof place->key);
    snprintf(place->host, sizeof place->host, "%s", share->meeting);
}

static void take_join(run_join *join, int rank, const char *payload)
{
    run_link *link = &join->links[rank];
    hki_launch_join question;
    memcpy(&question, payload, sizeof question);
    if (link->joined && kill(link->process, 0) == 0) {
        answer_failure(join, rank, "rank %d has already joined as process %d, so process %d cannot", rank,
                       (int)link->process, (int)question.pid);
        return;
    }
    if (link->joined)
        leave(join, link); /* the process that joined before died meanwhile */
    link->joined = true;
    link->process = question.pid;
    hki_launch_place place = {
        .nonce = question.nonce, .rank = rank, .ranks = join->ranks, .local_rank = rank, .local_ranks = join->ranks};
    place.topology_bytes = join->topology_bytes;
    memcpy(place.key, join->key, sizeof place.key);
    if (join->share)
        place_among_hosts(join->share, &place);
    run_reply *reply = reply_new(HKI_LAUNCH_PLACE, sizeof place + join->topology_bytes);
    if (reply) {
        memcpy(reply_payload(reply), &place, sizeof place);
        memcpy(reply_payload(reply) + sizeof place, join->topology, join->topology_bytes);
    }
    answer(join, rank, reply);
    settle(join);
}

static void take_record(run_join *join, int rank, const char *payload, size_t bytes)
{
    run_link *link = &join->links[rank];
    char *record = malloc(bytes + 1);
    if (!link->joined || link->waiting || !record) {
        free(record);
        answer_failure(join, rank, "`hocket run` cannot take this record: %s",
                       record ? "the rank has not joined, or waits already" : "no memory");
        return;
    }
    memcpy(record, payload, bytes);
    link->record = record;
    link->record_bytes = bytes;
    link->waiting = true;
    join->waiting++;
    settle(join);
}

static void take_message(run_join *join, int rank, const hki_launch_header *header, const char *payload)
{
    run_link *link = &join->links[rank];
    switch (header->kind) {
    case HKI_LAUNCH_JOIN:
        if (header->bytes == sizeof(hki_launch_join))
            take_join(join, rank, payload);
        break;
    case HKI_LAUNCH_EXCHANGE:
        take_record(join, rank, payload, (size_t)header->bytes);
        break;
    case HKI_LAUNCH_WHO:
        answer_who(join, rank);
        break;
    case HKI_LAUNCH_LEAVE:
        if (link->joined)
            leave(join, link);
        settle(join);
        break;
    default:
        answer_failure(join, rank, "unknown message %u", header->kind);
    }
}

/* Bytes that the message arriving has in all, as far as is known. 0: nonsense. */
static size_t message_bytes(const run_link *link)
{
    hki_launch_header header;
    if (link->in_bytes < sizeof header)
        return sizeof header;
    memcpy(&header, link->in, sizeof header);
    return header.magic == HKI_LAUNCH_MAGIC && header.bytes <= HKI_LAUNCH_RECORD_MAX
               ? sizeof header + (size_t)header.bytes
               : 0;
}

static bool make_room(run_link *link, size_t bytes)
{
    if (bytes <= link->in_capacity)
        return true;
    char *grown = realloc(link->in, bytes);
    if (!grown)
        return false;
    link->in = grown;
    link->in_capacity = bytes;
    return true;
}

void run_join_readable(run_join *join, int rank)
{
    run_link *link = &join->links[rank];
    while (link->fd >= 0) {
        size_t wanted = message_bytes(link);
        if (wanted == 0 || !make_room(link, wanted)) {
            run_join_close_link(join, rank);
            return;
        }
        if (link->in_bytes < wanted) {
            ssize_t got = recv(link->fd, link->in + link->in_bytes, wanted - link->in_bytes, MSG_DONTWAIT);
            if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                return;
            if (got == 0 || (got < 0 && errno != EINTR)) {
                run_join_close_link(join, rank);
                return;
            }
            link->in_bytes += got > 0 ? (size_t)got : 0;
            continue; /* the header may now tell more */
        }
        hki_launch_header header;
        memcpy(&header, link->in, sizeof header);
        link->in_bytes = 0;
        take_message(join, rank, &header, link->in + sizeof header);
    }
}

void run_join_writable(run_join *join, int rank)
{
    send_out(join, rank);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Links
 * ------------------------------------------------------------------------------------------------------------- */

void run_join_close_link(run_join *join, int rank)
{
    run_link *link = &join->links[rank];
    if (link->fd < 0)
        return;
    close(link->fd);
    link->fd = -1;
    for (unsigned i = 0; i < link->out_count; i++)
        release(link->out[i]);
    link->out_count = 0;
    stop_waiting(join, link);
    free(link->in);
    link->in = NULL;
    link->in_capacity = link->in_bytes = 0;
    link->position = UINT64_MAX;
    settle(join);
}

bool run_join_open(run_join *join, int ranks, int poller, const hki_topology *topology)
{
    *join = (run_join){.ranks = ranks, .poller = poller};
    join->links = calloc((size_t)ranks, sizeof *join->links);
    if (!join->links || hki_topology_pack(topology, &join->topology, &join->topology_bytes) != HK_OK ||
        getrandom(join->key, sizeof join->key, 0) != (ssize_t)sizeof join->key)
        return false;
    for (int rank = 0; rank < ranks; rank++)
        join->links[rank].fd = -1;
    return true;
}

void run_join_free(run_join *join)
{
    for (int rank = 0; join->links && rank < join->ranks; rank++) {
        run_link *link = &join->links[rank];
        if (link->fd >= 0)
            close(link->fd);
        for (unsigned i = 0; i < link->out_count; i++)
            release(link->out[i]);
        free(link->in);
        free(link->record);
    }
    free(join->links);
    free(join->topology);
}

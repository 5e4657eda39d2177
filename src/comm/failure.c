/*
 * Failure: what is seen among the messages is noted at once and dealt with at the end of the turn of progress. A failed
 * communicator is poisoned, its members are told, and its operations are ended before any call returns.
 */
#include "comm/comm.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHECK_NANOSECONDS = 50000000, SPREAD_NANOSECONDS = 1000000000, REPLY_NANOSECONDS = 1000000000 };
/* A wait of so many seconds is long enough to look whether the others made the same call. */
#define COMPARE_SECONDS 0.5
/* So long before the time-out the others are asked who is missing (or when half of it is over). */
#define ASK_SECONDS 1.0
/* Operations about which others are asked in one look: who is asked searches all that it has in flight, so questions
 * about thousands at once would keep every rank from getting on. Guessed. */
enum { MOST_QUESTIONS = 16 };
enum { CALL_DESCRIPTION = 0, FINAL_REASON = 1 }; /* what the text of an ABORT frame is: in its fingerprint field */

hk_comm *hki_comm_find(hki_context *context, uint32_t wire)
{
    hki_list_each (node, &context->comms) {
        hk_comm *comm = hki_list_entry(node, hk_comm, node);
        if (comm->wire == wire)
            return comm;
    }
    return NULL;
}

/* --- poisoning -------------------------------------------------------------------------------------------------------
 */

void hki_comm_cancel(hk_comm *comm, hk_status status)
{
    hki_context *context = comm->context;
    hki_list_each (node, &context->requests) {
        hk_request *request = hki_list_entry(node, hk_request, node);
        if (request->comm != comm || request->task.ended)
            continue;
        if (request->kind == HKI_REQUEST_COLLECTIVE) {
            hki_task_cancel(&request->task, status);
            continue;
        }
        hki_msg_cancel(&context->endpoint, request->transfer);
        hki_transfer_release(&context->endpoint, request->transfer);
        request->transfer = NULL;
        request->task.status = status;
        request->task.ended = true;
    }
}

static void send_abort(hk_comm *comm, hki_channel *channel, hk_status status, uint32_t what, uint32_t operation,
                       const char *text)
{
    hk_frame frame = {.kind = HKI_FRAME_ABORT,
                      .communicator = comm->wire,
                      .operation = operation,
                      .ordinal = (uint32_t)status,
                      .fingerprint = what};
    hki_channel_control(channel, &frame, text, strlen(text) + 1);
}

/* Who learns of a lost rank by a transport that spreads the news need not be told: it would take a connection to each
 * member, made by each member. */
static bool learns_by_itself(const hk_comm *comm, const hki_channel *channel)
{
    return comm->poisoned == HK_ERR_PEER_LOST && comm->context->endpoint.news_spreads && channel->link &&
           channel->ops->report_lost && channel->ops->link_state(channel->link, NULL) == HK_LINK_CONNECTING;
}

/* Tells every member, and gives the frames a moment to leave, since this rank may end right after. A member that has no
 * core for a while must hear why, or it takes this rank itself for the one that was lost. */
static void spread(hk_comm *comm)
{
    hki_context *context = comm->context;
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        hki_channel *channel = hki_comm_channel(comm, rank);
        if (rank != comm->rank && !learns_by_itself(comm, channel))
            send_abort(comm, channel, comm->poisoned, FINAL_REASON, 0, comm->reason);
    }
    uint64_t now = hki_now(), end = now + SPREAD_NANOSECONDS;
    for (; hki_msg_busy(&context->endpoint, now) && now < end; now = hki_now()) {
        hki_msg_progress(&context->endpoint);
        sched_yield();
    }
}

hk_status hki_comm_fail(hk_comm *comm, hk_status status, const char *format, ...)
{
    if (comm->poisoned != HK_OK)
        return hki_error_set(comm->poisoned, comm->reason);
    char text[HKI_REASON_BYTES], own[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    hki_comm_describe_rank(comm, comm->rank, own, sizeof own);
    snprintf(comm->reason, sizeof comm->reason, "%.320s [seen by %.150s]", text, own);
    comm->poisoned = status;
    comm->pending = HK_OK;
    hki_log(HK_LOG_ERROR, "%s", comm->reason);
    hki_comm_cancel(comm, status);
    spread(comm);
    return hki_error_set(status, comm->reason);
}

hk_status hk_comm_abort(hk_comm *comm, const char *reason)
{
    if (!comm || comm->magic != HKI_COMM_MAGIC)
        return hki_error(HK_ERR_COMM, "comm_abort: not a live communicator");
    if (!hki_context_here(comm->context))
        return hki_error(HK_ERR_FORKED, "comm_abort: the communicator belongs to the parent process");
    hki_context_enter(comm->context);
    hki_comm_fail(comm, HK_ERR_ABORTED, "aborted by rank %u%s%s", comm->rank, reason ? ": " : "", reason ? reason : "");
    hki_context_leave(comm->context);
    return HK_OK;
}

/* --- what is seen among the messages ---------------------------------------------------------------------------------
 */

static void note(hk_comm *comm, hk_status status, const char *text)
{
    if (comm->poisoned != HK_OK || comm->pending != HK_OK || comm->quiet)
        return;
    comm->pending = status;
    snprintf(comm->reason, sizeof comm->reason, "%s", text);
    comm->context->engine.attention = true;
}

static const hki_call_record *find_call(const hk_comm *comm, uint32_t operation)
{
    for (uint32_t i = 0; i < HKI_RECENT_CALLS; i++) {
        const hki_call_record *record = &comm->recent[i];
        if (record->used && (int32_t)(operation - (uint32_t)record->first) >= 0 &&
            (int32_t)((uint32_t)record->last - operation) >= 0)
            return record;
    }
    return NULL;
}

bool hki_call_differs(const hk_comm *comm, const hk_frame *frame)
{
    const hki_call_record *record = find_call(comm, frame->operation);
    return record && record->fingerprint != frame->fingerprint;
}

static bool in_flight(const hk_comm *comm, uint32_t operation)
{
    const hki_task *line = comm->context->engine.unregistered;
    if (line && line->frame.communicator == comm->wire && line->frame.operation == operation)
        return true;
    return hki_request_find(comm->context, comm->wire, operation) != NULL;
}

static hki_verdict on_stray(void *context, hki_channel *channel, const hk_frame *frame)
{
    (void)channel;
    hk_comm *comm = hki_comm_find(context, frame->communicator);
    if (!comm) {
        bool freed = hki_endpoint_freed(&((hki_context *)context)->endpoint, frame->communicator);
        return freed ? HKI_DROP : HKI_KEEP; /* kept: of a communicator that this rank has yet to make */
    }
    if (comm->poisoned != HK_OK)
        return HKI_DROP;
    if ((int32_t)(frame->operation - (uint32_t)comm->operations) >= 0)
        return HKI_KEEP;
    if (hki_call_differs(comm, frame))
        return HKI_MISMATCH;
    return in_flight(comm, frame->operation) ? HKI_KEEP : HKI_DROP;
}

static void describe_own(const hk_comm *comm, uint32_t operation, char *text, size_t bytes)
{
    const hki_call_record *record = find_call(comm, operation);
    if (record)
        hki_describe_call(record, text, bytes);
    else
        snprintf(text, bytes, "another operation");
}

/* This rank asks the other for its call, so that the error can spell out both. */
static void on_mismatch(void *context, hki_channel *channel, const hk_frame *frame)
{
    hk_comm *comm = hki_comm_find(context, frame->communicator);
    if (!comm || comm->poisoned != HK_OK || comm->pending != HK_OK || comm->asked)
        return;
    char own[160];
    describe_own(comm, frame->operation, own, sizeof own);
    comm->asked = true;
    comm->asked_at = hki_now();
    comm->asked_rank = channel->rank;
    snprintf(comm->reason, sizeof comm->reason, "operation %u: rank %u called %s", frame->operation, comm->rank, own);
    send_abort(comm, channel, HK_ERR_MISMATCH, CALL_DESCRIPTION, frame->operation, own);
    comm->context->engine.attention = true;
}

static void on_call_description(hk_comm *comm, hki_channel *channel, const hk_frame *frame, const char *text)
{
    char own[160], both[HKI_REASON_BYTES];
    describe_own(comm, frame->operation, own, sizeof own);
    int other = hki_comm_rank_of(comm, channel->rank);
    if (!comm->asked)
        send_abort(comm, channel, HK_ERR_MISMATCH, CALL_DESCRIPTION, frame->operation, own);
    comm->asked = false;
    /* A description holds neither counts of other ranks nor what an opaque type or a made operator is. */
    const char *unsaid = strcmp(own, text) == 0 ? " with other counts, element size or operator" : "";
    snprintf(both, sizeof both, "operation %u: rank %u called %s, but rank %d called %.200s%s", frame->operation,
             comm->rank, own, other, text, unsaid);
    note(comm, HK_ERR_MISMATCH, both);
}

static void on_abort(hki_context *context, hki_channel *channel, const hk_frame *frame, const void *data, size_t bytes)
{
    char text[HKI_REASON_BYTES];
    size_t length = bytes < sizeof text ? bytes : sizeof text - 1;
    memcpy(text, data, length);
    text[length] = '\0';
    hk_comm *comm = hki_comm_find(context, frame->communicator);
    if (!comm || comm->poisoned != HK_OK || comm->quiet)
        return;
    if (frame->fingerprint == CALL_DESCRIPTION) {
        on_call_description(comm, channel, frame, text);
        return;
    }
    comm->poisoned =
        frame->ordinal > HK_OK && frame->ordinal <= HK_ERR_INTERNAL ? (hk_status)frame->ordinal : HK_ERR_ABORTED;
    snprintf(comm->reason, sizeof comm->reason, "%s", text);
    comm->context->engine.attention = true;
}

static void on_control(void *context, hki_channel *channel, const hk_frame *frame, const void *data, size_t bytes)
{
    if (frame->kind == HKI_FRAME_ABORT)
        on_abort(context, channel, frame, data, bytes);
    else if (frame->kind == HKI_FRAME_QUERY)
        hki_inquiry_on_query(context, channel, frame);
    else
        hki_inquiry_on_answer(context, channel, frame, data, bytes);
}

/* The rank whose call differs has left, and will not say what it called: what is known has to do. */
static void note_unsaid(hk_comm *comm, int rank)
{
    char text[HKI_REASON_BYTES];
    snprintf(text, sizeof text, "%.400s, but rank %d called something else, and has left since", comm->reason, rank);
    comm->asked = false;
    note(comm, HK_ERR_MISMATCH, text);
}

static void note_death(hk_comm *comm, int rank, hk_status status, const char *reason)
{
    char who[160], text[HKI_REASON_BYTES];
    hki_comm_describe_rank(comm, (uint32_t)rank, who, sizeof who);
    snprintf(text, sizeof text, "%s is lost: %s", who, reason);
    note(comm, status, text);
}

/* A rank that died takes every communicator that it belongs to with it; one that left in order only what needs it. */
static void on_lost(void *context, hki_channel *channel, hk_status status, const char *reason)
{
    hki_context *own = context;
    own->engine.attention = true;
    hki_list_each (node, &own->comms) {
        hk_comm *comm = hki_list_entry(node, hk_comm, node);
        int rank = hki_comm_rank_of(comm, channel->rank);
        if (rank >= 0 && !channel->departed)
            note_death(comm, rank, status, reason);
        else if (rank >= 0 && comm->asked && comm->asked_rank == channel->rank)
            note_unsaid(comm, rank);
    }
}

const hki_listener hki_failure_listener = {
    .stray = on_stray, .mismatch = on_mismatch, .control = on_control, .lost = on_lost};

/* --- dealing with it
 * --------------------------------------------------------------------------------------------------- */

hk_status hki_failure_settle(hk_comm *comm)
{
    char own[HKI_REASON_BYTES];
    snprintf(own, sizeof own, "%s", comm->reason);
    comm->asked = false;
    return hki_comm_fail(comm, HK_ERR_MISMATCH, "%s, but rank %d called something else", own,
                         hki_comm_rank_of(comm, comm->asked_rank));
}

/* The other side has not said what it called within a second: report what is known. */
static void settle_mismatch(hk_comm *comm, uint64_t now)
{
    if (comm->asked && comm->poisoned == HK_OK && now - comm->asked_at >= REPLY_NANOSECONDS)
        hki_failure_settle(comm);
}

void hki_failure_attend(void *context)
{
    hki_context *own = context;
    hki_list_each (node, &own->comms) {
        hk_comm *comm = hki_list_entry(node, hk_comm, node);
        if (comm->pending != HK_OK && comm->poisoned == HK_OK) {
            char text[HKI_REASON_BYTES];
            snprintf(text, sizeof text, "%s", comm->reason);
            hki_comm_fail(comm, comm->pending, "%s", text);
        }
        if (comm->poisoned != HK_OK)
            hki_comm_cancel(comm, comm->poisoned);
    }
}

static bool traced(void)
{
    char line[128];
    bool found = false;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && !found && fgets(line, sizeof line, file))
        found = strncmp(line, "TracerPid:", 10) == 0 && atoi(line + 10) != 0;
    if (file)
        fclose(file);
    return found;
}

static void fail_late(hk_request *request, double seconds)
{
    char call[160], who[HKI_REASON_BYTES / 2];
    hk_comm *comm = request->comm;
    if (request->kind == HKI_REQUEST_COLLECTIVE) {
        hki_describe_call(&request->record, call, sizeof call);
        hki_inquiry_report(request, who, sizeof who);
        hki_comm_fail(comm, HK_ERR_TIMEOUT, "%s (operation %llu) timed out after %g s: %s", call,
                      (unsigned long long)request->operation, seconds, who);
        return;
    }
    if (request->peer >= 0)
        hki_comm_describe_rank(comm, (uint32_t)request->peer, who, sizeof who);
    else
        snprintf(who, sizeof who, "any rank");
    if (request->tag <= HKI_TAG_GROUP)
        hki_comm_fail(comm, HK_ERR_TIMEOUT, "comm_create_group timed out after %g s: %s has not arrived", seconds, who);
    else
        hki_comm_fail(comm, HK_ERR_TIMEOUT, "%s %s, tag %d, timed out after %g s", hki_direction_text(request), who,
                      request->tag, seconds);
}

static void log_late(hk_request *request, double elapsed)
{
    char call[160], who[HKI_REASON_BYTES / 2] = "its peer";
    hki_describe_call(&request->record, call, sizeof call);
    if (request->kind == HKI_REQUEST_COLLECTIVE)
        hki_inquiry_report(request, who, sizeof who);
    hki_log(HK_LOG_WARN, "%s has waited for %.0f s: %s", request->kind == HKI_REQUEST_COLLECTIVE ? call : "a message",
            elapsed, who);
    request->reported = true;
    hki_inquiry_free(request);
}

/* Marks the ranks whose messages this operation waits for. */
static void note_awaited(const hk_request *request)
{
    enum { MOST = 64 };
    const hk_comm *comm = request->comm;
    uint32_t ranks[MOST], count = 0;
    if (request->kind == HKI_REQUEST_COLLECTIVE)
        count = hki_task_awaits(&request->task, ranks, MOST);
    else if (request->kind == HKI_REQUEST_RECV && request->peer >= 0)
        ranks[count++] = (uint32_t)request->peer;
    for (uint32_t i = 0; i < count; i++)
        hki_comm_channel(comm, ranks[i])->awaited = true;
    bool any_source = request->kind == HKI_REQUEST_RECV && request->peer < 0;
    for (uint32_t rank = 0; any_source && rank < comm->size; rank++)
        hki_comm_channel(comm, rank)->awaited = true;
}

/* What is kept of other messages must not keep away those that are awaited. Once for each rank, not for each operation:
 * it goes through all that is kept, and there may be thousands of both. */
static void relieve_awaited(hki_endpoint *endpoint)
{
    for (uint32_t rank = 0; rank < endpoint->ranks; rank++) {
        hki_channel *channel = &endpoint->channels[rank];
        if (channel->awaited)
            hki_channel_relieve(channel);
        channel->awaited = false;
    }
}

/* Whether others may be asked about this operation in this look: takes one of `questions` for a collective, since a
 * message asks nobody. */
static bool may_ask(const hk_request *request, int *questions)
{
    if (request->kind != HKI_REQUEST_COLLECTIVE)
        return true;
    return (*questions)-- > 0;
}

/* Looks at one operation in flight: late enough to report, or to fail? */
static void look_at(hk_request *request, uint64_t now, int *questions)
{
    if (!request->started) {
        request->started = now;
        return;
    }
    note_awaited(request);
    double elapsed = (double)(now - request->started) / 1e9;
    double limit = request->timeout >= 0 ? request->timeout : request->comm->timeout;
    bool compares = elapsed >= COMPARE_SECONDS || (limit > 0 && elapsed >= limit / 2);
    if (compares && !request->compared && may_ask(request, questions))
        hki_inquiry_compare(request);
    double report = hki_setting_seconds(HKI_SET_REPORT);
    bool late = limit > 0 && elapsed >= limit - (limit < 2 * ASK_SECONDS ? limit / 2 : ASK_SECONDS);
    if (!late && !(report > 0 && elapsed >= report && !request->reported && hki_log_wants(HK_LOG_WARN)))
        return;
    if (late && !request->inquiry && traced()) {
        request->started = now; /* under a debugger time stands still */
        return;
    }
    if (!request->inquiry && (!may_ask(request, questions) || hki_inquiry_begin(request, now) == HK_OK))
        return;
    if ((late && elapsed < limit) || !hki_inquiry_ended(request, now))
        return;
    if (late)
        fail_late(request, limit);
    else
        log_late(request, elapsed);
}

void hki_failure_slow(void *context, uint64_t now)
{
    hki_context *own = context;
    if (now >= own->next_check) {
        own->next_check = now + CHECK_NANOSECONDS;
        hki_msg_check(&own->endpoint);
        own->engine.attention = false;
        hki_failure_attend(own);
    }
    int questions = MOST_QUESTIONS; /* for the oldest first */
    hki_list_each (node, &own->requests) {
        hk_request *request = hki_list_entry(node, hk_request, node);
        if (!request->task.ended)
            look_at(request, now, &questions);
    }
    relieve_awaited(&own->endpoint);
    hki_list_each (comm_node, &own->comms)
        settle_mismatch(hki_list_entry(comm_node, hk_comm, node), now);
}

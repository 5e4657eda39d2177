/*
 * Who has not arrived? A late rank asks those that it waits for; a rank that is in the operation itself answers with
 * those that it waits for in turn, to send or to receive, and they are asked as well, so that the answer names the
 * cause and not the neighbour.
 */
#include "comm/comm.h"

#include "base/clock.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ASKED = 64, MOST_AWAITED = 8 };

/* A rank that computes does not answer; one that shares its core with many others takes its time. Guessed. */
enum { ANSWER_NANOSECONDS = 1000000000, INQUIRY_SECONDS = 3 };

typedef enum position { UNKNOWN, NOT_ARRIVED, WAITING, PASSED } position;

typedef struct answer {
    uint32_t position;
    uint32_t count;
    uint64_t at; /* operations begun on the communicator */
    uint32_t ranks[MOST_AWAITED];
} answer;

typedef struct witness {
    uint32_t rank; /* in the communicator */
    position where;
    uint64_t at;
} witness;

struct hki_inquiry {
    uint64_t begun, asked; /* the first and the last question */
    uint32_t count;
    witness witnesses[MOST_ASKED];
};

static void query(const hk_request *request, uint32_t rank)
{
    hk_frame frame = {.kind = HKI_FRAME_QUERY,
                      .communicator = request->comm->wire,
                      .operation = request->task.frame.operation,
                      .fingerprint = request->task.frame.fingerprint};
    hki_channel_control(hki_comm_channel(request->comm, rank), &frame, NULL, 0);
}

void hki_inquiry_compare(hk_request *request)
{
    uint32_t ranks[MOST_ASKED];
    request->compared = true;
    if (request->kind != HKI_REQUEST_COLLECTIVE)
        return;
    uint32_t count = hki_task_awaits(&request->task, ranks, MOST_ASKED);
    for (uint32_t i = 0; i < count; i++)
        query(request, ranks[i]);
}

static void ask(hk_request *request, uint32_t rank)
{
    struct hki_inquiry *inquiry = request->inquiry;
    hk_comm *comm = request->comm;
    for (uint32_t i = 0; i < inquiry->count; i++) {
        if (inquiry->witnesses[i].rank == rank)
            return;
    }
    if (rank >= comm->size || rank == comm->rank || inquiry->count == MOST_ASKED)
        return;
    inquiry->witnesses[inquiry->count++] = (witness){.rank = rank};
    query(request, rank);
}

hk_status hki_inquiry_begin(hk_request *request, uint64_t now)
{
    uint32_t ranks[MOST_ASKED];
    request->inquiry = calloc(1, sizeof *request->inquiry);
    if (!request->inquiry)
        return hki_error(HK_ERR_NO_MEMORY, "no memory to ask who is late");
    request->inquiry->begun = request->inquiry->asked = now;
    if (request->kind != HKI_REQUEST_COLLECTIVE)
        return HK_OK;
    uint32_t count = hki_task_awaits(&request->task, ranks, MOST_ASKED);
    for (uint32_t i = 0; i < count; i++)
        ask(request, ranks[i]);
    return HK_OK;
}

bool hki_inquiry_ended(const hk_request *request, uint64_t now)
{
    const struct hki_inquiry *inquiry = request->inquiry;
    if (!inquiry || request->kind != HKI_REQUEST_COLLECTIVE || now - inquiry->asked >= ANSWER_NANOSECONDS ||
        now - inquiry->begun >= INQUIRY_SECONDS * UINT64_C(1000000000))
        return true;
    for (uint32_t i = 0; i < inquiry->count; i++) {
        if (inquiry->witnesses[i].where == UNKNOWN)
            return false;
    }
    return true;
}

void hki_inquiry_free(hk_request *request)
{
    free(request->inquiry);
    request->inquiry = NULL;
}

void hki_inquiry_report(const hk_request *request, char *text, size_t bytes)
{
    const struct hki_inquiry *inquiry = request->inquiry;
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; inquiry && i < inquiry->count && used < bytes; i++) {
        const witness *one = &inquiry->witnesses[i];
        if (one->where == WAITING || one->where == PASSED)
            continue;
        char who[160];
        hki_comm_describe_rank(request->comm, one->rank, who, sizeof who);
        int written = snprintf(text + used, bytes - used, "%s%s has not arrived", used ? "; " : "", who);
        used += written > 0 ? (size_t)written : 0;
        if (one->where == NOT_ARRIVED && used < bytes) {
            written = snprintf(text + used, bytes - used, " (it is at operation %llu)", (unsigned long long)one->at);
            used += written > 0 ? (size_t)written : 0;
        }
    }
    if (used == 0)
        snprintf(text, bytes, "every rank that was asked has arrived, but does not get on");
}

void hki_inquiry_on_query(hki_context *context, hki_channel *channel, const hk_frame *frame)
{
    answer reply = {.position = NOT_ARRIVED};
    hk_comm *comm = hki_comm_find(context, frame->communicator);
    hk_request *request = hki_request_find(context, frame->communicator, frame->operation);
    if (comm)
        reply.at = comm->operations;
    if (comm && hki_call_differs(comm, frame))
        hki_failure_listener.mismatch(context, channel, frame);
    if (request) {
        reply.position = WAITING;
        reply.count = hki_task_awaits(&request->task, reply.ranks, MOST_AWAITED);
    } else if (comm && (int32_t)(frame->operation - (uint32_t)comm->operations) < 0) {
        reply.position = PASSED;
    }
    hk_frame back = *frame;
    back.kind = HKI_FRAME_ANSWER;
    hki_channel_control(channel, &back, &reply, sizeof reply);
}

void hki_inquiry_on_answer(hki_context *context, hki_channel *channel, const hk_frame *frame, const void *data,
                           size_t bytes)
{
    answer reply;
    hk_request *request = hki_request_find(context, frame->communicator, frame->operation);
    if (!request || !request->inquiry || bytes != sizeof reply)
        return;
    memcpy(&reply, data, sizeof reply);
    int rank = hki_comm_rank_of(request->comm, channel->rank);
    for (uint32_t i = 0; i < request->inquiry->count; i++) {
        witness *one = &request->inquiry->witnesses[i];
        if ((int)one->rank != rank || reply.position > PASSED)
            continue;
        one->where = (position)reply.position;
        one->at = reply.at;
    }
    uint32_t known = request->inquiry->count;
    for (uint32_t i = 0; i < reply.count && i < MOST_AWAITED && reply.position == WAITING; i++)
        ask(request, reply.ranks[i]);
    if (request->inquiry->count > known)
        request->inquiry->asked = hki_now();
}

/* Requests: their pool, waiting for them, and what is left when they end. */
#include "comm/comm.h"

#include "base/clock.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* hk_test looks at deadlines now and then; guessed, as is how long another's reason may take. */
enum { TESTS_PER_LOOK = 1024, REASON_NANOSECONDS = 500000000 };

hk_request *hki_request_new(hk_comm *comm, hki_request_kind kind)
{
    hki_context *context = comm->context;
    hk_request *request;
    if (hki_list_empty(&context->spare)) {
        request = calloc(1, sizeof *request);
        if (!request) {
            hki_error(HK_ERR_NO_MEMORY, "no memory for a request");
            return NULL;
        }
    } else {
        request = hki_list_entry(context->spare.next, hk_request, node);
        hki_list_remove(&request->node);
    }
    request->magic = HKI_REQUEST_MAGIC;
    request->kind = kind;
    request->comm = comm;
    hki_list_init(&request->node);
    hki_list_init(&request->bucket);
    hki_list_init(&request->task.node);
    request->task.ended = false;
    request->task.status = HK_OK;
    request->task.culprit = -1;
    request->transfer = NULL;
    request->binding = NULL;
    request->reducer.user = NULL;
    request->reducer.scales_input = false;
    request->scratch = request->scaled = NULL;
    request->timeout = -1.0;
    request->started = 0;
    request->reported = request->compared = false;
    request->inquiry = NULL;
    return request;
}

const char *hki_direction_text(const hk_request *request)
{
    if (request->tag <= HKI_TAG_GROUP)
        return "comm_create_group with";
    return request->kind == HKI_REQUEST_SEND ? "send to" : "receive from";
}

/* A rank that leaves although others need it mostly has a reason, such as the death of another, that those who told it
 * are telling this rank as well: waits for that a moment. True when it came. */
static bool hear_why(hk_comm *comm)
{
    hki_context *context = comm->context;
    uint64_t end = hki_now() + REASON_NANOSECONDS;
    context->endpoint.any_source++; /* look at every doorbell */
    while (comm->poisoned == HK_OK && hki_now() < end) {
        if (!hki_engine_progress(&context->engine))
            hki_engine_pause(&context->engine);
    }
    context->endpoint.any_source--;
    return comm->poisoned != HK_OK;
}

/* Why an operation failed, if the communicator does not know yet. */
static hk_status explain(hk_request *request)
{
    hk_comm *comm = request->comm;
    hk_status status = request->task.status;
    if (status == HK_OK || status == HK_ERR_TRUNCATED || comm->quiet)
        return status;
    int culprit = request->kind == HKI_REQUEST_COLLECTIVE ? request->task.culprit : request->peer;
    if (culprit >= 0 && hki_comm_channel(comm, (uint32_t)culprit)->departed && hear_why(comm))
        return hki_error_set(comm->poisoned, comm->reason);
    if (comm->asked)
        return hki_failure_settle(comm);
    char call[128], who[160] = "";
    hki_describe_call(&request->record, call, sizeof call);
    if (culprit >= 0)
        hki_comm_describe_rank(comm, (uint32_t)culprit, who, sizeof who);
    if (request->kind == HKI_REQUEST_COLLECTIVE)
        return hki_comm_fail(comm, status, "%s: %s%s%s", call, who, *who ? ": " : "", hk_status_string(status));
    return hki_comm_fail(comm, status, "%s %s: %s", hki_direction_text(request), who, hk_status_string(status));
}

hk_status hki_request_finish(hk_request *request)
{
    hk_comm *comm = request->comm;
    hki_context *context = comm->context;
    hki_list_remove(&request->node);
    hki_list_remove(&request->bucket);
    hk_status status = request->task.status;
    if (__builtin_expect(context->engine.attention, 0)) {
        context->engine.attention = false;
        hki_failure_attend(context);
    }
    if (__builtin_expect(comm->poisoned != HK_OK, 0))
        status = hki_error_set(comm->poisoned, comm->reason);
    else if (__builtin_expect(status != HK_OK, 0))
        status = explain(request);
    if (request->inquiry)
        hki_inquiry_free(request);
    hki_binding_release(request->binding);
    hki_scratch_give(&context->scratch, request->scratch);
    hki_scratch_give(&context->scratch, request->scaled);
    if (request->reducer.user)
        hki_reducer_release(&request->reducer);
    request->magic = 0;
    hki_list_append(&context->spare, &request->node);
    return status;
}

static hki_node *bucket_of(hki_context *context, uint32_t wire, uint32_t operation)
{
    return &context->operations[(wire + operation) % HKI_OPERATION_BUCKETS];
}

void hki_request_index(hk_request *request)
{
    const hk_frame *frame = &request->task.frame;
    hki_list_append(bucket_of(request->comm->context, frame->communicator, frame->operation), &request->bucket);
}

hk_request *hki_request_find(hki_context *context, uint32_t wire, uint32_t operation)
{
    hki_list_each (node, bucket_of(context, wire, operation)) {
        hk_request *request = hki_list_entry(node, hk_request, bucket);
        const hk_frame *frame = &request->task.frame;
        if (!request->task.ended && frame->communicator == wire && frame->operation == operation)
            return request;
    }
    return NULL;
}

void hki_request_wait(hk_request *request)
{
    hki_context *context = request->comm->context;
    if (request->node.next == &request->node)
        hki_list_append(&context->requests, &request->node);
    uint32_t mode = hki_fp_enter();
    hki_engine_wait(&context->engine, &request->task.ended);
    hki_fp_leave(mode);
}

static hk_status enter(hk_request *request)
{
    if (!request || request->magic != HKI_REQUEST_MAGIC)
        return hki_error(HK_ERR_REQUEST, "not a live request");
    if (!hki_context_here(request->comm->context))
        return hki_error(HK_ERR_FORKED, "the request belongs to the parent process");
    hki_context_enter(request->comm->context);
    return HK_OK;
}

static hk_status finish(hk_request **request, hk_message *message)
{
    hki_context *context = (*request)->comm->context;
    hk_message got = (*request)->message;
    bool received = (*request)->kind == HKI_REQUEST_RECV;
    hk_status status = hki_request_finish(*request);
    if (message && received && (status == HK_OK || status == HK_ERR_TRUNCATED))
        *message = got;
    *request = NULL;
    hki_context_leave(context);
    return status;
}

hk_status hk_wait_message(hk_request **request, hk_message *message)
{
    if (!request)
        return hki_error(HK_ERR_ARGUMENT, "wait: request is NULL");
    if (!*request)
        return HK_OK;
    HK_TRY(enter(*request));
    if (!(*request)->task.ended)
        hki_request_wait(*request);
    return finish(request, message);
}

hk_status hk_wait(hk_request **request)
{
    return hk_wait_message(request, NULL);
}

hk_status hk_wait_all(size_t count, hk_request **requests)
{
    hk_status first = HK_OK;
    char reason[HKI_REASON_BYTES] = "";
    if (count && !requests)
        return hki_error(HK_ERR_ARGUMENT, "wait_all: requests is NULL");
    for (size_t i = 0; i < count; i++) {
        hk_status status = hk_wait_message(&requests[i], NULL);
        if (status == HK_OK || first != HK_OK)
            continue;
        first = status;
        strncpy(reason, hk_last_error(), sizeof reason - 1);
    }
    return first == HK_OK ? HK_OK : hki_error_set(first, reason);
}

hk_status hk_test(hk_request **request, int *done)
{
    if (!request || !done)
        return hki_error(HK_ERR_ARGUMENT, "test: %s is NULL", request ? "done" : "request");
    if (!*request) {
        *done = 1;
        return HK_OK;
    }
    HK_TRY(enter(*request));
    hki_context *context = (*request)->comm->context;
    if (!(*request)->task.ended) {
        uint32_t mode = hki_fp_enter();
        hki_engine_progress(&context->engine);
        hki_fp_leave(mode);
        if (++context->engine.tests % TESTS_PER_LOOK == 0)
            hki_failure_slow(context, hki_now());
    }
    *done = (*request)->task.ended;
    if (*done)
        return finish(request, NULL);
    hki_context_leave(context);
    return HK_OK;
}

hk_status hk_request_set_timeout(hk_request *request, double seconds)
{
    if (!(seconds >= 0))
        return hki_error(HK_ERR_ARGUMENT, "request_set_timeout: seconds is negative");
    HK_TRY(enter(request));
    request->timeout = seconds;
    request->started = 0;
    hki_context_leave(request->comm->context);
    return HK_OK;
}

hk_status hk_progress(hk_comm *comm)
{
    HK_TRY(hki_comm_enter(comm));
    uint32_t mode = hki_fp_enter();
    hki_engine_progress(&comm->context->engine);
    hki_fp_leave(mode);
    hki_comm_leave(comm);
    return HK_OK;
}

/* From a checked call to a running task: choice, plan, binding, memo. */
#include "comm/comm.h"

#include "base/error.h"
#include "base/log.h"
#include "cost/select.h"

#include <string.h>

/* The memo answers if the call is the last one again: only buffers may differ, and they are looked at. */
static bool remembered(const hk_comm *comm, const hki_arguments *arguments)
{
    const hki_memo *memo = &comm->memo;
    return memo->binding && memo->collective == arguments->collective && memo->count == arguments->count &&
           memo->type == arguments->type && memo->op == arguments->op && memo->root == arguments->root;
}

static void remember(hk_comm *comm, const hki_arguments *arguments, const hk_request *request, uint32_t in_place)
{
    hki_memo *memo = &comm->memo;
    hki_binding_release(memo->binding);
    memo->binding = request->binding;
    memo->binding->users++;
    memo->collective = arguments->collective;
    memo->type = arguments->type;
    memo->op = arguments->op;
    memo->root = arguments->root;
    memo->count = arguments->count;
    memo->in_place = in_place;
    memo->fingerprint = request->task.frame.fingerprint;
    memo->algorithm = comm->last_algorithm;
    memo->reducer = request->reducer;
    memo->divisor = request->task.divisor;
}

/* Scratch, and the scaled copy of the input that a pre-multiplied sum needs. */
static hk_status take_memory(hk_request *request, uint64_t input_bytes)
{
    hki_context *context = request->comm->context;
    uint64_t bytes = request->binding->program->scratch_bytes;
    if (bytes) {
        request->scratch = hki_scratch_take(&context->scratch, (size_t)bytes);
        if (!request->scratch)
            return hki_error(HK_ERR_NO_MEMORY, "no memory for %llu bytes of scratch", (unsigned long long)bytes);
        request->task.base[HKI_SCRATCH] = request->scratch;
    }
    if (!request->reducer.scales_input || !hki_collective_reduces(request->record.collective) || !input_bytes)
        return HK_OK;
    request->scaled = hki_scratch_take(&context->scratch, (size_t)input_bytes);
    if (!request->scaled)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a scaled copy of the input");
    hki_reducer_scale(&request->reducer, request->scaled, request->task.base[HKI_INPUT],
                      input_bytes / request->reducer.element_bytes);
    request->task.base[HKI_INPUT] = request->scaled;
    return HK_OK;
}

static void note_choice(hk_comm *comm, const hki_algorithm *algorithm, uint32_t segments, uint64_t bytes)
{
    if (comm->last_algorithm != algorithm && hki_log_wants(HK_LOG_DEBUG))
        hki_log(HK_LOG_DEBUG, "%s of %llu bytes on %u ranks: %s, %u segments",
                hki_collective_name(algorithm->collective), (unsigned long long)bytes, comm->size, algorithm->name,
                segments);
    comm->last_algorithm = algorithm;
    comm->last_segments = segments;
}

/* The whole way: check, choose, plan, bind. */
static hk_status prepare(hk_comm *comm, const hki_arguments *arguments, hk_request *request)
{
    hki_context *context = comm->context;
    hki_prepared prepared = {0};
    const hki_algorithm *algorithm;
    hki_plan *plan;
    HK_TRY(hki_arguments_check(comm, arguments, &request->reducer, &prepared));
    if (request->reducer.scales_input && prepared.call.in_place != HKI_SEPARATE)
        prepared.call.in_place = HKI_SEPARATE; /* the scaled copy is the input */
    HK_TRY(hki_select(&prepared.call, prepared.bytes, &algorithm, &prepared.call.segments));
    HK_TRY(hki_plan_find(&context->plans, algorithm, &prepared.call, &plan));
    HK_TRY(hki_plan_bind(&context->plans, plan, &prepared.sizes, prepared.even, context->eager, &request->binding));
    hki_task *task = &request->task;
    task->base[HKI_INPUT] = prepared.base[0];
    task->base[HKI_OUTPUT] = prepared.base[1];
    task->divisor = arguments->op == HK_AVG && hki_collective_reduces(arguments->collective) ? comm->size : 1;
    task->frame.fingerprint = hki_fingerprint(arguments, comm, algorithm, prepared.call.segments, &request->reducer);
    note_choice(comm, algorithm, prepared.call.segments, prepared.bytes);
    uint64_t input = prepared.sizes.count * request->reducer.element_bytes;
    if (arguments->collective == HKI_COLL_REDUCE_SCATTER || arguments->collective == HKI_COLL_REDUCE_SCATTERV)
        input = prepared.bytes;
    HK_TRY(take_memory(request, input));
    if (prepared.even && !request->reducer.user && !request->reducer.scales_input)
        remember(comm, arguments, request, (uint32_t)prepared.call.in_place);
    return HK_OK;
}

/* The short way, for the call that is the last one again. False: take the whole way. */
static bool repeat(hk_comm *comm, const hki_arguments *arguments, hk_request *request)
{
    const hki_memo *memo = &comm->memo;
    uint32_t in_place;
    void *base[2];
    if (hki_arguments_buffers(comm, arguments, memo->reducer.element_bytes, &in_place, base) != HK_OK ||
        in_place != memo->in_place)
        return false;
    request->reducer = memo->reducer;
    request->binding = memo->binding;
    request->binding->users++;
    request->task.base[HKI_INPUT] = base[0];
    request->task.base[HKI_OUTPUT] = base[1];
    request->task.divisor = memo->divisor;
    request->task.frame.fingerprint = memo->fingerprint;
    comm->last_algorithm = memo->algorithm;
    if (take_memory(request, 0) == HK_OK)
        return true;
    hki_binding_release(request->binding);
    request->binding = NULL;
    return false;
}

static void record_call(hk_comm *comm, const hki_arguments *arguments, hk_request *request)
{
    hki_call_record *record = &request->record;
    record->operation = comm->operations;
    record->count = arguments->count;
    record->collective = arguments->collective;
    record->type = arguments->type;
    record->op = arguments->op;
    record->root = arguments->root;
    record->used = true;
}

/* Starts the operation; an argument error consumes no operation number. On return the task may have ended. */
static hk_status start(hk_comm *comm, const hki_arguments *arguments, hk_request *request)
{
    hki_task *task = &request->task;
    record_call(comm, arguments, request);
    if (!remembered(comm, arguments) || !repeat(comm, arguments, request)) {
        hk_status status = prepare(comm, arguments, request);
        if (status != HK_OK)
            return status;
    }
    request->record.fingerprint = task->frame.fingerprint;
    comm->recent[comm->operations % HKI_RECENT_CALLS] = request->record;
    task->engine = &comm->context->engine;
    task->program = request->binding->program;
    task->linear = request->binding->linear;
    task->world = comm->world;
    task->reducer = &request->reducer;
    task->frame.communicator = comm->wire;
    task->frame.operation = (uint32_t)comm->operations++;
    uint32_t mode = hki_fp_enter();
    hk_status status = hki_task_start(task);
    hki_fp_leave(mode);
    if (status != HK_OK)
        return hki_comm_fail(comm, status, "%s", hk_last_error());
    return HK_OK;
}

hk_status hki_collective_run(hk_comm *comm, const hki_arguments *arguments)
{
    HK_TRY(hki_comm_enter(comm));
    hk_request *request = hki_request_new(comm, HKI_REQUEST_COLLECTIVE);
    hk_status status = request ? start(comm, arguments, request) : HK_ERR_NO_MEMORY;
    if (status == HK_OK && !request->task.ended)
        hki_request_wait(request);
    if (request) {
        hk_status final = hki_request_finish(request);
        status = status == HK_OK ? final : status;
    }
    hki_comm_leave(comm);
    return status;
}

hk_status hki_collective_begin(hk_comm *comm, const hki_arguments *arguments, hk_request **request)
{
    if (!request)
        return hki_error(HK_ERR_ARGUMENT, "%s: request is NULL", hki_collective_name(arguments->collective));
    HK_TRY(hki_comm_enter(comm));
    hk_request *made = hki_request_new(comm, HKI_REQUEST_COLLECTIVE);
    hk_status status = made ? start(comm, arguments, made) : HK_ERR_NO_MEMORY;
    if (status == HK_OK) {
        hki_list_append(&comm->context->requests, &made->node);
        *request = made;
    } else if (made) {
        hki_request_finish(made);
    }
    hki_comm_leave(comm);
    return status;
}

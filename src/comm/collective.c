/* From a checked call to a running task: choice, plan, binding, memo. */
#include "comm/comm.h"

#include "base/error.h"
#include "base/log.h"
#include "comm/device.h"
#include "cost/select.h"

#include <stdlib.h>
#include <string.h>

/* --- what is remembered
 * ------------------------------------------------------------------------------------------------ */

void hki_record_call(hk_comm *comm, const hki_signature *is, uint32_t fingerprint)
{
    hki_call_record *newest = &comm->recent[comm->newest];
    if (newest->fingerprint == fingerprint && newest->used && memcmp(&newest->is, is, sizeof *is) == 0) {
        newest->last = comm->operations++;
        return;
    }
    comm->newest = (comm->newest + 1) % HKI_RECENT_CALLS;
    comm->recent[comm->newest] = (hki_call_record){
        .is = *is, .first = comm->operations, .last = comm->operations, .fingerprint = fingerprint, .used = true};
    comm->operations++;
}

void hki_memo_clear(hki_memo *memo)
{
    hki_binding_release(memo->binding);
    free(memo->line);
    memset(memo, 0, sizeof *memo);
}

/* The line of a program that is called again and again, with everything looked up. */
static void prepare_line(hk_comm *comm, hki_memo *memo)
{
    const hki_bound *program = memo->binding->program;
    memo->line = memo->binding->linear ? malloc((program->step_count + 1) * sizeof *memo->line) : NULL;
    if (!memo->line)
        return;
    hki_line_build(program, &comm->context->engine, comm->world, memo->reducer.element_bytes, memo->line);
    memo->task =
        (hki_task){.engine = &comm->context->engine,
                   .program = program,
                   .line = memo->line,
                   .world = comm->world,
                   .reducer = &memo->reducer,
                   .divisor = memo->divisor,
                   .frame = {.kind = HKI_FRAME_EAGER, .communicator = comm->wire, .fingerprint = memo->fingerprint}};
    memo->quick = true;
}

static void remember(hk_comm *comm, const hki_arguments *arguments, const hk_request *request, uint32_t in_place)
{
    hki_memo *memo = &comm->memo;
    hki_memo_clear(memo);
    memo->is = arguments->is;
    memo->divisor = request->task.divisor;
    memo->fingerprint = request->task.frame.fingerprint;
    memo->in_place = in_place;
    memo->separate = in_place == HKI_SEPARATE;
    memo->algorithm = comm->last_algorithm;
    memo->reducer = request->reducer;
    for (int side = 0; side < 2; side++)
        hki_arguments_extent(comm, arguments, side, request->reducer.element_bytes, &memo->bytes[side]);
    memo->binding = request->binding;
    memo->binding->users++;
    memo->record = UINT32_MAX;
    prepare_line(comm, memo);
}

/* Whether the buffers of a repeated call are as plain as those of nearly every call: separate host memory, as last
 * time. False: look closer. */
static inline bool plain_buffers(const hki_memo *memo, const hki_arguments *arguments)
{
    uintptr_t send = (uintptr_t)arguments->send, recv = (uintptr_t)arguments->recv;
    if (!memo->separate || hki_devices_possible || send + 1 <= 1 || recv + 1 <= 1) /* NULL or HK_IN_PLACE */
        return false;
    return send + memo->bytes[0] <= recv || recv + memo->bytes[1] <= send;
}

static inline bool find_buffers(const hk_comm *comm, const hki_arguments *arguments, void *base[2])
{
    const hki_memo *memo = &comm->memo;
    uint32_t in_place;
    base[0] = (void *)(uintptr_t)arguments->send;
    base[1] = arguments->recv;
    if (plain_buffers(memo, arguments))
        return true;
    return hki_arguments_buffers(comm, arguments, memo->reducer.element_bytes, &in_place, base) == HK_OK &&
           in_place == memo->in_place;
}

/* --- the whole way: check, choose, plan, bind
 * -------------------------------------------------------------------------- */

static hk_status take_scratch(hk_comm *comm, const hki_bound *program, void **scratch)
{
    *scratch = NULL;
    if (!program->scratch_bytes)
        return HK_OK;
    *scratch = hki_scratch_take(&comm->context->scratch, (size_t)program->scratch_bytes);
    return *scratch ? HK_OK
                    : hki_error(HK_ERR_NO_MEMORY, "no memory for %llu bytes of scratch",
                                (unsigned long long)program->scratch_bytes);
}

/* The scaled copy of the input that a pre-multiplied sum needs. */
static hk_status scale_input(hk_comm *comm, hk_request *request, uint64_t bytes)
{
    request->scaled = hki_scratch_take(&comm->context->scratch, (size_t)bytes);
    if (!request->scaled)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a scaled copy of the input");
    hki_reducer_scale(&request->reducer, request->scaled, request->task.base[HKI_INPUT],
                      bytes / request->reducer.element_bytes);
    request->task.base[HKI_INPUT] = request->scaled;
    return HK_OK;
}

static hk_status choose(hk_comm *comm, const hki_signature *is, const hki_reducer *reducer, hki_prepared *prepared)
{
    hki_op_class operators = reducer->scales_input ? HKI_OPS_ADD : hki_op_class_of(is->op);
    HK_TRY(hki_select(comm->chooser, &prepared->call, is->type, operators, prepared->bytes, &comm->last_algorithm,
                      &prepared->call.segments));
    comm->last_segments = prepared->call.segments;
    return HK_OK;
}

static hk_status bind_plan(hk_comm *comm, hki_prepared *prepared, hk_request *request)
{
    hki_context *context = comm->context;
    hki_plan *plan;
    HK_TRY(hki_plan_find(&context->plans, comm->last_algorithm, &prepared->call, &plan));
    HK_TRY(hki_plan_bind(&context->plans, plan, &prepared->sizes, prepared->even, context->eager, &request->binding));
    return take_scratch(comm, request->binding->program, &request->scratch);
}

static hk_status prepare(hk_comm *comm, const hki_arguments *arguments, hk_request *request)
{
    hki_prepared prepared = {0};
    hki_task *task = &request->task;
    bool reduces = hki_collective_reduces(arguments->is.collective);
    HK_TRY(hki_arguments_check(comm, arguments, &request->reducer, &prepared));
    bool scales = reduces && request->reducer.scales_input;
    if (scales)
        prepared.call.in_place = HKI_SEPARATE; /* the scaled copy is the input */
    HK_TRY(choose(comm, &arguments->is, &request->reducer, &prepared));
    HK_TRY(bind_plan(comm, &prepared, request));
    task->base[HKI_INPUT] = prepared.base[0];
    task->base[HKI_OUTPUT] = prepared.base[1];
    task->base[HKI_SCRATCH] = request->scratch;
    task->divisor = reduces && arguments->is.op == HK_AVG ? comm->size : 1;
    task->frame.communicator = comm->wire;
    task->frame.fingerprint =
        hki_fingerprint(arguments, comm, comm->last_algorithm, prepared.call.segments, &request->reducer);
    if (scales && prepared.input_bytes)
        return scale_input(comm, request, prepared.input_bytes);
    if (prepared.even && !request->reducer.user && !arguments->within)
        remember(comm, arguments, request, (uint32_t)prepared.call.in_place);
    return HK_OK;
}

/* The short way, for the call that is the last one again. False: take the whole way. */
static bool repeat(hk_comm *comm, const hki_arguments *arguments, hk_request *request)
{
    const hki_memo *memo = &comm->memo;
    void *base[2];
    if (arguments->within || !memo->binding || memcmp(&memo->is, &arguments->is, sizeof memo->is) != 0 ||
        !find_buffers(comm, arguments, base) || take_scratch(comm, memo->binding->program, &request->scratch) != HK_OK)
        return false;
    hki_task *task = &request->task;
    request->reducer = memo->reducer;
    request->binding = memo->binding;
    request->binding->users++;
    task->base[HKI_INPUT] = base[0];
    task->base[HKI_OUTPUT] = base[1];
    task->base[HKI_SCRATCH] = request->scratch;
    task->divisor = memo->divisor;
    task->frame.communicator = comm->wire;
    task->frame.fingerprint = memo->fingerprint;
    comm->last_algorithm = memo->algorithm;
    return true;
}

/* Starts the operation; an argument error consumes no operation number. On return the task may have ended. */
static hk_status start(hk_comm *comm, const hki_arguments *arguments, hk_request *request)
{
    hki_task *task = &request->task;
    if (!repeat(comm, arguments, request))
        HK_TRY(prepare(comm, arguments, request));
    task->frame.operation = (uint32_t)comm->operations;
    request->operation = comm->operations;
    const hki_signature whole = {.collective = arguments->within};
    hki_record_call(comm, arguments->within ? &whole : &arguments->is, task->frame.fingerprint);
    request->record = comm->recent[comm->newest];
    task->engine = &comm->context->engine;
    task->program = request->binding->program;
    task->linear = request->binding->linear;
    task->world = comm->world;
    task->reducer = &request->reducer;
    hki_request_index(request);
    uint32_t mode = hki_fp_enter();
    hk_status status = hki_task_start(task);
    hki_fp_leave(mode);
    if (status != HK_OK)
        return hki_comm_fail(comm, status, "%s", hk_last_error());
    return HK_OK;
}

/* --- the quick way
 * ----------------------------------------------------------------------------------------------------- */

/* Goes on with a line that was begun without a request. */
static hk_status promote(hk_comm *comm, const hki_task *begun)
{
    hk_request *request = hki_request_new(comm, HKI_REQUEST_COLLECTIVE);
    if (!request || hki_task_adopt(&request->task, begun) != HK_OK)
        return hki_comm_fail(comm, HK_ERR_NO_MEMORY, "no memory for a request");
    request->record = comm->recent[comm->newest];
    request->operation = comm->operations - 1;
    request->reducer = comm->memo.reducer;
    request->task.reducer = &request->reducer;
    request->binding = comm->memo.binding;
    request->binding->users++;
    request->scratch = begun->base[HKI_SCRATCH];
    hki_request_index(request);
    hki_request_wait(request);
    return hki_request_finish(request);
}

/* Notes a call that is the remembered one. If the newest record is of such calls, no other was made since. */
static inline void note_again(hk_comm *comm, const hki_arguments *arguments)
{
    hki_memo *memo = &comm->memo;
    if (memo->record == comm->newest) {
        comm->recent[memo->record].last = comm->operations++;
        return;
    }
    hki_record_call(comm, &arguments->is, memo->fingerprint);
    memo->record = comm->newest;
    comm->last_algorithm = memo->algorithm;
}

/* The last call again, and small: the line runs without a request until it has to wait longer than a spin. False:
 * nothing has been done. */
static inline bool quick(hk_comm *comm, const hki_arguments *arguments, hk_status *status)
{
    hki_memo *memo = &comm->memo;
    hki_task *task = &memo->task;
    void *scratch, *base[2];
    if (!memo->quick || memcmp(&memo->is, &arguments->is, sizeof memo->is) != 0 ||
        !find_buffers(comm, arguments, base) || take_scratch(comm, task->program, &scratch) != HK_OK)
        return false;
    task->position = 0;
    task->frame.operation = (uint32_t)comm->operations;
    task->base[HKI_INPUT] = base[0];
    task->base[HKI_OUTPUT] = base[1];
    task->base[HKI_SCRATCH] = scratch;
    note_again(comm, arguments);
    uint32_t mode = hki_fp_enter();
    hki_line line = hki_line_poll(task);
    hki_fp_leave(mode);
    if (__builtin_expect(line != HKI_LINE_ENDED || task->engine->attention, 0)) {
        *status = promote(comm, task);
        return true;
    }
    if (scratch)
        hki_scratch_give(&comm->context->scratch, scratch);
    *status = HK_OK;
    return true;
}

static hk_status run_slowly(hk_comm *comm, const hki_arguments *arguments)
{
    hk_request *request = hki_request_new(comm, HKI_REQUEST_COLLECTIVE);
    if (!request)
        return HK_ERR_NO_MEMORY;
    hk_status status = start(comm, arguments, request);
    if (status == HK_OK && !request->task.ended)
        hki_request_wait(request);
    hk_status final = hki_request_finish(request);
    return status == HK_OK ? final : status;
}

hk_status hki_collective_run(hk_comm *comm, const hki_arguments *arguments)
{
    hk_status status;
    HK_TRY(hki_comm_enter(comm));
    if (!quick(comm, arguments, &status))
        status = run_slowly(comm, arguments);
    hki_comm_leave(comm);
    return status;
}

hk_status hki_collective_within(hk_comm *comm, const hki_arguments *arguments)
{
    HK_TRY(hki_comm_enter(comm));
    hk_status status = run_slowly(comm, arguments);
    hki_comm_leave(comm);
    return status;
}

hk_status hki_collective_begin(hk_comm *comm, const hki_arguments *arguments, hk_request **request)
{
    if (!request)
        return hki_error(HK_ERR_ARGUMENT, "%s: request is NULL", hki_collective_name(arguments->is.collective));
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

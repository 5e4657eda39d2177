/* The graph: a step starts when all that it waits for is complete. */
#include "exec/internal.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* Memory of a graph task: counters, ready stack, transfers and vectors of all steps, in one block. */
static hk_status reserve(hki_task *task)
{
    const hki_bound *program = task->program;
    size_t steps = program->step_count;
    size_t vectors = program->piece_count; /* vectors[i] is pieces[i] at its address, for messages in several pieces */
    size_t bytes = steps * (sizeof *task->transfers + 2 * sizeof *task->waits) + vectors * sizeof *task->vectors;
    HK_TRY(hki_task_reserve(task, bytes));
    task->transfers = task->memory;
    task->vectors = (struct iovec *)(void *)(task->transfers + steps);
    task->waits = (uint32_t *)(void *)(task->vectors + vectors);
    task->ready = task->waits + steps;
    memset(task->transfers, 0, steps * sizeof *task->transfers);
    return HK_OK;
}

static bool receives(const hki_task *task, uint32_t index)
{
    hki_verb verb = task->program->steps[index].verb;
    return verb == HKI_VERB_RECV || verb == HKI_VERB_RECV_REDUCE;
}

/* Receives first, since posting one lets its sender begin, while a large send takes its time. Else in program order:
 * messages to one peer then leave in the order in which that peer takes them; in any other, those that it cannot take
 * yet would use up the credit of the one that it waits for. */
static bool starts_before(const hki_task *task, uint32_t a, uint32_t b)
{
    bool first = receives(task, a), second = receives(task, b);
    return first != second ? first : a < b;
}

/* The last of `ready` is the first to start. */
static void make_ready(hki_task *task, uint32_t index)
{
    uint32_t i = task->ready_count++;
    for (; i > 0 && starts_before(task, task->ready[i - 1], index); i--)
        task->ready[i] = task->ready[i - 1];
    task->ready[i] = index;
}

static void complete(hki_task *task, uint32_t index)
{
    const hki_bound *program = task->program;
    const hki_bound_step *step = &program->steps[index];
    for (uint32_t i = 0; i < step->successor_count; i++) {
        uint32_t next = program->successors[step->first_successor + i];
        if (--task->waits[next] == 0)
            make_ready(task, next);
    }
    task->remaining--;
}

static void transfer_ended(hki_transfer *transfer, hk_status status)
{
    hki_task *task = transfer->owner;
    uint32_t index = transfer->step;
    task->transfers[index] = NULL;
    hki_transfer_release(task->engine->endpoint, transfer);
    if (status == HK_OK) {
        complete(task, index);
    } else if (task->status == HK_OK) {
        task->status = status;
        task->culprit = (int32_t)task->program->steps[index].peer;
    }
    hki_task_wake(task);
}

/* Resolves pieces to addresses. A single piece is stored in the transfer itself. */
static const struct iovec *resolve(hki_task *task, uint32_t first, uint32_t count, struct iovec *one)
{
    struct iovec *vector = count == 1 ? one : &task->vectors[first];
    for (uint32_t i = 0; i < count; i++) {
        const hki_piece *piece = &task->program->pieces[first + i];
        vector[i] = (struct iovec){hki_task_at(task, piece), (size_t)piece->bytes};
    }
    return vector;
}

static void prepare_sink(hki_task *task, const hki_bound_step *step, hki_transfer *transfer)
{
    uint32_t count = step->destination_count;
    const struct iovec *destination = resolve(task, step->destination, count, &transfer->one);
    hki_sink_copy(&transfer->sink, destination, count, step->bytes);
    if (step->verb != HKI_VERB_RECV_REDUCE)
        return;
    transfer->sink.local = resolve(task, step->source, count, &transfer->one_local);
    transfer->sink.reducer = task->reducer;
    transfer->sink.incoming_left = (step->flags & HKI_INCOMING_LEFT) != 0;
    if (step->flags & HKI_FINISH)
        transfer->sink.divisor = task->divisor;
}

static void start_message(hki_task *task, uint32_t index)
{
    const hki_bound_step *step = &task->program->steps[index];
    hki_transfer *transfer = hki_transfer_new(task->engine->endpoint);
    if (!transfer) {
        task->status = hki_error(HK_ERR_NO_MEMORY, "no memory for another message in flight");
        return;
    }
    task->transfers[index] = transfer;
    transfer->frame = task->frame;
    transfer->frame.ordinal = step->ordinal;
    transfer->bytes = step->bytes;
    transfer->done = transfer_ended;
    transfer->owner = task;
    transfer->step = index;
    hki_channel *channel = hki_task_channel(task, step->peer);
    if (step->verb == HKI_VERB_SEND) {
        transfer->pieces = resolve(task, step->source, step->source_count, &transfer->one);
        transfer->piece_count = step->source_count;
        hki_msg_send(channel, transfer);
    } else {
        prepare_sink(task, step, transfer);
        hki_msg_recv(channel, transfer);
    }
}

static void start_step(hki_task *task, uint32_t index)
{
    const hki_bound_step *step = &task->program->steps[index];
    if (receives(task, index))
        hki_msg_hold(task->engine->endpoint);
    else
        hki_msg_release(task->engine->endpoint);
    if (step->verb == HKI_VERB_COPY || step->verb == HKI_VERB_REDUCE) {
        hki_local_step(task, step);
        complete(task, index);
    } else {
        start_message(task, index);
    }
}

bool hki_graph_run(hki_task *task)
{
    bool any = task->ready_count > 0;
    while (task->ready_count > 0 && task->status == HK_OK)
        start_step(task, task->ready[--task->ready_count]);
    hki_msg_release(task->engine->endpoint);
    if (task->status != HK_OK) {
        hki_task_cancel(task, task->status);
        return true;
    }
    if (task->remaining == 0) {
        hki_task_end(task, HK_OK);
        return true;
    }
    return any;
}

hk_status hki_graph_start(hki_task *task, uint32_t done)
{
    const hki_bound *program = task->program;
    HK_TRY(reserve(task));
    hki_task_enlist(task, &task->engine->graphs);
    task->remaining = program->step_count;
    task->ready_count = 0;
    for (uint32_t i = 0; i < program->step_count; i++)
        task->waits[i] = program->steps[i].waits;
    for (uint32_t i = 0; i < done; i++)
        complete(task, i);
    task->ready_count = 0;
    for (uint32_t i = program->step_count; i-- > done;) {
        if (task->waits[i] == 0)
            make_ready(task, i);
    }
    hki_graph_run(task);
    return HK_OK;
}

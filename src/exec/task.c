/* Tasks: start, end, cancel, and the steps that need no message. */
#include "exec/internal.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum { STREAMED_COPY_BYTES = 4 << 20 };

static void copy_step(const hki_task *task, const hki_bound_step *step)
{
    for (uint32_t i = 0; i < step->destination_count; i++) {
        const hki_piece *to = &task->program->pieces[step->destination + i];
        char *out = hki_task_at(task, to);
        const char *in = hki_task_at(task, &task->program->pieces[step->source + i]);
        hki_copy_bytes(out, in, (size_t)to->bytes, to->bytes >= STREAMED_COPY_BYTES);
        if ((step->flags & HKI_FINISH) && task->divisor > 1)
            hki_reduce_finish(task->reducer, out, to->bytes / task->reducer->element_bytes, task->divisor);
    }
}

/* Piece by piece, all sources in one pass: the result may lie where any of them does, so nothing may be written before
 * the last was read. Takes 8 bytes of stack a source, of which there are as many as ranks at most. */
static void reduce_step(const hki_task *task, const hki_bound_step *step)
{
    const void *sources[step->operands];
    uint32_t divisor = step->flags & HKI_FINISH ? task->divisor : 1;
    for (uint32_t i = 0; i < step->destination_count; i++) {
        const hki_piece *to = &task->program->pieces[step->destination + i];
        for (uint32_t k = 0; k < step->operands; k++)
            sources[k] = hki_task_at(task, &task->program->pieces[step->source + k * step->destination_count + i]);
        hki_reduce_many(task->reducer, hki_task_at(task, to), sources, step->operands,
                        to->bytes / task->reducer->element_bytes, divisor);
    }
}

void hki_local_step(const hki_task *task, const hki_bound_step *step)
{
    if (step->verb == HKI_VERB_COPY)
        copy_step(task, step);
    else
        reduce_step(task, step);
}

bool hki_program_is_linear(const hki_bound *program, bool order_is_valid, size_t eager)
{
    if (!order_is_valid || program->largest_message > eager)
        return false;
    for (uint32_t i = 0; i < program->step_count; i++) {
        const hki_bound_step *step = &program->steps[i];
        bool message = step->verb != HKI_VERB_COPY && step->verb != HKI_VERB_REDUCE;
        if (message && (step->destination_count > 1 || step->source_count > 1))
            return false;
    }
    return true;
}

hk_status hki_task_reserve(hki_task *task, size_t bytes)
{
    if (bytes <= task->capacity)
        return HK_OK;
    free(task->memory);
    task->memory = malloc(bytes);
    task->capacity = task->memory ? bytes : 0;
    return task->memory ? HK_OK : hki_error(HK_ERR_NO_MEMORY, "no memory to run an operation");
}

static hk_status build_line(hki_task *task)
{
    HK_TRY(hki_task_reserve(task, task->program->step_count * sizeof *task->line));
    task->line = task->memory;
    hki_line_build(task->program, task->engine, task->world, task->reducer->element_bytes, task->memory);
    return HK_OK;
}

void hki_task_enlist(hki_task *task, hki_node *list)
{
    hki_list_remove(&task->node);
    hki_list_append(list, &task->node);
}

/* Older tasks run first, as if all had been looked at in their order: their messages are those that others take first,
 * and would have to wait for the credit that messages of younger ones use up. */
void hki_task_wake(hki_task *task)
{
    hki_list_remove(&task->node);
    hki_node *behind = &task->engine->runnable;
    while (behind->previous != &task->engine->runnable &&
           hki_list_entry(behind->previous, hki_task, node)->number > task->number)
        behind = behind->previous;
    hki_list_append(behind, &task->node);
}

hk_status hki_task_start(hki_task *task)
{
    if (task->linear)
        HK_TRY(build_line(task));
    task->ended = false;
    task->status = HK_OK;
    task->position = 0;
    task->ready_count = 0;
    task->frame.kind = HKI_FRAME_EAGER;
    task->number = task->engine->started++;
    hki_list_init(&task->node);
    if (task->linear) {
        hki_task_enlist(task, &task->engine->lines);
        hki_linear_run(task);
        return HK_OK;
    }
    hk_status status = hki_graph_start(task, 0);
    if (status != HK_OK)
        hki_list_remove(&task->node);
    return status;
}

hk_status hki_task_adopt(hki_task *task, const hki_task *begun)
{
    task->engine = begun->engine;
    task->program = begun->program;
    task->world = begun->world;
    task->reducer = begun->reducer;
    task->divisor = begun->divisor;
    task->frame = begun->frame;
    memcpy(task->base, begun->base, sizeof task->base);
    HK_TRY(build_line(task));
    task->linear = true;
    task->position = begun->position;
    task->ended = false;
    task->status = HK_OK;
    task->number = task->engine->started++;
    hki_list_init(&task->node);
    hki_task_enlist(task, &task->engine->lines);
    return HK_OK;
}

void hki_task_end(hki_task *task, hk_status status)
{
    hki_list_remove(&task->node);
    task->status = status;
    task->ended = true;
}

void hki_task_cancel(hki_task *task, hk_status status)
{
    if (task->ended)
        return;
    for (uint32_t i = 0; !task->linear && i < task->program->step_count; i++) {
        if (!task->transfers[i])
            continue;
        hki_msg_cancel(task->engine->endpoint, task->transfers[i]);
        hki_transfer_release(task->engine->endpoint, task->transfers[i]);
        task->transfers[i] = NULL;
    }
    hki_task_end(task, status);
}

void hki_task_free_memory(hki_task *task)
{
    free(task->memory);
    task->memory = NULL;
    task->capacity = 0;
}

uint32_t hki_task_awaits(const hki_task *task, uint32_t *ranks, uint32_t capacity)
{
    uint32_t count = 0;
    if (task->linear && task->position < task->program->step_count) {
        if (capacity)
            ranks[count++] = task->program->steps[task->position].peer;
        return count;
    }
    for (uint32_t i = 0; !task->linear && i < task->program->step_count && count < capacity; i++) {
        const hki_transfer *transfer = task->transfers[i];
        if (!transfer)
            continue;
        uint32_t peer = task->program->steps[i].peer;
        bool listed = false;
        for (uint32_t k = 0; k < count; k++)
            listed |= ranks[k] == peer;
        if (!listed)
            ranks[count++] = peer;
    }
    return count;
}

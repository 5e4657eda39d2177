/* The straight line: steps in program order, resumed where they stopped. */
#include "exec/internal.h"

#include <string.h>

void hki_line_build(const hki_bound *program, const hki_engine *engine, const uint32_t *world, uint32_t element_bytes,
                    hki_line_step *steps)
{
    for (uint32_t i = 0; i < program->step_count; i++) {
        const hki_bound_step *step = &program->steps[i];
        hki_line_step *line = &steps[i];
        *line = (hki_line_step){.verb = step->verb, .flags = step->flags, .ordinal = step->ordinal};
        if (step->verb == HKI_VERB_COPY || step->verb == HKI_VERB_REDUCE)
            continue;
        line->channel = &engine->endpoint->channels[world ? world[step->peer] : step->peer];
        line->bytes = (uint32_t)step->bytes;
        line->count = (uint32_t)(step->bytes / element_bytes);
        if (step->destination_count) {
            line->destination = program->pieces[step->destination].offset;
            line->destination_base = (uint8_t)program->pieces[step->destination].base;
        }
        if (step->source_count) {
            line->source = program->pieces[step->source].offset;
            line->source_base = (uint8_t)program->pieces[step->source].base;
        }
    }
}

/* destination = local op incoming, or its mirror image; then the finish of an average. */
static inline __attribute__((always_inline)) void line_reduce(const hki_task *task, const hki_line_step *step,
                                                              const void *incoming)
{
    const hki_reducer *reducer = task->reducer;
    char *out = task->base[step->destination_base] + step->destination;
    const char *local = task->base[step->source_base] + step->source;
    const void *left = local, *right = incoming;
    if (step->flags & HKI_INCOMING_LEFT) {
        left = incoming;
        right = local;
    }
    if (reducer->user)
        hki_reduce_two(reducer, out, left, right, step->count, false);
    else
        reducer->two(out, left, right, step->count);
    if ((step->flags & HKI_FINISH) && task->divisor > 1)
        hki_reduce_finish(reducer, out, step->count, task->divisor);
}

static inline __attribute__((always_inline)) bool line_receive(hki_task *task, const hki_line_step *step)
{
    hki_unexpected *kept;
    const void *data = hki_msg_take(step->channel, &task->frame, step->bytes, &kept);
    if (!data)
        return false;
    if (step->verb == HKI_VERB_RECV_REDUCE)
        line_reduce(task, step, data);
    else if (step->bytes)
        memcpy(task->base[step->destination_base] + step->destination, data, step->bytes);
    hki_msg_take_end(step->channel, step->bytes, kept);
    return true;
}

static inline __attribute__((always_inline)) hki_line advance(hki_task *task)
{
    uint32_t i = task->position, count = task->program->step_count;
    const hki_line_step *step = task->line + i;
    hki_line line = HKI_LINE_ENDED;
    for (; i < count; i++, step++) {
        task->frame.ordinal = step->ordinal;
        if (step->verb == HKI_VERB_SEND) {
            const char *data = task->base[step->source_base] + step->source;
            if (hki_msg_send_now(step->channel, &task->frame, data, step->bytes))
                continue;
            line = HKI_LINE_NO_ROOM;
            break;
        }
        if (!step->channel) {
            hki_local_step(task, &task->program->steps[i]);
        } else if (!line_receive(task, step)) {
            line = step->channel->lost ? HKI_LINE_LOST : HKI_LINE_WAITING;
            break;
        }
    }
    task->position = i;
    return line;
}

hki_line hki_line_advance(hki_task *task)
{
    return advance(task);
}

/* Polls on, as long as a wait spins and nothing else is under way. */
static __attribute__((noinline)) hki_line poll_on(hki_task *task)
{
    const hki_engine *engine = task->engine;
    hki_line line = HKI_LINE_WAITING;
    enum { SYSTEM_SPINS = 64 }; /* a wait gives way between so many */
    uint32_t most = engine->patience.spins;
    if (most > SYSTEM_SPINS && hki_engine_polls_system(engine))
        most = SYSTEM_SPINS;
    for (uint32_t spins = 0; line == HKI_LINE_WAITING && spins < most; spins++) {
        if (!hki_engine_idle(engine) || !hki_list_empty(&engine->endpoint->working) || engine->attention)
            break;
        line = hki_line_advance(task);
    }
    return line;
}

hki_line hki_line_poll(hki_task *task)
{
    hki_engine *engine = task->engine;
    engine->unregistered = task;
    hki_line line = advance(task);
    if (line == HKI_LINE_WAITING)
        line = poll_on(task);
    engine->unregistered = NULL;
    return line;
}

bool hki_linear_run(hki_task *task)
{
    uint32_t start = task->position;
    switch (hki_line_advance(task)) {
    case HKI_LINE_ENDED:
        hki_task_end(task, HK_OK);
        return true;
    case HKI_LINE_LOST:
        task->culprit = (int32_t)task->program->steps[task->position].peer;
        hki_task_end(task, HK_ERR_PEER_LOST);
        return true;
    case HKI_LINE_NO_ROOM: /* at one peer: must not delay the others */
        task->linear = false;
        if (hki_graph_start(task, task->position) != HK_OK)
            hki_task_end(task, HK_ERR_NO_MEMORY);
        return true;
    default:
        return task->position > start;
    }
}

/* The straight line: steps in program order, resumed where they stopped. */
#include "exec/internal.h"

#include <string.h>

static inline bool line_send(hki_task *task, const hki_bound_step *step)
{
    const hki_piece *pieces = task->program->pieces;
    const void *data = step->source_count ? hki_task_at(task, &pieces[step->source]) : NULL;
    task->frame.ordinal = step->ordinal;
    return hki_msg_send_now(hki_task_channel(task, step->peer), &task->frame, data, (size_t)step->bytes);
}

/* destination = local op incoming, or its mirror image; then the finish of an average. */
static inline void line_reduce(const hki_task *task, const hki_bound_step *step, const void *incoming)
{
    const hki_piece *pieces = task->program->pieces;
    const hki_reducer *reducer = task->reducer;
    char *out = hki_task_at(task, &pieces[step->destination]);
    const char *local = hki_task_at(task, &pieces[step->source]);
    uint64_t count = step->bytes / reducer->element_bytes;
    bool left = (step->flags & HKI_INCOMING_LEFT) != 0;
    hki_reduce_two(reducer, out, left ? incoming : local, left ? local : incoming, count, false);
    if ((step->flags & HKI_FINISH) && task->divisor > 1)
        hki_reduce_finish(reducer, out, count, task->divisor);
}

static inline bool line_receive(hki_task *task, const hki_bound_step *step)
{
    hki_channel *channel = hki_task_channel(task, step->peer);
    hki_unexpected *kept;
    task->frame.ordinal = step->ordinal;
    const void *data = hki_msg_take(channel, &task->frame, (size_t)step->bytes, &kept);
    if (!data)
        return false;
    if (step->verb == HKI_VERB_RECV_REDUCE)
        line_reduce(task, step, data);
    else if (step->bytes)
        memcpy(hki_task_at(task, &task->program->pieces[step->destination]), data, (size_t)step->bytes);
    hki_msg_take_end(channel, (size_t)step->bytes, kept);
    return true;
}

bool hki_linear_run(hki_task *task)
{
    const hki_bound *program = task->program;
    uint32_t start = task->position;
    for (; task->position < program->step_count; task->position++) {
        const hki_bound_step *step = &program->steps[task->position];
        switch (step->verb) {
        case HKI_VERB_SEND:
            if (!line_send(task, step)) {
                task->linear = false; /* no room at one peer must not delay the others */
                if (hki_graph_start(task, task->position) != HK_OK)
                    hki_task_end(task, HK_ERR_NO_MEMORY);
                return true;
            }
            break;
        case HKI_VERB_RECV:
        case HKI_VERB_RECV_REDUCE:
            if (line_receive(task, step))
                break;
            if (!hki_task_channel(task, step->peer)->lost)
                return task->position > start;
            hki_task_end(task, HK_ERR_PEER_LOST);
            return true;
        default:
            hki_local_step(task, step);
            break;
        }
    }
    hki_task_end(task, HK_OK);
    return true;
}

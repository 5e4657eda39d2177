/* What the files of the executor share; nobody else includes it. */
#ifndef HKI_EXEC_INTERNAL_H
#define HKI_EXEC_INTERNAL_H

#include "exec/exec.h"

static inline hki_channel *hki_task_channel(const hki_task *task, uint32_t rank)
{
    return &task->engine->endpoint->channels[task->world ? task->world[rank] : rank];
}

static inline char *hki_task_at(const hki_task *task, const hki_piece *piece)
{
    return task->base[piece->base] + piece->offset;
}

/* COPY and REDUCE: done on the spot. */
void hki_local_step(const hki_task *task, const hki_bound_step *step);

/* Runs the straight line until it ends, waits, or has to become a graph. True if anything moved. */
bool hki_linear_run(hki_task *task);
/* Turns a task into a graph of which the first `done` steps are complete, and runs what is ready. */
hk_status hki_graph_start(hki_task *task, uint32_t done);
bool hki_graph_run(hki_task *task);

/* Makes task->memory at least so large; what it held is lost. */
hk_status hki_task_reserve(hki_task *task, size_t bytes);

void hki_task_end(hki_task *task, hk_status status);

/* Puts a task that starts, or goes on as a graph, where it belongs. */
void hki_task_enlist(hki_task *task, hki_node *list);
/* Has a graph run in the next turn. */
void hki_task_wake(hki_task *task);

/* True if no task but an unregistered one is in flight. */
static inline bool hki_engine_idle(const hki_engine *engine)
{
    return hki_list_empty(&engine->lines) && hki_list_empty(&engine->graphs) && hki_list_empty(&engine->runnable);
}

/* Whether polls may be system calls: those of all transports but shared memory. */
bool hki_engine_polls_system(const hki_engine *engine);

#endif

/*
 * The executor: runs bound programs over channels, for any number of operations at once.
 *
 * A task is one operation of one rank. A program whose messages each travel whole runs in its own order (the straight
 * line): no dependency is counted and no transfer is made. When a send finds no room, or the messages are large, the
 * task runs as a graph: a step starts when the steps that it waits for are complete, so that no slow peer delays what
 * does not depend on it.
 */
#ifndef HKI_EXEC_EXEC_H
#define HKI_EXEC_EXEC_H

#include "base/list.h"
#include "msg/msg.h"
#include "sched/bind.h"

typedef struct hki_engine hki_engine;

/* A step of the straight line, with everything looked up that a repeated call need not look up again. */
typedef struct hki_line_step {
    hki_channel *channel;
    uint64_t destination, source; /* offsets in their buffers */
    uint32_t bytes, count, ordinal;
    uint8_t verb, flags, destination_base, source_base;
} hki_line_step;

typedef struct hki_task {
    hki_node node;   /* in one of the engine's lists, between start and end */
    uint64_t number; /* in the order of starting */
    hki_engine *engine;
    const hki_bound *program;
    const hki_line_step *line; /* linear: the program's steps */
    bool linear;               /* runs in program order */
    bool ended;
    int32_t culprit;    /* rank of the communicator whose message failed first; -1: nobody's */
    uint32_t position;  /* linear: next step */
    uint32_t remaining; /* graph: steps not complete */
    uint32_t ready_count;
    hk_frame frame;        /* communicator, operation, fingerprint of every message */
    char *base[3];         /* INPUT, OUTPUT, SCRATCH */
    const uint32_t *world; /* rank in the communicator → channel; NULL = identity */
    const hki_reducer *reducer;
    uint32_t divisor; /* of an average, else 1 */
    hk_status status;
    /* Graph: one block of memory, kept for the next use of the task. */
    void *memory;
    size_t capacity;
    uint32_t *waits, *ready;
    hki_transfer **transfers;
    struct iovec *vectors;
} hki_task;

/* How a rank waits: polls, then yields, then sleep. */
typedef struct hki_patience {
    uint32_t spins, yields;
} hki_patience;

struct hki_engine {
    hki_endpoint *endpoint;
    hki_node lines;    /* tasks on the straight line: each looks for its message at every turn */
    hki_node graphs;   /* tasks that wait until one of their messages has ended */
    hki_node runnable; /* graphs of which one has, the oldest first: thousands may be in flight, few have to run */
    uint64_t started;  /* tasks, so far */
    const hki_task *unregistered; /* a task that runs along its line without being in a list, or NULL */
    hki_patience patience;
    void *context;
    /* Called now and then while a wait is long (at most every 20 ms, and the more rarely the longer it takes), with the
     * time: deadlines, dead peers, reports. */
    void (*slow)(void *context, uint64_t now);
    /* Let other threads in while this one does nothing; NULL when there are none. */
    void (*unlock)(void *context);
    void (*lock)(void *context);
    uint64_t sleeps;
    uint64_t next_look; /* when `slow` is called again, if a wait is long */
    uint32_t tests;     /* calls of hk_test, to look at deadlines now and then */
    bool attention;     /* something failed: call attend at the end of this turn */
    void (*attend)(void *context);
};

/* Fields of the caller's (context, slow, attend, lock, unlock) are to be set afterwards. */
void hki_engine_open(hki_engine *engine, hki_endpoint *endpoint, uint32_t local_ranks, uint32_t usable_cpus);
/* CPUs' worth of time that the cgroup allows, at least 1; UINT32_MAX without a quota. */
uint32_t hki_quota_cpus(void);

/* Whether a program may run in its own order over channels that carry `eager` bytes in one frame. */
bool hki_program_is_linear(const hki_bound *program, bool order_is_valid, size_t eager);

/* Starts: fields engine, program, linear, frame, base, world, reducer, divisor are set by the caller; memory and
 * capacity are kept from an earlier use or zero. Does what can be done at once; the task may be ended on return.
 * HK_ERR_NO_MEMORY: not started. */
hk_status hki_task_start(hki_task *task);

/* Writes the line of a linear program into steps[program->step_count]. */
void hki_line_build(const hki_bound *program, const hki_engine *engine, const uint32_t *world, uint32_t element_bytes,
                    hki_line_step *steps);
/* The straight line by itself, without registering the task: where it came to. Fields engine, program, line, position,
 * frame, base, reducer and divisor are set. */
typedef enum hki_line { HKI_LINE_ENDED, HKI_LINE_WAITING, HKI_LINE_NO_ROOM, HKI_LINE_LOST } hki_line;
hki_line hki_line_advance(hki_task *task);
/* The same, polling for as long as a wait spins and nothing else is under way. */
hki_line hki_line_poll(hki_task *task);
/* Goes on, as a task of its own, with what an unregistered one began. HK_ERR_NO_MEMORY: nothing has happened. */
hk_status hki_task_adopt(hki_task *task, const hki_task *begun);

/* Stops: when this returns the buffers are not touched any more. Nothing if ended. */
void hki_task_cancel(hki_task *task, hk_status status);
void hki_task_free_memory(hki_task *task);
/* The ranks of the communicator that the task waits for now, to send to it or to take what it sends: up to capacity,
 * returns how many. */
uint32_t hki_task_awaits(const hki_task *task, uint32_t *ranks, uint32_t capacity);

/* One turn: every task that may get on, then the messages. True if anything moved. */
bool hki_engine_progress(hki_engine *engine);
/* Turns until *ended, adaptively. */
void hki_engine_wait(hki_engine *engine, const bool *ended);
/* Does nothing for a moment (at most 50 ms), or until something arrives. */
void hki_engine_pause(hki_engine *engine);

#endif

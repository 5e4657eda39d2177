/*
 * The state of the worker (run_job.c), and what it does when ranks end or must end (run_ending.c). Phases:
 *
 *   RUNNING   ranks live, and nothing has gone wrong
 *   ENDING    they were sent SIGTERM; at the deadline SIGKILL follows
 *   REAPING   all ranks have ended; what they left running was sent SIGTERM
 *   DRAINING  nothing lives any more; the last output is on its way
 *   DONE
 */
#ifndef HKI_TOOLS_RUN_JOB_H
#define HKI_TOOLS_RUN_JOB_H

#include "tools/run.h"

#include "base/clock.h"

static const uint64_t run_never = UINT64_MAX;

static inline uint64_t run_after(double seconds)
{
    return hki_now() + (uint64_t)(seconds * 1e9);
}

typedef enum run_phase { RUNNING, ENDING, REAPING, DRAINING, DONE } run_phase;

typedef struct run_rank {
    pid_t pid; /* 0 when it does not live */
    int pidfd; /* -1: the kernel has none */
    run_stream streams[2];
    int input;        /* an agent's: open as long as it is to live; -1: none */
    uint64_t hang_up; /* when its link is closed although something that it started still holds it */
} run_rank;

typedef struct run_state {
    const run_options *options;
    run_rank *ranks;
    int started, alive;
    run_phase phase;
    int status; /* of the job, once it failed */
    bool failed;
    bool hurry;           /* a signal or the time limit ends the run_state */
    int suspect;          /* rank whose failure is to be named, if no likelier cause comes up; -1: none */
    int suspect_status;   /* its wait status */
    bool reap;            /* children may have to be waited for */
    uint64_t time_limit;  /* of the run_state */
    uint64_t deadline;    /* of the phase */
    uint64_t interrupted; /* when the first signal came */
    uint64_t hang_up;     /* earliest of the ranks' */
    int poller, signals, control;
    bool paused[2]; /* the sink is full: its streams are not polled */
    bool polled[2]; /* the sink is registered, since bytes wait */
    run_sink sinks[2];
    hki_topology *topology; /* of this host */
    run_join join;
    run_spawner spawner;
} run_state;

/* Puts "hocket run: …" and a newline on standard error, in turn with the ranks' output. */
void run_report(run_state *self, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The job's exit status, unless it failed before. */
void run_fail(run_state *self, int status);
/* RUNNING → ENDING: SIGTERM to everything. */
void run_begin_ending(run_state *self);
/* → DRAINING, after SIGKILL to everything. */
void run_kill_everything(run_state *self);
/* All ranks have ended: → REAPING if they left something running, else DRAINING. */
void run_end_leftovers(run_state *self);
/* Nothing lives any more: → DRAINING. */
void run_begin_draining(run_state *self);
/* A rank could not become its program. */
void run_cannot_start(run_state *self, int index, int failure);
/* Names the failure that is held back, if any, and ends the job. */
void run_declare(run_state *self);
/* The process descriptor of a rank is ready. */
void run_take_death(run_state *self, int index);
/* Children have ended: waits for those whose death no descriptor tells. */
void run_reap(run_state *self);
bool run_childless(void);
/* run_join's callback. */
void run_report_lost(void *context, const char *missing, const char *waiting);

#endif

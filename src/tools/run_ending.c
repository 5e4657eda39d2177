/* How a job ends: which failure is named, and how everything that lives is brought to its end. */
#include "tools/run_job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DRAIN_READS = 32 };                /* reads from a dead rank's pipe: 2 MiB, twice the largest pipe */
static const double leftover_grace = 0.2; /* from SIGTERM to SIGKILL for what ranks left behind */
static const double settle_time = 0.05;   /* in which the failure that caused others may come after them */
static const double lost_grace = 1.0;     /* for ranks to end by themselves when they cannot join */
static const double hurried_drain = 0.5;  /* for whoever reads our output */

void run_report(run_state *self, const char *format, ...)
{
    char line[1024];
    const run_share *share = self->options->share;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    run_sink_put(&self->sinks[1], "hocket run: ", strlen("hocket run: "));
    if (share) {
        run_sink_put(&self->sinks[1], share->host, strlen(share->host));
        run_sink_put(&self->sinks[1], ": ", 2);
    }
    run_sink_put(&self->sinks[1], line, strlen(line));
    run_sink_put(&self->sinks[1], "\n", 1);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Ending
 * ------------------------------------------------------------------------------------------------------------- */

void run_fail(run_state *self, int status)
{
    if (!self->failed)
        self->status = status;
    self->failed = true;
}

void run_begin_ending(run_state *self)
{
    if (self->phase != RUNNING)
        return;
    self->phase = ENDING;
    self->deadline = run_after(self->options->grace);
    run_signal_children(SIGTERM);
    run_signal_children(SIGCONT); /* a stopped one would not notice */
}

/* Nothing lives any more. Output goes out as slowly as it is read, unless the job was told to end: then soon. */
void run_begin_draining(run_state *self)
{
    self->phase = DRAINING;
    self->deadline = self->hurry ? run_after(hurried_drain) : run_never;
}

static void forget_rank(run_state *self, run_rank *rank)
{
    if (rank->pid == 0)
        return;
    rank->pid = 0;
    self->alive--;
    if (rank->pidfd >= 0)
        close(rank->pidfd);
    rank->pidfd = -1;
    if (rank->input >= 0)
        close(rank->input);
    rank->input = -1;
}

/* Ends whatever still lives, at once. */
void run_kill_everything(run_state *self)
{
    char text[HKI_RANKS_TEXT];
    bool *killed = calloc((size_t)self->options->ranks, sizeof *killed);
    for (int i = 0; killed && i < self->started; i++)
        killed[i] = self->ranks[i].pid != 0;
    if (killed && self->alive > 0 && self->options->grace > 0)
        run_report(self, "%s did not end on SIGTERM within %g s: killed",
                   run_names(self->options, killed, text, sizeof text), self->options->grace);
    free(killed);
    if (!run_kill_children())
        run_report(self, "some processes cannot be killed (stuck in the kernel)");
    for (int i = 0; i < self->started; i++)
        forget_rank(self, &self->ranks[i]);
    run_begin_draining(self);
}

/* All ranks have ended. What they started and left must not outlive the job either. */
void run_end_leftovers(run_state *self)
{
    if (run_signal_children(SIGTERM) == 0) {
        run_begin_draining(self);
        return;
    }
    run_signal_children(SIGCONT);
    self->phase = REAPING;
    self->deadline = run_after(leftover_grace);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Deaths
 * ------------------------------------------------------------------------------------------------------------- */

/* What a rank wrote before it died comes before the message on its death. */
static void drain_rank(run_rank *rank)
{
    for (int i = 0; i < 2; i++) {
        int reads = 0;
        while (reads < DRAIN_READS && run_stream_read(&rank->streams[i]))
            reads++;
    }
}

/* Names the first failure, and ends the job. */
void run_declare(run_state *self)
{
    char text[80], name[HKI_RANKS_TEXT];
    if (self->suspect < 0)
        return;
    run_status_text(self->suspect_status, text, sizeof text);
    run_report(self, WIFSIGNALED(self->suspect_status) ? "%s died: %s" : "%s ended: %s",
               run_name(self->options, self->suspect, name, sizeof name), text);
    run_fail(self, run_exit_status(self->suspect_status));
    self->suspect = -1;
    if (!self->options->keep_going)
        run_begin_ending(self);
}

/* A signal that is hardly ever what a rank does about another's failure. */
static bool is_cause(int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) != SIGABRT && WTERMSIG(status) != SIGTERM &&
           WTERMSIG(status) != SIGPIPE;
}

/* The first failure is the one to name. But a process that dies closes its connections a little before its end is
 * announced, and others that notice may end first: so an exit status waits a moment for a likelier cause. */
static void suspect(run_state *self, int index, int status)
{
    if (self->suspect < 0 || (is_cause(status) && !is_cause(self->suspect_status))) {
        self->suspect = index;
        self->suspect_status = status;
    }
    if (is_cause(status) || self->options->keep_going)
        run_declare(self);
    else if (self->deadline == run_never)
        self->deadline = run_after(settle_time);
}

void run_cannot_start(run_state *self, int index, int failure)
{
    char name[HKI_RANKS_TEXT];
    const run_host *hosts = self->options->hosts;
    run_report(self, "cannot start %s (%s): %s", run_name(self->options, index, name, sizeof name),
               hosts ? hosts[index].command[0] : self->options->command[0], strerror(failure));
    run_fail(self, failure == ENOENT ? RUN_STATUS_NOT_FOUND : RUN_STATUS_CANNOT_EXEC);
    run_begin_ending(self);
}

static void rank_died(run_state *self, int index, int status)
{
    run_rank *rank = &self->ranks[index];
    drain_rank(rank);
    forget_rank(self, rank);
    run_join_readable(&self->join, index); /* its last words, then the end of the connection */
    if (self->join.links[index].fd >= 0) {
        rank->hang_up = run_after(lost_grace);
        self->hang_up = rank->hang_up < self->hang_up ? rank->hang_up : self->hang_up;
    }
    if (status == 0 || self->phase != RUNNING || (self->failed && !self->options->keep_going))
        return;
    if (self->spawner.failures[index])
        run_cannot_start(self, index, self->spawner.failures[index]);
    else
        suspect(self, index, status);
}

static int rank_of_pid(const run_state *self, pid_t pid)
{
    for (int i = 0; i < self->started; i++)
        if (self->ranks[i].pid == pid)
            return i;
    return -1;
}

/* A rank's process descriptor says that it ended. epoll reports them in the order of the deaths (its ready list is a
 * FIFO), while wait gives the lowest rank first; so the first failure gets its right name. */
void run_take_death(run_state *self, int index)
{
    int status;
    if (self->ranks[index].pid != 0 && waitpid(self->ranks[index].pid, &status, WNOHANG) > 0)
        rank_died(self, index, status);
    self->reap = true;
}

/* Waits for what ranks left behind, and for ranks without a process descriptor. */
void run_reap(run_state *self)
{
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
            break;
        int index = rank_of_pid(self, info.si_pid);
        if (index >= 0 && self->ranks[index].pidfd >= 0)
            return; /* its own event is on its way, after those of ranks that died before */
        int status = 0;
        waitpid(info.si_pid, &status, 0);
        if (index >= 0)
            rank_died(self, index, status);
    }
    self->reap = false;
}

bool run_childless(void)
{
    siginfo_t info = {0};
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
}

/* run_join's callback: ranks wait for ones that ended (well, as far as they were concerned) without joining. */
void run_report_lost(void *context, const char *missing, const char *waiting)
{
    run_state *self = context;
    if (self->phase != RUNNING || self->failed || self->suspect >= 0)
        return;
    run_report(self, "%s ended without joining the job, and %s cannot join without", missing, waiting);
    run_fail(self, 1);
    if (!self->options->keep_going)
        self->deadline = run_after(lost_grace);
}

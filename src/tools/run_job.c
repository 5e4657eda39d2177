/*
 * The worker: one loop over everything that happens to a job. Its phases:
 *
 *   RUNNING   ranks live, and nothing has gone wrong
 *   ENDING    they were sent SIGTERM; at the deadline SIGKILL follows
 *   REAPING   all ranks have ended; what they left running was sent SIGTERM
 *   DRAINING  nothing lives any more; the last output is on its way
 *   DONE
 *
 * The worker never blocks for a rank or for whoever reads its output, so signals and time-outs are always served.
 */
#include "tools/run.h"

#include "base/clock.h"
#include "boot/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    EVENTS = 256,
    SINK_FULL = 1 << 20, /* bytes waiting at which the ranks' pipes are left alone … */
    SINK_LOW = 1 << 18,  /* … until no more than this waits */
    DRAIN_READS = 32,    /* reads from a dead rank's pipe: 2 MiB, twice the largest pipe */
    SPAWNS_PER_TURN = 8  /* events are served in between */
};
static const double leftover_grace = 0.2; /* from SIGTERM to SIGKILL for what ranks left behind */
static const double settle_time = 0.05;   /* in which the failure that caused others may come after them */
static const double lost_grace = 1.0;     /* for ranks to end by themselves when they cannot join */
static const double hurried_drain = 0.5;  /* for whoever reads our output */
static const double again_after = 0.3;    /* a terminal's signal may come twice; a later one means "at once" */
static const uint64_t never = UINT64_MAX;

typedef enum phase { RUNNING, ENDING, REAPING, DRAINING, DONE } phase;

typedef struct job_rank {
    pid_t pid; /* 0 when it does not live */
    int pidfd; /* -1: the kernel has none */
    run_stream streams[2];
    uint64_t hang_up; /* when its link is closed although something that it started still holds it */
} job_rank;

typedef struct job {
    const run_options *options;
    job_rank *ranks;
    int started, alive;
    phase phase;
    int status; /* of the job, once it failed */
    bool failed;
    bool hurry;           /* a signal or the time limit ends the job */
    int suspect;          /* rank whose failure is to be named, if no likelier cause comes up; -1: none */
    int suspect_status;   /* its wait status */
    bool reap;            /* children may have to be waited for */
    uint64_t time_limit;  /* of the job */
    uint64_t deadline;    /* of the phase */
    uint64_t interrupted; /* when the first signal came */
    uint64_t hang_up;     /* earliest of the ranks' */
    int poller, signals, control;
    bool paused[2]; /* the sink is full: its streams are not polled */
    bool polled[2]; /* the sink is registered, since bytes wait */
    run_sink sinks[2];
    run_join join;
    run_spawner spawner;
} job;

static uint64_t after(double seconds)
{
    return hki_now() + (uint64_t)(seconds * 1e9);
}

static void report(job *self, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void report(job *self, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    run_sink_put(&self->sinks[1], "hocket run: ", strlen("hocket run: "));
    run_sink_put(&self->sinks[1], line, strlen(line));
    run_sink_put(&self->sinks[1], "\n", 1);
}

static void watch(const job *self, int fd, uint32_t events, run_event_kind kind, int rank)
{
    struct epoll_event event = {.events = events, .data.u64 = run_event(kind, rank)};
    epoll_ctl(self->poller, EPOLL_CTL_ADD, fd, &event);
}

static void unwatch(const job *self, int fd)
{
    epoll_ctl(self->poller, EPOLL_CTL_DEL, fd, NULL);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Ending
 * ------------------------------------------------------------------------------------------------------------- */

static void fail(job *self, int status)
{
    if (!self->failed)
        self->status = status;
    self->failed = true;
}

static void begin_ending(job *self)
{
    if (self->phase != RUNNING)
        return;
    self->phase = ENDING;
    self->deadline = after(self->options->grace);
    run_signal_children(SIGTERM);
    run_signal_children(SIGCONT); /* a stopped one would not notice */
}

/* Nothing lives any more. Output goes out as slowly as it is read, unless the job was told to end: then soon. */
static void begin_draining(job *self)
{
    self->phase = DRAINING;
    self->deadline = self->hurry ? after(hurried_drain) : never;
}

static void forget_rank(job *self, job_rank *rank)
{
    if (rank->pid == 0)
        return;
    rank->pid = 0;
    self->alive--;
    if (rank->pidfd >= 0)
        close(rank->pidfd);
    rank->pidfd = -1;
}

/* Ends whatever still lives, at once. */
static void kill_everything(job *self)
{
    char text[HKI_RANKS_TEXT];
    bool *killed = calloc((size_t)self->options->ranks, sizeof *killed);
    for (int i = 0; killed && i < self->started; i++)
        killed[i] = self->ranks[i].pid != 0;
    if (killed && self->alive > 0 && self->options->grace > 0)
        report(self, "%s did not end on SIGTERM within %g s: killed",
               hki_ranks_text(text, sizeof text, killed, self->options->ranks), self->options->grace);
    free(killed);
    if (!run_kill_children())
        report(self, "some processes cannot be killed (stuck in the kernel)");
    for (int i = 0; i < self->started; i++)
        forget_rank(self, &self->ranks[i]);
    begin_draining(self);
}

/* All ranks have ended. What they started and left must not outlive the job either. */
static void end_leftovers(job *self)
{
    if (run_signal_children(SIGTERM) == 0) {
        begin_draining(self);
        return;
    }
    run_signal_children(SIGCONT);
    self->phase = REAPING;
    self->deadline = after(leftover_grace);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Deaths
 * ------------------------------------------------------------------------------------------------------------- */

/* What a rank wrote before it died comes before the message on its death. */
static void drain_rank(job_rank *rank)
{
    for (int i = 0; i < 2; i++) {
        int reads = 0;
        while (reads < DRAIN_READS && run_stream_read(&rank->streams[i]))
            reads++;
    }
}

/* Names the first failure, and ends the job. */
static void declare(job *self)
{
    char text[80];
    if (self->suspect < 0)
        return;
    run_status_text(self->suspect_status, text, sizeof text);
    report(self, WIFSIGNALED(self->suspect_status) ? "rank %d died: %s" : "rank %d ended: %s", self->suspect, text);
    fail(self, run_exit_status(self->suspect_status));
    self->suspect = -1;
    if (!self->options->keep_going)
        begin_ending(self);
}

/* A signal that is hardly ever what a rank does about another's failure. */
static bool is_cause(int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) != SIGABRT && WTERMSIG(status) != SIGTERM &&
           WTERMSIG(status) != SIGPIPE;
}

/* The first failure is the one to name. But a process that dies closes its connections a little before its end is
 * announced, and others that notice may end first: so an exit status waits a moment for a likelier cause. */
static void suspect(job *self, int index, int status)
{
    if (self->suspect < 0 || (is_cause(status) && !is_cause(self->suspect_status))) {
        self->suspect = index;
        self->suspect_status = status;
    }
    if (is_cause(status) || self->options->keep_going)
        declare(self);
    else if (self->deadline == never)
        self->deadline = after(settle_time);
}

static void cannot_start(job *self, int index, int failure)
{
    report(self, "cannot start rank %d (%s): %s", index, self->options->command[0], strerror(failure));
    fail(self, failure == ENOENT ? RUN_STATUS_NOT_FOUND : RUN_STATUS_CANNOT_EXEC);
    begin_ending(self);
}

static void rank_died(job *self, int index, int status)
{
    job_rank *rank = &self->ranks[index];
    drain_rank(rank);
    forget_rank(self, rank);
    run_join_readable(&self->join, index); /* its last words, then the end of the connection */
    if (self->join.links[index].fd >= 0) {
        rank->hang_up = after(lost_grace);
        self->hang_up = rank->hang_up < self->hang_up ? rank->hang_up : self->hang_up;
    }
    if (status == 0 || self->phase != RUNNING || (self->failed && !self->options->keep_going))
        return;
    if (self->spawner.failures[index])
        cannot_start(self, index, self->spawner.failures[index]);
    else
        suspect(self, index, status);
}

static int rank_of_pid(const job *self, pid_t pid)
{
    for (int i = 0; i < self->started; i++)
        if (self->ranks[i].pid == pid)
            return i;
    return -1;
}

/* A rank's process descriptor says that it ended. epoll reports them in the order of the deaths (its ready list is a
 * FIFO), while wait gives the lowest rank first; so the first failure gets its right name. */
static void take_death(job *self, int index)
{
    int status;
    if (self->ranks[index].pid != 0 && waitpid(self->ranks[index].pid, &status, WNOHANG) > 0)
        rank_died(self, index, status);
    self->reap = true;
}

/* Waits for what ranks left behind, and for ranks without a process descriptor. */
static void reap_others(job *self)
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

static bool childless(void)
{
    siginfo_t info = {0};
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
}

/* run_join's callback: ranks wait for ones that ended (well, as far as they were concerned) without joining. */
static void report_lost(void *context, const char *missing, const char *waiting)
{
    job *self = context;
    if (self->phase != RUNNING || self->failed || self->suspect >= 0)
        return;
    report(self, "%s ended without joining the job, and %s cannot join without", missing, waiting);
    fail(self, 1);
    if (!self->options->keep_going)
        self->deadline = after(lost_grace);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Signals and time
 * ------------------------------------------------------------------------------------------------------------- */

static void take_signal(job *self, int signal_number)
{
    if (signal_number == SIGTSTP || signal_number == SIGCONT) {
        run_signal_children(signal_number == SIGTSTP ? SIGSTOP : SIGCONT);
        return;
    }
    if (self->phase == RUNNING) {
        self->interrupted = hki_now();
        report(self, "interrupted by signal %d (%s); the ranks are ended", signal_number, strsignal(signal_number));
        self->hurry = true;
        self->failed = false; /* this, and no earlier failure under --keep-going, is why it ends */
        fail(self, 128 + signal_number);
        begin_ending(self);
    } else if (self->interrupted == 0) {
        self->interrupted = hki_now();
        self->hurry = true;
        if (self->phase == DRAINING)
            self->deadline = after(hurried_drain);
    } else if (hki_now() - self->interrupted > (uint64_t)(again_after * 1e9)) {
        if (self->phase == DRAINING)
            self->phase = DONE;
        else
            self->deadline = 0;
    }
}

static void take_control(job *self)
{
    unsigned char signals[16];
    ssize_t got = recv(self->control, signals, sizeof signals, MSG_DONTWAIT);
    for (ssize_t i = 0; i < got; i++)
        take_signal(self, signals[i]);
    if (got == 0) { /* the guard is gone: nobody is left to be told anything */
        run_kill_children();
        self->phase = DONE;
        fail(self, 128 + SIGKILL);
    }
}

static void take_signal_fd(job *self)
{
    struct signalfd_siginfo info;
    while (read(self->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            self->reap = true;
        else
            take_signal(self, (int)info.ssi_signo);
    }
}

static void time_out(job *self)
{
    self->time_limit = never;
    self->hurry = true;
    if (self->phase == ENDING || self->phase == REAPING) {
        self->deadline = 0; /* it ends for another reason; but now */
        return;
    }
    char text[HKI_RANKS_TEXT];
    bool *running = calloc((size_t)self->options->ranks, sizeof *running);
    for (int i = 0; running && i < self->started; i++)
        running[i] = self->ranks[i].pid != 0;
    if (running)
        report(self, "the time of %g s is up; still running: %s", self->options->timeout,
               hki_ranks_text(text, sizeof text, running, self->options->ranks));
    free(running);
    self->failed = false;
    fail(self, RUN_STATUS_TIMEOUT);
    if (self->phase == DRAINING)
        self->phase = DONE; /* whoever reads our output does not */
    begin_ending(self);
}

/* Ranks ended, but something that they started holds their connection: it does not keep the others waiting for ever. */
static void hang_up(job *self, uint64_t now)
{
    self->hang_up = never;
    for (int i = 0; i < self->started; i++) {
        uint64_t at = self->ranks[i].hang_up;
        if (at <= now) {
            self->ranks[i].hang_up = never;
            run_join_close_link(&self->join, i);
        } else if (at < self->hang_up) {
            self->hang_up = at;
        }
    }
}

static void check_time(job *self)
{
    uint64_t now = hki_now();
    if (now >= self->time_limit)
        time_out(self);
    if (now >= self->hang_up)
        hang_up(self, now);
    if (now < self->deadline)
        return;
    if (self->phase >= DRAINING) {
        self->phase = DONE;
    } else if (self->phase == RUNNING) {
        self->deadline = never;
        declare(self);
        begin_ending(self);
    } else {
        kill_everything(self);
    }
}

static int milliseconds_left(const job *self)
{
    uint64_t first = self->time_limit < self->deadline ? self->time_limit : self->deadline;
    first = self->hang_up < first ? self->hang_up : first;
    uint64_t now = hki_now();
    if (first == never)
        return -1;
    if (first <= now)
        return 0;
    uint64_t ms = (first - now) / 1000000 + 1;
    return ms < 3600000 ? (int)ms : 3600000;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Output
 * ------------------------------------------------------------------------------------------------------------- */

/* Leaves the ranks' pipes of a full sink alone (they block then, as they would writing there themselves), or takes them
 * up again. */
static void pause_streams(job *self, int which, bool pause)
{
    self->paused[which] = pause;
    for (int i = 0; i < self->started; i++) {
        int fd = self->ranks[i].streams[which].fd;
        if (fd >= 0 && pause)
            unwatch(self, fd);
        else if (fd >= 0)
            watch(self, fd, EPOLLIN, which == 0 ? RUN_EVENT_OUT : RUN_EVENT_ERR, i);
    }
}

static void flush_sink(job *self, int which)
{
    run_sink *sink = &self->sinks[which];
    run_sink_flush(sink);
    bool waiting = run_sink_waiting(sink) > 0;
    if (waiting && !self->polled[which])
        watch(self, sink->fd, EPOLLOUT, RUN_EVENT_SINK, which);
    else if (!waiting && self->polled[which])
        unwatch(self, sink->fd);
    self->polled[which] = waiting;
    if (!self->paused[which] && run_sink_waiting(sink) > SINK_FULL)
        pause_streams(self, which, true);
    else if (self->paused[which] && run_sink_waiting(sink) <= SINK_LOW)
        pause_streams(self, which, false);
}

/* Nothing writes any more: reads what is left in the pipes, as fast as the sinks take it. */
static void drain(job *self)
{
    bool open = false;
    for (int i = 0; i < self->started; i++) {
        for (int which = 0; which < 2; which++) {
            run_stream *stream = &self->ranks[i].streams[which];
            bool more = true;
            while (more && run_sink_waiting(&self->sinks[which]) <= SINK_FULL)
                more = run_stream_read(stream);
            if (!more)
                run_stream_close(stream); /* also when a stranger was handed the other end */
            open |= stream->fd >= 0;
        }
    }
    flush_sink(self, 0);
    flush_sink(self, 1);
    if (!open && run_sink_waiting(&self->sinks[0]) + run_sink_waiting(&self->sinks[1]) == 0)
        self->phase = DONE;
}

/* ---------------------------------------------------------------------------------------------------------------
 * The loop
 * ------------------------------------------------------------------------------------------------------------- */

static void take_event(job *self, const struct epoll_event *event)
{
    int rank = (int)(uint32_t)event->data.u64;
    switch ((run_event_kind)(event->data.u64 >> 32)) {
    case RUN_EVENT_CONTROL:
        take_control(self);
        break;
    case RUN_EVENT_SIGNAL:
        take_signal_fd(self);
        break;
    case RUN_EVENT_DEATH:
        take_death(self, rank);
        break;
    case RUN_EVENT_OUT:
        run_stream_read(&self->ranks[rank].streams[0]);
        break;
    case RUN_EVENT_ERR:
        run_stream_read(&self->ranks[rank].streams[1]);
        break;
    case RUN_EVENT_LINK:
        if (event->events & EPOLLOUT)
            run_join_writable(&self->join, rank);
        run_join_readable(&self->join, rank);
        break;
    case RUN_EVENT_SINK:
        break; /* sinks are flushed after every turn */
    }
}

static void turn(job *self, int milliseconds)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(self->poller, events, EVENTS, milliseconds);
    for (int i = 0; i < count && self->phase != DONE; i++)
        take_event(self, &events[i]);
    if (self->reap)
        reap_others(self);
    check_time(self);
    flush_sink(self, 0);
    flush_sink(self, 1);
}

/* Runs until nothing lives and all output is out. */
static void run_to_end(job *self)
{
    while (self->phase != DONE) {
        if (self->alive == 0 && (self->phase == RUNNING || self->phase == ENDING)) {
            declare(self);
            end_leftovers(self);
        }
        if (self->phase == REAPING && childless())
            begin_draining(self);
        if (self->phase == DRAINING)
            drain(self);
        if (self->phase != DONE)
            turn(self, milliseconds_left(self));
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * Starting
 * ------------------------------------------------------------------------------------------------------------- */

static void close_all(const int *fds, int count)
{
    for (int i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* Starts one rank, with its pipes and its link. False and errno. */
static bool start_rank(job *self, int index)
{
    int fds[6] = {-1, -1, -1, -1, -1, -1}; /* out, err, link: ours, then the rank's */
    if (pipe2(fds, O_CLOEXEC) != 0 || pipe2(fds + 2, O_CLOEXEC) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds + 4) != 0) {
        int failure = errno;
        close_all(fds, 6);
        errno = failure;
        return false;
    }
    run_ends ends = {.out = fds[1], .err = fds[3], .launch = fds[5]};
    pid_t pid = run_spawn(&self->spawner, index, &ends);
    int failure = errno;
    close_all((int[]){fds[1], fds[3], fds[5]}, 3);
    if (pid < 0) {
        close_all((int[]){fds[0], fds[2], fds[4]}, 3);
        errno = failure;
        return false;
    }
    job_rank *rank = &self->ranks[index];
    *rank = (job_rank){.pid = pid, .hang_up = never};
    rank->pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* closes on exec by itself */
    for (int i = 0; i < 2; i++) {
        rank->streams[i] =
            (run_stream){.fd = fds[2 * i], .rank = index, .tag = self->options->tag_output, .sink = &self->sinks[i]};
        fcntl(fds[2 * i], F_SETFL, O_NONBLOCK);
        if (!self->paused[i])
            watch(self, fds[2 * i], EPOLLIN, i == 0 ? RUN_EVENT_OUT : RUN_EVENT_ERR, index);
    }
    fcntl(fds[4], F_SETFL, O_NONBLOCK);
    self->join.links[index].fd = fds[4];
    watch(self, fds[4], EPOLLIN, RUN_EVENT_LINK, index);
    if (rank->pidfd >= 0)
        watch(self, rank->pidfd, EPOLLIN, RUN_EVENT_DEATH, index);
    self->started++;
    self->alive++;
    return true;
}

static void start_ranks(job *self)
{
    for (int i = 0; i < self->options->ranks && self->phase == RUNNING; i++) {
        if (!start_rank(self, i))
            cannot_start(self, i, errno);
        if (i % SPAWNS_PER_TURN == SPAWNS_PER_TURN - 1)
            turn(self, 0);
    }
}

/* The worker's own signals come through a descriptor. The others go to the guard, which passes on what matters; SIGPIPE
 * is an error of write. */
static int open_signals(void)
{
    static const int ignored[] = {SIGPIPE, SIGINT, SIGQUIT, SIGHUP, SIGTSTP};
    sigset_t taken, blocked;
    sigemptyset(&taken);
    sigaddset(&taken, SIGCHLD);
    sigaddset(&taken, SIGTERM);
    blocked = taken;
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        sigaddset(&blocked, ignored[i]);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    return signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
}

static bool open_job(job *self, const sigset_t *mask, const char **what)
{
    run_sink_open(&self->sinks[0], STDOUT_FILENO);
    run_sink_open(&self->sinks[1], STDERR_FILENO);
    if (!run_spawner_open(&self->spawner, self->options, what))
        return false;
    *what = "memory or descriptors";
    self->poller = epoll_create1(EPOLL_CLOEXEC);
    self->signals = open_signals();
    self->spawner.mask = *mask;
    self->ranks = calloc((size_t)self->options->ranks, sizeof *self->ranks);
    if (self->poller < 0 || self->signals < 0 || !self->ranks ||
        !run_join_open(&self->join, self->options->ranks, self->poller))
        return false;
    self->join.lost = report_lost;
    self->join.context = self;
    watch(self, self->signals, EPOLLIN, RUN_EVENT_SIGNAL, 0);
    watch(self, self->control, EPOLLIN, RUN_EVENT_CONTROL, 0);
    return true;
}

static void close_job(job *self)
{
    for (int i = 0; i < self->started; i++)
        for (int which = 0; which < 2; which++)
            run_stream_close(&self->ranks[i].streams[which]);
    for (int which = 0; which < 2; which++) {
        run_sink_flush(&self->sinks[which]);
        run_sink_free(&self->sinks[which]);
    }
    run_join_free(&self->join);
    run_spawner_free(&self->spawner);
    free(self->ranks);
    close_all((int[]){self->poller, self->signals}, 2);
}

int run_job(const run_options *options, int control, const sigset_t *mask)
{
    job self = {.options = options, .control = control, .poller = -1, .signals = -1, .suspect = -1};
    self.deadline = self.hang_up = never;
    self.time_limit = options->timeout > 0 ? after(options->timeout) : never;
    const char *what = "";
    if (open_job(&self, mask, &what)) {
        start_ranks(&self);
        run_to_end(&self);
    } else {
        bool program = what == options->command[0];
        report(&self, "cannot %s %s: %s", program ? "run" : "get", what, strerror(errno));
        fail(&self, !program ? 1 : errno == ENOENT ? RUN_STATUS_NOT_FOUND : RUN_STATUS_CANNOT_EXEC);
    }
    close_job(&self);
    return self.failed ? self.status : 0;
}

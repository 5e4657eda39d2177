/*
 * The worker: one loop over everything that happens to a job. It never blocks for a rank or for whoever reads its
 * output, so signals and time-outs are always served.
 */
#include "tools/run_job.h"

#include "boot/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    EVENTS = 256,
    SINK_FULL = 1 << 20, /* bytes waiting at which the ranks' pipes are left alone … */
    SINK_LOW = 1 << 18,  /* … until no more than this waits */
    SPAWNS_PER_TURN = 8  /* events are served in between */
};
static const double again_after = 0.3; /* a terminal's signal may come twice; a later one means "at once" */

static void watch(const run_state *self, int fd, uint32_t events, run_event_kind kind, int rank)
{
    struct epoll_event event = {.events = events, .data.u64 = run_event(kind, rank)};
    epoll_ctl(self->poller, EPOLL_CTL_ADD, fd, &event);
}

static void unwatch(const run_state *self, int fd)
{
    epoll_ctl(self->poller, EPOLL_CTL_DEL, fd, NULL);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Signals and time
 * ------------------------------------------------------------------------------------------------------------- */

static void take_signal(run_state *self, int signal_number)
{
    if (signal_number == SIGTSTP || signal_number == SIGCONT) {
        run_signal_children(signal_number == SIGTSTP ? SIGSTOP : SIGCONT);
        return;
    }
    if (self->phase == RUNNING) {
        self->interrupted = hki_now();
        if (!self->options->share) /* agents are told to end by a launcher that has said why */
            run_report(self, "interrupted by signal %d (%s); the ranks are ended", signal_number,
                       strsignal(signal_number));
        self->hurry = true;
        self->failed = false; /* this, and no earlier failure under --keep-going, is why it ends */
        run_fail(self, 128 + signal_number);
        run_begin_ending(self);
    } else if (self->interrupted == 0) {
        self->interrupted = hki_now();
        self->hurry = true;
        if (self->phase == DRAINING)
            run_begin_draining(self); /* anew, with a deadline */
    } else if (hki_now() - self->interrupted > (uint64_t)(again_after * 1e9)) {
        if (self->phase == DRAINING)
            self->phase = DONE;
        else
            self->deadline = 0;
    }
}

static void take_control(run_state *self)
{
    unsigned char signals[16];
    ssize_t got = recv(self->control, signals, sizeof signals, MSG_DONTWAIT);
    for (ssize_t i = 0; i < got; i++)
        take_signal(self, signals[i]);
    if (got == 0) { /* the guard is gone: nobody is left to be told anything */
        run_kill_children();
        self->phase = DONE;
        run_fail(self, 128 + SIGKILL);
    }
}

static void take_signal_fd(run_state *self)
{
    struct signalfd_siginfo info;
    while (read(self->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            self->reap = true;
        else
            take_signal(self, (int)info.ssi_signo);
    }
}

static void time_out(run_state *self)
{
    self->time_limit = run_never;
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
        run_report(self, "the time of %g s is up; still running: %s", self->options->timeout,
                   run_names(self->options, running, text, sizeof text));
    free(running);
    self->failed = false;
    run_fail(self, RUN_STATUS_TIMEOUT);
    if (self->phase == DRAINING)
        self->phase = DONE; /* whoever reads our output does not */
    run_begin_ending(self);
}

/* Ranks ended, but something that they started holds their connection: it does not keep the others waiting for ever. */
static void hang_up(run_state *self, uint64_t now)
{
    self->hang_up = run_never;
    for (int i = 0; i < self->started; i++) {
        uint64_t at = self->ranks[i].hang_up;
        if (at <= now) {
            self->ranks[i].hang_up = run_never;
            run_join_close_link(&self->join, i);
        } else if (at < self->hang_up) {
            self->hang_up = at;
        }
    }
}

static void check_time(run_state *self)
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
        self->deadline = run_never;
        run_declare(self);
        run_begin_ending(self);
    } else {
        run_kill_everything(self);
    }
}

static int milliseconds_left(const run_state *self)
{
    uint64_t first = self->time_limit < self->deadline ? self->time_limit : self->deadline;
    first = self->hang_up < first ? self->hang_up : first;
    uint64_t now = hki_now();
    if (first == run_never)
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
static void pause_streams(run_state *self, int which, bool pause)
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

static void flush_sink(run_state *self, int which)
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
static void drain(run_state *self)
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

static void take_event(run_state *self, const struct epoll_event *event)
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
        run_take_death(self, rank);
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

static void turn(run_state *self, int milliseconds)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(self->poller, events, EVENTS, milliseconds);
    for (int i = 0; i < count && self->phase != DONE; i++)
        take_event(self, &events[i]);
    if (self->reap)
        run_reap(self);
    check_time(self);
    flush_sink(self, 0);
    flush_sink(self, 1);
}

/* Runs until nothing lives and all output is out. */
static void run_to_end(run_state *self)
{
    while (self->phase != DONE) {
        if (self->alive == 0 && (self->phase == RUNNING || self->phase == ENDING)) {
            run_declare(self);
            run_end_leftovers(self);
        }
        if (self->phase == REAPING && run_childless())
            run_begin_draining(self);
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

/* The pipe through which an agent gets its record, which fits it. */
static bool open_input(const run_state *self, int index, int in[2])
{
    const run_host *hosts = self->options->hosts;
    if (!hosts)
        return true;
    return pipe2(in, O_CLOEXEC) == 0 && fcntl(in[1], F_SETPIPE_SZ, RUN_RECORD_MAX) >= (int)hosts[index].record_bytes &&
           write(in[1], hosts[index].record, hosts[index].record_bytes) == (ssize_t)hosts[index].record_bytes;
}

/* Starts one rank, with its pipes and its link. False and errno. */
static bool start_rank(run_state *self, int index)
{
    int fds[6] = {-1, -1, -1, -1, -1, -1}; /* out, err, link: ours, then the rank's */
    int in[2] = {-1, -1};                  /* an agent's, then ours */
    if (pipe2(fds, O_CLOEXEC) != 0 || pipe2(fds + 2, O_CLOEXEC) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds + 4) != 0 || !open_input(self, index, in)) {
        int failure = errno;
        close_all(fds, 6);
        close_all(in, 2);
        errno = failure;
        return false;
    }
    run_ends ends = {.in = in[0], .out = fds[1], .err = fds[3], .launch = fds[5]};
    pid_t pid = run_spawn(&self->spawner, index, &ends);
    int failure = errno;
    close_all((int[]){fds[1], fds[3], fds[5], in[0]}, 4);
    if (pid < 0) {
        close_all((int[]){fds[0], fds[2], fds[4], in[1]}, 4);
        errno = failure;
        return false;
    }
    run_rank *rank = &self->ranks[index];
    *rank = (run_rank){.pid = pid, .hang_up = run_never, .input = in[1]};
    int first = self->options->share ? self->options->share->first : 0;
    bool tag = self->options->tag_output && !self->options->hosts; /* agents tag */
    rank->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);            /* closes on exec by itself */
    for (int i = 0; i < 2; i++) {
        rank->streams[i] = (run_stream){.fd = fds[2 * i], .rank = first + index, .tag = tag, .sink = &self->sinks[i]};
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

static void start_ranks(run_state *self)
{
    for (int i = 0; i < self->options->ranks && self->phase == RUNNING; i++) {
        if (!start_rank(self, i))
            run_cannot_start(self, i, errno);
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

static bool open_job(run_state *self, const sigset_t *mask, const char **what)
{
    run_sink_open(&self->sinks[0], STDOUT_FILENO);
    run_sink_open(&self->sinks[1], STDERR_FILENO);
    if (!run_spawner_open(&self->spawner, self->options, self->topology, what))
        return false;
    *what = "memory or descriptors";
    self->poller = epoll_create1(EPOLL_CLOEXEC);
    self->signals = open_signals();
    self->spawner.mask = *mask;
    self->ranks = calloc((size_t)self->options->ranks, sizeof *self->ranks);
    if (self->poller < 0 || self->signals < 0 || !self->ranks ||
        !run_join_open(&self->join, self->options->ranks, self->poller, self->topology))
        return false;
    self->join.lost = run_report_lost;
    self->join.context = self;
    self->join.share = self->options->share;
    watch(self, self->signals, EPOLLIN, RUN_EVENT_SIGNAL, 0);
    watch(self, self->control, EPOLLIN, RUN_EVENT_CONTROL, 0);
    return true;
}

/* Output that could not be written is no success. */
static void report_unwritten(run_state *self, const char *stream, int error)
{
    if (!error)
        return;
    run_report(self, "cannot write standard %s: %s", stream, strerror(error));
    if (!self->failed)
        run_fail(self, 1);
}

static void close_job(run_state *self)
{
    for (int i = 0; i < self->started; i++)
        for (int which = 0; which < 2; which++)
            run_stream_close(&self->ranks[i].streams[which]);
    for (int which = 0; which < 2; which++) {
        run_sink_flush(&self->sinks[which]);
        report_unwritten(self, which ? "error" : "output", self->sinks[which].error);
        run_sink_free(&self->sinks[which]);
    }
    run_join_free(&self->join);
    run_spawner_free(&self->spawner);
    free(self->ranks);
    hki_topology_free(self->topology);
    close_all((int[]){self->poller, self->signals}, 2);
}

int run_job(const run_options *options, int control, const sigset_t *mask)
{
    run_state self = {.options = options, .control = control, .poller = -1, .signals = -1, .suspect = -1};
    self.deadline = self.hang_up = run_never;
    self.time_limit = options->timeout > 0 ? run_after(options->timeout) : run_never;
    const char *what = "";
    if (hki_topology_load(&self.topology) != HK_OK) { /* once for all ranks */
        fprintf(stderr, "hocket run: %s\n", hk_last_error());
        return 1;
    }
    if (open_job(&self, mask, &what)) {
        start_ranks(&self);
        run_to_end(&self);
    } else {
        bool program = what == options->command[0];
        run_report(&self, "cannot %s %s: %s", program ? "run" : "get", what, strerror(errno));
        run_fail(&self, !program ? 1 : errno == ENOENT ? RUN_STATUS_NOT_FOUND : RUN_STATUS_CANNOT_EXEC);
    }
    close_job(&self);
    return self.failed ? self.status : 0;
}

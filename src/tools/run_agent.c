/*
 * The agent on one of several hosts: `hocket run --agent`, started by `hocket run --hosts` through ssh or the like.
 * Reads its record, starts a guard and a worker as `hocket run` does, and then watches its standard input: when that
 * ends, or a signal comes, so does the job.
 */
#include "net/wire.h"
#include "tools/run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FRONT_BYTES = 8 };

static bool read_all(int fd, char *to, size_t bytes)
{
    while (bytes > 0) {
        ssize_t got = read(fd, to, bytes);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        to += got > 0 ? got : 0;
        bytes -= got > 0 ? (size_t)got : 0;
    }
    return true;
}

/* The record's bytes, allocated; NULL when there is none. */
static char *receive_record(size_t *length)
{
    char front[FRONT_BYTES];
    if (!read_all(STDIN_FILENO, front, sizeof front) || memcmp(front, "HKR1", 4) != 0)
        return NULL;
    *length = hki_wire_get32((unsigned char *)front + 4);
    if (*length == 0 || *length > RUN_RECORD_MAX)
        return NULL;
    char *bytes = malloc(*length);
    if (bytes && !read_all(STDIN_FILENO, bytes, *length)) {
        free(bytes);
        return NULL;
    }
    return bytes;
}

static bool prepare(const run_record *record)
{
    for (char **setting = record->settings; *setting; setting++)
        if (putenv(*setting) != 0)
            return false;
    if (chdir(record->directory) != 0)
        fprintf(stderr, "hocket run: %s: cannot go to %s (%s): staying where ssh starts programs\n", record->share.host,
                record->directory, strerror(errno));
    return true;
}

/* The signals that end the job, and the end of children, as a descriptor. */
static int open_signals(sigset_t *before)
{
    static const int signals[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&set, signals[i]);
    sigprocmask(SIG_BLOCK, &set, before);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The guard, in the child: it ends when the agent does. */
static int become_guard(const run_options *options, const sigset_t *mask, pid_t parent)
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || getppid() != parent)
        return 1;
    sigprocmask(SIG_SETMASK, mask, NULL);
    return run_guarded(options, run_job);
}

/* Waits for the guard; once the input ends or a signal comes, tells it to end. Returns its wait status. */
static int watch(pid_t guard, int signals)
{
    struct pollfd descriptors[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    for (;;) {
        int status;
        if (waitpid(guard, &status, WNOHANG) == guard)
            return status;
        if (poll(descriptors, 2, -1) < 0 && errno != EINTR)
            kill(guard, SIGTERM);
        if (descriptors[0].revents != 0) {
            char surplus[64];
            ssize_t got = read(STDIN_FILENO, surplus, sizeof surplus);
            if (got == 0 || (got < 0 && errno != EINTR)) {
                kill(guard, SIGTERM);
                descriptors[0].fd = -1;
                descriptors[0].revents = 0;
            }
        }
        struct signalfd_siginfo info;
        while (read(signals, &info, sizeof info) == (ssize_t)sizeof info)
            if (info.ssi_signo != SIGCHLD)
                kill(guard, SIGTERM);
    }
}

int run_agent(void)
{
    run_record record;
    size_t length = 0;
    sigset_t before;
    char *bytes = receive_record(&length);
    if (!bytes || !run_record_read(bytes, length, &record)) {
        free(bytes);
        fprintf(stderr, "hocket run --agent: no record of a job comes by standard input; this is for `hocket run "
                        "--hosts` of the same version\n");
        return 2;
    }
    int signals = open_signals(&before), status = 1 << 8;
    pid_t self = getpid(), guard = signals >= 0 && prepare(&record) ? fork() : -1;
    if (guard == 0)
        _exit(become_guard(&record.options, &before, self));
    if (guard > 0)
        status = watch(guard, signals);
    else
        fprintf(stderr, "hocket run: %s: cannot start: %s\n", record.share.host, strerror(errno));
    run_record_free(&record);
    explicit_bzero(bytes, length);
    free(bytes);
    return run_exit_status(status);
}

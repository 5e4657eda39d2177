/*
 * For tests of the launcher: starts `hocket run …`, gathers its output, and tells whether anything is left of it. The
 * test is a child subreaper, so whatever escapes from a job becomes its child and is found by waiting.
 */
#ifndef HKI_TESTS_MULTI_JOB_H
#define HKI_TESTS_MULTI_JOB_H

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sanitizers make starting a program several times slower. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { JOB_SLOWER = 5 };
#else
enum { JOB_SLOWER = 1 };
#endif

typedef struct job_text {
    char *data; /* ends with NUL */
    size_t bytes;
} job_text;

typedef struct job {
    pid_t guard;
    int fds[2]; /* standard output and error of the job; -1 once they have ended */
    job_text text[2];
    int status; /* wait status */
} job;

enum { JOB_ARGUMENTS = 32 };

static inline double job_seconds(void)
{
    return (double)hki_now() * 1e-9;
}

static inline void job_nap(double seconds)
{
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

/* Starts HOCKET_PROGRAM with the arguments, a list that ends with NULL. input: its standard input, or -1. */
static inline job job_start_list(int input, char *const *arguments)
{
    job started = {.fds = {-1, -1}};
    int out[2], err[2];
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
        abort();
    started.guard = fork();
    if (started.guard == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(input >= 0 ? input : null, 0);
        dup2(out[1], 1);
        dup2(err[1], 2);
        execv(HOCKET_PROGRAM, arguments);
        _exit(99);
    }
    close(out[1]);
    close(err[1]);
    started.fds[0] = out[0];
    started.fds[1] = err[0];
    return started;
}

#define job_start(...) job_start_list(-1, (char *[]){(char *)"hocket", __VA_ARGS__, NULL})

static inline void job_read(job *running, int which)
{
    char data[65536];
    ssize_t got = read(running->fds[which], data, sizeof data);
    if (got <= 0) {
        close(running->fds[which]);
        running->fds[which] = -1;
        return;
    }
    job_text *text = &running->text[which];
    text->data = realloc(text->data, text->bytes + (size_t)got + 1);
    memcpy(text->data + text->bytes, data, (size_t)got);
    text->bytes += (size_t)got;
    text->data[text->bytes] = '\0';
}

/* Reads output until it ends and the job has ended, for at most `seconds`. False when it has not. */
static inline bool job_wait(job *running, double seconds)
{
    double deadline = job_seconds() + seconds;
    while (running->fds[0] >= 0 || running->fds[1] >= 0) {
        struct pollfd polled[2] = {{.fd = running->fds[0], .events = POLLIN},
                                   {.fd = running->fds[1], .events = POLLIN}};
        double left = deadline - job_seconds();
        if (left <= 0 || poll(polled, 2, (int)(left * 1000) + 1) < 0)
            return false;
        for (int i = 0; i < 2; i++)
            if (running->fds[i] >= 0 && polled[i].revents)
                job_read(running, i);
    }
    while (waitpid(running->guard, &running->status, WNOHANG) != running->guard) {
        if (job_seconds() > deadline)
            return false;
        job_nap(0.001);
    }
    for (int i = 0; i < 2; i++)
        if (!running->text[i].data)
            running->text[i].data = calloc(1, 1);
    return true;
}

static inline void job_free(job *ended)
{
    for (int i = 0; i < 2; i++) {
        if (ended->fds[i] >= 0)
            close(ended->fds[i]);
        free(ended->text[i].data);
    }
}

/* True when, within `seconds`, no process is left below the test. What is left is killed. */
static inline bool job_nothing_left(double seconds)
{
    double deadline = job_seconds() + seconds;
    for (;;) {
        pid_t reaped = waitpid(-1, NULL, WNOHANG);
        if (reaped < 0 && errno == ECHILD)
            return true;
        if (reaped > 0)
            continue;
        if (job_seconds() > deadline)
            break;
        job_nap(0.002);
    }
    char line[64];
    FILE *left = popen("ps -e -o pid=,ppid= | awk -v p=$PPID '$2 == p {print $1}'", "r");
    while (left && fgets(line, sizeof line, left))
        kill((pid_t)atoi(line), SIGKILL);
    if (left)
        pclose(left);
    return false;
}

#endif

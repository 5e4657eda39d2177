#include "tools/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the guard passes on, and SIGCHLD. They are blocked and waited for, so nothing happens between. */
static void guarded_signals(sigset_t *set)
{
    static const int signals[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT};
    sigemptyset(set);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(set, signals[i]);
}

/* Descriptors 0 to 2 must exist, or pipes would get their numbers and be overwritten in the ranks. */
static bool standard_descriptors(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= 2);
    if (fd > 2)
        close(fd);
    return fd >= 0;
}

/* Stops like a program that does not know job control, once the ranks are stopped; then lets them go on. */
static void stop_with_ranks(int control)
{
    unsigned char byte = SIGTSTP;
    send(control, &byte, 1, MSG_NOSIGNAL);
    raise(SIGSTOP);
}

/* Waits for the worker, passing signals on. Returns its wait status; *passed is the last signal that asked for the
 * end. */
static int wait_for_worker(pid_t worker, int control, const sigset_t *signals, int *passed)
{
    for (;;) {
        int status, signal_number = sigwaitinfo(signals, NULL);
        if (signal_number == SIGCHLD) {
            if (waitpid(worker, &status, WNOHANG) == worker)
                return status;
        } else if (signal_number == SIGTSTP) {
            stop_with_ranks(control);
        } else if (signal_number > 0) {
            unsigned char byte = (unsigned char)signal_number;
            send(control, &byte, 1, MSG_NOSIGNAL);
            if (signal_number != SIGCONT)
                *passed = signal_number;
        }
    }
}

/* Ends as the signal that ended the job would have ended us, so that a shell's loop stops on Ctrl-C. SIGQUIT would
 * leave a core, so there the exit status must do. */
static int end_by_signal(int signal_number)
{
    if (signal_number == SIGQUIT)
        return 128 + signal_number;
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, signal_number);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    return 128 + signal_number;
}

static int guard(pid_t worker, int control, const sigset_t *signals)
{
    int passed = 0;
    int status = wait_for_worker(worker, control, signals, &passed);
    bool clean = run_kill_children();
    if (WIFSIGNALED(status)) {
        char text[80];
        run_status_text(status, text, sizeof text);
        fprintf(stderr, "hocket run: the process that served the ranks died: %s; they are ended\n", text);
    }
    if (!clean)
        fprintf(stderr, "hocket run: some processes cannot be killed (stuck in the kernel)\n");
    if (passed && WIFEXITED(status) && WEXITSTATUS(status) == 128 + passed)
        return end_by_signal(passed);
    return run_exit_status(status);
}

int run_guarded(const run_options *options, run_work *work)
{
    int control[2];
    sigset_t signals, before;
    guarded_signals(&signals);
    if (!standard_descriptors() || sigprocmask(SIG_BLOCK, &signals, &before) != 0 ||
        prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) != 0) {
        fprintf(stderr, "hocket run: cannot start: %s\n", strerror(errno));
        return 1;
    }
    pid_t worker = fork();
    if (worker == 0) {
        close(control[0]);
        setsid(); /* for all ranks together: see run.h */
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        _exit(work(options, control[1], &before));
    }
    close(control[1]);
    if (worker < 0) {
        fprintf(stderr, "hocket run: cannot start: %s\n", strerror(errno));
        return 1;
    }
    return guard(worker, control[0], &signals);
}

#include "tools/run.h"

#include "base/clock.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STUCK_SECONDS = 5 };

/* Parent and process group from /proc/<name>/stat; false when the process has gone. The command, in parentheses, may
 * hold anything, so the fields are counted from the last ')'. */
static bool read_stat(int proc, const char *name, pid_t *parent, pid_t *group)
{
    char path[300], text[512];
    snprintf(path, sizeof path, "%s/stat", name);
    int file = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0)
        return false;
    text[length] = '\0';
    const char *command_end = strrchr(text, ')');
    return command_end && sscanf(command_end + 1, " %*c %d %d", parent, group) == 2;
}

/* A child cannot vanish under our hands: until we reap it, nobody else gets its pid. */
int run_signal_children(int signal_number)
{
    DIR *directory = opendir("/proc");
    if (!directory)
        return 0;
    int children = 0;
    for (const struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        pid_t parent, group, pid = (pid_t)atoi(entry->d_name);
        if (!isdigit((unsigned char)entry->d_name[0]) || !read_stat(dirfd(directory), entry->d_name, &parent, &group))
            continue;
        if (parent != getpid())
            continue;
        children++;
        kill(group == pid ? -pid : pid, signal_number);
    }
    closedir(directory);
    return children;
}

bool run_kill_children(void)
{
    uint64_t deadline = hki_now() + STUCK_SECONDS * UINT64_C(1000000000);
    for (;;) {
        pid_t reaped;
        do
            reaped = waitpid(-1, NULL, WNOHANG);
        while (reaped > 0 || (reaped < 0 && errno == EINTR));
        if (reaped < 0)
            return true;
        if (hki_now() > deadline)
            return false;
        run_signal_children(SIGKILL);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

void run_status_text(int status, char *text, size_t capacity)
{
    if (WIFSIGNALED(status))
        snprintf(text, capacity, "signal %d (%s%s)", WTERMSIG(status), strsignal(WTERMSIG(status)),
                 WCOREDUMP(status) ? ", core dumped" : "");
    else
        snprintf(text, capacity, "exit status %d", WEXITSTATUS(status));
}

int run_exit_status(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

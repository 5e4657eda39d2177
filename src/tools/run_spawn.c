#include "tools/run.h"

#include "base/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

/* ---------------------------------------------------------------------------------------------------------------
 * Preparing
 * ------------------------------------------------------------------------------------------------------------- */

/* The file that execvp would find, so that PATH is searched once and not by every rank. NULL and errno. */
static char *find_program(const char *name)
{
    if (strchr(name, '/'))
        return access(name, X_OK) == 0 ? strdup(name) : NULL;
    const char *path = hki_environment("PATH");
    if (!path)
        path = "/bin:/usr/bin";
    int failure = ENOENT;
    for (size_t length = strcspn(path, ":");; path += length + 1, length = strcspn(path, ":")) {
        char *found;
        if (asprintf(&found, "%.*s/%s", length ? (int)length : 1, length ? path : ".", name) < 0)
            return NULL;
        if (access(found, X_OK) == 0)
            return found;
        failure = errno == EACCES ? EACCES : failure;
        free(found);
        if (path[length] == '\0')
            break;
    }
    errno = failure;
    return NULL;
}

/* What tells a rank its place: an outer launcher's must not reach these ranks. */
static bool is_place(const char *variable)
{
    static const char *const names[] = {"HOCKET_LAUNCH=", "HOCKET_RANK=", "HOCKET_RANKS="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* The environment with HOCKET_LAUNCH. */
static bool make_environment(run_spawner *spawner)
{
    size_t count = 0, kept = 0;
    while (environ[count])
        count++;
    spawner->environment = malloc((count + 2) * sizeof *spawner->environment);
    if (!spawner->environment)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!is_place(environ[i]))
            spawner->environment[kept++] = environ[i];
    snprintf(spawner->launch, sizeof spawner->launch, "HOCKET_LAUNCH=%d", spawner->launch_fd);
    if (!spawner->options->hosts) /* agents learn from their record, and have no link */
        spawner->environment[kept++] = spawner->launch;
    spawner->environment[kept] = NULL;
    return true;
}

/* The worker needs four descriptors a rank; the ranks get the user's limit. */
static bool raise_file_limit(run_spawner *spawner)
{
    if (getrlimit(RLIMIT_NOFILE, &spawner->files) != 0)
        return false;
    struct rlimit raised = spawner->files;
    raised.rlim_cur = raised.rlim_max;
    setrlimit(RLIMIT_NOFILE, &raised);
    rlim_t needed = (rlim_t)spawner->options->ranks * 4 + 32;
    if (raised.rlim_max == RLIM_INFINITY || needed <= raised.rlim_max)
        return true;
    errno = EMFILE;
    return false;
}

static size_t failures_bytes(const run_spawner *spawner)
{
    return (size_t)spawner->options->ranks * sizeof *spawner->failures;
}

bool run_spawner_open(run_spawner *spawner, const run_options *options, const hki_topology *topology, const char **what)
{
    *spawner =
        (run_spawner){.options = options, .parent = getpid(), .launch_fd = -1, .null_fd = -1, .failures = MAP_FAILED};
    *what = "enough descriptors for so many ranks (see ulimit -Hn)";
    if (!raise_file_limit(spawner))
        return false;
    *what = options->command[0];
    spawner->path = find_program(options->command[0]);
    if (!spawner->path)
        return false;
    *what = "/dev/null";
    spawner->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (spawner->null_fd < 0)
        return false;
    *what = "a descriptor";
    spawner->launch_fd = fcntl(spawner->null_fd, F_DUPFD_CLOEXEC, 3);
    if (spawner->launch_fd < 0)
        return false;
    *what = "memory";
    spawner->failures = mmap(NULL, failures_bytes(spawner), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return spawner->failures != MAP_FAILED && make_environment(spawner) &&
           run_binding_make(&spawner->binding, topology, options->bind, options->ranks);
}

void run_spawner_free(run_spawner *spawner)
{
    if (spawner->failures != MAP_FAILED)
        munmap((void *)spawner->failures, failures_bytes(spawner));
    free(spawner->path);
    free(spawner->environment);
    run_binding_free(&spawner->binding);
    if (spawner->null_fd >= 0)
        close(spawner->null_fd);
    if (spawner->launch_fd >= 0)
        close(spawner->launch_fd);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Binding
 * ------------------------------------------------------------------------------------------------------------- */

/* Fills mask; returns its size for sched_setaffinity, 0 when the rank stays unbound. */
static size_t cpu_mask(const run_spawner *spawner, int rank, cpu_set_t *mask)
{
    const unsigned *first = spawner->binding.first;
    size_t bytes = CPU_ALLOC_SIZE(HKI_TOPOLOGY_PUS_MAX);
    CPU_ZERO_S(bytes, mask);
    for (unsigned i = first[rank]; i < first[rank + 1]; i++)
        CPU_SET_S(spawner->binding.cpus[i], bytes, mask);
    return first[rank + 1] > first[rank] ? bytes : 0;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Starting
 * ------------------------------------------------------------------------------------------------------------- */

/* Standard input: the agents' records, the user's for rank 0, nothing for the others. */
static bool connect_input(const run_spawner *spawner, int rank, const run_ends *ends)
{
    if (ends->in >= 0)
        return dup2(ends->in, 0) >= 0;
    return rank == 0 || dup2(spawner->null_fd, 0) >= 0;
}

/* What the child does: system calls only. Returns the error that kept it from becoming the program. */
static int become_rank(const run_spawner *spawner, int rank, const run_ends *ends)
{
    union {
        cpu_set_t set;
        unsigned char room[HKI_TOPOLOGY_PUS_MAX / 8];
    } mask;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != spawner->parent)
        _exit(1); /* the worker died before the kernel knew that this must end with it */
    size_t mask_bytes = cpu_mask(spawner, rank, &mask.set);
    if (mask_bytes > 0)
        sched_setaffinity(0, mask_bytes, &mask.set);
    const run_host *hosts = spawner->options->hosts;
    if (!connect_input(spawner, rank, ends) || dup2(ends->out, 1) < 0 || dup2(ends->err, 2) < 0 ||
        (!hosts && dup2(ends->launch, spawner->launch_fd) < 0))
        return errno;
    setrlimit(RLIMIT_NOFILE, &spawner->files);
    sigprocmask(SIG_SETMASK, &spawner->mask, NULL);
    execvpe(spawner->path, hosts ? hosts[rank].command : spawner->options->command, spawner->environment);
    return errno;
}

/* fork and not vfork or posix_spawn, which make the parent wait for each program to be loaded: 128 ranks on two busy
 * cores took 0.05 s with fork, 0.8 s with vfork, whose children also wait in turn for the CPU that they are bound to.
 */
pid_t run_spawn(run_spawner *spawner, int rank, const run_ends *ends)
{
    pid_t child = fork();
    if (child == 0) {
        spawner->failures[rank] = become_rank(spawner, rank, ends);
        _exit(RUN_STATUS_NOT_FOUND);
    }
    return child;
}

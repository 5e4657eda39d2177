/*
 * The jobs that `hocket tune` starts on this host: for shared memory two ranks at each distance that the machine offers
 * between its CPUs, for tcp two ranks, then more ranks than CPUs, and all CPUs at once. Each job is `hocket run …
 * hocket tune --points`, confined to the CPUs that it is about, and prints points as lines. Pairs are measured in
 * several passes: see tune_passes.h.
 */
#include "tools/tune.h"

#include "tools/tune_passes.h"
#include "topo/topology.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_JOBS = 16, SELF = 4096, TURN_CPUS = 2, TURNS = 4, MOST_TOGETHER = 64 };

typedef struct plan {
    char name[80];
    const char *transport;
    uint32_t cpus[MOST_TOGETHER], cpu_count; /* the system's numbers */
    uint32_t ranks;
    hki_tune_task task;
} plan;

typedef struct schedule {
    const hki_tune_options *options;
    plan plans[MOST_JOBS];
    uint32_t count, now;
    uint32_t runs, run; /* of jobs, those of all passes counted */
    char self[SELF];
    hki_tune_points *points; /* where the job's points go */
} schedule;

/* ---- what there is to measure ---- */

/* The first two usable CPUs that are so far apart. */
static bool find_cpus(const hki_topology *topology, hki_distance distance, uint32_t cpus[2])
{
    for (uint32_t i = 0; i < topology->pu_count; i++)
        for (uint32_t k = i + 1; k < topology->pu_count; k++)
            if (topology->pus[i].usable && topology->pus[k].usable &&
                hki_topology_distance(topology, i, k) == distance) {
                cpus[0] = topology->pus[i].os;
                cpus[1] = topology->pus[k].os;
                return true;
            }
    return false;
}

static bool wants(const hki_tune_options *options, const char *transport)
{
    const char *list = options->transports;
    return !list || strstr(list, transport) != NULL; /* the command line let only these names through */
}

static void plan_pair(schedule *s, const char *transport, hki_distance distance, const uint32_t cpus[2])
{
    plan *next = &s->plans[s->count++];
    *next = (plan){.transport = transport, .cpus = {cpus[0], cpus[1]}, .cpu_count = 2, .ranks = 2};
    snprintf(next->name, sizeof next->name, "%s, %s", transport, hki_distance_name(distance));
}

/* Two ranks at each distance by shared memory, and by tcp at the first that is more than a core. */
static void plan_pairs(schedule *s, const hki_topology *topology)
{
    bool tcp_planned = !wants(s->options, "tcp");
    for (int distance = 0; distance < HKI_DISTANCES; distance++) {
        uint32_t cpus[2];
        if (!find_cpus(topology, (hki_distance)distance, cpus))
            continue;
        if (wants(s->options, "shm"))
            plan_pair(s, "shm", (hki_distance)distance, cpus);
        if (!tcp_planned && distance > HKI_DISTANCE_CORE) {
            plan_pair(s, "tcp", (hki_distance)distance, cpus);
            tcp_planned = true;
        }
    }
}

static uint32_t usable_cpus(const hki_topology *topology, uint32_t *cpus, uint32_t most)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < topology->pu_count && count < most; i++)
        if (topology->pus[i].usable)
            cpus[count++] = topology->pus[i].os;
    return count;
}

/* Ranks that take turns; and, where there are several pairs of cores, all pairs at once. */
static void plan_crowds(schedule *s, const hki_topology *topology)
{
    uint32_t capacity = hki_topology_capacity(topology);
    if (!wants(s->options, "shm"))
        return;
    plan *turns = &s->plans[s->count++];
    *turns = (plan){.name = "ranks that take turns", .transport = "shm", .task = HKI_TUNE_RANKS_IN_TURN};
    turns->cpu_count = usable_cpus(topology, turns->cpus, TURN_CPUS);
    turns->ranks = TURNS * turns->cpu_count;
    if (capacity < 4)
        return;
    plan *all = &s->plans[s->count++];
    *all = (plan){.name = "memory that all share", .transport = "shm", .task = HKI_TUNE_ALL_PAIRS};
    all->cpu_count = usable_cpus(topology, all->cpus, MOST_TOGETHER);
    all->ranks = capacity < MOST_TOGETHER ? capacity / 2 * 2 : MOST_TOGETHER;
}

static bool plan_all(schedule *s)
{
    hki_topology *topology;
    if (hki_topology_load(&topology) != HK_OK) {
        fprintf(stderr, "hocket tune: %s\n", hk_last_error());
        return false;
    }
    plan_pairs(s, topology);
    plan_crowds(s, topology);
    hki_topology_free(topology);
    return true;
}

/* ---- progress ---- */

static void show_progress(const schedule *s, uint32_t done, uint32_t all)
{
    enum { WIDTH = 30 };
    static const char bar[WIDTH + 1] = "##############################";
    if (!isatty(STDERR_FILENO))
        return;
    int filled = (int)((double)WIDTH * (s->run + (all ? (double)done / all : 0)) / s->runs);
    fprintf(stderr, "\r[%-*.*s] %u/%u %-40.40s", WIDTH, filled, bar, s->run + 1, s->runs, s->plans[s->now].name);
}

static void begin_progress(const schedule *s)
{
    if (!isatty(STDERR_FILENO))
        fprintf(stderr, "hocket tune: %u of %u: %s\n", s->run + 1, s->runs, s->plans[s->now].name);
    show_progress(s, 0, 1);
}

static void end_progress(void)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%*s\r", 90, "");
}

/* ---- one job ---- */

/* In the child: becomes the launcher, confined to the job's CPUs. */
static void become_job(const schedule *s, const plan *p, int out)
{
    cpu_set_t set;
    char ranks[16];
    CPU_ZERO(&set);
    for (uint32_t i = 0; i < p->cpu_count; i++)
        CPU_SET(p->cpus[i], &set);
    snprintf(ranks, sizeof ranks, "%u", p->ranks);
    const char *arguments[] = {s->self,
                               "run",
                               "-n",
                               ranks,
                               "--bind",
                               "core",
                               "--",
                               s->self,
                               "tune",
                               "--points",
                               p->task == HKI_TUNE_PAIRS           ? "pairs"
                               : p->task == HKI_TUNE_RANKS_IN_TURN ? "turns"
                                                                   : "together",
                               s->options->quick ? "--quick" : NULL,
                               NULL};
    if (sched_setaffinity(0, sizeof set, &set) != 0 || setenv("HOCKET_TRANSPORT", p->transport, 1) != 0 ||
        setenv("HOCKET_TUNING", "none", 1) != 0 || unsetenv("HOCKET_ALGORITHM") != 0 || dup2(out, STDOUT_FILENO) < 0)
        fprintf(stderr, "hocket tune: a job cannot be prepared: %s\n", strerror(errno));
    else
        execv(s->self, (char *const *)(uintptr_t)arguments);
    fprintf(stderr, "hocket tune: %s: %s\n", s->self, strerror(errno));
    _exit(127);
}

static void take_line(schedule *s, const char *line)
{
    hki_tune_point point;
    unsigned done, all;
    if (sscanf(line, "progress %u %u", &done, &all) == 2)
        show_progress(s, done, all);
    else if (hki_tune_point_read(line, &point) && s->points->count < HKI_TUNE_POINTS)
        s->points->items[s->points->count++] = point;
}

/* Reads the job's lines to their end, and gets its status. */
static bool follow_job(schedule *s, pid_t child, int in)
{
    char line[512];
    int state = 0;
    FILE *lines = fdopen(in, "r");
    while (lines && fgets(line, sizeof line, lines))
        take_line(s, line);
    if (lines)
        fclose(lines);
    else
        close(in);
    while (waitpid(child, &state, 0) < 0)
        if (errno != EINTR)
            return false;
    if (WIFEXITED(state) && WEXITSTATUS(state) == 0)
        return true;
    end_progress();
    fprintf(stderr, "hocket tune: measuring \"%s\" failed\n", s->plans[s->now].name);
    return false;
}

static bool run_job(schedule *s)
{
    int ends[2];
    begin_progress(s);
    if (pipe(ends) != 0) {
        fprintf(stderr, "hocket tune: a pipe: %s\n", strerror(errno));
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        become_job(s, &s->plans[s->now], ends[1]);
    }
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        fprintf(stderr, "hocket tune: a job cannot be started: %s\n", strerror(errno));
        return false;
    }
    return follow_job(s, child, ends[0]);
}

/* The jobs from..to-1, in that order. */
static bool run_jobs(schedule *s, uint32_t from, uint32_t to)
{
    for (s->now = from; s->now < to; s->now++, s->run++)
        if (!run_job(s))
            return false;
    return true;
}

/* All kinds of pairs by turns, so that each kind is measured over as long a time as there is. */
static bool run_pairs(schedule *s, uint32_t pairs, hki_tune_points *points)
{
    hki_tune_passes *passes = calloc(1, sizeof *passes);
    if (!passes) {
        fprintf(stderr, "hocket tune: no memory for points\n");
        return false;
    }
    bool good = true;
    for (passes->count = 0; passes->count < HKI_TUNE_PASSES && good; passes->count++) {
        s->points = &passes->points[passes->count];
        good = run_jobs(s, 0, pairs);
    }
    s->points = points;
    end_progress();
    good = good && hki_tune_passes_merge(passes, points, stderr) == HK_OK;
    free(passes);
    return good;
}

static uint32_t count_pairs(const schedule *s)
{
    uint32_t pairs = 0;
    while (pairs < s->count && s->plans[pairs].task == HKI_TUNE_PAIRS)
        pairs++;
    return pairs;
}

bool hki_tune_jobs(const hki_tune_options *options, hki_tune_points *points)
{
    schedule s = {.options = options, .points = points};
    ssize_t length = readlink("/proc/self/exe", s.self, sizeof s.self - 1);
    if (length < 0) {
        fprintf(stderr, "hocket tune: /proc/self/exe: %s\n", strerror(errno));
        return false;
    }
    if (!plan_all(&s))
        return false;
    uint32_t pairs = count_pairs(&s);
    if (pairs == 0) {
        fprintf(stderr, "hocket tune: links are measured between two CPUs, and only one may be used here\n");
        return false;
    }
    s.runs = HKI_TUNE_PASSES * pairs + s.count - pairs;
    bool good = run_pairs(&s, pairs, points) && run_jobs(&s, pairs, s.count);
    end_progress();
    return good;
}

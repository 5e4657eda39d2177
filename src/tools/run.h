/*
 * The launcher, `hocket run`. Two processes:
 *
 *   guard   what the user started. Passes signals on to the worker, waits for it, and ends with its status.
 *   worker  its child. Starts the ranks, serves their joining, forwards their output, ends them.
 *
 * Each is a "child subreaper" (prctl(2)): whatever the ranks start and leave behind becomes the child of the worker,
 * or, without it, of the guard, which can so end everything. When the guard vanishes (kill -9 included) the worker sees
 * its end of their socket pair close and ends the ranks; when the worker vanishes, the ranks get SIGKILL from the
 * kernel (PR_SET_PDEATHSIG) and the guard ends what they had started. Only killing both at one instant leaves
 * grandchildren.
 *
 * Worker and ranks are a session of their own, so that signals from the terminal reach the guard alone. Every rank
 * leads a process group, so that a signal to it reaches what it started as well. It must not lead a session: Linux
 * schedules each session as one (autogroups), and within that sched_yield finds nobody to yield to. Four ranks on two
 * cores, which wait by yielding, then took 107 µs for an 8-byte all-reduce instead of 2.7.
 */
#ifndef HKI_TOOLS_RUN_H
#define HKI_TOOLS_RUN_H

#include "boot/launch.h"
#include "boot/ranks.h"
#include "topo/topology.h"

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

enum { RUN_RANKS_MAX = 4096, RUN_STATUS_TIMEOUT = 124, RUN_STATUS_CANNOT_EXEC = 126, RUN_STATUS_NOT_FOUND = 127 };

typedef enum run_bind { RUN_BIND_NONE, RUN_BIND_SHARE, RUN_BIND_CORE } run_bind;

/* One of several hosts, as the launcher that the user started sees it (run_hosts.c). */
typedef struct run_host {
    char *name;
    int first, ranks;
    char **command; /* reaches the host and starts an agent there */
    char *record;   /* for the agent's standard input (run_record.c) */
    size_t record_bytes;
} run_host;

/* The part of a job that an agent runs on one of several hosts (run_agent.c). */
typedef struct run_share {
    const char *host; /* this one's name */
    int first, total; /* rank of its first process, and ranks of the job */
    const char *meeting;
    uint16_t port, ports; /* see hki_launch_place */
    uint8_t key[HKI_LAUNCH_KEY_BYTES];
} run_share;

typedef struct run_options {
    int ranks;
    const run_host *hosts;  /* not NULL: the `ranks` processes are the agents of these */
    const run_share *share; /* not NULL: there are ranks on other hosts */
    run_bind bind;
    double timeout; /* seconds, 0 = never */
    double grace;   /* seconds from SIGTERM to SIGKILL */
    bool tag_output, keep_going;
    char **command; /* program and arguments, NULL at the end */
} run_options;

/* What the worker's epoll reports: a kind and, for most, a rank. */
typedef enum run_event_kind {
    RUN_EVENT_CONTROL,
    RUN_EVENT_SIGNAL,
    RUN_EVENT_DEATH,
    RUN_EVENT_OUT,
    RUN_EVENT_ERR,
    RUN_EVENT_LINK,
    RUN_EVENT_SINK
} run_event_kind;

static inline uint64_t run_event(run_event_kind kind, int rank)
{
    return (uint64_t)kind << 32 | (uint32_t)rank;
}

/* ---------------------------------------------------------------------------------------------------------------
 * run_output.c: streams of the ranks go by whole lines to two sinks, standard output and error
 * ------------------------------------------------------------------------------------------------------------- */

typedef struct run_sink {
    int fd;
    char *data; /* waiting bytes: data[start … end) */
    size_t start, end, capacity;
    bool regular; /* a file: takes any amount, and poll says nothing about it */
    bool closed;  /* nobody reads it any more, or it takes no more */
    int error;    /* why a file takes no more (no space); 0 while all was well, or when its reader just went */
} run_sink;

void run_sink_open(run_sink *sink, int fd);
void run_sink_put(run_sink *sink, const void *data, size_t bytes);
/* Writes what can be written without blocking. */
void run_sink_flush(run_sink *sink);
size_t run_sink_waiting(const run_sink *sink);
void run_sink_free(run_sink *sink);

typedef struct run_stream {
    int fd; /* the launcher's end of the pipe; -1 when closed */
    int rank;
    bool tag;
    run_sink *sink;
    char *partial; /* a line whose end has not come yet */
    size_t partial_bytes, partial_capacity;
} run_stream;

/* Reads once and forwards the lines that are complete. False: nothing there now, or the stream has ended (fd is -1). */
bool run_stream_read(run_stream *stream);
/* Forwards an unfinished last line and closes. */
void run_stream_close(run_stream *stream);

/* ---------------------------------------------------------------------------------------------------------------
 * run_join.c: serves the messages of boot/launch.h
 * ------------------------------------------------------------------------------------------------------------- */

typedef struct run_reply {
    size_t references, bytes;
    char data[];
} run_reply;

enum { RUN_REPLIES = 4 };

typedef struct run_link {
    int fd;          /* -1 when closed */
    char *in;        /* the message that is arriving */
    size_t in_bytes; /* of it, so far */
    size_t in_capacity;
    run_reply *out[RUN_REPLIES]; /* answers not yet sent wholly */
    unsigned out_count;
    size_t out_sent; /* of out[0] */
    bool wants_out;  /* registered for EPOLLOUT */
    bool joined;     /* between JOIN and LEAVE */
    pid_t process;   /* that joined: the rank itself, or one that it started */
    bool waiting;    /* its record for exchange `position` lies in record */
    char *record;
    size_t record_bytes;
    uint64_t position; /* the next exchange it can give: joins << 32 | exchanges; UINT64_MAX when it cannot */
} run_link;

typedef struct run_join {
    run_link *links;
    int ranks, waiting;
    int poller; /* epoll */
    uint8_t key[HKI_LAUNCH_KEY_BYTES];
    void *topology; /* of this host, packed: goes to each rank with its place */
    size_t topology_bytes;
    /* Why the joining numbered broken - 1 failed first (0: none did): whoever comes later is told the same, and not
     * that those who failed have left. */
    uint64_t broken;
    char broken_text[2 * HKI_RANKS_TEXT + 100];
    /* Called once when ranks wait for others that ended without joining; texts like "rank 2", "ranks 0, 1". */
    void (*lost)(void *context, const char *missing, const char *waiting);
    void *context;
    const run_share *share; /* not NULL: ranks only learn their place, and exchange elsewhere */
} run_join;

/* Makes links without descriptors; false and errno on failure. */
bool run_join_open(run_join *join, int ranks, int poller, const hki_topology *topology);
/* Takes what the rank sent, and answers. Closes the link when the rank hung up. */
void run_join_readable(run_join *join, int rank);
void run_join_writable(run_join *join, int rank);
/* The rank cannot come any more. */
void run_join_close_link(run_join *join, int rank);
void run_join_free(run_join *join);

/* ---------------------------------------------------------------------------------------------------------------
 * run_binding.c: CPUs of each rank
 * ------------------------------------------------------------------------------------------------------------- */

typedef struct run_binding {
    unsigned *cpus;  /* the system's numbers; rank r gets cpus[first[r]] … before cpus[first[r + 1]] */
    unsigned *first; /* none: the rank is not bound */
} run_binding;

/* False and errno: no memory. */
bool run_binding_make(run_binding *binding, const hki_topology *topology, run_bind how, int ranks);
void run_binding_free(run_binding *binding);

/* ---------------------------------------------------------------------------------------------------------------
 * run_spawn.c: starting a rank
 * ------------------------------------------------------------------------------------------------------------- */

typedef struct run_spawner {
    const run_options *options;
    char *path;         /* of the program */
    char **environment; /* with HOCKET_LAUNCH */
    char launch[32];    /* "HOCKET_LAUNCH=<launch_fd>" */
    int launch_fd;      /* the number that every rank's socket gets; kept free here */
    int null_fd;
    pid_t parent;
    sigset_t mask;       /* the user's, for the ranks */
    struct rlimit files; /* likewise */
    run_binding binding;
    volatile int *failures; /* errno of each rank that could not become the program; shared with the ranks */
} run_spawner;

typedef struct run_ends {
    int in; /* -1: /dev/null, or for rank 0 the launcher's own */
    int out, err, launch;
} run_ends;

/* False, errno set, and *what names it: the program is not to be found, descriptors are short. */
bool run_spawner_open(run_spawner *spawner, const run_options *options, const hki_topology *topology,
                      const char **what);
/* Starts a rank with the given ends of its pipes and socket. -1 and errno when there can be no process; when the
 * program cannot be executed, the rank ends with its entry of failures set. */
pid_t run_spawn(run_spawner *spawner, int rank, const run_ends *ends);
void run_spawner_free(run_spawner *spawner);

/* ---------------------------------------------------------------------------------------------------------------
 * run_children.c: ending whatever is below this process
 * ------------------------------------------------------------------------------------------------------------- */

/* Sends a signal to every child of this process, and to its group if it leads one. Returns how many there are. */
int run_signal_children(int signal_number);
/* Kills and reaps children until none is left; what they leave behind becomes a child in turn (subreaper). False when
 * some have not gone after 5 s (stuck in the kernel). */
bool run_kill_children(void);

/* ---------------------------------------------------------------------------------------------------------------
 * run_guard.c, run_job.c
 * ------------------------------------------------------------------------------------------------------------- */

/* What the worker does. control: signals come as bytes, and its end means that the guard is gone. mask: the signal mask
 * that ranks get. Returns the job's exit status. */
typedef int run_work(const run_options *options, int control, const sigset_t *mask);
run_work run_job;
/* Forks the worker and guards it. Returns the job's exit status. */
int run_guarded(const run_options *options, run_work *work);
/* "rank 2", or in a job over hosts "host a" where each process is an agent. */
const char *run_name(const run_options *options, int index, char *text, size_t capacity);
/* The same for several: "ranks 2, 3", "hosts a, b". */
const char *run_names(const run_options *options, const bool *members, char *text, size_t capacity);
/* "signal 9 (Killed)" or "exit status 3" of a wait status. */
void run_status_text(int status, char *text, size_t capacity);
/* What a shell would make of a wait status: the exit status, or 128 + signal. */
int run_exit_status(int status);

/* ---------------------------------------------------------------------------------------------------------------
 * run_hosts.c, run_agent.c, run_record.c: jobs over several hosts. An agent is this program, started on each host by
 * ssh or the like, and told by a record on its standard input what to run: so the key is on no command line. When
 * that input ends, because the launcher or the connection did, the agent ends its ranks.
 * ------------------------------------------------------------------------------------------------------------- */

typedef struct run_hosts {
    const char *list;    /* "a:2,b:2" */
    const char *rsh;     /* command that reaches a host, split at spaces */
    const char *program; /* of hocket there; NULL: the path that this one has */
} run_hosts;

/* Runs options->command with so many ranks on each host. Returns the job's exit status; 2, and says why, when `hosts`
 * makes no sense. */
int run_over_hosts(const run_options *options, const run_hosts *hosts);
/* The agent. Returns the exit status of its ranks. */
int run_agent(void);

/* What an agent is told. Strings point into the record's bytes. */
typedef struct run_record {
    run_options options; /* ranks, bind, grace, tag_output, keep_going, command */
    run_share share;
    const char *directory;
    char **settings; /* "HOCKET_X=…", NULL at the end */
    char **strings;  /* allocated: what command and settings point to */
} run_record;

enum { RUN_RECORD_MAX = 1 << 20 };

/* Allocates the bytes; NULL when there is no memory, or they would be more than RUN_RECORD_MAX. */
char *run_record_write(const run_record *record, size_t *bytes);
/* False when malformed, or there is no memory. bytes[length - 1] must be '\0'. */
bool run_record_read(char *bytes, size_t length, run_record *record);
void run_record_free(run_record *record);

#endif

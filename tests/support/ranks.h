/*
 * Ranks for tests of the whole library: processes made by fork (what can be killed, stopped and counted), or threads of
 * this one. They find each other through a store in memory that they share, so that a job costs milliseconds.
 *
 * Checks within a rank use EXPECT, which says what did not hold and ends the rank's process (or, in threads, the test):
 * cmocka's assertions belong to the test's own thread.
 */
#ifndef HKI_TESTS_SUPPORT_RANKS_H
#define HKI_TESTS_SUPPORT_RANKS_H

#include <hocket/hocket.h>
#include <hocket/store.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RANKS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define RANKS_SANITIZED 1
#endif
#endif
#ifndef RANKS_SANITIZED
#define RANKS_SANITIZED 0
#endif

enum {
    RANKS_MOST = 256,
    RANKS_FAILED = 3,  /* exit status of a rank in which an EXPECT did not hold */
    RANKS_SECONDS = 60 /* a rank that takes longer hangs, and is ended by SIGALRM */
};

#define EXPECT(condition) ((condition) ? (void)0 : ranks_fail(__FILE__, __LINE__, #condition))
/* The call succeeds; else its error is shown. */
#define EXPECT_OK(call) ranks_expect_status(__FILE__, __LINE__, #call, (call), HK_OK)
#define EXPECT_STATUS(call, status) ranks_expect_status(__FILE__, __LINE__, #call, (call), (status))
/* The last error's text names something. */
#define EXPECT_ERROR_NAMES(part) ranks_expect_text(__FILE__, __LINE__, hk_last_error(), (part))

_Noreturn void ranks_fail(const char *file, int line, const char *what);
void ranks_expect_status(const char *file, int line, const char *call, hk_status status, hk_status wanted);
void ranks_expect_text(const char *file, int line, const char *text, const char *part);

/* How to run a job. Zero-initialised means: defaults. */
typedef struct ranks_options {
    const char *settings; /* "NAME=value NAME=value": environment of the ranks; NULL = none */
    double timeout;       /* of operations, seconds, times ranks_slower(); 0 = the library's default */
    hk_threads threads;
    bool no_context; /* the body makes its own contexts: comm is NULL */
} ranks_options;

/* What a rank does. The context is freed after it returns, unless it has freed comm itself and returns RANKS_FREED. */
typedef int ranks_body(hk_comm *comm, int rank, void *argument);
enum { RANKS_FREED = -1 };

typedef struct ranks_job {
    int ranks;
    pid_t pids[RANKS_MOST];
    int status[RANKS_MOST]; /* wait status of each, after ranks_wait */
    hk_store *store;
} ranks_job;

/* Processes. start returns at once; wait returns how many did not exit with 0. run does both. */
void ranks_start(ranks_job *job, int ranks, const ranks_options *options, ranks_body *body, void *argument);
int ranks_wait(ranks_job *job);
int ranks_run(int ranks, const ranks_options *options, ranks_body *body, void *argument);

/* Threads of this process. Returns how many bodies returned something else than 0 or RANKS_FREED. */
int ranks_run_threads(int ranks, const ranks_options *options, ranks_body *body, void *argument);

/* A store in memory shared with children forked later. For bodies that make their own contexts; names tell jobs apart.
 * It is emptied by ranks_store_clear when no rank uses it. */
hk_store *ranks_store_new(void);
void ranks_store_clear(hk_store *store);
void ranks_store_free(hk_store *store);
/* Options to join as `rank` of `ranks` through a store, with a key. */
hk_options ranks_join(int rank, int ranks, const hk_store *store);

/* Zeroed memory shared with children forked later; never freed. */
void *ranks_shared(size_t bytes);

/* A zeroed buffer for operations that are to fail: of hk_alloc if it is to be mapped, else of malloc. It is overwritten
 * as it is given back, which harms nobody: the library has let go of it by then. */
void *ranks_take(hk_comm *comm, size_t bytes, bool mapped);
void ranks_give(hk_comm *comm, void *memory, size_t bytes, bool mapped);

/* A barrier without the library, over an int of shared memory that starts at 0; gives up after 20 s. Ranks that are to
 * die after an operation meet here first: its end at one rank does not mean that it has ended at the others. */
void ranks_meet(int *place, int ranks);

/* How many times slower this machine is than any real one, by CONFORMANCE_SLOWER: 1 but in emulated guests. Time-outs
 * of jobs and limits for hangs are longer by so much; what repeats a thing to be sure may do so less often. */
int ranks_slower(void);
double ranks_seconds(void); /* monotonic */
void ranks_nap(double seconds);
long ranks_resident(pid_t pid); /* KiB of private memory that are resident; 0 = this process */
int ranks_descriptors(void);    /* open in this process */
int ranks_threads(void);        /* of this process */

#endif

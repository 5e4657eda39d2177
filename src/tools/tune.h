/* hocket tune: what is measured, by whom, and what is made of it. */
#ifndef HKI_TOOLS_TUNE_H
#define HKI_TOOLS_TUNE_H

#include "cost/points.h"

#include <stdio.h>

/* What a job of ranks is to measure. */
typedef enum hki_tune_task { HKI_TUNE_PAIRS, HKI_TUNE_RANKS_IN_TURN, HKI_TUNE_ALL_PAIRS } hki_tune_task;

/* The command line. */
typedef struct hki_tune_options {
    int ranks;              /* most that are started at once; 0: not given */
    const char *transports; /* "shm,tcp": NULL: both */
    bool quick;
    const char *output; /* NULL: the cache's file */
    bool points;        /* print points instead of fitting: what jobs that `hocket tune` starts do */
    hki_tune_task task; /* with `points` */
} hki_tune_options;

/* Called as measuring goes on, on every rank. */
typedef struct hki_tune_watcher {
    void (*measured)(void *context, uint32_t done, uint32_t all);
    void *context;
} hki_tune_watcher;

/* Measures among the ranks of comm (the program joined as one of them); collective. Every rank gets all points.
 * False after a message on stderr. */
bool hki_tune_measure(hk_comm *comm, hki_tune_task task, bool quick, const hki_tune_watcher *watcher,
                      hki_tune_points *points);

/* Starts the jobs that measure this host, one after another, and collects their points. False after a message. */
bool hki_tune_jobs(const hki_tune_options *options, hki_tune_points *points);

/* A point as a line, and back; false: it is none. */
void hki_tune_point_print(FILE *out, const hki_tune_point *point);
bool hki_tune_point_read(const char *line, hki_tune_point *point);

/* For people: figures, how sure they are, and how well they fit. */
void hki_tune_report(FILE *out, const hki_tuning *tuning);
/* Which links keep the figures that they had, because what was measured contradicts itself. */
void hki_tune_report_doubts(FILE *out, const hki_tuning *tuning);

#endif

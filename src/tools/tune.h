/* hocket tune: what is measured, by whom, and what is made of it. */
#ifndef HKI_TOOLS_TUNE_H
#define HKI_TOOLS_TUNE_H

#include "cost/fit.h"
#include "cost/tuning.h"

#include <stdio.h>

/* What a point tells. */
typedef enum hki_tune_series {
    HKI_TUNE_ONE_WAY,  /* one message of `bytes` from one rank of a pair to the other */
    HKI_TUNE_EXCHANGE, /* one each way at the same time */
    HKI_TUNE_STREAM,   /* one way, one after another: from one to the next */
    HKI_TUNE_COPY,     /* `bytes` copied within a rank */
    HKI_TUNE_REDUCE,   /* `bytes` of `type` reduced with as many by `operators` within a rank */
    HKI_TUNE_TURNS,    /* an all-reduce of one round among `ranks` ranks that share `cpus` CPUs */
    HKI_TUNE_TOGETHER, /* an exchange by all `ranks` / 2 pairs of a host at once */
    HKI_TUNE_LIMIT,    /* the largest message that goes eager: no time */
    HKI_TUNE_SERIES
} hki_tune_series;

typedef struct hki_tune_point {
    uint32_t series, link; /* hki_tune_series; hki_link_class */
    uint64_t bytes;
    uint32_t type, operators; /* HKI_TUNE_REDUCE */
    uint32_t ranks, cpus;
    double us; /* median */
} hki_tune_point;

enum { HKI_TUNE_POINTS = 4096 };

typedef struct hki_tune_points {
    hki_tune_point items[HKI_TUNE_POINTS];
    uint32_t count;
} hki_tune_points;

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

/* Measures copies and reductions in this process. False after a message. */
bool hki_tune_kernels(hki_tune_points *points);

/* Starts the jobs that measure this host, one after another, and collects their points. False after a message. */
bool hki_tune_jobs(const hki_tune_options *options, hki_tune_points *points);

/* A point as a line, and back; false: it is none. */
void hki_tune_point_print(FILE *out, const hki_tune_point *point);
bool hki_tune_point_read(const char *line, hki_tune_point *point);

/* Makes figures of points. HK_ERR_ARGUMENT: they are too few. */
hk_status hki_tune_fit(const hki_tune_points *points, hki_tuning *tuning);
/* For people: figures, how sure they are, and how well they fit. */
void hki_tune_report(FILE *out, const hki_tuning *tuning);

#endif

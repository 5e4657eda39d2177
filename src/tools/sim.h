/* hocket sim: what is asked for, what comes out, and the forms in which it is shown. */
#ifndef HKI_TOOLS_SIM_H
#define HKI_TOOLS_SIM_H

#include "sim/sim.h"

#include <stdio.h>

/* The command line. */
typedef struct hki_sim_request {
    hki_collective collective;
    const char *algorithms;   /* comma-separated; NULL: all that can serve */
    const char *topology;     /* file; NULL: equal hosts, as follows */
    uint32_t hosts, per_host; /* of a file: only these of its ranks; 0: not given */
    uint32_t capacity;        /* cores of a host; 0: as many as ranks */
    uint32_t segments;        /* 0: what fits the size */
    uint32_t root, top;
    uint64_t bytes;
    hk_type type;
    hk_op op;
    hki_figures figures;
    const char *figures_name;
    const char *json, *timeline, *svg;
} hki_sim_request;

/* An algorithm that was tried. */
typedef struct hki_sim_candidate {
    const hki_algorithm *algorithm;
    uint32_t segments;
    bool fewer;    /* segments than fit the size, which would have been too many steps */
    char *skipped; /* why it was not simulated; NULL: it was */
    uint64_t total_ps;
    hki_sim_path path;
    uint64_t steps, messages, busiest_bytes;
} hki_sim_candidate;

typedef struct hki_sim_study {
    const hki_sim_request *request;
    hki_cluster *cluster;
    hki_model model;
    hki_sim_candidate *candidates;
    size_t count;
    size_t best;  /* of the candidates; meaningful if there is a simulation */
    hki_sim *sim; /* of the best one, recorded; NULL: there is none */
} hki_sim_study;

/* Reads the command line; *help if that was asked for. False, after a message on stderr: it is wrong. */
bool hki_sim_command_line(int argc, char **argv, hki_sim_request *request, bool *help);
void hki_sim_usage(FILE *out);

/* Makes the cluster and simulates the candidates. */
hk_status hki_sim_study_run(const hki_sim_request *request, hki_sim_study *study);
void hki_sim_study_free(hki_sim_study *study);

/* For people. */
void hki_sim_report(FILE *out, const hki_sim_study *study);
/* For programs. */
void hki_sim_json(FILE *out, const hki_sim_study *study);
/* Chrome's trace format: for Perfetto and chrome://tracing. */
hk_status hki_sim_timeline(FILE *out, const hki_sim_study *study);
/* A picture. */
hk_status hki_sim_picture(FILE *out, const hki_sim_study *study);

/* ---- what the forms share ---- */

/* The candidates that were simulated, the fastest first, into an array of study->count; returns how many. */
size_t hki_sim_ranking(const hki_sim_study *study, const hki_sim_candidate **ranking);

/* Some of the ranks, in order: neighbours from rank 0 on, the root, the one that ends last, and others evenly, as few
 * as `steps` steps in all allow, but at least 8 (or all). Returns how many. */
uint32_t hki_sim_sample(const hki_sim *sim, uint64_t steps, uint32_t *ranks, uint32_t room);

/* What a rank's core and its two ways did, for pictures: stretches that do not overlap within a lane, in order. */
typedef enum hki_sim_lane { HKI_SIM_CORE, HKI_SIM_OUT, HKI_SIM_IN, HKI_SIM_LANES } hki_sim_lane;

typedef struct hki_sim_stretch {
    uint64_t begin_ps, end_ps;
    uint32_t step;
    hki_sim_lane lane;
    hki_sim_leg_kind kind;
} hki_sim_stretch;

/* All of a rank, by lane and then by time; to be freed by the caller. HK_ERR_NO_MEMORY. */
hk_status hki_sim_stretches(const hki_sim *sim, uint32_t rank, hki_sim_stretch **stretches, uint32_t *count);

/* A shared resource, and how many of its kind have the same load, itself included. */
typedef struct hki_sim_link {
    uint32_t resource, alike;
} hki_sim_link;

/* The busiest first; returns how many of at most `room`. */
uint32_t hki_sim_busiest(const hki_sim_study *study, hki_sim_link *links, uint32_t room);
/* "out of host 3 and 7 like it". */
void hki_sim_link_text(const hki_sim_study *study, const hki_sim_link *link, char *text, size_t room);
/* "1.25 ms": four significant digits. */
const char *hki_sim_time_text(uint64_t ps, char *text, size_t room);
/* "MESSAGE" … as a word: "message". */
const char *hki_sim_leg_name(hki_sim_leg_kind kind);

#endif

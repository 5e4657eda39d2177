/* hocket explain: what is asked for, what comes out, and the forms in which it is shown. */
#ifndef HKI_TOOLS_EXPLAIN_H
#define HKI_TOOLS_EXPLAIN_H

#include "cost/explain.h"

#include <stdio.h>

enum { HKI_EXPLAIN_RANKS = 1 << 16 }; /* at most: schedules of as many steps are walked */

/* The command line. */
typedef struct hki_explain_request {
    hki_collective collective;
    const char *topology;  /* file; NULL: equal hosts, or this one */
    uint32_t ranks;        /* 0: not given */
    uint32_t hosts;        /* equal ones; 0: this host */
    uint32_t capacity;     /* ranks that can run at once on a host; 0: as many as there are ranks, or as this one has */
    const char *transport; /* NULL: not given */
    uint32_t root, rank;
    uint64_t bytes;
    hk_type type;
    hk_op op;
    hki_figures figures;
    bool schedule;
    const char *plot, *json;
} hki_explain_request;

/* The choice is a job's, by the very function by which jobs choose. The candidates are all that could serve, walked in
 * full and for the size itself: what a job spares itself. */
typedef struct hki_explanation {
    const hki_explain_request *request;
    hki_cluster *cluster;
    hki_chooser *chooser;
    hki_choice choice;
    hki_question question;                             /* about the candidates */
    hki_candidate candidates[HKI_CANDIDATES_MOST + 1]; /* the one chosen first, then the best first */
    uint32_t count;
    hki_crossover crossovers[HKI_CROSSOVERS_MOST];
    uint32_t crossover_count;
} hki_explanation;

/* Reads the command line; *help if that was asked for. False, after a message on stderr: it is wrong. */
bool hki_explain_command_line(int argc, char **argv, hki_explain_request *request, bool *help);
void hki_explain_usage(FILE *out);

/* Makes the cluster, chooses, and prices all that could serve. HK_ERR_ARGUMENT, HK_ERR_SETTING: what is wrong is said;
 * HK_ERR_UNSUPPORTED: HOCKET_ALGORITHM leaves nothing that can serve, as a job would say. */
hk_status hki_explain(const hki_explain_request *request, hki_explanation *explanation);
void hki_explanation_free(hki_explanation *explanation);
/* The candidates for another size, fully priced: for pictures. */
hk_status hki_explain_size(const hki_explanation *explanation, uint64_t bytes,
                           hki_candidate candidates[HKI_CANDIDATES_MOST], uint32_t *count);

/* The cluster that the request is about. */
hk_status hki_explain_cluster(const hki_explain_request *request, hki_cluster **cluster);

/* Puts what a device of this host reports in place of built-in figures, if it is about verbs. What is not there leaves
 * them as they are. HK_ERR_NO_MEMORY, HK_ERR_SETTING. */
hk_status hki_explain_ports(hki_explain_request *request);

/* For people; for programs; the steps of one rank; a picture of all candidates over sizes, by gnuplot. */
void hki_explain_report(FILE *out, const hki_explanation *explanation);
void hki_explain_json(FILE *out, const hki_explanation *explanation);
hk_status hki_explain_schedule(FILE *out, const hki_explanation *explanation);
hk_status hki_explain_plot(FILE *out, const hki_explanation *explanation);

/* Which kinds of links there are between ranks of the cluster: bit per hki_link_class. */
uint32_t hki_explain_links(const hki_cluster *cluster);

#endif

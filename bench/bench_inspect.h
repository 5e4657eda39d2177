/* How Hocket carried out what was measured: asked inside the library, since a program has no use for it. */
#ifndef HKI_BENCH_INSPECT_H
#define HKI_BENCH_INSPECT_H

#include "bench/bench_cell.h"
#include "cost/candidate.h"

/* Name of the algorithm of comm's last collective; "" if there was none. The argument is an hk_comm. */
const char *hki_bench_algorithm(void *comm);

/* The algorithms that could serve a cell, the one that is chosen first, priced for its size. */
typedef struct hki_bench_candidates {
    hki_collective collective;
    hki_candidate items[HKI_CANDIDATES_MOST + 1];
    int count;
    int correct; /* for the caller */
} hki_bench_candidates;

/* False after a message on stderr: the cell is no collective, nothing can serve it, or there is no memory. */
bool hki_bench_candidates_find(hk_comm *comm, const hki_bench_cell *cell, hki_bench_candidates *candidates);

/* What speaks for the algorithm that is chosen for a cell, by the cost model, and what one call should take: "direct,
 * 52.3 us: alpha 1, beta 92 ... %; next ring, 52.3 us". Empty and 0 for messages between two ranks. */
void hki_bench_why(hk_comm *comm, const hki_bench_cell *cell, char *text, size_t room, double *predicted_us);

/* What the simulator says that one call by the chosen algorithm takes, in µs, by the job's cluster and figures. 0: too
 * many steps to be simulated in passing, or a failure (reported on stderr). */
double hki_bench_simulated(hk_comm *comm, const hki_bench_cell *cell);

/* Is there such an algorithm for the collective? If not, `known` names those that there are, separated by commas. */
bool hki_bench_algorithm_known(hki_bench_kind kind, const char *algorithm, char *known, size_t room);

/* Names of the transports over which comm's other ranks are reached, joined by "+", written to text; "self" when there
 * are no other ranks. Returns the name. */
const char *hki_bench_transport(const hk_comm *comm, char *text, size_t room);

#endif

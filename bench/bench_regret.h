/*
 * How good the choice of an algorithm is: every candidate is measured, in turn, and what was chosen compared with what
 * is best. A minimum over noisy candidates is biased, so the best is picked on odd rounds and its time taken from the
 * even ones; candidates whose 95 % intervals overlap are equal.
 */
#ifndef HKI_BENCH_REGRET_H
#define HKI_BENCH_REGRET_H

#include "bench/bench_loop.h"

#include <stdint.h>
#include <stdio.h>

enum { HKI_BENCH_RIVALS = 33, HKI_BENCH_ROUNDS = 64 };

/* A candidate, and its times. */
typedef struct hki_bench_rival {
    const char *algorithm;
    uint32_t segments;
    double predicted_us;
    double odd_us, even_us; /* medians of odd and of even rounds */
    double low_us, high_us; /* of the latter, 95 % */
    double us[HKI_BENCH_ROUNDS];
} hki_bench_rival;

typedef struct hki_bench_regret {
    hki_bench_rival rivals[HKI_BENCH_RIVALS]; /* the chosen one first */
    int count, rounds;
    int best;     /* index of the best of odd rounds; 0 if that is as good as the chosen one */
    double value; /* even rounds: time of the chosen one / time of the best - 1; 0 where they are equal */
} hki_bench_regret;

/* Fills in what follows from the rivals' times. */
void hki_bench_regret_judge(hki_bench_regret *regret);

/* Measures all candidates of a cell; collective over comm (an hk_comm). `result` gets the times of the chosen one.
 * 0; or 1 after a failure (reported on stderr). */
int hki_bench_regret_measure(hk_comm *comm, const hki_bench_library *library, const hki_bench_cell *cell,
                             const hki_bench_effort *effort, const hki_bench_buffers *buffers, hki_bench_regret *regret,
                             hki_bench_result *result);

/* Over cells. */
typedef struct hki_bench_regrets {
    double *values;    /* of each cell */
    double *ratios;    /* predicted / measured */
    double *simulated; /* simulated / measured */
    double *tuned;     /* as `ratios`, of the cells that were measured in the state of the figures: bench_state.h */
    long count, room;
    long simulations; /* of the cells, so many could be simulated */
    long in_state;    /* … and so many were measured in that state */
    long again;       /* cells that were measured more than once for that; for the caller to count */
} hki_bench_regrets;

/* False: no memory. */
bool hki_bench_regrets_add(hki_bench_regrets *regrets, const hki_bench_regret *regret, const hki_bench_result *result);
/* "regret: median 0.0 %, 90th percentile 4.1 %, ...", how far off prediction and simulation were, and what the state of
 * the machine had to do with it. */
void hki_bench_regrets_print(FILE *out, hki_bench_regrets *regrets);
void hki_bench_regrets_free(hki_bench_regrets *regrets);

#endif

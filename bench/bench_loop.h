/*
 * The measuring loop, the same for every library that is measured: what differs between libraries is an adapter.
 *
 * A sample is taken so: inputs are rewritten (a constant input stays in the peers' caches and flatters whoever reads it
 * from there), the ranks meet in a barrier, and the time from leaving it to having made `batch` calls is taken. Calls
 * faster than 10 µs are made in batches long enough to be timed; each call of a batch then reads a rewritten input of
 * its own while these fit in a cache. A sample's value is the maximum over the ranks, divided by the batch.
 */
#ifndef HKI_BENCH_LOOP_H
#define HKI_BENCH_LOOP_H

#include "bench/bench_cell.h"
#include "bench/bench_stats.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A library, as the loop sees it. Functions return 0, or anything else after a failure whose text error() gives. */
typedef struct hki_bench_library {
    const char *name;
    void *context;
    int rank, ranks;
    void *in_place; /* stands for the buffer argument that an in-place call leaves out */
    /* Called once before a cell's calls; may be NULL. */
    int (*prepare)(void *context, const hki_bench_cell *cell);
    /* One blocking call of the cell; recv may be NULL where there is no output. pingpong: there and back. */
    int (*call)(void *context, const hki_bench_cell *cell, void *send, void *recv);
    int (*barrier)(void *context);
    /* Element by element the maximum over all ranks, on all ranks. */
    int (*maximum)(void *context, double *values, int count);
    const char *(*error)(void *context);
    /* Memory for buffers, 64-byte aligned; NULL functions: malloc'ed. */
    void *(*allocate)(void *context, size_t bytes);
    void (*release)(void *context, void *memory);
    /* Meets all ranks without disturbing what the library remembers of its last call: for paced samples, else NULL. */
    int (*pace)(void *pacer);
    void *pacer;
    /* How the calls just made were carried out; may be NULL, and may return NULL. */
    const char *(*algorithm)(void *context);
} hki_bench_library;

/* How long and how often. */
typedef struct hki_bench_effort {
    double box;      /* seconds that a cell may take, warm-up apart */
    long iterations; /* timed calls; 0 = as many as fit in the box */
    long warmup;     /* calls before; -1 = the loop's choice */
    bool constant;   /* inputs are written once */
    bool paced;      /* where ranks could run ahead, each call of a batch is followed by a meeting, whose time is
                        taken off: what one call takes that begins when all are ready */
    bool check;      /* the result is compared with the serial reference, before and after the timed calls */
} hki_bench_effort;

/* Buffers that serve every cell of a run: fresh pages would be measured otherwise. */
typedef struct hki_bench_buffers {
    unsigned char *input, *output;
    size_t input_bytes, output_bytes;
} hki_bench_buffers;

typedef struct hki_bench_result {
    hki_bench_times time; /* µs of one call (pingpong: one way) */
    long batch, samples;
    int correct; /* 1, 0; -1 = not checked */
    char algorithm[64];
    /* Set by who knows the library: */
    char why[192];                         /* what speaks for the algorithm; "" = unknown */
    double predicted_us;                   /* of one call; 0 = unknown */
    double simulated_us;                   /* the same, by the simulator; with --regret */
    double state;                          /* of the machine meanwhile: see bench_state.h; 0 = unknown */
    const struct hki_bench_regret *regret; /* of --regret; NULL otherwise */
} hki_bench_result;

/* Makes buffers that are large enough for every cell of at most `input` and `output` bytes. False: no memory. */
bool hki_bench_buffers_make(const hki_bench_library *library, size_t input, size_t output, hki_bench_buffers *buffers);
void hki_bench_buffers_free(const hki_bench_library *library, hki_bench_buffers *buffers);

/* Measures one cell; collective over all ranks. 0; or 1 after a failure (reported on stderr by the rank that sees it).
 * A wrong result is not a failure: `correct` says so on every rank. */
int hki_bench_measure(const hki_bench_library *library, const hki_bench_cell *cell, const hki_bench_effort *effort,
                      const hki_bench_buffers *buffers, hki_bench_result *result);

/* One of several ways to carry out a cell, which are sampled in turn. Borrows what it is given. */
typedef struct hki_bench_turn hki_bench_turn;

/* Warms up and chooses how many calls a sample has; collective over all ranks. NULL after a failure, as above. */
hki_bench_turn *hki_bench_turn_new(const hki_bench_library *library, const hki_bench_cell *cell,
                                   const hki_bench_effort *effort, const hki_bench_buffers *buffers);
void hki_bench_turn_free(hki_bench_turn *turn);
/* Takes a sample: µs of one call on this rank. 0; or 1 after a failure, as above. */
int hki_bench_turn_sample(hki_bench_turn *turn, double *us);
/* One call on values that are checked, on all ranks: *correct becomes 0 if it was wrong on any. 0, or 1 as above. */
int hki_bench_turn_check(hki_bench_turn *turn, int *correct);
/* Calls of a sample, and what a whole round of one takes, rewriting included: seconds. */
long hki_bench_turn_batch(const hki_bench_turn *turn);
double hki_bench_turn_round(const hki_bench_turn *turn);
/* Has it take as many calls a sample as another turn of the same cell does: those that are compared must be measured
 * alike, and a first one that was slow once would otherwise be measured call by call. The same on all ranks. */
void hki_bench_turn_take_batch(hki_bench_turn *turn, long batch);

#ifdef __cplusplus
}
#endif
#endif

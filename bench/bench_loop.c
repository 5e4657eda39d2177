#include "bench/bench_loop.h"

#include "bench/bench_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Guesses that were looked at, not fitted: a batch of 100 µs makes the barrier's skew (≤ 1 µs) ≤ 1 %, and rotated
 * inputs of 512 KiB stay in the L2 cache of current server cores (1 … 2 MiB). */
static const double batch_target = 100e-6, batch_below = 10e-6;
enum { ROTATED_BYTES = 512 * 1024, LINE = 64, MOST_SAMPLES = 4096, MOST_BATCH = 4096, FEWEST_SAMPLES = 3 };

typedef struct loop {
    const hki_bench_library *library;
    const hki_bench_cell *cell;
    const hki_bench_effort *effort;
    const hki_bench_buffers *buffers;
    size_t stride; /* bytes from one rotated input to the next */
    long inputs;   /* number of rotated inputs */
    uint32_t seed;
    const char *algorithm;
} loop;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static size_t lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

static void *allocate(const hki_bench_library *library, size_t bytes)
{
    if (library->allocate != NULL)
        return library->allocate(library->context, bytes);
    return aligned_alloc(LINE, lines(bytes));
}

static void release(const hki_bench_library *library, void *memory)
{
    if (library->allocate == NULL)
        free(memory);
    else if (memory != NULL)
        library->release(library->context, memory);
}

bool hki_bench_buffers_make(const hki_bench_library *library, size_t input, size_t output, hki_bench_buffers *buffers)
{
    /* What fits in a line is not rotated: and a start-up that is measured should not touch pages for nothing. */
    size_t least = input > LINE ? ROTATED_BYTES : LINE;
    buffers->input_bytes = lines(input) > least ? lines(input) : least;
    buffers->output_bytes = lines(output) > LINE ? lines(output) : LINE;
    buffers->input = (unsigned char *)allocate(library, buffers->input_bytes);
    buffers->output = (unsigned char *)allocate(library, buffers->output_bytes);
    if (buffers->input != NULL && buffers->output != NULL) {
        memset(buffers->input, 0, buffers->input_bytes);
        memset(buffers->output, 0, buffers->output_bytes);
        return true;
    }
    hki_bench_buffers_free(library, buffers);
    return false;
}

void hki_bench_buffers_free(const hki_bench_library *library, hki_bench_buffers *buffers)
{
    release(library, buffers->input);
    release(library, buffers->output);
    buffers->input = buffers->output = NULL;
}

/* Says so on stderr; false, so that a caller can pass it on. */
static bool failed(const loop *l, const char *what)
{
    fprintf(stderr, "%s: rank %d: %s of %s, %llu bytes: %s\n", l->library->name, l->library->rank, what,
            hki_bench_traits_of(l->cell->kind)->name, (unsigned long long)l->cell->bytes,
            l->library->error(l->library->context));
    return false;
}

/* The two buffer arguments of the call that uses rotated input i. */
static void arguments(const loop *l, long i, void **send, void **recv)
{
    unsigned char *input = l->buffers->input + (size_t)(i % l->inputs) * l->stride;
    *send = l->cell->send_in_place ? l->library->in_place : input;
    *recv = l->cell->recv_in_place ? l->library->in_place : l->cell->shared ? input : l->buffers->output;
}

static int call(const loop *l, long i)
{
    void *send, *recv;
    arguments(l, i, &send, &recv);
    return l->library->call(l->library->context, l->cell, send, recv);
}

static void rewrite(loop *l, long batch)
{
    long count = batch < l->inputs ? batch : l->inputs;
    l->seed++;
    for (long i = 0; i < count; i++)
        hki_bench_rewrite(l->cell, l->seed + (uint32_t)i, l->buffers->input + (size_t)i * l->stride);
}

/* Can a rank end its part of a call before another has begun? Such calls overlap within a batch. */
static bool runs_ahead(const hki_bench_cell *cell)
{
    return hki_bench_traits_of(cell->kind)->rooted || cell->kind == HKI_BENCH_SCAN || cell->kind == HKI_BENCH_EXSCAN ||
           cell->kind == HKI_BENCH_STREAM;
}

/* Seconds of as many calls, or meetings, or both. */
static bool time_batch(loop *l, long batch, bool calls, bool meetings, double *seconds)
{
    double start = now();
    for (long i = 0; i < batch; i++) {
        if (calls && call(l, i) != 0)
            return failed(l, "call");
        if (meetings && l->library->pace(l->library->pacer) != 0)
            return failed(l, "a meeting between calls");
    }
    *seconds = now() - start;
    return true;
}

/* Seconds that `batch` calls took on this rank. */
static bool sample(loop *l, long batch, double *seconds)
{
    bool paced = l->effort->paced && batch > 1 && l->library->pace != NULL && runs_ahead(l->cell);
    double meetings = 0.0;
    if (!l->effort->constant)
        rewrite(l, batch);
    if (l->library->barrier(l->library->context) != 0)
        return failed(l, "the barrier before");
    if (!time_batch(l, batch, true, paced, seconds))
        return false;
    if (paced && !time_batch(l, batch, false, true, &meetings))
        return false;
    /* A call that hides behind a meeting takes next to nothing, but not less. */
    *seconds = *seconds - meetings > *seconds * 0.01 ? *seconds - meetings : *seconds * 0.01;
    return true;
}

/* The slowest rank's sample, agreed on by all; and what a whole round of sampling took. */
static bool agreed_sample(loop *l, long batch, double *seconds, double *round)
{
    double start = now(), values[2];
    if (!sample(l, batch, &values[0]))
        return false;
    values[1] = now() - start;
    if (l->library->maximum(l->library->context, values, 2) != 0)
        return failed(l, "maximum over ranks of a sample");
    *seconds = values[0];
    *round = values[1];
    return true;
}

static long limited(double value, long low, long high)
{
    return value < (double)low ? low : value > (double)high ? high : (long)value;
}

/* How many calls a batch may have without an input being read twice, if that matters: what fits in a line travels with
 * the message and is never read by a peer. */
static long largest_batch(const loop *l)
{
    uint64_t bytes = l->cell->bytes;
    if (l->effort->constant || bytes <= LINE)
        return MOST_BATCH;
    long fitting = (long)(ROTATED_BYTES / lines(bytes));
    return fitting < 1 ? 1 : fitting;
}

/* The fastest of a few agreed samples: what the calls cost when nothing disturbs them. */
static bool fastest(loop *l, long batch, double *seconds, double *round)
{
    double next[2];
    if (!agreed_sample(l, batch, seconds, round))
        return false;
    for (int i = 1; i < 3 && *round < l->effort->box * 0.1; i++) {
        if (!agreed_sample(l, batch, &next[0], &next[1]))
            return false;
        *seconds = next[0] < *seconds ? next[0] : *seconds;
        *round = next[1] < *round ? next[1] : *round;
    }
    return true;
}

/* Chooses the batch from agreed samples, so that all ranks choose the same. */
static bool choose_batch(loop *l, long *batch, double *round)
{
    long limit = largest_batch(l), n = 1;
    double seconds;
    if (!fastest(l, n, &seconds, round))
        return false;
    if (seconds < batch_below) {
        while (seconds < batch_target * 0.5 && n < limit) {
            double each = seconds / (double)n;
            long wanted = each > 0.0 ? (long)(batch_target / each) + 1 : n * 8;
            n = limited((double)wanted, n + 1, n * 8 < limit ? n * 8 : limit);
            if (!fastest(l, n, &seconds, round))
                return false;
        }
    }
    *batch = n;
    return true;
}

/* Warm-up, and how many samples of how many calls are to be taken. */
static bool prepare(loop *l, long *batch, long *samples)
{
    const hki_bench_effort *effort = l->effort;
    rewrite(l, l->inputs);
    long warmup = effort->warmup >= 0 ? effort->warmup : effort->iterations == 1 ? 1 : 2;
    for (long i = 0; i < warmup; i++)
        if (call(l, i) != 0)
            return failed(l, "warm-up call");
    if (effort->iterations > 0 && effort->iterations <= FEWEST_SAMPLES) {
        *batch = 1;
        *samples = effort->iterations;
        return true;
    }
    double round = 0.0;
    if (!choose_batch(l, batch, &round))
        return false;
    if (effort->iterations > 0) {
        *batch = *batch < effort->iterations ? *batch : effort->iterations;
        *samples = limited((double)effort->iterations / (double)*batch + 0.5, 1, MOST_SAMPLES);
        return true;
    }
    *samples = limited(effort->box / (round > 1e-9 ? round : 1e-9), FEWEST_SAMPLES, MOST_SAMPLES);
    /* The first tenth of the box again, untimed: caches, predictors and adaptive waiting settle. */
    long settle = effort->warmup >= 0 ? 0 : *samples / 10;
    double ignored;
    for (long i = 0; i < settle; i++)
        if (!sample(l, *batch, &ignored))
            return false;
    return true;
}

/* One call on values that can be checked. Sets *correct to whether it was right on all ranks; false after a failure. */
static bool check(loop *l, int *correct)
{
    hki_bench_wrong wrong;
    l->seed++;
    hki_bench_fill(l->cell, l->seed, l->buffers->input);
    if (!l->cell->shared)
        hki_bench_poison(l->cell, l->buffers->output);
    if (call(l, 0) != 0)
        return failed(l, "checked call");
    const void *output = l->cell->shared ? l->buffers->input : l->buffers->output;
    bool right = hki_bench_check(l->cell, l->seed, l->buffers->input, output, &wrong);
    if (!right)
        fprintf(stderr, "%s: rank %d: %s, %llu bytes: %s element %llu is %s, not %s\n", l->library->name,
                l->library->rank, hki_bench_traits_of(l->cell->kind)->name, (unsigned long long)l->cell->bytes,
                wrong.in_input ? "input" : "output", (unsigned long long)wrong.index, wrong.found, wrong.expected);
    double worst = right ? 0.0 : 1.0;
    if (l->library->maximum(l->library->context, &worst, 1) != 0)
        return failed(l, "maximum over ranks after a check");
    *correct = *correct != 0 && worst == 0.0;
    return true;
}

/* Takes up to `wanted` samples; fewer, when the box turns out to be used up: looked at by all ranks together. */
static bool fill_box(loop *l, long batch, long wanted, double *seconds, long *taken)
{
    long piece = l->effort->iterations > 0 ? wanted : wanted / 8 > 1 ? wanted / 8 : 1;
    double start = now(), elapsed = 0.0;
    *taken = 0;
    while (*taken < wanted && (*taken < FEWEST_SAMPLES || elapsed < l->effort->box)) {
        for (long i = 0; i < piece && *taken < wanted; i++, (*taken)++)
            if (!sample(l, batch, &seconds[*taken]))
                return false;
        elapsed = now() - start;
        /* Asked before anything else is called, which would be the last operation then. */
        if (l->library->algorithm != NULL)
            l->algorithm = l->library->algorithm(l->library->context);
        if (l->library->maximum(l->library->context, &elapsed, 1) != 0)
            return failed(l, "maximum over ranks of the time used");
    }
    return true;
}

static bool take_samples(loop *l, long batch, long wanted, double *seconds, hki_bench_result *result)
{
    long taken;
    if (!fill_box(l, batch, wanted, seconds, &taken))
        return false;
    snprintf(result->algorithm, sizeof result->algorithm, "%s", l->algorithm != NULL ? l->algorithm : "");
    if (l->library->maximum(l->library->context, seconds, (int)taken) != 0)
        return failed(l, "maximum over ranks of the samples");
    double calls = (double)batch * (l->cell->kind == HKI_BENCH_PINGPONG ? 2.0 : 1.0);
    for (long i = 0; i < taken; i++)
        seconds[i] *= 1e6 / calls;
    result->time = hki_bench_summarise(seconds, (size_t)taken);
    result->batch = batch;
    result->samples = taken;
    return true;
}

static loop loop_of(const hki_bench_library *library, const hki_bench_cell *cell, const hki_bench_effort *effort,
                    const hki_bench_buffers *buffers)
{
    loop l = {library, cell, effort, buffers, 0, 1, 0, NULL};
    /* All ranks rotate alike, though the root's extent may differ: by the size that they have in common. */
    l.stride = lines(cell->bytes > 0 ? (size_t)cell->bytes : 1);
    l.inputs = effort->constant || cell->bytes <= LINE ? 1 : largest_batch(&l);
    return l;
}

int hki_bench_measure(const hki_bench_library *library, const hki_bench_cell *cell, const hki_bench_effort *effort,
                      const hki_bench_buffers *buffers, hki_bench_result *result)
{
    loop l = loop_of(library, cell, effort, buffers);
    memset(result, 0, sizeof *result);
    result->correct = effort->check ? 1 : -1;
    if (library->prepare != NULL && library->prepare(library->context, cell) != 0) {
        (void)failed(&l, "preparation");
        return 1;
    }
    if (effort->check && !check(&l, &result->correct))
        return 1;
    long batch = 1, samples = 1;
    if (!prepare(&l, &batch, &samples))
        return 1;
    double *seconds = (double *)malloc((size_t)samples * sizeof *seconds);
    if (seconds == NULL) {
        fprintf(stderr, "%s: rank %d: no memory for %ld samples\n", library->name, library->rank, samples);
        return 1;
    }
    bool done = take_samples(&l, batch, samples, seconds, result);
    free(seconds);
    if (done && effort->check)
        done = check(&l, &result->correct);
    return done ? 0 : 1;
}

/* ---- in turn with others ---- */

struct hki_bench_turn {
    loop l;
    long batch;
    double round;
};

hki_bench_turn *hki_bench_turn_new(const hki_bench_library *library, const hki_bench_cell *cell,
                                   const hki_bench_effort *effort, const hki_bench_buffers *buffers)
{
    hki_bench_turn *turn = (hki_bench_turn *)malloc(sizeof *turn);
    if (turn == NULL) {
        fprintf(stderr, "%s: rank %d: no memory to measure in turn\n", library->name, library->rank);
        return NULL;
    }
    *turn = (hki_bench_turn){loop_of(library, cell, effort, buffers), 1, 0.0};
    bool good =
        library->prepare == NULL || library->prepare(library->context, cell) == 0 || failed(&turn->l, "preparation");
    rewrite(&turn->l, turn->l.inputs);
    for (int i = 0; i < 2 && good; i++)
        good = call(&turn->l, i) == 0 || failed(&turn->l, "warm-up call");
    if (good && choose_batch(&turn->l, &turn->batch, &turn->round))
        return turn;
    free(turn);
    return NULL;
}

void hki_bench_turn_free(hki_bench_turn *turn)
{
    free(turn);
}

int hki_bench_turn_sample(hki_bench_turn *turn, double *us)
{
    double seconds;
    if (!sample(&turn->l, turn->batch, &seconds))
        return 1;
    *us = seconds * 1e6 / (double)turn->batch / (turn->l.cell->kind == HKI_BENCH_PINGPONG ? 2.0 : 1.0);
    return 0;
}

int hki_bench_turn_check(hki_bench_turn *turn, int *correct)
{
    return check(&turn->l, correct) ? 0 : 1;
}

long hki_bench_turn_batch(const hki_bench_turn *turn)
{
    return turn->batch;
}

double hki_bench_turn_round(const hki_bench_turn *turn)
{
    return turn->round;
}

void hki_bench_turn_take_batch(hki_bench_turn *turn, long batch)
{
    turn->round *= (double)batch / (double)turn->batch;
    turn->batch = batch;
}

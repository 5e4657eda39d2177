#include "bench/bench_regret.h"

#include "bench/bench_inspect.h"
#include "bench/bench_state.h"
#include "cost/select.h"

#include <stdlib.h>
#include <string.h>

enum { FEWEST_ROUNDS = 10 };

/* ---- judging ---- */

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The samples of odd (1) or even (0) rounds, sorted; rounds are counted from 1. Returns how many. */
static size_t take_rounds(const hki_bench_rival *rival, int rounds, int odd, double *samples)
{
    size_t count = 0;
    for (int i = 0; i < rounds; i++)
        if ((i + 1) % 2 == odd)
            samples[count++] = rival->us[i];
    qsort(samples, count, sizeof *samples, ascending);
    return count;
}

static void summarise(hki_bench_rival *rival, int rounds)
{
    double samples[HKI_BENCH_ROUNDS];
    size_t count = take_rounds(rival, rounds, 1, samples);
    rival->odd_us = hki_bench_quantile(samples, count, 0.5);
    count = take_rounds(rival, rounds, 0, samples);
    rival->even_us = hki_bench_quantile(samples, count, 0.5);
    hki_bench_median_interval(samples, count, &rival->low_us, &rival->high_us);
}

void hki_bench_regret_judge(hki_bench_regret *regret)
{
    const hki_bench_rival *chosen = &regret->rivals[0];
    regret->best = 0;
    regret->value = 0;
    for (int i = 0; i < regret->count; i++) {
        summarise(&regret->rivals[i], regret->rounds);
        if (regret->rivals[i].odd_us < regret->rivals[regret->best].odd_us)
            regret->best = i;
    }
    const hki_bench_rival *best = &regret->rivals[regret->best];
    if (regret->count == 0 || best->high_us >= chosen->low_us)
        regret->best = 0;
    else if (best->even_us > 0)
        regret->value = chosen->even_us / best->even_us - 1;
}

/* ---- measuring ---- */

typedef struct contest {
    hk_comm *comm;
    const hki_bench_library *library;
    const hki_bench_cell *cell;
    const hki_bench_effort *effort;
    const hki_bench_buffers *buffers;
    hki_bench_regret *regret;
    hki_bench_candidates candidates;
    hki_bench_library libraries[HKI_BENCH_RIVALS]; /* the same, each on a communicator of its own … */
    hk_comm *comms[HKI_BENCH_RIVALS];              /* … which remembers its own last call */
    hki_bench_turn *turns[HKI_BENCH_RIVALS];
} contest;

static void force(const contest *c, int rival)
{
    const hki_candidate *candidate = rival >= 0 ? &c->candidates.items[rival] : NULL;
    hki_select_force(c->candidates.collective, candidate ? candidate->algorithm : NULL,
                     candidate ? candidate->segments : 0);
}

static bool open_rival(contest *c, int i)
{
    const hki_candidate *candidate = &c->candidates.items[i];
    hki_bench_rival *rival = &c->regret->rivals[i];
    *rival = (hki_bench_rival){.algorithm = candidate->algorithm->name,
                               .segments = candidate->segments,
                               .predicted_us = (double)candidate->price.total_ps / 1e6};
    if (hk_comm_dup(c->comm, &c->comms[i]) != HK_OK) {
        fprintf(stderr, "hocket bench: rank %d: %s\n", c->library->rank, hk_last_error());
        return false;
    }
    c->libraries[i] = *c->library;
    c->libraries[i].context = c->comms[i];
    force(c, i);
    c->turns[i] = hki_bench_turn_new(&c->libraries[i], c->cell, c->effort, c->buffers);
    return c->turns[i] && (!c->effort->check || hki_bench_turn_check(c->turns[i], &c->candidates.correct) == 0);
}

/* As many calls as the fastest needs to be timed. */
static void take_one_batch(contest *c)
{
    long most = 1;
    for (int i = 0; i < c->regret->count; i++)
        most = hki_bench_turn_batch(c->turns[i]) > most ? hki_bench_turn_batch(c->turns[i]) : most;
    for (int i = 0; i < c->regret->count; i++)
        hki_bench_turn_take_batch(c->turns[i], most);
}

/* So many that a cell takes its time: agreed, since each rank has its own measure of it. Even. */
static bool agree_on_rounds(contest *c)
{
    double round = 0, rounds;
    for (int i = 0; i < c->regret->count; i++)
        round += hki_bench_turn_round(c->turns[i]);
    rounds = c->effort->iterations > 0 ? (double)c->effort->iterations : c->effort->box / (round > 1e-9 ? round : 1e-9);
    rounds = rounds < FEWEST_ROUNDS ? FEWEST_ROUNDS : rounds > HKI_BENCH_ROUNDS ? HKI_BENCH_ROUNDS : rounds;
    if (c->library->maximum(c->library->context, &rounds, 1) != 0)
        return false;
    c->regret->rounds = (int)rounds / 2 * 2;
    return true;
}

/* Each round begins with another rival, so that none always follows the same one. */
static bool run_rounds(contest *c)
{
    int count = c->regret->count;
    for (int round = 0; round < c->regret->rounds; round++)
        for (int k = 0; k < count; k++) {
            int i = (round + k) % count;
            force(c, i);
            if (hki_bench_turn_sample(c->turns[i], &c->regret->rivals[i].us[round]) != 0)
                return false;
        }
    force(c, -1);
    for (int i = 0; i < count; i++)
        if (c->library->maximum(c->library->context, c->regret->rivals[i].us, c->regret->rounds) != 0)
            return false;
    return true;
}

static void fill_result(const contest *c, hki_bench_result *result)
{
    double samples[HKI_BENCH_ROUNDS];
    const hki_bench_regret *regret = c->regret;
    memcpy(samples, regret->rivals[0].us, sizeof samples);
    memset(result, 0, sizeof *result);
    result->time = hki_bench_summarise(samples, (size_t)regret->rounds);
    result->batch = hki_bench_turn_batch(c->turns[0]);
    result->samples = regret->rounds;
    result->correct = c->effort->check ? c->candidates.correct : -1;
    snprintf(result->algorithm, sizeof result->algorithm, "%s", regret->rivals[0].algorithm);
    result->regret = regret;
}

static bool close_rivals(contest *c)
{
    bool good = true;
    force(c, -1);
    for (int i = 0; i < HKI_BENCH_RIVALS; i++) {
        hki_bench_turn_free(c->turns[i]);
        if (c->comms[i] && hk_comm_free(c->comms[i]) != HK_OK)
            good = false;
    }
    return good;
}

int hki_bench_regret_measure(hk_comm *comm, const hki_bench_library *library, const hki_bench_cell *cell,
                             const hki_bench_effort *effort, const hki_bench_buffers *buffers, hki_bench_regret *regret,
                             hki_bench_result *result)
{
    contest *c = calloc(1, sizeof *c);
    if (!c) {
        fprintf(stderr, "hocket bench: rank %d: no memory for candidates\n", library->rank);
        return 1;
    }
    *c = (contest){comm, library, cell, effort, buffers, regret, .candidates = {.correct = 1}};
    bool good = hki_bench_candidates_find(comm, cell, &c->candidates);
    regret->count = 0;
    for (int i = 0; good && i < c->candidates.count; i++) {
        regret->count = i + 1;
        good = open_rival(c, i);
    }
    if (good)
        take_one_batch(c);
    good = good && agree_on_rounds(c) && run_rounds(c);
    if (good) {
        hki_bench_regret_judge(regret);
        fill_result(c, result);
    }
    good = close_rivals(c) && good;
    free(c);
    return good ? 0 : 1;
}

/* ---- over cells ---- */

static bool grow(double **values, long room)
{
    double *grown = realloc(*values, (size_t)room * sizeof *grown);
    if (grown)
        *values = grown;
    return grown != NULL;
}

bool hki_bench_regrets_add(hki_bench_regrets *regrets, const hki_bench_regret *regret, const hki_bench_result *result)
{
    double measured = result->time.p50;
    if (regrets->count == regrets->room) {
        long room = 2 * regrets->room + 64;
        if (!grow(&regrets->values, room) || !grow(&regrets->ratios, room) || !grow(&regrets->simulated, room) ||
            !grow(&regrets->tuned, room))
            return false;
        regrets->room = room;
    }
    regrets->values[regrets->count] = regret->value;
    regrets->ratios[regrets->count] = measured > 0 ? result->predicted_us / measured : 0;
    if (hki_bench_state_is_tuned(result->state))
        regrets->tuned[regrets->in_state++] = regrets->ratios[regrets->count];
    regrets->count++;
    if (result->simulated_us > 0 && measured > 0)
        regrets->simulated[regrets->simulations++] = result->simulated_us / measured;
    return true;
}

/* What ratios to the measured times say. */
typedef struct accuracy {
    double median, off; /* median of the ratios, and of what they are off by, in parts of the measured time */
    double within;      /* per cent of them */
} accuracy;

static const double low = 0.7, high = 1.5;

/* Leaves the errors where the ratios were. */
static accuracy judge_ratios(double *ratios, size_t count)
{
    accuracy found = {0};
    qsort(ratios, count, sizeof *ratios, ascending);
    found.median = hki_bench_quantile(ratios, count, 0.5);
    for (size_t i = 0; i < count; i++) {
        found.within += ratios[i] >= low && ratios[i] <= high ? 100.0 / (double)count : 0;
        ratios[i] = ratios[i] < 1 ? 1 - ratios[i] : ratios[i] - 1;
    }
    qsort(ratios, count, sizeof *ratios, ascending);
    found.off = hki_bench_quantile(ratios, count, 0.5);
    return found;
}

static void print_state(FILE *out, hki_bench_regrets *regrets)
{
    if (regrets->again == 0 && regrets->in_state == regrets->count)
        return;
    accuracy tuned = judge_ratios(regrets->tuned, (size_t)regrets->in_state);
    fprintf(
        out,
        "# the machine was in another state than its figures in %ld of %ld cells (%ld were measured again for that); "
        "in the others predicted / measured: median %.2f, within %.1f ... %.1f in %.0f %%\n",
        regrets->count - regrets->in_state, regrets->count, regrets->again, tuned.median, low, high, tuned.within);
}

void hki_bench_regrets_print(FILE *out, hki_bench_regrets *regrets)
{
    size_t count = (size_t)regrets->count;
    if (count == 0)
        return;
    qsort(regrets->values, count, sizeof *regrets->values, ascending);
    accuracy predicted = judge_ratios(regrets->ratios, count);
    accuracy simulated = judge_ratios(regrets->simulated, (size_t)regrets->simulations);
    if (regrets->simulations > 0)
        fprintf(
            out,
            "# simulated / measured: median %.2f, within %.1f ... %.1f in %.0f %% of %ld cells; off by, in the median: "
            "predicted %.0f %%, simulated %.0f %%\n",
            simulated.median, low, high, simulated.within, regrets->simulations, 100 * predicted.off,
            100 * simulated.off);
    print_state(out, regrets);
    fprintf(
        out,
        "# regret over %zu cells: median %.1f %%, 90th percentile %.1f %%, most %.1f %%; predicted / measured: median "
        "%.2f, within %.1f ... %.1f in %.0f %% of the cells\n",
        count, 100 * hki_bench_quantile(regrets->values, count, 0.5),
        100 * hki_bench_quantile(regrets->values, count, 0.9), 100 * regrets->values[count - 1], predicted.median, low,
        high, predicted.within);
}

void hki_bench_regrets_free(hki_bench_regrets *regrets)
{
    free(regrets->values);
    free(regrets->ratios);
    free(regrets->simulated);
    free(regrets->tuned);
    *regrets = (hki_bench_regrets){0};
}

#include "bench/bench_state.h"

#include "bench/bench_inspect.h"
#include "comm/comm.h"

#include <stdio.h>
#include <time.h>

static const double at_once = 3;      /* seconds that may be waited before any cell has taken its time */
static const double most_at_once = 3; /* … and for one cell */
static const double tolerance = 1.35; /* prices of barriers are exact to some 20 % */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool complain(const hk_comm *comm)
{
    fprintf(stderr, "hocket bench: rank %d: the state of the machine: %s\n", hk_comm_rank(comm), hk_last_error());
    return false;
}

/* Has each rank a CPU of its own? */
static bool is_roomy(const hk_comm *comm)
{
    for (uint32_t host = 0; host < comm->cluster->host_count; host++)
        if (comm->cluster->hosts[host].ranks > comm->cluster->hosts[host].capacity)
            return false;
    return true;
}

bool hki_bench_state_open(hk_comm *comm, hki_bench_state *state)
{
    const hki_bench_request request = {
        .kind = HKI_BENCH_BARRIER, .rank = hk_comm_rank(comm), .ranks = hk_comm_size(comm), .type = HK_FLOAT32};
    hki_bench_cell barrier;
    char why[192];
    *state = (hki_bench_state){.allowance = at_once};
    if (hk_comm_dup(comm, &state->comm) != HK_OK)
        return complain(comm);
    if (!is_roomy(comm) || !hki_bench_cell_make(&request, &barrier))
        return true;
    hki_bench_why(comm, &barrier, why, sizeof why, &state->expected_us);
    hki_bench_cell_clear(&barrier);
    return true;
}

bool hki_bench_state_close(hki_bench_state *state)
{
    bool good = !state->comm || hk_comm_free(state->comm) == HK_OK;
    *state = (hki_bench_state){.comm = NULL};
    return good;
}

/* The least of a few batches: µs of one barrier on this rank. */
static bool time_barriers(hk_comm *comm, double *least)
{
    enum { BATCHES = 5, CALLS = 32 };
    for (int batch = 0; batch < BATCHES; batch++) {
        double begin = seconds();
        for (int call = 0; call < CALLS; call++)
            if (hk_barrier(comm) != HK_OK)
                return complain(comm);
        double us = (seconds() - begin) * 1e6 / CALLS;
        *least = batch == 0 || us < *least ? us : *least;
    }
    return true;
}

/* With the larger of what the ranks say has `passed`. */
static bool probe(const hki_bench_state *state, double *ratio, double *passed)
{
    double both[2] = {0, *passed};
    if (!time_barriers(state->comm, &both[0]))
        return false;
    if (hk_allreduce(HK_IN_PLACE, both, 2, HK_FLOAT64, HK_MAX, state->comm) != HK_OK)
        return complain(state->comm);
    *ratio = both[0] / state->expected_us;
    *passed = both[1];
    return true;
}

bool hki_bench_state_probe(const hki_bench_state *state, double *ratio)
{
    double passed = 0;
    *ratio = 0;
    return state->expected_us <= 0 || probe(state, ratio, &passed);
}

/* CPUs that are never idle stay where they are; when they wake, their host may bring them together again. */
static void rest(void)
{
    const struct timespec a_while = {.tv_nsec = 20000000};
    nanosleep(&a_while, NULL);
}

bool hki_bench_state_await(hki_bench_state *state, double spent, bool *back)
{
    double begin = seconds(), passed = 0, allowed = state->allowance + spent, ratio = 0;
    if (hk_broadcast(&allowed, 1, HK_FLOAT64, 0, state->comm) != HK_OK)
        return complain(state->comm);
    double most = allowed < most_at_once ? allowed : most_at_once;
    do {
        rest();
        passed = seconds() - begin;
        if (!probe(state, &ratio, &passed))
            return false;
        *back = hki_bench_state_is_tuned(ratio);
    } while (!*back && passed < most);
    state->allowance = allowed - passed;
    return true;
}

bool hki_bench_state_is_tuned(double ratio)
{
    return ratio == 0 || (ratio < tolerance && ratio > 1 / tolerance);
}

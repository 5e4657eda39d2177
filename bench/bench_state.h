/*
 * Whether the machine is in the state in which its figures were measured. The CPUs of a virtual machine are moved by
 * their host, and a cache line may then take four times as long from one to the other for some seconds: what is
 * measured meanwhile says nothing of predictions. A barrier is timed beside each cell, and compared with its price.
 */
#ifndef HKI_BENCH_STATE_H
#define HKI_BENCH_STATE_H

#include <hocket/hocket.h>

#include <stdbool.h>

typedef struct hki_bench_state {
    hk_comm *comm;      /* serves nothing else */
    double expected_us; /* of a barrier, by the figures; 0: the state cannot be told, as where ranks share CPUs */
    double allowance;   /* seconds that may still be waited */
} hki_bench_state;

/* All functions but the last are collective over comm, and false after a failure (reported on stderr). */

bool hki_bench_state_open(hk_comm *comm, hki_bench_state *state);
bool hki_bench_state_close(hki_bench_state *state);

/* What a barrier takes now / what the figures say, the same on all ranks; 0 if the state cannot be told. */
bool hki_bench_state_probe(const hki_bench_state *state, double *ratio);

/* Has all ranks rest until the state is that of the figures, or the allowance is used up: *back says which. It grows by
 * what was `spent` on cells, in seconds, so that a run takes twice as long at most. */
bool hki_bench_state_await(hki_bench_state *state, double spent, bool *back);

/* Is this ratio that of the figures' state? One that cannot be told counts as such. */
bool hki_bench_state_is_tuned(double ratio);

#endif

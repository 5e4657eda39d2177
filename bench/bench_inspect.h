/* How Hocket carried out what was measured: asked inside the library, since a program has no use for it. */
#ifndef HKI_BENCH_INSPECT_H
#define HKI_BENCH_INSPECT_H

#include "bench/bench_cell.h"

/* Name of the algorithm of comm's last collective; "" if there was none. The argument is an hk_comm. */
const char *hki_bench_algorithm(void *comm);

/* What that algorithm costs, as its textbook form: "rounds: 2(P-1); sent: 2(P-1)/P n". Empty for messages between two
 * ranks, and for a name that is no algorithm of the collective. */
void hki_bench_why(hki_bench_kind kind, const char *algorithm, char *text, size_t room);

/* Is there such an algorithm for the collective? If not, `known` names those that there are, separated by commas. */
bool hki_bench_algorithm_known(hki_bench_kind kind, const char *algorithm, char *known, size_t room);

/* Names of the transports over which comm's other ranks are reached, joined by "+", written to text; "self" when there
 * are no other ranks. Returns the name. */
const char *hki_bench_transport(const hk_comm *comm, char *text, size_t room);

#endif

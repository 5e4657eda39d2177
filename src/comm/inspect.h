/* For the benchmark and tests: what a communicator did last, and its context's counters. */
#ifndef HKI_COMM_INSPECT_H
#define HKI_COMM_INSPECT_H

#include <hocket/hocket.h>

#include <stdint.h>

/* Name of the algorithm of the last collective ("" before the first), and its segments. */
const char *hki_comm_last_algorithm(const hk_comm *comm);
uint32_t hki_comm_last_segments(const hk_comm *comm);
/* Name of the transport to a rank ("self" for the caller's own, "none" when there is none). */
const char *hki_comm_transport(const hk_comm *comm, int rank);
/* A counter of the transports by name ("shm.gets"), or of the core: "unexpected_bytes", "unexpected_peak", "sleeps",
 * "plan_hits", "plan_misses", "plan_bytes". UINT64_MAX if unknown. */
uint64_t hki_comm_counter(const hk_comm *comm, const char *name);

#endif

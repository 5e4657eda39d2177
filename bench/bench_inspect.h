/* How Hocket carried out what was measured: asked inside the library, since a program has no use for it. */
#ifndef HKI_BENCH_INSPECT_H
#define HKI_BENCH_INSPECT_H

#include <hocket/hocket.h>

/* Name of the algorithm of comm's last collective; NULL if there was none. The argument is an hk_comm. */
const char *hki_bench_algorithm(void *comm);

/* Name of the transport over which comm's ranks are reached: several joined by "+", "none" for one rank. Valid until
 * the next call. */
const char *hki_bench_transport(hk_comm *comm);

#endif

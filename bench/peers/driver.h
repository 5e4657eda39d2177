/* The program around the measuring loop that every library's driver shares: arguments in, one JSON object a cell out.
 */
#ifndef HKI_BENCH_PEERS_DRIVER_H
#define HKI_BENCH_PEERS_DRIVER_H

#include "bench/bench_loop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a driver's command line says. */
typedef struct hki_peer_options {
    hki_bench_request request; /* rank, ranks and bytes are set for each cell */
    hki_bench_effort effort;
    uint64_t sizes[64];
    int size_count;
    bool mappable;         /* --alloc: memory of the library's own, where it has such */
    const char *transport; /* --transport: how the result is labelled */
} hki_peer_options;

/* Parses --collective NAME --sizes A,B,C [--type T] [--op O] [--root R] [--seconds S per cell] [--iters K] [--warmup W]
 * [--in-place] [--uneven] [--constant] [--check] [--alloc] [--transport NAME]; sizes are bytes. False, after a message
 * on stderr. */
bool hki_peer_parse(int argc, char **argv, hki_peer_options *options);

/* Binds the process to the (local rank modulo usable CPUs)-th CPU it may use, if one of the variables in which
 * launchers tell the local rank is set. To be called before the library starts, which may look at its CPUs. */
void hki_peer_bind(void);

/* Measures every size; rank 0 prints. Collective. Returns the program's exit status. */
int hki_peer_run(const hki_bench_library *library, const hki_peer_options *options);

#ifdef __cplusplus
}
#endif
#endif

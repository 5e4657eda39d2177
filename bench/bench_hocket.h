/* Hocket as the measuring loop sees it, through its public interface only. */
#ifndef HKI_BENCH_HOCKET_H
#define HKI_BENCH_HOCKET_H

#include "bench/bench_loop.h"

/* Fills in the adapter for comm, which stays the caller's. `mappable` takes buffers from hk_alloc instead of malloc. */
void hki_bench_hocket(hk_comm *comm, bool mappable, hki_bench_library *library);

/* Has the library's paced samples meet on `pacer`, a communicator of the same ranks that serves nothing else. */
void hki_bench_hocket_pace(hki_bench_library *library, hk_comm *pacer);

#endif

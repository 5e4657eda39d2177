#include "bench/bench_inspect.h"

#include <stddef.h>

/* Weak, so that the measuring code links without the library's inside, as peers' drivers and tests of it do. */
const char *hki_comm_last_algorithm(const hk_comm *comm) __attribute__((weak));
const char *hki_comm_transports(const hk_comm *comm) __attribute__((weak));

const char *hki_bench_algorithm(void *comm)
{
    return hki_comm_last_algorithm != NULL ? hki_comm_last_algorithm((const hk_comm *)comm) : NULL;
}

const char *hki_bench_transport(hk_comm *comm)
{
    if (hk_comm_size(comm) < 2)
        return "none";
    return hki_comm_transports != NULL ? hki_comm_transports(comm) : "shm";
}

#include "topo/cpu_runs.h"

#include <string.h>

/* The next CPU of the set from `cpu` on; HKI_TOPOLOGY_PUS_MAX: none. */
static uint32_t next(const hki_cpus *cpus, uint32_t cpu)
{
    while (cpu < HKI_TOPOLOGY_PUS_MAX && !hki_cpus_has(cpus, cpu))
        cpu++;
    return cpu;
}

void hki_cpu_runs_make(const hki_cpus *cpus, hki_cpu_runs *runs)
{
    uint32_t at = next(cpus, 0);
    memset(runs, 0, sizeof *runs);
    for (int i = 0; i < HKI_CPU_RUNS_MOST && at < HKI_TOPOLOGY_PUS_MAX; i++) {
        uint32_t following = next(cpus, at + 1), count = 1, last = at;
        uint32_t stride = following < HKI_TOPOLOGY_PUS_MAX ? following - at : 1;
        while (following < HKI_TOPOLOGY_PUS_MAX && following - last == stride) {
            last = following;
            following = next(cpus, following + 1);
            count++;
        }
        runs->run[i] = (hki_cpu_run){(uint16_t)at, (uint16_t)count, (uint16_t)stride};
        at = following;
    }
}

void hki_cpu_runs_add(const hki_cpu_runs *runs, hki_cpus *cpus)
{
    for (int i = 0; i < HKI_CPU_RUNS_MOST; i++) {
        const hki_cpu_run *run = &runs->run[i];
        for (uint32_t n = 0; n < run->count; n++)
            hki_cpus_add(cpus, run->first + n * run->stride);
    }
}

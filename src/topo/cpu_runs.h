/* Sets of CPUs in little room, for exchanges among all ranks: a bit for each CPU that there may be takes 1 KiB. */
#ifndef HKI_TOPO_CPU_RUNS_H
#define HKI_TOPO_CPU_RUNS_H

#include "topo/topology.h"

enum { HKI_CPU_RUNS_MOST = 24 };

/* CPUs first, first + stride, … : `count` of them. */
typedef struct hki_cpu_run {
    uint16_t first, count, stride;
} hki_cpu_run;

/* A core and its sibling, a NUMA node, every second CPU: one or two runs each. */
typedef struct hki_cpu_runs {
    hki_cpu_run run[HKI_CPU_RUNS_MOST]; /* count = 0: no more */
} hki_cpu_runs;

/* Of a set with more runs than fit only the first are kept. */
void hki_cpu_runs_make(const hki_cpus *cpus, hki_cpu_runs *runs);
/* Adds them to a set. From outside: what is no CPU is left out. */
void hki_cpu_runs_add(const hki_cpu_runs *runs, hki_cpus *cpus);

#endif

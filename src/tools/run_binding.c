/*
 * Which CPUs each rank gets. Ranks that follow one another get CPUs that lie close together, since they talk to each
 * other most.
 */
#include "tools/run.h"

#include <errno.h>
#include <stdlib.h>

/* Places in cpus where a unit that is given out as a whole begins: a usable CPU, or a core with all its usable CPUs. */
static unsigned list_units(const hki_topology *topology, bool cores, unsigned *cpus, unsigned *begins)
{
    unsigned units = 0, count = 0, core = UINT32_MAX;
    for (uint32_t i = 0; i < topology->pu_count; i++) {
        const hki_pu *pu = &topology->pus[i];
        if (!pu->usable)
            continue;
        if (!cores || pu->core != core)
            begins[units++] = count;
        core = pu->core;
        cpus[count++] = pu->os;
    }
    begins[units] = count;
    return units;
}

/* An equal share of the units, as they lie, for each of at most as many ranks. */
static void share_out(run_binding *binding, const unsigned *begins, unsigned units, int ranks)
{
    for (int rank = 0; rank <= ranks; rank++)
        binding->first[rank] = begins[(uint64_t)rank * units / (unsigned)ranks];
}

static int compare(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* One CPU for each rank: as many as there are ranks, spread over the host, and given out as they lie; in turn when the
 * ranks are more. */
static bool give_one_each(run_binding *binding, const hki_topology *topology, int ranks)
{
    uint32_t *order = calloc(topology->pu_count, sizeof *order), count = 0;
    if (!order || hki_topology_order(topology, order, &count) != HK_OK) {
        free(order);
        return false;
    }
    uint32_t chosen = count < (uint32_t)ranks ? count : (uint32_t)ranks;
    qsort(order, chosen, sizeof *order, compare);
    for (uint32_t rank = 0; rank <= (uint32_t)ranks; rank++) {
        binding->first[rank] = chosen > 0 ? rank : 0;
        if (chosen > 0 && rank < (uint32_t)ranks)
            binding->cpus[rank] = topology->pus[order[rank % chosen]].os;
    }
    free(order);
    return true;
}

bool run_binding_make(run_binding *binding, const hki_topology *topology, run_bind how, int ranks)
{
    uint32_t cores = hki_topology_usable_cores(topology), pus = hki_topology_usable_pus(topology);
    size_t room = topology->pu_count > (unsigned)ranks ? topology->pu_count : (size_t)ranks;
    unsigned *begins = calloc(room + 1, sizeof *begins);
    *binding = (run_binding){.cpus = calloc(room, sizeof *binding->cpus),
                             .first = calloc((size_t)ranks + 1, sizeof *binding->first)};
    bool made = begins && binding->cpus && binding->first;
    if (made && (how == RUN_BIND_CORE || (how == RUN_BIND_SHARE && (uint32_t)ranks >= pus))) {
        made = give_one_each(binding, topology, ranks);
    } else if (made && how == RUN_BIND_SHARE) {
        unsigned units = list_units(topology, (uint32_t)ranks <= cores, binding->cpus, begins);
        share_out(binding, begins, units, ranks);
    }
    free(begins);
    if (!made) {
        run_binding_free(binding);
        errno = ENOMEM;
    }
    return made;
}

void run_binding_free(run_binding *binding)
{
    free(binding->cpus);
    free(binding->first);
    *binding = (run_binding){0};
}

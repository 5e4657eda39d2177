/* One round, everyone to everyone: few rounds and many messages; best where starting one is cheap. */
#include "algo/generators.h"

#include <stdlib.h>

void hki_reduce_from_all(hki_builder *builder, const hki_group *group, hki_span own, bool own_is_sent, hki_span result,
                         bool finish)
{
    if (group->size == 2 && !own_is_sent) { /* needs no scratch, and streams */
        hki_recv_reduce(builder, group, 1 - group->rank, result, own, group->rank == 1, finish);
        return;
    }
    hki_span *sources = malloc(group->size * sizeof *sources);
    if (!sources) {
        hki_builder_no_memory(builder);
        return;
    }
    sources[group->rank] = own;
    uint32_t slots = hki_scratch_slots(builder, group->size - 1);
    for (uint32_t distance = 1; distance < group->size; distance++) {
        uint32_t from = hki_behind(group->size, group->rank, distance);
        sources[from] = hki_in_slot(slots + distance - 1, own);
        hki_recv(builder, group, from, sources[from]);
    }
    hki_reduce(builder, result, sources, group->size, finish);
    free(sources);
}

void hki_direct_reduce_scatter(hki_builder *builder, const hki_group *group, const hki_region *input, hki_span result,
                               bool finish)
{
    for (uint32_t distance = 1; distance < group->size; distance++) {
        uint32_t to = hki_ahead(group->size, group->rank, distance);
        hki_send(builder, group, to, hki_share(input, to));
    }
    hki_reduce_from_all(builder, group, hki_share(input, group->rank), false, result, finish);
}

void hki_direct_allgather(hki_builder *builder, const hki_group *group, hki_span own, const hki_region *output)
{
    for (uint32_t distance = 1; distance < group->size; distance++)
        hki_send(builder, group, hki_ahead(group->size, group->rank, distance), own);
    hki_place(builder, hki_share(output, group->rank), own, false);
    for (uint32_t distance = 1; distance < group->size; distance++) {
        uint32_t from = hki_behind(group->size, group->rank, distance);
        hki_recv(builder, group, from, hki_share(output, from));
    }
}

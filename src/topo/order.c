/*
 * In which order to give out PUs. From the smallest group to the largest (L2, L3, NUMA node, package, host), the PUs of
 * a group are put in turn from its parts: the first of each part, then the second of each, and so on. So every
 * beginning of a group's list takes equally many of each part, as far as there are, and the same holds within the
 * parts. Second threads of cores follow after all first ones at every level.
 */
#include "topo/topology.h"

#include "base/error.h"

#include <stdlib.h>

typedef struct place {
    uint32_t group;  /* that is being put in order */
    uint32_t thread; /* which usable thread of its core this is */
    uint32_t turn;   /* place within the part of the group that it belongs to */
    uint32_t part;
    uint32_t pu;
} place;

static int compare_places(const void *left_place, const void *right_place)
{
    const place *left = left_place, *right = right_place;
    const uint32_t keys[][2] = {{left->group, right->group},
                                {left->thread, right->thread},
                                {left->turn, right->turn},
                                {left->part, right->part},
                                {left->pu, right->pu}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

enum { CORE, L2, L3, NUMA, PACKAGE, HOST };

static uint32_t group_of(const hki_pu *pu, int level)
{
    switch (level) {
    case CORE:
        return pu->core;
    case L2:
        return pu->l2;
    case L3:
        return pu->l3;
    case NUMA:
        return pu->numa;
    case PACKAGE:
        return pu->package;
    default:
        return 0;
    }
}

/* Sorts each group of the level, and gives each of its PUs its turn there. */
static void order_level(const hki_topology *topology, int level, place *places, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const hki_pu *pu = &topology->pus[places[i].pu];
        places[i].group = group_of(pu, level);
        places[i].part = level > CORE ? group_of(pu, level - 1) : 0;
    }
    qsort(places, count, sizeof *places, compare_places);
    uint32_t turn = 0;
    for (uint32_t i = 0; i < count; i++) {
        turn = i > 0 && places[i].group == places[i - 1].group ? turn + 1 : 0;
        places[i].turn = turn;
        if (level == CORE)
            places[i].thread = turn;
    }
}

hk_status hki_topology_order(const hki_topology *topology, uint32_t *order, uint32_t *ordered)
{
    place *places = calloc(topology->pu_count + 1, sizeof *places);
    if (!places)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for ordering %u hardware threads", topology->pu_count);
    uint32_t count = 0;
    for (uint32_t i = 0; i < topology->pu_count; i++)
        if (topology->pus[i].usable)
            places[count++].pu = i;
    for (int level = CORE; level <= HOST; level++)
        order_level(topology, level, places, count);
    for (uint32_t i = 0; i < count; i++)
        order[i] = places[i].pu;
    free(places);
    *ordered = count;
    return HK_OK;
}

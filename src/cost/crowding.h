/* What ranks pay on a host that has more of them than cores: rule 6 in price.h. */
#ifndef HKI_COST_CROWDING_H
#define HKI_COST_CROWDING_H

#include "cost/price.h"

typedef struct hki_crowding {
    uint64_t ranks, capacity, turn_ps;
} hki_crowding;

static inline hki_crowding hki_crowding_of(const hki_model *model, uint32_t host)
{
    const hki_cluster_host *at = &model->cluster->hosts[host];
    hki_crowding crowd = {.ranks = at->ranks, .capacity = at->capacity};
    if (at->ranks > at->capacity)
        crowd.turn_ps = model->figures->switch_ps * at->ranks / at->capacity / 2;
    return crowd;
}

/* How long a core takes for what takes `ps` on a core of its own. */
static inline uint64_t hki_crowded_ps(const hki_crowding *crowd, uint64_t ps)
{
    return crowd->ranks > crowd->capacity ? ps * crowd->ranks / crowd->capacity : ps;
}

/* Whether a rank's core reduces bytes as it moves them: rule 4. */
static inline bool hki_reduces_coming(const hki_crowding *crowd, uint64_t core_ps)
{
    return core_ps > 0 && crowd->ranks <= crowd->capacity;
}

#endif

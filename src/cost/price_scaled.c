/*
 * Prices of many ranks that do unlike things, or of which each exchanges with very many: as they go on from those of
 * fewer ranks, the first of the cluster. Trees grow by levels, chains and rings by ranks.
 */
#include "cost/price_state.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"

enum {
    SCALED_FROM = 64,  /* more ranks than so many that do unlike things are priced by fewer, … */
    SCALED_HOSTS = 8,  /* … on so many hosts at least, … */
    SCALED_MOST = 256, /* … but no more than these */
    STEEP_FROM = 512,  /* more ranks, of which each exchanges with very many, are priced by fewer as well */
};

uint32_t hki_price_scaled_ranks(const hki_cluster *cluster)
{
    uint32_t on_host = cluster->hosts[cluster->seats[0].host].ranks;
    uint32_t ranks = SCALED_FROM;
    while (ranks < SCALED_HOSTS * on_host && ranks < SCALED_MOST)
        ranks *= 2;
    return ranks;
}

/* The first so many ranks as a cluster of their own. */
static hk_status make_smaller(hki_pricer *pricer, int which, uint32_t ranks)
{
    if (pricer->of_smaller[which])
        return HK_OK;
    uint32_t *world = malloc(ranks * sizeof *world);
    if (!world)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for prices");
    for (uint32_t i = 0; i < ranks; i++)
        world[i] = i;
    hk_status status =
        pricer->smaller[which] ? HK_OK : hki_cluster_members(pricer->cluster, world, ranks, &pricer->smaller[which]);
    free(world);
    return status == HK_OK ? hki_pricer_new(pricer->smaller[which], pricer->figures, &pricer->of_smaller[which])
                           : status;
}

/* Whether the textbook counts rounds that grow like a tree's levels; not those of chains, nor one round of many
 * messages.
 */
static bool grows_by_levels(const hki_algorithm *algorithm, const hki_call *call, uint32_t fewer)
{
    hki_call large = *call, small = *call;
    large.levels = small.levels = NULL;
    large.segments = small.segments = 1;
    small.ranks = fewer;
    small.root = 0;
    double rounds = algorithm->rounds(&large);
    return rounds > algorithm->rounds(&small) && rounds < 8 * log2(call->ranks);
}

/* A call among the first so many ranks. */
static hki_call smaller_call(const hki_pricer *pricer, int which, const hki_call *call, uint32_t ranks)
{
    hki_call smaller = *call;
    smaller.ranks = ranks;
    smaller.root = call->root % ranks;
    smaller.levels = pricer->smaller[which]->levels;
    return smaller;
}

hk_status hki_price_scaled(hki_pricer *pricer, const hki_model *model, const hki_algorithm *algorithm,
                           const hki_call *call, uint64_t bytes, bool blocks, hki_price *price)
{
    uint32_t more = hki_price_scaled_ranks(pricer->cluster), fewer = more / 4;
    hki_price few, many;
    hki_price *const prices[2] = {&few, &many};
    for (int i = 0; i < 2; i++) {
        uint32_t ranks = i ? more : fewer;
        uint64_t least = bytes < HKI_PRICE_LINE ? bytes : HKI_PRICE_LINE, part = bytes * ranks / call->ranks;
        HK_TRY(make_smaller(pricer, i, ranks));
        hki_call smaller = smaller_call(pricer, i, call, ranks);
        HK_TRY(hki_pricer_price(pricer->of_smaller[i], algorithm, &smaller, model->type, model->operators,
                                !blocks        ? bytes
                                : part > least ? part
                                               : least,
                                prices[i]));
    }
    double rest = (double)(call->ranks - more) / (more - fewer);
    if (hki_sample_alike(algorithm, call) == HKI_UNLIKE && grows_by_levels(algorithm, call, fewer))
        rest = log2((double)call->ranks / more) / log2((double)more / fewer);
    *price = hki_price_grow(&few, &many, (uint64_t)(rest * 1024));
    return HK_OK;
}

/* ---- many ranks of which each exchanges with very many ---- */

/* Whether the first ranks are placed as all are: on hosts as full, with nothing but one switch between. */
static bool is_regular(const hki_cluster *cluster, const hki_cluster *smaller)
{
    uint32_t on_host = smaller->hosts[0].ranks;
    for (uint32_t host = 0; host < smaller->host_count; host++)
        if (smaller->hosts[host].ranks != on_host)
            return false;
    for (uint32_t host = 0; host < cluster->host_count; host++)
        if (cluster->hosts[host].ranks > on_host)
            return false;
    return cluster->switch_count == 1 && smaller->host_count > 1;
}

/* Steps of rank 0 among the first so many; 0: the algorithm refuses, or ranks do unlike things there. */
static hk_status steps_of_smaller(hki_pricer *pricer, int which, const hki_algorithm *algorithm, const hki_call *call,
                                  uint32_t ranks, uint32_t *steps)
{
    hki_price_memory *m = NULL;
    *steps = 0;
    HK_TRY(make_smaller(pricer, which, ranks));
    hki_call smaller = smaller_call(pricer, which, call, ranks);
    smaller.segments = 1;
    if (hki_algorithm_refuses(algorithm, &smaller) || hki_sample_alike(algorithm, &smaller) == HKI_UNLIKE)
        return HK_OK;
    HK_TRY(hki_pricer_remember(pricer->of_smaller[which], algorithm, &smaller, false, &m));
    *steps = m->sample.traces->first[1];
    return HK_OK;
}

hk_status hki_price_find_steep(hki_pricer *pricer, const hki_algorithm *algorithm, const hki_call *call,
                               uint64_t *steps)
{
    uint32_t more = hki_price_scaled_ranks(pricer->cluster), few, many;
    *steps = 0;
    if (call->ranks <= STEEP_FROM || call->ranks <= more || algorithm->hierarchical ||
        hki_sample_alike(algorithm, call) == HKI_UNLIKE || isnan(algorithm->sent(call)))
        return HK_OK;
    HK_TRY(steps_of_smaller(pricer, 1, algorithm, call, more, &many));
    if (!many || !is_regular(pricer->cluster, pricer->smaller[1]))
        return HK_OK;
    HK_TRY(steps_of_smaller(pricer, 0, algorithm, call, more / 4, &few));
    if (few && many >= 3 * few)
        *steps = (uint64_t)many * call->ranks / more;
    return HK_OK;
}

hk_status hki_price_steep(hki_pricer *pricer, const hki_model *model, const hki_algorithm *algorithm,
                          const hki_call *call, uint64_t bytes, uint64_t steps, hki_price *price)
{
    bool whole_vectors = algorithm->sent(call) > 3; /* to each of many, not shares */
    if (call->segments > 1 && steps * call->segments > HKI_PRICE_STAND_IN_STEPS)
        return hki_price_too_long(algorithm, call);
    return hki_price_scaled(pricer, model, algorithm, call, bytes, !whole_vectors, price);
}

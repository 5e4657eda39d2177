#include "cost/sample.h"

#include <stdlib.h>

#include "base/error.h"
#include "cost/paths.h"

enum {
    RANKS_FULLY = 8,     /* up to so many ranks all are walked, or up to HKI_SAMPLE_FULLY steps of all, … */
    STEPS_UNLIKE = 4096, /* … or half of it where fewer ranks tell more of all; … */
    /* … or more, where fewer ranks may be in so few groups that these exchange in another way. */
    STEPS_OF_LEVELS = 12288,
    STEPS_OF_PART = 1280, /* … or up to so many of a part of the cluster that stands for all, … */
    /* … and more where the ranks of a host play different parts, so that a few in the middle tell little. */
    STEPS_OF_HIERARCHY = 2048,
    STEPS_MOST = 1 << 21, /* more would take seconds */
    LOOKED_AT = 8         /* ranks whose steps tell how many all make */
};

void hki_sample_free(hki_sample *sample)
{
    hki_traces_free(sample->traces);
    free(sample->paths);
    *sample = (hki_sample){0};
}

size_t hki_sample_bytes(const hki_sample *sample)
{
    return sample->traces->bytes + (sample->paths ? hki_traces_steps(sample->traces) * sizeof(hki_path) : 0);
}

static hki_alike alike_of(const hki_algorithm *algorithm, const hki_call *call)
{
    return call->ranks > RANKS_FULLY && algorithm->alike ? algorithm->alike(call) : HKI_UNLIKE;
}

hki_alike hki_sample_alike(const hki_algorithm *algorithm, const hki_call *call)
{
    hki_alike alike = alike_of(algorithm, call);
    return alike == HKI_ALIKE_IN_NODES ? HKI_UNLIKE : alike;
}

/* Steps of `looked_at` ranks together, evenly spread. */
static hk_status count_steps(const hki_algorithm *algorithm, const hki_call *call, uint32_t looked_at, uint64_t *steps)
{
    hki_call of_rank = *call;
    hki_builder *writer = NULL;
    hk_status status = HK_OK;
    *steps = 0;
    for (uint32_t i = 0; i < looked_at && status == HK_OK; i++) {
        const hki_schedule *schedule;
        of_rank.rank = looked_at > 1 ? (uint32_t)((uint64_t)i * (call->ranks - 1) / (looked_at - 1)) : 0;
        status = hki_algorithm_look(algorithm, &of_rank, true, &writer, &schedule);
        *steps += status == HK_OK ? schedule->step_count : 0;
    }
    hki_builder_free(writer);
    return status;
}

hk_status hki_sample_count(const hki_algorithm *algorithm, const hki_call *call, uint64_t *steps)
{
    uint32_t looked_at = call->ranks < LOOKED_AT ? call->ranks : LOOKED_AT;
    HK_TRY(count_steps(algorithm, call, looked_at, steps));
    *steps = *steps * call->ranks / looked_at;
    return HK_OK;
}

bool hki_sample_is_short(const hki_algorithm *algorithm, uint64_t steps)
{
    return steps <= (algorithm->hierarchical ? STEPS_OF_LEVELS : STEPS_UNLIKE);
}

/* Unless that is too much. */
static hk_status trace_all(const hki_algorithm *algorithm, const hki_call *call, hki_traces **traces)
{
    uint64_t steps;
    HK_TRY(hki_sample_count(algorithm, call, &steps));
    if (steps > STEPS_MOST)
        return hki_error(HK_ERR_UNSUPPORTED, "%s among %u ranks has too many steps to walk", algorithm->name,
                         call->ranks);
    return hki_traces_new(algorithm, call, NULL, call->ranks, traces);
}

/* One rank in the middle of all: who sends to it is found as in a part of one rank, or its n-th message is taken for
 * the n-th that it gets. Of folded groups the two of a pair. */
static hk_status trace_few(const hki_algorithm *algorithm, const hki_call *call, hki_alike alike, hki_traces **traces)
{
    if (alike == HKI_ALIKE) {
        hk_status status = hki_traces_new_excerpt(algorithm, call, 1, HKI_FIRST_ROW, traces);
        if (status != HK_ERR_UNSUPPORTED)
            return status;
    }
    return hki_traces_new(algorithm, call, NULL, alike == HKI_ALIKE ? 1 : 2, traces);
}

static bool is_one_place(const hki_cluster *cluster)
{
    return cluster->host_count == 1 && cluster->numa_count == 1;
}

/* The first part of a cluster that repeats itself, or any rank where all are at one place and messages meet nothing
 * else than each other. HK_ERR_UNSUPPORTED: no part tells what all do, or it makes too many steps. */
static hk_status trace_part(const hki_sampled *place, const hki_algorithm *algorithm, const hki_call *call,
                            uint64_t steps, hki_sample *sample)
{
    uint32_t part = place->period.ranks, most = algorithm->hierarchical ? STEPS_OF_HIERARCHY : STEPS_OF_PART;
    if (is_one_place(place->cluster)) {
        HK_TRY(hki_traces_new_excerpt(algorithm, call, 1, HKI_FIRST_ROW, &sample->traces));
        return hki_paths_new(place->cluster, place->figures, algorithm, call, sample->traces, &sample->paths);
    }
    if (steps * call->ranks <= HKI_SAMPLE_FULLY)
        most = HKI_SAMPLE_FULLY; /* all would be walked otherwise */
    if (!part || part * steps > most)
        return HK_ERR_UNSUPPORTED;
    HK_TRY(hki_traces_new_excerpt(algorithm, call, part, HKI_FIRST_ROW, &sample->traces));
    sample->instead = place->period.resources;
    return HK_OK;
}

/* Whether hosts are alike, plugged into one switch, with one memory each, so that all that the ranks of one send at the
 * same time meets the same. */
static bool has_equal_hosts(const hki_sampled *place)
{
    const hki_cluster *cluster = place->cluster;
    return place->period.ranks > 1 && place->period.ranks == cluster->hosts[0].ranks && cluster->switch_count == 1 &&
           cluster->numa_count == cluster->host_count;
}

/* One rank, or one of each host, where all ranks of a host do alike at the same time and each sends by the same kind of
 * link. HK_ERR_UNSUPPORTED: it is not so. */
static hk_status trace_by_hosts(const hki_sampled *place, const hki_algorithm *algorithm, const hki_call *call,
                                hki_alike alike, hki_sample *sample)
{
    hki_excerpt excerpt = alike == HKI_ALIKE_IN_NODES ? HKI_FIRST_PLACES : HKI_FIRST_RANK;
    bool may_be = algorithm->hierarchical || (call->ranks & (call->ranks - 1)) == 0;
    if (alike == HKI_UNLIKE || !may_be || !has_equal_hosts(place))
        return HK_ERR_UNSUPPORTED;
    HK_TRY(hki_traces_new_excerpt(algorithm, call, place->period.ranks, excerpt, &sample->traces));
    hk_status status = hki_paths_new(place->cluster, place->figures, algorithm, call, sample->traces, &sample->paths);
    if (status != HK_OK)
        hki_sample_free(sample);
    return status;
}

static hk_status trace(const hki_sampled *place, const hki_algorithm *algorithm, const hki_call *call, bool fully,
                       hki_sample *sample)
{
    hki_alike alike = fully ? HKI_UNLIKE : alike_of(algorithm, call);
    uint64_t steps;
    hk_status status = trace_by_hosts(place, algorithm, call, alike, sample);
    if (status != HK_ERR_UNSUPPORTED)
        return status;
    if (alike == HKI_UNLIKE || alike == HKI_ALIKE_IN_NODES)
        return trace_all(algorithm, call, &sample->traces);
    HK_TRY(count_steps(algorithm, call, 1, &steps));
    status = trace_part(place, algorithm, call, steps, sample);
    if (status != HK_ERR_UNSUPPORTED)
        return status;
    bool even = alike == HKI_ALIKE && is_one_place(place->cluster);
    if (!even && steps * call->ranks <= HKI_SAMPLE_FULLY)
        return trace_all(algorithm, call, &sample->traces);
    HK_TRY(trace_few(algorithm, call, alike, &sample->traces));
    return hki_paths_new(place->cluster, place->figures, algorithm, call, sample->traces, &sample->paths);
}

hk_status hki_sample_new(const hki_sampled *place, const hki_algorithm *algorithm, const hki_call *call, bool fully,
                         hki_sample *sample)
{
    *sample = (hki_sample){0};
    hk_status status = trace(place, algorithm, call, fully, sample);
    if (status != HK_OK)
        hki_sample_free(sample);
    return status;
}

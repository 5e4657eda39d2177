/*
 * Prices. Among few ranks, and where ranks do unlike things, every step of every rank is walked. Where all ranks do
 * alike, one or two of them stand for all (see trace.h and paths.h); a composition of two algorithms is priced as their
 * sum. Of many segments some are walked: once a pipeline is full, every further segment takes as long as those before.
 * Of many ranks that do unlike things, or exchange with very many, some are walked as well, and textbook forms tell
 * how they go on (price_scaled.c).
 *
 * Traces hold for all sizes, so they are kept: what is computed anew for a size is lengths and times.
 */
#include "cost/price.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cost/bulk.h"
#include "cost/price_state.h"
#include "sched/model.h"

enum {
    RANKS_FULLY = 8,          /* more ranks: compositions are priced as sums */
    SEGMENTS_LEAST = 4,       /* up to so many segments all are walked, … */
    SEGMENTS_FULLY = 16,      /* … or up to so many, as long as … */
    SEGMENT_RANKS = 256,      /* … this is no less than segments · ranks */
    REMEMBERED_MOST = 4 << 20 /* bytes of traces that are kept */
};

static void memory_free(hki_price_memory *m)
{
    hki_sample_free(&m->sample);
    free(m);
}

static void forget_all(hki_pricer *pricer)
{
    while (pricer->memories) {
        hki_price_memory *next = pricer->memories->next;
        memory_free(pricer->memories);
        pricer->memories = next;
    }
    pricer->bytes = 0;
}

/* Ranks host by host, as they are numbered. NULL: no memory. */
static uint32_t *order_by_host(const hki_cluster *cluster)
{
    uint32_t *order = malloc(cluster->rank_count * sizeof *order);
    uint32_t *next = calloc((size_t)cluster->host_count + 1, sizeof *next);
    for (uint32_t host = 0; order && next && host < cluster->host_count; host++)
        next[host + 1] = next[host] + cluster->hosts[host].ranks;
    for (uint32_t rank = 0; order && next && rank < cluster->rank_count; rank++)
        order[next[cluster->seats[rank].host]++] = rank;
    bool is_whole = next != NULL;
    free(next);
    if (is_whole)
        return order;
    free(order);
    return NULL;
}

/* Means over a chain through all ranks that leaves no host before it has been at all its ranks: chains of messages take
 * quick and slow links in turn, and no algorithm has to take more slow ones than that. */
static hk_status find_typical(hki_pricer *pricer)
{
    const hki_cluster *cluster = pricer->cluster;
    uint32_t pairs = cluster->rank_count - 1, *order = order_by_host(cluster);
    unsigned __int128 alpha = 0, overhead = 0, beta = 0;
    if (!order)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for prices among %u ranks", cluster->rank_count);
    for (uint32_t i = 1; i <= pairs; i++) {
        hki_link_class class = hki_cluster_link(cluster, order[i - 1], order[i]);
        const hki_link_figures *link = &pricer->figures->link[class];
        pricer->neighbours[class] = true;
        alpha += link->range[0].alpha_ps;
        overhead += link->range[0].overhead_ps;
        beta += hki_figures_least(link).beta_ps;
    }
    free(order);
    pricer->typical_alpha_ps = pairs ? (uint64_t)(alpha / pairs) : 0;
    pricer->typical_overhead_ps = pairs ? (uint64_t)(overhead / pairs) : 0;
    pricer->typical_beta_ps = pairs ? (uint64_t)(beta / pairs) : 0;
    return HK_OK;
}

uint64_t hki_pricer_form(const hki_pricer *pricer, const hki_algorithm *algorithm, const hki_call *given,
                         uint64_t bytes)
{
    hki_call call = *given;
    if (call.ranks < 2)
        return 0;
    call.segments = 1;
    double rounds = algorithm->rounds(&call), abreast = algorithm->abreast ? algorithm->abreast : 1;
    call.segments = given->segments; /* some pass on the less, the more there are */
    double sent = algorithm->sent(&call);
    if (isnan(rounds) || isnan(sent))
        return 0;
    double round = ((double)pricer->typical_alpha_ps + (abreast - 1) * (double)pricer->typical_overhead_ps) / abreast;
    double ps = rounds * round + sent * (double)bytes / 1024 * (double)pricer->typical_beta_ps;
    return ps < 1e18 ? (uint64_t)ps : (uint64_t)1e18;
}

hk_status hki_pricer_new(const hki_cluster *cluster, const hki_figures *figures, hki_pricer **pricer)
{
    hki_pricer *made = calloc(1, sizeof *made);
    if (!made)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for prices");
    made->cluster = cluster;
    made->figures = figures;
    made->limit_ps = UINT64_MAX;
    hk_status status = hki_walker_new(cluster, figures, &made->walker);
    if (status != HK_OK) {
        free(made);
        return status;
    }
    made->place = (hki_sampled){.cluster = cluster, .figures = figures};
    status = find_typical(made);
    if (status == HK_OK)
        status = hki_bulk_sharers(cluster, &made->sharers);
    if (status == HK_OK)
        status = hki_period_open(cluster, &made->place.period);
    if (status == HK_OK)
        *pricer = made;
    else
        hki_pricer_free(made);
    return status;
}

uint32_t hki_pricer_latency_percent(const hki_pricer *pricer, uint64_t bytes, uint64_t smaller)
{
    uint32_t least = 100;
    for (int link = 0; link < HKI_LINK_CLASSES; link++) {
        const hki_link_figures *figures = &pricer->figures->link[link];
        uint64_t whole = hki_figures_range(figures, bytes)->alpha_ps,
                 part = hki_figures_range(figures, smaller)->alpha_ps;
        if (pricer->neighbours[link] && part < whole / 100 * least)
            least = (uint32_t)(part / (whole / 100));
    }
    return least;
}

const hki_figures *hki_pricer_figures(const hki_pricer *pricer)
{
    return pricer->figures;
}

const hki_cluster *hki_pricer_cluster(const hki_pricer *pricer)
{
    return pricer->cluster;
}

void hki_pricer_limit(hki_pricer *pricer, uint64_t limit_ps)
{
    pricer->limit_ps = limit_ps;
}

uint64_t hki_pricer_walked(const hki_pricer *pricer)
{
    uint64_t steps = pricer->walked;
    for (int i = 0; i < 2; i++)
        steps += pricer->of_smaller[i] ? hki_pricer_walked(pricer->of_smaller[i]) : 0;
    return steps;
}

void hki_pricer_free(hki_pricer *pricer)
{
    if (!pricer)
        return;
    forget_all(pricer);
    hki_walker_free(pricer->walker);
    hki_period_close(&pricer->place.period);
    free(pricer->lengths);
    free(pricer->means);
    for (int i = 0; i < HKI_PRICE_POINTS; i++)
        hki_cluster_free(pricer->even[i]);
    for (int i = 0; i < 2; i++) {
        hki_pricer_free(pricer->of_smaller[i]);
        hki_cluster_free(pricer->smaller[i]);
    }
    free(pricer);
}

hki_sizes hki_price_sizes(hki_collective collective, uint32_t ranks, uint64_t bytes, uint32_t element_bytes)
{
    uint64_t unit = element_bytes;
    switch (collective) {
    case HKI_COLL_BARRIER:
        return (hki_sizes){.element_bytes = 1};
    case HKI_COLL_BROADCAST:
    case HKI_COLL_REDUCE:
    case HKI_COLL_ALLREDUCE:
    case HKI_COLL_SCAN:
    case HKI_COLL_EXSCAN:
        break;
    default: /* a block for each rank */
        unit *= ranks;
    }
    return (hki_sizes){.count = bytes / unit + (bytes % unit != 0), .element_bytes = element_bytes};
}

/* ---- traces ---- */

static bool same_call(const hki_price_memory *m, const hki_algorithm *algorithm, const hki_call *call)
{
    return m->algorithm == algorithm && m->call.segments == call->segments && m->call.ranks == call->ranks &&
           m->call.root == call->root && m->call.levels == call->levels;
}

hk_status hki_price_too_long(const hki_algorithm *algorithm, const hki_call *call)
{
    return hki_error(HK_ERR_UNSUPPORTED, "%s among %u ranks in %u segments has too many steps to walk", algorithm->name,
                     call->ranks, call->segments);
}

/* Ranks that stand for all make long schedules where they exchange with everyone, and a segmented one is as many times
 * as long. */
static hk_status check_length(hki_pricer *pricer, const hki_algorithm *algorithm, const hki_call *call)
{
    hki_call whole = *call;
    hki_price_memory *m = NULL;
    if (call->segments == 1 || hki_sample_alike(algorithm, call) == HKI_UNLIKE)
        return HK_OK;
    whole.segments = 1;
    HK_TRY(hki_pricer_remember(pricer, algorithm, &whole, false, &m));
    return (uint64_t)hki_traces_steps(m->sample.traces) * call->segments <= HKI_PRICE_STAND_IN_STEPS
               ? HK_OK
               : hki_price_too_long(algorithm, call);
}

hk_status hki_pricer_remember(hki_pricer *pricer, const hki_algorithm *algorithm, const hki_call *call, bool fully,
                              hki_price_memory **result)
{
    for (hki_price_memory *m = pricer->memories; m; m = m->next)
        if (same_call(m, algorithm, call)) {
            *result = m;
            return HK_OK;
        }
    if (!fully)
        HK_TRY(check_length(pricer, algorithm, call));
    hki_price_memory *made = calloc(1, sizeof *made);
    if (!made)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for prices");
    made->algorithm = algorithm;
    made->call = *call;
    hk_status status = hki_sample_new(&pricer->place, algorithm, call, fully, &made->sample);
    if (status != HK_OK) {
        memory_free(made);
        return status;
    }
    size_t bytes = hki_sample_bytes(&made->sample);
    if (pricer->bytes + bytes > REMEMBERED_MOST)
        forget_all(pricer);
    pricer->bytes += bytes;
    made->next = pricer->memories;
    pricer->memories = made;
    *result = made;
    return HK_OK;
}

/* ---- prices ---- */

/* What all bytes of a call take to pass the memory of the one host that there is: a pipeline that is not full yet does
 * not show it. 0: there is more than one memory. */
static uint64_t least_for_memory(const hki_pricer *pricer, const hki_price_memory *m)
{
    uint64_t bytes = 0, rate = pricer->figures->memory_rate;
    if (pricer->cluster->numa_count != 1 || !rate)
        return 0;
    for (uint32_t i = 0; i < hki_traces_steps(m->sample.traces); i++)
        if (m->sample.traces->steps[i].verb == HKI_VERB_SEND)
            bytes += pricer->lengths[i];
    return hki_bytes_ps(bytes * m->sample.traces->ranks / m->sample.traces->count, hki_rate_ps(rate));
}

static hk_status make_room(hki_pricer *pricer, uint32_t steps)
{
    if (steps <= pricer->length_count)
        return HK_OK;
    free(pricer->lengths);
    free(pricer->means);
    pricer->lengths = malloc(steps * sizeof *pricer->lengths);
    pricer->means = malloc(steps * sizeof *pricer->means);
    pricer->length_count = pricer->lengths && pricer->means ? steps : 0;
    return pricer->length_count ? HK_OK : hki_error(HK_ERR_NO_MEMORY, "no memory for prices");
}

/* By a walk of this many segments, given up beyond limit_ps. */
static hk_status price_walk(hki_pricer *pricer, const hki_model *model, const hki_algorithm *algorithm,
                            const hki_call *call, uint64_t bytes, bool fully, uint64_t limit_ps, hki_price *price)
{
    hki_price_memory *m = NULL;
    HK_TRY(hki_pricer_remember(pricer, algorithm, call, fully, &m));
    uint32_t steps = hki_traces_steps(m->sample.traces);
    HK_TRY(make_room(pricer, steps));
    hki_sizes sizes = hki_price_sizes(call->collective, call->ranks, bytes, (uint32_t)hk_type_size(model->type));
    hki_traces_measure(m->sample.traces, &sizes, pricer->lengths, pricer->means);
    pricer->walked += steps;
    HK_TRY(hki_walk(pricer->walker, model, m->sample.traces, pricer->lengths, pricer->means, m->sample.paths,
                    m->sample.instead, limit_ps, price));
    uint64_t memory_ps = least_for_memory(pricer, m);
    price->floor_ps = memory_ps > price->floor_ps ? memory_ps : price->floor_ps;
    price->effort = steps;
    return HK_OK;
}

/* to + (to - from)·parts/1024. */
static int64_t go_on(uint64_t from, uint64_t to, int64_t parts)
{
    return (int64_t)((__int128)to + ((__int128)to - from) * (__int128)parts / 1024);
}

static uint64_t not_below_0(int64_t value)
{
    return value > 0 ? (uint64_t)value : 0;
}

/* Of parts that make up more than the total. */
static uint64_t share_of(uint64_t part, uint64_t sum, uint64_t total)
{
    return sum > total ? (uint64_t)((unsigned __int128)part * total / sum) : part;
}

/* Turns and latency come together. What one waits for may have become another thing between the two prices: a part that
 * would get less than nothing is 0, and the others are no more than the total that all make up. */
hki_price hki_price_grow(const hki_price *from, const hki_price *to, const hki_growth *growth)
{
    enum { LATENCY, BETA, GAMMA, CONTENTION, PARTS };
    const int64_t grown[PARTS] = {
        go_on(from->alpha_ps + from->turns_ps, to->alpha_ps + to->turns_ps, growth->latency),
        go_on(from->beta_ps, to->beta_ps, growth->bytes), go_on(from->gamma_ps, to->gamma_ps, growth->bytes),
        go_on(from->contention_ps - from->turns_ps, to->contention_ps - to->turns_ps, growth->bytes)};
    uint64_t parts[PARTS], sum = 0,
                           total = not_below_0(grown[LATENCY] + grown[BETA] + grown[GAMMA] + grown[CONTENTION]);
    for (unsigned i = 0; i < PARTS; i++) {
        parts[i] = not_below_0(grown[i]);
        sum += parts[i];
    }
    for (unsigned i = 0; i < PARTS; i++)
        parts[i] = share_of(parts[i], sum, total);
    uint64_t turns = not_below_0(go_on(from->turns_ps, to->turns_ps, growth->latency));
    hki_price price = {.beta_ps = parts[BETA],
                       .gamma_ps = parts[GAMMA],
                       .turns_ps = turns < parts[LATENCY] ? turns : parts[LATENCY],
                       .rounds = (uint32_t)not_below_0(go_on(from->rounds, to->rounds, growth->latency)),
                       .bytes_sent = not_below_0(go_on(from->bytes_sent, to->bytes_sent, growth->bytes)),
                       .messages_sent =
                           (uint32_t)not_below_0(go_on(from->messages_sent, to->messages_sent, growth->latency))};
    price.alpha_ps = parts[LATENCY] - price.turns_ps;
    price.contention_ps = parts[CONTENTION] + price.turns_ps;
    price.total_ps = price.alpha_ps + price.beta_ps + price.gamma_ps + price.contention_ps;
    price.effort = from->effort + to->effort;
    return price;
}

/* Up to how many segments of a call all are walked: a power of two. */
static uint32_t segments_fully(const hki_call *call)
{
    uint32_t segments = SEGMENTS_FULLY;
    while (segments > SEGMENTS_LEAST && segments * call->ranks > SEGMENT_RANKS)
        segments /= 2;
    return segments;
}

uint32_t hki_price_segments(const hki_call *call)
{
    uint32_t most = segments_fully(call);
    return call->segments <= most ? call->segments : most + most / 2;
}

/* A pipeline of many segments, from shorter ones of segments as long. Short ones may only wait for latencies, where a
 * long one waits for ways that are never free: it takes no less than they are occupied. */
static hk_status price_pipeline(hki_pricer *pricer, const hki_model *model, const hki_algorithm *algorithm,
                                const hki_call *call, uint64_t bytes, hki_price *price)
{
    hki_call half = *call, whole = *call;
    hki_price first, second;
    whole.segments = segments_fully(call);
    half.segments = whole.segments / 2;
    uint64_t most = (bytes + call->segments - 1) / call->segments;
    HK_TRY(price_walk(pricer, model, algorithm, &half, most * half.segments, false, UINT64_MAX, &first));
    HK_TRY(price_walk(pricer, model, algorithm, &whole, most * whole.segments, false, UINT64_MAX, &second));
    uint32_t rest = call->segments - whole.segments;
    int64_t parts = (int64_t)rest * 1024 / (whole.segments - half.segments);
    *price = hki_price_grow(&first, &second, &(hki_growth){parts, parts});
    price->floor_ps = second.floor_ps * (call->segments / whole.segments);
    if (price->total_ps < price->floor_ps) {
        price->contention_ps += price->floor_ps - price->total_ps;
        price->total_ps = price->floor_ps;
    }
    return HK_OK;
}

static hk_status price_parts(hki_pricer *pricer, const hki_model *model, const hki_algorithm *algorithm,
                             const hki_call *call, uint64_t bytes, hki_price *price);

/* Of so many ranks that not all are walked. A composition is the sum of its parts, which may be walked, or, where they
 * interleave, what fewer ranks tell, if that is more. */
static hk_status price_many(hki_pricer *pricer, const hki_model *model, const hki_algorithm *algorithm,
                            const hki_call *call, uint64_t bytes, hki_price *price)
{
    if (!algorithm->parts[0].name)
        return hki_price_scaled(pricer, model, algorithm, call, bytes, false, price);
    HK_TRY(price_parts(pricer, model, algorithm, call, bytes, price));
    if (!algorithm->parts_interleave || price->total_ps > pricer->limit_ps)
        return HK_OK;
    hki_price scaled;
    HK_TRY(hki_price_scaled(pricer, model, algorithm, call, bytes, false, &scaled));
    if (scaled.total_ps > price->total_ps)
        *price = scaled;
    return HK_OK;
}

static hk_status price_one(hki_pricer *pricer, const hki_model *model, const hki_algorithm *algorithm,
                           const hki_call *call, uint64_t bytes, hki_price *price)
{
    uint64_t steep, steps = 0;
    if (hki_sample_alike(algorithm, call) == HKI_UNLIKE && call->ranks > hki_price_scaled_ranks(pricer->cluster)) {
        HK_TRY(hki_sample_count(algorithm, call, &steps));
        if (!hki_sample_is_short(algorithm, steps))
            return price_many(pricer, model, algorithm, call, bytes, price);
    }
    HK_TRY(hki_price_find_steep(pricer, algorithm, call, &steep));
    if (steep)
        return hki_price_steep(pricer, model, algorithm, call, bytes, steep, price);
    if (algorithm->segmented && call->segments > segments_fully(call))
        return price_pipeline(pricer, model, algorithm, call, bytes, price);
    return price_walk(pricer, model, algorithm, call, bytes, false, pricer->limit_ps, price);
}

static hk_status price_parts(hki_pricer *pricer, const hki_model *model, const hki_algorithm *algorithm,
                             const hki_call *call, uint64_t bytes, hki_price *price)
{
    *price = (hki_price){0};
    for (int i = 0; i < 2; i++) {
        const hki_part *part = &algorithm->parts[i];
        hki_call of_part = *call;
        hki_price one;
        const hki_algorithm *as_one = hki_algorithm_find(part->collective, part->name);
        of_part.collective = part->collective;
        of_part.segments = as_one->segmented ? call->segments : 1;
        HK_TRY(price_one(pricer, model, as_one, &of_part, bytes, &one));
        if (one.total_ps == HKI_PRICE_BEYOND) {
            *price = one;
            return HK_OK;
        }
        price->total_ps += one.total_ps;
        price->alpha_ps += one.alpha_ps;
        price->beta_ps += one.beta_ps;
        price->gamma_ps += one.gamma_ps;
        price->contention_ps += one.contention_ps;
        price->turns_ps += one.turns_ps;
        price->rounds += one.rounds;
        price->effort += one.effort;
        price->bytes_sent += one.bytes_sent;
        price->messages_sent += one.messages_sent;
        price->floor_ps += one.floor_ps;
    }
    return HK_OK;
}

bool hki_price_is_sum(const hki_cluster *cluster, const hki_algorithm *algorithm, const hki_call *call, uint64_t bytes)
{
    bool near = cluster->host_count == 1;
    return algorithm->parts[0].name && call->ranks > RANKS_FULLY &&
           (near || (!algorithm->parts_interleave && bytes >= (uint64_t)HKI_PRICE_LINE * call->ranks));
}

/* How many percent of the limit the sum of its parts has to be for a composition to be more than that: parts that
 * interleave take little less than both, others, of short vectors, two thirds at the least. Among few ranks, of which
 * most have nothing to do for a vector of fewer lines, all may take half, and a walk costs little. */
static uint32_t sum_percent(const hki_algorithm *algorithm, const hki_call *call, uint64_t bytes)
{
    enum { FEW = 32 };
    if (call->ranks <= FEW && bytes < (uint64_t)HKI_PRICE_LINE * call->ranks)
        return 200;
    return algorithm->parts_interleave ? 110 : 160;
}

/* Whether the sum of its parts says, without a walk of all, that a composition takes more than the limit. */
static hk_status rule_out(hki_pricer *pricer, const hki_model *model, const hki_algorithm *algorithm,
                          const hki_call *call, uint64_t bytes, bool *is_beyond)
{
    uint64_t limit_ps = pricer->limit_ps;
    hki_price sum;
    *is_beyond = false;
    if (!algorithm->parts[0].name || call->ranks <= RANKS_FULLY || limit_ps == UINT64_MAX)
        return HK_OK;
    pricer->limit_ps = limit_ps / 100 * sum_percent(algorithm, call, bytes);
    hk_status status = price_parts(pricer, model, algorithm, call, bytes, &sum);
    *is_beyond = status == HK_OK && sum.total_ps > pricer->limit_ps;
    pricer->limit_ps = limit_ps;
    return status;
}

static hk_status price_all(hki_pricer *pricer, const hki_model *model, const hki_algorithm *algorithm,
                           const hki_call *call, uint64_t bytes, hki_price *price)
{
    bool is_beyond;
    HK_TRY(rule_out(pricer, model, algorithm, call, bytes, &is_beyond));
    if (!is_beyond)
        return price_one(pricer, model, algorithm, call, bytes, price);
    *price = (hki_price){.total_ps = HKI_PRICE_BEYOND};
    return HK_OK;
}

static hk_status check(const hki_algorithm *algorithm, const hki_call *call)
{
    const char *why = hki_algorithm_refuses(algorithm, call);
    return why ? hki_error(HK_ERR_UNSUPPORTED, "algorithm %s cannot serve this %s of %u ranks: %s", algorithm->name,
                           hki_collective_name(call->collective), call->ranks, why)
               : HK_OK;
}

/* The call as it is priced: nothing in it differs between ranks. */
static hki_call common_call(const hki_algorithm *algorithm, const hki_call *given)
{
    hki_call call = *given;
    call.rank = 0;
    call.in_place = HKI_SEPARATE;
    if (!algorithm->segmented)
        call.segments = 1;
    return call;
}

/* Rule 8. */
static const hki_figures *figures_for(const hki_pricer *pricer, const hki_call *call, uint64_t bytes, hki_figures *room)
{
    uint64_t data = hki_bulk_data(call->collective, call->ranks, bytes);
    return hki_bulk_figures_for(pricer->figures, data * pricer->sharers, room);
}

uint64_t hki_price_begin(const hki_figures *figures, hki_collective collective)
{
    return hki_promise_of(collective)->equal ? 0 : figures->counts_ps;
}

static void begin_later(hki_price *price, uint64_t ps)
{
    price->total_ps += ps;
    price->alpha_ps += ps;
}

hk_status hki_pricer_price(hki_pricer *pricer, const hki_algorithm *algorithm, const hki_call *given, hk_type type,
                           hki_op_class operators, uint64_t bytes, hki_price *price)
{
    hki_figures bulk;
    hki_call call = common_call(algorithm, given);
    HK_TRY(check(algorithm, &call));
    if (bytes > HKI_PRICE_BYTES_MOST)
        bytes = HKI_PRICE_BYTES_MOST;
    const hki_model model = {pricer->cluster, figures_for(pricer, &call, bytes, &bulk), type, operators};
    if (hki_price_is_sum(pricer->cluster, algorithm, &call, bytes))
        HK_TRY(price_parts(pricer, &model, algorithm, &call, bytes, price));
    else
        HK_TRY(price_all(pricer, &model, algorithm, &call, bytes, price));
    if (price->total_ps != HKI_PRICE_BEYOND)
        begin_later(price, hki_price_begin(pricer->figures, call.collective));
    return HK_OK;
}

hk_status hki_price_call(const hki_model *model, const hki_algorithm *algorithm, const hki_call *call, uint64_t bytes,
                         hki_price *price)
{
    hki_pricer *pricer = NULL;
    HK_TRY(hki_pricer_new(model->cluster, model->figures, &pricer));
    hk_status status = hki_pricer_price(pricer, algorithm, call, model->type, model->operators, bytes, price);
    hki_pricer_free(pricer);
    return status;
}

hk_status hki_price_fully(const hki_model *model, const hki_algorithm *algorithm, const hki_call *given, uint64_t bytes,
                          hki_price *price)
{
    hki_pricer *pricer = NULL;
    hki_figures bulk;
    hki_call call = common_call(algorithm, given);
    HK_TRY(check(algorithm, &call));
    HK_TRY(hki_pricer_new(model->cluster, model->figures, &pricer));
    bytes = bytes < HKI_PRICE_BYTES_MOST ? bytes : HKI_PRICE_BYTES_MOST;
    hki_model in_bulk = *model;
    in_bulk.figures = figures_for(pricer, &call, bytes, &bulk);
    hk_status status = price_walk(pricer, &in_bulk, algorithm, &call, bytes, true, UINT64_MAX, price);
    if (status == HK_OK)
        begin_later(price, hki_price_begin(model->figures, call.collective));
    hki_pricer_free(pricer);
    return status;
}

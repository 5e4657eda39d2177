/*
 * Prices of many ranks that do unlike things, or of which each exchanges with very many: as they go on from those of
 * fewer ranks, the first of the cluster. The textbook's forms tell how: latency grows with rounds, the rest with what
 * is sent. Against walks of all of 320 to 1024 ranks on 64 to 128 hosts that is 8 % off in the mean; every algorithm
 * told by levels or by ranks alone was 80 %.
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

/* A call among the first so many ranks. */
static hki_call smaller_call(const hki_pricer *pricer, int which, const hki_call *call, uint32_t ranks)
{
    hki_call smaller = *call;
    smaller.ranks = ranks;
    smaller.root = call->root % ranks;
    smaller.levels = pricer->smaller[which]->levels;
    return smaller;
}

/* ---- how forms go on ---- */

/* What the textbook says of fewer ranks, of more, and of all. */
enum { FEW, MANY, ALL, POINTS };
_Static_assert((int)POINTS == (int)HKI_PRICE_POINTS, "there is an even cluster for each");
typedef struct forms {
    double ranks[POINTS], rounds[POINTS], sent[POINTS];
} forms;

static void ask_forms(const hki_algorithm *algorithm, const hki_call *given, int point, forms *known)
{
    hki_call call = *given;
    call.rank = 0;
    known->sent[point] = algorithm->sent(&call); /* some pass on the less, the more segments there are */
    call.segments = 1;
    known->rounds[point] = algorithm->rounds(&call);
}

/* Hosts of unlike size, of which there may be no form, are taken for as many equal ones. */
static hk_status note_forms(hki_pricer *pricer, const hki_cluster *cluster, const hki_algorithm *algorithm,
                            const hki_call *given, int point, forms *known)
{
    hki_call call = *given;
    hki_cluster **even = &pricer->even[point];
    known->ranks[point] = call.ranks;
    ask_forms(algorithm, &call, point, known);
    if (!isnan(known->rounds[point]) && !isnan(known->sent[point]))
        return HK_OK;
    uint32_t hosts = cluster->host_count, on_host = (cluster->rank_count + hosts - 1) / hosts;
    if (!*even)
        HK_TRY(hki_cluster_uniform(hosts, on_host, on_host, even));
    call.ranks = (*even)->rank_count;
    call.levels = (*even)->levels;
    ask_forms(algorithm, &call, point, known);
    return HK_OK;
}

static bool is_known(const forms *known)
{
    for (int i = 0; i < POINTS; i++)
        if (isnan(known->rounds[i]) || isnan(known->sent[i]))
            return false;
    return true;
}

/* How far a form goes on beyond many, measured by what lies between few and many. Not a number: it did not grow. */
static double growth(const double form[POINTS])
{
    double step = form[MANY] - form[FEW];
    return step > form[MANY] / 1024 ? (form[ALL] - form[MANY]) / step : NAN;
}

/* Ranks beyond many, measured by those between few and many. */
static double more_ranks(const forms *known)
{
    return (known->ranks[ALL] - known->ranks[MANY]) / (known->ranks[MANY] - known->ranks[FEW]);
}

/* What a part of the whole that is the less missing, the more ranks there are, as (P-1)/P, gains beyond many. */
static double filling(const forms *known)
{
    return (1 / known->ranks[MANY] - 1 / known->ranks[ALL]) / (1 / known->ranks[FEW] - 1 / known->ranks[MANY]);
}

/* Of a message between the first rank and the last, of a share that is the smaller, the more ranks there are. */
static uint64_t round_ps(const hki_pricer *pricer, const forms *known, const hki_price *many)
{
    uint64_t message = many->messages_sent ? many->bytes_sent / many->messages_sent : 0;
    message = message * (uint64_t)known->ranks[MANY] / (uint64_t)known->ranks[ALL];
    hki_link_class class = hki_cluster_link(pricer->cluster, 0, pricer->cluster->rank_count - 1);
    return hki_figures_range(&pricer->figures->link[class], message)->alpha_ps;
}

/* Latency goes on as rounds do. Where few and many take as many rounds, but all take more, groups are too many to
 * exchange in one round; else a round is of the more messages. Bytes go on as those that are sent. Where ranks pass on
 * as much, however many there are, it is shares that come from ever more of other hosts, or whole vectors in every
 * round. */
static hki_price go_on_as(const hki_pricer *pricer, const forms *known, const hki_price *few, const hki_price *many)
{
    double latency = growth(known->rounds), bytes = growth(known->sent), rounds = 0;
    if (isnan(latency) && known->rounds[ALL] > known->rounds[MANY]) {
        latency = 0;
        rounds = known->rounds[ALL] - known->rounds[MANY];
    } else if (isnan(latency)) {
        latency = more_ranks(known);
    }
    if (isnan(bytes))
        bytes = known->sent[ALL] < 1 ? filling(known) : latency;
    hki_price price = hki_price_grow(few, many, &(hki_growth){(int64_t)(latency * 1024), (int64_t)(bytes * 1024)});
    uint64_t added_ps = (uint64_t)rounds * round_ps(pricer, known, many);
    price.rounds += (uint32_t)rounds;
    price.alpha_ps += added_ps;
    price.total_ps += added_ps;
    return price;
}

/* ---- prices that go on ---- */

/* Among the first ranks, with blocks as long as in the call if `blocks`, and what the forms say. */
static hk_status price_fewer(hki_pricer *pricer, int which, const hki_model *model, const hki_algorithm *algorithm,
                             const hki_call *call, uint64_t bytes, bool blocks, hki_price *price, forms *known)
{
    uint32_t more = hki_price_scaled_ranks(pricer->cluster), ranks = which == MANY ? more : more / 4;
    uint64_t least = bytes < HKI_PRICE_LINE ? bytes : HKI_PRICE_LINE, part = bytes * ranks / call->ranks;
    HK_TRY(make_smaller(pricer, which, ranks));
    hki_call smaller = smaller_call(pricer, which, call, ranks);
    HK_TRY(note_forms(pricer, pricer->smaller[which], algorithm, &smaller, which, known));
    return hki_pricer_price(pricer->of_smaller[which], algorithm, &smaller, model->type, model->operators,
                            !blocks        ? bytes
                            : part > least ? part
                                           : least,
                            price);
}

/* All at once, by what two numbers of ranks and the forms tell. */
static hk_status go_on(hki_pricer *pricer, const hki_model *model, const hki_algorithm *algorithm, const hki_call *call,
                       uint64_t bytes, bool blocks, hki_price *price)
{
    hki_price prices[2];
    forms known;
    HK_TRY(note_forms(pricer, pricer->cluster, algorithm, call, ALL, &known));
    for (int i = FEW; i <= MANY; i++)
        HK_TRY(price_fewer(pricer, i, model, algorithm, call, bytes, blocks, &prices[i], &known));
    if (hki_sample_alike(algorithm, call) == HKI_UNLIKE && is_known(&known)) {
        *price = go_on_as(pricer, &known, &prices[FEW], &prices[MANY]);
        return HK_OK;
    }
    int64_t rest = (int64_t)(more_ranks(&known) * 1024);
    *price = hki_price_grow(&prices[FEW], &prices[MANY], &(hki_growth){rest, rest});
    return HK_OK;
}

/* ---- pipelines ---- */

/* Whether some rank has the more to send, or, a reduction being a broadcast backwards, to take in, the more ranks there
 * are. */
static hk_status find_burden(hki_pricer *pricer, const hki_algorithm *algorithm, const hki_call *given, bool *grows)
{
    hki_call all = *given;
    forms known;
    if (algorithm->collective == HKI_COLL_REDUCE) {
        const hki_algorithm *mirrored = hki_algorithm_find(HKI_COLL_BROADCAST, algorithm->name);
        algorithm = mirrored ? mirrored : algorithm;
        all.collective = algorithm->collective;
    }
    hki_call many = smaller_call(pricer, MANY, &all, pricer->smaller[MANY]->rank_count);
    HK_TRY(note_forms(pricer, pricer->cluster, algorithm, &all, ALL, &known));
    HK_TRY(note_forms(pricer, pricer->smaller[MANY], algorithm, &many, MANY, &known));
    *grows = !(known.sent[ALL] <= known.sent[MANY] + known.sent[MANY] / 1024);
    return HK_OK;
}

static double occupied(const hki_price *price)
{
    return (double)(price->beta_ps + price->gamma_ps + price->contention_ps);
}

/* One part of a pipeline's price: that of one segment, and `times` of what the others added among many. */
static uint64_t add_others(uint64_t one, uint64_t of_pipeline, uint64_t of_one, double times)
{
    double sum = (double)one + ((double)of_pipeline - (double)of_one) * times;
    return sum > 0 ? (uint64_t)sum : 0;
}

/* One segment, which takes longer among all than among many, and the others, each of which adds as much as among many,
 * or, where some rank has more to do for more ranks, more in proportion. */
static hk_status price_pipeline(hki_pricer *pricer, const hki_model *model, const hki_algorithm *algorithm,
                                const hki_call *call, uint64_t bytes, hki_price *price)
{
    hki_call one = *call;
    hki_price pipeline, many;
    forms known;
    bool grows;
    uint64_t segment = (bytes + call->segments - 1) / call->segments;
    one.segments = 1;
    HK_TRY(price_fewer(pricer, MANY, model, algorithm, call, bytes, false, &pipeline, &known));
    HK_TRY(price_fewer(pricer, MANY, model, algorithm, &one, segment, false, &many, &known));
    HK_TRY(go_on(pricer, model, algorithm, &one, segment, false, price));
    HK_TRY(find_burden(pricer, algorithm, call, &grows));
    double times = grows && occupied(&many) > 0 ? occupied(price) / occupied(&many) : 1;
    price->alpha_ps = add_others(price->alpha_ps, pipeline.alpha_ps, many.alpha_ps, times);
    price->beta_ps = add_others(price->beta_ps, pipeline.beta_ps, many.beta_ps, times);
    price->gamma_ps = add_others(price->gamma_ps, pipeline.gamma_ps, many.gamma_ps, times);
    price->contention_ps = add_others(price->contention_ps, pipeline.contention_ps, many.contention_ps, times);
    uint64_t turns_ps = add_others(price->turns_ps, pipeline.turns_ps, many.turns_ps, times);
    price->turns_ps = turns_ps < price->contention_ps ? turns_ps : price->contention_ps;
    price->total_ps = price->alpha_ps + price->beta_ps + price->gamma_ps + price->contention_ps;
    price->rounds += pipeline.rounds > many.rounds ? pipeline.rounds - many.rounds : 0;
    price->bytes_sent *= call->segments;
    price->messages_sent *= call->segments;
    price->effort += pipeline.effort + many.effort;
    return HK_OK;
}

hk_status hki_price_scaled(hki_pricer *pricer, const hki_model *model, const hki_algorithm *algorithm,
                           const hki_call *call, uint64_t bytes, bool blocks, hki_price *price)
{
    if (call->segments > 1 && !blocks && hki_sample_alike(algorithm, call) == HKI_UNLIKE)
        return price_pipeline(pricer, model, algorithm, call, bytes, price);
    return go_on(pricer, model, algorithm, call, bytes, blocks, price);
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

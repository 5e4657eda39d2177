/*
 * Prices. Among few ranks, and where ranks do unlike things, every step of every rank is walked. Where all ranks do
 * alike, one or two of them stand for all (see trace.h and paths.h); a composition of two algorithms is priced as their
 * sum. Of many segments four are walked: from the second to the fourth a pipeline takes as long as from then on for
 * every first.
 *
 * Traces hold for all sizes, so they are kept: what is computed anew for a size is lengths and times.
 */
#include "cost/price.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cost/paths.h"

enum {
    RANKS_FULLY = 8,          /* up to so many ranks all are walked, … */
    STEPS_FULLY = 256,        /* … or up to so many steps of all */
    SEGMENTS_LEAST = 4,       /* up to so many segments all are walked, … */
    SEGMENTS_FULLY = 16,      /* … or up to so many, as long as … */
    SEGMENT_RANKS = 512,      /* … this is no less than segments · ranks */
    STEPS_MOST = 1 << 21,     /* of all traced ranks: more would take seconds */
    REMEMBERED_MOST = 2 << 20 /* bytes of traces that are kept */
};
static const uint64_t bytes_most = UINT64_C(1) << 40; /* beyond, times do not fit */

/* What is kept of an algorithm for one kind of call. */
typedef struct memory {
    struct memory *next;
    const hki_algorithm *algorithm;
    hki_call call; /* in its segments */
    hki_traces *traces;
    hki_path *paths; /* NULL: all ranks are traced */
} memory;

struct hki_pricer {
    const hki_cluster *cluster;
    const hki_figures *figures;
    memory *memories;
    size_t bytes;
    uint64_t *lengths; /* of steps, for the walk that is made */
    uint32_t length_count;
};

static void memory_free(memory *m)
{
    hki_traces_free(m->traces);
    free(m->paths);
    free(m);
}

static void forget_all(hki_pricer *pricer)
{
    while (pricer->memories) {
        memory *next = pricer->memories->next;
        memory_free(pricer->memories);
        pricer->memories = next;
    }
    pricer->bytes = 0;
}

hk_status hki_pricer_new(const hki_cluster *cluster, const hki_figures *figures, hki_pricer **pricer)
{
    hki_pricer *made = calloc(1, sizeof *made);
    if (!made)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for prices");
    made->cluster = cluster;
    made->figures = figures;
    *pricer = made;
    return HK_OK;
}

void hki_pricer_free(hki_pricer *pricer)
{
    if (!pricer)
        return;
    forget_all(pricer);
    free(pricer->lengths);
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

static bool same_call(const memory *m, const hki_algorithm *algorithm, const hki_call *call)
{
    return m->algorithm == algorithm && m->call.segments == call->segments && m->call.ranks == call->ranks &&
           m->call.root == call->root && m->call.levels == call->levels;
}

/* Traces all ranks, unless that is too much. */
static hk_status trace_all(const hki_algorithm *algorithm, const hki_call *call, hki_traces **traces)
{
    uint32_t *ranks = malloc(call->ranks * sizeof *ranks);
    hki_call of_root = *call;
    of_root.rank = call->root;
    hki_schedule *busiest;
    if (!ranks)
        return hki_error(HK_ERR_NO_MEMORY, "no memory to price %s", algorithm->name);
    for (uint32_t i = 0; i < call->ranks; i++)
        ranks[i] = i;
    of_root.rank = call->ranks - 1 != call->root ? call->ranks - 1 : 0;
    hk_status status = hki_algorithm_schedule(algorithm, &of_root, &busiest);
    if (status == HK_OK) {
        uint64_t steps = (uint64_t)busiest->step_count * call->ranks;
        hki_schedule_free(busiest);
        status = steps > STEPS_MOST ? hki_error(HK_ERR_UNSUPPORTED, "%s among %u ranks has too many steps to walk",
                                                algorithm->name, call->ranks)
                                    : hki_traces_new(algorithm, call, ranks, call->ranks, traces);
    }
    free(ranks);
    return status;
}

/* Traces what is to be walked of a call. */
static hk_status remember(const hki_pricer *pricer, memory *m, bool fully)
{
    static const uint32_t pair[] = {0, 1};
    hki_alike alike = HKI_UNLIKE;
    if (!fully && m->call.ranks > RANKS_FULLY && m->algorithm->alike)
        alike = m->algorithm->alike(&m->call);
    if (alike == HKI_UNLIKE)
        return trace_all(m->algorithm, &m->call, &m->traces);
    HK_TRY(hki_traces_new(m->algorithm, &m->call, pair, alike == HKI_ALIKE ? 1 : 2, &m->traces));
    if ((uint64_t)m->traces->first[1] * m->call.ranks <= STEPS_FULLY) {
        hki_traces_free(m->traces);
        m->traces = NULL;
        return trace_all(m->algorithm, &m->call, &m->traces);
    }
    return hki_paths_new(pricer->cluster, pricer->figures, m->algorithm, &m->call, m->traces, &m->paths);
}

static hk_status find_memory(hki_pricer *pricer, const hki_algorithm *algorithm, const hki_call *call, bool fully,
                             memory **result)
{
    for (memory *m = pricer->memories; m; m = m->next)
        if (same_call(m, algorithm, call)) {
            *result = m;
            return HK_OK;
        }
    memory *made = calloc(1, sizeof *made);
    if (!made)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for prices");
    made->algorithm = algorithm;
    made->call = *call;
    hk_status status = remember(pricer, made, fully);
    if (status != HK_OK) {
        memory_free(made);
        return status;
    }
    size_t bytes = made->traces->bytes + (made->paths ? hki_traces_steps(made->traces) * sizeof(hki_path) : 0);
    if (pricer->bytes + bytes > REMEMBERED_MOST)
        forget_all(pricer);
    pricer->bytes += bytes;
    made->next = pricer->memories;
    pricer->memories = made;
    *result = made;
    return HK_OK;
}

/* ---- prices ---- */

/* By a walk of this many segments. */
static hk_status price_walk(hki_pricer *pricer, const hki_model *model, const hki_algorithm *algorithm,
                            const hki_call *call, uint64_t bytes, bool fully, hki_price *price)
{
    memory *m = NULL;
    HK_TRY(find_memory(pricer, algorithm, call, fully, &m));
    uint32_t steps = hki_traces_steps(m->traces);
    if (steps > pricer->length_count) {
        uint64_t *grown = realloc(pricer->lengths, steps * sizeof *grown);
        if (!grown)
            return hki_error(HK_ERR_NO_MEMORY, "no memory for prices");
        pricer->lengths = grown;
        pricer->length_count = steps;
    }
    hki_sizes sizes = hki_price_sizes(call->collective, call->ranks, bytes, (uint32_t)hk_type_size(model->type));
    hki_traces_measure(m->traces, &sizes, pricer->lengths);
    return hki_walk(model, m->traces, pricer->lengths, m->paths, price);
}

/* to + (to - from)·factor, not below 0. */
static uint64_t go_on(uint64_t from, uint64_t to, uint32_t factor)
{
    int64_t result = (int64_t)to + ((int64_t)to - (int64_t)from) * (int64_t)factor;
    return result > 0 ? (uint64_t)result : 0;
}

/* Up to how many segments of a call all are walked: a power of first. */
static uint32_t segments_fully(const hki_call *call)
{
    uint32_t segments = SEGMENTS_FULLY;
    while (segments > SEGMENTS_LEAST && segments * call->ranks > SEGMENT_RANKS)
        segments /= 2;
    return segments;
}

/* A pipeline of many segments, from shorter ones of segments as long. */
static hk_status price_pipeline(hki_pricer *pricer, const hki_model *model, const hki_algorithm *algorithm,
                                const hki_call *call, uint64_t bytes, hki_price *price)
{
    hki_call half = *call, whole = *call;
    hki_price first, second;
    whole.segments = segments_fully(call);
    half.segments = whole.segments / 2;
    uint64_t most = (bytes + call->segments - 1) / call->segments;
    HK_TRY(price_walk(pricer, model, algorithm, &half, most * half.segments, false, &first));
    HK_TRY(price_walk(pricer, model, algorithm, &whole, most * whole.segments, false, &second));
    uint32_t factor = (call->segments - whole.segments) / (whole.segments - half.segments);
    *price = (hki_price){.alpha_ps = go_on(first.alpha_ps, second.alpha_ps, factor),
                         .beta_ps = go_on(first.beta_ps, second.beta_ps, factor),
                         .gamma_ps = go_on(first.gamma_ps, second.gamma_ps, factor),
                         .contention_ps = go_on(first.contention_ps, second.contention_ps, factor),
                         .rounds = (uint32_t)go_on(first.rounds, second.rounds, factor),
                         .bytes_sent = go_on(first.bytes_sent, second.bytes_sent, factor)};
    price->total_ps = price->alpha_ps + price->beta_ps + price->gamma_ps + price->contention_ps;
    return HK_OK;
}

static hk_status price_one(hki_pricer *pricer, const hki_model *model, const hki_algorithm *algorithm,
                           const hki_call *call, uint64_t bytes, hki_price *price)
{
    if (algorithm->segmented && call->segments > segments_fully(call))
        return price_pipeline(pricer, model, algorithm, call, bytes, price);
    return price_walk(pricer, model, algorithm, call, bytes, false, price);
}

static hk_status price_parts(hki_pricer *pricer, const hki_model *model, const hki_algorithm *algorithm,
                             const hki_call *call, uint64_t bytes, hki_price *price)
{
    *price = (hki_price){0};
    for (int i = 0; i < 2; i++) {
        const hki_part *part = &algorithm->parts[i];
        hki_call of_part = *call;
        hki_price one;
        of_part.collective = part->collective;
        HK_TRY(price_one(pricer, model, hki_algorithm_find(part->collective, part->name), &of_part, bytes, &one));
        price->total_ps += one.total_ps;
        price->alpha_ps += one.alpha_ps;
        price->beta_ps += one.beta_ps;
        price->gamma_ps += one.gamma_ps;
        price->contention_ps += one.contention_ps;
        price->rounds += one.rounds;
        price->bytes_sent += one.bytes_sent;
    }
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

hk_status hki_pricer_price(hki_pricer *pricer, const hki_algorithm *algorithm, const hki_call *given, hk_type type,
                           hki_op_class operators, uint64_t bytes, hki_price *price)
{
    const hki_model model = {pricer->cluster, pricer->figures, type, operators};
    hki_call call = common_call(algorithm, given);
    HK_TRY(check(algorithm, &call));
    if (bytes > bytes_most)
        bytes = bytes_most;
    if (algorithm->parts[0].name && call.ranks > RANKS_FULLY)
        return price_parts(pricer, &model, algorithm, &call, bytes, price);
    return price_one(pricer, &model, algorithm, &call, bytes, price);
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
    hki_call call = common_call(algorithm, given);
    HK_TRY(check(algorithm, &call));
    HK_TRY(hki_pricer_new(model->cluster, model->figures, &pricer));
    hk_status status =
        price_walk(pricer, model, algorithm, &call, bytes < bytes_most ? bytes : bytes_most, true, price);
    hki_pricer_free(pricer);
    return status;
}

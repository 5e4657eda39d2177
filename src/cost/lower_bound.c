#include "cost/lower_bound.h"

#include "base/error.h"
#include "cost/crowding.h"
#include "cost/trace.h"

enum {
    CLUSTER_MOST = 256, /* ranks: beyond, a root's schedule may be as long as a walk of what stands for all */
    RANKS_MOST = 8,     /* that are looked at, the root first, … */
    STEPS_MOST = 1024   /* … until they have so many steps */
};

/* For how long a rank's ways and core are occupied. */
typedef struct load {
    uint64_t out_ps, in_ps, core_ps;
} load;

typedef struct bound {
    const hki_model *model;
    const hki_algorithm *algorithm;
    hki_sizes sizes;
    uint64_t nic_out_ps, nic_in_ps; /* of the root's host, by the ranks so far */
    uint64_t least_ps;
} bound;

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Per KiB of a host's NICs. */
static uint64_t nic_ps(const hki_model *model, uint32_t host, const hki_range_figures *figures)
{
    uint64_t rate =
        model->cluster->hosts[host].nic_rate ? model->cluster->hosts[host].nic_rate : model->figures->nic_rate;
    return rate ? hki_rate_ps(rate) : figures->beta_ps;
}

static uint64_t reduction_ps(const bound *b, uint64_t bytes)
{
    return hki_bytes_ps(bytes, b->model->figures->gamma_ps[b->model->type][b->model->operators]);
}

/* Segments may be short enough for caches. */
static uint64_t copy_ps(const bound *b, uint64_t bytes)
{
    const hki_figures *figures = b->model->figures;
    uint64_t whole = hki_copy_time(figures, bytes), cached = hki_bytes_ps(bytes, figures->copy_ps);
    return b->algorithm->segmented && cached < whole ? cached : whole;
}

static void add_message(bound *b, const hki_step *step, uint32_t rank, uint64_t bytes, load *to)
{
    const hki_cluster *cluster = b->model->cluster;
    const hki_link_figures *link = &b->model->figures->link[hki_cluster_link(cluster, rank, step->peer)];
    hki_range_figures figures = b->algorithm->segmented ? hki_figures_least(link) : *hki_figures_range(link, bytes);
    bool sends = step->verb == HKI_VERB_SEND;
    *(sends ? &to->out_ps : &to->in_ps) += figures.overhead_ps + hki_bytes_ps(bytes, figures.beta_ps);
    to->core_ps += hki_bytes_ps(bytes, figures.core_ps);
    if (step->verb == HKI_VERB_RECV_REDUCE)
        to->core_ps += reduction_ps(b, bytes);
    uint32_t host = cluster->seats[rank].host;
    if (cluster->seats[step->peer].host != host)
        *(sends ? &b->nic_out_ps : &b->nic_in_ps) += hki_bytes_ps(bytes, nic_ps(b->model, host, &figures));
}

static void add_rank(bound *b, const hki_schedule *schedule)
{
    hki_layout layout[2];
    load of_rank = {0};
    for (unsigned i = 0; i < 2; i++)
        hki_layout_init(&layout[i], schedule, &b->sizes, i);
    for (uint32_t i = 0; i < schedule->step_count; i++) {
        const hki_step *step = &schedule->steps[i];
        uint64_t bytes = hki_step_bytes(step, layout, b->sizes.element_bytes);
        if (step->verb == HKI_VERB_COPY)
            of_rank.core_ps += copy_ps(b, bytes);
        else if (step->verb == HKI_VERB_REDUCE)
            of_rank.core_ps += (step->source_count - 1) * reduction_ps(b, bytes);
        else if (bytes)
            add_message(b, step, schedule->rank, bytes, &of_rank);
    }
    hki_crowding crowd = hki_crowding_of(b->model, b->model->cluster->seats[schedule->rank].host);
    b->least_ps = larger(b->least_ps, larger(of_rank.out_ps, of_rank.in_ps));
    b->least_ps = larger(b->least_ps, hki_crowded_ps(&crowd, of_rank.core_ps));
}

/* The next rank after this one on its host, the first after the last. */
static uint32_t next_on_host(const hki_cluster *cluster, uint32_t rank)
{
    uint32_t next = rank;
    do
        next = next + 1 < cluster->rank_count ? next + 1 : 0;
    while (cluster->seats[next].host != cluster->seats[rank].host);
    return next;
}

hk_status hki_lower_bound_find(const hki_model *model, const hki_algorithm *algorithm, const hki_call *given,
                               uint64_t bytes, hki_builder **writer, hki_lower_bound *result)
{
    hki_call call = *given;
    bound b = {.model = model,
               .algorithm = algorithm,
               .sizes = hki_price_sizes(call.collective, call.ranks, bytes, (uint32_t)hk_type_size(model->type))};
    uint32_t steps = 0;
    *result = (hki_lower_bound){0};
    call.segments = 1;
    call.in_place = HKI_SEPARATE;
    call.rank = call.root;
    uint32_t most = call.ranks <= CLUSTER_MOST ? RANKS_MOST : 0;
    for (uint32_t ranks = 0; ranks < most && steps < STEPS_MOST;) {
        const hki_schedule *schedule;
        HK_TRY(hki_algorithm_look(algorithm, &call, true, writer, &schedule));
        add_rank(&b, schedule);
        steps += schedule->step_count;
        result->steps = (uint64_t)steps * call.ranks / ++ranks;
        call.rank = next_on_host(model->cluster, call.rank);
        if (call.rank == call.root)
            break;
    }
    result->least_ps = larger(b.least_ps, larger(b.nic_out_ps, b.nic_in_ps));
    return HK_OK;
}

uint64_t hki_lower_bound_of_memory(const hki_model *model, const hki_call *call, uint64_t bytes)
{
    const uint64_t most = UINT64_C(1) << 40; /* as prices go */
    uint64_t rate = model->figures->memory_rate, others = call->ranks - 1;
    if (model->cluster->numa_count != 1 || !rate || call->ranks < 2)
        return 0;
    bytes = bytes < most ? bytes : most;
    switch (call->collective) {
    case HKI_COLL_BARRIER:
        return 0;
    case HKI_COLL_ALLREDUCE: /* what is reduced goes to all again */
        return hki_bytes_ps(bytes, hki_rate_ps(rate)) * 2 * others;
    case HKI_COLL_GATHER: /* each block once */
    case HKI_COLL_GATHERV:
    case HKI_COLL_SCATTER:
    case HKI_COLL_SCATTERV:
        return hki_bytes_ps(bytes, hki_rate_ps(rate)) / call->ranks * others;
    default: /* every rank but one gets, or gives away, as much as the whole */
        return hki_bytes_ps(bytes, hki_rate_ps(rate)) * others;
    }
}

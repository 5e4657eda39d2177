#include "cost/lower_bound.h"

#include <math.h>

#include "base/error.h"
#include "cost/crowding.h"
#include "cost/trace.h"

enum {
    CLUSTER_MOST = 256, /* ranks: beyond, a root's schedule may be as long as a walk of what stands for all */
    RANKS_LEAST = 8,    /* of the root's host that are looked at, itself first, … */
    STEPS_FEW = 192,    /* … more until they have so many steps together, … */
    STEPS_MOST = 1024   /* … and fewer if they have as many as that */
};

/* For how long a rank's ways and core are occupied, and what its messages take one after the other. */
typedef struct load {
    uint64_t out_ps, in_ps, core_ps, chain_ps;
    uint32_t received; /* messages */
} load;

typedef struct bound {
    const hki_model *model;
    const hki_algorithm *algorithm;
    hki_sizes sizes;
    uint64_t nic_out_ps, nic_in_ps; /* of the root's host, by the ranks so far */
    uint64_t least_ps;
    bool in_pairs;     /* ranks exchange with one another, round by round */
    double rounds;     /* that all ranks of the fold wait for */
    uint64_t chain_ps; /* in_pairs: of the ranks so far */
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
    if (!sends) {
        to->chain_ps += figures.alpha_ps + hki_bytes_ps(bytes, figures.beta_ps);
        to->received++;
    }
    if (step->verb == HKI_VERB_RECV_REDUCE)
        to->core_ps += reduction_ps(b, bytes);
    uint32_t host = cluster->seats[rank].host;
    if (cluster->seats[step->peer].host != host)
        *(sends ? &b->nic_out_ps : &b->nic_in_ps) += hki_bytes_ps(bytes, nic_ps(b->model, host, &figures));
}

/* Ranks that exchange with others of the same fold wait for each other in every round: each takes as long as a message.
 * The rank tells most that takes part in all rounds. */
static void add_chain(bound *b, const load *of_rank)
{
    if (!b->in_pairs || isnan(b->rounds) || !of_rank->received)
        return;
    double part = b->rounds / of_rank->received;
    uint64_t ps = part < 1 ? (uint64_t)((double)of_rank->chain_ps * part) : of_rank->chain_ps;
    b->chain_ps = larger(b->chain_ps, ps);
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
    add_chain(b, &of_rank);
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

/* Of the quickest link that there may be between hosts. */
static hki_range_figures quickest_between_hosts(const hki_model *model)
{
    hki_range_figures tcp = hki_figures_least(&model->figures->link[HKI_LINK_TCP]),
                      verbs = hki_figures_least(&model->figures->link[HKI_LINK_VERBS]);
    bool has_verbs = false;
    for (uint32_t rank = 0; rank < model->cluster->rank_count && !has_verbs; rank++)
        has_verbs = model->cluster->seats[rank].reach & HKI_REACH_VERBS;
    return has_verbs && verbs.beta_ps < tcp.beta_ps ? verbs : tcp;
}

/* By the textbook, without the last, in which folded ranks get their result. */
static double rounds_of_fold(const hki_algorithm *algorithm, const hki_call *call)
{
    if (call->ranks < 2)
        return 0;
    double rounds = algorithm->rounds(call) / (algorithm->abreast ? algorithm->abreast : 1);
    bool folded = (call->ranks & (call->ranks - 1)) != 0;
    return folded ? rounds - 1 : rounds;
}

/* Whether so many ranks of the root's host, with so many steps, tell what there is to be told. Where there are NICs,
 * for which all ranks of a host count, more are worth a look than on one host. */
static bool is_enough(const hki_cluster *cluster, uint32_t ranks, uint32_t steps)
{
    if (cluster->rank_count > CLUSTER_MOST || steps >= STEPS_MOST)
        return true;
    return ranks >= RANKS_LEAST && (cluster->host_count == 1 || steps >= STEPS_FEW);
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
    b.in_pairs = algorithm->alike && call.ranks > 1 && algorithm->alike(&call) == HKI_ALIKE_IN_PAIRS;
    call.segments = 1;
    b.rounds = rounds_of_fold(algorithm, &call);
    call.in_place = HKI_SEPARATE;
    call.rank = call.root;
    for (uint32_t ranks = 0; !is_enough(model->cluster, ranks, steps);) {
        const hki_schedule *schedule;
        HK_TRY(hki_algorithm_look(algorithm, &call, true, writer, &schedule));
        add_rank(&b, schedule);
        steps += schedule->step_count;
        result->steps = (uint64_t)steps * call.ranks / ++ranks;
        call.rank = next_on_host(model->cluster, call.rank);
        if (call.rank == call.root)
            break;
    }
    result->chain_ps = b.chain_ps;
    result->least_ps = larger(b.least_ps, larger(b.nic_out_ps, b.nic_in_ps));
    return HK_OK;
}

/* ---- by any algorithm ---- */

/* Calls of more have prices as of so many. */
static uint64_t priced_bytes(uint64_t bytes)
{
    return bytes < HKI_PRICE_BYTES_MOST ? bytes : HKI_PRICE_BYTES_MOST;
}

static uint64_t least_of_memory(const hki_model *model, const hki_call *call, uint64_t bytes)
{
    uint64_t rate = model->figures->memory_rate, others = call->ranks - 1;
    if (model->cluster->numa_count != 1 || !rate)
        return 0;
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

/* Bytes that pass the NICs of the root's host one way, whatever the algorithm: it lacks, or is alone to have, what the
 * others have. Of collectives in which every host sends what others reduce, the mean of hosts: some host has as much.
 */
static uint64_t nic_bytes(const hki_call *call, uint64_t bytes, uint32_t hosts, uint32_t ranks_of_host)
{
    uint64_t block = bytes / call->ranks, outside = call->ranks - ranks_of_host;
    switch (call->collective) {
    case HKI_COLL_BARRIER:
        return 0;
    case HKI_COLL_ALLREDUCE:
        return bytes / hosts * (hosts - 1) * 2;
    case HKI_COLL_REDUCE_SCATTER:
    case HKI_COLL_REDUCE_SCATTERV:
        return bytes / hosts * (hosts - 1);
    case HKI_COLL_ALLTOALL:
    case HKI_COLL_ALLTOALLV:
        return block * outside * ranks_of_host;
    case HKI_COLL_ALLGATHER:
    case HKI_COLL_ALLGATHERV:
    case HKI_COLL_GATHER:
    case HKI_COLL_GATHERV:
    case HKI_COLL_SCATTER:
    case HKI_COLL_SCATTERV:
        return block * outside;
    default:
        return bytes;
    }
}

static bool is_mean_of_hosts(hki_collective collective)
{
    return collective == HKI_COLL_ALLREDUCE || collective == HKI_COLL_REDUCE_SCATTER ||
           collective == HKI_COLL_REDUCE_SCATTERV;
}

static uint64_t least_of_nics(const hki_model *model, const hki_call *call, uint64_t bytes)
{
    const hki_cluster *cluster = model->cluster;
    uint32_t own = cluster->seats[call->root].host;
    if (cluster->host_count == 1)
        return 0;
    hki_range_figures quickest = quickest_between_hosts(model);
    uint64_t pace = nic_ps(model, own, &quickest);
    for (uint32_t host = 0; host < cluster->host_count && is_mean_of_hosts(call->collective); host++)
        if (nic_ps(model, host, &quickest) < pace)
            pace = nic_ps(model, host, &quickest);
    return hki_bytes_ps(nic_bytes(call, bytes, cluster->host_count, cluster->hosts[own].ranks), pace);
}

uint64_t hki_lower_bound_of_any(const hki_model *model, const hki_call *call, uint64_t bytes)
{
    bytes = priced_bytes(bytes);
    return call->ranks < 2 ? 0 : larger(least_of_memory(model, call, bytes), least_of_nics(model, call, bytes));
}

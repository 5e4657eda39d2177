#include "sim/costs.h"

#include <stdlib.h>

#include "base/error.h"

static hki_sim_message_cost cost_of(const hki_figures *figures, uint32_t link, uint64_t bytes)
{
    const hki_range_figures *range = hki_figures_range(&figures->link[link], bytes);
    return (hki_sim_message_cost){.alpha_ps = range->alpha_ps,
                                  .overhead_ps =
                                      range->overhead_ps < range->alpha_ps ? range->overhead_ps : range->alpha_ps,
                                  .bytes_ps = hki_bytes_ps(bytes, range->beta_ps ? range->beta_ps : 1),
                                  .core_ps = hki_bytes_ps(bytes, range->core_ps),
                                  .rendezvous = range->rendezvous};
}

static void fill(hki_sim_costs *costs, const hki_sim_world *world)
{
    const hki_figures *figures = costs->model->figures;
    uint64_t gamma = figures->gamma_ps[costs->model->type][costs->model->operators];
    for (uint32_t i = 0; i < world->work_count; i++) {
        const hki_sim_work *work = &world->works[i];
        costs->reduce_ps[i] = hki_bytes_ps(work->bytes, gamma) * (work->operands > 1 ? work->operands - 1 : 1);
        costs->copy_ps[i] = hki_copy_time(figures, work->bytes);
        for (uint32_t link = 0; link < HKI_LINK_CLASSES; link++)
            costs->messages[(size_t)i * HKI_LINK_CLASSES + link] = cost_of(figures, link, work->bytes);
    }
}

hk_status hki_sim_costs_open(const hki_model *model, const hki_sim_world *world, hki_sim_costs *costs)
{
    size_t works = (size_t)world->work_count + 1;
    *costs = (hki_sim_costs){.model = model};
    costs->messages = malloc(works * HKI_LINK_CLASSES * sizeof *costs->messages);
    costs->reduce_ps = malloc(works * sizeof *costs->reduce_ps);
    costs->copy_ps = malloc(works * sizeof *costs->copy_ps);
    if (!costs->messages || !costs->reduce_ps || !costs->copy_ps) {
        hki_sim_costs_close(costs);
        return hki_error(HK_ERR_NO_MEMORY, "no memory for the costs of %zu kinds of steps", works);
    }
    for (uint32_t i = 0; i < model->cluster->switch_count; i++)
        costs->hops = costs->hops || model->cluster->switches[i].hop_ps;
    fill(costs, world);
    return HK_OK;
}

void hki_sim_costs_close(hki_sim_costs *costs)
{
    free(costs->messages);
    free(costs->reduce_ps);
    free(costs->copy_ps);
    *costs = (hki_sim_costs){0};
}

static const hki_cluster_host *host_of(const hki_cluster *cluster, uint32_t rank)
{
    return &cluster->hosts[cluster->seats[rank].host];
}

uint64_t hki_sim_turns(const hki_cluster *cluster, uint32_t rank, uint64_t ps)
{
    const hki_cluster_host *host = host_of(cluster, rank);
    return host->ranks <= host->capacity ? ps : (uint64_t)((unsigned __int128)ps * host->ranks / host->capacity);
}

uint64_t hki_sim_make_ps(const hki_sim_costs *costs, uint32_t rank, const hki_sim_step *step)
{
    uint64_t ps = costs->model->figures->step_ps;
    if (step->verb == HKI_VERB_COPY)
        ps += costs->copy_ps[step->work];
    else if (step->verb == HKI_VERB_REDUCE)
        ps += costs->reduce_ps[step->work];
    return hki_sim_turns(costs->model->cluster, rank, ps);
}

/* Whether the core reduces what comes while it moves it: rule 4 of cost/price.h. */
static bool reduces_moving(const hki_sim_costs *costs, uint32_t rank, const hki_sim_step *step)
{
    const hki_cluster_host *host = host_of(costs->model->cluster, rank);
    return step->verb == HKI_VERB_RECV_REDUCE && hki_sim_message(costs, step)->core_ps > 0 &&
           host->ranks <= host->capacity;
}

uint64_t hki_sim_reduce_ps(const hki_sim_costs *costs, uint32_t rank, const hki_sim_step *step)
{
    return reduces_moving(costs, rank, step) ? 0
                                             : hki_sim_turns(costs->model->cluster, rank, costs->reduce_ps[step->work]);
}

uint64_t hki_sim_reduce_moving_ps(const hki_sim_costs *costs, uint32_t rank, const hki_sim_step *step)
{
    return reduces_moving(costs, rank, step) ? hki_sim_turns(costs->model->cluster, rank, costs->reduce_ps[step->work])
                                             : 0;
}

uint64_t hki_sim_move_ps(const hki_sim_costs *costs, uint32_t rank, const hki_sim_step *step)
{
    return hki_sim_turns(costs->model->cluster, rank, hki_sim_message(costs, step)->core_ps) +
           hki_sim_reduce_moving_ps(costs, rank, step);
}

uint64_t hki_sim_turn_ps(const hki_sim_costs *costs, uint32_t rank)
{
    const hki_cluster_host *host = host_of(costs->model->cluster, rank);
    bool turns = host->ranks > host->capacity;
    return turns ? costs->model->figures->switch_ps * host->ranks / host->capacity / 2 : 0;
}

uint64_t hki_sim_hops_ps(const hki_sim_costs *costs, uint32_t from, uint32_t to)
{
    uint32_t resources[HKI_ROUTE_MOST];
    uint64_t hops_ps = 0;
    if (costs->hops)
        hki_cluster_route(costs->model->cluster, from, to, resources, &hops_ps);
    return hops_ps;
}

#include "sim/sim.h"

#include <stdlib.h>

#include "base/error.h"
#include "cost/bulk.h"
#include "sim/engine.h"

static hk_status check(const hki_model *model, const hki_call *call)
{
    if (model->cluster->rank_count == call->ranks)
        return HK_OK;
    return hki_error(HK_ERR_ARGUMENT, "a call of %u ranks on a cluster of %u", call->ranks, model->cluster->rank_count);
}

static hk_status no_memory(const hki_sim *sim)
{
    return hki_error(HK_ERR_NO_MEMORY, "no memory for the results of %u ranks with %u steps", sim->call.ranks,
                     sim->world.step_count);
}

static hk_status make_room(hki_sim *sim, bool record)
{
    sim->rank_end = calloc(sim->call.ranks, sizeof *sim->rank_end);
    if (!sim->rank_end)
        return no_memory(sim);
    if (!record)
        return HK_OK;
    sim->times = malloc(((size_t)sim->world.step_count + 1) * sizeof *sim->times);
    sim->loads = calloc(hki_cluster_resources(sim->model.cluster), sizeof *sim->loads);
    return sim->times && sim->loads ? HK_OK : no_memory(sim);
}

static hk_status run(hki_sim *sim, uint64_t bytes, const hki_sim_options *options)
{
    hki_sizes sizes =
        hki_price_sizes(sim->call.collective, sim->call.ranks, bytes, (uint32_t)hk_type_size(sim->model.type));
    uint64_t most = options->most_steps ? options->most_steps : UINT64_MAX;
    uint32_t sharers;
    uint64_t data = hki_bulk_data(sim->call.collective, sim->call.ranks, bytes);
    HK_TRY(check(&sim->model, &sim->call));
    HK_TRY(hki_bulk_sharers(sim->model.cluster, &sharers));
    sim->model.figures = hki_bulk_figures_for(sim->model.figures, data * sharers, &sim->bulk);
    HK_TRY(hki_sim_world_make(sim->model.cluster, sim->algorithm, &sim->call, &sizes, most, &sim->world));
    HK_TRY(hki_sim_costs_open(&sim->model, &sim->world, &sim->costs));
    HK_TRY(make_room(sim, options->record));
    return hki_sim_engine_run(sim);
}

hk_status hki_sim_run(const hki_model *model, const hki_algorithm *algorithm, const hki_call *call, uint64_t bytes,
                      const hki_sim_options *options, hki_sim **sim)
{
    hki_sim *made = calloc(1, sizeof *made);
    if (!made)
        return hki_error(HK_ERR_NO_MEMORY, "no memory to simulate %u ranks", call->ranks);
    *made = (hki_sim){.model = *model, .algorithm = algorithm, .call = *call, .last = HKI_SIM_NO_STEP};
    hk_status status = run(made, bytes, options);
    if (status == HK_OK)
        *sim = made;
    else
        hki_sim_free(made);
    return status;
}

void hki_sim_free(hki_sim *sim)
{
    if (!sim)
        return;
    hki_sim_world_free(&sim->world);
    hki_sim_costs_close(&sim->costs);
    free(sim->rank_end);
    free(sim->times);
    free(sim->loads);
    free(sim);
}

uint64_t hki_sim_end(const hki_sim *sim, uint32_t step)
{
    const hki_sim_step *here = &sim->world.steps[step];
    const hki_sim_times *times = &sim->times[step];
    if (here->verb != HKI_VERB_SEND)
        return times->last;
    bool rendezvous = hki_sim_message(&sim->costs, here)->rendezvous;
    uint64_t gone = rendezvous ? sim->times[here->match].moved : times->last;
    return gone > times->core ? gone : times->core;
}

uint64_t hki_sim_flown(const hki_sim *sim, uint32_t send)
{
    const hki_sim_step *here = &sim->world.steps[send];
    uint32_t from = sim->world.steps[here->match].peer;
    const hki_sim_message_cost *cost = hki_sim_message(&sim->costs, here);
    return sim->times[here->match].moved - (cost->alpha_ps - cost->overhead_ps) -
           hki_sim_hops_ps(&sim->costs, from, here->peer) - hki_sim_turn_ps(&sim->costs, here->peer);
}

/* What the forms of a simulation share: samples, stretches, the busiest links, and texts. */
#include "base/error.h"
#include "tools/sim.h"

#include <stdlib.h>
#include <string.h>

const char *hki_sim_time_text(uint64_t ps, char *text, size_t room)
{
    static const char *const units[] = {"ps", "ns", "us", "ms", "s"};
    double value = (double)ps;
    size_t unit = 0;
    for (; value >= 999.95 && unit + 1 < sizeof units / sizeof *units; unit++)
        value /= 1000;
    int digits = unit == 0 || value >= 999.95 ? 0 : value >= 99.995 ? 1 : value >= 9.9995 ? 2 : 3;
    snprintf(text, room, "%.*f %s", digits, value, units[unit]);
    return text;
}

const char *hki_sim_leg_name(hki_sim_leg_kind kind)
{
    static const char *const names[] = {
        [HKI_SIM_LEG_MESSAGE] = "message", [HKI_SIM_LEG_WAY] = "way",       [HKI_SIM_LEG_MAKE] = "make",
        [HKI_SIM_LEG_MOVE] = "move",       [HKI_SIM_LEG_REDUCE] = "reduce", [HKI_SIM_LEG_TURN] = "turn"};
    return names[kind];
}

/* ---- candidates ---- */

static int compare_candidates(const void *a, const void *b)
{
    const hki_sim_candidate *left = *(const hki_sim_candidate *const *)a, *right = *(const hki_sim_candidate *const *)b;
    if (left->total_ps != right->total_ps)
        return left->total_ps < right->total_ps ? -1 : 1;
    return (left > right) - (left < right); /* in the order in which they were tried */
}

size_t hki_sim_ranking(const hki_sim_study *study, const hki_sim_candidate **ranking)
{
    size_t count = 0;
    for (size_t i = 0; i < study->count; i++)
        if (!study->candidates[i].skipped)
            ranking[count++] = &study->candidates[i];
    qsort(ranking, count, sizeof *ranking, compare_candidates);
    return count;
}

/* ---- ranks ---- */

static int compare_ranks(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

uint32_t hki_sim_sample(const hki_sim *sim, uint64_t steps, uint32_t *ranks, uint32_t room)
{
    uint32_t all = sim->call.ranks, count = 0, kept = 0;
    uint64_t each = sim->world.step_count / all + 1, wanted = steps / each;
    wanted = wanted < 8 ? 8 : wanted;
    wanted = wanted > room ? room : wanted;
    if (all <= wanted) {
        for (uint32_t rank = 0; rank < all; rank++)
            ranks[rank] = rank;
        return all;
    }
    ranks[count++] = sim->call.root;
    ranks[count++] = sim->last == HKI_SIM_NO_STEP ? 0 : hki_sim_world_rank(&sim->world, sim->last);
    uint32_t neighbours = (uint32_t)wanted / 2, spread = (uint32_t)wanted - count - neighbours;
    for (uint32_t i = 0; i < neighbours; i++)
        ranks[count++] = i;
    for (uint32_t i = 1; i <= spread; i++)
        ranks[count++] = (uint32_t)((uint64_t)(all - 1) * i / spread);
    qsort(ranks, count, sizeof *ranks, compare_ranks);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || ranks[kept - 1] != ranks[i])
            ranks[kept++] = ranks[i];
    return kept;
}

/* ---- stretches ---- */

static int compare_stretches(const void *a, const void *b)
{
    const hki_sim_stretch *left = a, *right = b;
    if (left->lane != right->lane)
        return left->lane < right->lane ? -1 : 1;
    if (left->end_ps != right->end_ps)
        return left->end_ps < right->end_ps ? -1 : 1;
    return (left->step > right->step) - (left->step < right->step);
}

typedef struct stretch_list {
    hki_sim_stretch *items;
    uint32_t count;
} stretch_list;

/* One that ends then and took so long, if it took any time. */
static void add(stretch_list *list, hki_sim_lane lane, hki_sim_leg_kind kind, uint32_t step, uint64_t end, uint64_t ps)
{
    if (ps)
        list->items[list->count++] = (hki_sim_stretch){end - ps, end, step, lane, kind};
}

static void add_step(const hki_sim *sim, uint32_t rank, uint32_t step, stretch_list *list)
{
    const hki_sim_step *here = &sim->world.steps[step];
    const hki_sim_times *times = &sim->times[step];
    add(list, HKI_SIM_CORE, HKI_SIM_LEG_MAKE, step, times->made, hki_sim_make_ps(&sim->costs, rank, here));
    if (!hki_sim_is_message(here))
        return;
    bool sends = here->verb == HKI_VERB_SEND;
    add(list, HKI_SIM_CORE, HKI_SIM_LEG_MOVE, step, times->core, hki_sim_move_ps(&sim->costs, rank, here));
    if (here->verb == HKI_VERB_RECV_REDUCE)
        add(list, HKI_SIM_CORE, HKI_SIM_LEG_REDUCE, step, times->last, hki_sim_reduce_ps(&sim->costs, rank, here));
    if (sends) {
        add(list, HKI_SIM_OUT, HKI_SIM_LEG_MESSAGE, step, times->last, times->last - times->moved);
    } else {
        uint64_t flown = hki_sim_flown(sim, here->match);
        add(list, HKI_SIM_IN, HKI_SIM_LEG_MESSAGE, step, flown, flown - sim->times[here->match].moved);
    }
}

hk_status hki_sim_stretches(const hki_sim *sim, uint32_t rank, hki_sim_stretch **stretches, uint32_t *count)
{
    enum { MOST_EACH = 4 };
    uint32_t first = sim->world.first[rank], behind = sim->world.first[rank + 1];
    stretch_list list = {malloc(((size_t)(behind - first) * MOST_EACH + 1) * sizeof *list.items), 0};
    if (!list.items)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for what rank %u did in %u steps", rank, behind - first);
    for (uint32_t step = first; step < behind; step++)
        add_step(sim, rank, step, &list);
    qsort(list.items, list.count, sizeof *list.items, compare_stretches);
    for (uint32_t i = 1; i < list.count; i++) { /* messages that were held up came in only after the one before */
        const hki_sim_stretch *before = &list.items[i - 1];
        if (list.items[i].lane == before->lane && list.items[i].begin_ps < before->end_ps)
            list.items[i].begin_ps = before->end_ps;
    }
    *stretches = list.items;
    *count = list.count;
    return HK_OK;
}

/* ---- links ---- */

static bool busier(const hki_sim_load *left, const hki_sim_load *right)
{
    return left->busy_ps != right->busy_ps ? left->busy_ps > right->busy_ps : left->bytes > right->bytes;
}

/* One link of the list with the same kind and load, or NULL. */
static hki_sim_link *alike(const hki_sim_study *study, hki_sim_link *links, uint32_t count, uint32_t resource)
{
    const hki_sim_load *load = &study->sim->loads[resource];
    hki_resource_kind kind = hki_cluster_resource(study->cluster, resource).kind;
    for (uint32_t i = 0; i < count; i++) {
        const hki_sim_load *other = &study->sim->loads[links[i].resource];
        if (other->bytes == load->bytes && other->busy_ps == load->busy_ps && other->most == load->most &&
            hki_cluster_resource(study->cluster, links[i].resource).kind == kind)
            return &links[i];
    }
    return NULL;
}

uint32_t hki_sim_busiest(const hki_sim_study *study, hki_sim_link *links, uint32_t room)
{
    const hki_sim_load *loads = study->sim->loads;
    uint32_t count = 0, all = hki_cluster_resources(study->cluster);
    for (uint32_t i = 0; room && i < all; i++) {
        hki_sim_link *same = alike(study, links, count, i);
        if (same)
            same->alike++;
        if (same || !loads[i].bytes || (count == room && !busier(&loads[i], &loads[links[count - 1].resource])))
            continue;
        uint32_t at = count < room ? count++ : count - 1;
        for (; at > 0 && busier(&loads[i], &loads[links[at - 1].resource]); at--)
            links[at] = links[at - 1];
        links[at] = (hki_sim_link){i, 1};
    }
    return count;
}

static uint32_t host_of_numa(const hki_cluster *cluster, uint32_t numa)
{
    uint32_t host = 0;
    while (host + 1 < cluster->host_count && cluster->hosts[host + 1].numa_first <= numa)
        host++;
    return host;
}

void hki_sim_link_text(const hki_sim_study *study, const hki_sim_link *link, char *text, size_t room)
{
    hki_resource resource = hki_cluster_resource(study->cluster, link->resource);
    char others[32] = "";
    uint32_t host;
    if (link->alike > 1)
        snprintf(others, sizeof others, " and %u like it", link->alike - 1);
    switch (resource.kind) {
    case HKI_RESOURCE_MEMORY:
        host = host_of_numa(study->cluster, resource.index);
        snprintf(text, room, "memory %u of host %u%s", resource.index - study->cluster->hosts[host].numa_first, host,
                 others);
        break;
    case HKI_RESOURCE_NIC_OUT:
    case HKI_RESOURCE_NIC_IN:
        snprintf(text, room, "%s host %u%s", resource.kind == HKI_RESOURCE_NIC_OUT ? "out of" : "into", resource.index,
                 others);
        break;
    case HKI_RESOURCE_UPLINK:
    case HKI_RESOURCE_DOWNLINK:
        snprintf(text, room, "%s switch %u%s", resource.kind == HKI_RESOURCE_UPLINK ? "up from" : "down to",
                 resource.index, others);
        break;
    }
}

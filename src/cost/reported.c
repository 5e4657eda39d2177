#include "cost/reported.h"

#include <stddef.h>

static uint32_t whole(double value)
{
    return value >= 0.5 && value < 4e9 ? (uint32_t)(value + 0.5) : 0;
}

hki_port_cost hki_port_cost_of(double alpha_ns, double beta_ns)
{
    return (hki_port_cost){whole(alpha_ns), whole(beta_ns * 1024e3)};
}

/* ---- which link ---- */

void hki_reported_costs(hki_cluster *cluster, const hki_figures *figures, bool by_cost)
{
    hki_link_costs *costs = &cluster->costs;
    *costs = (hki_link_costs){.known = by_cost};
    for (int link = 0; link < HKI_LINK_CLASSES; link++) {
        const hki_link_figures *one = &figures->link[link];
        const hki_range_figures *range = hki_figures_range(one, HKI_LINK_BYTES);
        costs->alpha_ps[link] = range->alpha_ps;
        costs->beta_ps[link] = range->beta_ps;
        costs->measured[link] = one->origin != HKI_BUILT_IN;
        costs->by_ports[link] = link >= HKI_LINK_LOOPBACK && one->origin == HKI_BUILT_IN;
    }
}

/* ---- at which price ---- */

static const hki_port_cost *port_of(const hki_cluster *cluster, uint32_t rank, hki_link_class link)
{
    return link == HKI_LINK_VERBS ? &cluster->ports[rank].verbs : &cluster->ports[rank].tcp;
}

/* The slowest port of those that reach others by this network. */
static hki_port_cost slowest(const hki_cluster *cluster, hki_link_class link)
{
    unsigned reach = link == HKI_LINK_VERBS ? HKI_REACH_VERBS : HKI_REACH_TCP;
    hki_port_cost worst = {0};
    for (uint32_t rank = 0; rank < cluster->rank_count; rank++) {
        const hki_port_cost *port = port_of(cluster, rank, link);
        if (!(cluster->seats[rank].reach & reach))
            continue;
        worst.alpha_ns = port->alpha_ns > worst.alpha_ns ? port->alpha_ns : worst.alpha_ns;
        worst.beta_ps = port->beta_ps > worst.beta_ps ? port->beta_ps : worst.beta_ps;
    }
    return worst;
}

static uint64_t scale(uint64_t value, uint64_t to, uint64_t from)
{
    return from ? (uint64_t)((unsigned __int128)value * to / from) : to;
}

/* Latency is measured with the smallest messages, and a rate holds for the largest. */
static void scale_link(hki_link_figures *link, uint64_t alpha_ps, uint64_t beta_ps)
{
    const hki_range_figures first = link->range[0], last = link->range[link->ranges - 1];
    for (uint32_t i = 0; i < link->ranges; i++) {
        hki_range_figures *range = &link->range[i];
        if (alpha_ps) {
            range->alpha_ps = scale(range->alpha_ps, alpha_ps, first.alpha_ps);
            range->overhead_ps = scale(range->overhead_ps, alpha_ps, first.alpha_ps);
        }
        if (beta_ps)
            range->beta_ps = scale(range->beta_ps, beta_ps, last.beta_ps);
        if (range->core_ps > range->beta_ps)
            range->core_ps = range->beta_ps; /* no core is busy for longer than the bytes take */
    }
    link->origin = HKI_REPORTED;
}

static void apply(const hki_cluster *cluster, hki_link_class link, hki_figures *figures)
{
    hki_link_figures *one = &figures->link[link];
    hki_port_cost worst = slowest(cluster, link);
    uint64_t alpha_ps = (uint64_t)worst.alpha_ns * 1000;
    if (link == HKI_LINK_TCP && alpha_ps <= one->range[0].alpha_ps)
        alpha_ps = 0; /* of the host's own stack: less than what a network adds to it says nothing */
    if (one->origin == HKI_BUILT_IN && (alpha_ps || worst.beta_ps))
        scale_link(one, alpha_ps, worst.beta_ps);
}

void hki_reported_apply(const hki_cluster *cluster, hki_figures *figures)
{
    if (!cluster->ports)
        return;
    apply(cluster, HKI_LINK_VERBS, figures);
    if (cluster->host_count > 1)
        apply(cluster, HKI_LINK_TCP, figures);
}

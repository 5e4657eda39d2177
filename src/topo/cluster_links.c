/* By which kind of link two ranks talk: what they share decides which there are, and what each costs which is taken. */
#include "topo/cluster.h"

static bool share(uint16_t left, uint16_t right)
{
    return left == right && left != HKI_TOPOLOGY_NO_CACHE;
}

static hki_link_class within_host(const hki_seat *left, const hki_seat *right)
{
    if (share(left->core, right->core))
        return HKI_LINK_CORE;
    if (share(left->l2, right->l2))
        return HKI_LINK_L2;
    if (share(left->l3, right->l3))
        return HKI_LINK_L3;
    if (share(left->numa, right->numa))
        return HKI_LINK_NUMA;
    return share(left->package, right->package) ? HKI_LINK_PACKAGE : HKI_LINK_HOST;
}

/* ---- costs ---- */

static uint64_t larger(uint64_t left, uint64_t right)
{
    return left > right ? left : right;
}

/* What the ports of both ends make of a network's latency and time for a KiB. */
static void ask_ports(const hki_port_cost *left, const hki_port_cost *right, uint64_t *alpha_ps, uint64_t *beta_ps)
{
    if (left->alpha_ns && right->alpha_ns)
        *alpha_ps = ((uint64_t)left->alpha_ns + right->alpha_ns) * 500;
    if (left->beta_ps && right->beta_ps)
        *beta_ps = larger(left->beta_ps, right->beta_ps);
}

static uint64_t cost_of(const hki_cluster *cluster, hki_link_class link, uint32_t left, uint32_t right)
{
    const hki_link_costs *costs = &cluster->costs;
    uint64_t alpha = costs->alpha_ps[link], beta = costs->beta_ps[link], least = 0;
    if (!costs->known)
        return 0;
    if (costs->by_ports[link] && cluster->ports) {
        const hki_ports *a = &cluster->ports[left], *b = &cluster->ports[right];
        bool verbs = link == HKI_LINK_VERBS;
        least = verbs ? 0 : alpha;
        ask_ports(verbs ? &a->verbs : &a->tcp, verbs ? &b->verbs : &b->tcp, &alpha, &beta);
        if (link == HKI_LINK_LOOPBACK) /* what the interface carries does not matter there */
            beta = costs->beta_ps[link];
    }
    return larger(alpha, least) + HKI_LINK_BYTES / 1024 * beta;
}

/* ---- choice ---- */

/* Whether the cost of a link was measured here, by whom ever. */
static bool is_measured(const hki_cluster *cluster, hki_link_class link, uint32_t left, uint32_t right)
{
    if (cluster->costs.measured[link] || link != HKI_LINK_VERBS || !cluster->ports)
        return cluster->costs.measured[link];
    const hki_port_cost *a = &cluster->ports[left].verbs, *b = &cluster->ports[right].verbs;
    return a->alpha_ns && a->beta_ps && b->alpha_ns && b->beta_ps;
}

/* Puts one more among the ways, behind those that cost no more, and behind shared memory unless both were measured. */
static void add_way(const hki_cluster *cluster, hki_link_class link, uint32_t left, uint32_t right, hki_link_way *ways,
                    uint32_t *count)
{
    hki_link_way way = {link, cost_of(cluster, link, left, right)};
    uint32_t at = (*count)++;
    bool measured = is_measured(cluster, link, left, right);
    for (; at > 0 && ways[at - 1].ps > way.ps; at--) {
        hki_link_class before = ways[at - 1].link;
        if (before <= HKI_LINK_HOST && !(measured && cluster->costs.measured[before]))
            break;
        ways[at] = ways[at - 1];
    }
    ways[at] = way;
}

uint32_t hki_cluster_ways(const hki_cluster *cluster, uint32_t left, uint32_t right, hki_link_way ways[HKI_LINK_WAYS])
{
    const hki_seat *a = &cluster->seats[left], *b = &cluster->seats[right];
    unsigned reach = a->reach & b->reach;
    bool together = a->host == b->host;
    uint32_t count = 0;
    if (together && reach & HKI_REACH_SHM)
        add_way(cluster, within_host(a, b), left, right, ways, &count);
    if (reach & HKI_REACH_VERBS)
        add_way(cluster, HKI_LINK_VERBS, left, right, ways, &count);
    if (reach & HKI_REACH_TCP)
        add_way(cluster, together ? HKI_LINK_LOOPBACK : HKI_LINK_TCP, left, right, ways, &count);
    return count;
}

hki_link_class hki_cluster_link(const hki_cluster *cluster, uint32_t left, uint32_t right)
{
    const hki_seat *a = &cluster->seats[left], *b = &cluster->seats[right];
    bool together = a->host == b->host;
    hki_link_way ways[HKI_LINK_WAYS];
    if (!cluster->costs.known && together && a->reach & b->reach & HKI_REACH_SHM)
        return within_host(a, b); /* what simulations ask most */
    if (hki_cluster_ways(cluster, left, right, ways) > 0)
        return ways[0].link;
    return together ? HKI_LINK_LOOPBACK : HKI_LINK_TCP; /* none that is known: priced as if by tcp */
}

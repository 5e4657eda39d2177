/* Clusters: made, checked, and asked which way bytes go. */
#include "topo/cluster.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

static const uint32_t ranks_most = UINT32_C(1) << 24;

/* ---------------------------------------------------------------------------------------------------------------
 * Names
 * ------------------------------------------------------------------------------------------------------------- */

static const char *const names[HKI_LINK_CLASSES] = {
#define HKI_X(ID, name, text) name,
    HKI_LINK_CLASS_LIST(HKI_X)
#undef HKI_X
};

static const char *const texts[HKI_LINK_CLASSES] = {
#define HKI_X(ID, name, text) text,
    HKI_LINK_CLASS_LIST(HKI_X)
#undef HKI_X
};

const char *hki_link_class_name(hki_link_class link)
{
    return link < HKI_LINK_CLASSES ? names[link] : "?";
}

const char *hki_link_class_text(hki_link_class link)
{
    return link < HKI_LINK_CLASSES ? texts[link] : "?";
}

int hki_link_class_find(const char *name)
{
    for (int link = 0; link < HKI_LINK_CLASSES; link++)
        if (strcmp(names[link], name) == 0)
            return link;
    return -1;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Seats
 * ------------------------------------------------------------------------------------------------------------- */

static void narrow(uint16_t *seat, uint16_t pu, bool first)
{
    *seat = first || *seat == pu ? pu : HKI_TOPOLOGY_NO_CACHE;
}

hki_seat hki_seat_of(const hki_topology *topology, const hki_cpus *cpus)
{
    const uint16_t none = HKI_TOPOLOGY_NO_CACHE;
    const hki_seat nowhere = {.package = none, .numa = none, .l3 = none, .l2 = none, .core = none};
    hki_seat seat = nowhere;
    bool first = true;
    if (!topology || !hki_topology_holds(topology, cpus))
        return nowhere;
    for (uint32_t i = 0; i < topology->pu_count; i++) {
        const hki_pu *pu = &topology->pus[i];
        if (!hki_cpus_has(cpus, pu->os))
            continue;
        narrow(&seat.package, pu->package, first);
        narrow(&seat.numa, pu->numa, first);
        narrow(&seat.l3, pu->l3, first);
        narrow(&seat.l2, pu->l2, first);
        narrow(&seat.core, pu->core, first);
        first = false;
    }
    return seat;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Making
 * ------------------------------------------------------------------------------------------------------------- */

hki_cluster *hki_cluster_new(uint32_t ranks, uint32_t hosts, uint32_t switches, const char *source)
{
    hki_cluster *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    *made = (hki_cluster){.rank_count = ranks, .host_count = hosts, .switch_count = switches};
    made->seats = calloc((size_t)ranks + 1, sizeof *made->seats);
    made->hosts = calloc((size_t)hosts + 1, sizeof *made->hosts);
    made->switches = calloc((size_t)switches + 1, sizeof *made->switches);
    made->source = strdup(source);
    if (made->seats && made->hosts && made->switches && made->source)
        return made;
    hki_cluster_free(made);
    return NULL;
}

bool hki_cluster_add_ports(hki_cluster *cluster)
{
    cluster->ports = calloc((size_t)cluster->rank_count + 1, sizeof *cluster->ports);
    return cluster->ports != NULL;
}

void hki_cluster_free(hki_cluster *cluster)
{
    if (!cluster)
        return;
    free(cluster->seats);
    free(cluster->ports);
    free(cluster->hosts);
    free(cluster->switches);
    free(cluster->source);
    hki_levels_free(cluster->levels);
    free(cluster);
}

/* How many switches are above this one; HKI_SWITCH_LEVELS when there are too many, or a circle. */
static uint32_t levels_above(const hki_cluster *cluster, uint32_t number)
{
    uint32_t levels = 0;
    for (uint32_t above = cluster->switches[number].above; above != UINT32_MAX; above = cluster->switches[above].above)
        if (++levels == HKI_SWITCH_LEVELS)
            break;
    return levels;
}

static hk_status check_switches(const hki_cluster *cluster)
{
    if (cluster->switch_count == 0)
        return hki_error(HK_ERR_ARGUMENT, "a cluster has at least one switch");
    for (uint32_t i = 0; i < cluster->switch_count; i++) {
        uint32_t above = cluster->switches[i].above;
        if (above != UINT32_MAX && above >= cluster->switch_count)
            return hki_error(HK_ERR_ARGUMENT, "switch %u hangs below switch %u, which does not exist", i, above);
    }
    for (uint32_t i = 0; i < cluster->switch_count; i++)
        if (levels_above(cluster, i) == HKI_SWITCH_LEVELS)
            return hki_error(HK_ERR_ARGUMENT, "switch %u hangs below itself, or below more than %d others", i,
                             HKI_SWITCH_LEVELS - 1);
    return HK_OK;
}

static hk_status settle_hosts(hki_cluster *cluster)
{
    uint64_t numas = 0;
    for (uint32_t i = 0; i < cluster->host_count; i++) {
        hki_cluster_host *host = &cluster->hosts[i];
        if (host->capacity == 0 || host->numas == 0 || host->nics == 0)
            return hki_error(HK_ERR_ARGUMENT, "host %u has no core, no NUMA node, or no NIC", i);
        if (host->above >= cluster->switch_count)
            return hki_error(HK_ERR_ARGUMENT, "host %u is plugged into switch %u, which does not exist", i,
                             host->above);
        host->ranks = 0;
        host->numa_first = (uint32_t)numas;
        numas += host->numas;
    }
    if (numas > ranks_most)
        return hki_error(HK_ERR_ARGUMENT, "a cluster of more than 2^24 NUMA nodes");
    cluster->numa_count = (uint32_t)numas;
    return HK_OK;
}

static hk_status settle_seats(hki_cluster *cluster)
{
    for (uint32_t rank = 0; rank < cluster->rank_count; rank++) {
        const hki_seat *seat = &cluster->seats[rank];
        if (seat->host >= cluster->host_count)
            return hki_error(HK_ERR_ARGUMENT, "rank %u is on host %u, which does not exist", rank, seat->host);
        if (seat->numa != HKI_TOPOLOGY_NO_CACHE && seat->numa >= cluster->hosts[seat->host].numas)
            return hki_error(HK_ERR_ARGUMENT, "rank %u is on NUMA node %u, which host %u does not have", rank,
                             seat->numa, seat->host);
        cluster->hosts[seat->host].ranks++;
    }
    for (uint32_t i = 0; i < cluster->host_count; i++)
        if (cluster->hosts[i].ranks == 0)
            return hki_error(HK_ERR_ARGUMENT, "host %u has no ranks", i);
    return HK_OK;
}

enum { L3, NUMA, PACKAGE, HOST, SWITCH, LABELS = SWITCH + HKI_SWITCH_LEVELS };
_Static_assert((int)LABELS <= (int)HKI_LEVELS_MOST, "a level for each");

static void label_rank(const hki_cluster *cluster, uint32_t rank, uint32_t *const labels[LABELS])
{
    const hki_seat *seat = &cluster->seats[rank];
    uint32_t above = cluster->hosts[seat->host].above;
    labels[L3][rank] = seat->l3;
    labels[NUMA][rank] = seat->numa;
    labels[PACKAGE][rank] = seat->package;
    labels[HOST][rank] = seat->host;
    for (uint32_t level = 0; level < HKI_SWITCH_LEVELS; level++) {
        labels[SWITCH + level][rank] = above;
        above = above == UINT32_MAX ? above : cluster->switches[above].above;
    }
}

static hk_status find_levels(hki_cluster *cluster)
{
    uint32_t *labels[LABELS], ranks = cluster->rank_count, *all = malloc((size_t)LABELS * ranks * sizeof *all);
    bool complete = all != NULL;
    for (uint32_t i = 0; complete && i < LABELS; i++)
        labels[i] = all + (size_t)i * ranks;
    for (uint32_t rank = 0; complete && rank < ranks; rank++)
        label_rank(cluster, rank, labels);
    hki_levels_free(cluster->levels);
    cluster->levels = NULL;
    if (complete)
        complete = hki_levels_new(ranks, (const uint32_t *const *)labels, LABELS, HOST, &cluster->levels);
    free(all);
    return complete ? HK_OK : hki_error(HK_ERR_NO_MEMORY, "no memory for the levels of %u ranks", ranks);
}

hk_status hki_cluster_settle(hki_cluster *cluster)
{
    if (cluster->rank_count == 0 || cluster->rank_count > ranks_most)
        return hki_error(HK_ERR_ARGUMENT, "a cluster of %u ranks: 1 … 2^24 are possible", cluster->rank_count);
    HK_TRY(check_switches(cluster));
    HK_TRY(settle_hosts(cluster));
    HK_TRY(settle_seats(cluster));
    return find_levels(cluster);
}

/* Gives the hosts of listed ranks new numbers in order of appearance; returns how many there are. */
static uint32_t renumber_hosts(const hki_cluster *cluster, const uint32_t *world, uint32_t ranks, uint32_t *number)
{
    uint32_t hosts = 0;
    for (uint32_t host = 0; host < cluster->host_count; host++)
        number[host] = UINT32_MAX;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint32_t host = cluster->seats[world[rank]].host;
        if (number[host] == UINT32_MAX)
            number[host] = hosts++;
    }
    return hosts;
}

static void copy_members(const hki_cluster *cluster, const uint32_t *world, const uint32_t *number, hki_cluster *made)
{
    for (uint32_t rank = 0; rank < made->rank_count; rank++) {
        made->seats[rank] = cluster->seats[world[rank]];
        made->seats[rank].host = number[made->seats[rank].host];
        if (cluster->ports)
            made->ports[rank] = cluster->ports[world[rank]];
    }
    made->costs = cluster->costs;
    for (uint32_t host = 0; host < cluster->host_count; host++)
        if (number[host] != UINT32_MAX)
            made->hosts[number[host]] = cluster->hosts[host];
    memcpy(made->switches, cluster->switches, cluster->switch_count * sizeof *made->switches);
}

hk_status hki_cluster_members(const hki_cluster *cluster, const uint32_t *world, uint32_t ranks, hki_cluster **members)
{
    uint32_t *number = malloc(cluster->host_count * sizeof *number);
    uint32_t hosts = number ? renumber_hosts(cluster, world, ranks, number) : 0;
    hki_cluster *made = number ? hki_cluster_new(ranks, hosts, cluster->switch_count, cluster->source) : NULL;
    bool complete = made && (!cluster->ports || hki_cluster_add_ports(made));
    if (complete)
        copy_members(cluster, world, number, made);
    free(number);
    if (!complete) {
        hki_cluster_free(made);
        made = NULL;
    }
    if (!made)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a cluster of %u ranks", ranks);
    hk_status status = hki_cluster_settle(made);
    if (status == HK_OK)
        *members = made;
    else
        hki_cluster_free(made);
    return status;
}

hk_status hki_cluster_uniform(uint32_t hosts, uint32_t ranks, uint32_t capacity, hki_cluster **cluster)
{
    uint64_t all = (uint64_t)hosts * ranks;
    if (all == 0 || all > ranks_most || capacity == 0 || capacity > HKI_TOPOLOGY_PUS_MAX)
        return hki_error(HK_ERR_ARGUMENT,
                         "%u hosts of %u ranks and %u cores: 1 … 2^24 ranks and 1 … %d cores are "
                         "possible",
                         hosts, ranks, capacity, (int)HKI_TOPOLOGY_PUS_MAX);
    hki_cluster *made = hki_cluster_new((uint32_t)all, hosts, 1, "equal hosts on one switch");
    if (!made)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a cluster of %u hosts", hosts);
    made->switches[0].above = UINT32_MAX;
    for (uint32_t i = 0; i < hosts; i++)
        made->hosts[i] = (hki_cluster_host){.capacity = capacity, .numas = 1, .nics = 1};
    for (uint32_t rank = 0; rank < all; rank++) {
        uint16_t core = (uint16_t)(rank % ranks % capacity);
        made->seats[rank] =
            (hki_seat){.host = rank / ranks, .l2 = core, .core = core, .reach = HKI_REACH_SHM | HKI_REACH_TCP};
    }
    hk_status status = hki_cluster_settle(made);
    if (status != HK_OK) {
        hki_cluster_free(made);
        return status;
    }
    *cluster = made;
    return HK_OK;
}

static bool equal_ports(const hki_cluster *left, const hki_cluster *right)
{
    if (!left->ports || !right->ports)
        return left->ports == right->ports;
    return memcmp(left->ports, right->ports, left->rank_count * sizeof *left->ports) == 0;
}

bool hki_cluster_equal(const hki_cluster *left, const hki_cluster *right)
{
    return left->rank_count == right->rank_count && left->host_count == right->host_count &&
           memcmp(left->seats, right->seats, left->rank_count * sizeof *left->seats) == 0 &&
           memcmp(left->hosts, right->hosts, left->host_count * sizeof *left->hosts) == 0 && equal_ports(left, right);
}

/* ---------------------------------------------------------------------------------------------------------------
 * What is shared: nodes' memory, then NICs out, NICs in, uplinks, downlinks
 * ------------------------------------------------------------------------------------------------------------- */

uint32_t hki_cluster_resources(const hki_cluster *cluster)
{
    return cluster->numa_count + 2 * cluster->host_count + 2 * cluster->switch_count;
}

static uint32_t nic_out(const hki_cluster *cluster, uint32_t host)
{
    return cluster->numa_count + host;
}

static uint32_t nic_in(const hki_cluster *cluster, uint32_t host)
{
    return cluster->numa_count + cluster->host_count + host;
}

static uint32_t uplink(const hki_cluster *cluster, uint32_t number)
{
    return cluster->numa_count + 2 * cluster->host_count + number;
}

static uint32_t downlink(const hki_cluster *cluster, uint32_t number)
{
    return cluster->numa_count + 2 * cluster->host_count + cluster->switch_count + number;
}

hki_resource hki_cluster_resource(const hki_cluster *cluster, uint32_t resource)
{
    uint32_t hosts = cluster->host_count, switches = cluster->switch_count;
    if (resource < cluster->numa_count)
        return (hki_resource){HKI_RESOURCE_MEMORY, resource, 0};
    resource -= cluster->numa_count;
    if (resource < 2 * hosts) {
        hki_resource_kind way = resource < hosts ? HKI_RESOURCE_NIC_OUT : HKI_RESOURCE_NIC_IN;
        return (hki_resource){way, resource % hosts, cluster->hosts[resource % hosts].nic_rate};
    }
    resource -= 2 * hosts;
    hki_resource_kind way = resource < switches ? HKI_RESOURCE_UPLINK : HKI_RESOURCE_DOWNLINK;
    return (hki_resource){way, resource % switches, cluster->switches[resource % switches].uplink_rate};
}

static uint32_t memory_of(const hki_cluster *cluster, uint32_t rank)
{
    const hki_seat *seat = &cluster->seats[rank];
    const hki_cluster_host *host = &cluster->hosts[seat->host];
    return host->numa_first + (seat->numa != HKI_TOPOLOGY_NO_CACHE ? seat->numa : rank % host->numas);
}

static uint32_t route_within(const hki_cluster *cluster, uint32_t from, uint32_t to, uint32_t *resources)
{
    resources[0] = memory_of(cluster, from);
    resources[1] = memory_of(cluster, to);
    return resources[1] != resources[0] ? 2 : 1;
}

/* From the switch of one host up to the first that is above both, and down to that of the other. Trees of their own
 * hang together above their roots, at no cost. */
static uint32_t route_switches(const hki_cluster *cluster, uint32_t left, uint32_t right, uint32_t *resources,
                               uint64_t *hops_ps)
{
    uint32_t up = 0, down = 0, back[HKI_SWITCH_LEVELS];
    uint32_t left_levels = levels_above(cluster, left), right_levels = levels_above(cluster, right);
    while (left != right) {
        bool climb_left = left_levels >= right_levels, climb_right = right_levels >= left_levels;
        if (climb_left) {
            const hki_cluster_switch *passed = &cluster->switches[left];
            *hops_ps += passed->hop_ps;
            if (passed->above != UINT32_MAX)
                resources[up++] = uplink(cluster, left);
            left = passed->above;
            left_levels--;
        }
        if (climb_right) {
            const hki_cluster_switch *passed = &cluster->switches[right];
            *hops_ps += passed->hop_ps;
            if (passed->above != UINT32_MAX)
                back[down++] = downlink(cluster, right);
            right = passed->above;
            right_levels--;
        }
    }
    if (left != UINT32_MAX)
        *hops_ps += cluster->switches[left].hop_ps;
    for (uint32_t i = 0; i < down; i++)
        resources[up + i] = back[down - 1 - i];
    return up + down;
}

uint32_t hki_cluster_route(const hki_cluster *cluster, uint32_t from, uint32_t to, uint32_t resources[HKI_ROUTE_MOST],
                           uint64_t *hops_ps)
{
    uint32_t left = cluster->seats[from].host, right = cluster->seats[to].host;
    *hops_ps = 0;
    if (left == right)
        return route_within(cluster, from, to, resources);
    uint32_t count = 0;
    resources[count++] = nic_out(cluster, left);
    count +=
        route_switches(cluster, cluster->hosts[left].above, cluster->hosts[right].above, resources + count, hops_ps);
    resources[count++] = nic_in(cluster, right);
    return count;
}

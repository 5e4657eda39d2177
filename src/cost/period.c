#include "cost/period.h"

#include <stdlib.h>

#include "base/error.h"

/* The root's child that a host is below; UINT32_MAX: it is plugged into the root itself. */
static uint32_t branch_of(const hki_cluster *cluster, uint32_t host)
{
    uint32_t branch = UINT32_MAX;
    for (uint32_t at = cluster->hosts[host].above; cluster->switches[at].above != UINT32_MAX;
         at = cluster->switches[at].above)
        branch = at;
    return branch;
}

/* Hosts below the same child of the root as the first: the least that a part can have. */
static uint32_t hosts_of_part(const hki_cluster *cluster)
{
    uint32_t branch = branch_of(cluster, 0), hosts = 1;
    while (branch != UINT32_MAX && hosts < cluster->host_count && branch_of(cluster, hosts) == branch)
        hosts++;
    return hosts;
}

static bool hosts_alike(const hki_cluster_host *a, const hki_cluster_host *b)
{
    return a->ranks == b->ranks && a->capacity == b->capacity && a->numas == b->numas && a->nics == b->nics &&
           a->nic_rate == b->nic_rate;
}

/* Whether the same switches are above two hosts, up to the root, which is one; which of them those of `host` are like
 * is noted. */
static bool switches_alike(const hki_cluster *cluster, uint32_t host, uint32_t first, uint32_t *like)
{
    uint32_t left = cluster->hosts[host].above, right = cluster->hosts[first].above;
    while (left != right) {
        const hki_cluster_switch *a = &cluster->switches[left], *b = &cluster->switches[right];
        bool noted = like[left] != UINT32_MAX && like[left] != right;
        if (noted || a->above == UINT32_MAX || b->above == UINT32_MAX || a->uplink_rate != b->uplink_rate ||
            a->hop_ps != b->hop_ps)
            return false;
        like[left] = right;
        left = a->above;
        right = b->above;
    }
    return cluster->switches[left].above == UINT32_MAX; /* else parts share more than the root */
}

static bool seats_alike(const hki_seat *a, const hki_seat *b)
{
    return a->package == b->package && a->numa == b->numa && a->l3 == b->l3 && a->l2 == b->l2 && a->core == b->core &&
           a->reach == b->reach;
}

/* Whether the cluster is this many hosts over and over again. */
static bool repeats(const hki_cluster *cluster, uint32_t hosts, uint32_t ranks, uint32_t *like)
{
    if (hosts == cluster->host_count || cluster->host_count % hosts != 0 ||
        (uint64_t)ranks * (cluster->host_count / hosts) != cluster->rank_count)
        return false;
    for (uint32_t host = hosts; host < cluster->host_count; host += hosts)
        if (hosts > 1 && branch_of(cluster, host) == branch_of(cluster, host - 1))
            return false;
    for (uint32_t host = hosts; host < cluster->host_count; host++)
        if (!hosts_alike(&cluster->hosts[host], &cluster->hosts[host % hosts]) ||
            !switches_alike(cluster, host, host % hosts, like))
            return false;
    for (uint32_t rank = 0; rank < cluster->rank_count; rank++) {
        const hki_seat *seat = &cluster->seats[rank], *first = &cluster->seats[rank % ranks];
        if (seat->host != first->host + rank / ranks * hosts || !seats_alike(seat, first))
            return false;
    }
    return true;
}

/* The resource of the first part that is at the same place. */
static uint32_t counterpart(const hki_cluster *cluster, uint32_t number, uint32_t hosts, const uint32_t *like)
{
    hki_resource resource = hki_cluster_resource(cluster, number);
    switch (resource.kind) {
    case HKI_RESOURCE_NIC_OUT:
    case HKI_RESOURCE_NIC_IN:
        return number - resource.index + resource.index % hosts;
    case HKI_RESOURCE_UPLINK:
    case HKI_RESOURCE_DOWNLINK:
        return like[resource.index] == UINT32_MAX ? number : number - resource.index + like[resource.index];
    default: /* memory: no message between parts passes it */
        return number;
    }
}

hk_status hki_period_open(const hki_cluster *cluster, hki_period *period)
{
    uint32_t hosts = hosts_of_part(cluster), ranks = 0, resources = hki_cluster_resources(cluster);
    *period = (hki_period){0};
    if (cluster->host_count == 1)
        return HK_OK;
    uint32_t *like = malloc((cluster->switch_count + 1) * sizeof *like);
    uint32_t *counterparts = malloc(resources * sizeof *counterparts);
    if (!like || !counterparts) {
        free(like);
        free(counterparts);
        return hki_error(HK_ERR_NO_MEMORY, "no memory for prices among %u ranks", cluster->rank_count);
    }
    for (uint32_t i = 0; i < cluster->switch_count; i++)
        like[i] = UINT32_MAX;
    for (uint32_t host = 0; host < hosts; host++)
        ranks += cluster->hosts[host].ranks;
    if (repeats(cluster, hosts, ranks, like)) {
        *period = (hki_period){.ranks = ranks, .resources = counterparts};
        for (uint32_t i = 0; i < resources; i++)
            counterparts[i] = counterpart(cluster, i, hosts, like);
    } else {
        free(counterparts);
    }
    free(like);
    return HK_OK;
}

void hki_period_close(hki_period *period)
{
    free(period->resources);
    *period = (hki_period){0};
}

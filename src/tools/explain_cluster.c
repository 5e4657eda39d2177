/* The cluster that an explanation is about: from a file, of equal hosts, or this host with ranks as `hocket run` binds
 * them. */
#include "tools/explain.h"
#include "tools/run.h"

#include "base/error.h"
#include "base/settings.h"
#include "comm/probe.h"
#include "comm/transports.h"
#include "cost/reported.h"
#include "topo/cluster_file.h"

#include <stdlib.h>
#include <string.h>

static hk_status from_file(const hki_explain_request *request, hki_cluster **cluster)
{
    HK_TRY(hki_cluster_read(request->topology, cluster));
    uint32_t found = (*cluster)->rank_count;
    if (request->ranks == 0 && found > HKI_EXPLAIN_RANKS)
        return hki_error(HK_ERR_ARGUMENT,
                         "%s has %u ranks, more than the %u that are explained; --ranks takes the first",
                         request->topology, found, HKI_EXPLAIN_RANKS);
    if (request->ranks == 0 || request->ranks == found)
        return HK_OK;
    hki_cluster *all = *cluster;
    *cluster = NULL;
    hk_status status = HK_OK;
    uint32_t *first = request->ranks < found ? malloc(request->ranks * sizeof *first) : NULL;
    if (request->ranks > found)
        status = hki_error(HK_ERR_ARGUMENT, "%s has %u ranks, not %u", request->topology, found, request->ranks);
    else if (!first)
        status = hki_error(HK_ERR_NO_MEMORY, "no memory for %u ranks", request->ranks);
    for (uint32_t rank = 0; first && rank < request->ranks; rank++)
        first[rank] = rank;
    if (status == HK_OK)
        status = hki_cluster_members(all, first, request->ranks, cluster);
    free(first);
    hki_cluster_free(all);
    return status;
}

static bool over(const hki_explain_request *request, const char *transport)
{
    return request->transport && strcmp(request->transport, transport) == 0;
}

/* One rank's seat, with the CPUs that the launcher would give it. */
static hki_seat seat_of(const hki_topology *topology, const run_binding *binding, uint32_t rank, uint16_t reach)
{
    hki_cpus cpus = {{0}};
    for (unsigned i = binding->first[rank]; i < binding->first[rank + 1]; i++)
        hki_cpus_add(&cpus, binding->cpus[i]);
    hki_seat seat = hki_seat_of(topology, &cpus);
    seat.reach = reach;
    return seat;
}

static hk_status fill_host(const hki_explain_request *request, const hki_topology *topology, hki_cluster *cluster)
{
    unsigned reach = over(request, "tcp")     ? HKI_REACH_TCP
                     : over(request, "shm")   ? HKI_REACH_SHM
                     : over(request, "verbs") ? HKI_REACH_VERBS
                                              : HKI_REACH_SHM | HKI_REACH_TCP;
    run_binding binding;
    if (!run_binding_make(&binding, topology, RUN_BIND_SHARE, (int)request->ranks))
        return hki_error(HK_ERR_NO_MEMORY, "no memory to bind %u ranks", request->ranks);
    for (uint32_t rank = 0; rank < request->ranks; rank++)
        cluster->seats[rank] = seat_of(topology, &binding, rank, (uint16_t)reach);
    run_binding_free(&binding);
    hki_nics nics = hki_nics_find();
    cluster->hosts[0] =
        (hki_cluster_host){.capacity = request->capacity ? request->capacity : hki_topology_capacity(topology),
                           .numas = topology->numa_count,
                           .nics = nics.count > 0 ? nics.count : 1,
                           .nic_rate = nics.rate};
    cluster->switches[0] = (hki_cluster_switch){.above = UINT32_MAX};
    return hki_cluster_settle(cluster);
}

static hk_status from_here(const hki_explain_request *request, hki_cluster **result)
{
    hki_topology *topology;
    HK_TRY(hki_topology_load(&topology));
    /* A rank that `hocket run` has bound sees its own share alone. */
    const char *name = hki_setting_given(HKI_SET_LAUNCH) ? "what this rank of a job may use of this host" : "this host";
    hki_cluster *cluster = hki_cluster_new(request->ranks, 1, 1, name);
    hk_status status = cluster ? fill_host(request, topology, cluster)
                               : hki_error(HK_ERR_NO_MEMORY, "no memory for %u ranks", request->ranks);
    hki_topology_free(topology);
    if (status != HK_OK) {
        hki_cluster_free(cluster);
        return status;
    }
    *result = cluster;
    return HK_OK;
}

hk_status hki_explain_cluster(const hki_explain_request *request, hki_cluster **cluster)
{
    if (request->topology)
        return from_file(request, cluster);
    if (request->hosts == 0)
        return from_here(request, cluster);
    uint32_t each = request->ranks / request->hosts, capacity = request->capacity ? request->capacity : each;
    if (capacity > HKI_TOPOLOGY_PUS_MAX)
        capacity = HKI_TOPOLOGY_PUS_MAX;
    HK_TRY(hki_cluster_uniform(request->hosts, each, capacity, cluster));
    for (uint32_t rank = 0; over(request, "verbs") && rank < request->ranks; rank++)
        (*cluster)->seats[rank].reach = HKI_REACH_SHM | HKI_REACH_VERBS;
    return HK_OK;
}

hk_status hki_explain_ports(hki_explain_request *request)
{
    hk_transport_limits limits;
    hki_cluster *cluster;
    if (!over(request, "verbs"))
        return HK_OK;
    HK_TRY(hki_transports_check());
    const hk_transport_ops *ops = hki_probe_find("verbs");
    if (!ops || hki_probe(ops, NULL, &limits) != HK_OK || !(limits.capabilities & HK_TRANSPORT_COSTED))
        return HK_OK;
    HK_TRY(hki_cluster_uniform(1, 1, 1, &cluster));
    hk_status status = hki_cluster_add_ports(cluster) ? HK_OK : hki_error(HK_ERR_NO_MEMORY, "no memory for a port");
    if (status == HK_OK) {
        cluster->seats[0].reach = HKI_REACH_VERBS;
        cluster->ports[0].verbs = hki_port_cost_of(limits.alpha_ns, limits.beta_ns);
        hki_reported_apply(cluster, &request->figures);
    }
    hki_cluster_free(cluster);
    return status;
}

/* Among many ranks not all pairs are looked at: ranks next to each other, and all with the first of their host. */
uint32_t hki_explain_links(const hki_cluster *cluster)
{
    enum { ALL_PAIRS = 512 };
    uint32_t links = 0, ranks = cluster->rank_count;
    for (uint32_t rank = 1; rank < ranks; rank++) {
        links |= 1u << hki_cluster_link(cluster, rank - 1, rank) | 1u << hki_cluster_link(cluster, 0, rank);
        for (uint32_t other = 1; ranks <= ALL_PAIRS && other < rank; other++)
            links |= 1u << hki_cluster_link(cluster, other, rank);
    }
    return links;
}

#include "comm/seat.h"

#include "base/error.h"
#include "comm/transports.h"
#include "cost/reported.h"
#include "topo/nics.h"

#include <stdlib.h>
#include <string.h>

enum {
    SEAT_FIELDS = 6,
    COSTS = 4, /* latency and time a byte, of tcp and of verbs */
    SEAT_BYTES = 2 * (SEAT_FIELDS + COSTS),
    HOST_BYTES = 4 * 3 + 8
};
/* A cost in 16 bits: a shift, and what is shifted, which is exact to a thousandth. */
enum { COST_SHIFT_BITS = 5, COST_BITS = 16 - COST_SHIFT_BITS };

static void put(unsigned char **at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *(*at)++ = (unsigned char)(value >> 8 * i);
}

static uint64_t take(const unsigned char **at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t) * (*at)++ << 8 * i;
    return value;
}

static void put_cost(unsigned char **at, uint32_t value)
{
    unsigned shift = 0;
    while (value >> shift >= 1u << COST_BITS)
        shift++;
    put(at, shift << COST_BITS | value >> shift, 2);
}

static uint32_t take_cost(const unsigned char **at)
{
    uint32_t code = (uint32_t)take(at, 2);
    return (uint32_t)((uint64_t)(code & ((1u << COST_BITS) - 1)) << (code >> COST_BITS));
}

/* By what a transport of this name reaches others. A plug-in counts as tcp: nothing better is known of it. */
static unsigned reach_of(const char *name)
{
    return strcmp(name, "shm") == 0 ? HKI_REACH_SHM : strcmp(name, "verbs") == 0 ? HKI_REACH_VERBS : HKI_REACH_TCP;
}

/* What this rank may use: a bit for each transport that it has open. Where the user says which comes first, without
 * those that come behind another which reaches whomever they reach. */
static uint16_t find_reach(const hki_context *context)
{
    unsigned reach = 0;
    for (uint32_t i = 0; i < context->transport_count; i++) {
        unsigned one = reach_of(context->ops[i]->name);
        unsigned further = one == HKI_REACH_SHM     ? HKI_REACH_TCP | HKI_REACH_VERBS
                           : one == HKI_REACH_VERBS ? HKI_REACH_TCP
                                                    : 0;
        if (one == HKI_REACH_VERBS)
            one = context->limits[i].capabilities & HK_TRANSPORT_INFINIBAND ? HKI_REACH_INFINIBAND : HKI_REACH_ROCE;
        reach |= hki_transports_ordered() && reach & further ? 0 : one;
    }
    return (uint16_t)reach;
}

/* Costs that a transport has measured or read from its hardware; estimates say nothing. */
static hki_ports find_ports(const hki_context *context)
{
    hki_ports ports = {0};
    for (uint32_t i = context->transport_count; i-- > 0;) {
        const hk_transport_limits *limits = &context->limits[i];
        unsigned reach = reach_of(context->ops[i]->name);
        if (reach == HKI_REACH_SHM || !(limits->capabilities & HK_TRANSPORT_COSTED))
            continue;
        *(reach == HKI_REACH_VERBS ? &ports.verbs : &ports.tcp) = hki_port_cost_of(limits->alpha_ns, limits->beta_ns);
    }
    return ports;
}

/* Ranks that can run at full speed at once, of all that are here. */
static uint32_t find_capacity(const hki_context *context, const hki_topology *topology)
{
    uint32_t cores =
        topology ? hki_topology_cores_of(topology, &context->local_set) : hki_topology_read_cores(&context->local_set);
    uint32_t capacity = cores > 0 && cores < context->local_cpus ? cores : context->local_cpus;
    return capacity > 0 ? capacity : 1;
}

static void tell_host(const hki_context *context, const hki_topology *topology, hki_card *card)
{
    hki_nics nics = hki_nics_find();
    unsigned char bytes[HOST_BYTES], *at = bytes;
    put(&at, find_capacity(context, topology), 4);
    put(&at, topology ? topology->numa_count : hki_topology_read_numas(), 4);
    put(&at, nics.count, 4);
    put(&at, nics.rate, 8);
    hki_card_add(card, HKI_CARD_HOST, bytes, HOST_BYTES);
}

/* A host that the launcher handed on is known as a whole; else only what is needed is read. */
void hki_seat_tell(hki_context *context, hki_card *card)
{
    const hki_topology *topology = NULL;
    hki_cpus cpus = {{0}};
    (void)hki_cpus_usable(&cpus); /* none, should the system not tell */
    if (context->packed_topology && hki_context_topology(context, &topology) != HK_OK)
        topology = NULL;
    hki_seat seat = topology ? hki_seat_of(topology, &cpus) : hki_seat_read(&cpus);
    seat.reach = find_reach(context);
    unsigned char bytes[SEAT_BYTES], *at = bytes;
    const uint16_t fields[SEAT_FIELDS] = {seat.package, seat.numa, seat.l3, seat.l2, seat.core, seat.reach};
    for (int i = 0; i < SEAT_FIELDS; i++)
        put(&at, fields[i], 2);
    const hki_ports ports = find_ports(context);
    const uint32_t costs[COSTS] = {ports.tcp.alpha_ns, ports.tcp.beta_ps, ports.verbs.alpha_ns, ports.verbs.beta_ps};
    for (int i = 0; i < COSTS; i++)
        put_cost(&at, costs[i]);
    hki_card_add(card, HKI_CARD_SEAT, bytes, SEAT_BYTES);
    if (context->peers[context->rank].local_index == 0)
        tell_host(context, topology, card);
}

static bool take_seat(const hki_card *card, hki_seat *seat, hki_ports *ports)
{
    size_t bytes;
    const unsigned char *at = hki_card_find(card, HKI_CARD_SEAT, 0, &bytes);
    if (!at || bytes != SEAT_BYTES)
        return false;
    uint16_t *const fields[SEAT_FIELDS] = {&seat->package, &seat->numa, &seat->l3,
                                           &seat->l2,      &seat->core, &seat->reach};
    for (int i = 0; i < SEAT_FIELDS; i++)
        *fields[i] = (uint16_t)take(&at, 2);
    uint32_t *const costs[COSTS] = {&ports->tcp.alpha_ns, &ports->tcp.beta_ps, &ports->verbs.alpha_ns,
                                    &ports->verbs.beta_ps};
    for (int i = 0; i < COSTS; i++)
        *costs[i] = take_cost(&at);
    return true;
}

static bool take_host(const hki_card *card, hki_cluster_host *host)
{
    size_t bytes;
    const unsigned char *at = hki_card_find(card, HKI_CARD_HOST, 0, &bytes);
    if (!at || bytes != HOST_BYTES)
        return false;
    host->capacity = (uint32_t)take(&at, 4);
    host->numas = (uint32_t)take(&at, 4);
    host->nics = (uint32_t)take(&at, 4);
    host->nic_rate = take(&at, 8);
    return true;
}

/* The number of the host that a rank is on: one of the `hosts` whose first ranks are listed, mostly one of the last, or
 * the next. */
static uint32_t find_host(const hki_context *context, const uint32_t *firsts, uint32_t hosts, uint32_t rank)
{
    for (uint32_t host = hosts; host-- > 0;)
        if (context->peers[firsts[host]].host == context->peers[rank].host)
            return host;
    return hosts;
}

/* Hosts by order of appearance; what each has was said by its first rank. */
static hk_status take_all(const hki_context *context, const hki_card *cards, hki_cluster *cluster, uint32_t *firsts)
{
    uint32_t hosts = 0;
    for (uint32_t rank = 0; rank < context->ranks; rank++) {
        hki_seat *seat = &cluster->seats[rank];
        bool right = take_seat(&cards[rank], seat, &cluster->ports[rank]);
        seat->host = find_host(context, firsts, hosts, rank);
        if (right && seat->host == hosts) {
            firsts[hosts] = rank;
            right = take_host(&cards[rank], &cluster->hosts[hosts++]);
        }
        if (!right)
            return hki_error(HK_ERR_BOOTSTRAP, "rank %u on host %s did not say where it runs", rank,
                             context->peers[rank].host_name);
    }
    return HK_OK;
}

static uint32_t count_hosts(const hki_context *context)
{
    uint32_t hosts = 0;
    for (uint32_t rank = 0; rank < context->ranks; rank++)
        hosts += context->peers[rank].local_index == 0;
    return hosts;
}

hk_status hki_seat_take(hki_context *context, const hki_card *cards)
{
    uint32_t hosts = count_hosts(context), *firsts = malloc(((size_t)hosts + 1) * sizeof *firsts);
    hki_cluster *cluster = firsts ? hki_cluster_new(context->ranks, hosts, 1, "as the ranks found it") : NULL;
    hk_status status = cluster && hki_cluster_add_ports(cluster)
                           ? HK_OK
                           : hki_error(HK_ERR_NO_MEMORY, "no memory for a cluster of %u hosts", hosts);
    if (status == HK_OK) {
        cluster->switches[0].above = UINT32_MAX;
        status = take_all(context, cards, cluster, firsts);
    }
    if (status == HK_OK && hki_cluster_settle(cluster) != HK_OK)
        status = hki_error(HK_ERR_BOOTSTRAP, "what the ranks said of where they run does not fit together: %s",
                           hk_last_error());
    free(firsts);
    if (status == HK_OK)
        context->cluster = cluster;
    else
        hki_cluster_free(cluster);
    return status;
}

/*
 * Where the ranks of a communicator are, as all of them know it: which host, which part of it, how hosts hang together,
 * and by what kind of link any two ranks talk. Plain values, equal on all ranks: what the choice of an algorithm may
 * look at. It comes from what ranks tell each other at creation, or from a file for clusters that nobody here owns.
 */
#ifndef HKI_TOPO_CLUSTER_H
#define HKI_TOPO_CLUSTER_H

#include "topo/levels.h"
#include "topo/topology.h"

/* Kinds of links, nearest first: shared memory between two ranks whose cores share this much (as hki_distance), then
 * sockets within one host, then networks. */
typedef enum hki_link_class {
#define HKI_LINK_CLASS_LIST(X)                                                                                         \
    X(CORE, "core", "shared memory, same core")                                                                        \
    X(L2, "l2", "shared memory, same L2 cache")                                                                        \
    X(L3, "l3", "shared memory, same L3 cache")                                                                        \
    X(NUMA, "numa", "shared memory, same NUMA node")                                                                   \
    X(PACKAGE, "package", "shared memory, same package")                                                               \
    X(HOST, "host", "shared memory, same host")                                                                        \
    X(LOOPBACK, "loopback", "tcp within one host")                                                                     \
    X(TCP, "tcp", "tcp between hosts")                                                                                 \
    X(VERBS, "verbs", "RDMA between hosts")
#define HKI_X(ID, name, text) HKI_LINK_##ID,
    HKI_LINK_CLASS_LIST(HKI_X)
#undef HKI_X
        HKI_LINK_CLASSES
} hki_link_class;

/* "l3", "tcp": as in tuning files and explanations. -1 from find: there is none of that name. */
const char *hki_link_class_name(hki_link_class link);
const char *hki_link_class_text(hki_link_class link);
int hki_link_class_find(const char *name);

/* How a rank can be reached: bits of hki_seat.reach. InfiniBand and RoCE, both verbs, do not reach each other. */
enum {
    HKI_REACH_SHM = 1u << 0,
    HKI_REACH_TCP = 1u << 1,
    HKI_REACH_ROCE = 1u << 2,
    HKI_REACH_INFINIBAND = 1u << 3,
    HKI_REACH_VERBS = HKI_REACH_ROCE | HKI_REACH_INFINIBAND
};

/* Where a rank runs. Numbers tell the parts of its host apart: those of hki_topology, where the host is known as a
 * whole; HKI_TOPOLOGY_NO_CACHE where there is none, or where the rank is not bound to one. */
typedef struct hki_seat {
    uint32_t host; /* index into hosts */
    uint16_t package, numa, l3, l2, core;
    uint16_t reach;
} hki_seat;

/* The seat of a rank that may run on these CPUs of its host: the parts that hold them all. Without a topology, or of
 * CPUs that it does not know, none is. host and reach are zero. */
hki_seat hki_seat_of(const hki_topology *topology, const hki_cpus *cpus);

/* The same from /sys, which is read only for the first of these CPUs: a host may have hundreds. Parts are numbered by
 * their first CPU, NUMA nodes as the system does. */
hki_seat hki_seat_read(const hki_cpus *cpus);
/* The same below a root, which is "" but in tests. */
hki_seat hki_seat_read_below(const char *root, const hki_cpus *cpus);

/* What messages cost over a rank's port of a network, as its transport has measured it or read it from the hardware.
 * 0: not known. */
typedef struct hki_port_cost {
    uint32_t alpha_ns; /* latency, one way */
    uint32_t beta_ps;  /* per KiB */
} hki_port_cost;

typedef struct hki_ports {
    hki_port_cost tcp, verbs;
} hki_ports;

/* What messages cost by each kind of link, for choosing among those that two ranks have: filled in by the cost model
 * (cost/reported.h) before links are made, and left as it is then. */
typedef struct hki_link_costs {
    bool known;                      /* else shared memory comes before verbs, and that before tcp */
    bool measured[HKI_LINK_CLASSES]; /* the figures below are not built in */
    bool by_ports[HKI_LINK_CLASSES]; /* what the ports of both ends say counts, if they say it */
    uint64_t alpha_ps[HKI_LINK_CLASSES], beta_ps[HKI_LINK_CLASSES]; /* … and else this; beta per KiB */
} hki_link_costs;

typedef struct hki_cluster_host {
    uint32_t ranks;      /* on it */
    uint32_t capacity;   /* ranks that can run at full speed at once: usable cores or the cgroup's quota; at least 1 */
    uint32_t numas;      /* NUMA nodes, each with memory bandwidth of its own; at least 1 */
    uint32_t numa_first; /* NUMA nodes of the hosts before */
    uint32_t nics;       /* at least 1 */
    uint32_t above;      /* index into switches of what its NICs are plugged into */
    uint64_t nic_rate;   /* bytes a second of all NICs together, each way; 0: what the link class says */
} hki_cluster_host;

/* Switches form a forest. The root of a tree has no uplink. */
typedef struct hki_cluster_switch {
    uint32_t above;       /* index into switches; UINT32_MAX: none */
    uint64_t uplink_rate; /* bytes a second each way; 0: never in the way */
    uint64_t hop_ps;      /* latency that passing it adds */
} hki_cluster_switch;

typedef struct hki_cluster {
    uint32_t rank_count, host_count, switch_count, numa_count;
    hki_seat *seats;
    hki_ports *ports; /* by rank; NULL: nobody has said anything */
    hki_link_costs costs;
    hki_cluster_host *hosts;
    hki_cluster_switch *switches; /* at least one */
    hki_levels *levels;           /* its ranks in groups; NULL: all alike. Its split is that by hosts */
    char *source;                 /* in words: "as the ranks found it", or the file's name */
} hki_cluster;

/* One of so many ranks, hosts and switches, all zero, to be filled in by the caller and then settled. source is copied.
 * NULL: no memory. */
hki_cluster *hki_cluster_new(uint32_t ranks, uint32_t hosts, uint32_t switches, const char *source);
/* Checks what was filled in, and derives the rest: ranks of each host, numa_first, numa_count, levels.
 * HK_ERR_NO_MEMORY; HK_ERR_ARGUMENT says what is wrong: a number out of range, a host without ranks, switches in a
 * circle or more than HKI_SWITCH_LEVELS above one another. */
hk_status hki_cluster_settle(hki_cluster *cluster);

/* `hosts` equal hosts of `ranks` ranks each (host of rank r: r / ranks) on one switch that is never in the way, every
 * host one package with one NUMA node and `capacity` cores below one L3. Ranks of a host reach each other by shared
 * memory, others by tcp. HK_ERR_NO_MEMORY, HK_ERR_ARGUMENT (none, or more than 2^24 ranks, no core or very many). */
hk_status hki_cluster_uniform(uint32_t hosts, uint32_t ranks, uint32_t capacity, hki_cluster **cluster);
void hki_cluster_free(hki_cluster *cluster);

/* Those of its ranks that `world` lists, as ranks 0 … ranks - 1 of a cluster of their own: hosts are numbered in order
 * of appearance, and those without ranks left out. HK_ERR_NO_MEMORY. */
hk_status hki_cluster_members(const hki_cluster *cluster, const uint32_t *world, uint32_t ranks, hki_cluster **members);

/* Whether ranks are at the same places of equal hosts; switches are not looked at. */
bool hki_cluster_equal(const hki_cluster *left, const hki_cluster *right);

/* Room for what ranks say of their ports, all unknown. False: no memory. */
bool hki_cluster_add_ports(hki_cluster *cluster);

/*
 * The kind of link between two ranks, equal on all ranks, whoever asks, and both ways: of those by which both reach
 * others (shared memory only on one host) the one that takes least for a message of HKI_LINK_BYTES; where costs are not
 * known, or are equal, shared memory before verbs before tcp. Shared memory gives way only where it and the other were
 * measured here: figures of another machine, built in for either, say nothing of which is faster. A part of a host that
 * a rank is not bound to is shared with nobody.
 *
 * One size has to decide, since a pair has one link for all sizes. It is about n½ = α/β of networks, the size at which
 * a message takes as long for its latency as for its bytes (R. Hockney; 23 to 29 KiB by the built-in figures of tcp and
 * verbs), so that being twice as fast counts alike in either.
 */
enum { HKI_LINK_BYTES = 32768 };
hki_link_class hki_cluster_link(const hki_cluster *cluster, uint32_t left, uint32_t right);

/* The links that two ranks have, best first; returns how many, of at most HKI_LINK_WAYS, and what HKI_LINK_BYTES take
 * by each (0: costs are not known). Both ends' ports count: latency is half of each one's, bytes go as fast as the
 * slower one. What tcp says of its latency is that of its own host's stack, below which no network's is. */
enum { HKI_LINK_WAYS = 3 };
typedef struct hki_link_way {
    hki_link_class link;
    uint64_t ps;
} hki_link_way;
uint32_t hki_cluster_ways(const hki_cluster *cluster, uint32_t left, uint32_t right, hki_link_way ways[HKI_LINK_WAYS]);

/* Draws it for people, as indented lines: switches, hosts, ranks. Neighbours that are alike are said once.
 * HK_ERR_NO_MEMORY. */
hk_status hki_cluster_draw(const hki_cluster *cluster, FILE *file);
/* The same as a picture (SVG), where each rank sits in its caches and NUMA nodes. HK_ERR_NO_MEMORY. */
hk_status hki_cluster_picture(const hki_cluster *cluster, FILE *file);

/* What several flows may have to share, numbered from 0 to hki_cluster_resources() - 1: the memory of each NUMA node,
 * each host's NICs out and in, each switch's uplink up and down. */
typedef enum hki_resource_kind {
    HKI_RESOURCE_MEMORY,
    HKI_RESOURCE_NIC_OUT,
    HKI_RESOURCE_NIC_IN,
    HKI_RESOURCE_UPLINK,
    HKI_RESOURCE_DOWNLINK
} hki_resource_kind;

typedef struct hki_resource {
    hki_resource_kind kind;
    uint32_t index; /* of the NUMA node among all hosts', host, or switch */
    uint64_t rate;  /* bytes a second; 0: what the figures say for this kind */
} hki_resource;

uint32_t hki_cluster_resources(const hki_cluster *cluster);
hki_resource hki_cluster_resource(const hki_cluster *cluster, uint32_t resource);
/* The resources that bytes from `from` to `to` pass, in order, and the latency of the switches between. Within a host:
 * the memory of the NUMA nodes of both ends (a rank that is bound to none counts to node rank mod numas). Between hosts
 * memory, which is faster than what NICs take from it, is left out. Returns how many: at most HKI_ROUTE_MOST. */
enum { HKI_SWITCH_LEVELS = 6, HKI_ROUTE_MOST = 2 + 2 * (HKI_SWITCH_LEVELS - 1) };
uint32_t hki_cluster_route(const hki_cluster *cluster, uint32_t from, uint32_t to, uint32_t resources[HKI_ROUTE_MOST],
                           uint64_t *hops_ps);

#endif

/*
 * Ranks that do alike send their n-th messages at the same time. So the n-th messages of all ranks of a host are looked
 * at together: the slowest decides, since all wait for it, and those that pass the same resource share it.
 */
#include "cost/paths.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum {
    HOSTS_MOST = 3,      /* that are looked at: that of the traced rank, the fullest, the last */
    RANKS_MOST = 16,     /* of each */
    PLACES_MOST = 4 * 16 /* resources that the messages of one host may pass */
};

/* The ranks of one host that are looked at, and to whom each sends its n-th message. */
typedef struct sample {
    uint32_t ranks[RANKS_MOST];
    uint32_t *peers[RANKS_MOST]; /* by number of the SEND; NULL: rule */
    uint32_t count;              /* of ranks that make the same steps */
    uint32_t looked_at;          /* of all ranks, so that count / looked_at of those on the host do alike */
    uint32_t on_host;
} sample;

/* By which rule the peers of other ranks follow from those of the traced one. */
typedef enum rule { BY_NONE, BY_SHIFT, BY_EXCHANGE } rule;

typedef struct finder {
    const hki_cluster *cluster;
    const hki_figures *figures;
    const hki_algorithm *algorithm;
    const hki_call *call;
    uint32_t traced; /* rank */
    uint32_t *sends; /* steps of the traced rank, numbered within all traces */
    uint32_t *peers; /* its peers */
    uint32_t send_count;
    uint32_t least; /* sends that a rank makes at least if it is to count as one that makes the same steps */
    rule rule;
    sample samples[HOSTS_MOST];
    uint32_t sample_count;
    uint64_t link_cost[HKI_LINK_CLASSES]; /* of a message of 64 KiB */
    hki_builder *writer;                  /* of the schedules that are looked at; NULL: none yet */
} finder;

/* The peers of another rank's sends, in order; NULL: no memory, or it makes other steps (*other). */
static uint32_t *find_peers(finder *f, uint32_t rank, bool *other)
{
    hki_call call = *f->call;
    call.rank = rank;
    call.in_place = HKI_SEPARATE;
    const hki_schedule *schedule;
    *other = false;
    if (hki_algorithm_look(f->algorithm, &call, true, &f->writer, &schedule) != HK_OK)
        return NULL;
    uint32_t *peers = malloc(((size_t)f->send_count + 1) * sizeof *peers), count = 0;
    for (uint32_t i = 0; peers && i < schedule->step_count; i++) {
        if (schedule->steps[i].verb != HKI_VERB_SEND)
            continue;
        if (count < f->send_count)
            peers[count] = schedule->steps[i].peer;
        count++;
    }
    for (uint32_t i = count; peers && i < f->send_count; i++)
        peers[i] = UINT32_MAX;
    *other = count > f->send_count || count < f->least;
    if (*other || !peers) {
        free(peers);
        return NULL;
    }
    return peers;
}

static uint32_t by_rule(const finder *f, rule by, uint32_t rank, uint32_t send)
{
    uint32_t ranks = f->call->ranks;
    if (by == BY_EXCHANGE)
        return f->peers[send] ^ f->traced ^ rank;
    return (uint32_t)(((uint64_t)f->peers[send] + ranks - f->traced + rank) % ranks);
}

static bool obeys(const finder *f, rule by, uint32_t rank, const uint32_t *peers)
{
    for (uint32_t i = 0; i < f->send_count; i++)
        if (by_rule(f, by, rank, i) != peers[i])
            return false;
    return true;
}

/* Finds the rule by looking at one more rank, which shares few digits with the traced one. */
static hk_status find_rule(finder *f)
{
    uint32_t ranks = f->call->ranks, probe = (f->traced + ranks / 2 + ranks / 8 + 1) % ranks;
    bool other;
    uint32_t *peers = find_peers(f, probe, &other);
    f->rule = BY_NONE;
    if (!peers)
        return other ? HK_OK : hki_error(HK_ERR_NO_MEMORY, "no memory to price %s", f->algorithm->name);
    if (obeys(f, BY_SHIFT, probe, peers))
        f->rule = BY_SHIFT;
    else if ((ranks & (ranks - 1)) == 0 && obeys(f, BY_EXCHANGE, probe, peers))
        f->rule = BY_EXCHANGE;
    free(peers);
    return HK_OK;
}

/* On one host with one memory, or of hosts that do alike, all ranks are alike: the traced one tells what each does. */
static hk_status add_itself(finder *f)
{
    sample *s = &f->samples[0];
    size_t bytes = f->send_count * sizeof *f->peers;
    *s = (sample){.on_host = f->cluster->hosts[f->cluster->seats[f->traced].host].ranks,
                  .count = 1,
                  .looked_at = 1,
                  .ranks = {f->traced},
                  .peers = {malloc(bytes)}};
    if (!s->peers[0])
        return hki_error(HK_ERR_NO_MEMORY, "no memory to price %s", f->algorithm->name);
    memcpy(s->peers[0], f->peers, bytes);
    f->sample_count = 1;
    return HK_OK;
}

/* Adds the ranks of a host, evenly chosen when there are many. */
static hk_status add_host(finder *f, uint32_t host)
{
    const hki_cluster *cluster = f->cluster;
    sample *s = &f->samples[f->sample_count];
    uint32_t on_host = cluster->hosts[host].ranks, seen = 0;
    uint32_t wanted = on_host < RANKS_MOST ? on_host : RANKS_MOST;
    *s = (sample){.on_host = on_host};
    for (uint32_t rank = 0; rank < cluster->rank_count && s->looked_at < wanted; rank++) {
        if (cluster->seats[rank].host != host || (uint64_t)seen++ * wanted / on_host < s->looked_at)
            continue;
        s->looked_at++;
        bool other = false;
        if (f->rule == BY_NONE)
            s->peers[s->count] = find_peers(f, rank, &other);
        if (f->rule == BY_NONE && !s->peers[s->count] && !other)
            return hki_error(HK_ERR_NO_MEMORY, "no memory to price %s", f->algorithm->name);
        if (!other)
            s->ranks[s->count++] = rank;
    }
    f->sample_count += s->count > 0;
    return HK_OK;
}

static hk_status add_hosts(finder *f)
{
    const hki_cluster *cluster = f->cluster;
    uint32_t fullest = 0, first = cluster->seats[f->traced].host, last = cluster->host_count - 1;
    for (uint32_t host = 0; host < cluster->host_count; host++)
        if (cluster->hosts[host].ranks > cluster->hosts[fullest].ranks)
            fullest = host;
    HK_TRY(add_host(f, first));
    if (cluster->hosts[fullest].ranks > cluster->hosts[first].ranks)
        HK_TRY(add_host(f, fullest));
    bool last_differs = cluster->hosts[last].ranks != cluster->hosts[first].ranks;
    return last_differs && last != fullest ? add_host(f, last) : HK_OK;
}

/* ---- one message of every rank ---- */

/* How many pass a resource. */
typedef struct place {
    uint32_t resource, flows;
} place;

static uint32_t ranks_below(const hki_cluster *cluster, uint32_t number)
{
    uint32_t ranks = 0;
    for (uint32_t host = 0; host < cluster->host_count; host++)
        for (uint32_t at = cluster->hosts[host].above; at != UINT32_MAX; at = cluster->switches[at].above)
            if (at == number)
                ranks += cluster->hosts[host].ranks;
    return ranks;
}

static void count_flow(place *places, uint32_t *count, uint32_t resource)
{
    for (uint32_t i = 0; i < *count; i++)
        if (places[i].resource == resource) {
            places[i].flows++;
            return;
        }
    if (*count < PLACES_MOST)
        places[(*count)++] = (place){resource, 1};
}

/* What a resource with so many of the sampled ranks' flows means for each. */
static void share(const finder *f, const sample *s, const place *at, hki_path *path)
{
    hki_resource resource = hki_cluster_resource(f->cluster, at->resource);
    if (resource.kind == HKI_RESOURCE_NIC_IN || resource.kind == HKI_RESOURCE_DOWNLINK)
        return; /* as many come as go */
    uint64_t all = resource.kind == HKI_RESOURCE_UPLINK ? ranks_below(f->cluster, resource.index) : s->on_host;
    uint64_t flows = (at->flows * all + s->looked_at - 1) / s->looked_at, rate = resource.rate;
    if (!rate && resource.kind == HKI_RESOURCE_MEMORY)
        rate = f->figures->memory_rate;
    if (!rate && resource.kind == HKI_RESOURCE_NIC_OUT)
        rate = f->figures->nic_rate;
    uint64_t crowd_ps = flows * hki_rate_ps(rate);
    if (crowd_ps > path->crowd_ps)
        path->crowd_ps = crowd_ps;
    if (!rate && resource.kind == HKI_RESOURCE_NIC_OUT && flows > path->crowd)
        path->crowd = (uint32_t)flows;
}

/* Whom the i-th rank of a sample sends its n-th message; false: nobody. */
static bool peer_of(const finder *f, const sample *s, uint32_t i, uint32_t send, uint32_t *peer)
{
    *peer = s->peers[i] ? s->peers[i][send] : by_rule(f, f->rule, s->ranks[i], send);
    return *peer != s->ranks[i] && *peer < f->call->ranks;
}

/* Whether what the ranks of a row do at the same time takes the same kind of link. */
static bool is_even(const finder *f, const hki_symmetry *by)
{
    for (uint32_t send = 0; send < f->send_count; send++) {
        if ((send > 0 && f->peers[send] == f->peers[send - 1]) || (send > 1 && f->peers[send] == f->peers[send - 2]))
            continue; /* rings have one or two peers, and long schedules */
        hki_link_class link = hki_cluster_link(f->cluster, f->traced, f->peers[send]);
        for (uint32_t further = 1; further < by->width; further++) {
            uint32_t rank = f->traced + further, peer = hki_moved(by, f->call->ranks, f->peers[send], rank);
            if (hki_cluster_link(f->cluster, rank, peer) != link)
                return false;
        }
    }
    return true;
}

/* Sums over the ranks that are looked at. */
typedef struct sums {
    uint64_t hops_ps;
    uint32_t links[HKI_LINK_CLASSES], messages;
} sums;

static void look_at(const finder *f, const sample *s, uint32_t send, hki_path *path, sums *all)
{
    place places[PLACES_MOST];
    uint32_t count = 0, route[HKI_ROUTE_MOST], peer;
    for (uint32_t i = 0; i < s->count; i++) {
        if (!peer_of(f, s, i, send, &peer))
            continue;
        uint64_t hops;
        uint32_t link = hki_cluster_link(f->cluster, s->ranks[i], peer);
        uint32_t passed = hki_cluster_route(f->cluster, s->ranks[i], peer, route, &hops);
        if (f->link_cost[link] > f->link_cost[path->link])
            path->link = (uint8_t)link;
        all->hops_ps += hops;
        all->links[link]++;
        all->messages++;
        for (uint32_t k = 0; k < passed; k++)
            count_flow(places, &count, route[k]);
    }
    for (uint32_t i = 0; i < count; i++)
        share(f, s, &places[i], path);
}

/* The path of one message. A rule makes it follow from the peer alone. */
static void find_path(const finder *f, uint32_t send, hki_path *paths)
{
    hki_path *path = &paths[f->sends[send]];
    if (send > 0 && f->rule != BY_NONE && f->peers[send] == f->peers[send - 1]) {
        *path = paths[f->sends[send - 1]];
        return;
    }
    sums all = {0};
    *path = (hki_path){.link = (uint8_t)hki_cluster_link(f->cluster, f->traced, f->peers[send])};
    for (uint32_t i = 0; i < f->sample_count; i++)
        look_at(f, &f->samples[i], send, path, &all);
    if (all.messages == 0) {
        path->parts[path->link] = HKI_PATH_PARTS;
        return;
    }
    path->hops_ps = all.hops_ps / all.messages;
    for (int link = 0; link < HKI_LINK_CLASSES; link++)
        path->parts[link] = (uint16_t)(all.links[link] * HKI_PATH_PARTS / all.messages);
}

/* ---- all ---- */

static void fill_costs(finder *f)
{
    for (int link = 0; link < HKI_LINK_CLASSES; link++) {
        const hki_range_figures *range = hki_figures_range(&f->figures->link[link], 65536);
        f->link_cost[link] = range->alpha_ps + hki_bytes_ps(65536, range->beta_ps);
    }
}

static void finder_close(finder *f)
{
    for (uint32_t i = 0; i < HOSTS_MOST; i++)
        for (uint32_t k = 0; k < RANKS_MOST; k++)
            free(f->samples[i].peers[k]);
    hki_builder_free(f->writer);
    free(f->sends);
    free(f->peers);
}

/* Of the paths of one traced rank. */
static hk_status find_rank(finder *f, const hki_traces *traces, uint32_t index, hki_path *paths)
{
    bool folded = traces->count == 2 && traces->first[1] != traces->first[2] - traces->first[1];
    uint32_t begin = traces->first[index], end = traces->first[index + 1];
    f->traced = traces->rank[index];
    fill_costs(f);
    f->sends = malloc(((size_t)(end - begin) + 1) * sizeof *f->sends);
    f->peers = malloc(((size_t)(end - begin) + 1) * sizeof *f->peers);
    if (!f->sends || !f->peers)
        return hki_error(HK_ERR_NO_MEMORY, "no memory to price %s", f->algorithm->name);
    for (uint32_t i = begin; i < end; i++) {
        if (traces->steps[i].verb != HKI_VERB_SEND)
            continue;
        f->sends[f->send_count] = i;
        f->peers[f->send_count++] = traces->steps[i].peer;
    }
    if (f->send_count == 0)
        return HK_OK;
    /* Where some hand their part to a neighbour, those without such a one send one message less at the end. */
    f->least = folded && index == 0 ? f->send_count - 1 : f->send_count;
    bool by_places = traces->symmetry.place != HKI_STILL;
    if (by_places && !is_even(f, &traces->symmetry))
        return hki_error(HK_ERR_UNSUPPORTED, "%s: links of one host differ", f->algorithm->name);
    if (by_places || (f->cluster->numa_count == 1 && !folded)) {
        HK_TRY(add_itself(f));
    } else {
        HK_TRY(find_rule(f));
        HK_TRY(add_hosts(f));
    }
    for (uint32_t send = 0; send < f->send_count; send++)
        find_path(f, send, paths);
    return HK_OK;
}

hk_status hki_paths_new(const hki_cluster *cluster, const hki_figures *figures, const hki_algorithm *algorithm,
                        const hki_call *call, const hki_traces *traces, hki_path **result)
{
    hki_path *paths = calloc((size_t)hki_traces_steps(traces) + 1, sizeof *paths);
    hk_status status = paths ? HK_OK : hki_error(HK_ERR_NO_MEMORY, "no memory to price %s", algorithm->name);
    for (uint32_t i = 0; i < traces->count && status == HK_OK; i++) {
        finder f = {.cluster = cluster, .figures = figures, .algorithm = algorithm, .call = call};
        status = find_rank(&f, traces, i, paths);
        finder_close(&f);
    }
    if (status == HK_OK)
        *result = paths;
    else
        free(paths);
    return status;
}

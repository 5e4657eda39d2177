#include "comm/agree.h"

#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "comm/place.h"
#include "comm/seat.h"
#include "comm/transports.h"
#include "cost/pack.h"
#include "cost/reported.h"
#include "cost/tuning.h"
#include "topo/cpu_runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ADDRESS_BYTES = 512, TRANSPORT_NAME = 32 };

/* --- ranks -----------------------------------------------------------------------------------------------------------
 */

/* What every rank tells every other first. */
typedef struct identity {
    hk_peer peer;
    uint32_t version; /* of the library: all ranks must run the same */
    uint32_t abi;
    hki_agreed_setting settings[HKI_SETTINGS_AGREED];
    hki_cpu_runs cpus; /* where it may run */
} identity;

static hk_status check_settings(const identity *own, const identity *other, uint32_t rank)
{
    enum { TEXT = sizeof own->settings->text };
    size_t at;
    const hki_setting *setting = hki_settings_differ(own->settings, other->settings, &at);
    if (!setting)
        return HK_OK;
    const char *theirs = other->settings[at].text, *ours = own->settings[at].text;
    return hki_error(HK_ERR_SETTING,
                     "%s is %.*s for rank %u on %s, but %.*s for rank %d on %s: all ranks need the same", setting->name,
                     (int)TEXT, *theirs != '\0' ? theirs : "not set", rank, other->peer.host_name, (int)TEXT,
                     *ours != '\0' ? ours : "not set", (int)own->peer.rank, own->peer.host_name);
}

static hk_status check_identity(const identity *own, const identity *other, uint32_t rank)
{
    if (other->version != own->version || other->abi != own->abi)
        return hki_error(HK_ERR_BOOTSTRAP, "rank %u on %s runs another version of the library (%08x, here %08x)", rank,
                         other->peer.host_name, other->version, own->version);
    return check_settings(own, other, rank);
}

/* Numbers the ranks of each host in order of rank. */
static void number_locals(hki_context *context)
{
    for (uint32_t rank = 0; rank < context->ranks; rank++) {
        hk_peer *peer = &context->peers[rank];
        peer->rank = (int32_t)rank;
        if (peer->local_ranks)
            continue;
        int32_t count = 0;
        for (uint32_t other = rank; other < context->ranks; other++) {
            if (context->peers[other].host == peer->host)
                context->peers[other].local_index = count++;
        }
        for (uint32_t other = rank; other < context->ranks; other++) {
            if (context->peers[other].host == peer->host)
                context->peers[other].local_ranks = count;
        }
    }
}

/* CPUs that the ranks of this host have between them: a launcher may have bound each to one. */
static void find_local_cpus(hki_context *context, const identity *all)
{
    uint32_t quota = hki_quota_cpus(), cpus = 0;
    for (uint32_t rank = 0; rank < context->ranks; rank++) {
        if (context->peers[rank].host == context->peers[context->rank].host)
            hki_cpu_runs_add(&all[rank].cpus, &context->local_set);
    }
    for (uint32_t cpu = 0; cpu < HKI_TOPOLOGY_PUS_MAX; cpu++)
        cpus += hki_cpus_has(&context->local_set, cpu);
    context->local_cpus = cpus < quota ? cpus : quota;
}

hk_status hki_agree_on_ranks(hki_context *context, hki_boot *boot)
{
    identity own = {.version = HK_VERSION_MAJOR << 16 | HK_VERSION_MINOR << 8 | HK_VERSION_PATCH,
                    .abi = HK_TRANSPORT_ABI};
    hki_settings_tell(own.settings);
    hki_place_self(&own.peer);
    hki_cpus usable;
    HK_TRY(hki_cpus_usable(&usable));
    hki_cpu_runs_make(&usable, &own.cpus);
    own.peer.context = context->id;
    own.peer.rank = (int32_t)context->rank;
    identity *all = calloc(context->ranks, sizeof *all);
    context->peers = calloc(context->ranks, sizeof *context->peers);
    hk_status status = all && context->peers ? HK_OK : hki_error(HK_ERR_NO_MEMORY, "no memory for peers");
    if (status == HK_OK)
        status = hki_boot_exchange(boot, &own, sizeof own, all, hki_setting_seconds(HKI_SET_JOIN_TIMEOUT));
    for (uint32_t rank = 0; rank < context->ranks && status == HK_OK; rank++) {
        status = check_identity(&own, &all[rank], rank);
        context->peers[rank] = all[rank].peer;
        context->peers[rank].local_ranks = 0;
        context->peers[rank].host_name[sizeof context->peers[rank].host_name - 1] = '\0';
    }
    if (status == HK_OK) {
        number_locals(context);
        find_local_cpus(context, all);
    }
    free(all);
    return status;
}

/* --- links -----------------------------------------------------------------------------------------------------------
 */

/* Addresses go by the name of their transport, since one that cannot be opened on one host may well be on another. */
static hk_status tell_addresses(hki_context *context, hki_card *card)
{
    for (uint32_t i = 0; i < context->transport_count; i++) {
        unsigned char section[TRANSPORT_NAME + ADDRESS_BYTES];
        size_t name = strlen(context->ops[i]->name) + 1, bytes = ADDRESS_BYTES;
        if (name > TRANSPORT_NAME)
            continue;
        memcpy(section, context->ops[i]->name, name);
        if (context->ops[i]->address(context->transports[i], section + name, &bytes) != HK_OK || bytes > ADDRESS_BYTES)
            continue;
        if (!hki_card_add(card, HKI_CARD_ADDRESS, section, name + bytes))
            return hki_error(HK_ERR_TRANSPORT, "the addresses of %u transports do not fit into one record",
                             context->transport_count);
    }
    return HK_OK;
}

/* The peer's address for one of this rank's transports. NULL: it does not have that transport open. */
static const void *find_address(const hki_card *card, const char *name, size_t *bytes)
{
    const char *section;
    size_t length = strlen(name) + 1;
    for (unsigned n = 0; (section = hki_card_find(card, HKI_CARD_ADDRESS, n, bytes)); n++)
        if (*bytes > length && memcmp(section, name, length) == 0) {
            *bytes -= length;
            return section + length;
        }
    return NULL;
}

static const char *transport_of(hki_link_class link)
{
    return link <= HKI_LINK_HOST ? "shm" : link == HKI_LINK_VERBS ? "verbs" : "tcp";
}

/* The place of a transport among the ways to a peer: one whose costs nobody knows comes before all, one that only this
 * end has behind all. */
static uint32_t place_of(const char *name, const hki_link_way *ways, uint32_t count)
{
    if (strcmp(name, "shm") != 0 && strcmp(name, "verbs") != 0 && strcmp(name, "tcp") != 0)
        return 0;
    uint32_t place = 0;
    while (place < count && strcmp(name, transport_of(ways[place].link)) != 0)
        place++;
    return place + 1;
}

/* The transports in the order in which they are tried for a peer: as the user says, or what costs least first. */
static void order_transports(const hki_context *context, uint32_t rank, uint32_t order[HKI_MOST_TRANSPORTS])
{
    hki_link_way ways[HKI_LINK_WAYS];
    uint32_t count = hki_cluster_ways(context->cluster, context->rank, rank, ways), places[HKI_MOST_TRANSPORTS];
    for (uint32_t i = 0; i < context->transport_count; i++) {
        uint32_t at = i, place = hki_transports_ordered() ? i : place_of(context->ops[i]->name, ways, count);
        for (; at > 0 && places[at - 1] > place; at--) {
            places[at] = places[at - 1];
            order[at] = order[at - 1];
        }
        places[at] = place;
        order[at] = i;
    }
}

/* Gives a peer the first transport that reaches it. */
static hk_status link_peer(hki_context *context, uint32_t rank, const hki_card *card)
{
    const char *why = "none is open at both ends";
    uint32_t order[HKI_MOST_TRANSPORTS];
    order_transports(context, rank, order);
    for (uint32_t turn = 0; turn < context->transport_count; turn++) {
        uint32_t i = order[turn];
        hk_link *link;
        size_t bytes;
        const void *address = find_address(card, context->ops[i]->name, &bytes);
        if (!address)
            continue;
        if (context->ops[i]->connect(context->transports[i], &context->peers[rank], address, bytes, &link) != HK_OK) {
            why = hk_last_error();
            continue;
        }
        hki_channel *channel = &context->endpoint.channels[rank];
        hki_channel_attach(channel, context->ops[i], link, &context->limits[i]);
        if (channel->eager_limit < context->eager)
            context->eager = channel->eager_limit;
        return HK_OK;
    }
    return hki_error(HK_ERR_TRANSPORT, "no transport reaches rank %u on host %s from rank %u on host %s: %s", rank,
                     context->peers[rank].host_name, context->rank, context->peers[context->rank].host_name, why);
}

/* Why a peer is reached as it is, where that was decided by cost. */
static void log_ways(const hki_context *context, uint32_t rank)
{
    char text[HKI_LINK_WAYS * 64] = "";
    hki_link_way ways[HKI_LINK_WAYS];
    uint32_t count = hki_cluster_ways(context->cluster, context->rank, rank, ways);
    for (uint32_t i = 0, used = 0; i < count && used < sizeof text; i++)
        used += (uint32_t)snprintf(text + used, sizeof text - used, "%s%.1f us by %s (%s)", i ? ", " : "",
                                   (double)ways[i].ps / 1e6, transport_of(ways[i].link),
                                   hki_origin_name(context->figures.link[ways[i].link].origin));
    hki_log(HK_LOG_DEBUG, "rank %u on %s reaches rank %u on %s by %s: %u KiB take %s", context->rank,
            context->peers[context->rank].host_name, rank, context->peers[rank].host_name,
            context->endpoint.channels[rank].ops->name, (unsigned)HKI_LINK_BYTES / 1024, text);
}

/* One peer for every kind of link. */
static void log_links(const hki_context *context)
{
    unsigned said = 0;
    if (!hki_log_wants(HK_LOG_DEBUG) || !context->cluster->costs.known)
        return;
    for (uint32_t rank = 0; rank < context->ranks; rank++) {
        unsigned bit = rank == context->rank ? 0 : 1u << hki_cluster_link(context->cluster, context->rank, rank);
        if (bit & ~said)
            log_ways(context, rank);
        said |= bit;
    }
}

static bool reaches_anybody(const hki_context *context, uint32_t transport)
{
    for (uint32_t rank = 0; rank < context->ranks; rank++) {
        const hki_channel *channel = &context->endpoint.channels[rank];
        if (channel->link && channel->ops == context->ops[transport])
            return true;
    }
    return false;
}

/* A transport that reaches nobody here is closed again: it would be polled in vain, and where shared memory is alone a
 * rank sleeps by futex, which is faster. */
static void close_unused_transports(hki_context *context)
{
    uint32_t kept = 0, count = context->transport_count;
    context->endpoint.transport_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!reaches_anybody(context, i) && (kept > 0 || i + 1 < count)) {
            context->ops[i]->close(context->transports[i], 0);
            continue;
        }
        context->ops[kept] = context->ops[i];
        context->transports[kept] = context->transports[i];
        context->limits[kept] = context->limits[i];
        hki_endpoint_add_transport(&context->endpoint, context->ops[kept], context->transports[kept]);
        kept++;
    }
    context->transport_count = kept;
}

/* Tells a transport where the ranks are that others serve, in case that it watches over all. */
static void acquaint(hki_context *context, const hki_card *cards)
{
    for (uint32_t i = 0; i < context->transport_count; i++) {
        const hk_transport_ops *ops = context->ops[i];
        for (uint32_t rank = 0; rank < context->ranks && ops->acquaint; rank++) {
            size_t bytes;
            const void *address = find_address(&cards[rank], ops->name, &bytes);
            if (rank != context->rank && context->endpoint.channels[rank].ops != ops && address)
                ops->acquaint(context->transports[i], &context->peers[rank], address, bytes);
        }
    }
}

static hk_status link_all(hki_context *context, const hki_card *cards)
{
    for (uint32_t rank = 0; rank < context->ranks; rank++)
        if (rank != context->rank)
            HK_TRY(link_peer(context, rank, &cards[rank]));
    log_links(context);
    close_unused_transports(context);
    acquaint(context, cards);
    return HK_OK;
}

/* Rank 0's figures of the cost model go to all, unless they are the built-in ones, which all have. */
static hk_status tell_figures(const hki_context *context, hki_card *own)
{
    hki_figures figures;
    unsigned char packed[HKI_PACKED_FIGURES_MOST], built_in[HKI_PACKED_FIGURES_MOST];
    if (context->rank != 0)
        return HK_OK;
    HK_TRY(hki_tuning_find(&figures));
    size_t bytes = hki_figures_pack(&figures, packed);
    if (bytes == hki_figures_pack(&hki_figures_built_in, built_in) && memcmp(packed, built_in, bytes) == 0)
        return HK_OK;
    if (!hki_card_add(own, HKI_CARD_FIGURES, packed, bytes))
        hki_log(HK_LOG_WARN, "the tuned figures are not used: there is no room to hand them on beside many addresses");
    return HK_OK;
}

/* All take what rank 0 told, rank 0 too: values lose digits on the way. */
static hk_status take_figures(hki_context *context, const hki_card *first)
{
    size_t bytes;
    const unsigned char *packed = hki_card_find(first, HKI_CARD_FIGURES, 0, &bytes);
    if (packed && !hki_figures_unpack(packed, bytes, &context->figures))
        return hki_error(HK_ERR_BOOTSTRAP, "rank 0 on %s told figures of the cost model that do not fit together",
                         context->peers[0].host_name);
    return HK_OK;
}

hk_status hki_agree_on_links(hki_context *context, hki_boot *boot)
{
    hki_card own = {{0}}, *cards = calloc(context->ranks, sizeof *cards);
    hk_status tuned = HK_OK;
    hk_status status = cards ? tell_addresses(context, &own) : hki_error(HK_ERR_NO_MEMORY, "no memory for addresses");
    if (status == HK_OK) {
        hki_seat_tell(context, &own);
        tuned = tell_figures(context, &own); /* if they cannot be had, the others need not wait to learn it */
        status = hki_boot_exchange(boot, &own, sizeof own, cards, hki_setting_seconds(HKI_SET_JOIN_TIMEOUT));
    }
    if (status == HK_OK)
        status = tuned;
    if (status == HK_OK)
        status = take_figures(context, cards);
    if (status == HK_OK)
        status = hki_seat_take(context, cards);
    if (status == HK_OK) {
        hki_reported_costs(context->cluster, &context->figures, !hki_transports_ordered());
        hki_reported_apply(context->cluster, &context->figures);
        status = link_all(context, cards);
    }
    free(cards);
    return status;
}

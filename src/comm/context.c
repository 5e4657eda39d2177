/* Making and ending contexts. */
#include "comm/context.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "comm/comm.h"
#include "comm/place.h"
#include "comm/plugin.h"
#include "comm/transports.h"
#include "cost/select.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { ADDRESS_BYTES = 512, TRANSPORT_NAME = 32, CLOSE_SECONDS = 2 };

/* What every rank tells every other: first who it is, then how it is reached. */
typedef struct identity {
    hk_peer peer;
    uint32_t version; /* of the library: all ranks must run the same */
    uint32_t abi;
    uint64_t settings; /* hash of those that must agree */
    char tls[16];      /* HOCKET_TLS: named apart, since ranks that differ in it cannot talk */
    cpu_set_t cpus;    /* where it may run */
} identity;

/* By name, since a transport that cannot be opened on one host may well be on another. */
typedef struct reach {
    char name[HKI_MOST_TRANSPORTS][TRANSPORT_NAME];
    uint32_t bytes[HKI_MOST_TRANSPORTS]; /* 0: not open there */
    unsigned char address[HKI_MOST_TRANSPORTS][ADDRESS_BYTES];
} reach;

/* --- the process's contexts: forks, and departure at exit ------------------------------------------------------------
 */

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static hki_node registry = {&registry, &registry};
uint32_t hki_forks;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT, exit_once = PTHREAD_ONCE_INIT;

static void in_child(void)
{
    hki_forks++;
    pthread_mutex_init(&registry_lock, NULL);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

/* Frames that others wait for (grants, ends of pulls, credits) leave before the goodbye. */
static void drain(hki_context *context)
{
    uint64_t end = hki_now() + (uint64_t)CLOSE_SECONDS * 1000000000u;
    while (hki_msg_busy(&context->endpoint) && hki_now() < end) {
        hki_msg_progress(&context->endpoint);
        sched_yield();
    }
}

/* Leaves in order even when the program returns without freeing. The contexts stay in the list, so that leak checkers
 * see their memory as what it is: still held. */
static __attribute__((destructor)) void depart(void)
{
    hki_list_each (node, &registry) {
        hki_context *context = hki_list_entry(node, hki_context, node);
        if (!hki_context_here(context))
            continue;
        drain(context);
        for (uint32_t i = 0; i < context->transport_count; i++)
            context->ops[i]->close(context->transports[i], CLOSE_SECONDS);
        context->transport_count = 0;
    }
}

/* OpenSSL is torn down by a handler of exit, before destructors, if the program had initialised it itself: whoever may
 * need it to say goodbye leaves before. Called once OpenSSL is loaded, so that this handler runs first. */
static void depart_early(void)
{
    (void)atexit(depart);
}

/* --- services to transports ------------------------------------------------------------------------------------------
 */

static void service_log(void *core, hk_log_level level, const char *format, ...)
{
    (void)core;
    va_list arguments;
    va_start(arguments, format);
    hki_vlog(level, format, arguments);
    va_end(arguments);
}

static void service_error(void *core, hk_status status, const char *format, ...)
{
    (void)core;
    va_list arguments;
    va_start(arguments, format);
    hki_verror(status, format, arguments);
    va_end(arguments);
}

static const char *service_setting(void *core, const char *name)
{
    (void)core;
    size_t count;
    const hki_setting *settings = hki_settings(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(settings[i].name + strlen("HOCKET_"), name) == 0)
            return hki_setting_text((hki_setting_id)i);
    }
    return "";
}

static uint64_t service_now(void *core)
{
    (void)core;
    return hki_now();
}

static void fill_services(hki_context *context)
{
    context->services = (hk_transport_services){.size = sizeof(hk_transport_services),
                                                .abi = HK_TRANSPORT_ABI,
                                                .core = context,
                                                .log = service_log,
                                                .setting = service_setting,
                                                .now = service_now,
                                                .error = service_error,
                                                .self = &context->peers[context->rank],
                                                .ranks = context->ranks,
                                                .token = context->token};
}

/* --- exchange --------------------------------------------------------------------------------------------------------
 */

static hk_status check_identity(const identity *own, const identity *other, uint32_t rank)
{
    if (other->version != own->version || other->abi != own->abi)
        return hki_error(HK_ERR_BOOTSTRAP, "rank %u on %s runs another version of the library (%08x, here %08x)", rank,
                         other->peer.host_name, other->version, own->version);
    if (strncmp(other->tls, own->tls, sizeof own->tls) != 0)
        return hki_error(HK_ERR_SETTING, "HOCKET_TLS is %.16s for rank %u on %s, but %.16s for rank %d on %s",
                         other->tls, rank, other->peer.host_name, own->tls, (int)own->peer.rank, own->peer.host_name);
    if (other->settings != own->settings)
        return hki_error(HK_ERR_SETTING,
                         "rank %u on %s has other values of settings that must agree "
                         "(see `hocket info --settings`)",
                         rank, other->peer.host_name);
    return HK_OK;
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
static uint32_t count_local_cpus(const hki_context *context, const identity *all)
{
    cpu_set_t together;
    CPU_ZERO(&together);
    for (uint32_t rank = 0; rank < context->ranks; rank++) {
        if (context->peers[rank].host == context->peers[context->rank].host)
            CPU_OR(&together, &together, &all[rank].cpus);
    }
    uint32_t quota = hki_quota_cpus(), cpus = (uint32_t)CPU_COUNT(&together);
    return cpus < quota ? cpus : quota;
}

static hk_status exchange_identities(hki_context *context, hki_boot *boot)
{
    identity own = {.version = HK_VERSION_MAJOR << 16 | HK_VERSION_MINOR << 8 | HK_VERSION_PATCH,
                    .abi = HK_TRANSPORT_ABI,
                    .settings = hki_settings_hash()};
    const char *tls = hki_setting_text(HKI_SET_TLS);
    snprintf(own.tls, sizeof own.tls, "%s", *tls != '\0' ? tls : "off");
    hki_place_self(&own.peer);
    own.peer.rank = (int32_t)context->rank;
    CPU_ZERO(&own.cpus);
    sched_getaffinity(0, sizeof own.cpus, &own.cpus);
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
        context->local_cpus = count_local_cpus(context, all);
    }
    free(all);
    return status;
}

static void own_reach(hki_context *context, reach *own)
{
    memset(own, 0, sizeof *own);
    for (uint32_t i = 0; i < context->transport_count; i++) {
        size_t bytes = ADDRESS_BYTES;
        snprintf(own->name[i], sizeof own->name[i], "%s", context->ops[i]->name);
        if (context->ops[i]->address(context->transports[i], own->address[i], &bytes) == HK_OK)
            own->bytes[i] = (uint32_t)bytes;
    }
}

/* Where the peer's address for one of this rank's transports is, or -1: it does not have that transport open. */
static int find_reach(const reach *there, const char *name)
{
    for (int i = 0; i < HKI_MOST_TRANSPORTS; i++) {
        if (there->bytes[i] && there->bytes[i] <= ADDRESS_BYTES && strncmp(there->name[i], name, TRANSPORT_NAME) == 0)
            return i;
    }
    return -1;
}

/* Gives each peer the first transport that reaches it. */
static hk_status link_peer(hki_context *context, uint32_t rank, const reach *there)
{
    const char *why = "none is open at both ends";
    for (uint32_t i = 0; i < context->transport_count; i++) {
        hk_link *link;
        int at = find_reach(there, context->ops[i]->name);
        if (at < 0)
            continue;
        if (context->ops[i]->connect(context->transports[i], &context->peers[rank], there->address[at],
                                     there->bytes[at], &link) != HK_OK) {
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

/* Tells a transport where the ranks are that others serve, in case that it watches over all. */
static void acquaint(hki_context *context, const reach *all)
{
    for (uint32_t i = 0; i < context->transport_count; i++) {
        const hk_transport_ops *ops = context->ops[i];
        for (uint32_t rank = 0; rank < context->ranks && ops->acquaint; rank++) {
            int at = find_reach(&all[rank], ops->name);
            if (rank != context->rank && context->endpoint.channels[rank].ops != ops && at >= 0)
                ops->acquaint(context->transports[i], &context->peers[rank], all[rank].address[at],
                              all[rank].bytes[at]);
        }
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

static hk_status connect_all(hki_context *context, hki_boot *boot)
{
    reach own, *all = calloc(context->ranks, sizeof *all);
    if (!all)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for addresses");
    own_reach(context, &own);
    hk_status status = hki_boot_exchange(boot, &own, sizeof own, all, hki_setting_seconds(HKI_SET_JOIN_TIMEOUT));
    for (uint32_t rank = 0; rank < context->ranks && status == HK_OK; rank++) {
        if (rank != context->rank)
            status = link_peer(context, rank, &all[rank]);
    }
    if (status == HK_OK) {
        close_unused_transports(context);
        acquaint(context, all);
    }
    free(all);
    return status;
}

/* A transport that fails leaves the others; a plug-in may also promise what it cannot keep. */
static hk_status open_transport(hki_context *context, const hk_transport_ops *ops)
{
    uint32_t i = context->transport_count;
    HK_TRY(ops->open(&context->services, &context->transports[i], &context->limits[i]));
    hk_status status = hki_plugin_check_limits(ops, &context->limits[i]);
    if (status != HK_OK) {
        ops->close(context->transports[i], 0);
        return status;
    }
    context->ops[i] = ops;
    hki_endpoint_add_transport(&context->endpoint, ops, context->transports[i]);
    context->transport_count++;
    return HK_OK;
}

static hk_status open_transports(hki_context *context)
{
    if (context->ranks == 1)
        return HK_OK; /* alone: nothing to reach */
    const hk_transport_ops *const *candidates = hki_transports_usable();
    HK_TRY(hki_transports_check());
    for (; *candidates && context->transport_count < HKI_MOST_TRANSPORTS; candidates++) {
        hk_status status = open_transport(context, *candidates);
        if (status == HK_ERR_SETTING)
            return status; /* what was asked for cannot be had: said, not ignored */
        bool expected = status != HK_ERR_UNSUPPORTED || hki_transports_named(*candidates);
        if (status != HK_OK)
            hki_log(expected ? HK_LOG_WARN : HK_LOG_DEBUG, "transport %s is not usable: %s", (*candidates)->name,
                    hk_last_error());
    }
    if (context->transport_count == 0)
        return hki_error(HK_ERR_TRANSPORT, "no transport could be opened: %s", hk_last_error());
    if (strcmp(hki_setting_text(HKI_SET_TLS), "required") == 0)
        pthread_once(&exit_once, depart_early);
    return HK_OK;
}

/* --- open and close --------------------------------------------------------------------------------------------------
 */

static void unlock_context(void *context)
{
    pthread_mutex_unlock(&((hki_context *)context)->lock);
}

static void lock_context(void *context)
{
    pthread_mutex_lock(&((hki_context *)context)->lock);
}

static void open_engine(hki_context *context, const hk_options *options)
{
    uint32_t locals = (uint32_t)context->peers[context->rank].local_ranks;
    hki_engine_open(&context->engine, &context->endpoint, locals, context->local_cpus);
    context->engine.context = context;
    context->engine.slow = hki_failure_slow;
    context->engine.attend = hki_failure_attend;
    context->locking = options->threads == HK_THREADS_MULTIPLE;
    if (context->locking) {
        context->engine.unlock = unlock_context;
        context->engine.lock = lock_context;
    }
}

static hk_status fill(hki_context *context, const hk_options *options, hki_boot *boot)
{
    const hki_place *place = hki_boot_place(boot);
    context->rank = (uint32_t)place->rank;
    context->ranks = (uint32_t)place->ranks;
    memcpy(context->token, place->key, sizeof context->token);
    HK_TRY(hki_context_keep_topology(context, place));
    hki_listener listener = hki_failure_listener;
    listener.context = context;
    HK_TRY(hki_endpoint_open(&context->endpoint, context->ranks, context->rank, &listener));
    context->endpoint.eager_setting = (size_t)hki_setting_integer(HKI_SET_EAGER);
    HK_TRY(exchange_identities(context, boot));
    fill_services(context);
    open_engine(context, options);
    HK_TRY(open_transports(context));
    HK_TRY(connect_all(context, boot));
    bool mappable = context->transport_count > 0;
    hki_scratch_open(&context->scratch, mappable ? context->ops[0] : NULL, mappable ? context->transports[0] : NULL);
    hki_log(HK_LOG_INFO, "rank %u of %u, found by %s", context->rank, context->ranks, place->source);
    return HK_OK;
}

static hki_context *new_context(void)
{
    hki_context *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    hki_list_init(&context->node);
    hki_list_init(&context->comms);
    hki_list_init(&context->requests);
    hki_list_init(&context->spare);
    hki_list_init(&context->plain);
    hki_plan_cache_open(&context->plans, (size_t)hki_setting_integer(HKI_SET_PLAN_CACHE));
    hki_scratch_open(&context->scratch, NULL, NULL);
    pthread_mutex_init(&context->lock, NULL);
    context->eager = SIZE_MAX;
    context->timeout = -1;
    context->forks = hki_forks;
    if (getrandom(&context->id, sizeof context->id, 0) != sizeof context->id)
        context->id = hki_now() ^ (uint64_t)getpid() << 40;
    return context;
}

hk_status hki_context_open(const hk_options *options, hki_context **result)
{
    hki_boot *boot = NULL;
    pthread_once(&fork_once, watch_forks);
    HK_TRY(hki_settings_check());
    HK_TRY(hki_select_check());
    hki_context *context = new_context();
    if (!context)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a context");
    context->timeout = options->timeout >= 0 ? options->timeout : hki_setting_seconds(HKI_SET_TIMEOUT);
    hk_status status = hki_boot_join(options, &boot);
    if (status == HK_OK)
        status = fill(context, options, boot);
    hki_boot_leave(boot);
    if (status != HK_OK) {
        hki_context_close(context);
        return status;
    }
    pthread_mutex_lock(&registry_lock);
    hki_list_append(&registry, &context->node);
    pthread_mutex_unlock(&registry_lock);
    *result = context;
    return HK_OK;
}

void hki_context_close(hki_context *context)
{
    pthread_mutex_lock(&registry_lock);
    hki_list_remove(&context->node);
    pthread_mutex_unlock(&registry_lock);
    bool here = hki_context_here(context);
    if (here && context->endpoint.channels)
        drain(context);
    while (!hki_list_empty(&context->spare)) {
        hk_request *request = hki_list_entry(context->spare.next, hk_request, node);
        hki_list_remove(&request->node);
        hki_task_free_memory(&request->task);
        free(request);
    }
    if (here) /* a child may not have the pages, and peers would take its word for the parent's */
        hki_scratch_close(&context->scratch);
    hki_memory_close(context);
    hki_plan_cache_close(&context->plans);
    for (uint32_t i = 0; here && i < context->transport_count; i++)
        context->ops[i]->close(context->transports[i], CLOSE_SECONDS);
    hki_endpoint_close(&context->endpoint);
    hki_context_drop_topology(context);
    pthread_mutex_destroy(&context->lock);
    free(context->peers);
    free(context);
}

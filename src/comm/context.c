/* Making and ending contexts. */
#include "comm/context.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "comm/agree.h"
#include "comm/comm.h"
#include "comm/plugin.h"
#include "comm/services.h"
#include "comm/transports.h"
#include "cost/select.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { CLOSE_SECONDS = 2 };

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
    uint64_t now = hki_now(), end = now + (uint64_t)CLOSE_SECONDS * 1000000000u;
    for (; hki_msg_busy(&context->endpoint, now) && now < end; now = hki_now()) {
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

/* Nothing of OpenSSL may be called after its tear-down (OPENSSL_cleanup), which, if the program has initialised it
 * itself, is a handler of exit and so runs before destructors: whoever needs it for the goodbye leaves before.
 * Registered once OpenSSL is loaded, this handler runs first. */
static void depart_early(void)
{
    (void)atexit(depart);
}

static bool tls_required(void)
{
    return strcmp(hki_setting_text(HKI_SET_TLS), "required") == 0;
}

/* --- transports ------------------------------------------------------------------------------------------------------
 */

/* HOCKET_TLS=required: nothing leaves the host that can be read there. Who asks for such a transport by name is told;
 * else others are used. */
static hk_status check_secrecy(const hk_transport_ops *ops, const hk_transport_limits *limits)
{
    const char *named = hki_setting_text(HKI_SET_TRANSPORT);
    if (!tls_required() || (limits->capabilities & (HK_TRANSPORT_LOCAL | HK_TRANSPORT_ENCRYPTED)) != 0)
        return HK_OK;
    return hki_error(*named != '\0' && *named != '^' ? HK_ERR_SETTING : HK_ERR_UNSUPPORTED,
                     "HOCKET_TLS=required, but transport %s does not encrypt what it sends to other hosts", ops->name);
}

/* A transport that fails leaves the others; a plug-in may also promise what it cannot keep. */
static hk_status open_transport(hki_context *context, const hk_transport_ops *ops)
{
    uint32_t i = context->transport_count;
    HK_TRY(ops->open(&context->services, &context->transports[i], &context->limits[i]));
    hk_status status = hki_plugin_check_limits(ops, &context->limits[i]);
    if (status == HK_OK)
        status = check_secrecy(ops, &context->limits[i]);
    if (status != HK_OK) {
        ops->close(context->transports[i], 0);
        return status;
    }
    context->ops[i] = ops;
    hki_endpoint_add_transport(&context->endpoint, ops, context->transports[i]);
    context->transport_count++;
    return HK_OK;
}

/* Where shared memory serves all ranks, nothing is measured, so that joining takes no longer. */
static void measure_transports(hki_context *context)
{
    bool local = false, apart = context->peers[context->rank].local_ranks < (int32_t)context->ranks;
    for (uint32_t i = 0; i < context->transport_count; i++)
        local |= (context->limits[i].capabilities & HK_TRANSPORT_LOCAL) != 0;
    for (uint32_t i = 0; i < context->transport_count && (apart || !local); i++)
        if (context->ops[i]->measure)
            context->ops[i]->measure(context->transports[i], &context->limits[i]);
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
    measure_transports(context);
    if (tls_required())
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
    HK_TRY(hki_agree_on_ranks(context, boot));
    hki_services_fill(&context->services, context, &context->peers[context->rank], context->ranks, context->token);
    open_engine(context, options);
    HK_TRY(open_transports(context));
    HK_TRY(hki_agree_on_links(context, boot));
    hki_scratch_open(&context->scratch, context->ops, context->transports, context->transport_count);
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
    hki_list_init(&context->offers);
    hki_list_init(&context->requests);
    for (size_t i = 0; i < HKI_OPERATION_BUCKETS; i++)
        hki_list_init(&context->operations[i]);
    hki_list_init(&context->spare);
    hki_list_init(&context->plain);
    hki_plan_cache_open(&context->plans, (size_t)hki_setting_integer(HKI_SET_PLAN_CACHE));
    hki_scratch_open(&context->scratch, NULL, NULL, 0);
    pthread_mutex_init(&context->lock, NULL);
    context->eager = SIZE_MAX;
    context->figures = hki_figures_built_in;
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
    hki_cluster_free(context->cluster);
    pthread_mutex_destroy(&context->lock);
    free(context->peers);
    free(context);
}

/* Communicators: made from the environment or from options; freed. */
#include "comm/comm.h"

#include "base/error.h"
#include "base/log.h"
#include "comm/calibrate.h"
#include "comm/wires.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

hk_status hki_comm_enter_slowly(hk_comm *comm)
{
    if (__builtin_expect(!comm || comm->magic != HKI_COMM_MAGIC, 0))
        return hki_error(HK_ERR_COMM, "not a live communicator");
    if (__builtin_expect(!hki_context_here(comm->context), 0))
        return hki_error(HK_ERR_FORKED, "the communicator belongs to the parent process");
    hki_context_enter(comm->context);
    if (__builtin_expect(comm->poisoned != HK_OK, 0)) {
        hk_status status = hki_error_set(comm->poisoned, comm->reason);
        hki_context_leave(comm->context);
        return status;
    }
    return HK_OK;
}

int hki_comm_rank_of(const hk_comm *comm, uint32_t world)
{
    if (!comm->world)
        return world < comm->size ? (int)world : -1;
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        if (comm->world[rank] == world)
            return (int)rank;
    }
    return -1;
}

void hki_comm_describe_rank(const hk_comm *comm, uint32_t rank, char *text, size_t bytes)
{
    const hk_peer *peer = &comm->context->peers[hki_comm_world(comm, rank)];
    snprintf(text, bytes, "rank %u on host %s (pid %d)", rank, peer->host_name, (int)peer->pid);
}

/* Where the members are. Communicators of members at equal places have one cluster, so that they share plans … */
static hk_status view_cluster(hk_comm *comm)
{
    hki_context *context = comm->context;
    if (!comm->world) {
        comm->cluster = context->cluster;
        return HK_OK;
    }
    HK_TRY(hki_cluster_members(context->cluster, comm->world, comm->size, &comm->cluster));
    hki_list_each (node, &context->comms) {
        hki_cluster *known = hki_list_entry(node, hk_comm, node)->cluster;
        if (!hki_cluster_equal(known, comm->cluster))
            continue;
        hki_cluster_free(comm->cluster);
        comm->cluster = known;
        break;
    }
    return HK_OK;
}

/* Another communicator on the same cluster; NULL: there is none. */
static hk_comm *find_neighbour(const hk_comm *comm)
{
    hki_list_each (node, &comm->context->comms) {
        hk_comm *other = hki_list_entry(node, hk_comm, node);
        if (other != comm && other->cluster == comm->cluster)
            return other;
    }
    return NULL;
}

/* Frees the cluster of a communicator that is no more in the list, with the plans and choices made for it, unless
 * another has it. */
static void drop_cluster(hk_comm *comm)
{
    hki_context *context = comm->context;
    if (!comm->cluster || find_neighbour(comm))
        return;
    hki_chooser_free(comm->chooser);
    if (comm->cluster == context->cluster)
        return;
    if (comm->cluster->levels)
        hki_plan_cache_forget(&context->plans, comm->cluster->levels);
    hki_cluster_free(comm->cluster);
}

/* … and choices of algorithms. */
static hk_status find_chooser(hk_comm *comm)
{
    HK_TRY(view_cluster(comm));
    const hk_comm *neighbour = find_neighbour(comm);
    if (neighbour)
        comm->chooser = neighbour->chooser;
    hk_status status = neighbour ? HK_OK : hki_chooser_new(comm->cluster, &comm->context->figures, &comm->chooser);
    if (status != HK_OK)
        drop_cluster(comm);
    return status;
}

hk_status hki_comm_new(hki_context *context, hki_comm_name name, uint32_t rank, uint32_t size, uint32_t *world,
                       hk_comm **result)
{
    hk_comm *comm = calloc(1, sizeof *comm);
    if (!comm) {
        free(world);
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a communicator");
    }
    comm->magic = HKI_COMM_MAGIC;
    comm->context = context;
    comm->id = name.id;
    comm->wire = name.wire;
    comm->rank = rank;
    comm->size = size;
    comm->world = world;
    comm->timeout = context->timeout;
    hk_status status = find_chooser(comm);
    if (status != HK_OK) {
        free(world);
        free(comm);
        return status;
    }
    hki_list_append(&context->comms, &comm->node);
    hki_matcher_open(&context->endpoint, &comm->matcher, comm->wire);
    *result = comm;
    return HK_OK;
}

static void log_figures(const hki_figures *figures)
{
    char text[HKI_ORIGINS_TEXT];
    if (hki_log_wants(HK_LOG_DEBUG))
        hki_log(HK_LOG_DEBUG, "figures of the cost model%s%s: %s", *figures->source ? ", " : "", figures->source,
                hki_figures_origins(figures, text, sizeof text));
}

hk_status hk_comm_create(const hk_options *options, hk_comm **comm)
{
    hki_context *context;
    if (!options || !comm)
        return hki_error(HK_ERR_ARGUMENT, "comm_create: %s is NULL", options ? "comm" : "options");
    if (options->size < sizeof(hk_options))
        return hki_error(HK_ERR_ARGUMENT, "comm_create: options.size is %zu; initialise with HK_OPTIONS_INIT",
                         options->size);
    HK_TRY(hki_context_open(options, &context));
    hk_status status = hki_calibrate(context);
    log_figures(&context->figures);
    if (status == HK_OK)
        status = hki_comm_new(context, (hki_comm_name){.id = hki_mix(1, context->ranks), .wire = HKI_WIRE_WORLD},
                              context->rank, context->ranks, NULL, comm);
    if (status != HK_OK)
        hki_context_close(context);
    return status;
}

hk_status hk_init(hk_comm **comm)
{
    hk_options options = HK_OPTIONS_INIT;
    return hk_comm_create(&options, comm);
}

int hk_comm_rank(const hk_comm *comm)
{
    return comm ? (int)comm->rank : -1;
}

int hk_comm_size(const hk_comm *comm)
{
    return comm ? (int)comm->size : -1;
}

int hk_comm_world_rank(const hk_comm *comm)
{
    return comm ? (int)comm->context->rank : -1;
}

const char *hk_comm_last_error(const hk_comm *comm)
{
    return comm ? comm->reason : "";
}

hk_status hk_comm_set_timeout(hk_comm *comm, double seconds)
{
    if (!(seconds >= 0))
        return hki_error(HK_ERR_ARGUMENT, "comm_set_timeout: seconds is negative");
    HK_TRY(hki_comm_enter(comm));
    comm->timeout = seconds;
    hki_comm_leave(comm);
    return HK_OK;
}

/* --- the end ---------------------------------------------------------------------------------------------------------
 */

static void finish_requests(hk_comm *comm)
{
    hki_context *context = comm->context;
    for (bool again = true; again;) {
        again = false;
        hki_list_each (node, &context->requests) {
            hk_request *request = hki_list_entry(node, hk_request, node);
            if (request->comm != comm)
                continue;
            if (!request->task.ended)
                hki_request_wait(request);
            hki_request_finish(request);
            again = true;
            break;
        }
    }
}

static void destroy(hk_comm *comm)
{
    hki_context *context = comm->context;
    hki_list_remove(&comm->node);
    hki_matcher_close(&comm->matcher);
    hki_msg_forget(&context->endpoint, comm->wire);
    hki_memo_clear(&comm->memo);
    drop_cluster(comm);
    comm->magic = 0;
    free(comm->world);
    free(comm->groups);
    free(comm);
}

bool hki_comm_end(hk_comm *comm)
{
    hki_context *context = comm->context;
    if (comm->council)
        hki_comm_end(comm->council);
    bool here = hki_context_here(context);
    if (here) {
        hki_context_enter(context);
        finish_requests(comm);
    } else {
        hki_endpoint_disown(&context->endpoint);
    }
    destroy(comm);
    bool last = hki_list_empty(&context->comms);
    if (here)
        hki_context_leave(context);
    return last;
}

hk_status hk_comm_free(hk_comm *comm)
{
    if (!comm)
        return HK_OK;
    if (comm->magic != HKI_COMM_MAGIC)
        return hki_error(HK_ERR_COMM, "comm_free: not a live communicator");
    hki_context *context = comm->context;
    if (hki_comm_end(comm))
        hki_context_close(context);
    return HK_OK;
}

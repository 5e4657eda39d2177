/* Communicators: made from the environment, from options, from one another; freed. */
#include "comm/comm.h"

#include "base/error.h"
#include "base/log.h"
#include "comm/calibrate.h"

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

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
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

hk_status hki_comm_new(hki_context *context, uint64_t id, uint32_t rank, uint32_t size, uint32_t *world,
                       hk_comm **result)
{
    hk_comm *comm = calloc(1, sizeof *comm);
    if (!comm) {
        free(world);
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a communicator");
    }
    hki_list_each (node, &context->comms) {
        if (hki_list_entry(node, hk_comm, node)->wire == (uint32_t)id) {
            free(world);
            free(comm);
            return hki_error(HK_ERR_INTERNAL, "two communicators got the same identifier; make it again");
        }
    }
    comm->magic = HKI_COMM_MAGIC;
    comm->context = context;
    comm->id = id;
    comm->wire = (uint32_t)id;
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
        status = hki_comm_new(context, mix(1, context->ranks), context->rank, context->ranks, NULL, comm);
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

/* --- made from one another -------------------------------------------------------------------------------------------
 */

typedef struct member {
    int32_t color, key;
    uint32_t rank;
} member;

static int by_key(const void *a, const void *b)
{
    const member *left = a, *right = b;
    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    return left->rank < right->rank ? -1 : 1;
}

/* Keeps the members of one colour, in order; returns how many. */
static uint32_t select_members(member *members, uint32_t count, int color)
{
    uint32_t kept = 0;
    for (uint32_t rank = 0; rank < count; rank++) {
        members[rank].rank = rank;
        if (members[rank].color == color)
            members[kept++] = members[rank];
    }
    qsort(members, kept, sizeof *members, by_key);
    return kept;
}

static hk_status make_from(hk_comm *comm, const member *members, uint32_t count, uint64_t id, hk_comm **result)
{
    uint32_t *world = malloc(count * sizeof *world);
    if (!world)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a communicator of %u ranks", count);
    uint32_t rank = 0;
    bool identity = count == comm->context->ranks;
    for (uint32_t i = 0; i < count; i++) {
        world[i] = hki_comm_world(comm, members[i].rank);
        identity &= world[i] == i;
        if (members[i].rank == comm->rank)
            rank = i;
    }
    if (identity) {
        free(world);
        world = NULL;
    }
    /* Messages carry half of the id: it is to be another than those of communicators that all members are in. */
    uint32_t first = (uint32_t)mix(1, comm->context->ranks);
    while ((uint32_t)id == comm->wire || (uint32_t)id == first)
        id = mix(id, 'a');
    HK_TRY(hki_comm_new(comm->context, id, rank, count, world, result));
    (*result)->timeout = comm->timeout;
    return HK_OK;
}

hk_status hk_comm_split(hk_comm *comm, int color, int key, hk_comm **result)
{
    if (!result)
        return hki_error(HK_ERR_ARGUMENT, "comm_split: result is NULL");
    if (!comm || comm->magic != HKI_COMM_MAGIC)
        return hki_error(HK_ERR_COMM, "comm_split: not a live communicator");
    int32_t own[2] = {color, key};
    int32_t(*all)[2] = malloc(comm->size * sizeof *all);
    member *members = malloc(comm->size * sizeof *members);
    if (!all || !members) {
        free(all);
        free(members);
        return hki_error(HK_ERR_NO_MEMORY, "comm_split: no memory for %u ranks", comm->size);
    }
    uint64_t operation = comm->operations;
    hk_status status = hk_allgather(own, all, 2, HK_INT32, comm);
    hk_comm *made = NULL;
    if (status == HK_OK && color >= 0) {
        for (uint32_t rank = 0; rank < comm->size; rank++)
            members[rank] = (member){.color = all[rank][0], .key = all[rank][1]};
        uint32_t count = select_members(members, comm->size, color);
        uint64_t id = mix(mix(mix(comm->id, operation), (uint64_t)color), 's');
        hki_context_enter(comm->context);
        status = make_from(comm, members, count, id, &made);
        hki_context_leave(comm->context);
    }
    free(all);
    free(members);
    if (status == HK_OK)
        *result = made;
    return status;
}

hk_status hk_comm_dup(hk_comm *comm, hk_comm **result)
{
    if (!result)
        return hki_error(HK_ERR_ARGUMENT, "comm_dup: result is NULL");
    HK_TRY(hki_comm_enter(comm));
    hk_status status = HK_OK;
    member *members = calloc(comm->size, sizeof *members);
    if (!members)
        status = hki_error(HK_ERR_NO_MEMORY, "comm_dup: no memory for %u ranks", comm->size);
    if (status == HK_OK) {
        uint32_t count = select_members(members, comm->size, 0);
        status = make_from(comm, members, count, mix(mix(comm->id, comm->operations), 'd'), result);
    }
    if (status == HK_OK)
        hki_record_call(comm, &(hki_signature){.collective = HKI_COLL_DUP}, (uint32_t)mix(0, HKI_COLL_DUP));
    free(members);
    hki_comm_leave(comm);
    return status;
}

/* How often this list was made into a communicator before, and one more from now on. */
static hk_status count_group(hk_comm *comm, uint64_t list, uint64_t *made)
{
    for (uint32_t i = 0; i < comm->group_count; i++) {
        if (comm->groups[i].list == list) {
            *made = comm->groups[i].made++;
            return HK_OK;
        }
    }
    hki_group_count *groups = realloc(comm->groups, (comm->group_count + 1) * sizeof *groups);
    if (!groups)
        return hki_error(HK_ERR_NO_MEMORY, "comm_create_group: no memory");
    comm->groups = groups;
    groups[comm->group_count++] = (hki_group_count){.list = list, .made = 1};
    *made = 0;
    return HK_OK;
}

static hk_status check_list(const hk_comm *comm, const int *ranks, int count, bool *seen)
{
    bool listed = false;
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= (int)comm->size)
            return hki_error(HK_ERR_ROOT, "comm_create_group: ranks[%d] is %d, not in 0 … %u", i, ranks[i],
                             comm->size - 1);
        if (seen[ranks[i]])
            return hki_error(HK_ERR_ARGUMENT, "comm_create_group: rank %d is listed twice", ranks[i]);
        seen[ranks[i]] = true;
        listed |= ranks[i] == (int)comm->rank;
    }
    if (!listed)
        return hki_error(HK_ERR_ARGUMENT, "comm_create_group: the caller, rank %u, is not listed", comm->rank);
    return HK_OK;
}

static hk_status make_group(hk_comm *comm, const int *ranks, uint32_t count, int tag, hk_comm **result)
{
    member *members = calloc(count, sizeof *members);
    if (!members)
        return hki_error(HK_ERR_NO_MEMORY, "comm_create_group: no memory for %u ranks", count);
    uint64_t list = mix('g', (uint64_t)tag), made = 0;
    for (uint32_t i = 0; i < count; i++) {
        members[i].rank = (uint32_t)ranks[i];
        list = mix(list, (uint64_t)ranks[i]);
    }
    hk_status status = count_group(comm, list, &made);
    if (status == HK_OK)
        status = make_from(comm, members, count, mix(mix(comm->id, list), made), result);
    free(members);
    return status;
}

hk_status hk_comm_create_group(hk_comm *comm, const int *ranks, int count, int tag, hk_comm **result)
{
    if (!result || !ranks || count < 1)
        return hki_error(HK_ERR_ARGUMENT, "comm_create_group: %s",
                         !result  ? "result is NULL"
                         : !ranks ? "ranks is NULL"
                                  : "count is not positive");
    HK_TRY(hki_comm_enter(comm));
    bool *seen = calloc(comm->size, sizeof *seen);
    hk_status status =
        seen ? check_list(comm, ranks, count, seen) : hki_error(HK_ERR_NO_MEMORY, "comm_create_group: no memory");
    free(seen);
    if (status == HK_OK)
        status = make_group(comm, ranks, (uint32_t)count, tag, result);
    hki_comm_leave(comm);
    return status;
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

/* Communicators made from one another: split, dup and rank lists. */
#include "comm/comm.h"
#include "comm/wires.h"

#include "base/error.h"

#include <stdlib.h>

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

/* Makes the communicator of members of comm under what they have agreed on. A failure here is this rank's alone, so it
 * is spread to all. */
static hk_status make_from(hk_comm *comm, const member *members, uint32_t count, hki_comm_name name, hk_comm **result)
{
    uint32_t *world = malloc(count * sizeof *world);
    if (!world)
        return hki_comm_fail(comm, HK_ERR_NO_MEMORY, "no memory for a communicator of %u ranks", count);
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
    hk_status status = hki_comm_new(comm->context, name, rank, count, world, result);
    if (status != HK_OK)
        return hki_comm_fail(comm, status, "%s", hk_last_error());
    (*result)->timeout = comm->timeout;
    return HK_OK;
}

/* --- split -----------------------------------------------------------------------------------------------------------
 */

/* What each rank tells the others. */
typedef struct wish {
    int32_t color, key;
    uint32_t free; /* of the candidates for the wire identifier */
} wish;
enum { WISH_WORDS = 3 };
_Static_assert(sizeof(wish) == WISH_WORDS * sizeof(uint32_t), "gathered as words");

/* Keeps the members of one colour, in order; returns how many, and which candidates are free with all of them. */
static uint32_t select_members(const wish *all, uint32_t ranks, int32_t color, member *members, uint32_t *free_for_all)
{
    uint32_t kept = 0;
    *free_for_all = UINT32_MAX;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        if (all[rank].color != color)
            continue;
        members[kept++] = (member){.color = color, .key = all[rank].key, .rank = rank};
        *free_for_all &= all[rank].free;
    }
    qsort(members, kept, sizeof *members, by_key);
    return kept;
}

static hk_status split(hk_comm *comm, int color, int key, wish *all, member *members, hk_comm **result)
{
    hki_offer offer;
    HK_TRY(hki_comm_enter(comm));
    hki_offer_open(comm->context, &offer, hki_id_of_split(comm->id, comm->operations, color));
    hki_comm_leave(comm);
    wish own = {.color = color, .key = key, .free = offer.free};
    const hki_arguments gather = {.is = {.collective = HKI_COLL_ALLGATHER, .count = WISH_WORDS, .type = HK_UINT32},
                                  .send = &own,
                                  .recv = all,
                                  .within = HKI_COLL_SPLIT};
    hk_status status = hki_collective_within(comm, &gather);
    hki_context_enter(comm->context);
    hki_offer_close(&offer);
    hki_comm_name name = {.id = offer.id};
    if (status == HK_OK && color >= 0) {
        uint32_t free_for_all, count = select_members(all, comm->size, color, members, &free_for_all);
        status = hki_wire_choose(offer.id, free_for_all, &name.wire);
        if (status == HK_OK)
            status = make_from(comm, members, count, name, result);
    }
    hki_context_leave(comm->context);
    return status;
}

hk_status hk_comm_split(hk_comm *comm, int color, int key, hk_comm **result)
{
    if (!result)
        return hki_error(HK_ERR_ARGUMENT, "comm_split: result is NULL");
    if (!comm || comm->magic != HKI_COMM_MAGIC)
        return hki_error(HK_ERR_COMM, "comm_split: not a live communicator");
    hk_comm *made = NULL;
    wish *all = malloc(comm->size * sizeof *all);
    member *members = malloc(comm->size * sizeof *members);
    hk_status status = all && members ? split(comm, color, key, all, members, &made)
                                      : hki_error(HK_ERR_NO_MEMORY, "comm_split: no memory for %u ranks", comm->size);
    free(all);
    free(members);
    if (status == HK_OK)
        *result = made;
    return status;
}

/* --- dup -------------------------------------------------------------------------------------------------------------
 */

static hk_status duplicate(hk_comm *comm, member *members, hk_comm **result)
{
    hki_offer offer;
    hki_comm_name name;
    uint32_t free_for_all = 0;
    for (uint32_t rank = 0; rank < comm->size; rank++)
        members[rank].rank = rank;
    HK_TRY(hki_comm_enter(comm));
    hki_offer_open(comm->context, &offer, hki_id_of_dup(comm->id, comm->operations));
    hki_comm_leave(comm);
    const hki_arguments agree = {.is = {.collective = HKI_COLL_ALLREDUCE, .count = 1, .type = HK_UINT32, .op = HK_BAND},
                                 .send = &offer.free,
                                 .recv = &free_for_all,
                                 .within = HKI_COLL_DUP};
    hk_status status = hki_collective_within(comm, &agree);
    hki_context_enter(comm->context);
    hki_offer_close(&offer);
    name.id = offer.id;
    if (status == HK_OK)
        status = hki_wire_choose(offer.id, free_for_all, &name.wire);
    if (status == HK_OK)
        status = make_from(comm, members, comm->size, name, result);
    hki_context_leave(comm->context);
    return status;
}

hk_status hk_comm_dup(hk_comm *comm, hk_comm **result)
{
    if (!result)
        return hki_error(HK_ERR_ARGUMENT, "comm_dup: result is NULL");
    if (!comm || comm->magic != HKI_COMM_MAGIC)
        return hki_error(HK_ERR_COMM, "comm_dup: not a live communicator");
    member *members = calloc(comm->size, sizeof *members);
    hk_status status = members ? duplicate(comm, members, result)
                               : hki_error(HK_ERR_NO_MEMORY, "comm_dup: no memory for %u ranks", comm->size);
    free(members);
    return status;
}

/* --- rank lists ------------------------------------------------------------------------------------------------------
 */

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
        return hki_comm_fail(comm, HK_ERR_NO_MEMORY, "comm_create_group: no memory");
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

/* The members alone find out what is free with all of them: by dissemination, in ⌈log2 count⌉ rounds of a message each
 * way under a tag of the library's own. (Hensgen, Finkel, Manber: Two algorithms for barrier synchronization, 1988.) */
static hk_status find_free(hk_comm *comm, const member *members, uint32_t count, int tag, uint32_t *free_for_all)
{
    uint32_t me = 0;
    hk_status status = HK_OK;
    while (members[me].rank != comm->rank)
        me++;
    for (uint64_t distance = 1; distance < count && status == HK_OK; distance *= 2) {
        uint32_t theirs = 0, step = (uint32_t)distance;
        int from = (int)members[(me + count - step) % count].rank, to = (int)members[(me + distance) % count].rank;
        hk_request *receive = hki_point_begin_recv(comm, &theirs, sizeof theirs, from, tag);
        hk_request *send = hki_point_begin_send(comm, free_for_all, sizeof *free_for_all, to, tag);
        status = hki_point_finish(send, NULL);
        hk_status received = hki_point_finish(receive, NULL);
        status = status == HK_OK ? received : status;
        *free_for_all &= theirs;
    }
    return status;
}

static hk_status make_group(hk_comm *comm, const int *ranks, uint32_t count, int tag, hk_comm **result)
{
    hki_offer offer;
    hki_comm_name name;
    uint64_t list = hki_mix('g', (uint64_t)tag), made = 0;
    member *members = calloc(count, sizeof *members);
    if (!members)
        return hki_comm_fail(comm, HK_ERR_NO_MEMORY, "comm_create_group: no memory for %u ranks", count);
    for (uint32_t i = 0; i < count; i++) {
        members[i].rank = (uint32_t)ranks[i];
        list = hki_mix(list, (uint64_t)ranks[i]);
    }
    hk_status status = count_group(comm, list, &made);
    if (status == HK_OK) {
        hki_offer_open(comm->context, &offer, hki_id_of_group(comm->id, list, made));
        uint32_t free_for_all = offer.free;
        status = find_free(comm, members, count, HKI_TAG_GROUP - (int)(list >> 40), &free_for_all);
        hki_offer_close(&offer);
        name.id = offer.id;
        if (status == HK_OK)
            status = hki_wire_choose(offer.id, free_for_all, &name.wire);
        if (status == HK_OK)
            status = make_from(comm, members, count, name, result);
    }
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

/*
 * Shrinking: survivors of a failure agree on who they are. Each floods the set of ranks that it knows to be dead until
 * a round brings nothing new from anybody; whoever has decided says so in the next round, so that a rank that learned
 * of another death meanwhile adopts the decision. (Flooding consensus, Cachin, Guerraoui, Rodrigues: Introduction to
 * Reliable and Secure Distributed Programming, section 5.2, with early decision.)
 */
#include "comm/comm.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

typedef struct agreement {
    hk_comm *comm;      /* hidden, of all members */
    size_t bytes;       /* of a vote: decided, then a byte a rank: 1 = dead */
    unsigned char *own; /* this rank's vote */
    unsigned char *heard;
    hk_request **sends, **receives;
} agreement;

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static void note_dead(agreement *vote)
{
    for (uint32_t rank = 0; rank < vote->comm->size; rank++) {
        if (hki_comm_channel(vote->comm, rank)->lost)
            vote->own[1 + rank] = 1;
    }
}

static bool alive(const agreement *vote, uint32_t rank)
{
    return rank != vote->comm->rank && !vote->own[1 + rank];
}

static hk_status end_request(hk_request *request)
{
    if (!request)
        return HK_OK;
    if (!request->task.ended)
        hki_request_wait(request);
    return hki_request_finish(request);
}

/* Sends this rank's vote to all that it believes alive, and hears theirs. False: out of memory or timed out. */
static hk_status exchange(agreement *vote, int round)
{
    hk_comm *comm = vote->comm;
    hk_status status = HK_OK;
    memset(vote->sends, 0, comm->size * sizeof *vote->sends);
    memset(vote->receives, 0, comm->size * sizeof *vote->receives);
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        if (!alive(vote, rank))
            continue;
        unsigned char *heard = vote->heard + rank * vote->bytes;
        memset(heard, 0, vote->bytes);
        vote->receives[rank] = hki_point_begin_recv(comm, heard, vote->bytes, (int)rank, round);
        vote->sends[rank] = hki_point_begin_send(comm, vote->own, vote->bytes, (int)rank, round);
    }
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        hk_status sent = end_request(vote->sends[rank]), received = end_request(vote->receives[rank]);
        if (sent == HK_ERR_TIMEOUT || received == HK_ERR_TIMEOUT)
            status = HK_ERR_TIMEOUT;
    }
    return status;
}

/* Takes in what was heard. True when nobody brought anything new and nobody died: decided. */
static bool merge(agreement *vote, const unsigned char *sent)
{
    uint32_t size = vote->comm->size;
    bool same = true;
    for (uint32_t rank = 0; rank < size; rank++) {
        const unsigned char *heard = vote->heard + rank * vote->bytes;
        if (!vote->receives[rank])
            continue;
        if (heard[0]) { /* it has decided: its set is the set */
            memcpy(vote->own, heard, vote->bytes);
            return true;
        }
        same &= memcmp(heard + 1, sent + 1, size) == 0;
        for (uint32_t other = 0; other < size; other++)
            vote->own[1 + other] |= heard[1 + other];
    }
    note_dead(vote);
    return same && memcmp(vote->own + 1, sent + 1, size) == 0;
}

static void announce_decision(agreement *vote, int round)
{
    hk_comm *comm = vote->comm;
    vote->own[0] = 1;
    for (uint32_t rank = 0; rank < comm->size; rank++)
        vote->sends[rank] =
            alive(vote, rank) ? hki_point_begin_send(comm, vote->own, vote->bytes, (int)rank, round) : NULL;
    for (uint32_t rank = 0; rank < comm->size; rank++)
        end_request(vote->sends[rank]);
}

static hk_status agree(agreement *vote)
{
    unsigned char *sent = malloc(vote->bytes);
    if (!sent)
        return hki_error(HK_ERR_NO_MEMORY, "comm_shrink: no memory");
    hk_status status = HK_OK;
    for (int round = 0; status == HK_OK; round++) {
        note_dead(vote);
        memcpy(sent, vote->own, vote->bytes);
        status = exchange(vote, round);
        if (status == HK_OK && merge(vote, sent)) {
            announce_decision(vote, round + 1);
            break;
        }
    }
    free(sent);
    return status;
}

static hk_status open_vote(hk_comm *comm, agreement *vote)
{
    uint32_t *world = comm->world ? malloc(comm->size * sizeof *world) : NULL;
    if (world)
        memcpy(world, comm->world, comm->size * sizeof *world);
    vote->bytes = 1 + comm->size;
    vote->own = calloc(1, vote->bytes);
    vote->heard = calloc(comm->size, vote->bytes);
    vote->sends = calloc(comm->size, sizeof(hk_request *));
    vote->receives = calloc(comm->size, sizeof(hk_request *));
    if ((comm->world && !world) || !vote->own || !vote->heard || !vote->sends || !vote->receives) {
        free(world);
        return hki_error(HK_ERR_NO_MEMORY, "comm_shrink: no memory");
    }
    HK_TRY(hki_comm_new(comm->context, mix(mix(comm->id, 'v'), comm->shrinks), comm->rank, comm->size, world,
                        &vote->comm));
    vote->comm->quiet = true;
    vote->comm->timeout = comm->timeout;
    return HK_OK;
}

static hk_status make_survivors(hk_comm *comm, const agreement *vote, hk_comm **result)
{
    uint32_t count = 0, rank = 0, *world = malloc(comm->size * sizeof *world);
    if (!world)
        return hki_error(HK_ERR_NO_MEMORY, "comm_shrink: no memory");
    uint64_t id = mix(mix(comm->id, 'k'), comm->shrinks);
    for (uint32_t old = 0; old < comm->size; old++) {
        if (vote->own[1 + old])
            continue;
        if (old == comm->rank)
            rank = count;
        world[count++] = hki_comm_world(comm, old);
        id = mix(id, old);
    }
    return hki_comm_new(comm->context, id, rank, count, world, result);
}

hk_status hk_comm_shrink(hk_comm *comm, hk_comm **result)
{
    if (!result)
        return hki_error(HK_ERR_ARGUMENT, "comm_shrink: result is NULL");
    if (!comm || comm->magic != HKI_COMM_MAGIC)
        return hki_error(HK_ERR_COMM, "comm_shrink: not a live communicator");
    if (!hki_context_here(comm->context))
        return hki_error(HK_ERR_FORKED, "comm_shrink: the communicator belongs to the parent process");
    hki_context_enter(comm->context);
    agreement vote = {0};
    hk_status status = open_vote(comm, &vote);
    if (status == HK_OK)
        status = agree(&vote);
    comm->shrinks++;
    if (status == HK_OK && vote.own[1 + comm->rank])
        status = hki_error(HK_ERR_PEER_LOST, "comm_shrink: the others take this rank for dead");
    if (status == HK_OK)
        status = make_survivors(comm, &vote, result);
    hki_context_leave(comm->context);
    if (vote.comm)
        hk_comm_free(vote.comm);
    free(vote.own);
    free(vote.heard);
    free(vote.sends);
    free(vote.receives);
    return status;
}

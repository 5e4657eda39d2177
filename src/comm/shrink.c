/*
 * Shrinking: survivors of a failure agree on who they are. Each floods the set of ranks that it knows to be dead until
 * a round brings nothing new from anybody; whoever has decided says so in the next round, so that a rank that learned
 * of another death meanwhile adopts the decision. (Flooding consensus, Cachin, Guerraoui, Rodrigues: Introduction to
 * Reliable and Secure Distributed Programming, section 5.2, with early decision.)
 */
#include "comm/comm.h"
#include "comm/wires.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* A vote: has its sender decided, which wire identifiers are free for the survivors (hki_offer), who is dead (1). */
enum { DECIDED, FREE, DEAD = FREE + sizeof(uint32_t) };

typedef struct agreement {
    hk_comm *comm;      /* hidden, of all members */
    int first_tag;      /* of this agreement's rounds */
    size_t bytes;       /* of a vote */
    unsigned char *own; /* this rank's vote */
    unsigned char *heard;
    hk_request **sends, **receives;
    bool *asked; /* whose vote is awaited, then: was heard */
} agreement;

static void note_dead(agreement *vote)
{
    for (uint32_t rank = 0; rank < vote->comm->size; rank++) {
        if (hki_comm_channel(vote->comm, rank)->lost)
            vote->own[DEAD + rank] = 1;
    }
}

static bool alive(const agreement *vote, uint32_t rank)
{
    return rank != vote->comm->rank && !vote->own[DEAD + rank];
}

/* Sends this rank's vote to all that it believes alive, and hears theirs. HK_ERR_TIMEOUT, HK_ERR_NO_MEMORY … but not
 * HK_ERR_PEER_LOST. */
static hk_status exchange(agreement *vote, int round)
{
    hk_comm *comm = vote->comm;
    hk_status status = HK_OK;
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        vote->asked[rank] = alive(vote, rank);
        if (!vote->asked[rank])
            continue;
        unsigned char *heard = vote->heard + rank * vote->bytes;
        memset(heard, 0, vote->bytes);
        vote->receives[rank] = hki_point_begin_recv(comm, heard, vote->bytes, (int)rank, vote->first_tag + round);
        vote->sends[rank] = hki_point_begin_send(comm, vote->own, vote->bytes, (int)rank, vote->first_tag + round);
    }
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        if (!vote->asked[rank])
            continue;
        hk_status sent = hki_point_finish(vote->sends[rank], NULL);
        hk_status received = hki_point_finish(vote->receives[rank], NULL);
        vote->asked[rank] = received == HK_OK; /* else it died, and nothing was heard of it */
        if (sent != HK_OK && sent != HK_ERR_PEER_LOST)
            status = sent;
        if (received != HK_OK && received != HK_ERR_PEER_LOST)
            status = received;
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
        if (!vote->asked[rank])
            continue;
        if (heard[DECIDED]) { /* its set is the set */
            memcpy(vote->own, heard, vote->bytes);
            return true;
        }
        same &= memcmp(heard + FREE, sent + FREE, vote->bytes - FREE) == 0;
        for (size_t i = FREE; i < DEAD; i++)
            vote->own[i] &= heard[i];
        for (size_t i = DEAD; i < vote->bytes; i++)
            vote->own[i] |= heard[i];
    }
    note_dead(vote);
    return same && memcmp(vote->own + FREE, sent + FREE, vote->bytes - FREE) == 0;
}

static void announce_decision(agreement *vote, int round)
{
    hk_comm *comm = vote->comm;
    vote->own[DECIDED] = 1;
    for (uint32_t rank = 0; rank < comm->size; rank++)
        vote->sends[rank] = alive(vote, rank)
                                ? hki_point_begin_send(comm, vote->own, vote->bytes, (int)rank, vote->first_tag + round)
                                : NULL;
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        if (vote->sends[rank])
            hki_point_finish(vote->sends[rank], NULL);
    }
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

static hk_status copy_world(const hk_comm *comm, uint32_t **world)
{
    *world = NULL;
    if (!comm->world)
        return HK_OK;
    *world = malloc(comm->size * sizeof **world);
    if (!*world)
        return hki_error(HK_ERR_NO_MEMORY, "comm_shrink: no memory");
    memcpy(*world, comm->world, comm->size * sizeof **world);
    return HK_OK;
}

/* The members' council outlives an agreement, since others may have begun the next one while this rank is still in it.
 */
static hk_status find_council(hk_comm *comm)
{
    uint32_t *world;
    hki_comm_name name = {.id = hki_mix(comm->id, 'v'), .wire = comm->wire | HKI_WIRE_VOTE};
    if (comm->council)
        return HK_OK;
    HK_TRY(copy_world(comm, &world));
    HK_TRY(hki_comm_new(comm->context, name, comm->rank, comm->size, world, &comm->council));
    comm->council->quiet = true;
    return HK_OK;
}

static hk_status open_vote(hk_comm *comm, agreement *vote, const hki_offer *offer)
{
    enum { MOST_ROUNDS = 1 << 16, AGREEMENTS = 1 << 15 };
    HK_TRY(find_council(comm));
    vote->comm = comm->council;
    vote->comm->poisoned = HK_OK; /* an agreement that timed out does not keep the next one from being tried */
    vote->comm->timeout = comm->timeout;
    vote->first_tag = (int)(comm->shrinks % AGREEMENTS) * MOST_ROUNDS;
    vote->bytes = DEAD + comm->size;
    vote->own = calloc(1, vote->bytes);
    vote->heard = calloc(comm->size, vote->bytes);
    vote->sends = calloc(comm->size, sizeof(hk_request *));
    vote->receives = calloc(comm->size, sizeof(hk_request *));
    vote->asked = calloc(comm->size, sizeof *vote->asked);
    if (!vote->own || !vote->heard || !vote->sends || !vote->receives || !vote->asked)
        return hki_error(HK_ERR_NO_MEMORY, "comm_shrink: no memory");
    memcpy(vote->own + FREE, &offer->free, sizeof offer->free);
    return HK_OK;
}

static void close_vote(agreement *vote)
{
    free(vote->own);
    free(vote->heard);
    free(vote->sends);
    free(vote->receives);
    free(vote->asked);
}

static hk_status make_survivors(hk_comm *comm, const agreement *vote, const hki_offer *offer, hk_comm **result)
{
    uint32_t count = 0, rank = 0, free_for_all, *world = malloc(comm->size * sizeof *world);
    hki_comm_name name = {.id = offer->id};
    if (!world)
        return hki_error(HK_ERR_NO_MEMORY, "comm_shrink: no memory");
    for (uint32_t old = 0; old < comm->size; old++) {
        if (vote->own[DEAD + old])
            continue;
        if (old == comm->rank)
            rank = count;
        world[count++] = hki_comm_world(comm, old);
    }
    memcpy(&free_for_all, vote->own + FREE, sizeof free_for_all);
    hk_status status = hki_wire_choose(offer->id, free_for_all, &name.wire);
    if (status != HK_OK) {
        free(world);
        return status;
    }
    return hki_comm_new(comm->context, name, rank, count, world, result);
}

hk_status hk_comm_shrink(hk_comm *comm, hk_comm **result)
{
    if (!result)
        return hki_error(HK_ERR_ARGUMENT, "comm_shrink: result is NULL");
    if (!comm || comm->magic != HKI_COMM_MAGIC)
        return hki_error(HK_ERR_COMM, "comm_shrink: not a live communicator");
    if (!hki_context_here(comm->context))
        return hki_error(HK_ERR_FORKED, "comm_shrink: the communicator belongs to the parent process");
    hki_offer offer;
    agreement vote = {0};
    hki_context_enter(comm->context);
    hki_offer_open(comm->context, &offer, hki_id_of_shrink(comm->id, comm->shrinks));
    hk_status status = open_vote(comm, &vote, &offer);
    if (status == HK_OK)
        status = agree(&vote);
    comm->shrinks++;
    if (status == HK_OK && vote.own[DEAD + comm->rank])
        status = hki_error(HK_ERR_PEER_LOST, "comm_shrink: the others take this rank for dead");
    hki_offer_close(&offer);
    if (status == HK_OK)
        status = make_survivors(comm, &vote, &offer, result);
    hki_context_leave(comm->context);
    close_vote(&vote);
    return status;
}

#include "collective_call.h"

#include "../support/ranks.h"

#include <inttypes.h>

enum { GUARD = 64, PATTERN = 0xa5 };

/* --- what a call is, for messages ------------------------------------------------------------------------------------
 */

static const char *const form_names[] = {"separate", "HK_IN_PLACE", "aligned", "mixed forms"};

static void describe(const call_case *is, char *text, size_t bytes)
{
    const hki_algorithm *algorithm = is->algorithm;
    snprintf(text, bytes,
             "%s:%s, %d ranks, %" PRIu64 " %s of %zu bytes, %s, root %d, %u segments, %s%s%s, seed %" PRIu64,
             hki_collective_name(algorithm->collective), algorithm->name, is->values.ranks, is->count,
             hk_type_name(is->values.type), hk_type_size(is->values.type),
             is->values.reduces ? values_op_name(is->values.op) : "no operator", is->root, is->segments,
             form_names[is->form], is->displaced ? ", displaced" : "", is->blocking ? "" : ", not blocking",
             is->values.seed);
}

/* A rank that another rank's failure pulls down says nothing of its own. */
static void expect_status(const call_running *call, hk_status status, const char *doing)
{
    char text[400], what[500];
    if (status == HK_OK)
        return;
    if (status == HK_ERR_PEER_LOST)
        _exit(RANKS_FAILED);
    describe(call->is, text, sizeof text);
    snprintf(what, sizeof what, "%s succeeds (it is %s): %s", doing, hk_status_name(status), text);
    ranks_fail(__FILE__, __LINE__, what);
}

/* --- layout ----------------------------------------------------------------------------------------------------------
 */

bool call_is_rooted(hki_collective collective)
{
    switch (collective) {
    case HKI_COLL_BROADCAST:
    case HKI_COLL_REDUCE:
    case HKI_COLL_GATHER:
    case HKI_COLL_GATHERV:
    case HKI_COLL_SCATTER:
    case HKI_COLL_SCATTERV:
        return true;
    default:
        return false;
    }
}

bool call_varies(hki_collective collective)
{
    switch (collective) {
    case HKI_COLL_REDUCE_SCATTERV:
    case HKI_COLL_ALLGATHERV:
    case HKI_COLL_GATHERV:
    case HKI_COLL_SCATTERV:
    case HKI_COLL_ALLTOALLV:
        return true;
    default:
        return false;
    }
}

/* Elements of block `block` in the side `which` of a rank. */
static uint64_t block_length(const call_case *is, int rank, int which, int block)
{
    if (!call_varies(is->algorithm->collective))
        return is->count;
    if (is->algorithm->collective == HKI_COLL_ALLTOALLV)
        return which == 0 ? is->counts[rank][block] : is->counts[block][rank];
    return is->counts[0][block];
}

/* How many blocks a side has: 0 where it is not significant, 1 for the vector or the rank's own share, P. */
static int block_count(const call_case *is, int rank, int which)
{
    int all = is->values.ranks, at_root = rank == is->root;
    switch (is->algorithm->collective) {
    case HKI_COLL_BARRIER:
        return 0;
    case HKI_COLL_BROADCAST: /* one buffer, which is the receive side */
        return which;
    case HKI_COLL_REDUCE:
        return which == 0 || at_root;
    case HKI_COLL_REDUCE_SCATTER:
    case HKI_COLL_REDUCE_SCATTERV:
        return which == 0 ? all : 1;
    case HKI_COLL_ALLGATHER:
    case HKI_COLL_ALLGATHERV:
        return which == 0 ? 1 : all;
    case HKI_COLL_GATHER:
    case HKI_COLL_GATHERV:
        return which == 0 ? 1 : at_root ? all : 0;
    case HKI_COLL_SCATTER:
    case HKI_COLL_SCATTERV:
        return which == 1 ? 1 : at_root ? all : 0;
    case HKI_COLL_ALLTOALL:
    case HKI_COLL_ALLTOALLV:
        return all;
    default:
        return 1;
    }
}

/* Whether the blocks of a side may lie anywhere: reduce-scatter's are always packed. */
static bool may_be_displaced(const call_case *is, int which)
{
    switch (is->algorithm->collective) {
    case HKI_COLL_ALLGATHERV:
    case HKI_COLL_GATHERV:
        return which == 1;
    case HKI_COLL_SCATTERV:
        return which == 0;
    case HKI_COLL_ALLTOALLV:
        return true;
    default:
        return false;
    }
}

/* Blocks in an order and with gaps that are this rank's own. */
static void displace(const call_case *is, int rank, int which, call_side *side)
{
    int order[CALL_BLOCKS];
    uint64_t at = 0;
    for (int i = 0; i < side->blocks; i++) {
        int swapped = (int)(values_noise(is->values.seed, 1000 + (uint64_t)rank * 2 + (uint64_t)which, (uint64_t)i) %
                            (uint64_t)(i + 1));
        order[i] = order[swapped];
        order[swapped] = i;
    }
    for (int i = 0; i < side->blocks; i++) {
        at += values_noise(is->values.seed, 2000 + (uint64_t)rank * 2 + (uint64_t)which, (uint64_t)i) % 20;
        side->first[order[i]] = at;
        at += side->length[order[i]];
    }
    side->span = at;
}

static void lay_out(const call_case *is, int rank, int which, call_side *side)
{
    side->blocks = block_count(is, rank, which);
    side->span = 0;
    for (int block = 0; block < side->blocks; block++) {
        side->length[block] = block_length(is, rank, which, side->blocks == 1 ? rank : block);
        side->first[block] = side->span;
        side->span += side->length[block];
    }
    if (is->displaced && side->blocks > 1 && may_be_displaced(is, which))
        displace(is, rank, which, side);
}

/* The form that this rank uses: in place only where it is allowed. */
static call_form own_form(const call_case *is, int rank)
{
    hki_collective collective = is->algorithm->collective;
    call_form form = is->form;
    if (form == CALL_MIXED)
        form = (call_form)(values_noise(is->values.seed, 3000, (uint64_t)rank) % CALL_MIXED);
    if (collective == HKI_COLL_BARRIER || collective == HKI_COLL_BROADCAST)
        return CALL_SEPARATE;
    if (call_is_rooted(collective) && rank != is->root)
        return CALL_SEPARATE;
    if (collective == HKI_COLL_ALLTOALLV && form == CALL_ALIGNED)
        return CALL_IN_PLACE;
    return form;
}

/* --- buffers ---------------------------------------------------------------------------------------------------------
 */

static void *take(call_arena *arena, size_t bytes)
{
    EXPECT(arena->used + bytes <= arena->bytes);
    void *memory = arena->memory + arena->used;
    arena->used += bytes;
    return memory;
}

/* Memory for a side, at an address that is aligned to nothing. */
static void make_region(call_running *call, int which, uint64_t elements, call_arena *arena)
{
    call_region *region = &call->region[which];
    size_t bytes = (size_t)elements * hk_type_size(call->is->values.type);
    size_t shift = values_noise(call->is->values.seed, 4000 + (uint64_t)which, (uint64_t)call->rank) % 64;
    if (shift % 4 == 0)
        shift = shift / 4 % 2 * 8; /* often enough aligned after all */
    region->bytes = 2 * GUARD + 64 + bytes;
    region->memory = take(arena, region->bytes);
    region->begin = region->memory + GUARD + shift;
    memset(region->memory, PATTERN, region->bytes);
}

/* Which side the memory of an in-place call is laid out as: the one with all the blocks. */
static int main_side(const call_running *call)
{
    return call->side[0].blocks > call->side[1].blocks ? 0 : 1;
}

static bool scatters_reduction(const call_running *call)
{
    hki_collective collective = call->is->algorithm->collective;
    return collective == HKI_COLL_REDUCE_SCATTER || collective == HKI_COLL_REDUCE_SCATTERV;
}

/* Where block 0 of a side begins. In place, the lesser side is a block of the other; reduce-scatter's result with
 * HK_IN_PLACE is packed at the start. */
static unsigned char *side_begin(const call_running *call, int which)
{
    if (call->form == CALL_SEPARATE)
        return call->region[which].begin;
    int main = main_side(call);
    bool whole = which == main || call->side[main].blocks == call->side[which].blocks ||
                 (scatters_reduction(call) && call->form == CALL_IN_PLACE);
    uint64_t skipped = whole ? 0 : call->side[main].first[call->rank];
    return call->region[0].begin + skipped * hk_type_size(call->is->values.type);
}

/* The same place in the picture of what is expected. */
static unsigned char *in_expected(const call_running *call, int which, unsigned char *place)
{
    const call_region *region = &call->region[call->form == CALL_SEPARATE ? which : 0];
    return region->expected + (place - region->memory);
}

static void make_buffers(call_running *call, call_arena *arena)
{
    if (call->form == CALL_SEPARATE) {
        for (int which = 0; which < 2; which++)
            make_region(call, which, call->side[which].span, arena);
    } else {
        uint64_t larger = call->side[0].span > call->side[1].span ? call->side[0].span : call->side[1].span;
        make_region(call, 0, larger, arena);
    }
}

/* --- contents --------------------------------------------------------------------------------------------------------
 */

static void put_inputs(call_running *call)
{
    const call_case *is = call->is;
    size_t size = hk_type_size(is->values.type);
    hki_collective collective = is->algorithm->collective;
    int which = collective == HKI_COLL_BROADCAST && call->rank == is->root ? 1 : 0;
    unsigned char *begin = side_begin(call, which);
    for (int block = 0; block < call->side[which].blocks; block++)
        values_input(&is->values, call->rank, block, call->side[which].length[block],
                     begin + call->side[which].first[block] * size);
}

/* What one block of the receive side must hold. False: it is left as it is. */
static bool put_result(const call_running *call, int block, uint64_t count, void *out)
{
    const values_of *values = &call->is->values;
    int rank = call->rank, last = values->ranks - 1;
    switch (call->is->algorithm->collective) {
    case HKI_COLL_BROADCAST:
    case HKI_COLL_SCATTER:
    case HKI_COLL_SCATTERV:
        values_input(values, call->is->root, call->is->algorithm->collective == HKI_COLL_BROADCAST ? 0 : rank, count,
                     out);
        return true;
    case HKI_COLL_ALLGATHER:
    case HKI_COLL_ALLGATHERV:
    case HKI_COLL_GATHER:
    case HKI_COLL_GATHERV:
        values_input(values, block, 0, count, out);
        return true;
    case HKI_COLL_ALLTOALL:
    case HKI_COLL_ALLTOALLV:
        values_input(values, block, rank, count, out);
        return true;
    case HKI_COLL_REDUCE:
    case HKI_COLL_ALLREDUCE:
        values_reduced(values, 0, last, 0, count, out);
        return true;
    case HKI_COLL_REDUCE_SCATTER:
    case HKI_COLL_REDUCE_SCATTERV:
        values_reduced(values, 0, last, rank, count, out);
        return true;
    case HKI_COLL_SCAN:
        values_reduced(values, 0, rank, 0, count, out);
        return true;
    case HKI_COLL_EXSCAN:
        if (rank > 0)
            values_reduced(values, 0, rank - 1, 0, count, out);
        return rank > 0;
    default:
        return false;
    }
}

/* Memory as it is now, with the results laid over it. */
static void picture_expected(call_running *call, call_arena *arena)
{
    const call_side *side = &call->side[1];
    size_t size = hk_type_size(call->is->values.type);
    for (int which = 0; which < 2; which++) {
        call_region *region = &call->region[which];
        if (!region->memory)
            continue;
        region->expected = take(arena, region->bytes);
        memcpy(region->expected, region->memory, region->bytes);
    }
    unsigned char *begin = in_expected(call, 1, side_begin(call, 1));
    for (int block = 0; block < side->blocks; block++)
        put_result(call, block, side->length[block], begin + side->first[block] * size);
}

/* --- the call itself -------------------------------------------------------------------------------------------------
 */

typedef struct passed {
    void *send, *recv;
    const uint64_t *counts[2], *displacements[2];
    uint64_t count;
} passed;

/* Arrays of counts and displacements. */
static void pass_counts(call_running *call, passed *as)
{
    const call_case *is = call->is;
    as->count = is->count;
    if (!call_varies(is->algorithm->collective))
        return;
    as->count = is->algorithm->collective == HKI_COLL_ALLTOALLV ? 0 : is->counts[0][call->rank];
    for (int which = 0; which < 2; which++) {
        const call_side *side = &call->side[which];
        bool packed = which == 0 && is->algorithm->collective == HKI_COLL_REDUCE_SCATTERV;
        if (!packed && !may_be_displaced(is, which))
            continue;
        if (side->blocks == 0) { /* not significant here: nothing, or anything */
            bool garbage = values_noise(is->values.seed, 6000, (uint64_t)call->rank) & 1;
            memset(call->counts[which], 0x77, sizeof call->counts[which]);
            as->counts[which] = as->displacements[which] = garbage ? call->counts[which] : NULL;
            continue;
        }
        for (int block = 0; block < side->blocks; block++) {
            call->counts[which][block] = side->length[block];
            call->displacements[which][block] = side->first[block];
        }
        as->counts[which] = call->counts[which];
        as->displacements[which] = is->displaced && !packed ? call->displacements[which] : NULL;
    }
}

static void pass(call_running *call, passed *as)
{
    hki_collective collective = call->is->algorithm->collective;
    memset(as, 0, sizeof *as);
    as->send = side_begin(call, 0);
    as->recv = side_begin(call, 1);
    pass_counts(call, as);
    if (call->form == CALL_IN_PLACE) {
        bool scatter = collective == HKI_COLL_SCATTER || collective == HKI_COLL_SCATTERV;
        *(scatter ? &as->recv : &as->send) = HK_IN_PLACE;
        if (collective == HKI_COLL_ALLTOALLV) /* the receive side's serve both */
            as->counts[0] = as->displacements[0] = NULL;
    }
    /* Where a buffer is not significant it may be NULL, or anything. */
    bool null = values_noise(call->is->values.seed, 5000, (uint64_t)call->rank) & 1;
    if (null && call->side[0].span == 0 && call->form == CALL_SEPARATE)
        as->send = NULL;
    if (null && call->side[1].span == 0 && call->form == CALL_SEPARATE)
        as->recv = NULL;
}

#define BOTH(name, ...)                                                                                                \
    (call->is->blocking ? hk_##name(__VA_ARGS__, comm) : hk_i##name(__VA_ARGS__, comm, &call->request))

static hk_status start_reduction(call_running *call, const passed *as, hk_comm *comm)
{
    hk_type type = call->is->values.type;
    switch (call->is->algorithm->collective) {
    case HKI_COLL_REDUCE:
        return BOTH(reduce, as->send, as->recv, as->count, type, call->op, call->is->root);
    case HKI_COLL_ALLREDUCE:
        return BOTH(allreduce, as->send, as->recv, as->count, type, call->op);
    case HKI_COLL_REDUCE_SCATTER:
        return BOTH(reduce_scatter, as->send, as->recv, as->count, type, call->op);
    case HKI_COLL_REDUCE_SCATTERV:
        return BOTH(reduce_scatterv, as->send, as->recv, as->counts[0], type, call->op);
    case HKI_COLL_SCAN:
        return BOTH(scan, as->send, as->recv, as->count, type, call->op);
    default:
        return BOTH(exscan, as->send, as->recv, as->count, type, call->op);
    }
}

static hk_status start_movement(call_running *call, const passed *as, hk_comm *comm)
{
    hk_type type = call->is->values.type;
    int root = call->is->root;
    switch (call->is->algorithm->collective) {
    case HKI_COLL_BARRIER:
        return call->is->blocking ? hk_barrier(comm) : hk_ibarrier(comm, &call->request);
    case HKI_COLL_BROADCAST:
        return BOTH(broadcast, as->recv, as->count, type, root);
    case HKI_COLL_ALLGATHER:
        return BOTH(allgather, as->send, as->recv, as->count, type);
    case HKI_COLL_ALLGATHERV:
        return BOTH(allgatherv, as->send, as->count, as->recv, as->counts[1], as->displacements[1], type);
    case HKI_COLL_GATHER:
        return BOTH(gather, as->send, as->recv, as->count, type, root);
    case HKI_COLL_GATHERV:
        return BOTH(gatherv, as->send, as->count, as->recv, as->counts[1], as->displacements[1], type, root);
    case HKI_COLL_SCATTER:
        return BOTH(scatter, as->send, as->recv, as->count, type, root);
    case HKI_COLL_SCATTERV:
        return BOTH(scatterv, as->send, as->counts[0], as->displacements[0], as->recv, as->count, type, root);
    case HKI_COLL_ALLTOALL:
        return BOTH(alltoall, as->send, as->recv, as->count, type);
    default:
        return BOTH(alltoallv, as->send, as->counts[0], as->displacements[0], as->recv, as->counts[1],
                    as->displacements[1], type);
    }
}

void call_start(call_running *call, const call_case *is, hk_comm *comm, call_arena *arena)
{
    passed as;
    memset(call, 0, sizeof *call);
    call->is = is;
    call->rank = hk_comm_rank(comm);
    call->form = own_form(is, call->rank);
    for (int which = 0; which < 2; which++)
        lay_out(is, call->rank, which, &call->side[which]);
    if (call->form != CALL_SEPARATE && is->algorithm->collective == HKI_COLL_ALLTOALLV)
        call->side[0] = call->side[1];
    make_buffers(call, arena);
    put_inputs(call);
    picture_expected(call, arena);
    pass(call, &as);
    if (is->values.reduces)
        expect_status(call, values_op_make(&is->values, call->rank, &call->op), "making the operator");
    hk_status status = is->values.reduces ? start_reduction(call, &as, comm) : start_movement(call, &as, comm);
    expect_status(call, status, is->blocking ? "the call" : "starting the call");
    /* The arrays were the caller's for the time of the call only. */
    memset(call->counts, 0xff, sizeof call->counts);
    memset(call->displacements, 0xff, sizeof call->displacements);
}

void call_wait(call_running *call)
{
    if (!call->is->blocking)
        expect_status(call, hk_wait(&call->request), "the call");
}

/* --- comparing -------------------------------------------------------------------------------------------------------
 */

_Noreturn static void complain(const call_running *call, int which, size_t at)
{
    const call_region *region = &call->region[which];
    char text[400], what[600];
    long offset = (long)at - (long)(region->begin - region->memory);
    describe(call->is, text, sizeof text);
    snprintf(what, sizeof what, "%s buffer (here %s): at byte %ld is 0x%02x, to be 0x%02x: %s",
             call->form != CALL_SEPARATE ? "the"
             : which == 0                ? "send"
                                         : "receive",
             form_names[call->form], offset, region->memory[at], region->expected[at], text);
    ranks_fail(__FILE__, __LINE__, what);
}

void call_finish(call_running *call)
{
    for (int which = 0; which < 2; which++) {
        const call_region *region = &call->region[which];
        if (!region->memory || memcmp(region->memory, region->expected, region->bytes) == 0)
            continue;
        size_t at = 0;
        while (region->memory[at] == region->expected[at])
            at++;
        complain(call, which, at);
    }
    if (call->is->values.reduces)
        values_op_free(call->op);
}

void call_run(const call_case *is, hk_comm *comm, call_arena *arena)
{
    call_running call;
    arena->used = 0;
    call_start(&call, is, comm, arena);
    call_wait(&call);
    call_finish(&call);
}

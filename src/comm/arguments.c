/* What can be wrong with a collective call, and what it means for buffers and sizes. */
#include "comm/comm.h"

#include "base/error.h"
#include "comm/device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct range {
    uintptr_t first;
    uint64_t bytes;
} range;

static bool overlap(range a, range b)
{
    return a.bytes > 0 && b.bytes > 0 && a.first < b.first + b.bytes && b.first < a.first + a.bytes;
}

static bool rooted(hki_collective collective)
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

/* How much of a side is used: nothing, one block, or a block of every rank. */
typedef enum extent { NOTHING, ONE, EVERY } extent;

static extent side(const hk_comm *comm, const hki_arguments *arguments, int which)
{
    bool at_root = (int)comm->rank == arguments->is.root;
    switch (arguments->is.collective) {
    case HKI_COLL_BARRIER:
        return NOTHING;
    case HKI_COLL_BROADCAST:
        return which == 0 ? NOTHING : ONE;
    case HKI_COLL_REDUCE:
        return which == 0 || at_root ? ONE : NOTHING;
    case HKI_COLL_REDUCE_SCATTER:
    case HKI_COLL_REDUCE_SCATTERV:
        return which == 0 ? EVERY : ONE;
    case HKI_COLL_ALLGATHER:
    case HKI_COLL_ALLGATHERV:
        return which == 0 ? ONE : EVERY;
    case HKI_COLL_GATHER:
    case HKI_COLL_GATHERV:
        return which == 0 ? ONE : at_root ? EVERY : NOTHING;
    case HKI_COLL_SCATTER:
    case HKI_COLL_SCATTERV:
        return which == 1 ? ONE : at_root ? EVERY : NOTHING;
    case HKI_COLL_ALLTOALL:
    case HKI_COLL_ALLTOALLV:
        return EVERY;
    default:
        return ONE;
    }
}

static const char *side_name(const hki_arguments *arguments, int which)
{
    if (arguments->is.collective == HKI_COLL_BROADCAST)
        return "buffer";
    return which == 0 ? "send" : "recv";
}

hk_status hki_arguments_extent(const hk_comm *comm, const hki_arguments *arguments, int which, uint32_t element,
                               uint64_t *bytes)
{
    const uint64_t *counts = arguments->counts[which], *displacements = arguments->displacements[which];
    const char *name = hki_collective_name(arguments->is.collective);
    uint64_t elements = 0;
    extent used = side(comm, arguments, which);
    if (used == ONE)
        elements = arguments->is.count;
    else if (used == EVERY && !counts) {
        if (__builtin_mul_overflow(arguments->is.count, (uint64_t)comm->size, &elements))
            return hki_error(HK_ERR_COUNT, "%s: count %" PRIu64 " times %u ranks overflows", name, arguments->is.count,
                             comm->size);
    } else if (used == EVERY) {
        uint64_t packed = 0;
        for (uint32_t rank = 0; rank < comm->size; rank++) {
            uint64_t end, first = displacements ? displacements[rank] : packed;
            if (__builtin_add_overflow(packed, counts[rank], &packed) ||
                __builtin_add_overflow(first, counts[rank], &end))
                return hki_error(HK_ERR_COUNT, "%s: %s counts overflow at rank %u", name, side_name(arguments, which),
                                 rank);
            if (counts[rank] && end > elements)
                elements = end;
        }
    }
    if (elements > (UINT64_C(1) << 62) / element)
        return hki_error(HK_ERR_COUNT, "%s: %" PRIu64 " elements of %u bytes are more than 2^62 bytes", name, elements,
                         element);
    *bytes = elements * element;
    return HK_OK;
}

/* Offset of this rank's own block in the side that has a block of every rank, in bytes. */
static uint64_t own_offset(const hk_comm *comm, const hki_arguments *arguments, int which, uint32_t element)
{
    const uint64_t *counts = arguments->counts[which];
    if (arguments->displacements[which])
        return arguments->displacements[which][comm->rank] * element;
    if (!counts)
        return comm->rank * arguments->is.count * element;
    uint64_t offset = 0;
    for (uint32_t rank = 0; rank < comm->rank; rank++)
        offset += counts[rank];
    return offset * element;
}

static hk_status refuse_in_place(const hki_arguments *arguments, const char *why)
{
    return hki_error(HK_ERR_BUFFER, "%s: HK_IN_PLACE %s", hki_collective_name(arguments->is.collective), why);
}

/* HK_IN_PLACE given: replaces it by where the data lie. */
static hk_status place_in(const hk_comm *comm, const hki_arguments *arguments, uint32_t element, uint32_t *in_place,
                          void *base[2])
{
    bool at_root = (int)comm->rank == arguments->is.root;
    *in_place = HKI_ALIGNED;
    if (arguments->send == HK_IN_PLACE && arguments->recv == HK_IN_PLACE)
        return refuse_in_place(arguments, "for both buffers leaves none");
    switch (arguments->is.collective) {
    case HKI_COLL_ALLREDUCE:
    case HKI_COLL_SCAN:
    case HKI_COLL_EXSCAN:
    case HKI_COLL_ALLTOALL:
    case HKI_COLL_ALLTOALLV:
        if (arguments->recv == HK_IN_PLACE)
            return refuse_in_place(arguments, "stands for send, not recv");
        base[0] = arguments->recv;
        return HK_OK;
    case HKI_COLL_REDUCE:
        if (!at_root || arguments->recv == HK_IN_PLACE)
            return refuse_in_place(arguments, "stands for send at the root only");
        base[0] = arguments->recv;
        return HK_OK;
    case HKI_COLL_REDUCE_SCATTER:
    case HKI_COLL_REDUCE_SCATTERV:
        if (arguments->recv == HK_IN_PLACE)
            return refuse_in_place(arguments, "stands for send, not recv");
        base[0] = arguments->recv;
        *in_place = HKI_PACKED_AT_START;
        return HK_OK;
    case HKI_COLL_ALLGATHER:
    case HKI_COLL_ALLGATHERV:
        if (arguments->recv == HK_IN_PLACE)
            return refuse_in_place(arguments, "stands for send, not recv");
        base[0] = (char *)arguments->recv + own_offset(comm, arguments, 1, element);
        return HK_OK;
    case HKI_COLL_GATHER:
    case HKI_COLL_GATHERV:
        if (!at_root || arguments->recv == HK_IN_PLACE)
            return refuse_in_place(arguments, "stands for send at the root only");
        base[0] = (char *)arguments->recv + own_offset(comm, arguments, 1, element);
        return HK_OK;
    case HKI_COLL_SCATTER:
    case HKI_COLL_SCATTERV:
        if (!at_root || arguments->send == HK_IN_PLACE)
            return refuse_in_place(arguments, "stands for recv at the root only");
        base[1] = (char *)(uintptr_t)arguments->send + own_offset(comm, arguments, 0, element);
        return HK_OK;
    default:
        return refuse_in_place(arguments, "is not possible");
    }
}

/* The two buffers overlap: allowed where they coincide block by block. */
static bool aligned(const hk_comm *comm, const hki_arguments *arguments, uint32_t element)
{
    uintptr_t send = (uintptr_t)arguments->send, recv = (uintptr_t)arguments->recv;
    switch (arguments->is.collective) {
    case HKI_COLL_ALLREDUCE:
    case HKI_COLL_REDUCE:
    case HKI_COLL_SCAN:
    case HKI_COLL_EXSCAN:
    case HKI_COLL_ALLTOALL:
        return send == recv;
    case HKI_COLL_ALLGATHER:
    case HKI_COLL_ALLGATHERV:
    case HKI_COLL_GATHER:
    case HKI_COLL_GATHERV:
        return send == recv + own_offset(comm, arguments, 1, element);
    case HKI_COLL_REDUCE_SCATTER:
    case HKI_COLL_REDUCE_SCATTERV:
    case HKI_COLL_SCATTER:
    case HKI_COLL_SCATTERV:
        return recv == send + own_offset(comm, arguments, 0, element);
    default:
        return false;
    }
}

static hk_status check_memory(const hki_arguments *arguments, const void *memory, int which, uint64_t bytes)
{
    const char *name = hki_collective_name(arguments->is.collective), *argument = side_name(arguments, which);
    if (bytes == 0)
        return HK_OK;
    if (!memory)
        return hki_error(HK_ERR_BUFFER, "%s: %s is NULL but %" PRIu64 " bytes are needed", name, argument, bytes);
    if ((uintptr_t)memory > UINTPTR_MAX - bytes)
        return hki_error(HK_ERR_BUFFER, "%s: %s reaches beyond the end of memory", name, argument);
    if (hki_is_device_memory(memory))
        return hki_error(HK_ERR_BUFFER, "%s: %s is in device memory; Hocket moves host memory only", name, argument);
    return HK_OK;
}

hk_status hki_arguments_buffers(const hk_comm *comm, const hki_arguments *arguments, uint32_t element,
                                uint32_t *in_place, void *base[2])
{
    base[0] = (void *)(uintptr_t)arguments->send;
    base[1] = arguments->recv;
    *in_place = HKI_SEPARATE;
    uint64_t bytes[2];
    HK_TRY(hki_arguments_extent(comm, arguments, 0, element, &bytes[0]));
    HK_TRY(hki_arguments_extent(comm, arguments, 1, element, &bytes[1]));
    bool placed[2] = {bytes[0] && base[0] == HK_IN_PLACE, bytes[1] && base[1] == HK_IN_PLACE};
    if (placed[0] || placed[1]) {
        int other = placed[0] ? 1 : 0;
        HK_TRY(place_in(comm, arguments, element, in_place, base));
        uint64_t needed = bytes[other] > bytes[1 - other] ? bytes[other] : bytes[1 - other];
        return check_memory(arguments, other ? arguments->recv : arguments->send, other, needed);
    }
    for (int which = 0; which < 2; which++)
        HK_TRY(check_memory(arguments, base[which], which, bytes[which]));
    range send = {(uintptr_t)base[0], bytes[0]}, recv = {(uintptr_t)base[1], bytes[1]};
    if (!overlap(send, recv))
        return HK_OK;
    if (!aligned(comm, arguments, element))
        return hki_error(HK_ERR_BUFFER, "%s: send and recv overlap without being the same blocks",
                         hki_collective_name(arguments->is.collective));
    *in_place = HKI_ALIGNED;
    return HK_OK;
}

static hk_status check_type(const hki_arguments *arguments, hki_reducer *reducer)
{
    const char *name = hki_collective_name(arguments->is.collective);
    if (arguments->is.collective == HKI_COLL_BARRIER) {
        reducer->element_bytes = 1;
        return HK_OK;
    }
    if (!hki_type_valid(arguments->is.type))
        return hki_error(HK_ERR_TYPE, "%s: type %" PRIu32 " is unknown", name, arguments->is.type);
    bool prefix = arguments->is.collective == HKI_COLL_SCAN || arguments->is.collective == HKI_COLL_EXSCAN;
    if (prefix && arguments->is.op == HK_AVG)
        return hki_error(HK_ERR_OPERATOR, "%s: operator avg does not fit: a prefix has no one number of ranks", name);
    if (hki_collective_reduces(arguments->is.collective)) {
        hk_status status = hki_reducer_find(arguments->is.type, arguments->is.op, reducer);
        return status == HK_OK ? HK_OK : hki_error(status, "%s: %s", name, hk_last_error());
    }
    reducer->element_bytes = (uint32_t)hk_type_size(arguments->is.type);
    return HK_OK;
}

/* Counts that are arrays: present where they must be, and agreeing with what this rank gives and gets. */
static hk_status check_counts(const hk_comm *comm, const hki_arguments *arguments)
{
    const char *name = hki_collective_name(arguments->is.collective);
    bool varied = arguments->is.collective == HKI_COLL_REDUCE_SCATTERV ||
                  arguments->is.collective == HKI_COLL_ALLGATHERV || arguments->is.collective == HKI_COLL_GATHERV ||
                  arguments->is.collective == HKI_COLL_SCATTERV || arguments->is.collective == HKI_COLL_ALLTOALLV;
    bool in_place = arguments->send == HK_IN_PLACE || arguments->recv == HK_IN_PLACE;
    for (int which = 0; which < 2 && varied; which++) {
        if (side(comm, arguments, which) != EVERY)
            continue;
        const uint64_t *counts = arguments->counts[which];
        if (!counts && !(in_place && which == 0))
            return hki_error(HK_ERR_COUNT, "%s: %s counts are NULL", name, side_name(arguments, which));
        bool own_given = arguments->is.collective != HKI_COLL_ALLTOALLV &&
                         arguments->is.collective != HKI_COLL_REDUCE_SCATTERV && !in_place;
        if (counts && own_given && counts[comm->rank] != arguments->is.count)
            return hki_error(HK_ERR_COUNT, "%s: count is %" PRIu64 " but counts[%u] is %" PRIu64, name,
                             arguments->is.count, comm->rank, counts[comm->rank]);
    }
    if (arguments->is.collective == HKI_COLL_ALLTOALLV && !in_place &&
        arguments->counts[0][comm->rank] != arguments->counts[1][comm->rank])
        return hki_error(HK_ERR_COUNT, "%s: to itself, send_counts[%u] is %" PRIu64 " but recv_counts[%u] is %" PRIu64,
                         name, comm->rank, arguments->counts[0][comm->rank], comm->rank,
                         arguments->counts[1][comm->rank]);
    return HK_OK;
}

typedef struct block {
    uint64_t first, end;
    uint32_t rank;
} block;

static int by_first(const void *a, const void *b)
{
    const block *left = a, *right = b;
    return left->first < right->first ? -1 : left->first > right->first;
}

/* Two ranks' blocks of the receive buffer in the same place would leave there whichever comes last. Blocks in order of
 * rank, the common case, need no sorting. */
static hk_status check_blocks(const hk_comm *comm, const hki_arguments *arguments)
{
    const uint64_t *counts = arguments->counts[1], *displacements = arguments->displacements[1];
    if (side(comm, arguments, 1) != EVERY || !counts || !displacements)
        return HK_OK;
    uint64_t end = 0;
    bool ascending = true;
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        ascending &= counts[rank] == 0 || displacements[rank] >= end;
        end = counts[rank] ? displacements[rank] + counts[rank] : end;
    }
    if (ascending)
        return HK_OK;
    const char *name = hki_collective_name(arguments->is.collective);
    uint32_t used = 0;
    block *blocks = malloc(comm->size * sizeof *blocks);
    if (!blocks)
        return hki_error(HK_ERR_NO_MEMORY, "%s: no memory to compare the blocks of %u ranks", name, comm->size);
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        if (counts[rank])
            blocks[used++] = (block){displacements[rank], displacements[rank] + counts[rank], rank};
    }
    qsort(blocks, used, sizeof *blocks, by_first);
    hk_status status = HK_OK;
    for (uint32_t i = 1; i < used && status == HK_OK; i++) {
        if (blocks[i].first < blocks[i - 1].end)
            status = hki_error(HK_ERR_BUFFER, "%s: the receive blocks of ranks %u and %u overlap", name,
                               blocks[i - 1].rank, blocks[i].rank);
    }
    free(blocks);
    return status;
}

/* In place, one array serves both directions: complete the arguments accordingly. */
static void complete(const hk_comm *comm, hki_arguments *arguments)
{
    bool in_place = arguments->send == HK_IN_PLACE || arguments->recv == HK_IN_PLACE;
    if (arguments->is.collective == HKI_COLL_ALLTOALLV && in_place) {
        arguments->counts[0] = arguments->counts[1];
        arguments->displacements[0] = arguments->displacements[1];
    } else if (in_place || arguments->is.collective == HKI_COLL_REDUCE_SCATTERV) {
        int which = arguments->counts[0] ? 0 : 1;
        if (arguments->counts[which])
            arguments->is.count = arguments->counts[which][comm->rank];
    }
}

static void fill_sizes(const hk_comm *comm, const hki_arguments *arguments, uint32_t element, hki_prepared *prepared)
{
    hki_sizes *sizes = &prepared->sizes;
    *sizes = (hki_sizes){.count = arguments->is.count, .element_bytes = element};
    prepared->even = true;
    uint64_t total = arguments->is.count;
    for (int which = 0; which < 2; which++) {
        if (side(comm, arguments, which) != EVERY) /* not significant, whatever they say: the root's alone are */
            continue;
        sizes->counts[which] = arguments->counts[which];
        sizes->displacements[which] = arguments->displacements[which];
        prepared->even &= arguments->counts[which] == NULL;
    }
    const uint64_t *common = arguments->is.collective == HKI_COLL_ALLGATHERV        ? arguments->counts[1]
                             : arguments->is.collective == HKI_COLL_REDUCE_SCATTERV ? arguments->counts[0]
                                                                                    : NULL;
    if (common) {
        total = 0;
        for (uint32_t rank = 0; rank < comm->size; rank++)
            total += common[rank];
    } else if (side(comm, arguments, 0) == EVERY || side(comm, arguments, 1) == EVERY ||
               arguments->is.collective == HKI_COLL_GATHER || arguments->is.collective == HKI_COLL_SCATTER) {
        total = arguments->is.count * comm->size;
    }
    bool unequal_knowledge = arguments->is.collective == HKI_COLL_GATHERV ||
                             arguments->is.collective == HKI_COLL_SCATTERV ||
                             arguments->is.collective == HKI_COLL_ALLTOALLV;
    prepared->bytes = unequal_knowledge ? 0 : total * element;
    bool scatters =
        arguments->is.collective == HKI_COLL_REDUCE_SCATTER || arguments->is.collective == HKI_COLL_REDUCE_SCATTERV;
    prepared->input_bytes = (scatters ? total : arguments->is.count) * element;
}

hk_status hki_arguments_check(const hk_comm *comm, const hki_arguments *given, hki_reducer *reducer,
                              hki_prepared *prepared)
{
    hki_arguments arguments = *given;
    const char *name = hki_collective_name(arguments.is.collective);
    if (rooted(arguments.is.collective) && (arguments.is.root < 0 || arguments.is.root >= (int)comm->size))
        return hki_error(HK_ERR_ROOT, "%s: root %d is not in 0 … %u", name, arguments.is.root, comm->size - 1);
    HK_TRY(check_type(&arguments, reducer));
    hk_status status = check_counts(comm, &arguments);
    complete(comm, &arguments);
    uint32_t in_place = HKI_SEPARATE;
    if (status == HK_OK)
        status = hki_arguments_buffers(comm, &arguments, reducer->element_bytes, &in_place, prepared->base);
    if (status == HK_OK)
        status = check_blocks(comm, &arguments);
    if (status != HK_OK) {
        hki_reducer_release(reducer);
        return status;
    }
    fill_sizes(comm, &arguments, reducer->element_bytes, prepared);
    prepared->call = (hki_call){.collective = arguments.is.collective,
                                .ranks = comm->size,
                                .rank = comm->rank,
                                .root = rooted(arguments.is.collective) ? (uint32_t)arguments.is.root : 0,
                                .segments = 1,
                                .in_place = in_place,
                                .commutative = !hki_collective_reduces(arguments.is.collective) || reducer->commutative,
                                .levels = comm->cluster->levels};
    return HK_OK;
}

/* --- fingerprint and description ------------------------------------------------------------------------------------
 */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* What must be equal on all ranks, per collective, and nothing that may differ. */
uint32_t hki_fingerprint(const hki_arguments *arguments, const hk_comm *comm, const hki_algorithm *algorithm,
                         uint32_t segments, const hki_reducer *reducer)
{
    hki_collective collective = arguments->is.collective;
    uint64_t hash = mix(0, (uint64_t)collective);
    hash = mix(hash, segments);
    hash = mix(hash, arguments->within);
    for (const char *name = algorithm->name; *name; name++)
        hash = mix(hash, (unsigned char)*name);
    if (collective != HKI_COLL_BARRIER)
        hash = mix(hash, arguments->is.type);
    if (rooted(collective))
        hash = mix(hash, (uint64_t)arguments->is.root + 1);
    if (hki_collective_reduces(collective)) /* made operators are compared by what can be known of them */
        hash =
            mix(hash, arguments->is.op < HK_OP_COUNT ? arguments->is.op : HK_OP_COUNT + (uint64_t)reducer->commutative);
    const uint64_t *common = collective == HKI_COLL_ALLGATHERV        ? arguments->counts[1]
                             : collective == HKI_COLL_REDUCE_SCATTERV ? arguments->counts[0]
                                                                      : NULL;
    for (uint32_t rank = 0; common && rank < comm->size; rank++)
        hash = mix(hash, common[rank]);
    bool own_count = collective == HKI_COLL_ALLGATHERV || collective == HKI_COLL_REDUCE_SCATTERV ||
                     collective == HKI_COLL_GATHERV || collective == HKI_COLL_SCATTERV ||
                     collective == HKI_COLL_ALLTOALLV;
    if (!own_count)
        hash = mix(hash, arguments->is.count);
    return (uint32_t)(hash >> 32);
}

void hki_describe_call(const hki_call_record *record, char *text, size_t bytes)
{
    bool dup = record->is.collective == HKI_COLL_DUP, split = record->is.collective == HKI_COLL_SPLIT;
    if (dup || split) {
        snprintf(text, bytes, "%s", dup ? "comm_dup" : "comm_split");
        return;
    }
    int used = snprintf(text, bytes, "%s", hki_collective_name(record->is.collective));
    if (record->is.collective == HKI_COLL_BARRIER || used < 0 || (size_t)used >= bytes)
        return;
    used += snprintf(text + used, bytes - (size_t)used, " of %" PRIu64 " %s", record->is.count,
                     hk_type_name(record->is.type));
    if ((size_t)used < bytes && hki_collective_reduces(record->is.collective))
        used += snprintf(text + used, bytes - (size_t)used, ", %s", hk_op_name(record->is.op));
    if ((size_t)used < bytes && rooted(record->is.collective))
        snprintf(text + used, bytes - (size_t)used, ", root %d", record->is.root);
}

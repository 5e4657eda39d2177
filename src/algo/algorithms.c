/* The table of algorithms, and the way from a call to a schedule. */
#include "algo/generators.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define HKI_ALGORITHM(COLLECTIVE, file) extern const hki_algorithm hki_algorithm_##file;
#include "algo/algos.def"
#undef HKI_ALGORITHM

enum {
#define HKI_ALGORITHM(COLLECTIVE, file) INDEX_##COLLECTIVE##_##file,
#include "algo/algos.def"
#undef HKI_ALGORITHM
    ALGORITHM_COUNT
};

static hki_algorithm table[ALGORITHM_COUNT];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void fill_table(void)
{
    size_t i = 0;
#define HKI_ALGORITHM(COLLECTIVE, file)                                                                                \
    table[i] = hki_algorithm_##file;                                                                                   \
    table[i++].collective = HKI_COLL_##COLLECTIVE;
#include "algo/algos.def"
#undef HKI_ALGORITHM
    for (i = 0; i < ALGORITHM_COUNT; i++)
        if (!table[i].constraint)
            table[i].constraint = "";
}

const hki_algorithm *hki_algorithms(size_t *count)
{
    pthread_once(&table_once, fill_table);
    *count = ALGORITHM_COUNT;
    return table;
}

const hki_algorithm *hki_algorithm_find(hki_collective collective, const char *name)
{
    size_t count;
    const hki_algorithm *all = hki_algorithms(&count);
    for (size_t i = 0; i < count; i++)
        if (all[i].collective == collective && strcmp(all[i].name, name) == 0)
            return &all[i];
    return NULL;
}

static const char *const collective_names[] = {
#define HKI_X(NAME, name) #name,
    HKI_COLLECTIVE_LIST(HKI_X)
#undef HKI_X
};

const char *hki_collective_name(hki_collective collective)
{
    return (unsigned)collective < HKI_COLL_COUNT ? collective_names[collective] : "unknown";
}

int hki_collective_find(const char *name)
{
    for (int i = 0; i < HKI_COLL_COUNT; i++)
        if (strcmp(collective_names[i], name) == 0)
            return i;
    return -1;
}

const char *hki_algorithm_refuses(const hki_algorithm *algorithm, const hki_call *call)
{
    if (algorithm->collective != call->collective)
        return "it is an algorithm of another collective";
    if (call->ranks == 0 || call->rank >= call->ranks || call->root >= call->ranks)
        return "rank or root is not below the number of ranks";
    if (call->segments == 0 || call->segments > 64 || (call->segments & (call->segments - 1)) != 0)
        return "the number of segments is not a power of two from 1 to 64";
    if (!call->commutative && !algorithm->keeps_order && call->ranks > 1 && hki_collective_reduces(call->collective))
        return "it does not keep rank order, which a non-commutative operator needs";
    return algorithm->refuses ? algorithm->refuses(call) : NULL;
}

bool hki_collective_reduces(hki_collective collective)
{
    switch (collective) {
    case HKI_COLL_REDUCE:
    case HKI_COLL_ALLREDUCE:
    case HKI_COLL_REDUCE_SCATTER:
    case HKI_COLL_REDUCE_SCATTERV:
    case HKI_COLL_SCAN:
    case HKI_COLL_EXSCAN:
        return true;
    default:
        return false;
    }
}

/* Which blocks of INPUT and OUTPUT are the same bytes when the call is in place: the one table of the forms that
 * hocket.h allows. The buffers of ranks other than the root are not in place. */
static hki_alias alias_of(const hki_call *call, const hki_shape *shape)
{
    uint32_t segments = shape->segments, own = call->rank * segments;
    const hki_alias none = {0};
    const hki_alias all = {.count = hki_grid_blocks(&shape->grid[HKI_INPUT])};
    const hki_alias own_in_output = {.output = own, .count = segments};
    const hki_alias own_in_input = {.input = own, .count = segments};
    if (call->in_place == HKI_SEPARATE)
        return none;
    switch (call->collective) {
    case HKI_COLL_ALLREDUCE:
    case HKI_COLL_SCAN:
    case HKI_COLL_EXSCAN:
    case HKI_COLL_ALLTOALL:
    case HKI_COLL_ALLTOALLV:
        return all;
    case HKI_COLL_REDUCE:
        return call->rank == call->root ? all : none;
    case HKI_COLL_ALLGATHER:
    case HKI_COLL_ALLGATHERV:
        return own_in_output;
    case HKI_COLL_GATHER:
    case HKI_COLL_GATHERV:
        return call->rank == call->root ? own_in_output : none;
    case HKI_COLL_SCATTER:
    case HKI_COLL_SCATTERV:
        return call->rank == call->root ? own_in_input : none;
    case HKI_COLL_REDUCE_SCATTER:
    case HKI_COLL_REDUCE_SCATTERV: /* at the start of the input lies rank 0's share: in its place there */
        return call->in_place == HKI_ALIGNED || call->rank == 0 ? own_in_input : (hki_alias){.whole = true};
    default:
        return none;
    }
}

/* One rank alone has its result: it copies, unless that is there already. */
static void generate_alone(hki_builder *builder, const hki_call *call)
{
    if (call->collective == HKI_COLL_BARRIER || call->collective == HKI_COLL_BROADCAST ||
        call->collective == HKI_COLL_EXSCAN)
        return;
    hki_region input = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, 1);
    hki_place(builder, hki_all(&output), hki_all(&input), hki_collective_reduces(call->collective));
}

static void free_edges(hki_shape *shape)
{
    const hki_fraction *first = shape->grid[0].edges, *second = shape->grid[1].edges;
    free((void *)(uintptr_t)first);
    if (second != first)
        free((void *)(uintptr_t)second);
}

static bool edges_missing(const hki_grid *grid)
{
    return grid->cut == HKI_CUT_FRACTION && !grid->edges;
}

static hk_status no_memory(const hki_algorithm *algorithm, const hki_call *call)
{
    return hki_error(HK_ERR_NO_MEMORY, "no memory for a schedule of %s among %u ranks", algorithm->name, call->ranks);
}

/* Writes the schedule (loose: as of hki_builder_loose) with this builder, or a new one if there is none. */
static hk_status write_schedule(const hki_algorithm *algorithm, const hki_call *given, bool loose,
                                hki_builder **builder)
{
    const char *why = hki_algorithm_refuses(algorithm, given);
    if (why)
        return hki_error(HK_ERR_UNSUPPORTED, "algorithm %s cannot serve this %s of %u ranks: %s", algorithm->name,
                         hki_collective_name(given->collective), given->ranks, why);
    hki_call call = *given;
    if (!algorithm->segmented)
        call.segments = 1;
    hki_shape shape = {.collective = call.collective, .ranks = call.ranks, .rank = call.rank, .root = call.root};
    algorithm->cut(&call, &shape);
    shape.alias = alias_of(&call, &shape);
    bool complete = !edges_missing(&shape.grid[0]) && !edges_missing(&shape.grid[1]);
    if (complete && *builder)
        complete = hki_builder_renew(*builder, &shape);
    else if (complete)
        complete = (*builder = hki_builder_new(&shape)) != NULL;
    free_edges(&shape);
    if (!complete)
        return no_memory(algorithm, &call);
    if (loose)
        hki_builder_loose(*builder);
    if (call.ranks == 1)
        generate_alone(*builder, &call);
    else
        algorithm->generate(*builder, &call);
    return HK_OK;
}

hk_status hki_algorithm_schedule(const hki_algorithm *algorithm, const hki_call *call, hki_schedule **schedule)
{
    hki_builder *builder = NULL;
    HK_TRY(write_schedule(algorithm, call, false, &builder));
    hk_status status;
    hki_schedule *result = hki_builder_finish(builder, &status);
    if (status == HK_OK)
        *schedule = result;
    return status;
}

hk_status hki_algorithm_look(const hki_algorithm *algorithm, const hki_call *call, bool loose, hki_builder **builder,
                             const hki_schedule **schedule)
{
    HK_TRY(write_schedule(algorithm, call, loose, builder));
    hk_status status;
    const hki_schedule *result = hki_builder_view(*builder, &status);
    if (status == HK_OK)
        *schedule = result;
    return status;
}

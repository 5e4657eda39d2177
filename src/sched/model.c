#include "sched/model.h"

#define V HKI_FORM_VECTOR
#define O HKI_FORM_OWN
#define P HKI_FORM_PARTS
#define X HKI_FORM_PAIRS
#define NONE HKI_ON_NONE
#define ROOT HKI_ON_ROOT
#define ALL HKI_ON_ALL

static const hki_promise promises[HKI_COLL_COUNT] = {
    /*                          where         form    whose  finishes equal  same   output_in */
    [HKI_COLL_BARRIER] = {{NONE, NONE}, {V, V}, HKI_OF_ALL, false, true, false, false},
    [HKI_COLL_BROADCAST] = {{NONE, ALL}, {V, V}, HKI_OF_ROOT, false, true, false, true},
    [HKI_COLL_REDUCE] = {{ALL, ROOT}, {V, V}, HKI_OF_ALL, true, true, false, false},
    [HKI_COLL_ALLREDUCE] = {{ALL, ALL}, {V, V}, HKI_OF_ALL, true, true, true, false},
    [HKI_COLL_REDUCE_SCATTER] = {{ALL, ALL}, {P, O}, HKI_OF_ALL, true, true, false, false},
    [HKI_COLL_REDUCE_SCATTERV] = {{ALL, ALL}, {P, O}, HKI_OF_ALL, true, false, false, false},
    [HKI_COLL_ALLGATHER] = {{ALL, ALL}, {O, P}, HKI_OF_PART, false, true, false, false},
    [HKI_COLL_ALLGATHERV] = {{ALL, ALL}, {O, P}, HKI_OF_PART, false, false, false, false},
    [HKI_COLL_GATHER] = {{ALL, ROOT}, {O, P}, HKI_OF_PART, false, true, false, false},
    [HKI_COLL_GATHERV] = {{ALL, ROOT}, {O, P}, HKI_OF_PART, false, false, false, false},
    [HKI_COLL_SCATTER] = {{ROOT, ALL}, {P, O}, HKI_OF_ROOT, false, true, false, false},
    [HKI_COLL_SCATTERV] = {{ROOT, ALL}, {P, O}, HKI_OF_ROOT, false, false, false, false},
    [HKI_COLL_ALLTOALL] = {{ALL, ALL}, {X, X}, HKI_OF_PART, false, true, false, false},
    [HKI_COLL_ALLTOALLV] = {{ALL, ALL}, {X, X}, HKI_OF_PART, false, false, false, false},
    [HKI_COLL_SCAN] = {{ALL, ALL}, {V, V}, HKI_OF_UP_TO_SELF, false, true, false, false},
    [HKI_COLL_EXSCAN] = {{ALL, HKI_ON_ALL_BUT_FIRST}, {V, V}, HKI_OF_BELOW_SELF, false, true, false, false},
};

#undef V
#undef O
#undef P
#undef X
#undef NONE
#undef ROOT
#undef ALL

const hki_promise *hki_promise_of(hki_collective collective)
{
    return &promises[collective];
}

bool hki_promise_rooted(hki_collective collective)
{
    const hki_promise *promise = &promises[collective];
    return promise->whose == HKI_OF_ROOT || promise->where[HKI_OUTPUT] == HKI_ON_ROOT;
}

const char *hki_promise_name(hki_collective collective)
{
    static const char *const names[] = {
#define HKI_X(NAME, name) #name,
        HKI_COLLECTIVE_LIST(HKI_X)
#undef HKI_X
    };
    return names[collective];
}

bool hki_significant(const hki_schedule *schedule, unsigned buffer)
{
    switch (hki_promise_of(schedule->collective)->where[buffer]) {
    case HKI_ON_NONE:
        return false;
    case HKI_ON_ROOT:
        return schedule->rank == schedule->root;
    case HKI_ON_ALL:
        return true;
    case HKI_ON_ALL_BUT_FIRST:
        break;
    }
    return schedule->rank > 0;
}

uint64_t hki_block_identity(const hki_schedule *schedule, unsigned buffer, uint32_t block)
{
    uint64_t segments = schedule->grid[buffer].segments;
    uint64_t part = block / segments, segment = block % segments;
    switch (hki_promise_of(schedule->collective)->form[buffer]) {
    case HKI_FORM_VECTOR:
    case HKI_FORM_PARTS:
        return block;
    case HKI_FORM_OWN:
        return schedule->rank * segments + segment;
    case HKI_FORM_PAIRS:
        break;
    }
    uint64_t from = buffer == HKI_INPUT ? schedule->rank : part, to = buffer == HKI_INPUT ? part : schedule->rank;
    return (from * schedule->ranks + to) * segments + segment;
}

uint64_t hki_block_length_class(const hki_schedule *schedule, unsigned buffer, uint32_t block)
{
    const hki_promise *promise = hki_promise_of(schedule->collective);
    if (promise->equal && promise->form[buffer] != HKI_FORM_VECTOR)
        return block % schedule->grid[buffer].segments;
    return hki_block_identity(schedule, buffer, block);
}

void hki_block_contributors(const hki_schedule *schedule, uint32_t block, uint32_t *first, uint32_t *last)
{
    *first = 0;
    switch (hki_promise_of(schedule->collective)->whose) {
    case HKI_OF_ROOT:
        *first = *last = schedule->root;
        return;
    case HKI_OF_PART:
        *first = *last = block / schedule->grid[HKI_OUTPUT].segments;
        return;
    case HKI_OF_ALL:
        *last = schedule->ranks - 1;
        return;
    case HKI_OF_UP_TO_SELF:
        *last = schedule->rank;
        return;
    case HKI_OF_BELOW_SELF:
        *last = schedule->rank - 1;
        return;
    }
}

double hki_block_fraction(const hki_schedule *schedule, unsigned buffer, uint32_t block)
{
    const hki_grid *grid = &schedule->grid[buffer];
    if (grid->cut == HKI_CUT_FRACTION) {
        const hki_fraction *edge = &grid->edges[block / grid->segments];
        return ((double)edge[1].numerator / edge[1].denominator - (double)edge[0].numerator / edge[0].denominator) /
               grid->segments;
    }
    uint32_t parts = grid->cut == HKI_CUT_ONE ? schedule->ranks : grid->parts;
    return 1.0 / ((double)parts * grid->segments);
}

static bool same_edges(const hki_grid *a, const hki_grid *b)
{
    for (uint32_t i = 0; a->cut == HKI_CUT_FRACTION && i <= a->parts; i++)
        if ((uint64_t)a->edges[i].numerator * b->edges[i].denominator !=
            (uint64_t)b->edges[i].numerator * a->edges[i].denominator)
            return false;
    return true;
}

static const char *fraction_fault(const hki_grid *grid)
{
    const hki_fraction *edges = grid->edges;
    if (!edges || edges[0].numerator != 0 || edges[grid->parts].numerator != edges[grid->parts].denominator)
        return "does not reach from 0 to 1";
    for (uint32_t i = 0; i <= grid->parts; i++) {
        if (edges[i].denominator == 0)
            return "has a fraction without denominator";
        if (i && (uint64_t)edges[i].numerator * edges[i - 1].denominator <
                     (uint64_t)edges[i - 1].numerator * edges[i].denominator)
            return "has edges that go backwards";
    }
    return NULL;
}

const char *hki_grid_fault(const hki_schedule *schedule, unsigned buffer, const hki_grid *reference)
{
    const hki_grid *grid = &schedule->grid[buffer];
    hki_form form = hki_promise_of(schedule->collective)->form[buffer];
    if (grid->cut == HKI_CUT_NONE)
        return NULL;
    if (grid->parts == 0 || grid->segments == 0 || grid->segments > 64 || (grid->segments & (grid->segments - 1)))
        return "has no parts, or segments that are no power of two up to 64";
    if (form == HKI_FORM_VECTOR && grid->cut != HKI_CUT_EVEN && grid->cut != HKI_CUT_FRACTION)
        return "is not cut as a whole vector";
    if (form == HKI_FORM_OWN && (grid->cut != HKI_CUT_ONE || grid->own != schedule->rank || grid->parts != 1))
        return "is not this rank's own part";
    if ((form == HKI_FORM_PARTS || form == HKI_FORM_PAIRS) &&
        (grid->cut != HKI_CUT_COUNTS || grid->parts != schedule->ranks))
        return "is not one part a rank";
    if (grid->cut == HKI_CUT_FRACTION && fraction_fault(grid))
        return fraction_fault(grid);
    if (!reference)
        return NULL;
    if (reference->segments != grid->segments)
        return "has other segments than elsewhere";
    if (form == HKI_FORM_VECTOR &&
        (reference->cut != grid->cut || reference->parts != grid->parts || !same_edges(reference, grid)))
        return "is cut otherwise than elsewhere";
    return NULL;
}

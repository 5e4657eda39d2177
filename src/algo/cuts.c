#include "algo/generators.h"

void hki_cut_vector(const hki_call *call, hki_shape *shape, uint32_t parts, uint32_t segments)
{
    hki_grid grid = {.cut = HKI_CUT_EVEN, .parts = parts, .segments = segments};
    bool result = call->collective != HKI_COLL_REDUCE || call->rank == call->root;
    shape->segments = segments;
    shape->grid[HKI_INPUT] = call->collective == HKI_COLL_BROADCAST ? (hki_grid){.cut = HKI_CUT_NONE} : grid;
    shape->grid[HKI_OUTPUT] = result ? grid : (hki_grid){.cut = HKI_CUT_NONE};
}

void hki_cut_shares(const hki_call *call, hki_shape *shape, uint32_t segments)
{
    hki_grid all = {.cut = HKI_CUT_COUNTS, .parts = call->ranks, .segments = segments};
    hki_grid own = {.cut = HKI_CUT_ONE, .parts = 1, .segments = segments, .own = call->rank};
    hki_grid none = {.cut = HKI_CUT_NONE};
    bool root = call->rank == call->root;
    hki_grid *input = &shape->grid[HKI_INPUT], *output = &shape->grid[HKI_OUTPUT];
    shape->segments = segments;
    *input = *output = all;
    switch (call->collective) {
    case HKI_COLL_REDUCE_SCATTER:
    case HKI_COLL_REDUCE_SCATTERV:
    case HKI_COLL_SCATTER: /* inner ranks of a tree pass on other ranks' shares, so all know the grid */
        *output = own;
        break;
    case HKI_COLL_ALLGATHER:
    case HKI_COLL_ALLGATHERV:
    case HKI_COLL_GATHER:
        *input = own;
        break;
    case HKI_COLL_GATHERV: /* only the root knows the counts */
        *input = own;
        *output = root ? all : none;
        break;
    case HKI_COLL_SCATTERV:
        *input = root ? all : none;
        *output = own;
        break;
    default:
        break;
    }
}

void hki_cut_whole(const hki_call *call, hki_shape *shape)
{
    hki_cut_vector(call, shape, 1, 1);
}

void hki_cut_whole_segments(const hki_call *call, hki_shape *shape)
{
    hki_cut_vector(call, shape, 1, call->segments);
}

void hki_cut_ranks(const hki_call *call, hki_shape *shape)
{
    hki_cut_vector(call, shape, call->ranks, 1);
}

void hki_cut_ranks_segments(const hki_call *call, hki_shape *shape)
{
    hki_cut_vector(call, shape, call->ranks, call->segments);
}

void hki_cut_blocks(const hki_call *call, hki_shape *shape)
{
    hki_cut_shares(call, shape, 1);
}

void hki_cut_blocks_segments(const hki_call *call, hki_shape *shape)
{
    hki_cut_shares(call, shape, call->segments);
}

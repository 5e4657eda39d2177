#include "sched/ir.h"

#include <stdlib.h>

const char *hki_span_fault(const hki_grid *grids, uint32_t slots, const hki_span *span)
{
    const hki_range *blocks = &span->blocks;
    if (blocks->count == 0)
        return NULL;
    if (span->buffer > HKI_SCRATCH || span->of > HKI_OUTPUT)
        return "names no buffer";
    if (span->buffer != HKI_SCRATCH && span->of != span->buffer)
        return "takes its blocks from another buffer's grid";
    if (blocks->run == 0 || blocks->wrap == 0)
        return "has an empty run or ring";
    if (grids[span->of].cut == HKI_CUT_NONE)
        return "lies in a buffer without a grid";
    if ((uint64_t)blocks->base + blocks->wrap > hki_grid_blocks(&grids[span->of]) || blocks->count > blocks->wrap)
        return "exceeds its grid";
    if (span->buffer != HKI_SCRATCH)
        return NULL;
    if (span->slots != 1 && span->slots != blocks->count)
        return "lies in neither one slot nor one a block";
    if ((uint64_t)span->slot + (span->slots == 1 ? 1 : blocks->wrap) > slots)
        return "exceeds the scratch slots";
    return NULL;
}

void hki_schedule_free(hki_schedule *schedule)
{
    if (!schedule)
        return;
    for (int i = 0; i < 2; i++)
        free((void *)(uintptr_t)schedule->grid[i].edges);
    free(schedule->steps);
    free(schedule->sources);
    free(schedule->deps);
    free(schedule->peers);
    free(schedule);
}

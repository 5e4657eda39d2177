#include "sched/ir.h"

#include <stdlib.h>

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

#include "sim/queue.h"

#include <stdlib.h>

#include "sched/intervals.h"

enum { CHILDREN = 4 };

static bool before(hki_sim_event left, hki_sim_event right)
{
    return left.ps != right.ps ? left.ps < right.ps : left.tag < right.tag;
}

bool hki_sim_queue_add(hki_sim_queue *queue, hki_sim_event event)
{
    hki_sim_event *items = hki_grow(queue->items, &queue->capacity, queue->count + UINT64_C(1), sizeof *items);
    if (!items)
        return false;
    queue->items = items;
    uint32_t at = queue->count++;
    while (at > 0) {
        uint32_t parent = (at - 1) / CHILDREN;
        if (!before(event, queue->items[parent]))
            break;
        queue->items[at] = queue->items[parent];
        at = parent;
    }
    queue->items[at] = event;
    return true;
}

static uint32_t earliest_child(const hki_sim_queue *queue, uint32_t at)
{
    uint32_t first = CHILDREN * at + 1, least = first;
    for (uint32_t child = first + 1; child < first + CHILDREN && child < queue->count; child++)
        if (before(queue->items[child], queue->items[least]))
            least = child;
    return least;
}

hki_sim_event hki_sim_queue_take(hki_sim_queue *queue)
{
    hki_sim_event taken = queue->items[0], last = queue->items[--queue->count];
    uint32_t at = 0;
    while (CHILDREN * at + 1 < queue->count) {
        uint32_t child = earliest_child(queue, at);
        if (!before(queue->items[child], last))
            break;
        queue->items[at] = queue->items[child];
        at = child;
    }
    queue->items[at] = last;
    return taken;
}

void hki_sim_queue_free(hki_sim_queue *queue)
{
    free(queue->items);
}

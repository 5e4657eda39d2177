#include "cost/events.h"

#include <stdlib.h>

static inline bool before(const hki_event *a, const hki_event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

bool hki_events_push(hki_events *events, hki_event event)
{
    if (events->count == events->capacity) {
        uint32_t capacity = 2 * events->capacity + 64;
        hki_event *grown = realloc(events->heap, capacity * sizeof *grown);
        if (!grown)
            return false;
        events->heap = grown;
        events->capacity = capacity;
    }
    event.order = events->order++;
    uint32_t i = events->count++;
    for (; i && before(&event, &events->heap[(i - 1) / 2]); i = (i - 1) / 2)
        events->heap[i] = events->heap[(i - 1) / 2];
    events->heap[i] = event;
    return true;
}

bool hki_events_pop(hki_events *events, hki_event *event)
{
    if (events->count == 0)
        return false;
    *event = events->heap[0];
    const hki_event last = events->heap[--events->count];
    uint32_t i = 0;
    for (uint32_t child = 1; child < events->count; child = 2 * i + 1) {
        if (child + 1 < events->count && before(&events->heap[child + 1], &events->heap[child]))
            child++;
        if (!before(&events->heap[child], &last))
            break;
        events->heap[i] = events->heap[child];
        i = child;
    }
    events->heap[i] = last;
    return true;
}

bool hki_events_are_before(const hki_events *events, const hki_event *event)
{
    return events->count && before(&events->heap[0], event);
}

void hki_events_free(hki_events *events)
{
    free(events->heap);
    *events = (hki_events){0};
}

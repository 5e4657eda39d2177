#include "cost/events.h"

#include <stdlib.h>

enum { ORDER_SHIFT = HKI_EVENT_WHAT_BITS + HKI_EVENT_KIND_BITS };

static inline unsigned __int128 key_of(const hki_event_held *event)
{
    return (unsigned __int128)event->at << 64 | event->rest;
}

static inline bool before(const hki_event_held *a, const hki_event_held *b)
{
    return key_of(a) < key_of(b);
}

static bool grow(hki_events *events)
{
    uint32_t capacity = 2 * events->capacity + 64;
    hki_event_held *grown = realloc(events->heap, capacity * sizeof *grown);
    if (!grown)
        return false;
    events->heap = grown;
    events->capacity = capacity;
    return true;
}

/* Puts an event at a free place or above it. */
static void rise(hki_events *events, uint32_t place, hki_event_held event)
{
    hki_event_held *heap = events->heap;
    for (; place && before(&event, &heap[(place - 1) / 2]); place = (place - 1) / 2)
        heap[place] = heap[(place - 1) / 2];
    heap[place] = event;
}

bool hki_events_push(hki_events *events, hki_event event)
{
    if (events->count == events->capacity && !grow(events))
        return false;
    uint64_t rest = events->order++ << ORDER_SHIFT | (uint64_t)event.what << HKI_EVENT_KIND_BITS | event.kind;
    rise(events, events->count++, (hki_event_held){event.at, rest});
    return true;
}

/* The free place sinks to the bottom, where the event that was last belongs in most cases. */
bool hki_events_pop(hki_events *events, hki_event *event)
{
    if (events->count == 0)
        return false;
    hki_event_held *heap = events->heap, first = heap[0], last = heap[--events->count];
    uint32_t place = 0, count = events->count;
    for (uint32_t child = 1; child < count; child = 2 * place + 1) {
        child += child + 1 < count && before(&heap[child + 1], &heap[child]);
        heap[place] = heap[child];
        place = child;
    }
    rise(events, place, last);
    *event = (hki_event){.at = first.at,
                         .order = first.rest >> ORDER_SHIFT,
                         .what = (uint32_t)(first.rest >> HKI_EVENT_KIND_BITS) & ((1u << HKI_EVENT_WHAT_BITS) - 1),
                         .kind = first.rest & ((1u << HKI_EVENT_KIND_BITS) - 1)};
    return true;
}

bool hki_events_are_before(const hki_events *events, const hki_event *event)
{
    return events->count && (events->heap[0].at != event->at ? events->heap[0].at < event->at
                                                             : events->heap[0].rest >> ORDER_SHIFT < event->order);
}

void hki_events_clear(hki_events *events)
{
    events->count = 0;
    events->order = 0;
}

void hki_events_free(hki_events *events)
{
    free(events->heap);
    *events = (hki_events){0};
}

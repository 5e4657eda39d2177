/* Events in the order of time; those of one moment in the order in which they were pushed. A binary heap of 16 bytes an
 * event: most of what a price costs is spent here. */
#ifndef HKI_COST_EVENTS_H
#define HKI_COST_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hki_event {
    uint64_t at, order; /* order is set by push */
    uint32_t what;      /* below 2^HKI_EVENT_WHAT_BITS */
    uint8_t kind;       /* below 2^HKI_EVENT_KIND_BITS */
} hki_event;

/* How an event is held: the latter of the two words is order, what and kind, of which order decides. */
enum { HKI_EVENT_WHAT_BITS = 24, HKI_EVENT_KIND_BITS = 3 };
typedef struct hki_event_held {
    uint64_t at, rest;
} hki_event_held;

/* Zero-initialised: empty. */
typedef struct hki_events {
    hki_event_held *heap;
    uint32_t count, capacity;
    uint64_t order;
} hki_events;

void hki_events_clear(hki_events *events);                 /* memory is kept */
bool hki_events_push(hki_events *events, hki_event event); /* false: out of memory */
bool hki_events_pop(hki_events *events, hki_event *event); /* false: none */
/* Whether the next event comes before this one, which has not been pushed but has an order. */
bool hki_events_are_before(const hki_events *events, const hki_event *event);
void hki_events_free(hki_events *events);
/* The time of the next; UINT64_MAX: none. */
static inline uint64_t hki_events_next(const hki_events *events)
{
    return events->count ? events->heap[0].at : UINT64_MAX;
}

#endif

/* Events in the order of time; those of one moment in the order in which they were pushed. A binary heap. */
#ifndef HKI_COST_EVENTS_H
#define HKI_COST_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hki_event {
    uint64_t at, order; /* order is set by push */
    uint32_t what;
    uint8_t kind;
} hki_event;

/* Zero-initialised: empty. */
typedef struct hki_events {
    hki_event *heap;
    uint32_t count, capacity;
    uint64_t order;
} hki_events;

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

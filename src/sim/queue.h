/*
 * The simulator's event queue: what happens next on virtual time. A heap of four children a node, so that a path to the
 * root touches few cache lines; it grows by doubling, and no event is allocated on its own.
 */
#ifndef HKI_SIM_QUEUE_H
#define HKI_SIM_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

/* Events at the same time come in the order of their tags. */
typedef struct hki_sim_event {
    uint64_t ps;
    uint64_t tag;
} hki_sim_event;

typedef struct hki_sim_queue {
    hki_sim_event *items;
    uint32_t count, capacity;
} hki_sim_queue;

/* False: out of memory. */
bool hki_sim_queue_add(hki_sim_queue *queue, hki_sim_event event);
/* The queue must not be empty. */
hki_sim_event hki_sim_queue_take(hki_sim_queue *queue);
void hki_sim_queue_free(hki_sim_queue *queue);

#endif

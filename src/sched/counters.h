/* How many messages have gone each way between this rank and each peer: a hash table that grows with the peers met. */
#ifndef HKI_SCHED_COUNTERS_H
#define HKI_SCHED_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hki_counter {
    uint32_t peer;
    uint32_t messages[2]; /* to the peer, from the peer */
    bool used;
} hki_counter;

typedef struct hki_counters {
    hki_counter *entries; /* capacity is a power of two, at most half full */
    uint32_t capacity, count;
} hki_counters;

/* The peer's entry, made at zero when it is new. NULL: out of memory. Valid until the next call. */
hki_counter *hki_counters_of(hki_counters *counters, uint32_t peer);
void hki_counters_clear(hki_counters *counters); /* of nobody; memory is kept */
void hki_counters_free(hki_counters *counters);

#endif

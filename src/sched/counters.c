#include "sched/counters.h"

#include <stdlib.h>
#include <string.h>

static hki_counter *find(const hki_counters *counters, uint32_t peer)
{
    uint32_t mask = counters->capacity - 1;
    for (uint32_t at = peer * 0x9e3779b1u >> 8;; at++) {
        hki_counter *entry = &counters->entries[at & mask];
        if (!entry->used || entry->peer == peer)
            return entry;
    }
}

static bool grow(hki_counters *counters)
{
    if (counters->capacity > UINT32_MAX / 4)
        return false;
    hki_counters larger = {.capacity = counters->capacity ? 2 * counters->capacity : 8, .count = counters->count};
    larger.entries = calloc(larger.capacity, sizeof *larger.entries);
    if (!larger.entries)
        return false;
    for (uint32_t i = 0; i < counters->capacity; i++)
        if (counters->entries[i].used)
            *find(&larger, counters->entries[i].peer) = counters->entries[i];
    free(counters->entries);
    *counters = larger;
    return true;
}

hki_counter *hki_counters_of(hki_counters *counters, uint32_t peer)
{
    if (2 * (uint64_t)counters->count >= counters->capacity && !grow(counters))
        return NULL;
    hki_counter *entry = find(counters, peer);
    if (!entry->used) {
        *entry = (hki_counter){.peer = peer, .used = true};
        counters->count++;
    }
    return entry;
}

void hki_counters_clear(hki_counters *counters)
{
    if (counters->count)
        memset(counters->entries, 0, counters->capacity * sizeof *counters->entries);
    counters->count = 0;
}

void hki_counters_free(hki_counters *counters)
{
    free(counters->entries);
    *counters = (hki_counters){0};
}

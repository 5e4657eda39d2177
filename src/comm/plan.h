/*
 * Plans: schedules kept for the next call of the same kind, and their bindings to counts. Shared by all communicators
 * of a context; the least recently used ones go when the cap is reached; what is in flight stays.
 */
#ifndef HKI_COMM_PLAN_H
#define HKI_COMM_PLAN_H

#include "algo/algo.h"
#include "base/list.h"
#include "sched/bind.h"

/* A program for one count, counted by its users. */
typedef struct hki_binding {
    hki_bound *program;
    uint64_t count;
    uint32_t element_bytes;
    uint32_t users;
    bool linear;
} hki_binding;

enum { HKI_PLAN_BINDINGS = 4, HKI_PLAN_BUCKETS = 256 };

typedef struct hki_plan {
    hki_node recent; /* in hki_plan_cache.recent, most recent last */
    struct hki_plan *next;
    const hki_algorithm *algorithm;
    hki_call call; /* the key, with algorithm; levels compared by address (they live while any communicator has them) */
    hki_schedule *schedule;
    hki_binding *bindings[HKI_PLAN_BINDINGS];
    uint32_t turn;
    size_t bytes;
} hki_plan;

typedef struct hki_plan_cache {
    hki_plan *buckets[HKI_PLAN_BUCKETS];
    hki_node recent;
    size_t bytes, cap;
    uint64_t hits, misses;
} hki_plan_cache;

void hki_plan_cache_open(hki_plan_cache *cache, size_t cap);
void hki_plan_cache_close(hki_plan_cache *cache);
/* Forgets the plans of a topology view that is going away. */
void hki_plan_cache_forget(hki_plan_cache *cache, const hki_levels *levels);

/* The plan of an algorithm for a call, from the cache or new. With HOCKET_VERIFY a new one is verified over all ranks.
 */
hk_status hki_plan_find(hki_plan_cache *cache, const hki_algorithm *algorithm, const hki_call *call, hki_plan **plan);
/* A binding of the plan, referenced once for the caller. Kept for the next call if the counts are equal on all parts
 * (`keep`). eager: what a straight line may send in one frame. */
hk_status hki_plan_bind(hki_plan_cache *cache, hki_plan *plan, const hki_sizes *sizes, bool keep, size_t eager,
                        hki_binding **binding);
void hki_binding_release(hki_binding *binding);

#endif

#include "comm/plan.h"

#include "base/error.h"
#include "base/settings.h"
#include "exec/exec.h"
#include "sched/builder.h"
#include "sched/verify.h"

#include <stdlib.h>
#include <string.h>

void hki_plan_cache_open(hki_plan_cache *cache, size_t cap)
{
    memset(cache, 0, sizeof *cache);
    hki_list_init(&cache->recent);
    cache->cap = cap;
}

void hki_binding_release(hki_binding *binding)
{
    if (!binding || --binding->users > 0)
        return;
    hki_bound_free(binding->program);
    free(binding);
}

static void drop_binding(hki_plan_cache *cache, hki_plan *plan, uint32_t slot)
{
    hki_binding *binding = plan->bindings[slot];
    if (!binding)
        return;
    plan->bytes -= binding->program->memory;
    cache->bytes -= binding->program->memory;
    plan->bindings[slot] = NULL;
    hki_binding_release(binding);
}

static uint32_t bucket_of(const hki_algorithm *algorithm, const hki_call *call)
{
    uint64_t hash = (uintptr_t)algorithm / sizeof(hki_algorithm);
    const uint64_t parts[] = {call->ranks, call->rank, call->root, call->segments, (uint64_t)call->in_place};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        hash = (hash ^ parts[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(hash >> 32) % HKI_PLAN_BUCKETS;
}

static void drop_plan(hki_plan_cache *cache, hki_plan *plan)
{
    hki_plan **link = &cache->buckets[bucket_of(plan->algorithm, &plan->call)];
    while (*link != plan)
        link = &(*link)->next;
    *link = plan->next;
    for (uint32_t slot = 0; slot < HKI_PLAN_BINDINGS; slot++)
        drop_binding(cache, plan, slot);
    cache->bytes -= plan->bytes;
    hki_list_remove(&plan->recent);
    hki_schedule_free(plan->schedule);
    free(plan);
}

void hki_plan_cache_close(hki_plan_cache *cache)
{
    while (!hki_list_empty(&cache->recent))
        drop_plan(cache, hki_list_entry(cache->recent.next, hki_plan, recent));
}

void hki_plan_cache_forget(hki_plan_cache *cache, const hki_levels *levels)
{
    hki_list_each_safe (node, following, &cache->recent) {
        hki_plan *plan = hki_list_entry(node, hki_plan, recent);
        if (plan->call.levels == levels)
            drop_plan(cache, plan);
    }
}

/* Programs in flight are referenced by their requests, so any plan but the newest may go. */
static void make_room(hki_plan_cache *cache)
{
    while (cache->bytes > cache->cap && cache->recent.next != cache->recent.previous)
        drop_plan(cache, hki_list_entry(cache->recent.next, hki_plan, recent));
}

static bool same_call(const hki_call *a, const hki_call *b)
{
    return a->collective == b->collective && a->ranks == b->ranks && a->rank == b->rank && a->root == b->root &&
           a->segments == b->segments && a->in_place == b->in_place && a->levels == b->levels;
}

/* The schedules of all ranks, as the verifier wants them; this rank's own last. */
static hk_status verify_all(const hki_algorithm *algorithm, const hki_call *call)
{
    hki_schedule **schedules = calloc(call->ranks, sizeof *schedules);
    if (!schedules)
        return hki_error(HK_ERR_NO_MEMORY, "no memory to verify a plan for %u ranks", call->ranks);
    hk_status status = HK_OK;
    for (uint32_t rank = 0; rank < call->ranks && status == HK_OK; rank++) {
        hki_call of_rank = *call;
        of_rank.rank = rank;
        status = hki_algorithm_schedule(algorithm, &of_rank, &schedules[rank]);
    }
    hki_verify_report report;
    if (status == HK_OK)
        status = hki_verify((const hki_schedule *const *)schedules, call->ranks, algorithm->name, &report);
    for (uint32_t rank = 0; rank < call->ranks; rank++)
        hki_schedule_free(schedules[rank]);
    free(schedules);
    return status;
}

hk_status hki_plan_find(hki_plan_cache *cache, const hki_algorithm *algorithm, const hki_call *call, hki_plan **plan)
{
    hki_plan **bucket = &cache->buckets[bucket_of(algorithm, call)];
    for (hki_plan *known = *bucket; known; known = known->next) {
        if (known->algorithm != algorithm || !same_call(&known->call, call))
            continue;
        hki_list_remove(&known->recent);
        hki_list_append(&cache->recent, &known->recent);
        cache->hits++;
        *plan = known;
        return HK_OK;
    }
    cache->misses++;
    hki_plan *made = calloc(1, sizeof *made);
    if (!made)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a plan");
    hk_status status = hki_algorithm_schedule(algorithm, call, &made->schedule);
    if (status == HK_OK && hki_setting_integer(HKI_SET_VERIFY)) {
        status = verify_all(algorithm, call);
        if (status != HK_OK)
            hki_schedule_free(made->schedule);
    }
    if (status != HK_OK) {
        free(made);
        return status;
    }
    made->algorithm = algorithm;
    made->call = *call;
    made->bytes = sizeof *made + made->schedule->bytes;
    made->next = *bucket;
    *bucket = made;
    hki_list_append(&cache->recent, &made->recent);
    cache->bytes += made->bytes;
    make_room(cache);
    *plan = made;
    return HK_OK;
}

static hki_binding *find_binding(hki_plan *plan, const hki_sizes *sizes)
{
    for (uint32_t slot = 0; slot < HKI_PLAN_BINDINGS; slot++) {
        hki_binding *binding = plan->bindings[slot];
        if (binding && binding->count == sizes->count && binding->element_bytes == sizes->element_bytes)
            return binding;
    }
    return NULL;
}

hk_status hki_plan_bind(hki_plan_cache *cache, hki_plan *plan, const hki_sizes *sizes, bool keep, size_t eager,
                        hki_binding **binding)
{
    hki_binding *made = keep ? find_binding(plan, sizes) : NULL;
    if (made) {
        made->users++;
        *binding = made;
        return HK_OK;
    }
    made = malloc(sizeof *made);
    if (!made)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a plan");
    hk_status status = hki_bind(plan->schedule, sizes, &made->program);
    if (status != HK_OK) {
        free(made);
        return status;
    }
    made->count = sizes->count;
    made->element_bytes = sizes->element_bytes;
    made->users = 1;
    made->linear = hki_program_is_linear(made->program, plan->schedule->linear, eager);
    if (keep) {
        uint32_t slot = plan->turn++ % HKI_PLAN_BINDINGS;
        drop_binding(cache, plan, slot);
        plan->bindings[slot] = made;
        made->users++;
        plan->bytes += made->program->memory;
        cache->bytes += made->program->memory;
        make_room(cache);
    }
    *binding = made;
    return HK_OK;
}

#include "sched/values.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/intervals.h"

static uint32_t hash_of(uint32_t kind, uint32_t left, uint32_t right)
{
    uint64_t hash = ((uint64_t)left << 32 | right) * UINT64_C(0x9e3779b97f4a7c15) + kind;
    hash = (hash ^ hash >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(hash >> 32);
}

/* The place of (kind, left, right) in the table: of the value, or where it belongs. */
static uint32_t *find(const hki_values *values, uint32_t kind, uint32_t left, uint32_t right)
{
    uint32_t mask = values->table_size - 1;
    for (uint32_t at = hash_of(kind, left, right);; at++) {
        uint32_t *place = &values->table[at & mask];
        if (*place == 0)
            return place;
        const hki_value *value = &values->items[*place - 1];
        if (value->kind == kind && value->left == left && value->right == right)
            return place;
    }
}

static bool grow_table(hki_values *values)
{
    if (2 * (uint64_t)values->count < values->table_size)
        return true;
    uint32_t *old = values->table;
    if (values->table_size > UINT32_MAX / 2)
        return false;
    uint32_t *table = calloc(2 * (size_t)values->table_size, sizeof *table);
    if (!table)
        return false;
    values->table = table;
    values->table_size *= 2;
    for (uint32_t i = 0; i < values->count; i++)
        *find(values, values->items[i].kind, values->items[i].left, values->items[i].right) = i + 1;
    free(old);
    return true;
}

/* Makes room for one more value with `runs` more runs. */
static bool reserve(hki_values *values, uint64_t runs)
{
    hki_value *items = hki_grow(values->items, &values->capacity, (uint64_t)values->count + 1, sizeof *items);
    if (!items)
        return false;
    values->items = items;
    hki_run *grown = hki_grow(values->runs, &values->run_capacity, values->run_count + runs, sizeof *grown);
    if (!grown)
        return false;
    values->runs = grown;
    return grow_table(values);
}

bool hki_values_init(hki_values *values, uint32_t ranks)
{
    *values = (hki_values){.table_size = 1024};
    values->table = calloc(values->table_size, sizeof *values->table);
    if (!values->table)
        return false;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        if (!reserve(values, 1))
            return false;
        values->runs[values->run_count] = (hki_run){rank, rank};
        values->items[values->count] = (hki_value){.left = rank,
                                                   .first_run = values->run_count++,
                                                   .run_count = 1,
                                                   .least = rank,
                                                   .most = rank,
                                                   .count = 1,
                                                   .kind = HKI_VALUE_LEAF};
        *find(values, HKI_VALUE_LEAF, rank, 0) = values->count + 1;
        values->count++;
    }
    return true;
}

void hki_values_free(hki_values *values)
{
    free(values->items);
    free(values->runs);
    free(values->table);
    *values = (hki_values){0};
}

static int compare_runs(const void *a, const void *b)
{
    uint32_t left = ((const hki_run *)a)->first, right = ((const hki_run *)b)->first;
    return (left > right) - (left < right);
}

/* Appends a run to the value being made, joined with the one before where they follow each other. */
static void append_run(hki_values *values, hki_value *value, hki_run run)
{
    hki_run *last = value->run_count ? &values->runs[value->first_run + value->run_count - 1] : NULL;
    if (last && last->last + 1 == run.first)
        last->last = run.last;
    else
        values->runs[value->first_run + value->run_count++] = run;
}

/* Appends both operands' runs in operand order. */
static void concatenate(hki_values *values, hki_value *value, const hki_value *left, const hki_value *right)
{
    for (uint32_t i = 0; i < left->run_count; i++)
        append_run(values, value, values->runs[left->first_run + i]);
    for (uint32_t i = 0; i < right->run_count; i++)
        append_run(values, value, values->runs[right->first_run + i]);
    value->count = left->count + right->count;
}

/* Unites both operands' runs, which are in rank order. */
static void unite(hki_values *values, hki_value *value, const hki_value *left, const hki_value *right)
{
    uint32_t i = 0, k = 0;
    while (i < left->run_count || k < right->run_count) {
        bool from_left = k == right->run_count || (i < left->run_count && values->runs[left->first_run + i].first <=
                                                                              values->runs[right->first_run + k].first);
        hki_run run = from_left ? values->runs[left->first_run + i++] : values->runs[right->first_run + k++];
        hki_run *last = value->run_count ? &values->runs[value->first_run + value->run_count - 1] : NULL;
        if (!last || run.first > last->last + 1)
            values->runs[value->first_run + value->run_count++] = run;
        else if (run.last > last->last)
            last->last = run.last;
    }
    value->count = 0;
    for (i = 0; i < value->run_count; i++)
        value->count += values->runs[value->first_run + i].last - values->runs[value->first_run + i].first + 1;
}

/* True when no rank is in both. Uses the free room behind the runs. */
static bool disjoint(hki_values *values, const hki_value *left, const hki_value *right)
{
    if (left->most < right->least || right->most < left->least)
        return true;
    hki_run *sorted = values->runs + values->run_count;
    uint32_t count = left->run_count + right->run_count;
    memcpy(sorted, values->runs + left->first_run, left->run_count * sizeof *sorted);
    memcpy(sorted + left->run_count, values->runs + right->first_run, right->run_count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_runs);
    for (uint32_t i = 1; i < count; i++)
        if (sorted[i].first <= sorted[i - 1].last)
            return false;
    return true;
}

static uint32_t out_of_memory(hki_values *values)
{
    values->no_memory = true;
    return HKI_NO_VALUE;
}

uint32_t hki_values_make(hki_values *values, hki_value_kind kind, uint32_t left, uint32_t right)
{
    if (kind == HKI_VALUE_FINISHED)
        right = 0;
    if (kind == HKI_VALUE_UNION && left == right)
        return left;
    uint32_t *known = find(values, kind, left, right);
    if (*known)
        return *known - 1;
    uint64_t runs = (uint64_t)values->items[left].run_count + values->items[right].run_count;
    if (!reserve(values, runs))
        return out_of_memory(values);
    const hki_value *a = &values->items[left], *b = &values->items[right];
    hki_value value = {.left = left, .right = right, .first_run = values->run_count, .kind = (uint8_t)kind};
    value.least = a->least < b->least ? a->least : b->least;
    value.most = a->most > b->most ? a->most : b->most;
    if (kind == HKI_VALUE_FINISHED) {
        value = *a;
        value.left = left;
        value.right = 0;
        value.kind = HKI_VALUE_FINISHED;
    } else if (kind == HKI_VALUE_UNION) {
        unite(values, &value, a, b);
        values->run_count += value.run_count;
    } else {
        if (!disjoint(values, a, b))
            return HKI_NO_VALUE;
        concatenate(values, &value, a, b);
        values->run_count += value.run_count;
    }
    values->items[values->count] = value;
    *find(values, kind, left, right) = ++values->count;
    return values->count - 1;
}

bool hki_value_is_exactly(const hki_values *values, uint32_t index, uint32_t first, uint32_t last)
{
    const hki_value *value = &values->items[index];
    return value->least == first && value->most == last && value->count == last - first + 1;
}

bool hki_value_in_order(const hki_values *values, uint32_t index)
{
    const hki_value *value = &values->items[index];
    for (uint32_t i = 1; i < value->run_count; i++)
        if (values->runs[value->first_run + i].first <= values->runs[value->first_run + i - 1].last)
            return false;
    return true;
}

void hki_value_text(const hki_values *values, uint32_t index, char *text, size_t size)
{
    const hki_value *value = &values->items[index];
    size_t length = 0;
    for (uint32_t i = 0; i < value->run_count && length < size; i++) {
        hki_run run = values->runs[value->first_run + i];
        int more =
            snprintf(text + length, size - length, run.first == run.last ? "%s%" PRIu32 : "%s%" PRIu32 "..%" PRIu32,
                     i ? "," : "", run.first, run.last);
        length += more > 0 ? (size_t)more : 0;
    }
}

#include "sched/intervals.h"

#include <stdlib.h>

/* The stretches form a treap: a search tree by `first` that is a heap by `priority`. A stretch ends where the next one
 * begins; the first begins at 0 and the last never ends, so that every index always lies in one. */
struct hki_stretch {
    uint32_t first;
    uint32_t writer;  /* HKI_NO_STEP: nobody yet */
    uint32_t readers; /* first cell of the list, NONE */
    uint32_t left, right, priority;
};

struct hki_reader {
    uint32_t step, next;
};

#define NONE UINT32_MAX

void *hki_grow(void *items, uint32_t *capacity, uint64_t needed, size_t size)
{
    if (needed <= *capacity)
        return items;
    uint64_t grown = *capacity ? 2 * (uint64_t)*capacity : 8;
    if (grown < needed)
        grown = needed;
    if (grown > UINT32_MAX)
        return NULL;
    void *moved = realloc(items, (size_t)grown * size);
    if (moved)
        *capacity = (uint32_t)grown;
    return moved;
}

bool hki_numbers_add(hki_numbers *numbers, uint32_t item)
{
    uint32_t *items =
        hki_grow(numbers->items, &numbers->capacity, (uint64_t)numbers->count + 1, sizeof *numbers->items);
    if (!items)
        return false;
    numbers->items = items;
    items[numbers->count++] = item;
    return true;
}

void hki_numbers_free(hki_numbers *numbers)
{
    free(numbers->items);
    *numbers = (hki_numbers){0};
}

void hki_intervals_init(hki_intervals *map)
{
    *map = (hki_intervals){.root = NONE, .free_stretch = NONE};
}

void hki_intervals_free(hki_intervals *map)
{
    free(map->stretches);
    free(map->readers);
    hki_intervals_init(map);
}

void hki_intervals_clear(hki_intervals *map)
{
    map->stretch_count = map->reader_count = 0;
    map->root = map->free_stretch = NONE;
}

/* Priorities need only look random: the finaliser of MurmurHash3 on the entry's number, so that runs are repeatable. */
static uint32_t priority_of(uint32_t entry)
{
    uint32_t hash = entry + 1;
    hash = (hash ^ hash >> 16) * 0x85ebca6bu;
    hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
    return hash ^ hash >> 16;
}

static uint32_t new_stretch(hki_intervals *map, uint32_t first, uint32_t writer, uint32_t readers)
{
    uint32_t entry = map->free_stretch;
    if (entry != NONE) {
        map->free_stretch = map->stretches[entry].left;
    } else {
        hki_stretch *grown =
            hki_grow(map->stretches, &map->stretch_capacity, (uint64_t)map->stretch_count + 1, sizeof *map->stretches);
        if (!grown)
            return NONE;
        map->stretches = grown;
        entry = map->stretch_count++;
    }
    map->stretches[entry] = (hki_stretch){first, writer, readers, NONE, NONE, priority_of(entry)};
    return entry;
}

/* Cuts a tree into the stretches that begin before `first` and the others. */
static void split(hki_intervals *map, uint32_t tree, uint32_t first, uint32_t *before, uint32_t *after)
{
    while (tree != NONE) {
        hki_stretch *stretch = &map->stretches[tree];
        if (stretch->first < first) {
            *before = tree;
            before = &stretch->right;
        } else {
            *after = tree;
            after = &stretch->left;
        }
        tree = stretch->first < first ? stretch->right : stretch->left;
    }
    *before = *after = NONE;
}

/* Joins two trees, all of `before` lying before all of `after`. */
static uint32_t join(hki_intervals *map, uint32_t before, uint32_t after)
{
    uint32_t root, *place = &root;
    while (before != NONE && after != NONE) {
        if (map->stretches[before].priority > map->stretches[after].priority) {
            *place = before;
            place = &map->stretches[before].right;
            before = *place;
        } else {
            *place = after;
            place = &map->stretches[after].left;
            after = *place;
        }
    }
    *place = before != NONE ? before : after;
    return root;
}

/* The stretch that `first` lies in; *end is where it ends (0: never). */
static uint32_t locate(const hki_intervals *map, uint32_t first, uint32_t *end)
{
    uint32_t found = NONE;
    *end = 0;
    for (uint32_t tree = map->root; tree != NONE;) {
        const hki_stretch *stretch = &map->stretches[tree];
        if (stretch->first <= first)
            found = tree;
        else
            *end = stretch->first;
        tree = stretch->first <= first ? stretch->right : stretch->left;
    }
    return found;
}

/* Puts a new stretch into the tree, where the one that its beginning lies in ends from now on. NONE: no memory. */
static uint32_t insert(hki_intervals *map, uint32_t first, uint32_t writer, uint32_t readers)
{
    uint32_t entry = new_stretch(map, first, writer, readers), *place = &map->root;
    if (entry == NONE)
        return NONE;
    hki_stretch *stretches = map->stretches, *made = &stretches[entry];
    while (*place != NONE && stretches[*place].priority > made->priority)
        place = stretches[*place].first < first ? &stretches[*place].right : &stretches[*place].left;
    split(map, *place, first, &made->left, &made->right);
    *place = entry;
    return entry;
}

/* At first one stretch is all there is. */
static bool begin(hki_intervals *map)
{
    if (map->root == NONE)
        map->root = new_stretch(map, 0, HKI_NO_STEP, NONE);
    return map->root != NONE;
}

/* Makes a stretch begin at `first`, by cutting the one that `first` lies in. */
static bool cut_at(hki_intervals *map, uint32_t first)
{
    uint32_t end, found = locate(map, first, &end);
    const hki_stretch whole = map->stretches[found];
    return whole.first == first || insert(map, first, whole.writer, whole.readers) != NONE;
}

/* The stretch that is exactly [first, first + count), made if need be of one that this lies in: the common case of a
 * block that has been touched before, or of a part of what nobody has. NONE: it lies in several, or no memory. */
static uint32_t one_stretch(hki_intervals *map, uint32_t first, uint32_t count)
{
    uint32_t end, found = begin(map) ? locate(map, first, &end) : NONE;
    if (found == NONE || (end && end < first + count))
        return NONE;
    const hki_stretch whole = map->stretches[found];
    if (end != first + count && insert(map, first + count, whole.writer, whole.readers) == NONE)
        return NONE;
    return whole.first == first ? found : insert(map, first, whole.writer, whole.readers);
}

/* Takes the stretches of [first, first + count) out of the map; the caller puts something back with put_back. */
static bool take_out(hki_intervals *map, uint32_t first, uint32_t count, uint32_t *before, uint32_t *middle,
                     uint32_t *after)
{
    if (!begin(map) || !cut_at(map, first) || !cut_at(map, first + count))
        return false;
    split(map, map->root, first, before, middle);
    split(map, *middle, first + count, middle, after);
    return true;
}

static void put_back(hki_intervals *map, uint32_t before, uint32_t middle, uint32_t after)
{
    map->root = join(map, join(map, before, middle), after);
}

static bool read_stretch(hki_intervals *map, hki_stretch *stretch, uint32_t step, hki_numbers *before)
{
    if (stretch->writer != HKI_NO_STEP && !hki_numbers_add(before, stretch->writer))
        return false;
    if (stretch->readers != NONE && map->readers[stretch->readers].step == step)
        return true;
    hki_reader *grown =
        hki_grow(map->readers, &map->reader_capacity, (uint64_t)map->reader_count + 1, sizeof *map->readers);
    if (!grown)
        return false;
    map->readers = grown;
    map->readers[map->reader_count] = (hki_reader){step, stretch->readers};
    stretch->readers = map->reader_count++;
    return true;
}

/* Appends what a writer of the stretch waits for. Where somebody has read since the last write, waiting for the readers
 * is enough: they waited for the writer. */
static bool overwrite_stretch(const hki_intervals *map, const hki_stretch *stretch, hki_numbers *before)
{
    if (stretch->readers == NONE && stretch->writer != HKI_NO_STEP)
        return hki_numbers_add(before, stretch->writer);
    for (uint32_t cell = stretch->readers; cell != NONE; cell = map->readers[cell].next)
        if (!hki_numbers_add(before, map->readers[cell].step))
            return false;
    return true;
}

/* Reads all stretches of a tree in order; its depth is logarithmic. */
static bool read_tree(hki_intervals *map, uint32_t tree, uint32_t step, hki_numbers *before)
{
    if (tree == NONE)
        return true;
    hki_stretch *stretch = &map->stretches[tree];
    return read_tree(map, stretch->left, step, before) && read_stretch(map, stretch, step, before) &&
           read_tree(map, stretch->right, step, before);
}

/* Overwrites all stretches of a tree in order, and frees them. */
static bool overwrite_tree(hki_intervals *map, uint32_t tree, hki_numbers *before)
{
    if (tree == NONE)
        return true;
    hki_stretch *stretch = &map->stretches[tree];
    if (!overwrite_tree(map, stretch->left, before) || !overwrite_stretch(map, stretch, before))
        return false;
    uint32_t right = stretch->right;
    stretch->left = map->free_stretch;
    map->free_stretch = tree;
    return overwrite_tree(map, right, before);
}

bool hki_intervals_read(hki_intervals *map, uint32_t first, uint32_t count, uint32_t step, hki_numbers *before)
{
    uint32_t known = one_stretch(map, first, count);
    if (known != NONE)
        return read_stretch(map, &map->stretches[known], step, before);
    uint32_t head, middle, tail;
    if (!take_out(map, first, count, &head, &middle, &tail))
        return false;
    bool done = read_tree(map, middle, step, before);
    put_back(map, head, middle, tail);
    return done;
}

bool hki_intervals_write(hki_intervals *map, uint32_t first, uint32_t count, uint32_t step, hki_numbers *before)
{
    uint32_t known = one_stretch(map, first, count);
    if (known != NONE) {
        bool known_done = overwrite_stretch(map, &map->stretches[known], before);
        map->stretches[known].writer = step;
        map->stretches[known].readers = NONE;
        return known_done;
    }
    uint32_t head, middle, tail;
    if (!take_out(map, first, count, &head, &middle, &tail))
        return false;
    if (!overwrite_tree(map, middle, before))
        return false;
    middle = new_stretch(map, first, step, NONE);
    put_back(map, head, middle, tail);
    return middle != NONE;
}

#include "topo/levels.h"

#include <stdlib.h>
#include <string.h>

/* A rank with its labels, the coarsest first, as it is sorted. */
typedef struct labelled {
    uint32_t label[HKI_LEVELS_MOST], rank;
} labelled;

static int compare(const void *left_rank, const void *right_rank)
{
    const labelled *left = left_rank, *right = right_rank;
    for (uint32_t i = 0; i < HKI_LEVELS_MOST; i++)
        if (left->label[i] != right->label[i])
            return left->label[i] < right->label[i] ? -1 : 1;
    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

static labelled *sort_ranks(uint32_t ranks, const uint32_t *const *labels, uint32_t count)
{
    labelled *sorted = calloc(ranks, sizeof *sorted);
    if (!sorted)
        return NULL;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        sorted[rank].rank = rank;
        for (uint32_t level = 0; level < count; level++)
            sorted[rank].label[count - 1 - level] = labels[level][rank];
    }
    qsort(sorted, ranks, sizeof *sorted, compare);
    return sorted;
}

/* Whether a group of a level, which looks at the `compared` coarsest labels, begins at this place. */
static bool begins(const labelled *sorted, uint32_t place, uint32_t compared)
{
    return place == 0 || memcmp(sorted[place].label, sorted[place - 1].label, compared * sizeof *sorted->label) != 0;
}

static uint32_t count_groups(const labelled *sorted, uint32_t ranks, uint32_t compared)
{
    uint32_t groups = 0;
    for (uint32_t place = 0; place < ranks; place++)
        groups += begins(sorted, place, compared);
    return groups;
}

static bool add_level(hki_levels *levels, const labelled *sorted, uint32_t compared, uint32_t groups)
{
    hki_level *level = &levels->level[levels->count++];
    *level = (hki_level){.groups = groups, .smallest = levels->ranks};
    level->start = malloc(((size_t)groups + 1) * sizeof *level->start);
    level->group = malloc(levels->ranks * sizeof *level->group);
    if (!level->start || !level->group)
        return false;
    for (uint32_t place = 0, group = 0; place < levels->ranks; place++) {
        if (begins(sorted, place, compared))
            level->start[group++] = place;
        level->group[place] = group - 1;
    }
    level->start[groups] = levels->ranks;
    for (uint32_t group = 0; group < groups; group++) {
        uint32_t size = level->start[group + 1] - level->start[group];
        level->smallest = size < level->smallest ? size : level->smallest;
        level->largest = size > level->largest ? size : level->largest;
    }
    return true;
}

/* Keeps what tells anything. */
static bool add_levels(hki_levels *levels, const labelled *sorted, uint32_t count, uint32_t split)
{
    uint32_t finer = levels->ranks;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t groups = count_groups(sorted, levels->ranks, count - i);
        if (groups > 1 && groups < finer) {
            if (i <= split)
                levels->split = levels->count;
            if (!add_level(levels, sorted, count - i, groups))
                return false;
        }
        finer = groups;
    }
    return true;
}

static bool add_places(hki_levels *levels, const labelled *sorted)
{
    levels->rank_at = malloc(levels->ranks * sizeof *levels->rank_at);
    levels->place_of = malloc(levels->ranks * sizeof *levels->place_of);
    if (!levels->rank_at || !levels->place_of)
        return false;
    levels->in_order = true;
    for (uint32_t place = 0; place < levels->ranks; place++) {
        levels->in_order &= sorted[place].rank == place;
        levels->rank_at[place] = sorted[place].rank;
        levels->place_of[sorted[place].rank] = place;
    }
    return true;
}

bool hki_levels_new(uint32_t ranks, const uint32_t *const *labels, uint32_t count, uint32_t split, hki_levels **levels)
{
    hki_levels *made = calloc(1, sizeof *made);
    labelled *sorted = sort_ranks(ranks, labels, count);
    bool complete = made && sorted;
    if (complete) {
        made->ranks = ranks;
        complete = add_levels(made, sorted, count, split) && add_places(made, sorted);
    }
    free(sorted);
    if (!complete || made->count == 0) {
        hki_levels_free(made);
        made = NULL;
    }
    *levels = made;
    return complete;
}

void hki_levels_free(hki_levels *levels)
{
    if (!levels)
        return;
    for (uint32_t i = 0; i < levels->count; i++) {
        free(levels->level[i].start);
        free(levels->level[i].group);
    }
    free(levels->rank_at);
    free(levels->place_of);
    free(levels);
}

bool hki_levels_equal(const hki_levels *left, const hki_levels *right)
{
    if (!left || !right)
        return left == right;
    if (left->ranks != right->ranks || left->count != right->count || left->split != right->split ||
        memcmp(left->rank_at, right->rank_at, left->ranks * sizeof *left->rank_at) != 0)
        return false;
    for (uint32_t i = 0; i < left->count; i++) {
        const hki_level *a = &left->level[i], *b = &right->level[i];
        if (a->groups != b->groups || memcmp(a->start, b->start, a->groups * sizeof *a->start) != 0)
            return false;
    }
    return true;
}

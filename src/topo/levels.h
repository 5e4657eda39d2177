/*
 * Ranks in groups within groups: those below one L3, of one NUMA node, package, host, switch. What hierarchical
 * algorithms see of a cluster. Plain values, equal on all ranks, made once and then only read.
 *
 * Levels are numbered from the finest, 0. Every group of a level lies within one group of the next. Above the last
 * level all ranks are one group; below the first each rank is one by itself. Neither is a level, nor is a partition
 * that is the same as another, so there may be no level at all. Ranks have *places*, from 0: sorted so that the ranks
 * of any group of any level are neighbours, and by rank within the finest.
 */
#ifndef HKI_TOPO_LEVELS_H
#define HKI_TOPO_LEVELS_H

#include <stdbool.h>
#include <stdint.h>

enum { HKI_LEVELS_MOST = 10 };

typedef struct hki_level {
    uint32_t groups;
    uint32_t *start;            /* groups + 1: place at which each begins */
    uint32_t *group;            /* by place */
    uint32_t smallest, largest; /* group, in ranks */
} hki_level;

typedef struct hki_levels {
    uint32_t ranks, count;
    bool in_order;  /* every rank's place is its number */
    uint32_t split; /* the level that two-level algorithms use: hosts, where there are several */
    hki_level level[HKI_LEVELS_MOST];
    uint32_t *rank_at;  /* by place */
    uint32_t *place_of; /* by rank */
} hki_levels;

/* Levels from labels: of each level, the finest first, a label for each rank; ranks are together on a level when their
 * labels are the same there and on all coarser ones. At most HKI_LEVELS_MOST. split: which of them two-level algorithms
 * are to use; where it is no level, the next finer one that is, else the next coarser. Without any level *levels is
 * NULL. False: no memory. */
bool hki_levels_new(uint32_t ranks, const uint32_t *const *labels, uint32_t count, uint32_t split, hki_levels **levels);
void hki_levels_free(hki_levels *levels);
bool hki_levels_equal(const hki_levels *left, const hki_levels *right);

#endif

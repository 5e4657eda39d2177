/* Cases at random, the same on every rank that draws from the same seed. */
#ifndef HKI_TESTS_COLLECTIVE_DRAW_H
#define HKI_TESTS_COLLECTIVE_DRAW_H

#include "collective_call.h"

typedef struct draw_source {
    uint64_t seed, drawn;
    const hki_levels *levels; /* which ranks share a host, as for hki_call */
} draw_source;

/* 0 … below - 1. */
uint64_t draw(draw_source *source, uint64_t below);

/* Where counts have their edges. */
typedef enum draw_size {
    DRAW_NOTHING,
    DRAW_ONE,
    DRAW_BELOW_RANKS,
    DRAW_AROUND_RANKS, /* P … 3P: most are not divisible */
    DRAW_LINES,        /* around a multiple of a cache line */
    DRAW_SMALL,        /* up to 300 elements */
    DRAW_EAGER,        /* around the largest message that is sent unasked */
    DRAW_SLOTS,        /* 70 … 300 KB */
    DRAW_LARGE,        /* above 1 MiB */
    DRAW_SIZES
} draw_size;

/* Fills a case for the algorithm: type and operator,
 * root, counts, layout and the way of calling. eager: bytes. */
void draw_case(draw_source *source, const hki_algorithm *algorithm, int ranks, uint32_t segments, draw_size size,
               size_t eager, call_case *drawn);
/* The same for a given type and operator. */
void draw_case_of(draw_source *source, const hki_algorithm *algorithm, int ranks, uint32_t segments, draw_size size,
                  size_t eager, hk_type type, int op, call_case *drawn);
/* Whether the algorithm serves the operator on these ranks: not all keep rank order, some need as many ranks on each
 * host, and a prefix has no average. */
bool draw_serves(const hki_algorithm *algorithm, int ranks, const hki_levels *levels, int op);

#endif

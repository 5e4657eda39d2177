#include "algo/index.h"

#include <assert.h>

uint32_t hki_log2_floor(uint32_t n)
{
    return 31u - (uint32_t)__builtin_clz(n);
}

uint32_t hki_log2_ceil(uint32_t n)
{
    return n <= 1 ? 0 : hki_log2_floor(n - 1) + 1;
}

uint32_t hki_ahead(uint32_t size, uint32_t member, uint32_t distance)
{
    return (uint32_t)(((uint64_t)member + distance) % size);
}

uint32_t hki_behind(uint32_t size, uint32_t member, uint32_t distance)
{
    return (uint32_t)(((uint64_t)member + size - distance) % size);
}

uint32_t hki_smooth_floor(uint32_t size, uint32_t radix)
{
    uint32_t best = 1u << hki_log2_floor(size);
    if (radix < 3)
        return best;
    for (uint64_t threes = 3; threes <= size; threes *= 3) {
        uint64_t smooth = threes << hki_log2_floor(size / (uint32_t)threes);
        if (smooth > best)
            best = (uint32_t)smooth;
    }
    return best;
}

hki_radices hki_factors(uint32_t smooth, uint32_t radix)
{
    hki_radices result = {0};
    for (uint32_t factor = radix; factor >= 2; factor--)
        while (smooth % factor == 0) {
            result.radix[result.count++] = factor;
            smooth /= factor;
        }
    assert(smooth == 1);
    return result;
}

hki_fold hki_fold_to(uint32_t size, uint32_t core, uint32_t member)
{
    hki_fold fold = {.size = size, .core = core, .excess = size - core, .index = member, .partner = HKI_NOBODY};
    if (member >= 2 * fold.excess) {
        fold.index = member - fold.excess;
        return fold;
    }
    fold.partner = member ^ 1u;
    fold.index = member % 2 == 0 ? member / 2 : HKI_NOBODY;
    return fold;
}

uint32_t hki_fold_member(const hki_fold *fold, uint32_t i)
{
    return i < fold->excess ? 2 * i : i + fold->excess;
}

hki_turn hki_turn_of(uint32_t size, uint32_t round, uint32_t member)
{
    if ((size & (size - 1)) == 0)
        return (hki_turn){member ^ round, member ^ round};
    uint32_t distance = round % 2 ? (round + 1) / 2 : size - round / 2; /* 1, -1, 2, -2, … */
    return (hki_turn){hki_ahead(size, member, distance), hki_behind(size, member, distance)};
}

/* The first block that the member at `distance` ever gets: the smallest skip on its canonical path from the root. */
static uint32_t first_block(const hki_circulant *graph, uint32_t distance)
{
    uint32_t reached = 0;
    for (uint32_t k = graph->rounds; k-- > 0;) {
        if (reached + graph->skip[k] == distance)
            return k;
        if (reached + graph->skip[k] < distance)
            reached += graph->skip[k];
    }
    return graph->rounds;
}

/* The depth-first search for the blocks that one member receives: block e of an earlier phase comes from the member
 * that is `bound` at most away along canonical paths, each path using skips not taken yet, and each found member being
 * closer than the one before. */
typedef struct search {
    const hki_circulant *graph;
    uint64_t target;  /* distance + size, so that it can be reached from the phase before */
    uint64_t bound;   /* the next member found must lie below */
    uint64_t free;    /* bit e: skip e was not taken by an earlier round */
    uint32_t found;   /* rounds that have a block */
    int32_t *receive; /* skip indices by round */
} search;

static void find_blocks(search *state, uint64_t reached, uint32_t largest)
{
    const uint32_t *skip = state->graph->skip;
    for (uint32_t e = largest + 1; e-- > 0 && state->found < state->graph->rounds;) {
        uint64_t candidate = reached + skip[e];
        if (!(state->free >> e & 1) || candidate + skip[state->found] > state->target || candidate >= state->bound)
            continue;
        if (candidate + skip[state->found + 1] <= state->target)
            find_blocks(state, candidate, e);
        if (state->found == state->graph->rounds || reached + skip[state->found + 1] > state->target)
            return;
        state->bound = candidate;
        state->receive[state->found++] = (int32_t)e;
        state->free &= ~(UINT64_C(1) << e);
    }
}

/* Blocks received by the member at `distance`, round by round, in the first phase. */
static void receive_schedule(const hki_circulant *graph, uint32_t size, uint32_t distance, int32_t *receive)
{
    uint32_t own = first_block(graph, distance);
    search state = {.graph = graph,
                    .target = (uint64_t)distance + size,
                    .bound = 2 * (uint64_t)size,
                    .free = ((UINT64_C(2) << graph->rounds) - 1) & ~(UINT64_C(1) << own),
                    .receive = receive};
    find_blocks(&state, 0, graph->rounds);
    assert(distance == 0 || state.found == graph->rounds);
    for (uint32_t k = 0; k < state.found; k++)
        receive[k] = receive[k] == (int32_t)graph->rounds ? (int32_t)own : receive[k] - (int32_t)graph->rounds;
}

void hki_circulant_schedule(uint32_t size, uint32_t distance, hki_circulant *result)
{
    result->rounds = hki_log2_ceil(size);
    result->skip[result->rounds] = size;
    for (uint32_t k = result->rounds; k-- > 0;)
        result->skip[k] = result->skip[k + 1] / 2 + result->skip[k + 1] % 2;
    for (uint32_t k = 0; k < result->rounds; k++)
        result->receive[k] = -1 - (int32_t)k;
    if (distance != 0)
        receive_schedule(result, size, distance, result->receive);
    for (uint32_t k = 0; k < result->rounds; k++) {
        int32_t neighbour[HKI_MAX_ROUNDS];
        uint32_t to = hki_ahead(size, distance, result->skip[k]);
        if (distance == 0) {
            result->send[k] = (int32_t)k;
        } else if (to == 0) {
            result->send[k] = -1;
        } else {
            receive_schedule(result, size, to, neighbour);
            result->send[k] = neighbour[k];
        }
    }
}

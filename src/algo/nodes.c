#include "algo/nodes.h"

#include <stdlib.h>

static const hki_level *level_of(const hki_nodes *nodes)
{
    return &nodes->levels->level[nodes->levels->split];
}

static uint32_t start_of(const hki_nodes *nodes, uint32_t node)
{
    return nodes->levels ? level_of(nodes)->start[node] : 0;
}

hki_nodes hki_nodes_of(const hki_call *call)
{
    hki_nodes nodes = {.levels = call->levels, .ranks = call->ranks, .count = 1, .member = call->rank};
    if (call->levels) {
        uint32_t place = call->levels->place_of[call->rank];
        nodes.count = level_of(&nodes)->groups;
        nodes.own = level_of(&nodes)->group[place];
        nodes.member = place - start_of(&nodes, nodes.own);
    }
    return nodes;
}

uint32_t hki_node_size(const hki_nodes *nodes, uint32_t node)
{
    return nodes->levels ? level_of(nodes)->start[node + 1] - start_of(nodes, node) : nodes->ranks;
}

uint32_t hki_node_rank(const hki_nodes *nodes, uint32_t node, uint32_t member)
{
    return nodes->levels ? nodes->levels->rank_at[start_of(nodes, node) + member] : member;
}

bool hki_nodes_even(const hki_nodes *nodes)
{
    return !nodes->levels || level_of(nodes)->smallest == level_of(nodes)->largest;
}

hki_group hki_nodes_own(const hki_nodes *nodes)
{
    hki_group group = {.size = hki_node_size(nodes, nodes->own), .rank = nodes->member, .stride = 1};
    if (nodes->levels)
        group.map = nodes->levels->rank_at + start_of(nodes, nodes->own);
    return group;
}

static int compare_fractions(const void *a, const void *b)
{
    const hki_fraction *left = a, *right = b;
    uint64_t l = (uint64_t)left->numerator * right->denominator, r = (uint64_t)right->numerator * left->denominator;
    return (l > r) - (l < r);
}

/* Edges for every size of node, ascending and each once; returns how many. Room for as many as there are ranks and
 * nodes together. */
static uint32_t add_edges(const hki_nodes *nodes, uint8_t *seen, hki_fraction *edges)
{
    uint32_t count = 0, kept = 0;
    for (uint32_t node = 0; node < (hki_nodes_even(nodes) ? 1 : nodes->count); node++) {
        uint32_t size = hki_node_size(nodes, node);
        for (uint32_t i = 0; i <= size && !seen[size]; i++)
            edges[count++] = (hki_fraction){i, size};
        seen[size] = 1;
    }
    if (hki_nodes_even(nodes))
        return count;
    qsort(edges, count, sizeof *edges, compare_fractions);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || compare_fractions(&edges[kept - 1], &edges[i]) != 0)
            edges[kept++] = edges[i];
    return kept;
}

/* a + (b - a)·i/cuts, whose denominator is at most that of a times that of b times cuts. */
static hki_fraction between(hki_fraction a, hki_fraction b, uint32_t i, uint32_t cuts)
{
    if (i == 0)
        return a;
    if (a.denominator == b.denominator)
        return (hki_fraction){a.numerator * cuts + (b.numerator - a.numerator) * i, a.denominator * cuts};
    uint32_t left = a.numerator * b.denominator, right = b.numerator * a.denominator;
    return (hki_fraction){left * cuts + (right - left) * i, a.denominator * b.denominator * cuts};
}

bool hki_nodes_refinable(const hki_nodes *nodes, uint32_t cuts)
{
    if (!nodes->levels)
        return (uint64_t)nodes->ranks * cuts <= UINT32_MAX;
    uint64_t largest = level_of(nodes)->largest, second = hki_nodes_even(nodes) || cuts == 1 ? 1 : largest;
    return largest * second <= UINT32_MAX && largest * second * cuts <= UINT32_MAX;
}

hki_fraction *hki_nodes_refine(const hki_nodes *nodes, uint32_t cuts, uint32_t *parts)
{
    uint8_t *seen = calloc((size_t)nodes->ranks + 1, 1); /* sizes already cut for */
    hki_fraction *edges = malloc(((size_t)nodes->ranks + nodes->count + 1) * sizeof *edges), *fine = NULL;
    uint32_t count = seen && edges ? add_edges(nodes, seen, edges) : 0, cut = 0;
    if (count > 0 && hki_nodes_refinable(nodes, cuts))
        fine = malloc((((size_t)count - 1) * cuts + 1) * sizeof *fine);
    for (uint32_t i = 0; fine && i + 1 < count; i++)
        for (uint32_t j = 0; j < cuts; j++)
            fine[cut++] = between(edges[i], edges[i + 1], j, cuts);
    if (fine)
        fine[cut] = edges[count - 1];
    free(seen);
    free(edges);
    *parts = cut;
    return fine;
}

uint32_t hki_nodes_owner(const hki_nodes *nodes, uint32_t node, hki_fraction edge)
{
    uint64_t share = (uint64_t)edge.numerator * hki_node_size(nodes, node) / edge.denominator;
    return hki_node_rank(nodes, node, (uint32_t)share);
}

uint32_t hki_nodes_block(const hki_fraction *edges, uint32_t parts, uint32_t share, uint32_t shares)
{
    hki_fraction wanted = {share, shares};
    uint32_t low = 0, high = parts;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (compare_fractions(&edges[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

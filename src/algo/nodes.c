#include "algo/nodes.h"

#include <stdlib.h>

static uint32_t node_of(const hki_call *call, uint32_t rank)
{
    return call->nodes ? call->nodes[rank] : 0;
}

bool hki_nodes_find(const hki_call *call, hki_nodes *nodes)
{
    *nodes = (hki_nodes){.own = node_of(call, call->rank)};
    for (uint32_t rank = 0; rank < call->ranks; rank++)
        if (node_of(call, rank) >= nodes->count)
            nodes->count = node_of(call, rank) + 1;
    nodes->start = calloc((size_t)nodes->count + 2, sizeof *nodes->start);
    nodes->ranks = malloc(call->ranks * sizeof *nodes->ranks);
    if (!nodes->start || !nodes->ranks) {
        hki_nodes_free(nodes);
        return false;
    }
    /* Counting sort: start[n + 2] counts node n, then start[n + 1] is where its next rank goes. */
    for (uint32_t rank = 0; rank < call->ranks; rank++)
        nodes->start[node_of(call, rank) + 2]++;
    for (uint32_t node = 0; node < nodes->count; node++)
        nodes->start[node + 2] += nodes->start[node + 1];
    for (uint32_t rank = 0; rank < call->ranks; rank++) {
        uint32_t place = nodes->start[node_of(call, rank) + 1]++;
        nodes->ranks[place] = rank;
        if (rank == call->rank)
            nodes->member = place;
    }
    nodes->member -= nodes->start[nodes->own];
    return true;
}

void hki_nodes_free(hki_nodes *nodes)
{
    free(nodes->start);
    free(nodes->ranks);
    nodes->start = nodes->ranks = NULL;
}

uint32_t hki_node_size(const hki_nodes *nodes, uint32_t node)
{
    return nodes->start[node + 1] - nodes->start[node];
}

static int compare_fractions(const void *a, const void *b)
{
    const hki_fraction *left = a, *right = b;
    uint64_t l = (uint64_t)left->numerator * right->denominator, r = (uint64_t)right->numerator * left->denominator;
    return (l > r) - (l < r);
}

hki_fraction *hki_nodes_refine(const hki_nodes *nodes, uint32_t *parts)
{
    uint32_t total = nodes->start[nodes->count], count = 0, kept = 0;
    uint8_t *seen = calloc((size_t)total + 1, 1);                                 /* node sizes already cut for */
    hki_fraction *edges = malloc(((size_t)total + nodes->count) * sizeof *edges); /* a node of m ranks gives m + 1 */
    for (uint32_t node = 0; seen && edges && node < nodes->count; node++) {
        uint32_t size = hki_node_size(nodes, node);
        for (uint32_t i = 0; i <= size && size && !seen[size]; i++)
            edges[count++] = (hki_fraction){i, size};
        seen[size] = 1;
    }
    if (!seen || !edges) {
        free(seen);
        free(edges);
        return NULL;
    }
    free(seen);
    qsort(edges, count, sizeof *edges, compare_fractions);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || compare_fractions(&edges[kept - 1], &edges[i]) != 0)
            edges[kept++] = edges[i];
    *parts = kept - 1;
    return edges;
}

uint32_t hki_nodes_owner(const hki_nodes *nodes, uint32_t node, hki_fraction edge)
{
    uint64_t share = (uint64_t)edge.numerator * hki_node_size(nodes, node) / edge.denominator;
    return nodes->ranks[nodes->start[node] + share];
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

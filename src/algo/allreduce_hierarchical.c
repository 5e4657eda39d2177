/*
 * Hierarchical all-reduce, three levels composed: reduce-scatter on a ring within each node, recursive doubling among
 * the ranks of different nodes that hold the same block, all-gather on the ring within each node. With m ranks on each
 * of N nodes: 2(m-1) + log2 N rounds, and only n/m log2 N bytes a rank between nodes. Nodes may differ in size: the
 * vector is cut where any node's shares begin, and every such block has a group of its own, one rank of each node. R.
 * Thakur, W. Gropp, 2003; multi-leader form as in DPML (M. Bayatpour et al., 2017).
 */
#include "algo/generators.h"
#include "algo/nodes.h"

#include <stdlib.h>

static void cut(const hki_call *call, hki_shape *shape)
{
    hki_nodes nodes = hki_nodes_of(call);
    uint32_t parts;
    hki_fraction *edges = hki_nodes_refine(&nodes, 1, &parts);
    hki_grid grid = {.cut = HKI_CUT_FRACTION, .parts = parts, .segments = call->segments, .edges = edges};
    shape->segments = call->segments;
    shape->grid[HKI_INPUT] = shape->grid[HKI_OUTPUT] = grid; /* without edges: out of memory, as the caller sees */
}

/* Every block of this rank's share is reduced among its owners in all nodes. */
static void reduce_across(hki_builder *builder, const hki_nodes *nodes, const hki_region *own, uint32_t *map)
{
    const hki_grid *grid = &hki_builder_shape(builder)->grid[HKI_OUTPUT];
    for (uint32_t i = 0; i < own->shares; i++) {
        for (uint32_t node = 0; node < nodes->count; node++)
            map[node] = hki_nodes_owner(nodes, node, grid->edges[(own->first + i) / grid->segments]);
        hki_group owners = {.size = nodes->count, .rank = nodes->own, .map = map};
        hki_span block = hki_share(own, i);
        hki_multiplying_allreduce(builder, &owners, 2, block, block, true);
    }
}

static void generate_levels(hki_builder *builder, const hki_nodes *nodes, uint32_t *shares, uint32_t *map)
{
    const hki_grid *grid = &hki_builder_shape(builder)->grid[HKI_OUTPUT];
    hki_group node = hki_nodes_own(nodes);
    for (uint32_t i = 0; i <= node.size; i++)
        shares[i] = hki_nodes_block(grid->edges, grid->parts, i, node.size) * grid->segments;
    hki_region input = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, 1);
    input.shares = output.shares = node.size;
    input.edges = output.edges = shares;
    hki_region own = hki_subregion(&output, node.rank, 1);
    hki_ring ring = {.segments = grid->segments};
    hki_ring_reduce_scatter(builder, &node, ring, &input, &output, &own, nodes->count == 1);
    if (nodes->count > 1) {
        hki_region blocks = hki_recut(&own, shares[node.rank + 1] - shares[node.rank]);
        reduce_across(builder, nodes, &blocks, map);
    }
    hki_ring_allgather(builder, &node, ring, &own, &output);
}

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_nodes nodes = hki_nodes_of(call);
    uint32_t size = hki_node_size(&nodes, nodes.own);
    uint32_t *shares = malloc(((size_t)size + 1) * sizeof *shares), *map = malloc(nodes.count * sizeof *map);
    if (shares && map)
        generate_levels(builder, &nodes, shares, map);
    else
        hki_builder_no_memory(builder);
    free(shares);
    free(map);
}

/* The forms hold for nodes of equal size; others have none (not a number). */
static double rounds(const hki_call *call)
{
    hki_nodes nodes = hki_nodes_of(call);
    uint32_t size = hki_node_size(&nodes, 0), log = hki_log2_floor(nodes.count);
    if (!hki_nodes_even(&nodes))
        return __builtin_nan("");
    return 2.0 * (size - 1) + log + (nodes.count == 1u << log ? 0 : 2);
}

static double sent(const hki_call *call)
{
    hki_nodes nodes = hki_nodes_of(call);
    uint32_t size = hki_node_size(&nodes, 0), log = hki_log2_floor(nodes.count);
    if (!hki_nodes_even(&nodes))
        return __builtin_nan("");
    return (2.0 * (size - 1) + log + (nodes.count == 1u << log ? 0 : 1)) / size;
}

static hki_alike alike(const hki_call *call)
{
    hki_nodes nodes = hki_nodes_of(call);
    return hki_nodes_even(&nodes) && (nodes.count & (nodes.count - 1)) == 0 ? HKI_ALIKE : HKI_UNLIKE;
}

const hki_algorithm hki_algorithm_allreduce_hierarchical = {
    .name = "hierarchical",
    .summary = "within nodes, across them, within them again",
    .source = "Bayatpour et al. 2017 (DPML)",
    .segmented = true,
    .hierarchical = true,
    .cut = cut,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "2(m-1) + log2 N (+2 unless N = 2^k)",
    .sent_text = "(2(m-1) + log2 N)/m n",
    .scratch_text = "2n/m",
    .alike = alike,
};

/*
 * Broadcast by lanes: the root hands each rank of its node a slice, every slice goes down a binomial tree over its
 * owners in all nodes, and each node gathers on a ring. With m ranks on each of N nodes: m + log2 N rounds, and every
 * rank drives 1/m of what leaves a node. Nodes may differ in size. J. L. Träff, S. Hunold: Decomposing MPI collectives
 * for exploiting multi-lane communication, 2020.
 */
#include "algo/sliced.h"

static void cut(const hki_call *call, hki_shape *shape)
{
    hki_sliced_cut(call, shape, 1);
}

static void spread(hki_builder *builder, const hki_group *owners, uint32_t root, hki_span slice)
{
    hki_tree tree = hki_tree_knomial(owners->size, root, owners->rank, 2);
    hki_tree_broadcast(builder, owners, &tree, slice);
}

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_sliced_broadcast(builder, call, spread);
}

/* The forms hold for nodes of equal size; others have none (not a number). */
static double rounds(const hki_call *call)
{
    hki_nodes nodes = hki_nodes_of(call);
    uint32_t size = hki_node_size(&nodes, 0);
    return hki_nodes_even(&nodes) ? hki_tree_knomial_depth(nodes.count, 2) + (size > 1 ? size : 0) : __builtin_nan("");
}

static double sent(const hki_call *call)
{
    hki_nodes nodes = hki_nodes_of(call);
    uint32_t size = hki_node_size(&nodes, 0);
    return hki_nodes_even(&nodes) ? (2.0 * (size - 1) + hki_log2_ceil(nodes.count)) / size : __builtin_nan("");
}

const hki_algorithm hki_algorithm_broadcast_lanes = {
    .name = "lanes",
    .summary = "slices over all ranks of a node, binomial across, ring all-gather",
    .source = "Träff, Hunold 2020 (multi-lane)",
    .segmented = true,
    .hierarchical = true,
    .sliced = true,
    .cut = cut,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "m + log2 N",
    .sent_text = "(2(m-1) + log2 N)/m n",
    .scratch_text = "none",
};

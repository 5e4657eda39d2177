/*
 * Hierarchical all-reduce, three levels composed: reduce-scatter on a ring within each node, recursive doubling among
 * the ranks of different nodes that hold the same block, all-gather on the ring within each node. With m ranks on each
 * of N nodes: 2(m-1) + log2 N rounds, and only n/m log2 N bytes a rank between nodes. Nodes may differ in size: the
 * vector is cut where any node's shares begin, and every such block has a group of its own, one rank of each node. R.
 * Thakur, W. Gropp, 2003; multi-leader form as in DPML (M. Bayatpour et al., 2017).
 */
#include "algo/sliced.h"

static void cut(const hki_call *call, hki_shape *shape)
{
    hki_sliced_cut(call, shape, 1);
}

static void exchange(hki_builder *builder, const hki_group *owners, const hki_region *part)
{
    hki_multiplying_allreduce(builder, owners, 2, hki_all(part), hki_all(part), true);
}

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_sliced_allreduce(builder, call, 1, exchange);
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
    if (!hki_nodes_even(&nodes))
        return HKI_UNLIKE;
    return (nodes.count & (nodes.count - 1)) == 0 ? HKI_ALIKE : HKI_ALIKE_IN_NODES;
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

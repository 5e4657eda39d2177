/*
 * Hierarchical all-reduce with rings across: reduce-scatter on a ring within each node, ring all-reduce of every slice
 * among its owners in all nodes, all-gather within. With m ranks on each of N nodes: 2(m-1) + 2(N-1) rounds, and only
 * 2(N-1)/(N m) of the vector a rank between nodes, the least possible. Nodes may differ in size. P. Patarasuk, X. Yuan,
 * 2009; M. Cho, U. Finkler, D. Kung, H. Hunter: BlueConnect, 2019.
 */
#include "algo/sliced.h"

static uint32_t count_nodes(const hki_call *call)
{
    return hki_nodes_of(call).count;
}

static void cut(const hki_call *call, hki_shape *shape)
{
    hki_sliced_cut(call, shape, count_nodes(call));
}

static void ring(hki_builder *builder, const hki_group *owners, const hki_region *part)
{
    hki_ring_allreduce(builder, owners, (hki_ring){.segments = 1}, part, part, true);
}

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_sliced_allreduce(builder, call, count_nodes(call), ring);
}

static const char *refuses(const hki_call *call)
{
    return hki_sliced_refuses(call, count_nodes(call));
}

/* The forms hold for nodes of equal size; others have none (not a number). */
static double rounds(const hki_call *call)
{
    hki_nodes nodes = hki_nodes_of(call);
    uint32_t size = hki_node_size(&nodes, 0);
    return hki_nodes_even(&nodes) ? 2.0 * (size - 1) + 2.0 * (nodes.count - 1) : __builtin_nan("");
}

static double sent(const hki_call *call)
{
    hki_nodes nodes = hki_nodes_of(call);
    uint32_t size = hki_node_size(&nodes, 0);
    return hki_nodes_even(&nodes) ? (2.0 * (size - 1) + 2.0 * (nodes.count - 1) / nodes.count) / size
                                  : __builtin_nan("");
}

static hki_alike alike(const hki_call *call)
{
    hki_nodes nodes = hki_nodes_of(call);
    return hki_nodes_even(&nodes) ? HKI_ALIKE : HKI_UNLIKE;
}

const hki_algorithm hki_algorithm_allreduce_hierarchical_ring = {
    .name = "hierarchical_ring",
    .summary = "on rings within nodes, across them, within them again",
    .source = "Cho et al. 2019 (BlueConnect)",
    .segmented = true,
    .hierarchical = true,
    .refuses = refuses,
    .cut = cut,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "2(m-1) + 2(N-1)",
    .sent_text = "(2(m-1) + 2(N-1)/N)/m n",
    .scratch_text = "none",
    .alike = alike,
};

/*
 * Hierarchical all-reduce with Rabenseifner's algorithm across: reduce-scatter on a ring within each node, halving and
 * doubling of every slice among its owners in all nodes, all-gather within. With m ranks on each of N = 2^k nodes:
 * 2(m-1) + 2 log2 N rounds, and only 2(N-1)/(N m) of the vector a rank between nodes; other N fold to a power of two.
 * Nodes may differ in size. R. Thakur, R. Rabenseifner, W. Gropp, 2005.
 */
#include "algo/sliced.h"

static uint32_t count_core(const hki_call *call)
{
    return hki_smooth_floor(hki_nodes_of(call).count, 2);
}

static void cut(const hki_call *call, hki_shape *shape)
{
    hki_sliced_cut(call, shape, count_core(call));
}

static void halve_and_double(hki_builder *builder, const hki_group *owners, const hki_region *part)
{
    hki_knomial_allreduce(builder, owners, 2, part, part);
}

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_sliced_allreduce(builder, call, count_core(call), halve_and_double);
}

static const char *refuses(const hki_call *call)
{
    return hki_sliced_refuses(call, count_core(call));
}

/* The forms hold for nodes of equal size; others have none (not a number). */
static double rounds(const hki_call *call)
{
    hki_nodes nodes = hki_nodes_of(call);
    uint32_t size = hki_node_size(&nodes, 0), core = count_core(call);
    double across = 2.0 * hki_log2_floor(core) + (core == nodes.count ? 0 : 2);
    return hki_nodes_even(&nodes) ? 2.0 * (size - 1) + across : __builtin_nan("");
}

/* By the owner in a node of which two fold into one, where there are such. */
static double sent(const hki_call *call)
{
    hki_nodes nodes = hki_nodes_of(call);
    uint32_t size = hki_node_size(&nodes, 0), core = count_core(call);
    double across = 2.0 * (core - 1) / core + (core == nodes.count ? 0 : 1);
    return hki_nodes_even(&nodes) ? (2.0 * (size - 1) + across) / size : __builtin_nan("");
}

static hki_alike alike(const hki_call *call)
{
    hki_nodes nodes = hki_nodes_of(call);
    if (!hki_nodes_even(&nodes))
        return HKI_UNLIKE;
    return count_core(call) == nodes.count ? HKI_ALIKE : HKI_ALIKE_IN_NODES;
}

const hki_algorithm hki_algorithm_allreduce_hierarchical_rabenseifner = {
    .name = "hierarchical_rabenseifner",
    .summary = "on a ring within nodes, halving and doubling across them",
    .source = "Thakur, Rabenseifner, Gropp 2005",
    .segmented = true,
    .hierarchical = true,
    .refuses = refuses,
    .cut = cut,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "2(m-1) + 2 log2 N (+2 unless N = 2^k)",
    .sent_text = "(2(m-1) + 2(N-1)/N)/m n",
    .scratch_text = "none",
    .alike = alike,
};

/*
 * Reduce by lanes: reduce-scatter on a ring within each node, every slice then by Bruck's ranges and a binomial gather
 * among its owners in all nodes, and from the root's node to the root. With m ranks on each of N nodes: m + 2 log2 N
 * rounds, and about 3/(2 m) of the vector a rank between nodes. Nodes may differ in size. R. Rabenseifner, 2004
 * (reduce-scatter and gather); J. L. Träff, S. Hunold: Decomposing MPI collectives for exploiting multi-lane
 * communication, 2020.
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

static void collect(hki_builder *builder, const hki_group *owners, uint32_t root, const hki_region *part)
{
    hki_span own = hki_share(part, owners->rank);
    hki_bruck_reduce_scatter(builder, owners, 2, part, part, own, true);
    hki_knomial_gather(builder, owners, 2, root, own, part);
}

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_sliced_reduce(builder, call, count_nodes(call), collect);
}

static const char *refuses(const hki_call *call)
{
    return hki_sliced_refuses(call, count_nodes(call));
}

/* The forms hold for nodes of equal size; others have none (not a number). */
static double rounds(const hki_call *call)
{
    hki_nodes nodes = hki_nodes_of(call);
    uint32_t size = hki_node_size(&nodes, 0), log = hki_log2_ceil(nodes.count);
    return hki_nodes_even(&nodes) ? size + log + hki_tree_knomial_depth(nodes.count, 2) - (size == 1)
                                  : __builtin_nan("");
}

/* By a rank that hands on half of its slice between nodes, in the root's node also the slice itself. */
static double sent(const hki_call *call)
{
    hki_nodes nodes = hki_nodes_of(call);
    double size = hki_node_size(&nodes, 0), count = nodes.count;
    if (!hki_nodes_even(&nodes))
        return __builtin_nan("");
    double subtree = hki_knomial_largest_subtree(nodes.count, 2) / count, home = size > 1 ? 1 : 0;
    return (size - 1 + (count - 1) / count + (subtree > home ? subtree : home)) / size;
}

const hki_algorithm hki_algorithm_reduce_lanes = {
    .name = "lanes",
    .summary = "on rings within nodes, slices by halving across, to the root's node and the root",
    .source = "Rabenseifner 2004; Träff, Hunold 2020 (multi-lane)",
    .hierarchical = true,
    .refuses = refuses,
    .cut = cut,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "m + 2 log2 N",
    .sent_text = "up to (m-1 + 2)/m n",
    .scratch_text = "n",
};

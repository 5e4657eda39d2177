/*
 * All-reduce with one leader a node: up a tree within each node, recursive doubling among the leaders, down the tree
 * again. Few messages between nodes, each of the whole vector: for short ones. A node's tree follows the levels
 * within it. N. T. Karonis et al., 2000; R. Thakur, R. Rabenseifner, W. Gropp, 2005 (recursive doubling).
 */
#include "algo/hierarchy.h"
#include "algo/nodes.h"

#include <stdlib.h>

static void reduce_across(hki_builder *builder, const hki_nodes *nodes, hki_span source, hki_span destination)
{
    uint32_t *map = malloc(nodes->count * sizeof *map);
    if (!map) {
        hki_builder_no_memory(builder);
        return;
    }
    for (uint32_t node = 0; node < nodes->count; node++)
        map[node] = hki_node_rank(nodes, node, 0);
    hki_group leaders = {.size = nodes->count, .rank = nodes->own, .map = map};
    hki_multiplying_allreduce(builder, &leaders, 2, source, destination, true);
    free(map);
}

/* The tier whose parts are the nodes. */
static uint32_t node_tier(const hki_call *call)
{
    return call->levels ? call->levels->split + 1 : hki_top(call);
}

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_nodes nodes = hki_nodes_of(call);
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, 1);
    hki_span source = hki_all(&input), result = hki_all(&output);
    hki_tree tree = hki_hierarchy_tree(call, node_tier(call), hki_node_rank(&nodes, nodes.own, 0));
    if (hki_node_size(&nodes, nodes.own) > 1) {
        hki_tree_reduce(builder, &everyone, &tree, source, result, nodes.count == 1);
        source = result;
    }
    if (nodes.member == 0 && nodes.count > 1)
        reduce_across(builder, &nodes, source, result);
    hki_tree_broadcast(builder, &everyone, &tree, result);
}

/* Of the tiers within a node, as they are in each. */
static void add_tiers(const hki_call *call, double *depth, double *children)
{
    *depth = *children = 0;
    for (uint32_t tier = 1; tier <= node_tier(call); tier++) {
        uint32_t fan = hki_tier_fan(call, tier);
        *depth += fan ? hki_tree_knomial_depth(fan, 2) : __builtin_nan("");
        *children += fan ? hki_log2_ceil(fan) : __builtin_nan("");
    }
}

static double rounds(const hki_call *call)
{
    double depth, children;
    add_tiers(call, &depth, &children);
    uint32_t nodes = hki_nodes_of(call).count, log = hki_log2_floor(nodes);
    return children + depth + log + (nodes == 1u << log ? 0 : 2);
}

/* By the leader of a node of which two fold into one, where there are such. */
static double sent(const hki_call *call)
{
    double depth, children;
    add_tiers(call, &depth, &children);
    uint32_t nodes = hki_nodes_of(call).count, log = hki_log2_floor(nodes);
    return children + log + (nodes == 1u << log ? 0 : 1);
}

const hki_algorithm hki_algorithm_allreduce_leader = {
    .name = "leader",
    .summary = "up within nodes, recursive doubling of their leaders, down again",
    .source = "Karonis et al. 2000",
    .hierarchical = true,
    .cut = hki_cut_whole,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "2 log2 m + log2 N (+2 unless N = 2^k)",
    .sent_text = "(log2 m + log2 N) n",
    .scratch_text = "n",
};

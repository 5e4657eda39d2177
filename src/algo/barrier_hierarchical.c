/*
 * Barrier with one leader a node: signals up a tree within each node, dissemination among the leaders, signals down.
 * Only leaders talk between nodes. T. Hoefler, T. Mehlan, F. Mietke, W. Rehm, 2006 (n-way dissemination); N. T. Karonis
 * et al., 2000.
 */
#include "algo/hierarchy.h"
#include "algo/nodes.h"

enum { RADIX = 4 }; /* as the radix dissemination barrier's */

static void cut(const hki_call *call, hki_shape *shape)
{
    (void)call;
    shape->segments = 1;
}

/* Signals show no dependency, so each send is told to wait. */
static void signal_to(hki_builder *builder, const hki_group *group, uint32_t peer)
{
    hki_fence(builder);
    hki_send(builder, group, peer, hki_signal());
}

/* Dissemination of radix 4: between nodes a further signal costs little beside a round. */
static void meet_across(hki_builder *builder, const hki_call *call, const hki_nodes *nodes)
{
    hki_group everyone = hki_everyone(call);
    for (uint64_t distance = 1; distance < nodes->count; distance *= RADIX) {
        for (uint64_t far = distance; far < RADIX * distance && far < nodes->count; far += distance) {
            uint32_t to = hki_ahead(nodes->count, nodes->own, (uint32_t)far);
            signal_to(builder, &everyone, hki_node_rank(nodes, to, 0));
        }
        for (uint64_t far = distance; far < RADIX * distance && far < nodes->count; far += distance) {
            uint32_t from = hki_behind(nodes->count, nodes->own, (uint32_t)far);
            hki_recv(builder, &everyone, hki_node_rank(nodes, from, 0), hki_signal());
        }
    }
}

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_nodes nodes = hki_nodes_of(call);
    hki_group everyone = hki_everyone(call);
    uint32_t tier = call->levels ? call->levels->split + 1 : hki_top(call);
    hki_tree tree = hki_hierarchy_tree(call, tier, hki_node_rank(&nodes, nodes.own, 0));
    for (uint32_t i = tree.count; i-- > 0;)
        hki_recv(builder, &everyone, tree.child[i], hki_signal());
    if (tree.parent != HKI_NOBODY) {
        signal_to(builder, &everyone, tree.parent);
        hki_recv(builder, &everyone, tree.parent, hki_signal());
    } else {
        meet_across(builder, call, &nodes);
    }
    for (uint32_t i = 0; i < tree.count; i++)
        signal_to(builder, &everyone, tree.child[i]);
}

static double rounds(const hki_call *call)
{
    double rounds = hki_bruck_messages(hki_nodes_of(call).count, RADIX); /* through one port */
    for (uint32_t tier = 1; tier <= (call->levels ? call->levels->split + 1 : hki_top(call)); tier++) {
        uint32_t fan = hki_tier_fan(call, tier);
        rounds += fan ? hki_log2_ceil(fan) + hki_tree_knomial_depth(fan, 2) : __builtin_nan("");
    }
    return rounds;
}

static double sent(const hki_call *call)
{
    (void)call;
    return 0;
}

const hki_algorithm hki_algorithm_barrier_hierarchical = {
    .name = "hierarchical",
    .summary = "signals up within nodes, dissemination of their leaders, down again",
    .source = "Karonis et al. 2000",
    .hierarchical = true,
    .cut = cut,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "2 log2 m + at most 3 ceil(log4 N)",
    .sent_text = "0",
    .scratch_text = "none",
};

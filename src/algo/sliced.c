#include "algo/sliced.h"

#include <stdlib.h>

enum { EDGES_MOST = 1 << 16 }; /* of a grid cut in segments: each takes 8 bytes in every schedule */

const char *hki_sliced_refuses(const hki_call *call, uint32_t cuts)
{
    hki_nodes nodes = hki_nodes_of(call);
    uint64_t pieces = (uint64_t)cuts * call->segments;
    if (pieces * call->ranks / nodes.count > EDGES_MOST && call->segments > 1)
        return "so many segments among so many nodes are too many";
    return pieces <= UINT32_MAX && hki_nodes_refinable(&nodes, (uint32_t)pieces)
               ? NULL
               : "its nodes are too large and too different in size";
}

void hki_sliced_cut(const hki_call *call, hki_shape *shape, uint32_t cuts)
{
    hki_nodes nodes = hki_nodes_of(call);
    uint32_t parts, segments = cuts == 1 ? call->segments : 1;
    hki_fraction *edges = hki_nodes_refine(&nodes, cuts * (call->segments / segments), &parts);
    hki_grid grid = {.cut = HKI_CUT_FRACTION, .parts = parts, .segments = segments, .edges = edges};
    bool has_input = call->collective != HKI_COLL_BROADCAST;
    shape->segments = segments;
    shape->grid[HKI_INPUT] = has_input ? grid : (hki_grid){.cut = HKI_CUT_NONE};
    shape->grid[HKI_OUTPUT] = grid; /* without edges: out of memory, as the caller sees */
}

/* A rank's view of the slices. */
typedef struct slices {
    hki_nodes nodes;
    hki_group node;
    uint32_t *edges; /* of its node's shares, as blocks */
    uint32_t *map;   /* room for the owners of one part */
} slices;

static bool open_slices(hki_builder *builder, const hki_call *call, slices *cut)
{
    const hki_grid *grid = &hki_builder_shape(builder)->grid[HKI_OUTPUT];
    cut->nodes = hki_nodes_of(call);
    cut->node = hki_nodes_own(&cut->nodes);
    cut->edges = malloc(((size_t)cut->node.size + 1) * sizeof *cut->edges);
    cut->map = malloc(cut->nodes.count * sizeof *cut->map);
    if (!cut->edges || !cut->map) {
        hki_builder_no_memory(builder);
        free(cut->edges);
        free(cut->map);
        return false;
    }
    for (uint32_t i = 0; i <= cut->node.size; i++)
        cut->edges[i] = hki_nodes_block(grid->edges, grid->parts, i, cut->node.size) * grid->segments;
    return true;
}

static void close_slices(slices *cut)
{
    free(cut->edges);
    free(cut->map);
}

static hki_region slices_of(const hki_builder *builder, const slices *cut, hki_buffer buffer)
{
    hki_region region = hki_whole(builder, buffer, 1);
    region.shares = cut->node.size;
    region.edges = cut->edges;
    return region;
}

/* The owners, in all nodes, of what begins at a block. */
static hki_group owners_of(const hki_builder *builder, const slices *cut, uint32_t block)
{
    const hki_grid *grid = &hki_builder_shape(builder)->grid[HKI_OUTPUT];
    hki_fraction edge = grid->edges[block / grid->segments];
    if (hki_nodes_even(&cut->nodes) && cut->nodes.levels && cut->nodes.levels->in_order)
        return (hki_group){.size = cut->nodes.count,
                           .rank = cut->nodes.own,
                           .first = hki_nodes_owner(&cut->nodes, 0, edge),
                           .stride = cut->node.size};
    for (uint32_t node = 0; node < cut->nodes.count; node++)
        cut->map[node] = hki_nodes_owner(&cut->nodes, node, edge);
    return (hki_group){.size = cut->nodes.count, .rank = cut->nodes.own, .map = cut->map};
}

void hki_sliced_allreduce(hki_builder *builder, const hki_call *call, uint32_t cuts, hki_across *across)
{
    slices cut;
    if (!open_slices(builder, call, &cut))
        return;
    hki_region input = slices_of(builder, &cut, HKI_INPUT), output = slices_of(builder, &cut, HKI_OUTPUT);
    hki_region own = hki_subregion(&output, cut.node.rank, 1);
    hki_ring ring = {.segments = call->segments};
    hki_ring_reduce_scatter(builder, &cut.node, ring, &input, &output, &own, cut.nodes.count == 1);
    hki_region parts = hki_recut(&own, own.blocks_per_share / cuts);
    for (uint32_t i = 0; i < parts.shares && cut.nodes.count > 1; i++) {
        hki_group owners = owners_of(builder, &cut, parts.first + i * cuts);
        hki_region part = hki_subregion(&parts, i, cuts);
        across(builder, &owners, &part);
    }
    hki_ring_allgather(builder, &cut.node, ring, &own, &output);
    close_slices(&cut);
}

static uint32_t root_node_of(const hki_call *call)
{
    hki_call of_root = *call;
    of_root.rank = call->root;
    return hki_nodes_of(&of_root).own;
}

/* The root of `call` takes every slice from the ranks of its node. */
static void hand_in(hki_builder *builder, const hki_call *call, const slices *cut, const hki_region *work)
{
    hki_group everyone = hki_everyone(call);
    if (call->rank != call->root) {
        hki_send(builder, &everyone, call->root, hki_share(work, cut->node.rank));
        return;
    }
    for (uint32_t distance = 1; distance < cut->node.size; distance++) {
        uint32_t from = hki_ahead(cut->node.size, cut->node.rank, distance);
        hki_recv(builder, &cut->node, from, hki_share(work, from));
    }
}

void hki_sliced_reduce(hki_builder *builder, const hki_call *call, uint32_t cuts, hki_collect *collect)
{
    slices cut;
    if (!open_slices(builder, call, &cut))
        return;
    hki_region input = slices_of(builder, &cut, HKI_INPUT), work;
    work = call->rank == call->root ? slices_of(builder, &cut, HKI_OUTPUT) : hki_scratch_like(builder, &input);
    hki_region own = hki_subregion(&work, cut.node.rank, 1);
    hki_ring_reduce_scatter(builder, &cut.node, (hki_ring){.segments = 1}, &input, &work, &own, cut.nodes.count == 1);
    hki_region parts = hki_recut(&own, own.blocks_per_share / cuts);
    uint32_t root_node = root_node_of(call);
    for (uint32_t i = 0; i < parts.shares && cut.nodes.count > 1; i++) {
        hki_group owners = owners_of(builder, &cut, parts.first + i * cuts);
        hki_region part = hki_subregion(&parts, i, cuts);
        collect(builder, &owners, root_node, &part);
    }
    if (cut.nodes.own == root_node)
        hand_in(builder, call, &cut, &work);
    close_slices(&cut);
}

/* The root of `call` gives every other rank of its node that one's slice. */
static void hand_out(hki_builder *builder, const hki_call *call, const slices *cut, const hki_region *output)
{
    hki_group everyone = hki_everyone(call);
    if (call->rank != call->root) {
        hki_recv(builder, &everyone, call->root, hki_share(output, cut->node.rank));
        return;
    }
    for (uint32_t distance = 1; distance < cut->node.size; distance++) {
        uint32_t to = hki_ahead(cut->node.size, cut->node.rank, distance);
        hki_send(builder, &cut->node, to, hki_share(output, to));
    }
}

void hki_sliced_broadcast(hki_builder *builder, const hki_call *call, hki_spread *spread)
{
    slices cut;
    if (!open_slices(builder, call, &cut))
        return;
    uint32_t root_node = root_node_of(call);
    hki_region output = slices_of(builder, &cut, HKI_OUTPUT), own = hki_subregion(&output, cut.node.rank, 1);
    if (cut.nodes.own == root_node)
        hand_out(builder, call, &cut, &output);
    hki_region blocks = hki_recut(&own, own.blocks_per_share);
    for (uint32_t i = 0; i < blocks.shares; i++) {
        hki_group owners = owners_of(builder, &cut, blocks.first + i);
        spread(builder, &owners, root_node, hki_share(&blocks, i));
    }
    hki_ring_allgather(builder, &cut.node, (hki_ring){.segments = call->segments}, &own, &output);
    close_slices(&cut);
}

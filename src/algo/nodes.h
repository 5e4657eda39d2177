/*
 * Ranks by node, for algorithms of two levels: the groups of levels->split. And one vector cut for nodes of different
 * sizes at once: the common refinement of all nodes' cuts into equal shares. Nodes of 3 and 2 ranks give the edges 0,
 * 1/3, 1/2, 2/3, 1, so that every block belongs to one rank of every node.
 */
#ifndef HKI_ALGO_NODES_H
#define HKI_ALGO_NODES_H

#include "algo/algo.h"

typedef struct hki_nodes {
    const hki_levels *levels; /* NULL: all ranks on one node */
    uint32_t ranks, count;
    uint32_t own, member; /* this rank's node, and its place there */
} hki_nodes;

hki_nodes hki_nodes_of(const hki_call *call);
uint32_t hki_node_size(const hki_nodes *nodes, uint32_t node);
/* The rank that is member `member` of a node. */
uint32_t hki_node_rank(const hki_nodes *nodes, uint32_t node, uint32_t member);
/* True if all nodes have as many ranks. */
bool hki_nodes_even(const hki_nodes *nodes);
/* This rank's node as a group. */
hki_group hki_nodes_own(const hki_nodes *nodes);

/* The common refinement, every part of it cut again in `cuts`: *parts + 1 edges, to be freed by the caller. NULL: out
 * of memory, or edges that are no fractions of 32 bits (see hki_nodes_refinable). */
hki_fraction *hki_nodes_refine(const hki_nodes *nodes, uint32_t cuts, uint32_t *parts);
/* Whether the edges' denominators stay below 2^32: always for even nodes of any size that matters. */
bool hki_nodes_refinable(const hki_nodes *nodes, uint32_t cuts);
/* The member of `node` whose share holds the block that begins at `edge`. */
uint32_t hki_nodes_owner(const hki_nodes *nodes, uint32_t node, hki_fraction edge);
/* The block at which share `share` of `shares` begins (`parts` for share = shares). */
uint32_t hki_nodes_block(const hki_fraction *edges, uint32_t parts, uint32_t share, uint32_t shares);

#endif

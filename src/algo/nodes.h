/*
 * Ranks by node, and one vector cut for nodes of different sizes at once: the common refinement of all nodes' cuts into
 * equal shares. Nodes of 3 and 2 ranks give the edges 0, 1/3, 1/2, 2/3, 1, so that every block belongs to one rank of
 * every node.
 */
#ifndef HKI_ALGO_NODES_H
#define HKI_ALGO_NODES_H

#include "algo/algo.h"

typedef struct hki_nodes {
    uint32_t count;
    uint32_t *start;      /* count + 1: where each node's ranks begin in `ranks` */
    uint32_t *ranks;      /* all ranks, by node and then by rank */
    uint32_t own, member; /* this rank's node, and its place there */
} hki_nodes;

/* Sorts the call's ranks by node (all on one when it has no topology view). False: out of memory. */
bool hki_nodes_find(const hki_call *call, hki_nodes *nodes);
void hki_nodes_free(hki_nodes *nodes);
uint32_t hki_node_size(const hki_nodes *nodes, uint32_t node);
/* The common refinement: *parts + 1 edges, to be freed by the caller. NULL: out of memory. */
hki_fraction *hki_nodes_refine(const hki_nodes *nodes, uint32_t *parts);
/* The member of `node` whose share holds the block that begins at `edge`. */
uint32_t hki_nodes_owner(const hki_nodes *nodes, uint32_t node, hki_fraction edge);
/* The block at which share `share` of `shares` begins (`parts` for share = shares). */
uint32_t hki_nodes_block(const hki_fraction *edges, uint32_t parts, uint32_t share, uint32_t shares);

#endif

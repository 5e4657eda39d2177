/*
 * One vector among nodes, every rank at work (sliced.c): each rank of a node stands for a slice, which its owners in
 * all nodes share. Nodes of different sizes are cut at the common refinement of their slices (nodes.h).
 */
#ifndef HKI_ALGO_SLICED_H
#define HKI_ALGO_SLICED_H

#include "algo/generators.h"
#include "algo/nodes.h"

/* What the owners of a part of the vector do with it, in place; `part` has as many shares as it was cut in. */
typedef void hki_across(hki_builder *builder, const hki_group *owners, const hki_region *part);

/* The grid: every part of the refinement in call->segments segments, and each of those in `cuts` for `across`. */
void hki_sliced_cut(const hki_call *call, hki_shape *shape, uint32_t cuts);
/* Why that grid cannot be, for cuts > 1; NULL if it can. */
const char *hki_sliced_refuses(const hki_call *call, uint32_t cuts);
/* Reduce-scatter on a ring within each node, `across` among the owners of each part, all-gather on the ring. */
void hki_sliced_allreduce(hki_builder *builder, const hki_call *call, uint32_t cuts, hki_across *across);
/* Reduce-scatter on a ring within each node, `collect` of each part by its owners to that in node `root`, in place,
 * and from the ranks of the root's node to the root. */
typedef void hki_collect(hki_builder *builder, const hki_group *owners, uint32_t root, const hki_region *part);
void hki_sliced_reduce(hki_builder *builder, const hki_call *call, uint32_t cuts, hki_collect *collect);
/* The root gives each rank of its node a slice, which `across` brings to the other nodes (the root's is owner
 * `root_node`); all-gather within each node. */
typedef void hki_spread(hki_builder *builder, const hki_group *owners, uint32_t root, hki_span slice);
void hki_sliced_broadcast(hki_builder *builder, const hki_call *call, hki_spread *spread);

#endif

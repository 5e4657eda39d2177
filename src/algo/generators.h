/*
 * Generators that other generators are composed of, and what all of them share. Each writes the steps of this rank's
 * part in a collective among the members of a group. Spans and regions say where things lie; nothing here knows
 * transports or sizes. Costs are O(own steps).
 *
 * Operand order: of two operands that are combined, the one of the lower member is on the left. Generators that combine
 * only neighbouring ranges of members so keep rank order.
 */
#ifndef HKI_ALGO_GENERATORS_H
#define HKI_ALGO_GENERATORS_H

#include "algo/algo.h"
#include "algo/index.h"

/* ---- what all share (common.c) ---- */

/* All ranks of the call as a group. */
hki_group hki_everyone(const hki_call *call);
/* True when the two spans name the same bytes: the same blocks of one buffer, or of buffers used in place. */
bool hki_same_bytes(const hki_builder *builder, hki_span a, hki_span b);
/* Copies unless the bytes are there already. */
void hki_place(hki_builder *builder, hki_span destination, hki_span source, bool finish);
/* A message without content. */
hki_span hki_signal(void);
/* Where this rank's share of a reduce-scatter is to be built: OUTPUT, or scratch where OUTPUT overlaps other parts of
 * INPUT; deliver then copies it. One share. */
hki_region hki_result_region(hki_builder *builder, const hki_call *call, const hki_region *input);
void hki_result_deliver(hki_builder *builder, const hki_region *result);

/* Scratch for the shares of a subtree, `first` and `count - 1` more, as a view whose share numbers are `offset` lower.
 * A subtree that goes round past the last share keeps the numbers of grid. */
hki_region hki_subtree_scratch(hki_builder *builder, const hki_region *grid, uint32_t first, uint32_t count,
                               uint32_t *offset);

/* Where successive values of a whole vector lie: value 0 at source, value `last` at destination, two neighbours never
 * in the same place, so that a value may still be on its way to a peer while the next is made from it. Alternates
 * between destination and scratch. */
typedef struct hki_stages {
    hki_span source, destination;
    uint32_t last;
    uint32_t slot[2];
    bool shifted; /* source is destination and the number of steps is odd: the first values take another way */
} hki_stages;

/* made: value 0 is not found at source but made by a first step from it. */
hki_stages hki_stages_new(hki_builder *builder, hki_span source, hki_span destination, uint32_t last, bool made);
hki_span hki_stage(const hki_stages *stages, uint32_t value);
/* Copies the last value to destination when it could not be made there. */
void hki_stages_deliver(hki_builder *builder, const hki_stages *stages);

/* ---- ring (ring.c) ---- */

/* How a ring is travelled: every share in `segments` messages; with both, the upper half of them goes backwards. */
typedef struct hki_ring {
    uint32_t segments;
    bool both;
} hki_ring;

/* Share m of everyone's input, reduced, ends in `result` (one share) of member m. With output, partial results pass
 * through its shares (result being its own one); else through two shares of scratch. */
void hki_ring_reduce_scatter(hki_builder *builder, const hki_group *group, hki_ring ring, const hki_region *input,
                             const hki_region *output, const hki_region *result, bool finish);
/* All-reduce by the two: shares of input and output for each member. */
void hki_ring_allreduce(hki_builder *builder, const hki_group *group, hki_ring ring, const hki_region *input,
                        const hki_region *output, bool finish);
/* own (one share) of member m ends in share m of everyone's output. */
void hki_ring_allgather(hki_builder *builder, const hki_group *group, hki_ring ring, const hki_region *own,
                        const hki_region *output);

/* ---- k-nomial halving and doubling on a folded group (knomial.c) ---- */

/* Share i of a region of fold.core shares belongs to core member i; of fold.size shares, member i's. */
/* Reduces: afterwards `result`, or without one the core member's own shares of `work`, hold their reduction over the
 * core. `input`: where this member's values lie before (INPUT, or work itself). */
void hki_knomial_reduce_scatter(hki_builder *builder, const hki_group *group, const hki_fold *fold,
                                const hki_radices *radices, const hki_region *input, const hki_region *work,
                                const hki_region *result, bool finish);
/* Gathers: own shares of `output` are there before; afterwards all are. */
void hki_knomial_allgather(hki_builder *builder, const hki_group *group, const hki_fold *fold,
                           const hki_radices *radices, const hki_region *output);
/* All-reduce of the whole vector over the group by exchange among radix partners a round; keeps order, any size. */
void hki_multiplying_allreduce(hki_builder *builder, const hki_group *group, uint32_t radix, hki_span source,
                               hki_span destination, bool finish);
/* All-reduce by fold, reduce-scatter, all-gather, unfold: Rabenseifner's for radix 2. input and output: fold.core
 * shares. */
void hki_knomial_allreduce(hki_builder *builder, const hki_group *group, uint32_t radix, const hki_region *input,
                           const hki_region *output);

/* ---- Bruck's ranges at growing distances, any size (bruck.c) ---- */

/* Share m of everyone's input, reduced, ends in `result` of member m; partial results lie in `work`, a region of as
 * many shares (scratch, or OUTPUT, where result may be the member's own share of it). radix: 2 … 8. */
void hki_bruck_reduce_scatter(hki_builder *builder, const hki_group *group, uint32_t radix, const hki_region *input,
                              const hki_region *work, hki_span result, bool finish);
/* own (one share) of member m ends in share m of everyone's output. */
void hki_bruck_allgather(hki_builder *builder, const hki_group *group, uint32_t radix, hki_span own,
                         const hki_region *output);
/* Rounds of either, and messages that a member sends in them. */
uint32_t hki_bruck_rounds(uint32_t size, uint32_t radix);
uint32_t hki_bruck_messages(uint32_t size, uint32_t radix);

/* ---- direct (direct.c) ---- */

/* Everyone sends share m of its input to member m, which reduces all in rank order. */
void hki_direct_reduce_scatter(hki_builder *builder, const hki_group *group, const hki_region *input, hki_span result,
                               bool finish);
/* Everyone sends its own share to everyone. */
void hki_direct_allgather(hki_builder *builder, const hki_group *group, hki_span own, const hki_region *output);
/* The last step of a direct or flat reduction: receives one operand from every other member and reduces all with `own`
 * in rank order and one pass. own_is_sent: own is also on its way to a peer, so where it is the result's place too it
 * must stay until then. */
void hki_reduce_from_all(hki_builder *builder, const hki_group *group, hki_span own, bool own_is_sent, hki_span result,
                         bool finish);

/* ---- trees (tree.c) ---- */

/* One message down the tree: span of every member becomes the root's. */
void hki_tree_broadcast(hki_builder *builder, const hki_group *group, const hki_tree *tree, hki_span span);
/* One vector up the tree: members with children reduce into `partial`, which at the root is the result; leaves send
 * their input. */
void hki_tree_reduce(hki_builder *builder, const hki_group *group, const hki_tree *tree, hki_span input,
                     hki_span partial, bool finish);
/* The same for every segment of a region of one share. */
void hki_tree_broadcast_segments(hki_builder *builder, const hki_group *group, const hki_tree *tree,
                                 const hki_region *region, uint32_t segments);
/* Root: into output. Others: through scratch, two segments at a time, or through output if there is one. */
void hki_tree_reduce_segments(hki_builder *builder, const hki_group *group, const hki_tree *tree,
                              const hki_region *input, const hki_region *output, uint32_t segments, bool finish);

/* ---- gather and scatter (gather_binomial.c, scatter_binomial.c) ---- */

/* Along the k-nomial tree of `radix`. own of every member ends in its share of the root's `grid`: a region of all
 * shares, which lies in a buffer of the root's; other members only take the shares' lengths from it. */
void hki_knomial_gather(hki_builder *builder, const hki_group *group, uint32_t radix, uint32_t root, hki_span own,
                        const hki_region *grid);
/* The root's shares of `grid` end in `own` of their members. in_grid: grid is a buffer of every member, through which
 * shares of others may pass; else they pass through scratch. */
void hki_knomial_scatter(hki_builder *builder, const hki_group *group, uint32_t radix, uint32_t root,
                         const hki_region *grid, bool in_grid, hki_span own);

/* ---- cuts (cuts.c): the grids of a call's buffers ---- */

/* One vector: broadcast, reduce, all-reduce, scans. */
void hki_cut_vector(const hki_call *call, hki_shape *shape, uint32_t parts, uint32_t segments);
/* A share for each rank: all-gather, reduce-scatter, gather, scatter, all-to-all, and their v forms. */
void hki_cut_shares(const hki_call *call, hki_shape *shape, uint32_t segments);
/* The commonest cuts, as hki_algorithm.cut. */
void hki_cut_whole(const hki_call *call, hki_shape *shape);           /* vector, one part */
void hki_cut_whole_segments(const hki_call *call, hki_shape *shape);  /* vector, one part in segments */
void hki_cut_ranks(const hki_call *call, hki_shape *shape);           /* vector, a part for each rank */
void hki_cut_ranks_segments(const hki_call *call, hki_shape *shape);  /* the same in segments */
void hki_cut_blocks(const hki_call *call, hki_shape *shape);          /* shares */
void hki_cut_blocks_segments(const hki_call *call, hki_shape *shape); /* shares in segments */

/* ---- textbook forms that several share (forms.c) ---- */

double hki_form_log(const hki_call *call);          /* ⌈log₂ P⌉ */
double hki_form_ring(const hki_call *call);         /* P - 1 */
double hki_form_chain(const hki_call *call);        /* P - 1 + S - 1: hops, and the segments after the first */
double hki_form_double_ring(const hki_call *call);  /* 2(P - 1) */
double hki_form_all_but_one(const hki_call *call);  /* (P - 1)/P */
double hki_form_twice_shares(const hki_call *call); /* 2(P - 1)/P */
double hki_form_one(const hki_call *call);          /* 1 */
double hki_form_two(const hki_call *call);          /* 2 */
/* Everyone's: all-to-all-like one-round forms. */
double hki_form_everyone(const hki_call *call); /* P - 1 vectors */

/* Members of the largest subtree below the root of a k-nomial tree. */
uint32_t hki_knomial_largest_subtree(uint32_t size, uint32_t radix);
/* Children of its root: one for each non-zero digit in each place, as far as there are ranks. */
double hki_form_children(const hki_call *call, uint32_t radix);

/* ---- how alike ranks do (forms.c) ---- */

hki_alike hki_all_alike(const hki_call *call);
hki_alike hki_alike_in_pairs(const hki_call *call);

/* ---- all-to-all (alltoall_exchange.c) ---- */

/* Everybody exchanges blocks with everybody, in the order of hki_turn_of, at most `window` rounds at a time. */
void hki_alltoall_exchange(hki_builder *builder, const hki_call *call, uint32_t window);

#endif

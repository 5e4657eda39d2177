/*
 * Index arithmetic that families of algorithms share: folding to a convenient number of ranks, trees, pairings and the
 * circulant graph. Pure functions of (size, root, member): they allocate nothing, cost at most O(log² size), and are
 * tested by themselves.
 */
#ifndef HKI_ALGO_INDEX_H
#define HKI_ALGO_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#define HKI_NOBODY UINT32_MAX

/* ⌊log₂ n⌋ and ⌈log₂ n⌉, n ≥ 1. */
uint32_t hki_log2_floor(uint32_t n);
uint32_t hki_log2_ceil(uint32_t n);

/* (member + distance) mod size and (member - distance) mod size; distance ≤ size. */
uint32_t hki_ahead(uint32_t size, uint32_t member, uint32_t distance);
uint32_t hki_behind(uint32_t size, uint32_t member, uint32_t distance);

/* ---- factors ---- */

enum { HKI_MAX_ROUNDS = 32 };

/* A number as a product of small factors, the first for neighbours at distance 1. */
typedef struct hki_radices {
    uint32_t count;
    uint32_t radix[HKI_MAX_ROUNDS];
} hki_radices;

/* The largest number ≤ size that is a product of factors ≤ radix (2, 3 or 4). At least size/2. */
uint32_t hki_smooth_floor(uint32_t size, uint32_t radix);
/* Factors ≤ radix of such a number, the largest first. */
hki_radices hki_factors(uint32_t smooth, uint32_t radix);

/* ---- folding ---- */

/* `size` members folded to `core` of them (size/2 ≤ core ≤ size): each of the first `excess` odd members hands its part
 * to the even member before it, so that core members stand for contiguous ranges of members and order is kept. */
typedef struct hki_fold {
    uint32_t size, core, excess;
    uint32_t index;   /* of this member within the core; HKI_NOBODY for one that hands over */
    uint32_t partner; /* the other member of the pair; HKI_NOBODY for members of no pair */
} hki_fold;

hki_fold hki_fold_to(uint32_t size, uint32_t core, uint32_t member);
/* The member that core index i is; also the first of the members that it stands for. i = core gives size. */
uint32_t hki_fold_member(const hki_fold *fold, uint32_t i);

/* ---- trees ---- */

enum { HKI_MAX_CHILDREN = 96 };

/* One member's place in a tree. Children with larger subtrees come first: the order of a broadcast, and backwards that
 * of a reduction. */
typedef struct hki_tree {
    uint32_t parent; /* HKI_NOBODY at the root */
    uint32_t count;
    uint32_t child[HKI_MAX_CHILDREN];
} hki_tree;

/* Of distances from the root, cyclically: subtree of distance d in base `radix` (2 … 8). radix 2 is the binomial tree.
 */
hki_tree hki_tree_knomial(uint32_t size, uint32_t root, uint32_t member, uint32_t radix);
/* Number of members in the subtree of a k-nomial tree: those at distance d … d + count - 1. */
uint32_t hki_tree_knomial_members(uint32_t size, uint32_t root, uint32_t member, uint32_t radix);
/* A binomial tree on either side of the root, so that every subtree is a contiguous range next to its root. */
hki_tree hki_tree_ordered(uint32_t size, uint32_t root, uint32_t member);
/* root, root + 1, …, cyclically. */
hki_tree hki_tree_chain(uint32_t size, uint32_t root, uint32_t member);
/* Binary, balanced, members below a node to its left and above it to its right: subtrees are contiguous. */
hki_tree hki_tree_inorder(uint32_t size, uint32_t root, uint32_t member);
/* Edges from the root to its farthest member. */
uint32_t hki_tree_ordered_depth(uint32_t size, uint32_t root);
uint32_t hki_tree_inorder_depth(uint32_t size, uint32_t root);
uint32_t hki_tree_knomial_depth(uint32_t size, uint32_t radix);
/* Tree `which` (0 or 1) of two over the members but the root, which feeds both: a member has children in at most one of
 * them (Sanders, Speck, Träff: Two-tree algorithms for full bandwidth broadcast, reduction and scan, 2009). */
hki_tree hki_tree_double(uint32_t size, uint32_t root, uint32_t member, unsigned which);

/* ---- turns ---- */

/* Whom a member sends to, and whom it receives from, in one of the rounds 1 … size - 1 in which everybody meets
 * everybody: the same member where their number is a power of two (bits of its number flipped), else those as many
 * members ahead and behind; two such rounds in a row, 2k - 1 and 2k, have the same two. All members do alike. */
typedef struct hki_turn {
    uint32_t to, from;
} hki_turn;
hki_turn hki_turn_of(uint32_t size, uint32_t round, uint32_t member);

/* ---- the circulant graph ---- */

/* In round k (mod rounds) a member sends to the one skip[k] ahead, and receives from the one skip[k] behind. Block
 * numbers of the first phase; each later phase adds `rounds`. Negative: nothing (in the first phase). */
typedef struct hki_circulant {
    uint32_t rounds; /* ⌈log₂ size⌉ */
    uint32_t skip[HKI_MAX_ROUNDS + 1];
    int32_t receive[HKI_MAX_ROUNDS], send[HKI_MAX_ROUNDS];
} hki_circulant;

/* Schedule of the member at `distance` from the root. J. L. Träff, Optimal broadcast schedules in logarithmic time
 * with applications to broadcast, all-broadcast, reduction and all-reduction, 2023 (receive schedule; the send schedule
 * is looked up in the neighbours' receive schedules, O(log² size)). */
void hki_circulant_schedule(uint32_t size, uint32_t distance, hki_circulant *result);

#endif

/*
 * Collectives over levels of groups. *Tiers* are a call's levels with both ends: tier 0 is every rank by itself, tier
 * i the groups of level i - 1, the last one, hki_top, everybody. A *party* is a group of a tier, as a range of places
 * (see topo/levels.h); its *subparties* are those of the tier below. Without levels there are two tiers, and what is
 * written here becomes the flat algorithm.
 *
 * Where shares are cut for each rank, a member of a party stands in for ranks of other parties: *column* c of a party
 * are its subparties' members number c, counted round where a subparty has fewer. A party's member so has a
 * *portfolio*: the ranks outside (and itself) whose shares it looks after for its party. Going up, portfolios shrink
 * from everything (tier 0) to the rank itself (top). Ranks of a column meet once a tier, so between two hosts of m
 * ranks each of m pairs carries 1/m of what has to cross, once.
 */
#ifndef HKI_ALGO_HIERARCHY_H
#define HKI_ALGO_HIERARCHY_H

#include "algo/generators.h"

typedef struct hki_party {
    uint32_t first, size; /* places */
} hki_party;

uint32_t hki_top(const hki_call *call);
uint32_t hki_rank_at(const hki_call *call, uint32_t place);
uint32_t hki_place_of(const hki_call *call, uint32_t rank);
/* The party of a tier that a place is in, its number among the tier's, and a party by number. */
hki_party hki_party_of(const hki_call *call, uint32_t tier, uint32_t place);
uint32_t hki_party_number(const hki_call *call, uint32_t tier, uint32_t place);
hki_party hki_party_by_number(const hki_call *call, uint32_t tier, uint32_t number);
/* How many subparties a party of tier `tier` (≥ 1) has, when all have as many; 0: they differ. */
uint32_t hki_tier_fan(const hki_call *call, uint32_t tier);
/* Whether every tier's parties are of one size. */
bool hki_tiers_even(const hki_call *call);
/* What collectives by columns are to the cost model: alike where tiers are even and ranks in order. */
hki_alike hki_tiers_alike(const hki_call *call);

/* ---- one leader a party (hierarchy.c) ---- */

/* The tree of this rank's party of a tier: binomial among the leaders of its subparties, then in each of them, and so
 * on. A party's leader is the root where the root is in it, else its first rank. Members are ranks (of hki_everyone).
 */
hki_tree hki_hierarchy_tree(const hki_call *call, uint32_t tier, uint32_t root);
/* The leader of a party, as a place. */
uint32_t hki_party_leader(const hki_call *call, hki_party part, uint32_t root);
/* For even tiers (else not a number): edges from the root to the farthest rank, and messages that the root sends. */
double hki_hierarchy_depth(const hki_call *call);
double hki_hierarchy_children(const hki_call *call);

/* ---- shares through leaders (gather_hierarchical.c, scatter_hierarchical.c) ---- */

/* Every rank's own (one share) ends in its share of `shares` at the root; leaders of parties collect in theirs. */
void hki_hierarchy_gather(hki_builder *builder, const hki_call *call, const hki_region *own, const hki_region *shares);
/* The root's shares end in `own` of their ranks; leaders of parties pass them on from theirs. in_turn: within a party
 * nothing leaves before all has gone to other parties, so that what its members then begin does not get in the way. */
void hki_hierarchy_scatter(hki_builder *builder, const hki_call *call, const hki_region *shares, const hki_region *own,
                           bool in_turn);

/* ---- every rank at work (columns.c) ---- */

/* Which share is whose. In order: share r is rank r's. Spread: rank r's is hki_spread_share, so that portfolios are
 * neighbouring shares where tiers are even; for collectives whose shares are the library's own. */
typedef enum hki_shares_are { HKI_SHARES_IN_ORDER, HKI_SHARES_SPREAD } hki_shares_are;
uint32_t hki_spread_share(const hki_call *call, uint32_t rank);

/* Shares for each rank: `values` is where this rank's operands lie, `work` a region of the same blocks for partial
 * results (OUTPUT, or scratch), `result` the place of this rank's own share. All ranks' shares are reduced. */
void hki_columns_reduce_scatter(hki_builder *builder, const hki_call *call, const hki_region *values,
                                hki_shares_are whose, const hki_region *work, hki_span result);
/* Every rank's `own` ends in its share of `output` at all ranks. */
void hki_columns_allgather(hki_builder *builder, const hki_call *call, hki_shares_are whose, hki_span own,
                           const hki_region *output);
/* Rounds of either, for even tiers (else not a number). */
double hki_columns_rounds(const hki_call *call);

/* ---- sets of shares (shares.c) ---- */

/* The portfolio, at a tier, of the rank at a place, as ranks: appended to `list`. Returns the new count. */
uint32_t hki_portfolio(const hki_call *call, uint32_t tier, uint32_t place, uint32_t *list, uint32_t count);
/* The ranks of a party, ascending. */
void hki_party_ranks(const hki_call *call, hki_party part, uint32_t *list);
/* Takes the next span of the shares that `list` names of a region of as many as there are ranks, as long as one range
 * can be: runs at equal distances. Both ends of a message take the same list apart, and so alike. False at the end. */
bool hki_next_shares(const hki_region *region, const uint32_t *list, uint32_t count, uint32_t *at, hki_span *span);

#endif

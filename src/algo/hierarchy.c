/* Tiers and parties, and the tree with one leader a party. */
#include "algo/hierarchy.h"

uint32_t hki_top(const hki_call *call)
{
    return call->levels ? call->levels->count + 1 : 1;
}

uint32_t hki_rank_at(const hki_call *call, uint32_t place)
{
    return call->levels ? call->levels->rank_at[place] : place;
}

uint32_t hki_place_of(const hki_call *call, uint32_t rank)
{
    return call->levels ? call->levels->place_of[rank] : rank;
}

uint32_t hki_party_number(const hki_call *call, uint32_t tier, uint32_t place)
{
    if (tier == 0)
        return place;
    return tier < hki_top(call) ? call->levels->level[tier - 1].group[place] : 0;
}

hki_party hki_party_by_number(const hki_call *call, uint32_t tier, uint32_t number)
{
    if (tier == 0)
        return (hki_party){number, 1};
    if (tier == hki_top(call))
        return (hki_party){0, call->ranks};
    const uint32_t *start = call->levels->level[tier - 1].start;
    return (hki_party){start[number], start[number + 1] - start[number]};
}

hki_party hki_party_of(const hki_call *call, uint32_t tier, uint32_t place)
{
    return hki_party_by_number(call, tier, hki_party_number(call, tier, place));
}

/* The size of a tier's parties; 0: they differ. */
static uint32_t even_size(const hki_call *call, uint32_t tier)
{
    if (tier == 0 || tier == hki_top(call))
        return tier == 0 ? 1 : call->ranks;
    const hki_level *level = &call->levels->level[tier - 1];
    return level->smallest == level->largest ? level->largest : 0;
}

uint32_t hki_tier_fan(const hki_call *call, uint32_t tier)
{
    uint32_t size = even_size(call, tier), below = even_size(call, tier - 1);
    return size && below ? size / below : 0;
}

bool hki_tiers_even(const hki_call *call)
{
    for (uint32_t tier = 1; tier <= hki_top(call); tier++)
        if (!hki_tier_fan(call, tier))
            return false;
    return true;
}

hki_alike hki_tiers_alike(const hki_call *call)
{
    return hki_tiers_even(call) && (!call->levels || call->levels->in_order) ? HKI_ALIKE : HKI_UNLIKE;
}

uint32_t hki_party_leader(const hki_call *call, hki_party party, uint32_t root)
{
    uint32_t place = hki_place_of(call, root);
    return place >= party.first && place - party.first < party.size ? place : party.first;
}

/* The leader of a party by number, as a rank. */
static uint32_t leading_rank(const hki_call *call, uint32_t tier, uint32_t number, uint32_t root)
{
    return hki_rank_at(call, hki_party_leader(call, hki_party_by_number(call, tier, number), root));
}

hki_tree hki_hierarchy_tree(const hki_call *call, uint32_t tier, uint32_t root)
{
    hki_tree tree = {.parent = HKI_NOBODY};
    uint32_t own = hki_place_of(call, call->rank);
    for (; tier > 0; tier--) {
        hki_party whole = hki_party_of(call, tier, own), below = hki_party_of(call, tier - 1, own);
        if (hki_party_leader(call, below, root) != own)
            continue;
        uint32_t first = hki_party_number(call, tier - 1, whole.first);
        uint32_t count = hki_party_number(call, tier - 1, whole.first + whole.size - 1) - first + 1;
        uint32_t top = hki_party_number(call, tier - 1, hki_party_leader(call, whole, root)) - first;
        uint32_t member = hki_party_number(call, tier - 1, own) - first;
        hki_tree among = hki_tree_knomial(count, top, member, 2);
        if (among.parent != HKI_NOBODY)
            tree.parent = leading_rank(call, tier - 1, first + among.parent, root);
        for (uint32_t i = 0; i < among.count; i++)
            tree.child[tree.count++] = leading_rank(call, tier - 1, first + among.child[i], root);
    }
    return tree;
}

double hki_hierarchy_depth(const hki_call *call)
{
    double depth = 0;
    for (uint32_t tier = 1; tier <= hki_top(call); tier++) {
        uint32_t fan = hki_tier_fan(call, tier);
        depth += fan ? hki_tree_knomial_depth(fan, 2) : __builtin_nan("");
    }
    return depth;
}

double hki_hierarchy_children(const hki_call *call)
{
    double children = 0;
    for (uint32_t tier = 1; tier <= hki_top(call); tier++) {
        uint32_t fan = hki_tier_fan(call, tier);
        children += fan ? hki_log2_ceil(fan) : __builtin_nan("");
    }
    return children;
}

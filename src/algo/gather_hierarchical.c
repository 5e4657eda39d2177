/*
 * Gather with one leader a group: ranks send to the leader of their finest group, leaders to that of the next, so that
 * few messages cross, each with the shares of a whole group. One round a level; equal counts only, since leaders pass
 * on other ranks' shares. N. T. Karonis et al., 2000.
 */
#include "algo/hierarchy.h"

#include <stdlib.h>

/* What a leader has gathered so far, and from whom more comes. */
typedef struct collection {
    const hki_call *call;
    hki_region shares; /* of all ranks: OUTPUT at the root, else scratch */
    uint32_t *list;
} collection;

static void receive_party(hki_builder *builder, const collection *store, hki_party party)
{
    hki_group everyone = hki_everyone(store->call);
    uint32_t from = hki_rank_at(store->call, hki_party_leader(store->call, party, store->call->root));
    hki_span span;
    hki_party_ranks(store->call, party, store->list);
    for (uint32_t i = 0; hki_next_shares(&store->shares, store->list, party.size, &i, &span);)
        hki_recv(builder, &everyone, from, span);
}

static void send_party(hki_builder *builder, const collection *store, hki_party party, uint32_t to,
                       const hki_region *own)
{
    hki_group everyone = hki_everyone(store->call);
    hki_span span;
    hki_party_ranks(store->call, party, store->list);
    for (uint32_t i = 0; party.size > 1 && hki_next_shares(&store->shares, store->list, party.size, &i, &span);)
        hki_send(builder, &everyone, to, span);
    if (party.size == 1)
        hki_send(builder, &everyone, to, hki_all(own));
}

static void gather(hki_builder *builder, const collection *store, const hki_region *own)
{
    const hki_call *call = store->call;
    uint32_t place = hki_place_of(call, call->rank);
    for (uint32_t tier = 1; tier <= hki_top(call); tier++) {
        hki_party whole = hki_party_of(call, tier, place), below = hki_party_of(call, tier - 1, place);
        uint32_t leader = hki_party_leader(call, whole, call->root);
        if (whole.size == 1)
            continue;
        if (leader != place) {
            send_party(builder, store, below, hki_rank_at(call, leader), own);
            return;
        }
        if (below.size == 1)
            hki_place(builder, hki_share(&store->shares, call->rank), hki_all(own), false);
        uint32_t last = hki_party_number(call, tier - 1, whole.first + whole.size - 1);
        for (uint32_t i = hki_party_number(call, tier - 1, whole.first); i <= last; i++)
            if (i != hki_party_number(call, tier - 1, place))
                receive_party(builder, store, hki_party_by_number(call, tier - 1, i));
    }
}

void hki_hierarchy_gather(hki_builder *builder, const hki_call *call, const hki_region *own, const hki_region *shares)
{
    collection store = {.call = call, .shares = *shares, .list = malloc(call->ranks * sizeof *store.list)};
    if (store.list)
        gather(builder, &store, own);
    else
        hki_builder_no_memory(builder);
    free(store.list);
}

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_region own = hki_whole(builder, HKI_INPUT, 1), shares = hki_whole(builder, HKI_OUTPUT, call->ranks);
    if (call->rank != call->root)
        shares = hki_scratch_like(builder, &shares);
    hki_hierarchy_gather(builder, call, &own, &shares);
}

static double rounds(const hki_call *call)
{
    return hki_tiers_even(call) ? hki_top(call) : __builtin_nan("");
}

/* By the leader of a coarsest group: all shares of it. */
static double sent(const hki_call *call)
{
    return hki_tiers_even(call) ? 1.0 / hki_tier_fan(call, hki_top(call)) : __builtin_nan("");
}

const hki_algorithm hki_algorithm_gather_hierarchical = {
    .name = "hierarchical",
    .summary = "to the leaders of groups, and on to those of coarser ones",
    .source = "Karonis et al. 2000",
    .hierarchical = true,
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "1 a level",
    .sent_text = "n/N",
    .scratch_text = "the group's shares",
};

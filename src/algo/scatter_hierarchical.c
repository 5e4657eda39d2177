/*
 * Scatter with one leader a group: the root sends to the leaders of the coarsest groups, those to leaders within, so
 * that few messages cross, each with the shares of a whole group. One round a level; equal counts only, since leaders
 * pass on other ranks' shares. N. T. Karonis et al., 2000.
 */
#include "algo/hierarchy.h"

#include <stdlib.h>

/* What a leader has to hand out. */
typedef struct supply {
    const hki_call *call;
    hki_region shares; /* of all ranks: INPUT at the root, else scratch */
    uint32_t *list;
    bool in_turn;    /* a tier's messages leave when those of the one above are through */
    bool sends;      /* there were some */
    uint32_t behind; /* the last of them is so many SENDs back; 0: nothing is waited for */
} supply;

static void send_party(hki_builder *builder, supply *store, hki_party party)
{
    hki_group everyone = hki_everyone(store->call);
    uint32_t to = hki_rank_at(store->call, hki_party_leader(store->call, party, store->call->root));
    hki_span span;
    hki_party_ranks(store->call, party, store->list);
    for (uint32_t i = 0; hki_next_shares(&store->shares, store->list, party.size, &i, &span);) {
        if (store->behind)
            hki_window(builder, store->behind++);
        hki_send(builder, &everyone, to, span);
        store->sends = true;
    }
}

static void receive_party(hki_builder *builder, const supply *store, hki_party party, uint32_t from,
                          const hki_region *own)
{
    hki_group everyone = hki_everyone(store->call);
    hki_span span;
    hki_party_ranks(store->call, party, store->list);
    for (uint32_t i = 0; party.size > 1 && hki_next_shares(&store->shares, store->list, party.size, &i, &span);)
        hki_recv(builder, &everyone, from, span);
    if (party.size == 1)
        hki_recv(builder, &everyone, from, hki_all(own));
}

/* From the coarsest tier down: a rank receives where it leads a party but not the one that holds it, and hands on from
 * there. */
static void scatter(hki_builder *builder, supply *store, const hki_region *own)
{
    const hki_call *call = store->call;
    uint32_t place = hki_place_of(call, call->rank);
    for (uint32_t tier = hki_top(call); tier > 0; tier--) {
        hki_party whole = hki_party_of(call, tier, place), below = hki_party_of(call, tier - 1, place);
        uint32_t leader = hki_party_leader(call, whole, call->root);
        if (whole.size == 1)
            continue;
        if (leader != place) {
            if (hki_party_leader(call, below, call->root) == place)
                receive_party(builder, store, below, hki_rank_at(call, leader), own);
            continue;
        }
        store->behind = store->in_turn && store->sends;
        uint32_t last = hki_party_number(call, tier - 1, whole.first + whole.size - 1);
        for (uint32_t i = hki_party_number(call, tier - 1, whole.first); i <= last; i++)
            if (i != hki_party_number(call, tier - 1, place))
                send_party(builder, store, hki_party_by_number(call, tier - 1, i));
        if (below.size == 1)
            hki_place(builder, hki_all(own), hki_share(&store->shares, call->rank), false);
    }
}

void hki_hierarchy_scatter(hki_builder *builder, const hki_call *call, const hki_region *shares, const hki_region *own,
                           bool in_turn)
{
    supply store = {
        .call = call, .shares = *shares, .list = malloc(call->ranks * sizeof *store.list), .in_turn = in_turn};
    if (store.list)
        scatter(builder, &store, own);
    else
        hki_builder_no_memory(builder);
    free(store.list);
}

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_region own = hki_whole(builder, HKI_OUTPUT, 1), shares = hki_whole(builder, HKI_INPUT, call->ranks);
    if (call->rank != call->root)
        shares = hki_scratch_like(builder, &shares);
    hki_hierarchy_scatter(builder, call, &shares, &own, false);
}

static double rounds(const hki_call *call)
{
    return hki_tiers_even(call) ? hki_top(call) : __builtin_nan("");
}

const hki_algorithm hki_algorithm_scatter_hierarchical = {
    .name = "hierarchical",
    .summary = "to the leaders of coarse groups, and on to those of finer ones",
    .source = "Karonis et al. 2000",
    .hierarchical = true,
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_all_but_one,
    .rounds_text = "1 a level",
    .sent_text = "(P-1)/P n",
    .scratch_text = "the group's shares",
};

/* Reduce-scatter and all-gather by columns: tier by tier, between the ranks that look after the same shares. */
#include "algo/hierarchy.h"

#include <stdlib.h>

/* Up to so many ranks of a column exchange directly, each with each in one round; more do so on a ring. A guess: a
 * direct exchange takes scratch for all of them, and crowds a network. */
enum { DIRECT_MOST = 8 };

/* One column, as a rank sees it that takes part. */
typedef struct column {
    const hki_call *call;
    uint32_t tier, number;
    uint32_t first;       /* number of the party's first subparty */
    hki_group group;      /* one rank of each subparty */
    uint32_t *map, *list; /* of ranks; as many as there are in the world */
    hki_span result;      /* reduce-scatter at the top: where this rank's own share goes */
    hki_shares_are whose;
    bool last; /* reduce-scatter at the top */
} column;

static int compare_numbers(const void *left_number, const void *right_number)
{
    const uint32_t *left = left_number, *right = right_number;
    return (*left > *right) - (*left < *right);
}

/* The place of a rank, read as digits of a number whose bases are the tiers' fans, backwards: what the finest groups
 * divide among them comes apart first. Uneven tiers have no such digits. */
uint32_t hki_spread_share(const hki_call *call, uint32_t rank)
{
    if (!hki_tiers_even(call))
        return rank;
    uint32_t place = hki_place_of(call, rank), share = 0;
    for (uint32_t tier = 1; tier <= hki_top(call); tier++) {
        uint32_t fan = hki_tier_fan(call, tier);
        share = share * fan + place % fan;
        place /= fan;
    }
    return share;
}

/* The shares that member `member` has from the column at its end (or gives at its beginning), in
 * `list`, and how many: none where its subparty has no rank of this number. */
static uint32_t list_shares(const column *at, uint32_t member)
{
    hki_party party = hki_party_by_number(at->call, at->tier - 1, at->first + member);
    if (at->number >= party.size)
        return 0;
    uint32_t count = hki_portfolio(at->call, at->tier, party.first + at->number, at->list, 0);
    for (uint32_t i = 0; i < count && at->whose == HKI_SHARES_SPREAD; i++)
        at->list[i] = hki_spread_share(at->call, at->list[i]);
    qsort(at->list, count, sizeof *at->list, compare_numbers); /* in order, they make the fewest spans */
    return count;
}

static void send_shares(hki_builder *builder, const column *at, uint32_t member, uint32_t to, const hki_region *from)
{
    hki_span span;
    uint32_t count = list_shares(at, member);
    for (uint32_t i = 0; hki_next_shares(from, at->list, count, &i, &span);)
        hki_send(builder, &at->group, to, span);
}

static void receive_shares(hki_builder *builder, const column *at, uint32_t member, uint32_t from,
                           const hki_region *into)
{
    hki_span span;
    uint32_t count = list_shares(at, member);
    for (uint32_t i = 0; hki_next_shares(into, at->list, count, &i, &span);)
        hki_recv(builder, &at->group, from, span);
}

static void reduce_shares(hki_builder *builder, const column *at, uint32_t member, uint32_t from,
                          const hki_region *values, const hki_region *into)
{
    hki_span local, sum;
    uint32_t count = list_shares(at, member), j = 0;
    bool ends = member == at->group.rank, left = hki_group_rank(&at->group, from) < at->call->rank;
    for (uint32_t i = 0; hki_next_shares(values, at->list, count, &i, &local);) {
        hki_next_shares(into, at->list, count, &j, &sum);
        hki_recv_reduce(builder, &at->group, from, ends && at->last ? at->result : sum, local, left, ends && at->last);
    }
}

/* What a rank does in one column. */
typedef void column_body(hki_builder *builder, const column *at, const hki_region *values, const hki_region *work);

/* Every column of the tier that this rank takes part in, in ascending order. */
static void for_columns(hki_builder *builder, column *at, const hki_region *values, const hki_region *work,
                        column_body *body)
{
    const hki_call *call = at->call;
    uint32_t place = hki_place_of(call, call->rank), most = 0;
    hki_party whole = hki_party_of(call, at->tier, place), own = hki_party_of(call, at->tier - 1, place);
    at->first = hki_party_number(call, at->tier - 1, whole.first);
    uint32_t size = hki_party_number(call, at->tier - 1, whole.first + whole.size - 1) - at->first + 1;
    for (uint32_t i = 0; i < size; i++) {
        uint32_t members = hki_party_by_number(call, at->tier - 1, at->first + i).size;
        most = members > most ? members : most;
    }
    at->group = (hki_group){.size = size, .map = at->map};
    at->group.rank = hki_party_number(call, at->tier - 1, place) - at->first;
    for (at->number = place - own.first; at->number < most; at->number += own.size) {
        for (uint32_t i = 0; i < size; i++) {
            hki_party party = hki_party_by_number(call, at->tier - 1, at->first + i);
            at->map[i] = hki_rank_at(call, party.first + at->number % party.size);
        }
        body(builder, at, values, work);
    }
}

static bool open_column(hki_builder *builder, const hki_call *call, column *at)
{
    *at = (column){.call = call};
    at->map = malloc(call->ranks * sizeof *at->map);
    at->list = malloc(call->ranks * sizeof *at->list);
    if (at->map && at->list)
        return true;
    hki_builder_no_memory(builder);
    free(at->map);
    free(at->list);
    return false;
}

static void close_column(column *at)
{
    free(at->map);
    free(at->list);
}

/* ---- reduce-scatter ---- */

static void reduce_directly(hki_builder *builder, const column *at, const hki_region *values, const hki_region *work)
{
    const hki_group *group = &at->group;
    for (uint32_t distance = 1; distance < group->size; distance++) {
        uint32_t to = hki_ahead(group->size, group->rank, distance);
        send_shares(builder, at, to, to, values);
    }
    hki_span local, sum;
    uint32_t count = list_shares(at, group->rank), j = 0;
    for (uint32_t i = 0; hki_next_shares(values, at->list, count, &i, &local);) {
        hki_next_shares(work, at->list, count, &j, &sum);
        if (group->size == 1) /* a party with one subparty only: never at the top */
            hki_place(builder, sum, local, false);
        else
            hki_reduce_from_all(builder, group, local, false, at->last ? at->result : sum, at->last);
    }
}

/* As hki_ring_reduce_scatter: a member's shares set out from the next, and come round. */
static void reduce_on_ring(hki_builder *builder, const column *at, const hki_region *values, const hki_region *work)
{
    uint32_t size = at->group.size, own = at->group.rank;
    for (uint32_t round = 0; round + 1 < size; round++) {
        send_shares(builder, at, hki_behind(size, own, round + 1), hki_ahead(size, own, 1), round ? work : values);
        reduce_shares(builder, at, hki_behind(size, own, (round + 2) % size), hki_behind(size, own, 1), values, work);
    }
}

static void reduce_column(hki_builder *builder, const column *at, const hki_region *values, const hki_region *work)
{
    (at->group.size <= DIRECT_MOST ? reduce_directly : reduce_on_ring)(builder, at, values, work);
}

void hki_columns_reduce_scatter(hki_builder *builder, const hki_call *call, const hki_region *values,
                                hki_shares_are whose, const hki_region *work, hki_span result)
{
    column at;
    if (!open_column(builder, call, &at))
        return;
    at.result = result;
    at.whose = whose;
    for (at.tier = 1; at.tier <= hki_top(call); at.tier++) {
        at.last = at.tier == hki_top(call);
        for_columns(builder, &at, at.tier == 1 ? values : work, work, reduce_column);
    }
    close_column(&at);
}

/* ---- all-gather ---- */

/* Backwards: where shares came in rank order, those behind have theirs already, and messages to those ahead would meet
 * the shares that are still on their way there. */
static void gather_column(hki_builder *builder, const column *at, const hki_region *values, const hki_region *work)
{
    uint32_t size = at->group.size, own = at->group.rank, next = hki_behind(size, own, 1);
    bool direct = size <= DIRECT_MOST;
    (void)values;
    for (uint32_t distance = 1; distance < size; distance++) {
        if (direct)
            send_shares(builder, at, own, hki_behind(size, own, distance), work);
        else
            send_shares(builder, at, hki_ahead(size, own, distance - 1), next, work);
        uint32_t of = hki_ahead(size, own, distance);
        receive_shares(builder, at, of, direct ? of : hki_ahead(size, own, 1), work);
    }
}

void hki_columns_allgather(hki_builder *builder, const hki_call *call, hki_shares_are whose, hki_span own,
                           const hki_region *output)
{
    column at;
    if (!open_column(builder, call, &at))
        return;
    at.whose = whose;
    hki_place(builder, hki_share(output, whose == HKI_SHARES_SPREAD ? hki_spread_share(call, call->rank) : call->rank),
              own, false);
    for (at.tier = hki_top(call); at.tier > 0; at.tier--)
        for_columns(builder, &at, output, output, gather_column);
    close_column(&at);
}

double hki_columns_rounds(const hki_call *call)
{
    double rounds = 0;
    for (uint32_t tier = 1; tier <= hki_top(call); tier++) {
        uint32_t fan = hki_tier_fan(call, tier);
        rounds += fan ? (fan <= DIRECT_MOST ? 1 : fan - 1) : __builtin_nan("");
    }
    return rounds;
}

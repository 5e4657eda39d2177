/*
 * Hierarchical all-to-all: within every group each rank first gets what goes to the ranks of its own number in other
 * groups, from all of the group, then passes it on in one message a group. With m ranks on each of N hosts: m-1
 * messages within and N-1 of m blocks across instead of P-1 single ones; every block is sent twice (once a level).
 * Equal counts and even groups only. A. Bienz, L. N. Olson, W. D. Gropp, S. Lockhart: Modeling data movement
 * performance on heterogeneous architectures, 2021 (locality-aware exchanges).
 *
 * A rank holds, after each tier, a matrix: rows are the ranks of its party, as sources, columns its portfolio there, as
 * targets. The matrix has as many blocks as there are ranks, whatever the tier.
 */
#include "algo/hierarchy.h"

#include <stdlib.h>

/* One tier of the exchange as this rank sees it. */
typedef struct stage {
    const hki_call *call;
    uint32_t tier, fan;       /* subparties of the party */
    uint32_t rows, width;     /* of the matrix before: ranks of a subparty, and columns that go to one target */
    uint32_t own;             /* number of this rank's subparty in the party */
    hki_group peers;          /* the ranks of this number in all subparties */
    hki_region before, after; /* the matrices: INPUT and OUTPUT at the ends */
    uint32_t *map, *list;
} stage;

/* `count` blocks of a matrix in runs of `run`, `stride` apart. */
static hki_span blocks(const hki_region *matrix, uint32_t first, uint32_t count, uint32_t run, uint32_t stride)
{
    hki_span span = hki_all(matrix);
    span.blocks.first = first;
    span.blocks.count = count;
    span.blocks.run = run;
    span.blocks.stride = stride;
    if (matrix->buffer == HKI_SCRATCH) {
        span.slot = count == 1 ? matrix->slot + first : matrix->slot;
        span.slots = count;
    }
    return span;
}

/* What goes from subparty `from` to subparty `to`, at both ends, piece by piece: INPUT and OUTPUT are in order of ranks
 * and may need several; matrices between need one. */
static bool next_piece(const stage *at, uint32_t from, uint32_t to, uint32_t *done, hki_span *source,
                       hki_span *destination)
{
    uint32_t count = at->rows * at->width, begin = *done, across = at->fan * at->width;
    uint32_t first = to * at->width, length = count - begin;
    hki_party party = hki_party_of(at->call, at->tier, hki_place_of(at->call, at->call->rank));
    if (begin == count)
        return false;
    if (at->tier == 1) { /* one row: the shares of the target's portfolio */
        hki_portfolio(at->call, 1, party.first + to, at->list, 0);
        hki_next_shares(&at->before, at->list, count, done, source);
        length = *done - begin;
    } else if (at->tier == hki_top(at->call)) { /* one column: a share from every rank of the subparty */
        for (uint32_t i = 0; i < count; i++)
            at->list[i] = hki_rank_at(at->call, party.first + from * at->rows + i);
        hki_next_shares(&at->after, at->list, count, done, destination);
        length = *done - begin;
    }
    *done = begin + length;
    if (at->tier > 1)
        *source = blocks(&at->before, begin / at->width * across + first, length, at->width, across);
    if (at->tier < hki_top(at->call))
        *destination = blocks(&at->after, from * count + begin, length, length, length);
    return true;
}

static void exchange(hki_builder *builder, const stage *at)
{
    hki_span source, destination;
    for (uint32_t distance = 1; distance < at->fan; distance++) {
        uint32_t to = hki_ahead(at->fan, at->own, distance);
        for (uint32_t done = 0; next_piece(at, at->own, to, &done, &source, &destination);)
            hki_send(builder, &at->peers, to, source);
    }
    for (uint32_t done = 0; next_piece(at, at->own, at->own, &done, &source, &destination);)
        hki_place(builder, destination, source, false);
    for (uint32_t distance = 1; distance < at->fan; distance++) {
        uint32_t from = hki_behind(at->fan, at->own, distance);
        for (uint32_t done = 0; next_piece(at, from, at->own, &done, &source, &destination);)
            hki_recv(builder, &at->peers, from, destination);
    }
}

static void find_peers(stage *at)
{
    uint32_t place = hki_place_of(at->call, at->call->rank);
    hki_party whole = hki_party_of(at->call, at->tier, place), below = hki_party_of(at->call, at->tier - 1, place);
    at->fan = hki_tier_fan(at->call, at->tier);
    at->rows = below.size;
    at->width = at->call->ranks / whole.size;
    at->own = (place - whole.first) / below.size;
    for (uint32_t i = 0; i < at->fan; i++)
        at->map[i] = hki_rank_at(at->call, whole.first + i * below.size + (place - below.first));
    at->peers = (hki_group){.size = at->fan, .rank = at->own, .map = at->map};
}

static void generate_stages(hki_builder *builder, stage *at)
{
    hki_region input = hki_whole(builder, HKI_INPUT, at->call->ranks);
    hki_region output = hki_whole(builder, HKI_OUTPUT, at->call->ranks);
    at->after = input;
    for (at->tier = 1; at->tier <= hki_top(at->call); at->tier++) {
        at->before = at->after;
        at->after = at->tier < hki_top(at->call) ? hki_scratch_like(builder, &input) : output;
        find_peers(at);
        exchange(builder, at);
    }
}

static void generate(hki_builder *builder, const hki_call *call)
{
    stage at = {.call = call};
    if (hki_top(call) == 1) { /* no groups */
        hki_alltoall_exchange(builder, call, 1);
        return;
    }
    at.map = malloc(call->ranks * sizeof *at.map);
    at.list = malloc(call->ranks * sizeof *at.list);
    if (at.map && at.list)
        generate_stages(builder, &at);
    else
        hki_builder_no_memory(builder);
    free(at.map);
    free(at.list);
}

static const char *refuses(const hki_call *call)
{
    return hki_tiers_even(call) ? NULL : "it needs groups of equal size";
}

static double rounds(const hki_call *call)
{
    return hki_top(call) > 1 ? hki_top(call) : call->ranks - 1;
}

static double sent(const hki_call *call)
{
    double sent = 0;
    for (uint32_t tier = 1; tier <= hki_top(call); tier++)
        sent += (hki_tier_fan(call, tier) - 1.0) / hki_tier_fan(call, tier);
    return sent;
}

const hki_algorithm hki_algorithm_alltoall_hierarchical = {
    .name = "hierarchical",
    .summary = "gathered within groups by target, then one message a group",
    .source = "Bienz et al. 2021 (locality-aware)",
    .constraint = "groups of equal size",
    .hierarchical = true,
    .refuses = refuses,
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "1 a level",
    .sent_text = "(k-1)/k n a level of k groups",
    .scratch_text = "n a level",
    .alike = hki_tiers_alike,
};

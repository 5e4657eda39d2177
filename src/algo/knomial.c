/* Exchange among k partners a round at distances that multiply: whole vectors, halves, or doubling ranges. */
#include "algo/generators.h"

/* The other members of a round's group: those that differ from index in the digit of weight `distance`. */
typedef struct partners {
    uint32_t digit, radix;
    uint32_t first; /* index with digit 0 */
    uint32_t distance;
} partners;

static partners find_partners(uint32_t index, uint32_t radix, uint32_t distance)
{
    uint32_t digit = index / distance % radix;
    return (partners){digit, radix, index - digit * distance, distance};
}

static uint32_t partner_index(const partners *round, uint32_t digit)
{
    return round->first + digit * round->distance;
}

/* The digits of whom a member sends to, and receives from, in a step: the same one where the radix is a power of two,
 * so that all members do alike. */
static hki_turn turn_of(const partners *round, uint32_t step)
{
    if ((round->radix & (round->radix - 1)) == 0)
        return (hki_turn){round->digit ^ step, round->digit ^ step};
    return (hki_turn){hki_ahead(round->radix, round->digit, step), hki_behind(round->radix, round->digit, step)};
}

/* Shares of core members begin … begin+count-1, of a region of fold.core or fold.size shares. */
static hki_span core_shares(const hki_region *region, const hki_fold *fold, uint32_t begin, uint32_t count)
{
    if (region->shares == fold->core)
        return hki_shares(region, begin, count);
    uint32_t first = hki_fold_member(fold, begin);
    return hki_shares(region, first, hki_fold_member(fold, begin + count) - first);
}

/* destination = local ⊕ what the round's partners send, in the order of their digits. */
static void reduce_from_partners(hki_builder *builder, const hki_group *group, const hki_fold *fold,
                                 const partners *round, hki_span destination, hki_span local, bool finish)
{
    hki_span sources[8];
    if (round->radix == 2) {
        uint32_t peer = hki_fold_member(fold, partner_index(round, 1 - round->digit));
        hki_recv_reduce(builder, group, peer, destination, local, round->digit == 1, finish);
        return;
    }
    uint32_t slots = hki_scratch_slots(builder, round->radix - 1);
    for (uint32_t i = 1; i < round->radix; i++) {
        uint32_t digit = turn_of(round, i).from;
        sources[digit] = hki_in_slot(slots + i - 1, local);
        hki_recv(builder, group, hki_fold_member(fold, partner_index(round, digit)), sources[digit]);
    }
    sources[round->digit] = local;
    hki_reduce(builder, destination, sources, round->radix, finish);
}

void hki_knomial_reduce_scatter(hki_builder *builder, const hki_group *group, const hki_fold *fold,
                                const hki_radices *radices, const hki_region *input, const hki_region *work,
                                const hki_region *result, bool finish)
{
    uint32_t width = fold->core;
    const hki_region *values = input;
    for (uint32_t i = radices->count; i-- > 0;) {
        width /= radices->radix[i];
        partners round = find_partners(fold->index, radices->radix[i], width);
        uint32_t begin = fold->index - fold->index % (width * round.radix); /* of the range shared by the group */
        for (uint32_t step = 1; step < round.radix; step++) {
            uint32_t digit = turn_of(&round, step).to;
            hki_send(builder, group, hki_fold_member(fold, partner_index(&round, digit)),
                     core_shares(values, fold, begin + digit * width, width));
        }
        begin += round.digit * width;
        hki_span destination = i == 0 && result ? hki_all(result) : core_shares(work, fold, begin, width);
        reduce_from_partners(builder, group, fold, &round, destination, core_shares(values, fold, begin, width),
                             finish && i == 0);
        values = work;
    }
}

void hki_knomial_allgather(hki_builder *builder, const hki_group *group, const hki_fold *fold,
                           const hki_radices *radices, const hki_region *output)
{
    uint32_t width = 1;
    for (uint32_t i = 0; i < radices->count; i++) {
        partners round = find_partners(fold->index, radices->radix[i], width);
        uint32_t begin = fold->index - fold->index % (width * round.radix);
        for (uint32_t step = 1; step < round.radix; step++) {
            uint32_t digit = turn_of(&round, step).to;
            hki_send(builder, group, hki_fold_member(fold, partner_index(&round, digit)),
                     core_shares(output, fold, begin + round.digit * width, width));
        }
        for (uint32_t step = 1; step < round.radix; step++) {
            uint32_t digit = turn_of(&round, step).from;
            hki_recv(builder, group, hki_fold_member(fold, partner_index(&round, digit)),
                     core_shares(output, fold, begin + digit * width, width));
        }
        width *= round.radix;
    }
}

void hki_multiplying_allreduce(hki_builder *builder, const hki_group *group, uint32_t radix, hki_span source,
                               hki_span destination, bool finish)
{
    hki_fold fold = hki_fold_to(group->size, hki_smooth_floor(group->size, radix), group->rank);
    hki_radices radices = hki_factors(fold.core, radix);
    if (fold.index == HKI_NOBODY) {
        hki_send(builder, group, fold.partner, source);
        hki_recv(builder, group, fold.partner, destination);
        return;
    }
    bool folded = fold.partner != HKI_NOBODY;
    hki_stages values = hki_stages_new(builder, source, destination, radices.count, folded);
    if (folded)
        hki_recv_reduce(builder, group, fold.partner, hki_stage(&values, 0), source, false, false);
    for (uint32_t i = 0, distance = 1; i < radices.count; distance *= radices.radix[i++]) {
        partners round = find_partners(fold.index, radices.radix[i], distance);
        for (uint32_t step = 1; step < round.radix; step++) {
            uint32_t digit = turn_of(&round, step).to;
            hki_send(builder, group, hki_fold_member(&fold, partner_index(&round, digit)), hki_stage(&values, i));
        }
        reduce_from_partners(builder, group, &fold, &round, hki_stage(&values, i + 1), hki_stage(&values, i),
                             finish && i + 1 == radices.count);
    }
    if (radices.count == 0)
        hki_place(builder, destination, source, finish);
    hki_stages_deliver(builder, &values);
    if (folded)
        hki_send(builder, group, fold.partner, destination);
}

void hki_knomial_allreduce(hki_builder *builder, const hki_group *group, uint32_t radix, const hki_region *input,
                           const hki_region *output)
{
    hki_fold fold = hki_fold_to(group->size, hki_smooth_floor(group->size, radix), group->rank);
    hki_radices radices = hki_factors(fold.core, radix);
    if (fold.index == HKI_NOBODY) {
        hki_send(builder, group, fold.partner, hki_all(input));
        hki_recv(builder, group, fold.partner, hki_all(output));
        return;
    }
    const hki_region *values = input;
    if (fold.partner != HKI_NOBODY) {
        hki_recv_reduce(builder, group, fold.partner, hki_all(output), hki_all(input), false, false);
        values = output;
    }
    hki_knomial_reduce_scatter(builder, group, &fold, &radices, values, output, NULL, true);
    hki_knomial_allgather(builder, group, &fold, &radices, output);
    if (fold.partner != HKI_NOBODY)
        hki_send(builder, group, fold.partner, hki_all(output));
}

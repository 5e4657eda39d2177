/* Sets of shares, as lists of ranks and as spans. */
#include "algo/hierarchy.h"

#include <stdlib.h>

uint32_t hki_portfolio(const hki_call *call, uint32_t tier, uint32_t place, uint32_t *list, uint32_t count)
{
    if (tier == hki_top(call)) {
        list[count] = hki_rank_at(call, place);
        return count + 1;
    }
    hki_party own = hki_party_of(call, tier, place), above = hki_party_of(call, tier + 1, place);
    uint32_t last = hki_party_number(call, tier, above.first + above.size - 1);
    for (uint32_t number = hki_party_number(call, tier, above.first); number <= last; number++) {
        hki_party party = hki_party_by_number(call, tier, number);
        for (uint32_t column = place - own.first; column < party.size; column += own.size)
            count = hki_portfolio(call, tier + 1, party.first + column, list, count);
    }
    return count;
}

static int compare_ranks(const void *left_rank, const void *right_rank)
{
    const uint32_t *left = left_rank, *right = right_rank;
    return (*left > *right) - (*left < *right);
}

void hki_party_ranks(const hki_call *call, hki_party party, uint32_t *list)
{
    for (uint32_t i = 0; i < party.size; i++)
        list[i] = hki_rank_at(call, party.first + i);
    qsort(list, party.size, sizeof *list, compare_ranks);
}

/* How many of the ranks from list[0] on are runs of `run` at distances of `stride`. */
static uint32_t regular(const uint32_t *list, uint32_t count, uint32_t run, uint32_t stride)
{
    uint32_t i = 0;
    while (i < count && list[i] == list[0] + i / run * stride + i % run)
        i++;
    return i;
}

bool hki_next_shares(const hki_region *region, const uint32_t *list, uint32_t count, uint32_t *at, hki_span *span)
{
    if (*at == count)
        return false;
    list += *at;
    count -= *at;
    uint32_t run = 1;
    while (run < count && list[run] == list[0] + run)
        run++;
    uint32_t stride = run < count && list[run] > list[run - 1] ? list[run] - list[0] : run;
    uint32_t length = stride > run ? regular(list, count, run, stride) : run;
    *span = hki_all(region);
    span->blocks.first = list[0];
    span->blocks.count = length;
    span->blocks.run = stride > run ? run : length;
    span->blocks.stride = stride > run ? stride : length;
    if (region->buffer == HKI_SCRATCH) {
        span->slot = length == 1 ? region->slot + list[0] : region->slot;
        span->slots = length;
    }
    *at += length;
    return true;
}

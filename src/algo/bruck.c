/*
 * Bruck's all-gather and its reverse, for any number of members: at every distance of 1, k, k², … up to k - 1 messages
 * go side by side, each of a range of shares. With k = 2 and any P the fewest rounds at the fewest bytes; a larger k
 * takes fewer rounds of more messages.
 */
#include "algo/generators.h"

static uint32_t top_distance(uint32_t size, uint32_t radix)
{
    uint64_t distance = 1;
    while (distance * radix < size)
        distance *= radix;
    return (uint32_t)distance;
}

/* Of the `held` shares from a member on, how many are in range `digit` of so many each. */
static uint32_t range_size(uint32_t held, uint32_t distance, uint32_t digit)
{
    uint64_t first = (uint64_t)digit * distance;
    if (first >= held)
        return 0;
    return held - first < distance ? held - (uint32_t)first : distance;
}

/* What nothing comes for at the first distance, where the last range is short, and is not yet among the sums. */
static void keep_rest(hki_builder *builder, const hki_group *group, const hki_region *values, const hki_region *work,
                      uint32_t distance, uint32_t come)
{
    uint32_t first = hki_ahead(group->size, group->rank, come);
    if (come < distance)
        hki_place(builder, hki_shares(work, first, distance - come), hki_shares(values, first, distance - come), false);
}

void hki_bruck_reduce_scatter(hki_builder *builder, const hki_group *group, uint32_t radix, const hki_region *input,
                              const hki_region *work, hki_span result, bool finish)
{
    uint32_t held = group->size; /* sums of so many shares from the own one on are here */
    const hki_region *values = input;
    if (held == 1)
        hki_place(builder, result, hki_share(input, 0), finish);
    for (uint32_t distance = top_distance(held, radix); held > 1; held = distance, distance /= radix) {
        for (uint32_t digit = 1; range_size(held, distance, digit) > 0; digit++) {
            uint32_t to = hki_ahead(group->size, group->rank, digit * distance);
            hki_send(builder, group, to, hki_shares(values, to, range_size(held, distance, digit)));
        }
        for (uint32_t digit = 1, count; (count = range_size(held, distance, digit)) > 0; digit++) {
            uint32_t from = hki_behind(group->size, group->rank, digit * distance);
            bool last = distance == 1 && range_size(held, distance, digit + 1) == 0;
            const hki_region *local = digit == 1 ? values : work;
            hki_span sum = distance == 1 ? result : hki_shares(work, group->rank, count);
            hki_span own = distance == 1 && digit > 1 ? result : hki_shares(local, group->rank, count);
            hki_recv_reduce(builder, group, from, sum, own, from < group->rank, finish && last);
            if (digit == 1 && values == input)
                keep_rest(builder, group, values, work, distance, count);
        }
        values = work;
    }
}

void hki_bruck_allgather(hki_builder *builder, const hki_group *group, uint32_t radix, hki_span own,
                         const hki_region *output)
{
    for (uint64_t distance = 1; distance < group->size; distance *= radix) {
        uint32_t far = (uint32_t)distance, all = group->size;
        if (distance * radix < all)
            all = far * radix;
        for (uint32_t digit = 1, count; (count = range_size(all, far, digit)) > 0; digit++)
            hki_send(builder, group, hki_behind(group->size, group->rank, digit * far),
                     far == 1 ? own : hki_shares(output, group->rank, count));
        if (far == 1)
            hki_place(builder, hki_share(output, group->rank), own, false);
        for (uint32_t digit = 1, count; (count = range_size(all, far, digit)) > 0; digit++) {
            uint32_t from = hki_ahead(group->size, group->rank, digit * far);
            hki_recv(builder, group, from, hki_shares(output, from, count));
        }
    }
    if (group->size == 1)
        hki_place(builder, hki_share(output, 0), own, false);
}

uint32_t hki_bruck_rounds(uint32_t size, uint32_t radix)
{
    uint32_t rounds = 0;
    for (uint64_t distance = 1; distance < size; distance *= radix)
        rounds++;
    return rounds;
}

uint32_t hki_bruck_messages(uint32_t size, uint32_t radix)
{
    uint32_t messages = 0;
    for (uint64_t distance = 1; distance < size; distance *= radix) {
        uint64_t all = distance * radix < size ? distance * radix : size;
        messages += (uint32_t)((all - 1) / distance);
    }
    return messages;
}

/* Textbook forms that several algorithms share: rounds, and vectors sent by the busiest rank. */
#include "algo/generators.h"

double hki_form_log(const hki_call *call)
{
    return hki_log2_ceil(call->ranks);
}

double hki_form_ring(const hki_call *call)
{
    return call->ranks - 1;
}

double hki_form_chain(const hki_call *call)
{
    return call->ranks - 1.0 + call->segments - 1.0;
}

double hki_form_double_ring(const hki_call *call)
{
    return 2.0 * (call->ranks - 1);
}

double hki_form_all_but_one(const hki_call *call)
{
    return (call->ranks - 1.0) / call->ranks;
}

double hki_form_twice_shares(const hki_call *call)
{
    return 2.0 * (call->ranks - 1) / call->ranks;
}

double hki_form_one(const hki_call *call)
{
    return call->ranks > 1 ? 1 : 0;
}

double hki_form_two(const hki_call *call)
{
    return call->ranks > 1 ? 2 : 0;
}

double hki_form_everyone(const hki_call *call)
{
    return call->ranks - 1;
}

uint32_t hki_knomial_largest_subtree(uint32_t size, uint32_t radix)
{
    uint32_t largest = 0;
    for (uint64_t step = 1; step < size; step *= radix)
        for (uint64_t child = step; child < radix * step && child < size; child += step) {
            uint32_t members = step < size - child ? (uint32_t)step : size - (uint32_t)child;
            largest = members > largest ? members : largest;
        }
    return largest;
}

double hki_form_children(const hki_call *call, uint32_t radix)
{
    uint32_t children = 0;
    for (uint64_t step = 1; step < call->ranks; step *= radix)
        for (uint32_t digit = 1; digit < radix; digit++)
            children += digit * step < call->ranks;
    return children;
}

hki_alike hki_all_alike(const hki_call *call)
{
    (void)call;
    return HKI_ALIKE;
}

hki_alike hki_alike_in_pairs(const hki_call *call)
{
    (void)call;
    return HKI_ALIKE_IN_PAIRS;
}

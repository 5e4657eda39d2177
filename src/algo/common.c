#include "algo/generators.h"

hki_group hki_everyone(const hki_call *call)
{
    return (hki_group){.size = call->ranks, .rank = call->rank, .first = 0, .stride = 1, .map = NULL};
}

/* Block `block` of INPUT as the block of OUTPUT that is the same bytes; false if there is none. */
static bool aliased_block(const hki_alias *alias, uint32_t block, uint32_t *output)
{
    if (alias->whole || block < alias->input || block - alias->input >= alias->count)
        return false;
    *output = block - alias->input + alias->output;
    return true;
}

bool hki_same_bytes(const hki_builder *builder, hki_span a, hki_span b)
{
    if (a.buffer == HKI_OUTPUT && b.buffer == HKI_INPUT) {
        hki_span swap = a;
        a = b;
        b = swap;
    }
    if (a.buffer != b.buffer && (a.buffer != HKI_INPUT || b.buffer != HKI_OUTPUT))
        return false;
    if (a.blocks.count != b.blocks.count || (a.buffer == HKI_SCRATCH && a.slot != b.slot))
        return false;
    const hki_alias *alias = &hki_builder_shape(builder)->alias;
    uint32_t i = 0, j = 0, first_a, first_b, count_a, count_b, mapped;
    while (hki_range_next(&a.blocks, &i, &first_a, &count_a) && hki_range_next(&b.blocks, &j, &first_b, &count_b)) {
        mapped = first_a;
        if (a.buffer != b.buffer &&
            (!aliased_block(alias, first_a + count_a - 1, &mapped) || !aliased_block(alias, first_a, &mapped)))
            return false;
        if (mapped != first_b || count_a != count_b)
            return false;
    }
    return true;
}

void hki_place(hki_builder *builder, hki_span destination, hki_span source, bool finish)
{
    if (!hki_same_bytes(builder, destination, source))
        hki_copy(builder, destination, source, finish);
}

hki_span hki_signal(void)
{
    return (hki_span){.buffer = HKI_INPUT, .of = HKI_INPUT};
}

hki_region hki_result_region(hki_builder *builder, const hki_call *call, const hki_region *input)
{
    if (!hki_builder_shape(builder)->alias.whole)
        return hki_whole(builder, HKI_OUTPUT, 1);
    hki_region own = hki_subregion(input, call->rank, 1);
    return hki_scratch_like(builder, &own);
}

void hki_result_deliver(hki_builder *builder, const hki_region *result)
{
    if (result->buffer != HKI_SCRATCH)
        return;
    hki_region output = hki_whole(builder, HKI_OUTPUT, 1);
    hki_copy(builder, hki_all(&output), hki_all(result), false);
}

hki_stages hki_stages_new(hki_builder *builder, hki_span source, hki_span destination, uint32_t last, bool made)
{
    hki_stages stages = {.source = source, .destination = destination, .last = last};
    stages.shifted = !made && last % 2 == 1 && hki_same_bytes(builder, source, destination);
    if (last >= 2 || (last == 1 && (made || stages.shifted)))
        stages.slot[0] = hki_scratch_slot(builder);
    if (stages.shifted && last >= 3)
        stages.slot[1] = hki_scratch_slot(builder);
    if (made)
        stages.source = last % 2 == 0 ? destination : hki_in_slot(stages.slot[0], source);
    return stages;
}

hki_span hki_stage(const hki_stages *stages, uint32_t value)
{
    if (value == 0)
        return stages->source;
    if (stages->shifted && value <= 2)
        return hki_in_slot(stages->slot[value - 1], stages->source);
    if ((stages->last - value) % 2 == 0)
        return stages->destination;
    return hki_in_slot(stages->slot[0], stages->source);
}

void hki_stages_deliver(hki_builder *builder, const hki_stages *stages)
{
    hki_span last = hki_stage(stages, stages->last);
    hki_place(builder, stages->destination, last, false);
}

hki_region hki_subtree_scratch(hki_builder *builder, const hki_region *grid, uint32_t first, uint32_t count,
                               uint32_t *offset)
{
    hki_region shares = *grid;
    *offset = 0;
    if (first + count <= grid->shares) {
        shares.first += first * grid->blocks_per_share;
        shares.shares = count;
        *offset = first;
    }
    return hki_scratch_like(builder, &shares);
}

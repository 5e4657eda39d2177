/* Regions and spans: index arithmetic only; nothing here allocates or fails. */
#include "sched/builder.h"

#include <assert.h>

static uint32_t share_first(const hki_region *region, uint32_t share)
{
    return region->edges ? region->edges[share] : region->first + share * region->blocks_per_share;
}

static uint32_t region_first(const hki_region *region)
{
    return share_first(region, 0);
}

static uint32_t region_blocks(const hki_region *region)
{
    return share_first(region, region->shares) - region_first(region);
}

/* `count` consecutive blocks from `first` on, going round within the region. In scratch a single block is named by its
 * own slot, several by the slot of the region's first. */
static hki_span make_span(const hki_region *region, uint32_t first, uint32_t count)
{
    uint32_t base = region_first(region), blocks = region_blocks(region);
    hki_span span = {.buffer = (uint8_t)region->buffer, .of = (uint8_t)region->of};
    span.blocks =
        (hki_range){.first = first - base, .count = count, .run = count, .stride = count, .wrap = blocks, .base = base};
    if (region->buffer == HKI_SCRATCH) {
        span.slot = count == 1 ? region->slot + (first - base) % blocks : region->slot;
        span.slots = count;
    }
    return span;
}

hki_span hki_share(const hki_region *region, uint32_t share)
{
    return hki_shares(region, share, 1);
}

hki_span hki_shares(const hki_region *region, uint32_t first, uint32_t count)
{
    assert(first < region->shares && count <= region->shares);
    uint32_t begin = share_first(region, first), blocks = region_blocks(region);
    uint32_t last = first + count;
    uint32_t end =
        last <= region->shares ? share_first(region, last) : share_first(region, last - region->shares) + blocks;
    return make_span(region, begin, end - begin);
}

hki_span hki_share_segment(const hki_region *region, uint32_t share, uint32_t segment, uint32_t segments)
{
    assert(share < region->shares && segment < segments);
    uint32_t begin = share_first(region, share);
    uint32_t blocks = share_first(region, share + 1) - begin;
    assert(blocks % segments == 0);
    return make_span(region, begin + segment * (blocks / segments), blocks / segments);
}

hki_span hki_all(const hki_region *region)
{
    return make_span(region, region_first(region), region_blocks(region));
}

hki_span hki_in_slot(uint32_t slot, hki_span span)
{
    span.buffer = HKI_SCRATCH;
    span.slot = slot;
    span.slots = 1;
    return span;
}

/* The part [first, first + blocks) of a region as a region of equal shares. */
static hki_region part(const hki_region *region, uint32_t first, uint32_t blocks, uint32_t shares)
{
    assert(shares > 0 && blocks % shares == 0);
    hki_region result = *region;
    if (region->buffer == HKI_SCRATCH)
        result.slot += first - region_first(region);
    result.first = first;
    result.shares = shares;
    result.blocks_per_share = blocks / shares;
    result.edges = NULL;
    return result;
}

hki_region hki_recut(const hki_region *region, uint32_t shares)
{
    return part(region, region_first(region), region_blocks(region), shares);
}

hki_region hki_subregion(const hki_region *region, uint32_t share, uint32_t shares)
{
    uint32_t first = share_first(region, share);
    return part(region, first, share_first(region, share + 1) - first, shares);
}

hki_region hki_whole(const hki_builder *builder, hki_buffer buffer, uint32_t shares)
{
    uint32_t blocks = hki_grid_blocks(&hki_builder_shape(builder)->grid[buffer]);
    hki_region grid = {.buffer = buffer, .of = buffer, .shares = 1, .blocks_per_share = blocks};
    return hki_recut(&grid, shares);
}

hki_region hki_scratch_like(hki_builder *builder, const hki_region *like)
{
    hki_region result = *like;
    result.buffer = HKI_SCRATCH;
    result.slot = hki_scratch_slots(builder, region_blocks(like));
    return result;
}

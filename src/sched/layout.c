#include "sched/layout.h"

enum { CACHE_LINE = 64 };

void hki_layout_init(hki_layout *layout, const hki_schedule *schedule, const hki_sizes *sizes, unsigned buffer)
{
    const hki_grid *grid = &schedule->grid[buffer];
    *layout = (hki_layout){.grid = grid, .count = sizes->count, .line = 1};
    if (sizes->element_bytes && CACHE_LINE % sizes->element_bytes == 0)
        layout->line = CACHE_LINE / sizes->element_bytes;
    if (grid->cut == HKI_CUT_COUNTS) {
        layout->counts = sizes->counts[buffer];
        layout->displacements = sizes->displacements[buffer];
    } else if (grid->cut == HKI_CUT_ONE) {
        const uint64_t *counts = sizes->counts[buffer] ? sizes->counts[buffer] : sizes->counts[1 - buffer];
        if (counts)
            layout->count = counts[grid->own];
    }
}

/* floor(n·numerator/denominator) on a line. Equal fractions give equal edges, and larger ones no smaller edges. */
static uint64_t cut_at(const hki_layout *layout, uint64_t n, uint32_t numerator, uint32_t denominator)
{
    if (numerator == denominator)
        return n;
    uint64_t edge =
        n <= UINT32_MAX ? n * numerator / denominator : (uint64_t)((unsigned __int128)n * numerator / denominator);
    return edge & ~(layout->line - 1);
}

static uint64_t part_start(const hki_layout *layout, uint32_t part)
{
    const hki_grid *grid = layout->grid;
    switch (grid->cut) {
    case HKI_CUT_EVEN:
        return cut_at(layout, layout->count, part, grid->parts);
    case HKI_CUT_FRACTION:
        return cut_at(layout, layout->count, grid->edges[part].numerator, grid->edges[part].denominator);
    case HKI_CUT_ONE:
        return part ? layout->count : 0;
    case HKI_CUT_COUNTS:
        break;
    case HKI_CUT_NONE:
        return 0;
    }
    if (!layout->counts)
        return part * layout->count;
    if (layout->starts)
        return layout->starts[part];
    uint64_t start = 0;
    for (uint32_t i = 0; i < part; i++)
        start += layout->counts[i];
    return start;
}

/* Offset of a segment in its part; `start` is that of the part. */
static uint64_t segment_offset(const hki_layout *layout, uint32_t part, uint32_t segment, uint64_t start)
{
    if (segment == 0)
        return 0;
    return cut_at(layout, part_start(layout, part + 1) - start, segment, layout->grid->segments);
}

uint64_t hki_layout_edge(const hki_layout *layout, uint32_t block)
{
    uint32_t segments = layout->grid->segments;
    uint32_t part = segments == 1 ? block : block / segments;
    uint64_t start = part_start(layout, part);
    return start + segment_offset(layout, part, block - part * segments, start);
}

uint64_t hki_layout_place(const hki_layout *layout, uint32_t block)
{
    if (!layout->displacements)
        return hki_layout_edge(layout, block);
    uint32_t part = block / layout->grid->segments;
    return layout->displacements[part] +
           segment_offset(layout, part, block % layout->grid->segments, part_start(layout, part));
}

uint32_t hki_layout_run(const hki_layout *layout, uint32_t block, uint32_t count)
{
    if (!layout->displacements)
        return count;
    uint32_t left = layout->grid->segments - block % layout->grid->segments;
    return left < count ? left : count;
}

/* *end = largest of *end and offset + count; false on overflow. */
static bool reach(uint64_t *end, uint64_t offset, uint64_t count)
{
    uint64_t sum;
    if (__builtin_add_overflow(offset, count, &sum))
        return false;
    if (sum > *end)
        *end = sum;
    return true;
}

bool hki_layout_fits(const hki_layout *layout, uint32_t element_bytes)
{
    const hki_grid *grid = layout->grid;
    uint64_t end = 0, total = layout->count, bytes;
    if (grid->cut == HKI_CUT_COUNTS) {
        total = 0;
        if (!layout->counts && __builtin_mul_overflow(layout->count, grid->parts, &total))
            return false;
        for (uint32_t i = 0; (layout->counts || layout->displacements) && i < grid->parts; i++) {
            uint64_t count = layout->counts ? layout->counts[i] : layout->count;
            if (layout->counts && __builtin_add_overflow(total, count, &total))
                return false;
            if (layout->displacements && !reach(&end, layout->displacements[i], count))
                return false;
        }
    }
    return reach(&end, 0, total) && !__builtin_mul_overflow(end, element_bytes, &bytes) && bytes <= INT64_MAX;
}

void hki_block_extent(const hki_schedule *schedule, const hki_sizes *sizes, unsigned buffer, uint32_t block,
                      uint64_t *first, uint64_t *length)
{
    hki_layout layout;
    hki_layout_init(&layout, schedule, sizes, buffer);
    *first = hki_layout_place(&layout, block);
    *length = hki_layout_edge(&layout, block + 1) - hki_layout_edge(&layout, block);
}

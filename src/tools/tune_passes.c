#include "tools/tune_passes.h"

#include "base/error.h"
#include "topo/cluster.h"

#include <stdlib.h>

/* Passes whose smallest messages take less than this many times as long as each other's saw the machine alike. */
static const double alike = 1.35;

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Of an exchange of the smallest messages, in µs; 0 if the pass did not measure this link. */
static double smallest_of(const hki_tune_points *points, uint32_t link)
{
    const hki_tune_point *smallest = NULL;
    for (uint32_t i = 0; i < points->count; i++) {
        const hki_tune_point *point = &points->items[i];
        if (point->link == link && point->series == HKI_TUNE_EXCHANGE && (!smallest || point->bytes < smallest->bytes))
            smallest = point;
    }
    return smallest ? smallest->us : 0;
}

/* The passes that saw a link alike. */
typedef struct company {
    double us[HKI_TUNE_PASSES];
    bool counts[HKI_TUNE_PASSES];
    uint32_t size;
} company;

/* The largest set of passes that are alike one of them; of two as large, that with the faster one: what disturbs only
 * ever takes time. */
static void find_company(const hki_tune_passes *passes, uint32_t link, company *found)
{
    *found = (company){.size = 0};
    for (uint32_t pass = 0; pass < passes->count; pass++)
        found->us[pass] = smallest_of(&passes->points[pass], link);
    double centre = 0;
    for (uint32_t pass = 0; pass < passes->count; pass++) {
        uint32_t size = 0;
        for (uint32_t other = 0; other < passes->count; other++)
            size += found->us[other] < alike * found->us[pass] && found->us[pass] < alike * found->us[other];
        if (size > found->size || (size == found->size && size > 0 && found->us[pass] < centre)) {
            found->size = size;
            centre = found->us[pass];
        }
    }
    for (uint32_t pass = 0; pass < passes->count; pass++)
        found->counts[pass] = found->us[pass] < alike * centre && centre < alike * found->us[pass];
}

static void report_company(FILE *report, const company *found, uint32_t passes, uint32_t link)
{
    if (found->size == passes)
        return;
    fprintf(report, "hocket tune: %s: the machine changed while it was measured: 8 bytes took",
            hki_link_class_name((hki_link_class)link));
    for (uint32_t pass = 0; pass < passes; pass++)
        fprintf(report, "%s %.3g", pass ? "," : "", found->us[pass]);
    fprintf(report, " us in %u passes; the figures are those of %u\n", passes, found->size);
}

static bool is_same(const hki_tune_point *a, const hki_tune_point *b)
{
    return a->series == b->series && a->link == b->link && a->bytes == b->bytes && a->data == b->data;
}

/* How many points before this one are about the same. */
static uint32_t turn_of(const hki_tune_points *points, uint32_t at)
{
    uint32_t turn = 0;
    for (uint32_t i = 0; i < at; i++)
        turn += is_same(&points->items[i], &points->items[at]);
    return turn;
}

static const hki_tune_point *find(const hki_tune_points *points, const hki_tune_point *wanted, uint32_t turn)
{
    for (uint32_t i = 0; i < points->count; i++)
        if (is_same(&points->items[i], wanted) && turn-- == 0)
            return &points->items[i];
    return NULL;
}

/* Over the passes that count and have it. */
static double median_of(const hki_tune_passes *passes, const company *link, const hki_tune_point *point, uint32_t turn)
{
    double us[HKI_TUNE_PASSES];
    uint32_t count = 0;
    for (uint32_t pass = 0; pass < passes->count; pass++) {
        const hki_tune_point *there = link->counts[pass] ? find(&passes->points[pass], point, turn) : NULL;
        if (there)
            us[count++] = there->us;
    }
    qsort(us, count, sizeof *us, ascending);
    return count ? us[(count - 1) / 2] : point->us;
}

/* As the first pass that counts for a link has its points. */
static hk_status merge_link(const hki_tune_passes *passes, uint32_t link, const company *found, hki_tune_points *merged)
{
    uint32_t first = 0;
    while (!found->counts[first])
        first++;
    const hki_tune_points *points = &passes->points[first];
    for (uint32_t i = 0; i < points->count; i++) {
        hki_tune_point point = points->items[i];
        if (point.link != link)
            continue;
        point.us = median_of(passes, found, &point, turn_of(points, i));
        HK_TRY(hki_tune_point_add(merged, &point));
    }
    return HK_OK;
}

hk_status hki_tune_passes_merge(const hki_tune_passes *passes, hki_tune_points *merged, FILE *report)
{
    for (uint32_t link = 0; link < HKI_LINK_CLASSES; link++) {
        company found;
        find_company(passes, link, &found);
        if (found.size == 0)
            continue;
        report_company(report, &found, passes->count, link);
        HK_TRY(merge_link(passes, link, &found, merged));
    }
    return HK_OK;
}

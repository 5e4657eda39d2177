#include "cost/pack.h"

#include <string.h>

/* Layout: kinds of links that follow (2 bytes, a bit each), 1 if reduction figures follow, 1 if those of the host do;
 * then for each link its ranges' number and origin, their values, and bulk; γ by type and operators, and copies; step,
 * counts, switch, rates; at last where all this comes from, with a length before. Values: 6 bits of shift, 18 bits
 * shifted. */

enum { VALUE_BITS = 18, ALL = 0xffffff };

typedef struct cursor {
    unsigned char *to;
    const unsigned char *from;
    size_t at, bytes;
    bool failed;
} cursor;

static void put_byte(cursor *c, unsigned value)
{
    c->to[c->at++] = (unsigned char)value;
}

static void put(cursor *c, uint64_t value)
{
    uint32_t code = ALL;
    if (value != UINT64_MAX) {
        unsigned shift = 0;
        while (value >> shift >= UINT64_C(1) << VALUE_BITS)
            shift++;
        code = (uint32_t)(value >> shift) | (uint32_t)shift << VALUE_BITS;
    }
    put_byte(c, code & 0xff);
    put_byte(c, code >> 8 & 0xff);
    put_byte(c, code >> 16);
}

static unsigned take_byte(cursor *c)
{
    if (c->at >= c->bytes) {
        c->failed = true;
        return 0;
    }
    return c->from[c->at++];
}

static uint64_t take(cursor *c)
{
    uint32_t code = take_byte(c);
    code |= take_byte(c) << 8;
    code |= take_byte(c) << 16;
    if (code == ALL)
        return UINT64_MAX;
    unsigned shift = code >> VALUE_BITS;
    if (shift > 40) /* more than a day, or a terabyte a picosecond */
        c->failed = true;
    return c->failed ? 0 : (uint64_t)(code & ((1u << VALUE_BITS) - 1)) << shift;
}

/* ---- packing ---- */

static void put_link(cursor *c, const hki_link_figures *link)
{
    put_byte(c, link->ranges | (unsigned)link->origin << 4);
    for (uint32_t i = 0; i < link->ranges; i++) {
        const hki_range_figures *range = &link->range[i];
        put(c, range->upto);
        put(c, range->alpha_ps);
        put(c, range->beta_ps);
        put(c, range->overhead_ps);
        put(c, range->core_ps);
        put_byte(c, range->rendezvous);
    }
    put(c, link->bulk.from);
    put(c, link->bulk.full);
    put(c, link->bulk.beta_ps);
    put(c, link->bulk.core_ps);
}

static void put_copies(cursor *c, const hki_figures *figures)
{
    put(c, figures->copy_ps);
    put(c, figures->copy_far_ps);
    put(c, figures->copy_bulk_ps);
}

static void put_text(cursor *c, const char *text)
{
    size_t length = strlen(text);
    put_byte(c, (unsigned)length);
    memcpy(c->to + c->at, text, length);
    c->at += length;
}

size_t hki_figures_pack(const hki_figures *figures, unsigned char packed[HKI_PACKED_FIGURES_MOST])
{
    cursor c = {.to = packed};
    unsigned links = 0;
    for (int i = 0; i < HKI_LINK_CLASSES; i++)
        links |= (unsigned)(figures->link[i].origin != HKI_BUILT_IN) << i;
    put_byte(&c, links & 0xff);
    put_byte(&c, links >> 8);
    put_byte(&c, figures->reduce_origin);
    put_byte(&c, figures->host_origin);
    for (int i = 0; i < HKI_LINK_CLASSES; i++)
        if (links >> i & 1)
            put_link(&c, &figures->link[i]);
    for (int type = 0; figures->reduce_origin != HKI_BUILT_IN && type < HK_TYPE_COUNT; type++)
        for (int operators = 0; operators < HKI_OP_CLASSES; operators++)
            put(&c, figures->gamma_ps[type][operators]);
    if (figures->reduce_origin != HKI_BUILT_IN)
        put_copies(&c, figures);
    if (figures->host_origin != HKI_BUILT_IN) {
        put(&c, figures->step_ps);
        put(&c, figures->counts_ps);
        put(&c, figures->switch_ps);
        put(&c, figures->memory_rate);
        put(&c, figures->nic_rate);
    }
    put_text(&c, figures->source);
    return c.at;
}

/* ---- unpacking ---- */

static bool take_origin(unsigned value, hki_origin *origin)
{
    *origin = (hki_origin)value;
    return value <= HKI_REPORTED;
}

static bool take_link(cursor *c, hki_link_figures *link)
{
    unsigned head = take_byte(c);
    *link = (hki_link_figures){.ranges = head & 15};
    if (!take_origin(head >> 4, &link->origin) || link->ranges == 0 || link->ranges > HKI_FIGURE_RANGES)
        return false;
    for (uint32_t i = 0; i < link->ranges; i++) {
        hki_range_figures *range = &link->range[i];
        *range = (hki_range_figures){.upto = take(c)};
        range->alpha_ps = take(c);
        range->beta_ps = take(c);
        range->overhead_ps = take(c);
        range->core_ps = take(c);
        range->rendezvous = take_byte(c);
        if (i && range->upto <= link->range[i - 1].upto)
            return false;
    }
    link->bulk.from = take(c);
    link->bulk.full = take(c);
    link->bulk.beta_ps = take(c);
    link->bulk.core_ps = take(c);
    if (link->bulk.full && link->bulk.full <= link->bulk.from)
        return false;
    return !c->failed && link->range[link->ranges - 1].upto == UINT64_MAX;
}

static void take_copies(cursor *c, hki_figures *figures)
{
    figures->copy_ps = take(c);
    figures->copy_far_ps = take(c);
    figures->copy_bulk_ps = take(c);
}

static bool take_text(cursor *c, char *text, size_t bytes)
{
    size_t length = take_byte(c);
    if (c->failed || length >= bytes || length > c->bytes - c->at)
        return false;
    memcpy(text, c->from + c->at, length);
    text[length] = '\0';
    c->at += length;
    return true;
}

bool hki_figures_unpack(const unsigned char *packed, size_t bytes, hki_figures *result)
{
    cursor c = {.from = packed, .bytes = bytes};
    hki_figures figures = hki_figures_built_in;
    unsigned links = take_byte(&c);
    links |= take_byte(&c) << 8;
    if (!take_origin(take_byte(&c), &figures.reduce_origin) || !take_origin(take_byte(&c), &figures.host_origin) ||
        links >> HKI_LINK_CLASSES)
        return false;
    for (int i = 0; i < HKI_LINK_CLASSES; i++)
        if (links >> i & 1 && !take_link(&c, &figures.link[i]))
            return false;
    for (int type = 0; figures.reduce_origin != HKI_BUILT_IN && type < HK_TYPE_COUNT; type++)
        for (int operators = 0; operators < HKI_OP_CLASSES; operators++)
            figures.gamma_ps[type][operators] = take(&c);
    if (figures.reduce_origin != HKI_BUILT_IN)
        take_copies(&c, &figures);
    if (figures.host_origin != HKI_BUILT_IN) {
        figures.step_ps = take(&c);
        figures.counts_ps = take(&c);
        figures.switch_ps = take(&c);
        figures.memory_rate = take(&c);
        figures.nic_rate = take(&c);
    }
    if (!take_text(&c, figures.source, sizeof figures.source) || c.failed || c.at != c.bytes)
        return false;
    *result = figures;
    return true;
}

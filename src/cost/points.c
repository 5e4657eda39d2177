/* From points to figures. */
#include "cost/points.h"

#include "base/error.h"
#include "cost/price.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

hk_status hki_tune_point_add(hki_tune_points *points, const hki_tune_point *point)
{
    if (points->count == HKI_TUNE_POINTS)
        return hki_error(HK_ERR_NO_MEMORY, "more than %d points were measured", HKI_TUNE_POINTS);
    points->items[points->count++] = *point;
    return HK_OK;
}

static uint64_t ps(double us)
{
    return us > 0 && us < 1e12 ? (uint64_t)llround(us * 1e6) : 0;
}

/* ---- links ---- */

/* A link's times by size, in the order in which they were measured, which is ascending. */
typedef struct link_samples {
    hki_fit_sample items[HKI_FIT_SAMPLES_MOST];
    uint32_t count;
    uint64_t eager; /* the most that goes eager */
    /* Picoseconds a byte that the link sustains, one way and each way at once; 0: not measured. */
    double lasting_one_way, lasting_exchange;
} link_samples;

static hki_fit_sample *sample_of(link_samples *all, uint64_t bytes)
{
    if (all->count > 0 && all->items[all->count - 1].bytes == bytes)
        return &all->items[all->count - 1];
    if (all->count == HKI_FIT_SAMPLES_MOST)
        return NULL;
    all->items[all->count] = (hki_fit_sample){.bytes = bytes};
    return &all->items[all->count++];
}

static void collect_sample(link_samples *all, const hki_tune_point *point)
{
    hki_fit_sample *sample = sample_of(all, point->bytes);
    if (sample)
        *(point->series == HKI_TUNE_ONE_WAY    ? &sample->one_way_ps
          : point->series == HKI_TUNE_EXCHANGE ? &sample->exchange_ps
                                               : &sample->gap_ps) = ps(point->us);
}

static void collect(const hki_tune_points *points, uint32_t link, link_samples *all)
{
    *all = (link_samples){.eager = UINT64_MAX};
    for (uint32_t i = 0; i < points->count; i++) {
        const hki_tune_point *point = &points->items[i];
        if (point->link != link)
            continue;
        if (point->series <= HKI_TUNE_STREAM)
            collect_sample(all, point);
        if (point->series == HKI_TUNE_LIMIT)
            all->eager = point->bytes;
        if (point->series == HKI_TUNE_LASTING_STREAM)
            all->lasting_one_way = point->us * 1e6 / (double)point->bytes;
        if (point->series == HKI_TUNE_LASTING_EXCHANGE)
            all->lasting_exchange = point->us * 1e6 / (double)point->bytes;
    }
}

static void raise_to(uint64_t *value_ps, double least_ps)
{
    if (*value_ps && (double)*value_ps < least_ps)
        *value_ps = (uint64_t)least_ps;
}

/* A shaped link (a token bucket) lets what it saved up while it was idle pass faster than what follows. Calls meet a
 * busy link, on which no message takes less than what the link sustains. Links that are not shaped do not sustain quite
 * what they do for messages that caches hold, either: that is left as it is. */
static bool take_bursts_out(link_samples *all)
{
    static const double faster = 1.5; /* than any cache makes a network */
    enum { LEAST = 64 << 10 };        /* shorter messages are mostly latency */
    bool shaped = false;
    for (uint32_t i = 0; i < all->count; i++) {
        const hki_fit_sample *sample = &all->items[i];
        double lasting = all->lasting_one_way * (double)sample->bytes;
        shaped = shaped || (sample->bytes >= LEAST && faster * (double)sample->one_way_ps < lasting);
    }
    for (uint32_t i = 0; i < all->count && shaped; i++) {
        hki_fit_sample *sample = &all->items[i];
        raise_to(&sample->one_way_ps, all->lasting_one_way * (double)sample->bytes);
        raise_to(&sample->exchange_ps, all->lasting_exchange * (double)sample->bytes);
        raise_to(&sample->gap_ps, all->lasting_one_way * (double)sample->bytes);
    }
    return shaped;
}

/* In ranges that hold long messages bytes take what the link sustains: what is left of bursts is no reason for messages
 * of one length rather than of another, and a latency that stands for bytes would let a stream of messages pass for
 * nothing. */
static void level(const link_samples *all, hki_link_figures *figures)
{
    enum { SHORT = 1 << 10, LONG = 32 << 10 };
    uint64_t lasting = (uint64_t)(all->lasting_one_way * 1024), longest = all->items[all->count - 1].bytes;
    for (uint32_t i = 0; i < figures->ranges; i++) {
        hki_range_figures *range = &figures->range[i];
        uint64_t upto = range->upto < longest ? range->upto : longest;
        bool has_short = i == 0 || figures->range[i - 1].upto < SHORT; /* α is then theirs */
        if (range->beta_ps < lasting && upto > LONG && !has_short) {
            uint64_t less = hki_bytes_ps(upto, lasting - range->beta_ps);
            range->alpha_ps = range->alpha_ps > less ? range->alpha_ps - less : 0;
            range->overhead_ps = range->overhead_ps < range->alpha_ps ? range->overhead_ps : range->alpha_ps;
        }
        if (range->beta_ps > lasting / 2 || upto > LONG)
            range->beta_ps = lasting;
    }
}

/* What is found of one link. */
typedef struct link_fit {
    hki_link_figures figures;
    hki_fit_quality quality[HKI_FIGURE_RANGES];
    uint64_t longest; /* of the samples */
} link_fit;

static hk_status fit_samples(const hki_tune_points *points, uint32_t link, link_fit *fit)
{
    link_samples *all = malloc(sizeof *all);
    if (!all)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for points");
    collect(points, link, all);
    bool shaped = take_bursts_out(all);
    *fit = (link_fit){.longest = 0};
    hk_status status = HK_OK;
    if (all->count > 0) {
        fit->longest = all->items[all->count - 1].bytes;
        status = hki_fit_link(all->items, all->count, all->eager, &fit->figures, fit->quality);
        if (status == HK_OK && shaped)
            level(all, &fit->figures);
    }
    free(all);
    return status;
}

/* The worst quality of a fit's ranges, if it is so bad that the fit says nothing: half of the measurements are off by
 * more than half, or β may even be 0 where it is most of a message's time. samples = 0: it is not. */
static hki_fit_quality find_doubt(const link_fit *fit)
{
    static const double too_far = 0.5, too_vague = 1;
    hki_fit_quality worst = {.samples = 0};
    for (uint32_t i = 0; i < fit->figures.ranges; i++) {
        const hki_range_figures *range = &fit->figures.range[i];
        const hki_fit_quality *quality = &fit->quality[i];
        uint64_t longest = i + 1 < fit->figures.ranges ? range->upto : fit->longest;
        bool by_bytes = hki_bytes_ps(longest, range->beta_ps) > range->alpha_ps;
        if (quality->residual <= too_far && !(by_bytes && quality->confidence > too_vague))
            continue;
        worst.samples += quality->samples;
        worst.residual = fmax(worst.residual, quality->residual);
        worst.confidence = fmax(worst.confidence, quality->confidence);
    }
    return worst;
}

bool hki_tune_is_clear(const hki_tune_points *points, uint32_t link)
{
    link_fit fit;
    return fit_samples(points, link, &fit) == HK_OK && find_doubt(&fit).samples == 0;
}

/* Samples of both kinds come in turn, from little data to much. The longest, which are disturbed most, are left out if
 * they cannot be believed. */
static bool fit_bulk(const hki_tune_points *points, uint32_t link, hki_link_figures *figures)
{
    enum { MOST = 32 };
    hki_bulk_sample samples[MOST];
    uint32_t count = 0;
    for (uint32_t i = 0; i + 1 < points->count && count < MOST; i++) {
        const hki_tune_point *one_way = &points->items[i], *exchange = one_way + 1;
        if (one_way->link == link && one_way->series == HKI_TUNE_BULK_ONE_WAY &&
            exchange->series == HKI_TUNE_BULK_EXCHANGE)
            samples[count++] = (hki_bulk_sample){.data = one_way->data,
                                                 .bytes = one_way->bytes,
                                                 .one_way_ps = ps(one_way->us),
                                                 .exchange_ps = ps(exchange->us)};
    }
    for (uint32_t believed = count; believed >= 2; believed--)
        if (hki_fit_bulk(samples, believed, figures))
            return true;
    return count < 2;
}

static hk_status fit_link(const hki_tune_points *points, uint32_t link, hki_origin origin, hki_tuning *tuning)
{
    link_fit fit;
    hki_link_figures *figures = &tuning->figures.link[link];
    HK_TRY(fit_samples(points, link, &fit));
    if (fit.figures.ranges == 0)
        return HK_OK;
    tuning->doubtful[link] = find_doubt(&fit);
    if (tuning->doubtful[link].samples && origin == HKI_TUNED)
        return HK_OK;
    fit.figures.bulk = figures->bulk; /* unless that was measured, too */
    *figures = fit.figures;
    figures->origin = origin;
    tuning->bulk_doubtful[link] = !fit_bulk(points, link, figures);
    memcpy(tuning->quality[link], fit.quality, sizeof fit.quality);
    return HK_OK;
}

/* Ranks nearer to each other than any two CPUs are here share one CPU, or the caches of the nearest: no other figures
 * can be found for them. */
static void fill_nearer(hki_figures *figures, hki_origin origin)
{
    uint32_t nearest = HKI_LINK_CORE;
    while (nearest <= HKI_LINK_HOST && figures->link[nearest].origin != origin)
        nearest++;
    for (uint32_t link = HKI_LINK_CORE; nearest <= HKI_LINK_HOST && link < nearest; link++)
        if (figures->link[link].origin == HKI_BUILT_IN)
            figures->link[link] = figures->link[nearest];
}

/* ---- reductions and copies ---- */

static const hki_tune_point *find_exchange(const hki_tune_points *points, uint64_t bytes, uint32_t link)
{
    for (uint32_t i = 0; i < points->count; i++) {
        const hki_tune_point *point = &points->items[i];
        if (point->series == HKI_TUNE_EXCHANGE && point->bytes == bytes && point->link == link)
            return point;
    }
    return NULL;
}

/* A message that is reduced as it arrives is not copied as well, so γ is what a reduction takes beyond a copy. Where
 * memory is the limit of both that may seem nothing: a tenth of the reduction is the least that is believed. */
static void fit_reductions(const hki_tune_points *points, hki_origin origin, hki_figures *figures)
{
    double copy_us = 0;
    for (uint32_t i = 0; i < points->count; i++) {
        const hki_tune_point *point = &points->items[i];
        double kib = (double)point->bytes / 1024;
        if (point->series == HKI_TUNE_COPY) {
            copy_us = point->us / kib;
            figures->copy_ps = ps(copy_us);
        }
        if (point->series == HKI_TUNE_COPY_FAR)
            figures->copy_far_ps = ps(fmax(point->us / kib, copy_us));
        if (point->series == HKI_TUNE_COPY_BULK)
            figures->copy_bulk_ps = ps(fmax(point->us / kib - (double)figures->copy_far_ps / 1e6, 0));
        if (point->series != HKI_TUNE_REDUCE || point->type >= HK_TYPE_COUNT || point->operators >= HKI_OP_CLASSES)
            continue;
        double whole = point->us / kib;
        figures->gamma_ps[point->type][point->operators] = ps(fmax(whole - copy_us, whole / 10));
        figures->reduce_origin = origin;
    }
}

/* ---- what ranks of a host share ---- */

static hk_status price_turns(const hki_figures *figures, const hki_tune_point *point, uint64_t *total_ps)
{
    const hki_call call = {.collective = HKI_COLL_ALLREDUCE, .ranks = point->ranks, .segments = 1, .commutative = true};
    hki_cluster *cluster;
    hki_price price;
    HK_TRY(hki_cluster_uniform(1, point->ranks, point->cpus, &cluster));
    const hki_model model = {cluster, figures, HK_FLOAT32, HKI_OPS_ADD};
    hk_status status = hki_price_call(&model, hki_algorithm_find(call.collective, "flat"), &call, point->bytes, &price);
    hki_cluster_free(cluster);
    *total_ps = status == HK_OK ? price.total_ps : 0;
    return status;
}

/* The price of the all-reduce that was measured is a line over the figure that is sought: two prices give it. */
static hk_status fit_turns(const hki_tune_points *points, hki_origin origin, hki_figures *figures)
{
    static const uint64_t trial = 1000000;
    uint64_t without, with;
    hki_figures tried = *figures;
    const hki_tune_point *point = NULL;
    for (uint32_t i = 0; i < points->count; i++)
        if (points->items[i].series == HKI_TUNE_TURNS)
            point = &points->items[i];
    if (!point || point->ranks <= point->cpus)
        return HK_OK;
    tried.switch_ps = 0;
    HK_TRY(price_turns(&tried, point, &without));
    tried.switch_ps = trial;
    HK_TRY(price_turns(&tried, point, &with));
    double slope = ((double)with - (double)without) / (double)trial;
    double found = slope > 0 ? (point->us * 1e6 - (double)without) / slope : 0;
    figures->switch_ps = found > 1 ? (uint64_t)found : 1;
    figures->host_origin = origin;
    return HK_OK;
}

/* What all pairs moved together. If each was as fast as a pair alone, memory was not in the way. */
static void fit_together(const hki_tune_points *points, hki_origin origin, hki_figures *figures)
{
    static const double noticeable = 1.15;
    for (uint32_t i = 0; i < points->count; i++) {
        const hki_tune_point *point = &points->items[i];
        if (point->series != HKI_TUNE_TOGETHER)
            continue;
        const hki_tune_point *alone = find_exchange(points, point->bytes, point->link);
        bool shared = alone && point->us > noticeable * alone->us;
        figures->memory_rate = shared ? (uint64_t)((double)point->bytes * point->ranks / (point->us * 1e-6)) : 0;
        figures->host_origin = origin;
    }
}

/* The mean over kinds of such calls. */
static void fit_counts(const hki_tune_points *points, hki_origin origin, hki_figures *figures)
{
    double us = 0;
    uint32_t kinds = 0;
    for (uint32_t i = 0; i < points->count; i++)
        if (points->items[i].series == HKI_TUNE_COUNTS) {
            us += points->items[i].us;
            kinds++;
        }
    if (kinds == 0)
        return;
    figures->counts_ps = ps(us / kinds);
    figures->host_origin = origin;
}

hk_status hki_tune_fit(const hki_tune_points *points, hki_origin origin, hki_tuning *tuning)
{
    hki_figures *figures = &tuning->figures;
    for (uint32_t link = 0; link < HKI_LINK_CLASSES; link++)
        HK_TRY(fit_link(points, link, origin, tuning));
    fill_nearer(figures, origin);
    fit_reductions(points, origin, figures);
    fit_counts(points, origin, figures);
    HK_TRY(fit_turns(points, origin, figures));
    fit_together(points, origin, figures);
    return HK_OK;
}

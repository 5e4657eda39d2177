/*
 * Calibration: what is called is in duet.h and cost/points.h, as for `hocket tune`; here is how a second is divided.
 *
 * Each kind of link gets an equal part of the time, each of its points (a size of one series) an equal part of that. A
 * point is the lower quartile of samples, since what disturbs one only ever slows it down, and there are few; a sample
 * is as many calls as take long enough to be timed. Both ranks count the time of the slower one, which they tell each
 * other after each sample, so they end together.
 */
#include "comm/calibrate.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "comm/comm.h"
#include "comm/duet.h"
#include "comm/wires.h"
#include "cost/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sizes go up by factors of four: a fit takes three at least in a range. All guessed: a sample of 50 µs makes the skew
 * of the barrier before it small; from 10 ms a message on, a link has shown its bandwidth. */
enum { SMALLEST = 8, SIZES = 11, FEWEST_SIZES = 3, SERIES = 3, LINE = 64 };
enum { FEWEST_SAMPLES = 3, MOST_SAMPLES = 64, MOST_CALLS = 4096, CALIBRATION_ID = 0x63616c69 };
static const double all_us = 800e3, sample_us = 50, enough_us = 10e3;

static uint64_t size_of(uint32_t index)
{
    return (uint64_t)SMALLEST << 2 * index;
}

/* ---- a point ---- */

/* What rank 0 and one peer do. */
typedef struct work {
    hki_duet duet;
    unsigned char *send, *recv; /* the second holds two of the largest messages */
    double point_us;            /* that a point may take */
    unsigned char value;
} work;

static hk_status call(const work *w, hki_tune_series series, uint64_t bytes)
{
    bool both = series == HKI_TUNE_EXCHANGE;
    return hki_duet_call(&w->duet, series, both ? HK_IN_PLACE : w->send, w->recv, bytes, HK_UINT8);
}

/* Microseconds: of the calls of a sample, and of the whole sample. */
typedef struct times {
    double calls, all;
} times;

/* Times so many calls: of the slower rank. What is sent has just been written, as a program's data has. */
static hk_status sample(work *w, hki_tune_series series, uint64_t bytes, uint32_t calls, times *us)
{
    uint64_t begin = hki_now();
    w->value++;
    memset(w->send, w->value, bytes);
    memset(w->recv, w->value, series == HKI_TUNE_EXCHANGE ? 2 * bytes : 0);
    HK_TRY(hk_barrier(w->duet.comm));
    uint64_t start = hki_now();
    for (uint32_t i = 0; i < calls; i++)
        HK_TRY(call(w, series, bytes));
    uint64_t end = hki_now();
    double values[] = {(double)(end - start) / 1e3, (double)(end - begin) / 1e3};
    HK_TRY(hk_allreduce(HK_IN_PLACE, values, 2, HK_FLOAT64, HK_MAX, w->duet.comm));
    *us = (times){values[0], values[1]};
    return HK_OK;
}

static int compare(const void *left, const void *right)
{
    const double *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* Microseconds of a message, the same on both ranks. */
static hk_status measure_point(work *w, hki_tune_series series, uint64_t bytes, double *us)
{
    double samples[MOST_SAMPLES], spent = 0;
    times took;
    uint32_t count = 0, calls = 1;
    HK_TRY(call(w, series, bytes)); /* connects, looks up, touches pages */
    while (count < FEWEST_SAMPLES || (count < MOST_SAMPLES && spent < w->point_us)) {
        HK_TRY(sample(w, series, bytes, calls, &took));
        spent += took.all;
        if (took.calls < sample_us && calls < MOST_CALLS)
            calls *= 2;
        else
            samples[count++] = took.calls / calls;
    }
    qsort(samples, count, sizeof *samples, compare);
    *us = samples[count / 4] / (series == HKI_TUNE_ONE_WAY ? 2 : 1);
    return HK_OK;
}

/* ---- a link ---- */

/* What a network sustains, by messages as long as those of the last two points, an exchange and a stream: of which the
 * next is always the last but one. */
static hk_status measure_lasting(work *w, hki_tune_points *points)
{
    static const double window_us = 60e3;
    for (int i = 0; i < 2; i++) {
        hki_tune_point point = points->items[points->count - 2];
        bool both = point.series == HKI_TUNE_EXCHANGE;
        HK_TRY(hki_duet_sustain(&w->duet, (hki_tune_series)point.series, both ? HK_IN_PLACE : w->send, w->recv,
                                point.bytes, point.us, window_us, &point.us));
        point.series = both ? HKI_TUNE_LASTING_EXCHANGE : HKI_TUNE_LASTING_STREAM;
        HK_TRY(hki_tune_point_add(points, &point));
    }
    return HK_OK;
}

static hk_status measure_sizes(work *w, hki_link_class link, hki_tune_points *points)
{
    double longest = 0;
    for (uint32_t i = 0; i < SIZES && (i < FEWEST_SIZES || longest < enough_us); i++)
        for (uint32_t series = HKI_TUNE_ONE_WAY; series <= HKI_TUNE_STREAM; series++) {
            hki_tune_point point = {.series = series, .link = link, .bytes = size_of(i)};
            HK_TRY(measure_point(w, (hki_tune_series)series, point.bytes, &point.us));
            HK_TRY(hki_tune_point_add(points, &point));
            longest = point.us > longest ? point.us : longest;
        }
    if (link > HKI_LINK_LOOPBACK)
        HK_TRY(measure_lasting(w, points));
    const hki_tune_point limit = {.series = HKI_TUNE_LIMIT, .link = link, .bytes = hki_duet_eager_limit(&w->duet)};
    return hki_tune_point_add(points, &limit);
}

static hk_status measure_pair(hk_comm *two, hki_link_class link, double link_us, hki_tune_points *points)
{
    const uint64_t largest = size_of(SIZES - 1);
    work w = {.point_us = link_us / (SIZES * SERIES), .send = aligned_alloc(LINE, 3 * largest)};
    if (!w.send)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for messages");
    w.recv = w.send + largest;
    hk_status status = hki_duet_open(&w.duet, two);
    if (status == HK_OK) {
        status = measure_sizes(&w, link, points);
        hki_duet_close(&w.duet);
    }
    free(w.send);
    return status;
}

/* Measures with the rank at the other end, of which this is one; the others have nothing to do. */
static hk_status measure_link(hk_comm *comm, hki_link_class link, uint32_t peer, double link_us,
                              hki_tune_points *points)
{
    const int pair[2] = {0, (int)peer};
    hk_comm *two;
    if (comm->rank != 0 && comm->rank != peer)
        return HK_OK;
    HK_TRY(hk_comm_create_group(comm, pair, 2, (int)link, &two));
    hk_status status = measure_pair(two, link, link_us, points);
    hki_comm_end(two);
    return status;
}

/* Each kind of link that rank 0 has. */
static hk_status measure_links(hk_comm *comm, hki_tune_points *points)
{
    uint32_t peers[HKI_LINK_CLASSES] = {0}, links = 0;
    for (uint32_t rank = comm->size; rank-- > 1;)
        peers[hki_cluster_link(comm->cluster, 0, rank)] = rank;
    for (int link = 0; link < HKI_LINK_CLASSES; link++)
        links += peers[link] != 0;
    for (int link = 0; link < HKI_LINK_CLASSES; link++)
        if (peers[link])
            HK_TRY(measure_link(comm, (hki_link_class)link, peers[link], all_us / links, points));
    return HK_OK;
}

/* ---- figures for all ---- */

static void note_source(hki_figures *figures, const char *host)
{
    char former[HKI_FIGURE_SOURCE];
    snprintf(former, sizeof former, "%s", figures->source);
    snprintf(figures->source, sizeof figures->source, "calibration on %.24s%s%.48s", host, *former ? "; " : "", former);
}

/* Rank 0: from points to figures, over those that the context has. */
static hk_status pack_points(const hki_context *context, hki_tune_points *points, unsigned char *packed, size_t *bytes)
{
    hki_tuning *tuning = calloc(1, sizeof *tuning);
    if (!tuning)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for figures");
    tuning->figures = context->figures;
    hk_status status = hki_tune_kernels(points);
    if (status == HK_OK)
        status = hki_tune_fit(points, HKI_CALIBRATED, tuning);
    for (int link = 0; status == HK_OK && link < HKI_LINK_CLASSES; link++)
        if (tuning->doubtful[link].samples)
            hki_log(HK_LOG_WARN, "HOCKET_CALIBRATE: %s: measurements contradict each other, as on a busy machine",
                    hki_link_class_text((hki_link_class)link));
    if (status == HK_OK) {
        note_source(&tuning->figures, context->peers[0].host_name);
        *bytes = hki_figures_pack(&tuning->figures, packed);
    }
    free(tuning);
    return status;
}

/* All take what rank 0 tells, rank 0 too: values lose digits on the way. */
static hk_status agree(hk_comm *comm, hki_tune_points *points, hki_figures *figures)
{
    struct {
        uint64_t bytes;
        unsigned char packed[HKI_PACKED_FIGURES_MOST];
    } told = {0};
    size_t bytes = 0;
    if (comm->rank == 0)
        HK_TRY(pack_points(comm->context, points, told.packed, &bytes));
    told.bytes = bytes;
    HK_TRY(hk_broadcast(&told, sizeof told, HK_UINT8, 0, comm));
    if (told.bytes > sizeof told.packed || !hki_figures_unpack(told.packed, (size_t)told.bytes, figures))
        return hki_error(HK_ERR_BOOTSTRAP, "rank 0 on %s told figures of the cost model that do not fit together",
                         comm->context->peers[0].host_name);
    return HK_OK;
}

/* What was measured, while the context's own figures serve. A failure here is spread to all ranks. */
static hk_status measure(hk_comm *comm, hki_figures *figures)
{
    hki_tune_points *points = calloc(1, sizeof *points);
    hk_status status = points ? HK_OK : hki_error(HK_ERR_NO_MEMORY, "no memory for points");
    if (status == HK_OK)
        status = measure_links(comm, points);
    if (status == HK_OK)
        status = agree(comm, points, figures);
    free(points);
    if (status == HK_OK)
        return HK_OK;
    char why[HKI_REASON_BYTES];
    snprintf(why, sizeof why, "%s", hk_last_error());
    hki_context_enter(comm->context);
    status = hki_comm_fail(comm, status, "calibration: %s", why);
    hki_context_leave(comm->context);
    return status;
}

/* A host with more ranks than cores; NULL: there is none. All ranks see the same one. */
static const hki_cluster_host *find_crowded(const hki_cluster *cluster)
{
    for (uint32_t host = 0; host < cluster->host_count; host++)
        if (cluster->hosts[host].ranks > cluster->hosts[host].capacity)
            return &cluster->hosts[host];
    return NULL;
}

static void log_links(const hki_figures *figures, uint64_t start)
{
    hki_log(HK_LOG_INFO, "calibrated in %.1f s", (double)(hki_now() - start) / 1e9);
    for (int link = 0; link < HKI_LINK_CLASSES; link++) {
        const hki_link_figures *found = &figures->link[link];
        const hki_range_figures *first = &found->range[0], *last = &found->range[found->ranges - 1];
        if (found->origin == HKI_CALIBRATED)
            hki_log(HK_LOG_INFO, "calibrated: %s: small messages take %.2f us, large ones %.3f ns a byte",
                    hki_link_class_text((hki_link_class)link), (double)first->alpha_ps / 1e6,
                    (double)last->beta_ps / 1024e3);
    }
}

static hk_status run(hki_context *context)
{
    hk_comm *comm;
    hki_figures figures;
    uint64_t start = hki_now();
    const hki_comm_name name = {.id = CALIBRATION_ID, .wire = HKI_WIRE_CALIBRATION};
    HK_TRY(hki_comm_new(context, name, context->rank, context->ranks, NULL, &comm));
    comm->timeout = hki_setting_seconds(HKI_SET_JOIN_TIMEOUT);
    hk_status status = measure(comm, &figures);
    hki_comm_end(comm); /* and with it what was chosen by the figures so far */
    if (status != HK_OK)
        return status;
    context->figures = figures;
    if (context->rank == 0)
        log_links(&figures, start);
    return HK_OK;
}

hk_status hki_calibrate(hki_context *context)
{
    if (!hki_setting_integer(HKI_SET_CALIBRATE) || context->ranks == 1)
        return HK_OK;
    const hki_cluster_host *crowded = find_crowded(context->cluster);
    if (!crowded)
        return run(context);
    if (context->rank == 0)
        hki_log(HK_LOG_WARN, "HOCKET_CALIBRATE: a host has %u ranks on %u cores: nothing is measured", crowded->ranks,
                crowded->capacity);
    return HK_OK;
}

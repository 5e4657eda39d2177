/*
 * What the ranks of a tuning job do. Times come from bench/bench_loop.h, as those of `hocket bench` do; what is timed
 * between two ranks is in comm/duet.h.
 *
 * Copies and reductions are each rank's own work: see cost/kernels.c.
 */
#include "tools/tune.h"

#include "bench/bench_hocket.h"
#include "comm/comm.h"
#include "comm/duet.h"
#include "cost/fit.h"

#include <stdlib.h>
#include <string.h>

typedef struct duet {
    hki_duet pair;
    hki_tune_series series; /* what is measured now */
} duet;

typedef struct job {
    hki_tune_points *points;
    const hki_tune_watcher *watcher;
    uint32_t done, all; /* of the points that this job takes */
    double longest_us;  /* of a message of the link that is measured */
    bool quick;
    hki_bench_buffers buffers;
} job;

enum { SMALLEST = 8, TURN_RANKS_BYTES = 8, TOGETHER_BYTES = 4 << 20 };

/* Messages up to a length from which on time grows with it, and what caches hold of it; then longer ones, by which
 * what more data take is told, until there are more than two last caches of 32 MiB hold. */
enum { LONGEST = 4 << 20, LONGEST_BULK = 32 << 20, BULK_POINTS = 8 };

static bool complain(const char *what)
{
    fprintf(stderr, "hocket tune: %s: %s\n", what, hk_last_error());
    return false;
}

/* ---- one call ---- */

static int call(void *context, const hki_bench_cell *cell, void *send, void *recv)
{
    const duet *d = context;
    if (d->series == HKI_TUNE_TURNS)
        return (int)hk_allreduce(send, recv, cell->count, cell->type, cell->op, d->pair.comm);
    hki_tune_series series = d->series == HKI_TUNE_BULK_ONE_WAY    ? HKI_TUNE_ONE_WAY
                             : d->series == HKI_TUNE_BULK_EXCHANGE ? HKI_TUNE_EXCHANGE
                                                                   : d->series;
    return (int)hki_duet_call(&d->pair, series, send, recv, cell->count, cell->type);
}

static int barrier(void *context)
{
    return (int)hk_barrier(((duet *)context)->pair.comm);
}

static int maximum(void *context, double *values, int count)
{
    return (int)hk_allreduce(HK_IN_PLACE, values, (uint64_t)count, HK_FLOAT64, HK_MAX, ((duet *)context)->pair.comm);
}

static const char *error(void *context)
{
    (void)context;
    return hk_last_error();
}

static hki_bench_library library_of(duet *d)
{
    return (hki_bench_library){.name = "hocket tune",
                               .context = d,
                               .rank = hk_comm_rank(d->pair.comm),
                               .ranks = hk_comm_size(d->pair.comm),
                               .in_place = HK_IN_PLACE,
                               .call = call,
                               .barrier = barrier,
                               .maximum = maximum,
                               .error = error};
}

/* ---- one point ---- */

static bool add_point(job *j, const hki_tune_point *point)
{
    return hki_tune_point_add(j->points, point) == HK_OK || complain("a point");
}

/* What the benchmark calls what is measured. `bytes` is each message's; a benchmark's all-gather counts all blocks. */
static hki_bench_request request_for(const duet *d, const hki_tune_point *point)
{
    hki_bench_request request = {
        .rank = hk_comm_rank(d->pair.comm), .ranks = hk_comm_size(d->pair.comm), .type = HK_FLOAT32, .op = HK_SUM};
    request.bytes = point->bytes;
    switch (point->series) {
    case HKI_TUNE_ONE_WAY:
    case HKI_TUNE_BULK_ONE_WAY:
        request.kind = HKI_BENCH_PINGPONG; /* there and back: the loop halves it */
        break;
    case HKI_TUNE_STREAM:
        request.kind = HKI_BENCH_STREAM;
        break;
    case HKI_TUNE_TURNS:
        request.kind = HKI_BENCH_ALLREDUCE;
        break;
    default:
        request.kind = HKI_BENCH_ALLGATHER;
        request.in_place = true;
        request.bytes = point->bytes * (uint64_t)request.ranks;
    }
    return request;
}

/* Of what takes milliseconds there would be a few samples only. */
static hki_bench_effort effort_for(const job *j, const hki_tune_point *point)
{
    return (hki_bench_effort){.box = (j->quick ? 0.005 : 0.02) * (point->data ? 4 : 1), .warmup = -1};
}

/* Measures one point among the ranks of d, and adds it: of its samples the median, as predictions are judged by
 * medians. Lower quartiles over tcp and least times of long messages took a tenth less, and differed more from run to
 * run. */
static bool take(job *j, duet *d, hki_tune_point point)
{
    const hki_bench_request request = request_for(d, &point);
    const hki_bench_effort effort = effort_for(j, &point);
    d->series = (hki_tune_series)point.series;
    const hki_bench_library library = library_of(d);
    hki_bench_cell cell;
    hki_bench_result result;
    if (!hki_bench_cell_make(&request, &cell)) {
        fprintf(stderr, "hocket tune: no memory for a cell\n");
        return false;
    }
    bool done = hki_bench_measure(&library, &cell, &effort, &j->buffers, &result) == 0;
    hki_bench_cell_clear(&cell);
    point.us = result.time.p50;
    if (++j->done <= j->all)
        j->watcher->measured(j->watcher->context, j->done, j->all);
    return done && add_point(j, &point);
}

/* ---- a pair ---- */

static uint32_t sizes_of(void)
{
    uint32_t count = 0;
    for (uint64_t bytes = SMALLEST; bytes <= LONGEST; bytes *= 2)
        count++;
    return count;
}

/* Larger messages are not measured once one takes so long: slow links have shown their bandwidth by then. */
static const double enough_us = 60000;

static bool measure_sizes(job *j, duet *d, uint32_t link)
{
    j->longest_us = 0;
    for (uint64_t bytes = SMALLEST; bytes <= LONGEST && j->longest_us < enough_us; bytes *= 2)
        for (uint32_t series = HKI_TUNE_ONE_WAY; series <= HKI_TUNE_STREAM; series++) {
            if (!take(j, d, (hki_tune_point){.series = series, .link = link, .bytes = bytes}))
                return false;
            j->longest_us = j->points->items[j->points->count - 1].us; /* the same on both ranks */
        }
    return add_point(
        j, &(hki_tune_point){.series = HKI_TUNE_LIMIT, .link = link, .bytes = hki_duet_eager_limit(&d->pair)});
}

/* Keeps the lower of two measurements of a point: those from `again` on are of points before. */
static void keep_lower(hki_tune_points *points, uint32_t first, uint32_t again)
{
    for (uint32_t i = again; i < points->count; i++)
        for (uint32_t k = first; k < again; k++) {
            hki_tune_point *former = &points->items[k];
            const hki_tune_point *point = &points->items[i];
            if (former->series == point->series && former->bytes == point->bytes && former->link == point->link &&
                point->us < former->us)
                former->us = point->us;
        }
    points->count = again;
}

/* Again, if it took much longer than one of less data, as it may by something else that the machine does. */
static bool take_bulk(job *j, duet *d, hki_tune_point point)
{
    enum { ATTEMPTS = 3, SAME = 2 }; /* the point before of the same series is two back */
    uint32_t at = j->points->count;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        if (!take(j, d, point))
            return false;
        if (attempt > 0)
            keep_lower(j->points, at, at + 1);
        const hki_tune_point *now = &j->points->items[at], *less = at >= SAME ? now - SAME : NULL;
        if (!less || less->series != point.series ||
            now->us / (double)now->bytes < HKI_BULK_MOST / 2.0 * less->us / (double)less->bytes)
            break;
    }
    return true;
}

/* Both ranks have what they send and what they receive. Links that are much slower than memory do not tell where data
 * lie. */
static bool measure_bulk(job *j, duet *d, uint32_t link)
{
    static const double slow_us = 10000;
    uint32_t sharers = link <= HKI_LINK_L3 || link == HKI_LINK_LOOPBACK ? 2 : 1; /* of a cache */
    if (j->longest_us > slow_us)
        return true;
    for (uint64_t bytes = LONGEST; bytes <= LONGEST_BULK; bytes *= 2)
        for (uint32_t series = HKI_TUNE_BULK_ONE_WAY; series <= HKI_TUNE_BULK_EXCHANGE; series++)
            if (!take_bulk(
                    j, d,
                    (hki_tune_point){.series = series, .link = link, .bytes = bytes, .data = 2 * sharers * bytes}))
                return false;
    return true;
}

/* Whether rank 0 of the two thinks so: both are to go on alike. */
static bool is_clear(const job *j, const duet *d, uint32_t link, bool *clear)
{
    uint8_t told = hki_tune_is_clear(j->points, link);
    if (hk_broadcast(&told, 1, HK_UINT8, 0, d->pair.comm) != HK_OK)
        return complain("whether measurements are clear");
    *clear = told;
    return true;
}

/* Again, if something else kept the machine busy. */
static bool measure_link(job *j, duet *d, uint32_t link)
{
    enum { ATTEMPTS = 3 };
    bool clear = false;
    uint32_t first = j->points->count;
    for (int attempt = 0; attempt < ATTEMPTS && !clear; attempt++) {
        uint32_t again = j->points->count;
        if (!measure_sizes(j, d, link))
            return false;
        if (attempt > 0)
            keep_lower(j->points, first, again);
        if (!is_clear(j, d, link, &clear))
            return false;
    }
    return true;
}

/* ---- what a network sustains ---- */

/* Again, if it took much longer than such messages did before: the link may be shaped, or the machine be busy. */
static bool take_lasting(job *j, duet *d, hki_tune_point point, double message_us)
{
    enum { ATTEMPTS = 3 };
    static const double window_us = 100e3, noticeable = 1.1;
    bool both = point.series == HKI_TUNE_LASTING_EXCHANGE;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        double us;
        if (hki_duet_sustain(&d->pair, both ? HKI_TUNE_EXCHANGE : HKI_TUNE_STREAM,
                             both ? HK_IN_PLACE : j->buffers.input, j->buffers.output, point.bytes, message_us,
                             window_us, &us) != HK_OK)
            return complain("messages in a row");
        point.us = attempt == 0 || us < point.us ? us : point.us;
        if (point.us < noticeable * message_us)
            break;
    }
    return add_point(j, &point);
}

/* The latest point of a series that was measured of this link. */
static const hki_tune_point *find_latest(const hki_tune_points *points, hki_tune_series series, uint32_t link)
{
    for (uint32_t i = points->count; i-- > 0;)
        if (points->items[i].series == series && points->items[i].link == link)
            return &points->items[i];
    return NULL;
}

/* By messages as long as were measured. */
static bool measure_lasting(job *j, duet *d, uint32_t link)
{
    const hki_tune_point *stream = find_latest(j->points, HKI_TUNE_STREAM, link),
                         *exchange = find_latest(j->points, HKI_TUNE_EXCHANGE, link);
    if (link <= HKI_LINK_LOOPBACK || !stream || !exchange)
        return true;
    return take_lasting(j, d, (hki_tune_point){.series = HKI_TUNE_LASTING_STREAM, .link = link, .bytes = stream->bytes},
                        stream->us) &&
           take_lasting(j, d,
                        (hki_tune_point){.series = HKI_TUNE_LASTING_EXCHANGE, .link = link, .bytes = exchange->bytes},
                        exchange->us);
}

/* ---- counts ---- */

static bool measure_kind(const job *j, const hki_bench_library *library, hki_bench_kind kind, double *us)
{
    enum { SMALL = 8 };
    const hki_bench_request request = {.kind = kind,
                                       .rank = library->rank,
                                       .ranks = library->ranks,
                                       .type = HK_FLOAT32,
                                       .op = HK_SUM,
                                       .bytes = SMALL * (uint64_t)library->ranks};
    const hki_bench_effort effort = {.box = j->quick ? 0.005 : 0.03, .warmup = -1, .paced = true};
    hki_bench_cell cell;
    hki_bench_result result;
    if (!hki_bench_cell_make(&request, &cell))
        return false;
    bool done = hki_bench_measure(library, &cell, &effort, &j->buffers, &result) == 0;
    hki_bench_cell_clear(&cell);
    *us = result.time.p25;
    return done;
}

/* Of collectives of which all ranks know the counts, and of which the root alone does. */
static bool measure_counts(job *j, const duet *d, uint32_t link)
{
    static const hki_bench_kind kinds[][2] = {{HKI_BENCH_ALLGATHER, HKI_BENCH_ALLGATHERV},
                                              {HKI_BENCH_GATHER, HKI_BENCH_GATHERV}};
    hki_bench_library library;
    hki_bench_hocket(d->pair.comm, false, &library);
    hki_bench_hocket_pace(&library, d->pair.back);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        double equal, counted;
        if (!measure_kind(j, &library, kinds[i][0], &equal) || !measure_kind(j, &library, kinds[i][1], &counted))
            return false;
        hki_tune_point point = {.series = HKI_TUNE_COUNTS, .link = link, .us = counted > equal ? counted - equal : 0};
        if (!add_point(j, &point))
            return false;
    }
    return true;
}

static bool open_duet(duet *d, hk_comm *comm)
{
    return hki_duet_open(&d->pair, comm) == HK_OK || complain("a second communicator");
}

static bool close_duet(duet *d)
{
    return hki_duet_close(&d->pair) == HK_OK;
}

/* What the two ranks of a pair do. */
static bool measure_pair(job *j, hk_comm *comm, uint32_t link)
{
    duet d;
    if (!open_duet(&d, comm))
        return false;
    const hki_bench_library library = library_of(&d);
    bool good = hki_bench_buffers_make(&library, 2 * (size_t)LONGEST_BULK, 2 * (size_t)LONGEST_BULK, &j->buffers);
    if (!good)
        fprintf(stderr, "hocket tune: no memory for buffers\n");
    good = good && measure_link(j, &d, link) && measure_lasting(j, &d, link) && measure_bulk(j, &d, link);
    if (link <= HKI_LINK_HOST) /* elsewhere it would not show */
        good = good && measure_counts(j, &d, link);
    hki_bench_buffers_free(&library, &j->buffers);
    return close_duet(&d) && good;
}

/* ---- pairs of a job ---- */

/* All ranks get what rank `root` has added since `before`. */
static bool share_points(hk_comm *comm, int root, hki_tune_points *points, uint32_t before)
{
    uint32_t count = points->count - before;
    if (hk_broadcast(&count, 1, HK_UINT32, root, comm) != HK_OK)
        return complain("handing on points");
    if (count > HKI_TUNE_POINTS - before)
        return false;
    points->count = before + count;
    return hk_broadcast(&points->items[before], count * sizeof(hki_tune_point), HK_UINT8, root, comm) == HK_OK ||
           complain("handing on points");
}

/* The first two ranks that are joined by this kind of link. */
static bool find_pair(const hk_comm *comm, hki_link_class link, uint32_t pair[2])
{
    for (pair[0] = 0; pair[0] < comm->size; pair[0]++)
        for (pair[1] = pair[0] + 1; pair[1] < comm->size; pair[1]++)
            if (hki_cluster_link(comm->cluster, pair[0], pair[1]) == link)
                return true;
    return false;
}

/* Measures a kind of link between the first two ranks that have it, while the others wait. */
static bool measure_class(job *j, hk_comm *comm, hki_link_class link, const uint32_t pair[2])
{
    uint32_t rank = (uint32_t)hk_comm_rank(comm), before = j->points->count;
    bool in = rank == pair[0] || rank == pair[1];
    hk_comm *two = NULL;
    if (hk_comm_split(comm, in ? 0 : HK_UNDEFINED, (int)rank, &two) != HK_OK)
        return complain("a communicator of two");
    bool good = !in || measure_pair(j, two, link);
    if (two && hk_comm_free(two) != HK_OK)
        good = false;
    return good && share_points(comm, (int)pair[0], j->points, before);
}

static bool measure_pairs(job *j, hk_comm *comm)
{
    uint32_t pair[2];
    bool good = true;
    for (int link = 0; link < HKI_LINK_CLASSES; link++)
        if (find_pair(comm, (hki_link_class)link, pair))
            j->all += 3 * sizes_of() + BULK_POINTS;
    for (int link = 0; link < HKI_LINK_CLASSES && good; link++)
        if (find_pair(comm, (hki_link_class)link, pair))
            good = measure_class(j, comm, (hki_link_class)link, pair);
    return good;
}

/* ---- jobs of many ranks ---- */

/* One round of messages among more ranks than CPUs. */
static bool measure_turns(job *j, hk_comm *comm)
{
    duet d;
    j->all = 1;
    if (!open_duet(&d, comm))
        return false;
    const hki_bench_library library = library_of(&d);
    bool good = hki_bench_buffers_make(&library, TURN_RANKS_BYTES, TURN_RANKS_BYTES, &j->buffers) &&
                take(j, &d,
                     (hki_tune_point){.series = HKI_TUNE_TURNS,
                                      .bytes = TURN_RANKS_BYTES,
                                      .ranks = comm->size,
                                      .cpus = comm->cluster->hosts[0].capacity});
    hki_bench_buffers_free(&library, &j->buffers);
    return close_duet(&d) && good;
}

/* An exchange by the first pair alone, and by all at once: what they share shows in the difference. The slowest pair
 * counts: it is what a collective waits for. */
static bool measure_together(job *j, hk_comm *comm)
{
    uint32_t rank = (uint32_t)hk_comm_rank(comm), last = j->points->count;
    hk_comm *two = NULL;
    duet d;
    j->all = 1;
    if (hk_comm_split(comm, (int)(rank / 2), (int)rank, &two) != HK_OK || !open_duet(&d, two))
        return complain("a communicator of two");
    const hki_bench_library library = library_of(&d);
    bool good = hki_bench_buffers_make(&library, 2 * TOGETHER_BYTES, 2 * TOGETHER_BYTES, &j->buffers);
    uint32_t link = hki_cluster_link(comm->cluster, rank & ~1u, rank | 1u);
    hki_tune_point point = {.series = HKI_TUNE_TOGETHER, .link = link, .bytes = TOGETHER_BYTES, .ranks = comm->size};
    good = good && hk_barrier(comm) == HK_OK && take(j, &d, point);
    hki_bench_buffers_free(&library, &j->buffers);
    double slowest = good ? j->points->items[last].us : 0;
    good = good && hk_allreduce(HK_IN_PLACE, &slowest, 1, HK_FLOAT64, HK_MAX, comm) == HK_OK;
    if (good)
        j->points->items[last].us = slowest;
    return close_duet(&d) && hk_comm_free(two) == HK_OK && good;
}

bool hki_tune_measure(hk_comm *comm, hki_tune_task task, bool quick, const hki_tune_watcher *watcher,
                      hki_tune_points *points)
{
    job j = {.points = points, .watcher = watcher, .quick = quick};
    return task == HKI_TUNE_PAIRS           ? measure_pairs(&j, comm)
           : task == HKI_TUNE_RANKS_IN_TURN ? measure_turns(&j, comm)
                                            : measure_together(&j, comm);
}

#include "bench/bench_run.h"

#include "bench/bench_hocket.h"
#include "bench/bench_inspect.h"
#include "bench/bench_json.h"
#include "bench/bench_regret.h"
#include "bench/bench_report.h"
#include "bench/bench_state.h"
#include "dtype/dtype.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Where results go; on ranks other than 0 nothing is open. */
typedef struct sinks {
    FILE *table, *json, *csv;
    long cells;
} sinks;

typedef struct run {
    const hki_bench_options *options;
    hki_bench_library library;
    hki_bench_buffers buffers;
    const char *transport;
    uint64_t max;
    bool lead; /* rank 0, which writes */
    sinks out;
    long wrong;
    hk_comm *comm;
    hki_bench_regret *regret; /* with --regret: of the cell that is measured */
    hki_bench_regrets regrets;
    hki_bench_state state;
} run;

/* ---- output ------------------------------------------------------------------------------------------------- */

static FILE *open_sink(const char *path)
{
    if (strcmp(path, "-") == 0)
        return stdout;
    FILE *file = fopen(path, "w");
    if (file == NULL)
        fprintf(stderr, "hocket bench: %s: %s\n", path, strerror(errno));
    return file;
}

/* Whether all that was written is where it belongs. */
static bool close_sink(FILE *file, const char *path)
{
    if (file == NULL)
        return true;
    bool written = ferror(file) == 0;
    int status = file == stdout ? fflush(file) : fclose(file);
    if (written && status == 0)
        return true;
    fprintf(stderr, "hocket bench: %s: %s\n", path, status != 0 ? strerror(errno) : "not written");
    return false;
}

static int usable_cpus(void)
{
    cpu_set_t usable;
    return sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 0;
}

static void write_meta(FILE *out, const run *r)
{
    char host[256] = "", when[32] = "";
    time_t now = time(NULL);
    struct tm utc;
    (void)gethostname(host, sizeof host - 1);
    if (gmtime_r(&now, &utc) != NULL)
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    const struct {
        const char *name, *value;
    } texts[] = {{"version", hk_version(NULL, NULL, NULL)},
                 {"host", host},
                 {"time", when},
                 {"transport", r->transport},
                 {"kernels", hki_kernels_name()},
                 {"type", hki_bench_type_name(r->options->request.type)},
                 {"op", hki_bench_op_name(r->options->request.op)},
                 {"buffers", r->options->mappable ? "hk_alloc" : "malloc"}};
    fputs("{\"meta\": {", out);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        hki_bench_json_text(out, texts[i].name, texts[i].value);
        fputs(", ", out);
    }
    hki_bench_json_integer(out, "ranks", r->library.ranks);
    fputs(", ", out);
    hki_bench_json_integer(out, "cpus", sysconf(_SC_NPROCESSORS_ONLN));
    fputs(", ", out);
    hki_bench_json_integer(out, "usable_cpus", usable_cpus());
    fputs(", ", out);
    hki_bench_json_number(out, "seconds_per_cell", r->options->effort.box);
    fputs(", ", out);
    hki_bench_json_truth(out, "inputs_rewritten", !r->options->effort.constant);
    fputs("},\n \"cells\": [", out);
}

static void begin_output(run *r)
{
    if (r->out.json != NULL)
        write_meta(r->out.json, r);
    if (r->out.csv != NULL)
        hki_bench_csv_heading(r->out.csv, r->options->regret);
    if (r->out.table == NULL)
        return;
    const hki_bench_options *o = r->options;
    fprintf(r->out.table, "# Hocket %s: %d rank%s over %s, %s %s, %s kernels, %s buffers, inputs %s; GB/s are 10^9\n",
            hk_version(NULL, NULL, NULL), r->library.ranks, r->library.ranks == 1 ? "" : "s", r->transport,
            hki_bench_type_name(o->request.type), hki_bench_op_name(o->request.op), hki_kernels_name(),
            o->mappable ? "hk_alloc" : "malloc", o->effort.constant ? "constant" : "rewritten before each sample");
    (o->regret ? hki_bench_regret_heading : hki_bench_table_heading)(r->out.table);
    fflush(r->out.table);
}

static void write_cell(run *r, const hki_bench_cell *cell, const hki_bench_result *result)
{
    if (r->out.json != NULL) {
        fputs(r->out.cells == 0 ? "\n  " : ",\n  ", r->out.json);
        hki_bench_cell_json(r->out.json, r->library.name, r->transport, cell, result);
    }
    if (r->out.csv != NULL)
        hki_bench_cell_csv(r->out.csv, r->library.name, r->transport, cell, result);
    if (r->out.table != NULL) {
        (result->regret ? hki_bench_regret_row : hki_bench_cell_row)(r->out.table, cell, result);
        fflush(r->out.table);
    }
    r->out.cells++;
}

static bool end_output(run *r)
{
    if (r->out.json != NULL)
        fputs("\n ]}\n", r->out.json);
    if (r->out.table != NULL)
        hki_bench_regrets_print(r->out.table, &r->regrets);
    bool written = close_sink(r->out.json, r->options->json);
    written &= close_sink(r->out.csv, r->options->csv);
    return close_sink(r->out.table, "standard output") && written;
}

/* Opens the outputs on rank 0, and tells all ranks whether that went well. */
static bool open_output(run *r)
{
    const hki_bench_options *o = r->options;
    double trouble = 0.0;
    if (r->lead) {
        r->out.json = o->json != NULL ? open_sink(o->json) : NULL;
        r->out.csv = o->csv != NULL ? open_sink(o->csv) : NULL;
        r->out.table = r->out.json == stdout || r->out.csv == stdout ? NULL : stdout;
        trouble = (o->json != NULL && r->out.json == NULL) || (o->csv != NULL && r->out.csv == NULL) ? 1.0 : 0.0;
    }
    if (r->library.maximum(r->library.context, &trouble, 1) != 0) {
        fprintf(stderr, "hocket bench: rank %d: %s\n", r->library.rank, r->library.error(r->library.context));
        return false;
    }
    return trouble == 0.0;
}

/* ---- measuring ---------------------------------------------------------------------------------------------- */

static hki_bench_request request_for(const run *r, hki_bench_kind kind, uint64_t bytes)
{
    hki_bench_request request = r->options->request;
    request.kind = kind;
    request.rank = r->library.rank;
    request.ranks = r->library.ranks;
    request.bytes = bytes;
    return request;
}

/* All candidates, and the state of the machine before and after: the one that is less like that of the figures. */
static bool measure_rivals(run *r, const hki_bench_cell *cell, hki_bench_result *result)
{
    double before, after;
    if (!hki_bench_state_probe(&r->state, &before) ||
        hki_bench_regret_measure(r->comm, &r->library, cell, &r->options->effort, &r->buffers, r->regret, result) !=
            0 ||
        !hki_bench_state_probe(&r->state, &after))
        return false;
    result->state = hki_bench_state_is_tuned(before) ? after : before;
    return true;
}

/* Again, if the machine was in another state than its figures, and comes back. */
static bool measure_regret(run *r, const hki_bench_cell *cell, hki_bench_result *result)
{
    enum { ATTEMPTS = 4 };
    for (int attempt = 0;; attempt++) {
        bool back = false;
        if (!measure_rivals(r, cell, result))
            return false;
        if (hki_bench_state_is_tuned(result->state) || attempt + 1 == ATTEMPTS)
            return true;
        if (!hki_bench_state_await(&r->state, r->options->effort.box, &back))
            return false;
        if (!back)
            return true;
        r->regrets.again += attempt == 0;
    }
}

static bool measure_cell(run *r, const hki_bench_cell *cell, hki_bench_result *result)
{
    if (r->regret == NULL)
        return hki_bench_measure(&r->library, cell, &r->options->effort, &r->buffers, result) == 0;
    return measure_regret(r, cell, result);
}

static bool run_cell(run *r, const hki_bench_request *request)
{
    hki_bench_cell cell;
    hki_bench_result result;
    if (!hki_bench_cell_make(request, &cell)) {
        fprintf(stderr, "hocket bench: rank %d: out of memory\n", r->library.rank);
        return false;
    }
    bool done = measure_cell(r, &cell, &result);
    if (done) {
        r->wrong += result.correct == 0;
        if (hki_bench_is_message(cell.kind))
            result.algorithm[0] = '\0'; /* messages: the last collective was the barrier before them */
        hki_bench_why(r->comm, &cell, result.why, sizeof result.why, &result.predicted_us);
        if (r->regret != NULL && r->lead)
            result.simulated_us = hki_bench_simulated(r->comm, &cell);
        if (r->regret != NULL)
            done = hki_bench_regrets_add(&r->regrets, r->regret, &result);
        write_cell(r, &cell, &result);
    }
    hki_bench_cell_clear(&cell);
    return done;
}

/* The size after this one; the largest is measured even where the factor steps over it. 0: there is none. */
static uint64_t next_size(const run *r, uint64_t bytes)
{
    if (bytes >= r->max)
        return 0;
    if (bytes == 0)
        return 1;
    return bytes > r->max / r->options->step ? r->max : bytes * r->options->step;
}

static bool run_kind(run *r, hki_bench_kind kind)
{
    uint64_t last = UINT64_MAX;
    if (hki_bench_traits_of(kind)->input == HKI_BENCH_NONE) {
        hki_bench_request request = request_for(r, kind, 0);
        return run_cell(r, &request);
    }
    for (uint64_t bytes = r->options->min;; bytes = next_size(r, bytes)) {
        hki_bench_request request = request_for(r, kind, bytes);
        uint64_t actual = hki_bench_actual_bytes(&request);
        /* Small sizes all round up to one element a rank: measured once. */
        if (actual != last && !run_cell(r, &request))
            return false;
        last = actual;
        if (bytes >= r->max)
            return true;
    }
}

/* What the job can do of what was asked for: a message needs a partner, in-place some form of it. */
static bool can_measure(const run *r, hki_bench_kind kind)
{
    if (!r->options->wanted[kind])
        return false;
    if (hki_bench_is_pair(kind) && r->library.ranks < 2)
        return false;
    if (r->options->regret && hki_bench_is_message(kind))
        return false;
    return !r->options->request.in_place || hki_bench_traits_of(kind)->in_place;
}

static bool run_all(run *r)
{
    for (int kind = 0; kind < HKI_BENCH_COUNT; kind++) {
        if (!can_measure(r, (hki_bench_kind)kind))
            continue;
        if (r->lead && r->options->progress)
            fprintf(stderr, "hocket bench: %s, %d ranks\n", hki_bench_traits_of((hki_bench_kind)kind)->name,
                    r->library.ranks);
        if (!run_kind(r, (hki_bench_kind)kind))
            return false;
    }
    return true;
}

/* Does the command line fit the job that was joined? */
static bool fits(const run *r)
{
    const hki_bench_options *o = r->options;
    int ranks = r->library.ranks;
    const char *trouble = NULL;
    if (o->ranks > 0 && o->ranks != ranks)
        trouble = "-n asks for another number of ranks than the launcher has started";
    else if (o->request.root >= ranks)
        trouble = "--root is not one of the ranks";
    else if (o->named && (o->wanted[HKI_BENCH_PINGPONG] || o->wanted[HKI_BENCH_STREAM]) && ranks < 2)
        trouble = "pingpong and stream need two ranks";
    else if (o->min > r->max)
        trouble = "--min is above the largest size for so many ranks; give --max";
    else if (o->regret && ranks < 2)
        trouble = "--regret needs two ranks: one has no choice";
    if (trouble != NULL && r->lead)
        fprintf(stderr, "hocket bench: %s (the job has %d)\n", trouble, ranks);
    return trouble == NULL;
}

/* 64 MiB, but no more than 512 MiB over all ranks of the job, which may all be on one host. */
static uint64_t default_max(int ranks)
{
    uint64_t max = UINT64_C(64) << 20;
    while (max > UINT64_C(1) << 20 && max * (uint64_t)ranks > UINT64_C(512) << 20)
        max /= 2;
    return max;
}

static bool make_buffers(run *r)
{
    uint64_t largest = 0;
    for (int kind = 0; kind < HKI_BENCH_COUNT; kind++) {
        for (int end = 0; end < 2 && r->options->wanted[kind]; end++) {
            hki_bench_request request = request_for(r, (hki_bench_kind)kind, end == 0 ? r->options->min : r->max);
            uint64_t bytes = hki_bench_actual_bytes(&request);
            largest = bytes > largest ? bytes : largest;
        }
    }
    if (hki_bench_buffers_make(&r->library, (size_t)largest, (size_t)largest, &r->buffers))
        return true;
    fprintf(stderr, "hocket bench: rank %d: no memory for two buffers of %llu bytes: %s\n", r->library.rank,
            (unsigned long long)largest, r->options->mappable ? hk_last_error() : strerror(ENOMEM));
    return false;
}

/* Where paced samples meet, if there are any. */
static bool make_pacer(run *r, hk_comm **pacer)
{
    if (!r->options->effort.paced)
        return true;
    if (hk_comm_dup(r->comm, pacer) != HK_OK) {
        fprintf(stderr, "hocket bench: rank %d: %s\n", r->library.rank, hk_last_error());
        return false;
    }
    hki_bench_hocket_pace(&r->library, *pacer);
    return true;
}

int hki_bench_run(hk_comm *comm, const hki_bench_options *options)
{
    char transports[128];
    run r = {.options = options,
             .transport = hki_bench_transport(comm, transports, sizeof transports),
             .lead = hk_comm_rank(comm) == 0,
             .comm = comm};
    hki_bench_hocket(comm, options->mappable, &r.library);
    r.library.algorithm = hki_bench_algorithm;
    r.max = options->max != UINT64_MAX ? options->max : default_max(r.library.ranks);
    if (!fits(&r))
        return 2;
    if (!open_output(&r))
        return 1;
    hk_comm *pacer = NULL;
    if (!make_buffers(&r) || !make_pacer(&r, &pacer))
        return 1;
    begin_output(&r);
    r.regret = options->regret ? calloc(1, sizeof *r.regret) : NULL;
    bool done = (r.regret != NULL || !options->regret) && (!options->regret || hki_bench_state_open(comm, &r.state)) &&
                run_all(&r);
    done &= end_output(&r);
    free(r.regret);
    done &= hki_bench_state_close(&r.state);
    hki_bench_regrets_free(&r.regrets);
    hki_bench_buffers_free(&r.library, &r.buffers);
    done &= pacer == NULL || hk_comm_free(pacer) == HK_OK;
    if (r.wrong > 0 && r.lead)
        fprintf(stderr, "hocket bench: %ld cells gave wrong results\n", r.wrong);
    return done && r.wrong == 0 ? 0 : 1;
}

/* hocket tune: measures this machine for the cost model. Under a launcher it is one of the ranks, and measures the
 * links between them; alone it starts jobs that do. */
#include "tools/tune.h"
#include "tools/tools.h"

#include "base/json.h"
#include "base/settings.h"
#include "bench/bench_launch.h"
#include "comm/comm.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const struct option long_options[] = {{"ranks", required_argument, NULL, 'n'},
                                             {"transport", required_argument, NULL, 't'},
                                             {"quick", no_argument, NULL, 'q'},
                                             {"output", required_argument, NULL, 'o'},
                                             {"points", required_argument, NULL, 'p'},
                                             {"help", no_argument, NULL, 'h'},
                                             {NULL, 0, NULL, 0}};

static void usage(FILE *out)
{
    fputs(
        "usage: hocket tune [options]\n\n"
        "Measures what the cost model needs to know of this machine: latency and bandwidth of every kind of link\n"
        "between its CPUs, reductions of every type, copies, and what it costs when ranks take turns. Under a\n"
        "launcher (hocket run, srun, mpirun) it measures the links between the ranks instead: between hosts, that is.\n"
        "Jobs on this machine then find the figures in the user's cache; others by HOCKET_TUNING=FILE.\n\n"
        "  -n, --ranks N      ranks of a pair's job: 2, and nothing else without a launcher\n"
        "  --transport T      shm, tcp, or shm,tcp (both)\n"
        "  --quick            a few seconds instead of some twenty: fewer samples\n"
        "  -o, --output FILE  where to write (the user's cache)\n"
        "  --points WHAT      print what was measured, as lines, and fit nothing: pairs, turns, together;\n"
        "                     under a launcher only\n",
        out);
}

static bool bad(const char *option, const char *text, const char *wanted)
{
    fprintf(stderr, "hocket tune: --%s takes %s, not \"%s\"\n", option, wanted, text);
    return false;
}

static bool read_task(const char *text, hki_tune_options *options)
{
    static const char *const names[] = {"pairs", "turns", "together"};
    options->points = true;
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i]) == 0) {
            options->task = (hki_tune_task)i;
            return true;
        }
    return bad("points", text, "pairs, turns or together");
}

static bool read_transports(const char *text, hki_tune_options *options)
{
    static const char *const known[] = {"shm", "tcp", "shm,tcp", "tcp,shm"};
    options->transports = text;
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(text, known[i]) == 0)
            return true;
    return bad("transport", text, "shm, tcp or shm,tcp");
}

static bool read_ranks(const char *text, hki_tune_options *options)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < 2 || value > 4096)
        return bad("ranks", text, "a number from 2 to 4096");
    options->ranks = (int)value;
    return true;
}

static bool take_option(int letter, hki_tune_options *options)
{
    switch (letter) {
    case 'n':
        return read_ranks(optarg, options);
    case 't':
        return read_transports(optarg, options);
    case 'q':
        return options->quick = true;
    case 'o':
        options->output = optarg;
        return true;
    case 'p':
        return read_task(optarg, options);
    default:
        return false; /* getopt_long has said what is wrong */
    }
}

/* ---- results ---- */

static int fail(void)
{
    fprintf(stderr, "hocket tune: %s\n", hk_last_error());
    return 1;
}

/* Where figures go: NULL, after a message, where they cannot. */
static const char *find_output(const hki_tune_options *options)
{
    enum { PATH = 4096 };
    static char cache[PATH];
    const char *path = options->output;
    if (!path && hki_tuning_cache_path(cache, sizeof cache, true))
        path = cache;
    if (!path)
        fprintf(stderr, "hocket tune: there is no place for the user's cache; give -o FILE\n");
    else if (hki_json_may_write(path) != HK_OK)
        fprintf(stderr, "hocket tune: %s\n", hk_last_error());
    else
        return path;
    return NULL;
}

static int finish(const char *path, hki_tune_points *points)
{
    hki_tuning *tuning = malloc(sizeof *tuning);
    if (!tuning) {
        fprintf(stderr, "hocket tune: no memory for figures\n");
        return 1;
    }
    *tuning = (hki_tuning){.figures = hki_figures_built_in};
    hk_status status = hki_tune_kernels(points);
    if (status == HK_OK)
        status = hki_tune_copies_in_bulk(points);
    if (status == HK_OK)
        status = hki_tune_fit(points, HKI_TUNED, tuning);
    if (status == HK_OK) {
        hki_tune_report(stdout, tuning);
        hki_tune_report_doubts(stderr, tuning);
    }
    if (status == HK_OK)
        status = hki_tuning_write(tuning, path);
    free(tuning);
    if (status != HK_OK)
        return fail();
    printf("written to %s\n", path);
    return 0;
}

/* ---- as one of the ranks ---- */

static void print_progress(void *context, uint32_t done, uint32_t all)
{
    (void)context;
    printf("progress %u %u\n", done, all);
    fflush(stdout);
}

static void no_progress(void *context, uint32_t done, uint32_t all)
{
    (void)context;
    (void)done;
    (void)all;
}

/* A host of more ranks than cores, whose links are not what is measured there; NULL: there is none. */
static const hki_cluster_host *find_crowded(const hki_cluster *cluster)
{
    for (uint32_t host = 0; host < cluster->host_count; host++)
        if (cluster->hosts[host].ranks > cluster->hosts[host].capacity)
            return &cluster->hosts[host];
    return NULL;
}

/* Whether it makes sense to measure for a file: all ranks say the same, the first why not. */
static bool may_measure(hk_comm *comm, const hki_tune_options *options, const char **path)
{
    bool lead = hk_comm_rank(comm) == 0;
    const hki_cluster_host *crowded = find_crowded(comm->cluster);
    if (crowded && lead)
        fprintf(stderr,
                "hocket tune: a host has %u ranks on %u core%s, which take turns: that is no measure of links%s\n",
                crowded->ranks, crowded->capacity, crowded->capacity == 1 ? "" : "s",
                options->output ? "" : ", and nothing for the user's cache; start one rank a core, or give -o FILE");
    if (crowded && !options->output)
        return false;
    *path = lead ? find_output(options) : NULL;
    uint8_t may = *path != NULL;
    if (hk_broadcast(&may, 1, HK_UINT8, 0, comm) != HK_OK) {
        fail();
        return false;
    }
    return may != 0;
}

static int measure_and_show(hk_comm *comm, const hki_tune_options *options, hki_tune_points *points)
{
    bool lead = hk_comm_rank(comm) == 0;
    const char *path = NULL;
    if (!options->points && !may_measure(comm, options, &path))
        return 1;
    const hki_tune_watcher watcher = {options->points && lead ? print_progress : no_progress, NULL};
    if (!hki_tune_measure(comm, options->task, options->quick, &watcher, points))
        return 1;
    for (uint32_t i = 0; options->points && lead && i < points->count; i++)
        hki_tune_point_print(stdout, &points->items[i]);
    return !options->points && lead ? finish(path, points) : 0;
}

static int be_a_rank(const hki_tune_options *options, hki_tune_points *points)
{
    hk_comm *comm;
    if (options->transports && setenv("HOCKET_TRANSPORT", options->transports, 1) != 0)
        return 1;
    if (hk_init(&comm) != HK_OK)
        return fail();
    int result = 2;
    if (hk_comm_size(comm) < 2 || (options->ranks && options->ranks != hk_comm_size(comm)))
        fprintf(stderr, "hocket tune: the launcher has started %d rank%s\n", hk_comm_size(comm),
                hk_comm_size(comm) == 1 ? ": links are between two" : "s, not as many as -n asks for");
    else
        result = measure_and_show(comm, options, points);
    if (hk_comm_free(comm) != HK_OK && result == 0)
        return fail();
    return result;
}

static int start_jobs(const hki_tune_options *options, hki_tune_points *points)
{
    if (options->points || options->ranks > 2) {
        fprintf(stderr,
                options->points ? "hocket tune: --points is for ranks that a launcher has started\n"
                                : "hocket tune: -n 2: more ranks are for a launcher, hocket run -n %d -- hocket tune\n",
                options->ranks);
        return 2;
    }
    const char *path = find_output(options);
    return path && hki_tune_jobs(options, points) ? finish(path, points) : 1;
}

int hki_tool_tune(int argc, char **argv)
{
    hki_tune_options options = {.ranks = 0};
    optind = 0; /* also forgets what the program's own arguments left */
    for (int letter; (letter = getopt_long(argc, argv, "n:o:h", long_options, NULL)) != -1;) {
        if (letter == 'h') {
            usage(stdout);
            return 0;
        }
        if (!take_option(letter, &options))
            return 2;
    }
    if (optind < argc) {
        fprintf(stderr, "hocket tune: \"%s\" is no option; see hocket tune --help\n", argv[optind]);
        return 2;
    }
    hki_tune_points *points = calloc(1, sizeof *points);
    if (!points) {
        fprintf(stderr, "hocket tune: no memory for points\n");
        return 1;
    }
    int result = hki_bench_under_launcher() ? be_a_rank(&options, points) : start_jobs(&options, points);
    free(points);
    return result;
}

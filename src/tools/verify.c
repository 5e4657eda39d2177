/* hocket verify: proves algorithms for a number of ranks, and can print a rank's schedule. */
#include "sched/verify.h"
#include "algo/algo.h"
#include "base/error.h"
#include "sched/dump.h"
#include "sched/model.h"
#include "tools/tools.h"
#include "topo/cluster_file.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_RANKS = 8, MOST_RANKS = 1 << 20, ALL_ROOTS = -1, NO_DUMP = -1 };

typedef struct verify_options {
    const char *collective, *algorithm; /* NULL: all */
    uint32_t ranks, segments, per_node; /* ranks 0: not said */
    const char *topology;               /* a file, or NULL */
    int64_t root, dump;
    bool in_place, packed;
} verify_options;

static const char usage[] =
    "usage: hocket verify [COLLECTIVE] [options]\n\n"
    "Runs the schedules of all ranks symbolically and proves that they do what the collective promises, without\n"
    "deadlock or race, and counts rounds and bytes.\n\n"
    "  -n, --ranks N       number of ranks (default 8)\n"
    "  --algorithm A       one algorithm (default: all of the collective, or of all collectives)\n"
    "  --root R            root, or \"all\" (default 0)\n"
    "  --segments S        1, 2, 4 ... 64 (default 1)\n"
    "  --in-place          the buffers of all ranks are used in place\n"
    "  --packed            in place, a reduce-scatter's result at the start of its input\n"
    "  --per-node M        M ranks on a node (default: all ranks on one)\n"
    "  --topology F        ranks, caches, hosts and switches of the cluster in F (JSON; see src/topo/README.md)\n"
    "  --dump R            prints rank R's schedule as well\n";

/* Reads a number from low to high; says what is wrong and returns false otherwise. */
static bool read_number(const char *text, const char *option, int64_t low, int64_t high, int64_t *number)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (*text && !*end && errno == 0 && value >= low && value <= high) {
        *number = value;
        return true;
    }
    fprintf(stderr, "hocket verify: --%s takes a number from %lld to %lld, not \"%s\"\n", option, (long long)low,
            (long long)high, text);
    return false;
}

static const struct option long_options[] = {
    {"ranks", required_argument, NULL, 'n'},
    {"algorithm", required_argument, NULL, 'a'},
    {"root", required_argument, NULL, 'r'},
    {"segments", required_argument, NULL, 's'},
    {"in-place", no_argument, NULL, 'i'},
    {"packed", no_argument, NULL, 'p'},
    {"per-node", required_argument, NULL, 'm'},
    {"dump", required_argument, NULL, 'd'},
    {"topology", required_argument, NULL, 't'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* Takes one option; false when it is wrong. */
static bool take_option(verify_options *options, int letter)
{
    int64_t number = 0;
    switch (letter) {
    case 'n':
        if (!read_number(optarg, "ranks", 1, MOST_RANKS, &number))
            return false;
        options->ranks = (uint32_t)number;
        return true;
    case 'a':
        options->algorithm = optarg;
        return true;
    case 'r':
        options->root = ALL_ROOTS;
        return strcmp(optarg, "all") == 0 || read_number(optarg, "root", 0, MOST_RANKS, &options->root);
    case 's':
        if (!read_number(optarg, "segments", 1, 64, &number))
            return false;
        options->segments = (uint32_t)number;
        return true;
    case 'i':
        return options->in_place = true;
    case 'p':
        return options->packed = true;
    case 'm':
        if (!read_number(optarg, "per-node", 1, MOST_RANKS, &number))
            return false;
        options->per_node = (uint32_t)number;
        return true;
    case 't':
        options->topology = optarg;
        return true;
    case 'd':
        return read_number(optarg, "dump", 0, MOST_RANKS, &options->dump);
    default:
        return false;
    }
}

/* Only a reduce-scatter's result can lie at the start of its input. */
static bool can_be_packed(const char *collective)
{
    return collective && (strcmp(collective, "reduce_scatter") == 0 || strcmp(collective, "reduce_scatterv") == 0);
}

static bool check_options(const verify_options *options)
{
    if (options->packed && !can_be_packed(options->collective))
        fprintf(stderr, "hocket verify: --packed is for reduce_scatter and reduce_scatterv\n");
    else if (options->topology && (options->ranks > 0 || options->per_node > 0))
        fprintf(stderr, "hocket verify: --topology says how many ranks there are, and where\n");
    else if (options->collective && hki_collective_find(options->collective) < 0)
        fprintf(stderr, "hocket verify: there is no collective \"%s\"; see hocket info --algorithms\n",
                options->collective);
    else if (options->segments & (options->segments - 1))
        fprintf(stderr, "hocket verify: --segments takes a power of two\n");
    else
        return true;
    return false;
}

/* One case: all ranks' schedules, and the topology view that they share. */
typedef struct case_proof {
    const hki_algorithm *algorithm;
    const verify_options *options;
    uint32_t root;
    const hki_levels *levels;
    hki_schedule **schedules;
} case_proof;

static hki_call call_of(const case_proof *proof, uint32_t rank)
{
    const verify_options *options = proof->options;
    return (hki_call){.collective = proof->algorithm->collective,
                      .ranks = options->ranks,
                      .rank = rank,
                      .root = proof->root,
                      .segments = options->segments,
                      .in_place = options->packed     ? HKI_PACKED_AT_START
                                  : options->in_place ? HKI_ALIGNED
                                                      : HKI_SEPARATE,
                      .commutative = !proof->algorithm->keeps_order,
                      .levels = proof->levels};
}

static void print_report(const case_proof *proof, const hki_verify_report *report)
{
    hki_call call = call_of(proof, 0);
    double rounds = call.ranks > 1 ? proof->algorithm->rounds(&call) : 0;
    double sent = call.ranks > 1 ? proof->algorithm->sent(&call) : 0;
    printf("%-15s %-26s %6u %6u %8u", hki_collective_name(call.collective), proof->algorithm->name, call.ranks,
           proof->root, report->rounds);
    isnan(rounds) ? printf(" %8s", "-") : printf(" %8g", rounds);
    printf(" %9.4g", report->sent);
    isnan(sent) ? printf(" %9s", "-") : printf(" %9.4g", sent);
    printf(" %10llu  %s\n", (unsigned long long)report->messages,
           !hki_collective_reduces(call.collective) ? "holds"
           : report->keeps_order                    ? "holds, in rank order"
                                                    : "holds");
}

/* Generates and verifies; 0 = holds or cannot serve the call, 1 = fails. */
static int prove(const case_proof *proof)
{
    uint32_t made = 0;
    hk_status status = HK_OK;
    hki_call call = call_of(proof, 0);
    const char *why = hki_algorithm_refuses(proof->algorithm, &call);
    if (why) {
        printf("%-15s %-26s %6u %6u  not served: %s\n", hki_collective_name(call.collective), proof->algorithm->name,
               call.ranks, proof->root, why);
        return 0;
    }
    for (; made < call.ranks && status == HK_OK; made += status == HK_OK) {
        call = call_of(proof, made);
        status = hki_algorithm_schedule(proof->algorithm, &call, &proof->schedules[made]);
    }
    hki_verify_report report;
    if (status == HK_OK)
        status = hki_verify((const hki_schedule *const *)proof->schedules, made, proof->algorithm->name, &report);
    if (status == HK_OK)
        print_report(proof, &report);
    else
        printf("%-15s %-26s %6u %6u  FAILS: %s\n", hki_collective_name(call.collective), proof->algorithm->name,
               call.ranks, proof->root, hk_last_error());
    if (proof->options->dump >= 0 && proof->options->dump < made)
        hki_schedule_dump(proof->schedules[proof->options->dump], stdout);
    for (uint32_t rank = 0; rank < made; rank++)
        hki_schedule_free(proof->schedules[rank]);
    return status != HK_OK;
}

static void print_heading(void)
{
    printf("%-15s %-26s %6s %6s %8s %8s %9s %9s %10s\n", "collective", "algorithm", "ranks", "root", "rounds",
           "by book", "sent/n", "by book", "messages");
}

static int prove_all(const verify_options *options, const hki_levels *levels, hki_schedule **schedules)
{
    size_t count, found = 0;
    const hki_algorithm *all = hki_algorithms(&count);
    int result = 0;
    for (size_t i = 0; i < count; i++) {
        if (options->collective && strcmp(hki_collective_name(all[i].collective), options->collective) != 0)
            continue;
        if (options->algorithm && strcmp(all[i].name, options->algorithm) != 0)
            continue;
        if (found++ == 0)
            print_heading();
        bool every = options->root == ALL_ROOTS && hki_promise_rooted(all[i].collective);
        uint32_t first = options->root == ALL_ROOTS ? 0 : (uint32_t)options->root;
        for (uint32_t root = first; root <= (every ? options->ranks - 1 : first); root++)
            result |= prove(&(case_proof){&all[i], options, root, levels, schedules});
    }
    if (found)
        return result;
    fprintf(stderr, "hocket verify: there is no algorithm \"%s\"%s%s; see hocket info --algorithms\n",
            options->algorithm, options->collective ? " of " : "", options->collective ? options->collective : "");
    return 2;
}

/* Where the ranks are: on nodes of --per-node each, or as a file says. NULL: an error was recorded. */
static hki_cluster *find_cluster(const verify_options *options)
{
    hki_cluster *cluster = NULL;
    uint32_t ranks = options->ranks ? options->ranks : DEFAULT_RANKS;
    if (options->topology)
        return hki_cluster_read(options->topology, &cluster) == HK_OK ? cluster : NULL;
    uint32_t size = options->per_node ? options->per_node : ranks;
    cluster = hki_cluster_new(ranks, (ranks + size - 1) / size, 1, "--per-node");
    if (!cluster) {
        hki_error(HK_ERR_NO_MEMORY, "no memory for %u ranks", ranks);
        return NULL;
    }
    cluster->switches[0].above = UINT32_MAX;
    for (uint32_t host = 0; host < cluster->host_count; host++)
        cluster->hosts[host] = (hki_cluster_host){.capacity = 1, .numas = 1, .nics = 1};
    for (uint32_t rank = 0; rank < ranks; rank++)
        cluster->seats[rank].host = rank / size;
    if (hki_cluster_settle(cluster) == HK_OK)
        return cluster;
    hki_cluster_free(cluster);
    return NULL;
}

/* Options that speak of ranks, once it is known how many there are. */
static bool check_ranks(const verify_options *options)
{
    int64_t beyond = options->root >= options->ranks ? options->root : options->dump;
    if (beyond < options->ranks)
        return true;
    fprintf(stderr, "hocket verify: there is no %s %lld among %u rank%s\n",
            options->root >= options->ranks ? "root" : "rank", (long long)beyond, options->ranks,
            options->ranks == 1 ? "" : "s");
    return false;
}

static int verify(verify_options *options)
{
    hki_cluster *cluster = find_cluster(options);
    if (!cluster) {
        fprintf(stderr, "hocket verify: %s\n", hk_last_error());
        return 1;
    }
    options->ranks = cluster->rank_count;
    hki_schedule **schedules = malloc(options->ranks * sizeof *schedules);
    int result = 1;
    if (!schedules)
        fprintf(stderr, "hocket verify: no memory for %u ranks\n", options->ranks);
    else
        result = check_ranks(options) ? prove_all(options, cluster->levels, schedules) : 2;
    free(schedules);
    hki_cluster_free(cluster);
    return result;
}

int hki_tool_verify(int argc, char **argv)
{
    verify_options options = {.segments = 1, .dump = NO_DUMP};
    optind = 0; /* also forgets what the program's own arguments left */
    for (int letter; (letter = getopt_long(argc, argv, "n:h", long_options, NULL)) != -1;) {
        if (letter == 'h') {
            fputs(usage, stdout);
            return 0;
        }
        if (!take_option(&options, letter))
            return 2;
    }
    if (optind + 1 < argc) {
        fprintf(stderr, "hocket verify: one collective at most, but \"%s\" follows\n", argv[optind + 1]);
        return 2;
    }
    options.collective = optind < argc ? argv[optind] : NULL;
    return check_options(&options) ? verify(&options) : 2;
}

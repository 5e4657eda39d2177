#include "bench/bench_options.h"

#include "base/settings.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 65536 };

/* The one list of long options: X(NAME, name, takes, argument, help). An argument of NULL takes none. */
#define OPTION_LIST(X)                                                                                                 \
    X(RANKS, "ranks", required_argument, "N", "ranks to start on this host (also -n; 2 unless under a launcher)")      \
    X(MIN, "min", required_argument, "B", "smallest size in bytes: 8, 64K, 1M (8)")                                    \
    X(MAX, "max", required_argument, "B", "largest size (64M; less from 9 ranks on)")                                  \
    X(STEP, "step", required_argument, "F", "factor from one size to the next (4)")                                    \
    X(ITERS, "iters", required_argument, "K", "timed calls of a cell; auto = as many as fit in its time (auto)")       \
    X(WARMUP, "warmup", required_argument, "K", "calls before (auto)")                                                 \
    X(SECONDS, "seconds", required_argument, "S", "time for a cell when iters is auto (0.05)")                         \
    X(TYPE, "type", required_argument, "T", "element type: int8 ... float64 (float32)")                                \
    X(OP, "op", required_argument, "O", "operator: sum, prod, min, max, avg, band, ... (sum)")                         \
    X(ROOT, "root", required_argument, "R", "root of the rooted collectives (0)")                                      \
    X(ALGORITHM, "algorithm", required_argument, "A", "force an algorithm: ring, or allreduce:ring,broadcast:chain")   \
    X(TRANSPORT, "transport", required_argument, "T", "allow these transports only: shm, tcp")                         \
    X(IN_PLACE, "in-place", no_argument, "", "use the in-place forms")                                                 \
    X(UNEVEN, "uneven", no_argument, "", "the forms with a count for each rank get different counts")                  \
    X(ALLOC, "alloc", no_argument, "", "buffers from hk_alloc instead of malloc")                                      \
    X(CONSTANT, "constant", no_argument, "", "do not rewrite inputs between samples (flatters)")                       \
    X(PACED, "paced", no_argument, "",                                                                                 \
      "no rank runs ahead in a batch: what a call takes that begins when all are ready")                               \
    X(REGRET, "regret", no_argument, "", "measure every algorithm in turn: was the choice the best? (seconds: 0.5)")   \
    X(CHECK, "check", no_argument, "", "compare every element with a serial reference")                                \
    X(JSON, "json", required_argument, "FILE", "write the results as JSON; - is standard output, without the table")   \
    X(CSV, "csv", required_argument, "FILE", "write the results as CSV; - likewise")                                   \
    X(BIND, "bind", required_argument, "B", "none or core: as for hocket run")                                         \
    X(PROGRESS, "progress", no_argument, "", "say on standard error what is being measured")                           \
    X(LIST, "list", no_argument, "", "only print the names of the collectives, one a line")                            \
    X(HELP, "help", no_argument, "", "this text")

enum {
    OPTION_FIRST = 255, /* beyond the characters of short options */
#define X(NAME, name, takes, argument, help) OPTION_##NAME,
    OPTION_LIST(X)
#undef X
};

static const struct option long_options[] = {
#define X(NAME, name, takes, argument, help) {name, takes, NULL, OPTION_##NAME},
    OPTION_LIST(X)
#undef X
        {NULL, 0, NULL, 0}};

static bool bad(const char *format, ...) __attribute__((format(printf, 1, 2)));

static bool bad(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("hocket bench: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs(" (see hocket bench --help)\n", stderr);
    va_end(arguments);
    return false;
}

static bool integer(const char *name, const char *text, long low, long high, long *value)
{
    char *end;
    errno = 0;
    long parsed = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || parsed < low || parsed > high)
        return bad("--%s wants a whole number from %ld to %ld, not \"%s\"", name, low, high, text);
    *value = parsed;
    return true;
}

static bool bytes(const char *name, const char *text, uint64_t *value)
{
    return hki_parse_bytes(text, value) || bad("--%s wants a size such as 8, 64K or 1M, not \"%s\"", name, text);
}

static bool named_value(const char *name, int found, const char *text, uint32_t *value)
{
    if (found < 0)
        return bad("--%s: there is no \"%s\"", name, text);
    *value = (uint32_t)found;
    return true;
}

static bool parse_seconds(const char *text, double *value)
{
    char *end;
    double parsed = strtod(text, &end);
    if (end == text || *end != '\0' || !(parsed > 0.0 && parsed <= 3600.0))
        return bad("--seconds wants a time above 0 and up to 3600, not \"%s\"", text);
    *value = parsed;
    return true;
}

static bool parse_ranks(const char *text, hki_bench_options *options)
{
    long value;
    if (!integer("ranks", text, 1, MOST_RANKS, &value))
        return false;
    options->ranks = (int)value;
    return true;
}

/* Options that take a figure or a name. */
static bool parse_valued(int option, hki_bench_options *options)
{
    long value = 0;
    switch (option) {
    case 'n':
    case OPTION_RANKS:
        return parse_ranks(optarg, options);
    case OPTION_MIN:
        return bytes("min", optarg, &options->min);
    case OPTION_MAX:
        return bytes("max", optarg, &options->max);
    case OPTION_STEP:
        if (!integer("step", optarg, 2, 1 << 20, &value))
            return false;
        options->step = (uint64_t)value;
        return true;
    case OPTION_ITERS:
        options->effort.iterations = 0;
        return strcmp(optarg, "auto") == 0 || integer("iters", optarg, 1, 1L << 40, &options->effort.iterations);
    case OPTION_WARMUP:
        options->effort.warmup = -1;
        return strcmp(optarg, "auto") == 0 || integer("warmup", optarg, 0, 1L << 40, &options->effort.warmup);
    case OPTION_SECONDS:
        return parse_seconds(optarg, &options->effort.box);
    case OPTION_TYPE:
        return named_value("type", hki_bench_type_find(optarg), optarg, &options->request.type);
    case OPTION_OP:
        return named_value("op", hki_bench_op_find(optarg), optarg, &options->request.op);
    case OPTION_ROOT:
        if (!integer("root", optarg, 0, MOST_RANKS - 1, &value))
            return false;
        options->request.root = (int)value;
        return true;
    case OPTION_BIND:
        options->bind = optarg;
        return strcmp(optarg, "none") == 0 || strcmp(optarg, "core") == 0 ||
               bad("--bind is none or core, not \"%s\"", optarg);
    default:
        return false; /* getopt_long has said what is wrong */
    }
}

static bool parse_one(int option, hki_bench_options *options)
{
    switch (option) {
    case OPTION_IN_PLACE:
        return options->request.in_place = true;
    case OPTION_UNEVEN:
        return options->request.uneven = true;
    case OPTION_ALLOC:
        return options->mappable = true;
    case OPTION_CONSTANT:
        return options->effort.constant = true;
    case OPTION_CHECK:
        return options->effort.check = true;
    case OPTION_PACED:
        return options->effort.paced = true;
    case OPTION_REGRET:
        return options->regret = options->effort.paced = true;
    case OPTION_PROGRESS:
        return options->progress = true;
    case OPTION_LIST:
        return options->list = true;
    case OPTION_HELP:
        return options->help = true;
    case OPTION_ALGORITHM:
        options->algorithm = optarg;
        return true;
    case OPTION_TRANSPORT:
        options->transport = optarg;
        return true;
    case OPTION_JSON:
        options->json = optarg;
        return true;
    case OPTION_CSV:
        options->csv = optarg;
        return true;
    default:
        return parse_valued(option, options);
    }
}

static bool parse_collectives(int count, char **names, hki_bench_options *options)
{
    options->named = count > 0;
    for (int i = 0; i < HKI_BENCH_COUNT; i++)
        options->wanted[i] = count == 0;
    for (int i = 0; i < count; i++) {
        int kind = hki_bench_kind_find(names[i]);
        if (kind < 0)
            return bad("there is no collective \"%s\"", names[i]);
        options->wanted[kind] = true;
    }
    return true;
}

/* What only shows in the combination of options. */
static bool consistent(const hki_bench_options *options)
{
    if (options->max < options->min)
        return bad("--max is below --min");
    if (options->ranks > 0 && options->request.root >= options->ranks)
        return bad("--root %d is not one of %d ranks", options->request.root, options->ranks);
    for (int i = 0; i < HKI_BENCH_COUNT && options->named; i++) {
        const hki_bench_traits *traits = hki_bench_traits_of((hki_bench_kind)i);
        if (options->wanted[i] && options->request.in_place && !traits->in_place)
            return bad("%s has no in-place form", traits->name);
    }
    if (options->algorithm != NULL && !options->named && strchr(options->algorithm, ':') == NULL)
        return bad("--algorithm %s: name the collectives that it is for", options->algorithm);
    if (options->regret && options->algorithm != NULL)
        return bad("--regret compares all algorithms; --algorithm would leave one");
    for (int i = 0; i < HKI_BENCH_COUNT && options->regret && options->named; i++)
        if (options->wanted[i] && hki_bench_is_message((hki_bench_kind)i))
            return bad("--regret is about collectives: for %s there is no choice",
                       hki_bench_traits_of((hki_bench_kind)i)->name);
    if (options->json != NULL && options->csv != NULL && strcmp(options->json, "-") == 0 &&
        strcmp(options->csv, "-") == 0)
        return bad("only one of --json and --csv can be -");
    return true;
}

bool hki_bench_options_parse(int argc, char **argv, hki_bench_options *options)
{
    memset(options, 0, sizeof *options);
    options->min = 8;
    options->max = UINT64_MAX;
    options->step = 4;
    options->request.type = HK_FLOAT32;
    options->request.op = HK_SUM;
    options->effort.box = 0;
    options->effort.warmup = -1;

    int option;
    optind = 0; /* may be called more than once in a process */
    while ((option = getopt_long(argc, argv, "n:h", long_options, NULL)) != -1)
        if (!parse_one(option == 'h' ? OPTION_HELP : option, options))
            return false;
    if (options->effort.box <= 0)
        options->effort.box = options->regret ? 0.5 : 0.05;
    if (options->help || options->list)
        return true;
    return parse_collectives(argc - optind, argv + optind, options) && consistent(options);
}

void hki_bench_options_list(void)
{
    for (int i = 0; i < HKI_BENCH_COUNT; i++)
        puts(hki_bench_traits_of((hki_bench_kind)i)->name);
}

void hki_bench_options_help(void)
{
    printf("usage: hocket bench [collective...] [options]\n"
           "       hocket bench limits [options]\n"
           "       hocket bench kernels [options]\n"
           "       hocket bench choosing [options]\n\n"
           "Measures collectives among ranks of this host, or of the launcher that it was started by.\n"
           "A time is that of the slowest rank. Bytes are the whole vector, bandwidths those of nccl-tests.\n\n");
#define X(NAME, name, takes, argument, help) printf("  --%-10s %-5s %s\n", name, argument, help);
    OPTION_LIST(X)
#undef X
    printf("\ncollectives (all of them unless named):");
    for (int i = 0; i < HKI_BENCH_COUNT; i++)
        printf("%s%s", i % 8 == 0 ? "\n  " : " ", hki_bench_traits_of((hki_bench_kind)i)->name);
    printf("\n");
}

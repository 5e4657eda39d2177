/* The command line of hocket sim. */
#include "base/settings.h"
#include "bench/bench_cell.h"
#include "tools/sim.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HOSTS = 1 << 24, MOST_TOP = 100000, DEFAULT_TOP = 10, BYTES_DEFAULT = 1 << 20 };

/* One line an option: name, letter for getopt, what it takes, help. */
#define OPTIONS(X)                                                                                                     \
    X("bytes", 'b', "N", "size, with K, M, G; of all ranks' blocks where each has one (1M)")                           \
    X("hosts", 'H', "N", "hosts (1); of a file, its first N")                                                          \
    X("ranks-per-host", 'r', "N", "ranks on each (8); of a file, the first N of each")                                 \
    X("capacity", 'c', "N", "cores of each (as many as ranks)")                                                        \
    X("topology", 't', "FILE", "a cluster described by a file, instead of equal hosts")                                \
    X("algorithm", 'a', "A,B", "algorithms (all that can serve, but for what is too large)")                           \
    X("segments", 's', "S", "1, 2, 4 ... 64 (what fits the size)")                                                     \
    X("type", 'T', "T", "element type (float32)")                                                                      \
    X("op", 'o', "OP", "operator (sum)")                                                                               \
    X("root", 'R', "R", "root (0)")                                                                                    \
    X("figures", 'f', "F", "built-in, or textbook:A/B/G: A us a message, B and G ns a byte (built-in)")                \
    X("top", 'k', "K", "how many links and legs of the critical path are listed (10)")                                 \
    X("json", 'j', "FILE", "writes the results as JSON")                                                               \
    X("timeline", 'l', "FILE", "writes a trace for Perfetto or chrome://tracing")                                      \
    X("svg", 'g', "FILE", "draws ranks over time, and the load of links")

static const struct option long_options[] = {
#define X(name, letter, takes, help) {name, required_argument, NULL, letter},
    OPTIONS(X)
#undef X
        {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

void hki_sim_usage(FILE *out)
{
    static const struct {
        const char *name, *takes, *help;
    } rows[] = {
#define X(name, letter, takes, help) {name, takes, help},
        OPTIONS(X)
#undef X
    };
    fputs(
        "usage: hocket sim COLLECTIVE [options]\n\n"
        "Runs a collective's schedules on virtual time, on clusters of any size: tells how long each algorithm takes\n"
        "there, what it waits for, and which links are loaded. No rank is started.\n\n",
        out);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char left[40];
        snprintf(left, sizeof left, "--%s %s", rows[i].name, rows[i].takes);
        fprintf(out, "  %-20s  %s\n", left, rows[i].help);
    }
}

static bool wrong(const char *option, const char *text, const char *wanted)
{
    fprintf(stderr, "hocket sim: --%s takes %s, not \"%s\"\n", option, wanted, text);
    return false;
}

static bool read_number(const char *option, uint32_t least, uint32_t most, uint32_t *number)
{
    char *end, wanted[64];
    errno = 0;
    unsigned long long value = strtoull(optarg, &end, 10);
    if (optarg[0] >= '0' && optarg[0] <= '9' && !*end && errno == 0 && value >= least && value <= most) {
        *number = (uint32_t)value;
        return true;
    }
    snprintf(wanted, sizeof wanted, "a number from %u to %u", least, most);
    return wrong(option, optarg, wanted);
}

/* One of the three numbers of textbook:A/B/G; moves behind it. */
static bool read_figure(const char **text, char behind, double *value)
{
    char *end;
    *value = strtod(*text, &end);
    bool good = end != *text && *end == behind && isfinite(*value) && *value >= 0 && *value <= 1e9;
    *text = end + (*end != '\0');
    return good;
}

/* Bytes a second that no network is in the way of. */
static const uint64_t plenty = UINT64_C(500000000000000);

/* Every link alike, nothing shared, and time only for what the textbook counts. */
static void textbook(double alpha_us, double beta_ns, double gamma_ns, hki_figures *figures)
{
    uint64_t alpha = (uint64_t)llround(alpha_us * 1e6), gamma = (uint64_t)llround(gamma_ns * 1024e3);
    *figures = (hki_figures){.nic_rate = plenty, .reduce_origin = HKI_GIVEN, .host_origin = HKI_GIVEN};
    for (int link = 0; link < HKI_LINK_CLASSES; link++)
        figures->link[link] = (hki_link_figures){.range = {{.upto = UINT64_MAX,
                                                            .alpha_ps = alpha,
                                                            .beta_ps = (uint64_t)llround(beta_ns * 1024e3),
                                                            .overhead_ps = alpha}},
                                                 .ranges = 1,
                                                 .origin = HKI_GIVEN};
    for (int type = 0; type < HK_TYPE_COUNT; type++)
        for (int operators = 0; operators < HKI_OP_CLASSES; operators++)
            figures->gamma_ps[type][operators] = gamma;
}

static bool read_figures(hki_sim_request *request)
{
    static const char prefix[] = "textbook:";
    double alpha, beta, gamma;
    request->figures_name = optarg;
    if (strcmp(optarg, "built-in") == 0) {
        request->figures = hki_figures_built_in;
        return true;
    }
    const char *text = optarg + sizeof prefix - 1;
    if (strncmp(optarg, prefix, sizeof prefix - 1) != 0 || !read_figure(&text, '/', &alpha) ||
        !read_figure(&text, '/', &beta) || !read_figure(&text, '\0', &gamma))
        return wrong("figures", optarg, "built-in, or textbook:A/B/G like textbook:2/0.1/0.05");
    textbook(alpha, beta, gamma, &request->figures);
    return true;
}

static bool read_type(hki_sim_request *request)
{
    int type = hki_bench_type_find(optarg);
    if (type < 0)
        return wrong("type", optarg, "an element type like float32");
    request->type = (hk_type)type;
    return true;
}

static bool read_op(hki_sim_request *request)
{
    int op = hki_bench_op_find(optarg);
    if (op < 0)
        return wrong("op", optarg, "an operator like sum");
    request->op = (hk_op)op;
    return true;
}

static bool read_segments(hki_sim_request *request)
{
    uint32_t *segments = &request->segments;
    return read_number("segments", 1, 64, segments) &&
           ((*segments & (*segments - 1)) == 0 || wrong("segments", optarg, "a power of two up to 64"));
}

static bool take_option(hki_sim_request *request, int letter)
{
    switch (letter) {
    case 'b':
        return hki_parse_bytes(optarg, &request->bytes) || wrong("bytes", optarg, "a size like 64K or 1G");
    case 'H':
        return read_number("hosts", 1, MOST_HOSTS, &request->hosts);
    case 'r':
        return read_number("ranks-per-host", 1, MOST_HOSTS, &request->per_host);
    case 'c':
        return read_number("capacity", 1, HKI_TOPOLOGY_PUS_MAX, &request->capacity);
    case 'R':
        return read_number("root", 0, MOST_HOSTS, &request->root);
    case 'k':
        return read_number("top", 0, MOST_TOP, &request->top);
    case 's':
        return read_segments(request);
    case 'T':
        return read_type(request);
    case 'o':
        return read_op(request);
    case 'f':
        return read_figures(request);
    case 'a':
        request->algorithms = optarg;
        return true;
    case 't':
        request->topology = optarg;
        return true;
    case 'j':
        request->json = optarg;
        return true;
    case 'l':
        request->timeline = optarg;
        return true;
    case 'g':
        request->svg = optarg;
        return true;
    default:
        return false;
    }
}

static bool take_collective(int argc, char **argv, hki_sim_request *request)
{
    if (optind == argc) {
        fprintf(stderr, "hocket sim: which collective? For example: hocket sim allreduce --bytes 64M --hosts 512\n");
        return false;
    }
    if (optind + 1 < argc) {
        fprintf(stderr, "hocket sim: one collective at a time, but \"%s\" follows\n", argv[optind + 1]);
        return false;
    }
    int collective = hki_collective_find(argv[optind]);
    if (collective < 0) {
        fprintf(stderr, "hocket sim: there is no collective \"%s\"; see hocket info --algorithms\n", argv[optind]);
        return false;
    }
    request->collective = (hki_collective)collective;
    return true;
}

bool hki_sim_command_line(int argc, char **argv, hki_sim_request *request, bool *help)
{
    *request = (hki_sim_request){.top = DEFAULT_TOP,
                                 .bytes = BYTES_DEFAULT,
                                 .type = HK_FLOAT32,
                                 .op = HK_SUM,
                                 .figures = hki_figures_built_in,
                                 .figures_name = "built-in"};
    *help = false;
    optind = 0; /* also forgets what the program's own arguments left */
    for (int letter; (letter = getopt_long(argc, argv, "h", long_options, NULL)) != -1;) {
        if (letter == 'h') {
            *help = true;
            return true;
        }
        if (!take_option(request, letter))
            return false;
    }
    if (request->topology && request->capacity) {
        fprintf(stderr, "hocket sim: the file of --topology says what cores there are; --capacity would be ignored\n");
        return false;
    }
    return take_collective(argc, argv, request);
}

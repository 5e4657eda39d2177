/* The command line of hocket sim. */
#include "tools/options.h"
#include "tools/sim.h"

#include <getopt.h>

/* Of one host, since flows through its memory are settled together. */
enum { MOST_HOSTS = 1 << 20, MOST_OF_HOST = 1 << 14, MOST_TOP = 100000, DEFAULT_TOP = 10, BYTES_DEFAULT = 1 << 20 };

/* One line an option: name, letter for getopt, what it takes, help. */
#define OPTIONS(X)                                                                                                     \
    X("bytes", 'b', "N", "size, with K, M, G; of all ranks' blocks where each has one (1M)")                           \
    X("hosts", 'H', "N", "hosts (1), at most 1048576 ranks in all; of a file, its first N")                            \
    X("ranks-per-host", 'r', "N", "ranks on each (8), at most 16384; of a file, the first N of each")                  \
    X("capacity", 'c', "N", "cores of each (as many as ranks)")                                                        \
    X("topology", 't', "FILE", "a cluster described by a file, instead of equal hosts")                                \
    X("algorithm", 'a', "A,B", "algorithms (all that can serve, but for what is too large)")                           \
    X("segments", 's', "S", "1, 2, 4 ... 64 (what fits the size)")                                                     \
    X("type", 'T', "T", "element type (float32)")                                                                      \
    X("op", 'o', "OP", "operator (sum)")                                                                               \
    X("root", 'R', "R", "root (0)")                                                                                    \
    X("figures", 'f', "F",                                                                                             \
      "built-in, a file of hocket tune, or textbook:A/B/G: A us a message, B and G ns a byte; else "                   \
      "built-in")                                                                                                      \
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

static bool read_segments(const hki_option *option, uint32_t *segments)
{
    return hki_option_number(option, 1, 64, segments) &&
           ((*segments & (*segments - 1)) == 0 || hki_option_wrong(option, "a power of two up to 64"));
}

static const char *option_name(int letter)
{
    for (const struct option *option = long_options; option->name; option++)
        if (option->val == letter)
            return option->name;
    return "";
}

static bool take_option(hki_sim_request *request, int letter)
{
    const hki_option option = {"hocket sim", option_name(letter), optarg};
    switch (letter) {
    case 'b':
        return hki_option_bytes(&option, &request->bytes);
    case 'H':
        return hki_option_number(&option, 1, MOST_HOSTS, &request->hosts);
    case 'r':
        return hki_option_number(&option, 1, MOST_OF_HOST, &request->per_host);
    case 'c':
        return hki_option_number(&option, 1, HKI_TOPOLOGY_PUS_MAX, &request->capacity);
    case 'R':
        return hki_option_number(&option, 0, MOST_HOSTS, &request->root);
    case 'k':
        return hki_option_number(&option, 0, MOST_TOP, &request->top);
    case 's':
        return read_segments(&option, &request->segments);
    case 'T':
        return hki_option_type(&option, &request->type);
    case 'o':
        return hki_option_op(&option, &request->op);
    case 'f':
        request->figures_name = optarg;
        return hki_option_figures(&option, &request->figures);
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
    return hki_option_collective("hocket sim", argc, argv, &request->collective) &&
           hki_option_reduction("hocket sim", request->collective, request->type, request->op);
}

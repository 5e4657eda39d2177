/* The command line of hocket explain. */
#include "cost/tuning.h"
#include "tools/explain.h"
#include "tools/options.h"

#include <getopt.h>
#include <string.h>

enum { MOST_RANKS = HKI_EXPLAIN_RANKS, BYTES_DEFAULT = 1 << 20 };

/* One line an option: name, letter for getopt, what it takes ("" nothing), help. */
#define OPTIONS(X)                                                                                                     \
    X("ranks", 'n', "N", "ranks, at most 65536 (2; of a file, as many as it has)")                                     \
    X("bytes", 'b', "N", "size, with K, M, G; of all ranks' blocks where each has one (1M)")                           \
    X("hosts", 'H', "N", "so many equal hosts, over tcp or --transport verbs, instead of this one")                    \
    X("topology", 't', "FILE", "a cluster described by a file")                                                        \
    X("capacity", 'c', "N",                                                                                            \
      "ranks that run at once on a host, at most 8192 (as many as it has; of this one: its cores)")                    \
    X("transport", 'x', "T", "shm or tcp alone, within this host; verbs, with what a device of this host reports")     \
    X("type", 'T', "T", "element type (float32)")                                                                      \
    X("op", 'o', "OP", "operator (sum)")                                                                               \
    X("root", 'R', "R", "root (0)")                                                                                    \
    X("figures", 'f', "F",                                                                                             \
      "built-in, a file of hocket tune, or textbook:A/B/G: A us a message, B and G ns a byte; else "                   \
      "what a job here would use")                                                                                     \
    X("schedule", 's', "", "prints the steps of a rank as well")                                                       \
    X("rank", 'r', "R", "whose steps (0)")                                                                             \
    X("plot", 'p', "FILE", "draws all candidates over sizes (SVG, by gnuplot)")                                        \
    X("json", 'j', "FILE", "writes all that as JSON; - is standard output")

static const struct option long_options[] = {
#define X(name, letter, takes, help) {name, sizeof(takes) > 1 ? required_argument : no_argument, NULL, letter},
    OPTIONS(X)
#undef X
        {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

void hki_explain_usage(FILE *out)
{
    static const struct {
        const char *name, *takes, *help;
    } rows[] = {
#define X(name, letter, takes, help) {name, takes, help},
        OPTIONS(X)
#undef X
    };
    fputs(
        "usage: hocket explain COLLECTIVE [options]\n\n"
        "Says which algorithm is chosen, why, and what the others would take, by the cost model. No rank is started.\n"
        "Without --hosts and --topology it is about ranks on this host, as `hocket run` would bind them.\n\n",
        out);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char left[40];
        snprintf(left, sizeof left, "--%s %s", rows[i].name, rows[i].takes);
        fprintf(out, "  %-18s  %s\n", left, rows[i].help);
    }
}

static const char *option_name(int letter)
{
    for (const struct option *option = long_options; option->name; option++)
        if (option->val == letter)
            return option->name;
    return "";
}

static bool take_valued(hki_explain_request *request, const hki_option *option, int letter)
{
    switch (letter) {
    case 'n':
        return hki_option_number(option, 1, MOST_RANKS, &request->ranks);
    case 'b':
        return hki_option_bytes(option, &request->bytes);
    case 'H':
        return hki_option_number(option, 1, MOST_RANKS, &request->hosts);
    case 'c':
        return hki_option_number(option, 1, HKI_TOPOLOGY_PUS_MAX, &request->capacity);
    case 'R':
        return hki_option_number(option, 0, MOST_RANKS, &request->root);
    case 'r':
        return hki_option_number(option, 0, MOST_RANKS, &request->rank);
    case 'T':
        return hki_option_type(option, &request->type);
    case 'o':
        return hki_option_op(option, &request->op);
    case 'f':
        return hki_option_figures(option, &request->figures);
    default:
        return false; /* getopt_long has said what is wrong */
    }
}

static bool take_option(hki_explain_request *request, int letter)
{
    const hki_option option = {"hocket explain", option_name(letter), optarg};
    switch (letter) {
    case 't':
        request->topology = optarg;
        return true;
    case 'x':
        request->transport = optarg;
        return strcmp(optarg, "shm") == 0 || strcmp(optarg, "tcp") == 0 || strcmp(optarg, "verbs") == 0 ||
               hki_option_wrong(&option, "shm, tcp or verbs");
    case 's':
        return request->schedule = true;
    case 'p':
        request->plot = optarg;
        return true;
    case 'j':
        request->json = optarg;
        return true;
    default:
        return take_valued(request, &option, letter);
    }
}

static bool complain(const char *text)
{
    fprintf(stderr, "hocket explain: %s\n", text);
    return false;
}

/* What only shows in the combination of options. */
static bool consistent(const hki_explain_request *request)
{
    if (request->topology && (request->hosts || request->capacity))
        return complain("--topology says what hosts there are; --hosts and --capacity would be ignored");
    if (request->rank && !request->schedule)
        return complain("--rank says whose steps --schedule prints; without that it would be ignored");
    bool between = request->transport && strcmp(request->transport, "verbs") == 0;
    if (request->transport && (request->topology || (request->hosts && !between)))
        return complain("--transport is for ranks on this host, or verbs between --hosts; else it would be ignored");
    if (request->hosts > 1 && request->ranks % request->hosts != 0)
        return complain("--ranks is no multiple of --hosts; --topology can describe hosts that differ");
    return true;
}

bool hki_explain_command_line(int argc, char **argv, hki_explain_request *request, bool *help)
{
    *request = (hki_explain_request){.bytes = BYTES_DEFAULT, .type = HK_FLOAT32, .op = HK_SUM};
    *help = false;
    bool figures_given = false;
    optind = 0; /* also forgets what the program's own arguments left */
    for (int letter; (letter = getopt_long(argc, argv, "n:h", long_options, NULL)) != -1;) {
        if (letter == 'h') {
            *help = true;
            return true;
        }
        if (!take_option(request, letter))
            return false;
        figures_given = figures_given || letter == 'f';
    }
    if (!request->topology && !request->ranks)
        request->ranks = request->hosts > 2 ? request->hosts : 2;
    if (!figures_given && hki_tuning_find(&request->figures) != HK_OK)
        return complain(hk_last_error());
    return consistent(request) && hki_option_collective("hocket explain", argc, argv, &request->collective) &&
           hki_option_reduction("hocket explain", request->collective, request->type, request->op);
}

/* The hocket program: finds the subcommand. */
#include "base/words.h"
#include "tools/tools.h"

#include <hocket/hocket.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct subcommand {
    const char *name;
    const char *title; /* argv[0] of the subcommand, for its messages */
    int (*run)(int argc, char **argv);
    const char *help;
} subcommand;

static const subcommand subcommands[] = {
    {"run", "hocket run", hki_tool_run, "start a job on this host"},
    {"bench", "hocket bench", hki_tool_bench, "measure collectives, and the machine's own limits"},
    {"verify", "hocket verify", hki_tool_verify, "prove the algorithms for any number of ranks"},
    {"tune", "hocket tune", hki_tool_tune, "measure this machine for the cost model"},
    {"explain", "hocket explain", hki_tool_explain, "which algorithm is chosen, why, and what others would take"},
    {"sim", "hocket sim", hki_tool_sim, "try collectives on clusters of any size, on virtual time"},
    {"info", "hocket info", hki_tool_info, "what this build and machine offer: kernels, settings, algorithms"},
};
enum { SUBCOMMANDS = sizeof subcommands / sizeof *subcommands, LONGEST = 32 };

static void print_usage(FILE *file)
{
    fprintf(file, "usage: hocket COMMAND [arguments]; hocket COMMAND --help tells more\n\n");
    for (size_t i = 0; i < SUBCOMMANDS; i++)
        fprintf(file, "  %-8s %s\n", subcommands[i].name, subcommands[i].help);
    fprintf(file, "\n  --help     this text\n  --version  the version\n");
}

static int unknown(const char *name)
{
    const char *nearest = NULL;
    size_t fewest = 3; /* further away is another word, not a slip */
    for (size_t i = 0; i < SUBCOMMANDS; i++) {
        size_t changes = hki_word_distance(name, strlen(name), subcommands[i].name);
        if (changes < fewest) {
            fewest = changes;
            nearest = subcommands[i].name;
        }
    }
    fprintf(stderr, "hocket: there is no command \"%s\"", name);
    if (nearest)
        fprintf(stderr, "; did you mean \"%s\"?\n", nearest);
    else
        fprintf(stderr, "; see hocket --help\n");
    return 2;
}

/* A result that nobody can read is none: a full disk is an error of every command, and of --help. */
static int written(const char *name, int result)
{
    if (!ferror(stdout) && fflush(stdout) == 0)
        return result;
    if (result == 0)
        fprintf(stderr, "%s: standard output could not be written\n", name);
    return result ? result : 1;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_usage(stdout);
        return written("hocket", 0);
    }
    if (strcmp(name, "--version") == 0) {
        printf("hocket %s\n", hk_version(NULL, NULL, NULL));
        return written("hocket", 0);
    }
    for (size_t i = 0; i < SUBCOMMANDS; i++) {
        if (strcmp(name, subcommands[i].name) == 0) {
            static char title[LONGEST];
            snprintf(title, sizeof title, "%s", subcommands[i].title);
            argv[1] = title;
            return written(title, subcommands[i].run(argc - 1, argv + 1));
        }
    }
    return unknown(name);
}

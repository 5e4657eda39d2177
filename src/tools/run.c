/* `hocket run`: the command line. What then happens is described in run.h. */
#include "tools/run.h"

#include "base/error.h"
#include "tools/tools.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: hocket run -n RANKS [options] [--] PROGRAM [ARGUMENTS]\n"
    "       hocket run --hosts HOST:RANKS,HOST:RANKS [options] [--] PROGRAM [ARGUMENTS]\n"
    "\n"
    "Starts RANKS processes of PROGRAM on this host, or on each of several. A program that calls hk_init finds its "
    "rank and the others; any\n"
    "other just runs RANKS times.\n"
    "\n"
    "  -n RANKS           number of processes, 1 to 4096\n"
    "  --bind HOW         CPUs of each rank, among those that this process may use:\n"
    "                       share  an equal share of neighbouring cores, or of CPUs when there are fewer cores than\n"
    "                              ranks, or one in turn when there are fewer CPUs (default)\n"
    "                       core   exactly one: cores spread over the host before second threads of cores\n"
    "                       none   all\n"
    "  --timeout SECONDS  end the job after that time, with exit status 124\n"
    "  --grace SECONDS    time from SIGTERM to SIGKILL when ranks must end (default 0.5)\n"
    "  --tag-output       begin each line of output with its rank, as in \"[3] \"\n"
    "  --keep-going       let the others go on when a rank fails\n"
    "  --hosts LIST       hosts, and processes on each: node1:4,node2:4; user@node1:4 where the command allows it\n"
    "  --rsh COMMAND      what reaches a host, given its name and a command (HOCKET_RSH; \"ssh -o BatchMode=yes\")\n"
    "  --remote PATH      of the program hocket on the hosts, if not the same as here\n"
    "\n"
    "Output comes by whole lines; standard input goes to rank 0. The first rank that fails is named, the others are\n"
    "ended, and the exit status is its status, or 128 + its signal. Whatever the ranks started ends with the job, and "
    "all\n"
    "of it when the launcher itself is killed. With --hosts, the first host's name must mean the same on all of them,\n"
    "settings (HOCKET_*) and the working directory go along, standard input and other variables do not.\n";

/* Prints what is wrong with the command line; returns false. */
static bool wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool wrong(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "hocket run: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "; see hocket run --help\n");
    va_end(arguments);
    return false;
}

static bool take_ranks(const char *text, run_options *options)
{
    char *end;
    long ranks = strtol(text, &end, 10);
    if (end == text || *end != '\0' || ranks < 1 || ranks > RUN_RANKS_MAX)
        return wrong("-n %s: a number of ranks from 1 to %d is expected", text, (int)RUN_RANKS_MAX);
    options->ranks = (int)ranks;
    return true;
}

static bool take_seconds(const char *name, const char *text, double *seconds)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value) || value < 0 || value > 1e8)
        return wrong("--%s %s: seconds are expected, 0 or more", name, text);
    *seconds = value;
    return true;
}

static bool take_bind(const char *text, run_options *options)
{
    static const char *const names[] = {[RUN_BIND_NONE] = "none", [RUN_BIND_SHARE] = "share", [RUN_BIND_CORE] = "core"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) == 0) {
            options->bind = (run_bind)i;
            return true;
        }
    }
    return wrong("--bind %s: share, core or none is expected", text);
}

static bool take_option(int option, run_options *options, run_hosts *hosts)
{
    switch (option) {
    case 'H':
        hosts->list = optarg;
        return true;
    case 'r':
        hosts->rsh = optarg;
        return true;
    case 'p':
        hosts->program = optarg;
        return true;
    case 'n':
        return take_ranks(optarg, options);
    case 'b':
        return take_bind(optarg, options);
    case 't':
        return take_seconds("timeout", optarg, &options->timeout);
    case 'g':
        return take_seconds("grace", optarg, &options->grace);
    case 'o':
        options->tag_output = true;
        return true;
    case 'k':
        options->keep_going = true;
        return true;
    default: /* getopt has said what is wrong */
        fprintf(stderr, "see hocket run --help\n");
        return false;
    }
}

/* False: wrong usage, and said so. *help: --help was asked for. */
static bool parse(int argc, char **argv, run_options *options, run_hosts *hosts, bool *help)
{
    static const struct option names[] = {{"ranks", required_argument, NULL, 'n'},
                                          {"bind", required_argument, NULL, 'b'},
                                          {"timeout", required_argument, NULL, 't'},
                                          {"grace", required_argument, NULL, 'g'},
                                          {"tag-output", no_argument, NULL, 'o'},
                                          {"keep-going", no_argument, NULL, 'k'},
                                          {"hosts", required_argument, NULL, 'H'},
                                          {"rsh", required_argument, NULL, 'r'},
                                          {"remote", required_argument, NULL, 'p'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    optind = 1;
    for (int option = getopt_long(argc, argv, "+n:h", names, NULL); option != -1;
         option = getopt_long(argc, argv, "+n:h", names, NULL)) {
        *help = option == 'h';
        if (*help)
            return true;
        if (!take_option(option, options, hosts))
            return false;
    }
    if (options->ranks == 0 && !hosts->list)
        return wrong("the number of ranks is missing (-n)");
    if (options->ranks != 0 && hosts->list)
        return wrong("-n does not go with --hosts, which says how many ranks each host gets");
    if (!hosts->list && (hosts->rsh || hosts->program))
        return wrong("--rsh and --remote go with --hosts only");
    if (optind == argc)
        return wrong("the program to run is missing");
    options->command = argv + optind;
    return true;
}

int hki_tool_run(int argc, char **argv)
{
    run_options options = {.bind = RUN_BIND_SHARE, .grace = 0.5};
    run_hosts hosts = {0};
    bool help = false;
    if (argc == 2 && strcmp(argv[1], "--agent") == 0)
        return run_agent();
    if (!parse(argc, argv, &options, &hosts, &help))
        return 2;
    if (help)
        return fputs(usage, stdout) < 0;
    return hosts.list ? run_over_hosts(&options, &hosts) : run_guarded(&options, run_job);
}

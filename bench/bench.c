/*
 * `hocket bench`. Without a launcher it becomes `hocket run -n N -- hocket bench …`, so that starting ranks is written
 * once; under a launcher, `hocket run` or another, it is one of the ranks.
 */
#include "bench/bench.h"

#include "algo/algo.h"
#include "bench/bench_choosing.h"
#include "bench/bench_inspect.h"
#include "bench/bench_kernels.h"
#include "bench/bench_launch.h"
#include "bench/bench_run.h"
#include "tools/tools.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_RANKS = 2 };

/* Replaces this process by `hocket run`, which starts the same command N times. Returns only after a failure. */
static int relaunch(int argc, char **argv, const hki_bench_options *options)
{
    char self[4096], ranks[16];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) {
        fprintf(stderr, "hocket bench: /proc/self/exe: %s\n", strerror(errno));
        return 1;
    }
    self[length] = '\0';
    snprintf(ranks, sizeof ranks, "%d", options->ranks > 0 ? options->ranks : DEFAULT_RANKS);

    const char **command = calloc((size_t)argc + 12, sizeof *command);
    if (command == NULL) {
        fprintf(stderr, "hocket bench: out of memory\n");
        return 1;
    }
    size_t n = 0;
    command[n++] = self;
    command[n++] = "run";
    command[n++] = "-n";
    command[n++] = ranks;
    if (options->bind != NULL) {
        command[n++] = "--bind";
        command[n++] = options->bind;
    }
    command[n++] = "--";
    command[n++] = self;
    command[n++] = "bench";
    for (int i = 1; i < argc; i++)
        command[n++] = argv[i];
    /* The ranks' own streams are pipes of the launcher: only here it shows whether someone is watching. A terminal that
     * gets the table needs no other sign of progress. */
    if (isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO))
        command[n++] = "--progress";
    execv(self, (char *const *)(uintptr_t)command);
    fprintf(stderr, "hocket bench: %s: %s\n", self, strerror(errno));
    free(command);
    return 1;
}

/* Of "allreduce:ring,broadcast:chain" each part must be for a collective that is measured: one that is not would be
 * ignored. Whether there are such collectives and algorithms is checked by the library. */
static bool algorithms_wanted(const hki_bench_options *options)
{
    const char *text = options->algorithm;
    while (*text) {
        size_t length = strcspn(text, ":,");
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        bool wanted = !options->named || hki_collective_find(word) < 0;
        for (int i = 0; i < HKI_BENCH_COUNT; i++) {
            const char *name = hki_bench_traits_of((hki_bench_kind)i)->name;
            wanted = wanted || (options->wanted[i] && strlen(name) == length && strncmp(name, text, length) == 0);
        }
        if (!wanted) {
            fprintf(stderr, "hocket bench: --algorithm %s: %.*s is not measured here\n", options->algorithm,
                    (int)length, text);
            return false;
        }
        text += strcspn(text, ",");
        text += *text == ',';
    }
    return true;
}

/* A name alone is meant for every collective that was named, so all of them must have such an algorithm. */
static bool algorithm_exists(const hki_bench_options *options)
{
    char known[1024];
    if (options->algorithm == NULL)
        return true;
    if (strchr(options->algorithm, ':') != NULL)
        return algorithms_wanted(options);
    for (int i = 0; i < HKI_BENCH_COUNT; i++) {
        hki_bench_kind kind = (hki_bench_kind)i;
        if (options->wanted[i] && !hki_bench_algorithm_known(kind, options->algorithm, known, sizeof known)) {
            fprintf(stderr, "hocket bench: --algorithm: %s has no \"%s\", but %s\n", hki_bench_traits_of(kind)->name,
                    options->algorithm, known);
            return false;
        }
    }
    return true;
}

/* "ring" for the named collectives becomes "allreduce:ring,broadcast:ring", as the setting wants it. */
static bool force_algorithm(const hki_bench_options *options)
{
    char value[2048] = "";
    size_t used = 0;
    if (strchr(options->algorithm, ':') != NULL) {
        used = (size_t)snprintf(value, sizeof value, "%s", options->algorithm);
    } else {
        for (int i = 0; i < HKI_BENCH_COUNT && used < sizeof value; i++)
            if (options->wanted[i])
                used += (size_t)snprintf(value + used, sizeof value - used, "%s%s:%s", used > 0 ? "," : "",
                                         hki_bench_traits_of((hki_bench_kind)i)->name, options->algorithm);
    }
    if (used >= sizeof value) {
        fprintf(stderr, "hocket bench: --algorithm is too long\n");
        return false;
    }
    return setenv("HOCKET_ALGORITHM", value, 1) == 0;
}

/* The library takes such wishes from its settings, which it reads once: so this comes before it is first called. */
static bool apply_settings(const hki_bench_options *options)
{
    if (options->algorithm != NULL && !force_algorithm(options))
        return false;
    return options->transport == NULL || setenv("HOCKET_TRANSPORT", options->transport, 1) == 0;
}

int hki_tool_bench(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "limits") == 0)
        return hki_bench_limits(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "kernels") == 0)
        return hki_bench_kernels(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "choosing") == 0)
        return hki_bench_choosing(argc - 1, argv + 1);
    hki_bench_options options;
    if (!hki_bench_options_parse(argc, argv, &options))
        return 2;
    if (options.help || options.list) {
        (options.help ? hki_bench_options_help : hki_bench_options_list)();
        return 0;
    }
    if (!algorithm_exists(&options))
        return 2;
    if (!hki_bench_under_launcher() && options.ranks != 1)
        return relaunch(argc, argv, &options);
    if (!apply_settings(&options))
        return 2;
    hk_comm *comm;
    if (hk_init(&comm) != HK_OK) {
        fprintf(stderr, "hocket bench: %s\n", hk_last_error());
        return 1;
    }
    int status = hki_bench_run(comm, &options);
    if (hk_comm_free(comm) != HK_OK && status == 0) {
        fprintf(stderr, "hocket bench: %s\n", hk_last_error());
        status = 1;
    }
    return status;
}

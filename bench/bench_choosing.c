/*
 * The time of choosing, which a program pays when a size of a class first occurs. Of the process' own CPU time, so that
 * other programs are not in it, and the least of a few, since they take its caches all the same. *First*: nothing is
 * known yet of the collective, so that schedules are traced, too. *Next*: sizes that come after others of the same
 * collective, whose traces are kept.
 */
#include "bench/bench_choosing.h"

#include "base/settings.h"
#include "cost/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZES = 14, STEP_BITS = 2, REPEATS = 5 }; /* 8 B, 32 B … 512 MiB */

typedef struct choosing {
    uint32_t hosts, ranks; /* per host; 0: the usual clusters */
    int only;              /* collective; -1: all */
    hki_cluster *cluster;
} choosing;

static double cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static uint64_t size_of(int index)
{
    return UINT64_C(8) << (STEP_BITS * index);
}

/* What was chosen for a size, and in how many µs; below 0: it failed, which was said. */
typedef struct outcome {
    const hki_algorithm *algorithm;
    uint32_t segments;
    double us;
} outcome;

static outcome choose(const choosing *c, hki_chooser *chooser, hki_collective collective, uint64_t bytes)
{
    const hki_call call = {.collective = collective,
                           .ranks = c->cluster->rank_count,
                           .segments = 1,
                           .commutative = true,
                           .levels = c->cluster->levels};
    outcome of = {0};
    double begin = cpu_us();
    hk_status status = hki_select(chooser, &call, HK_FLOAT32, HKI_OPS_ADD, bytes, &of.algorithm, &of.segments);
    of.us = cpu_us() - begin;
    if (status != HK_OK) {
        fprintf(stderr, "hocket bench choosing: %s\n", hk_last_error());
        of.us = -1;
    }
    return of;
}

static void print(const choosing *c, uint64_t bytes, const outcome *of)
{
    if (c->only >= 0)
        printf("%12llu  %-20s %4u segments  %10.1f us\n", (unsigned long long)bytes, of->algorithm->name, of->segments,
               of->us);
}

static bool choose_first(const choosing *c, hki_collective collective, double us[SIZES])
{
    for (int i = 0; i < SIZES; i++) {
        outcome least = {.us = -1};
        for (int again = 0; again < REPEATS; again++) {
            hki_chooser *chooser;
            if (hki_chooser_new(c->cluster, &hki_figures_built_in, &chooser) != HK_OK)
                return false;
            outcome one = choose(c, chooser, collective, size_of(i));
            hki_chooser_free(chooser);
            if (one.us < 0)
                return false;
            if (again == 0 || one.us < least.us)
                least = one;
        }
        us[i] = least.us;
        print(c, size_of(i), &least);
    }
    return true;
}

/* The largest comes before, so that what all sizes need is known; each is one class off the size that came first. */
static bool choose_next(const choosing *c, hki_collective collective, double us[SIZES])
{
    for (int again = 0; again < REPEATS; again++) {
        hki_chooser *chooser;
        if (hki_chooser_new(c->cluster, &hki_figures_built_in, &chooser) != HK_OK)
            return false;
        bool done = true;
        for (int i = 0; i < 2 * SIZES && done; i++) {
            uint64_t bytes = size_of(i % SIZES);
            double *least = &us[i % SIZES];
            outcome one = choose(c, chooser, collective, i < SIZES ? bytes : bytes + bytes / 4);
            done = one.us >= 0;
            if (i >= SIZES && (again == 0 || one.us < *least))
                *least = one.us;
        }
        hki_chooser_free(chooser);
        if (!done)
            return false;
    }
    return true;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool report(const choosing *c, hki_collective collective)
{
    double first[SIZES], next[SIZES];
    if (!choose_first(c, collective, first) || !choose_next(c, collective, next))
        return false;
    qsort(first, SIZES, sizeof *first, by_value);
    qsort(next, SIZES, sizeof *next, by_value);
    printf("%-16s %6u %6u  %10.1f %10.1f  %10.1f %10.1f\n", hki_collective_name(collective), c->cluster->rank_count,
           c->cluster->host_count, first[SIZES / 2], first[SIZES - 1], next[SIZES / 2], next[SIZES - 1]);
    return true;
}

static bool report_cluster(choosing *c, uint32_t hosts, uint32_t ranks)
{
    if (hki_cluster_uniform(hosts, ranks, ranks, &c->cluster) != HK_OK) {
        fprintf(stderr, "hocket bench choosing: %s\n", hk_last_error());
        return false;
    }
    bool done = true;
    printf("%-16s %6s %6s  %10s %10s  %10s %10s\n", "# us of CPU time", "ranks", "hosts", "first", "worst", "next",
           "worst");
    for (int collective = 0; collective < HKI_COLL_COUNT && done; collective++)
        if (c->only < 0 || c->only == collective)
            done = report(c, (hki_collective)collective);
    hki_cluster_free(c->cluster);
    return done;
}

static bool parse_number(const char *text, uint32_t *number)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    *number = (uint32_t)value;
    return *end == '\0' && value >= 1 && value <= 65536;
}

static bool parse_option(choosing *c, const char *option, const char *value)
{
    if (strcmp(option, "--hosts") == 0)
        return parse_number(value, &c->hosts);
    if (strcmp(option, "--ranks") == 0)
        return parse_number(value, &c->ranks);
    c->only = hki_collective_find(value);
    return strcmp(option, "--collective") == 0 && c->only >= 0;
}

static bool parse(choosing *c, int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2)
        if (i + 1 >= argc || !parse_option(c, argv[i], argv[i + 1])) {
            fprintf(stderr,
                    "hocket bench choosing: %s %s is not understood\nusage: hocket bench choosing [--hosts H] "
                    "[--ranks R (of each host)] [--collective C]\n",
                    argv[i], i + 1 < argc ? argv[i + 1] : "");
            return false;
        }
    return true;
}

int hki_bench_choosing(int argc, char **argv)
{
    static const uint32_t usual[][2] = {{1, 64}, {8, 8}, {512, 8}};
    choosing c = {.only = -1};
    if (!parse(&c, argc, argv))
        return 2;
    if (c.hosts || c.ranks)
        return report_cluster(&c, c.hosts ? c.hosts : 1, c.ranks ? c.ranks : 1) ? 0 : 1;
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        if (!report_cluster(&c, usual[i][0], usual[i][1]))
            return 1;
    return 0;
}

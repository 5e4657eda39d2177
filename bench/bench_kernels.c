/*
 * The micro-benchmark of the reduction kernels. Each figure is the best of several samples of about a millisecond,
 * since what disturbs a sample only ever slows it down. GB/s count the bytes that a kernel reads and writes (a copy:
 * two per byte; two sources: three), so that a kernel at the memory's limit shows the copy's figure.
 */
#include "bench/bench_kernels.h"

#include "base/clock.h"
#include "base/settings.h"
#include "dtype/dtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SOURCES = 16, SAMPLES = 5 };

typedef struct kernel_bench {
    const char *only_set;
    hk_type type;
    hk_op op;
    bool one_pair; /* asked for by --type or --op */
    unsigned sources;
    uint64_t max;
    char *out, *in[MOST_SOURCES];
    hki_reducer reducer;
} kernel_bench;

typedef enum kernel_form { FORM_COPY, FORM_COPY_STREAM, FORM_TWO, FORM_TWO_STREAM, FORM_MANY } kernel_form;

static void run_once(const kernel_bench *b, kernel_form form, uint64_t bytes)
{
    uint64_t count = bytes / b->reducer.element_bytes;
    switch (form) {
    case FORM_COPY:
    case FORM_COPY_STREAM:
        hki_copy_bytes(b->out, b->in[0], bytes, form == FORM_COPY_STREAM);
        break;
    case FORM_TWO:
    case FORM_TWO_STREAM:
        hki_reduce_two(&b->reducer, b->out, b->in[0], b->in[1], count, form == FORM_TWO_STREAM);
        break;
    case FORM_MANY:
        hki_reduce_many(&b->reducer, b->out, (const void *const *)b->in, b->sources, count, b->sources);
        break;
    }
}

/* Nanoseconds of one call. */
static double measure(const kernel_bench *b, kernel_form form, uint64_t bytes)
{
    double best = 1e30;
    uint64_t calls = 1 + 4000000 / (bytes + 200);
    run_once(b, form, bytes);
    for (int sample = 0; sample < SAMPLES; sample++) {
        uint64_t start = hki_now();
        for (uint64_t i = 0; i < calls; i++) {
            run_once(b, form, bytes);
            __asm__ __volatile__("" ::: "memory");
        }
        double each = (double)(hki_now() - start) / (double)calls;
        best = each < best ? each : best;
    }
    return best;
}

/* Nanoseconds of one call whose operand is the previous call's result: what a chain of small messages waits for. */
static double measure_latency(const kernel_bench *b, uint64_t bytes)
{
    double best = 1e30;
    uint64_t count = bytes / b->reducer.element_bytes, calls = 20000;
    for (int sample = 0; sample < SAMPLES; sample++) {
        uint64_t start = hki_now();
        for (uint64_t i = 0; i < calls; i++) {
            uint32_t mode = hki_fp_enter();
            hki_reduce_two(&b->reducer, b->out, b->out, b->in[0], count, false);
            hki_fp_leave(mode);
            __asm__ __volatile__("" ::: "memory");
        }
        double each = (double)(hki_now() - start) / (double)calls;
        best = each < best ? each : best;
    }
    return best;
}

static double touched(const kernel_bench *b, kernel_form form, uint64_t bytes)
{
    switch (form) {
    case FORM_COPY:
    case FORM_COPY_STREAM:
        return 2.0 * (double)bytes;
    case FORM_MANY:
        return (b->sources + 1.0) * (double)bytes;
    default:
        return 3.0 * (double)bytes;
    }
}

static double rate(const kernel_bench *b, kernel_form form, uint64_t bytes)
{
    return touched(b, form, bytes) / measure(b, form, bytes); /* bytes a nanosecond are GB/s */
}

static bool find_reducer(kernel_bench *b)
{
    if (hki_reducer_find(b->type, b->op, &b->reducer) == HK_OK)
        return true;
    fprintf(stderr, "hocket bench kernels: %s\n", hk_last_error());
    return false;
}

static void print_sizes(kernel_bench *b)
{
    printf("\n%s %s, %s kernels; GB/s read and written\n", hk_type_name(b->type), hk_op_name(b->op),
           hki_kernels_name());
    printf("%10s %9s %9s %9s %9s %9s %9s\n", "bytes", "copy", "copy nt", "two", "two nt", "many", "two ns");
    for (uint64_t bytes = 8; bytes <= b->max; bytes *= bytes < 64 ? 2 : 4) {
        printf("%10llu", (unsigned long long)bytes);
        for (kernel_form form = FORM_COPY; form <= FORM_MANY; form++)
            printf(" %9.1f", rate(b, form, bytes));
        if (bytes <= 4096)
            printf(" %9.1f", measure_latency(b, bytes));
        printf("\n");
        fflush(stdout);
    }
}

/* Every pair at 16 KiB an operand, in the first or second cache. */
static bool print_pairs(kernel_bench *b)
{
    printf("\nevery pair, %s kernels, 16 KiB an operand; GB/s read and written, two sources / %u sources\n",
           hki_kernels_name(), b->sources);
    printf("%-9s", "");
    for (hk_op op = 0; op < HK_OP_COUNT; op++)
        printf(" %9s", hk_op_name(op));
    printf("\n");
    for (b->type = 0; b->type < HK_TYPE_COUNT; b->type++) {
        printf("%-9s", hk_type_name(b->type));
        for (b->op = 0; b->op < (b->type >= HK_FLOAT16 ? (hk_op)HK_BAND : (hk_op)HK_OP_COUNT); b->op++) {
            if (!find_reducer(b))
                return false;
            printf(" %4.0f/%4.0f", rate(b, FORM_TWO, 16384), rate(b, FORM_MANY, 16384));
        }
        printf("\n");
        fflush(stdout);
    }
    return true;
}

static bool allocate(kernel_bench *b)
{
    b->out = aligned_alloc(4096, b->max + 4096);
    bool enough = b->out != NULL;
    for (unsigned s = 0; s < b->sources || s < 2; s++) {
        b->in[s] = aligned_alloc(4096, b->max + 4096);
        enough = enough && b->in[s] != NULL;
        if (b->in[s] != NULL)
            memset(b->in[s], 0, b->max + 4096);
    }
    if (!enough)
        fprintf(stderr, "hocket bench kernels: no memory for %u operands of %llu bytes\n", b->sources + 1,
                (unsigned long long)b->max);
    else
        memset(b->out, 0, b->max + 4096);
    return enough;
}

static void release(kernel_bench *b)
{
    free(b->out);
    for (unsigned s = 0; s < MOST_SOURCES; s++)
        free(b->in[s]);
}

/* The index of a name among `count` names; count if it is none of them. */
static uint32_t find_name(const char *name, const char *(*name_of)(uint32_t), uint32_t count)
{
    uint32_t i = 0;
    while (i < count && strcmp(name, name_of(i)) != 0)
        i++;
    return i;
}

static bool parse_option(kernel_bench *b, const char *option, const char *value)
{
    if (strcmp(option, "--kernels") == 0) {
        b->only_set = value;
        return hki_kernels_choose(value);
    }
    if (strcmp(option, "--type") == 0) {
        b->type = find_name(value, hk_type_name, HK_TYPE_COUNT);
        b->one_pair = true;
        return b->type < HK_TYPE_COUNT;
    }
    if (strcmp(option, "--op") == 0) {
        b->op = find_name(value, hk_op_name, HK_OP_COUNT);
        b->one_pair = true;
        return b->op < HK_OP_COUNT;
    }
    if (strcmp(option, "--sources") == 0) {
        b->sources = (unsigned)strtoul(value, NULL, 10);
        return b->sources >= 1 && b->sources <= MOST_SOURCES;
    }
    return strcmp(option, "--max") == 0 && hki_parse_bytes(value, &b->max) && b->max >= 16384 &&
           b->max <= UINT64_C(1) << 34;
}

static bool parse(kernel_bench *b, int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2)
        if (i + 1 >= argc || !parse_option(b, argv[i], argv[i + 1])) {
            fprintf(stderr,
                    "hocket bench kernels: %s %s is not understood, or not for this CPU\nusage: hocket bench kernels "
                    "[--kernels reference|avx2|avx512|neon] [--type T] [--op O] [--sources 1…%d] [--max 16K…16G]\n",
                    argv[i], i + 1 < argc ? argv[i + 1] : "", MOST_SOURCES);
            return false;
        }
    return true;
}

static bool bench_set(kernel_bench *b)
{
    if (!find_reducer(b))
        return false;
    print_sizes(b);
    if (b->one_pair)
        return true;
    bool done = print_pairs(b);
    b->type = HK_FLOAT32;
    b->op = HK_SUM;
    return done;
}

int hki_bench_kernels(int argc, char **argv)
{
    static const char *const sets[] = {"reference", "neon", "avx2", "avx512"};
    kernel_bench b = {.type = HK_FLOAT32, .op = HK_SUM, .sources = 4, .max = UINT64_C(64) << 20};
    if (!parse(&b, argc, argv))
        return 2;
    const char *before = hki_kernels_name();
    bool done = allocate(&b);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0] && done; i++)
        if ((b.only_set == NULL || strcmp(b.only_set, sets[i]) == 0) && hki_kernels_choose(sets[i]))
            done = bench_set(&b);
    release(&b);
    hki_kernels_choose(before);
    return done ? 0 : 2;
}

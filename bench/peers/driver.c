#include "bench/peers/driver.h"

#include "bench/bench_report.h"

#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPT_COLLECTIVE = 256,
    OPT_SIZES,
    OPT_TYPE,
    OPT_OP,
    OPT_ROOT,
    OPT_SECONDS,
    OPT_ITERS,
    OPT_WARMUP,
    OPT_IN_PLACE,
    OPT_UNEVEN,
    OPT_CONSTANT,
    OPT_CHECK,
    OPT_ALLOC,
    OPT_TRANSPORT
};

static const struct option long_options[] = {{"collective", required_argument, NULL, OPT_COLLECTIVE},
                                             {"sizes", required_argument, NULL, OPT_SIZES},
                                             {"type", required_argument, NULL, OPT_TYPE},
                                             {"op", required_argument, NULL, OPT_OP},
                                             {"root", required_argument, NULL, OPT_ROOT},
                                             {"seconds", required_argument, NULL, OPT_SECONDS},
                                             {"iters", required_argument, NULL, OPT_ITERS},
                                             {"warmup", required_argument, NULL, OPT_WARMUP},
                                             {"in-place", no_argument, NULL, OPT_IN_PLACE},
                                             {"uneven", no_argument, NULL, OPT_UNEVEN},
                                             {"constant", no_argument, NULL, OPT_CONSTANT},
                                             {"check", no_argument, NULL, OPT_CHECK},
                                             {"alloc", no_argument, NULL, OPT_ALLOC},
                                             {"transport", required_argument, NULL, OPT_TRANSPORT},
                                             {NULL, 0, NULL, 0}};

static bool bad(const char *what, const char *value)
{
    fprintf(stderr, "driver: %s: %s\n", what, value);
    return false;
}

static bool parse_sizes(const char *text, hki_peer_options *options)
{
    const int most = (int)(sizeof options->sizes / sizeof *options->sizes);
    const char *rest = text;
    options->size_count = 0;
    while (*rest != '\0') {
        char *end;
        unsigned long long bytes = strtoull(rest, &end, 10);
        if (end == rest || (*end != ',' && *end != '\0') || options->size_count == most)
            return bad("--sizes wants up to 64 numbers of bytes, separated by commas", text);
        options->sizes[options->size_count++] = bytes;
        rest = *end == ',' ? end + 1 : end;
    }
    return options->size_count > 0 || bad("--sizes is empty", text);
}

static bool parse_name(int found, const char *what, const char *name, int *value)
{
    if (found < 0)
        return bad(what, name);
    *value = found;
    return true;
}

static bool parse_one(int option, hki_peer_options *options)
{
    int value = 0;
    switch (option) {
    case OPT_COLLECTIVE:
        if (!parse_name(hki_bench_kind_find(optarg), "unknown collective", optarg, &value))
            return false;
        options->request.kind = (hki_bench_kind)value;
        return true;
    case OPT_TYPE:
        if (!parse_name(hki_bench_type_find(optarg), "unknown type", optarg, &value))
            return false;
        options->request.type = (hk_type)value;
        return true;
    case OPT_OP:
        if (!parse_name(hki_bench_op_find(optarg), "unknown operator", optarg, &value))
            return false;
        options->request.op = (hk_op)value;
        return true;
    case OPT_SIZES:
        return parse_sizes(optarg, options);
    case OPT_ROOT:
        options->request.root = atoi(optarg);
        return true;
    case OPT_SECONDS:
        options->effort.box = atof(optarg);
        return true;
    case OPT_ITERS:
        options->effort.iterations = atol(optarg);
        return true;
    case OPT_WARMUP:
        options->effort.warmup = atol(optarg);
        return true;
    case OPT_IN_PLACE:
        return options->request.in_place = true;
    case OPT_UNEVEN:
        return options->request.uneven = true;
    case OPT_CONSTANT:
        return options->effort.constant = true;
    case OPT_CHECK:
        return options->effort.check = true;
    case OPT_ALLOC:
        return options->mappable = true;
    case OPT_TRANSPORT:
        options->transport = optarg;
        return true;
    default:
        return false; /* getopt_long has said what is wrong */
    }
}

bool hki_peer_parse(int argc, char **argv, hki_peer_options *options)
{
    memset(options, 0, sizeof *options);
    options->request.kind = HKI_BENCH_ALLREDUCE;
    options->request.type = HK_FLOAT32;
    options->request.op = HK_SUM;
    options->effort.box = 0.1;
    options->effort.warmup = -1;
    options->sizes[0] = 8;
    options->size_count = 1;
    options->transport = "shm";
    int option;
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        if (!parse_one(option, options))
            return false;
    return optind == argc || bad("unexpected argument", argv[optind]);
}

void hki_peer_bind(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK"};
    const char *text = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && text == NULL; i++)
        text = getenv(names[i]);
    cpu_set_t usable, one;
    if (text == NULL || sched_getaffinity(0, sizeof usable, &usable) != 0)
        return;
    int wanted = atoi(text) % CPU_COUNT(&usable);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &usable) || wanted-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        (void)sched_setaffinity(0, sizeof one, &one);
        return;
    }
}

/* One cell: made, measured, printed. */
static int run_size(const hki_bench_library *library, const hki_peer_options *options, uint64_t bytes,
                    const hki_bench_buffers *buffers)
{
    hki_bench_request request = options->request;
    request.rank = library->rank;
    request.ranks = library->ranks;
    request.bytes = bytes;
    hki_bench_cell cell;
    hki_bench_result result;
    if (!hki_bench_cell_make(&request, &cell))
        return 1;
    int status = hki_bench_measure(library, &cell, &options->effort, buffers, &result);
    if (status == 0 && library->rank == 0) {
        hki_bench_cell_json(stdout, library->name, options->transport, &cell, &result);
        fputc('\n', stdout);
        fflush(stdout);
    }
    hki_bench_cell_clear(&cell);
    return status != 0 || result.correct == 0 ? 1 : 0;
}

int hki_peer_run(const hki_bench_library *library, const hki_peer_options *options)
{
    if (options->request.root < 0 || options->request.root >= library->ranks) {
        fprintf(stderr, "driver: root %d is not a rank of %d\n", options->request.root, library->ranks);
        return 2;
    }
    uint64_t largest = 0;
    for (int i = 0; i < options->size_count; i++) {
        hki_bench_request request = options->request;
        request.ranks = library->ranks;
        request.bytes = options->sizes[i];
        uint64_t bytes = hki_bench_actual_bytes(&request);
        largest = bytes > largest ? bytes : largest;
    }
    hki_bench_buffers buffers;
    if (!hki_bench_buffers_make(library, (size_t)largest, (size_t)largest, &buffers)) {
        fprintf(stderr, "driver: no memory for two buffers of %llu bytes\n", (unsigned long long)largest);
        return 1;
    }
    int status = 0;
    for (int i = 0; i < options->size_count && status == 0; i++)
        status = run_size(library, options, options->sizes[i], &buffers);
    hki_bench_buffers_free(library, &buffers);
    return status;
}

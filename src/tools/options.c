/* Values of options that several subcommands take. */
#include "tools/options.h"

#include "algo/algo.h"
#include "base/settings.h"
#include "bench/bench_cell.h"
#include "cost/price.h"
#include "cost/tuning.h"
#include "dtype/dtype.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool hki_option_wrong(const hki_option *option, const char *wanted)
{
    fprintf(stderr, "%s: --%s takes %s, not \"%s\"\n", option->command, option->name, wanted, option->text);
    return false;
}

bool hki_option_number(const hki_option *option, uint32_t least, uint32_t most, uint32_t *number)
{
    char *end, wanted[64];
    errno = 0;
    unsigned long long value = strtoull(option->text, &end, 10);
    if (option->text[0] >= '0' && option->text[0] <= '9' && !*end && errno == 0 && value >= least && value <= most) {
        *number = (uint32_t)value;
        return true;
    }
    snprintf(wanted, sizeof wanted, "a number from %u to %u", least, most);
    return hki_option_wrong(option, wanted);
}

bool hki_option_bytes(const hki_option *option, uint64_t *bytes)
{
    if (!hki_parse_bytes(option->text, bytes))
        return hki_option_wrong(option, "a size like 64K or 1G");
    return *bytes <= HKI_PRICE_BYTES_MOST || hki_option_wrong(option, "at most 1024G (1 TiB)");
}

bool hki_option_type(const hki_option *option, hk_type *type)
{
    int found = hki_bench_type_find(option->text);
    if (found < 0)
        return hki_option_wrong(option, "an element type like float32");
    *type = (hk_type)found;
    return true;
}

bool hki_option_op(const hki_option *option, hk_op *op)
{
    int found = hki_bench_op_find(option->text);
    if (found < 0)
        return hki_option_wrong(option, "an operator like sum");
    *op = (hk_op)found;
    return true;
}

/* One of the three numbers of textbook:A/B/G; moves behind it. */
static bool read_figure(const char **text, char behind, double *value)
{
    char *end;
    *value = strtod(*text, &end);
    bool good = end != *text && *end == behind && isfinite(*value) && *value >= 0 && *value <= 1e6;
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

static bool read_tuned(const hki_option *option, hki_figures *figures)
{
    hki_tuning tuning;
    if (hki_tuning_read(option->text, &tuning) != HK_OK) {
        fprintf(stderr, "%s: --%s: %s\n", option->command, option->name, hk_last_error());
        return false;
    }
    *figures = tuning.figures;
    return true;
}

bool hki_option_figures(const hki_option *option, hki_figures *figures)
{
    static const char prefix[] = "textbook:";
    double alpha, beta, gamma;
    if (strcmp(option->text, "built-in") == 0) {
        *figures = hki_figures_built_in;
        return true;
    }
    if (strncmp(option->text, prefix, sizeof prefix - 1) != 0)
        return read_tuned(option, figures);
    const char *text = option->text + sizeof prefix - 1;
    if (!read_figure(&text, '/', &alpha) || !read_figure(&text, '/', &beta) || !read_figure(&text, '\0', &gamma))
        return hki_option_wrong(option, "built-in, textbook:A/B/G like textbook:2/0.1/0.05, or a file of hocket tune");
    textbook(alpha, beta, gamma, figures);
    return true;
}

bool hki_option_reduction(const char *command, hki_collective collective, hk_type type, hk_op op)
{
    hki_reducer reducer;
    if (!hki_collective_reduces(collective) || hki_reducer_find(type, op, &reducer) == HK_OK)
        return true;
    fprintf(stderr, "%s: %s\n", command, hk_last_error());
    return false;
}

bool hki_option_collective(const char *command, int argc, char **argv, hki_collective *collective)
{
    if (optind == argc) {
        fprintf(stderr, "%s: which collective? For example: %s allreduce --bytes 64M --hosts 512\n", command, command);
        return false;
    }
    if (optind + 1 < argc) {
        fprintf(stderr, "%s: one collective at a time, but \"%s\" follows\n", command, argv[optind + 1]);
        return false;
    }
    int found = hki_collective_find(argv[optind]);
    if (found < 0) {
        fprintf(stderr, "%s: there is no collective \"%s\"; see hocket info --algorithms\n", command, argv[optind]);
        return false;
    }
    *collective = (hki_collective)found;
    return true;
}

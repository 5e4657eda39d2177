/* What hocket tune has found, for people; and points as lines. */
#include "bench/bench_cell.h"
#include "bench/bench_report.h"
#include "cost/fit.h"
#include "tools/tune.h"

#include <string.h>

/* ---- points ---- */

static const char *const series_names[HKI_TUNE_SERIES] = {[HKI_TUNE_ONE_WAY] = "one_way",
                                                          [HKI_TUNE_EXCHANGE] = "exchange",
                                                          [HKI_TUNE_STREAM] = "stream",
                                                          [HKI_TUNE_COPY] = "copy",
                                                          [HKI_TUNE_REDUCE] = "reduce",
                                                          [HKI_TUNE_TURNS] = "turns",
                                                          [HKI_TUNE_TOGETHER] = "together",
                                                          [HKI_TUNE_LIMIT] = "eager_limit",
                                                          [HKI_TUNE_COUNTS] = "counts",
                                                          [HKI_TUNE_BULK_ONE_WAY] = "bulk_one_way",
                                                          [HKI_TUNE_BULK_EXCHANGE] = "bulk_exchange",
                                                          [HKI_TUNE_COPY_FAR] = "copy_far",
                                                          [HKI_TUNE_COPY_BULK] = "copy_bulk",
                                                          [HKI_TUNE_LASTING_STREAM] = "lasting_stream",
                                                          [HKI_TUNE_LASTING_EXCHANGE] = "lasting_exchange"};

void hki_tune_point_print(FILE *out, const hki_tune_point *point)
{
    fprintf(out, "point %s %s %llu %llu %.6g %s %s %u %u\n", series_names[point->series],
            hki_link_class_name((hki_link_class)point->link), (unsigned long long)point->bytes,
            (unsigned long long)point->data, point->us, hki_bench_type_name((hk_type)point->type),
            hki_op_class_name((hki_op_class)point->operators), point->ranks, point->cpus);
}

bool hki_tune_point_read(const char *line, hki_tune_point *point)
{
    char series[32], link[32], type[32], operators[32];
    unsigned long long bytes, data;
    *point = (hki_tune_point){.series = HKI_TUNE_SERIES, .operators = HKI_OP_CLASSES};
    if (sscanf(line, "point %31s %31s %llu %llu %lf %31s %31s %u %u", series, link, &bytes, &data, &point->us, type,
               operators, &point->ranks, &point->cpus) != 9)
        return false;
    point->bytes = bytes;
    point->data = data;
    for (uint32_t i = 0; i < HKI_TUNE_SERIES; i++)
        if (strcmp(series, series_names[i]) == 0)
            point->series = i;
    for (uint32_t i = 0; i < HKI_OP_CLASSES; i++)
        if (strcmp(operators, hki_op_class_name((hki_op_class)i)) == 0)
            point->operators = i;
    int found_link = hki_link_class_find(link), found_type = hki_bench_type_find(type);
    point->link = (uint32_t)found_link;
    point->type = (uint32_t)found_type;
    return point->series < HKI_TUNE_SERIES && point->operators < HKI_OP_CLASSES && found_link >= 0 && found_type >= 0;
}

/* ---- figures ---- */

static void print_range(FILE *out, const hki_range_figures *range, const hki_fit_quality *quality)
{
    char upto[32] = "beyond";
    if (range->upto != UINT64_MAX)
        hki_bench_size_text(range->upto, upto, sizeof upto);
    fprintf(out, "  %8s %10.4g %10.4g %10.4g %6.1f %10.4g %8.1f %6u  %s\n", upto, (double)range->alpha_ps / 1e6,
            (double)range->overhead_ps / 1e6, (double)range->beta_ps / 1e6, 100 * quality->confidence,
            (double)range->core_ps / 1e6, 100 * quality->residual, quality->samples,
            range->rendezvous ? "rendezvous" : "eager");
}

static void print_bulk(FILE *out, const hki_bulk_figures *bulk)
{
    char from[32], full[32];
    if (bulk->full == 0)
        return;
    hki_bench_size_text(bulk->from, from, sizeof from);
    hki_bench_size_text(bulk->full, full, sizeof full);
    fprintf(out, "  calls with more than %s of data, and all of it from %s on: %.4g us/KiB more, core %.4g\n", from,
            full, (double)bulk->beta_ps / 1e6, (double)bulk->core_ps / 1e6);
}

/* Those that were measured; the rest is copied from them, or built in. */
static void print_links(FILE *out, const hki_tuning *tuning)
{
    for (int link = 0; link < HKI_LINK_CLASSES; link++) {
        const hki_link_figures *figures = &tuning->figures.link[link];
        if (figures->origin != HKI_TUNED || tuning->quality[link][0].samples == 0)
            continue;
        fprintf(out, "%s\n", hki_link_class_text((hki_link_class)link));
        fprintf(out, "  %8s %10s %10s %10s %6s %10s %8s %6s  protocol\n", "bytes to", "alpha us", "of it busy",
                "us/KiB", "+- %", "core/KiB", "error %", "sizes");
        for (uint32_t i = 0; i < figures->ranges; i++)
            print_range(out, &figures->range[i], &tuning->quality[link][i]);
        print_bulk(out, &figures->bulk);
    }
}

static void print_reductions(FILE *out, const hki_figures *figures)
{
    if (figures->reduce_origin != HKI_TUNED)
        return;
    fprintf(out, "gamma, us/KiB, beyond a copy (add, compare):\n");
    for (int type = 0; type < HK_TYPE_COUNT; type++)
        fprintf(out, "%s %-9s %8.4f %8.4f%s", type % 3 ? "  " : " ", hki_bench_type_name((hk_type)type),
                (double)figures->gamma_ps[type][HKI_OPS_ADD] / 1e6,
                (double)figures->gamma_ps[type][HKI_OPS_COMPARE] / 1e6,
                type % 3 == 2 || type + 1 == HK_TYPE_COUNT ? "\n" : "");
    fprintf(out, "copy %.4f us/KiB, of more than %d KiB %.4f, in bulk %.4f more\n", (double)figures->copy_ps / 1e6,
            HKI_COPY_NEAR / 1024, (double)figures->copy_far_ps / 1e6, (double)figures->copy_bulk_ps / 1e6);
}

void hki_tune_report_doubts(FILE *out, const hki_tuning *tuning)
{
    for (int link = 0; link < HKI_LINK_CLASSES; link++) {
        const hki_fit_quality *worst = &tuning->doubtful[link];
        if (worst->samples)
            fprintf(
                out,
                "hocket tune: %s: measurements contradict each other (error %.0f %%, time a byte +- %.0f %%), as on a "
                "machine that is busy: they are not used, and the %s figures stay\n",
                hki_link_class_text((hki_link_class)link), 100 * worst->residual, 100 * worst->confidence,
                hki_origin_name(tuning->figures.link[link].origin));
        if (tuning->bulk_doubtful[link])
            fprintf(
                out,
                "hocket tune: %s: much data seem to take more than %d times as long as little, which no memory does, "
                "but a machine that is busy: that is not used\n",
                hki_link_class_text((hki_link_class)link), HKI_BULK_MOST);
    }
}

void hki_tune_report(FILE *out, const hki_tuning *tuning)
{
    const hki_figures *figures = &tuning->figures;
    print_links(out, tuning);
    print_reductions(out, figures);
    if (figures->host_origin != HKI_TUNED)
        return;
    fprintf(out, "one rank giving way to another %.3g us; a call with counts %.3g us more",
            (double)figures->switch_ps / 1e6, (double)figures->counts_ps / 1e6);
    if (figures->memory_rate == 0)
        fprintf(out, "; memory that ranks share is not in the way");
    else if (figures->memory_rate != hki_figures_built_in.memory_rate)
        fprintf(out, "; memory that ranks share %.3g GB/s", (double)figures->memory_rate / 1e9);
    fputc('\n', out);
}

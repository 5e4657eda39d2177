#include "bench/bench_report.h"

#include "bench/bench_json.h"
#include "bench/bench_regret.h"

#include <math.h>

static const char *type_of(const hki_bench_cell *cell)
{
    return cell->kind == HKI_BENCH_BARRIER ? "" : hki_bench_type_name(cell->type);
}

static const char *op_of(const hki_bench_cell *cell)
{
    return hki_bench_traits_of(cell->kind)->reduces ? hki_bench_op_name(cell->op) : "";
}

static void comma(FILE *out)
{
    fputs(", ", out);
}

static void times_json(FILE *out, const hki_bench_times *time)
{
    fputs("\"time_us\": {", out);
    hki_bench_json_number(out, "min", time->min);
    comma(out);
    hki_bench_json_number(out, "p50", time->p50);
    comma(out);
    hki_bench_json_number(out, "avg", time->avg);
    comma(out);
    hki_bench_json_number(out, "p99", time->p99);
    fputc('}', out);
}

static void rivals_json(FILE *out, const hki_bench_regret *regret)
{
    comma(out);
    hki_bench_json_number(out, "regret", regret->value);
    comma(out);
    hki_bench_json_text(out, "best", regret->rivals[regret->best].algorithm);
    fputs(", \"candidates\": [", out);
    for (int i = 0; i < regret->count; i++) {
        const hki_bench_rival *rival = &regret->rivals[i];
        fputs(i > 0 ? ", {" : "{", out);
        hki_bench_json_text(out, "algorithm", rival->algorithm);
        comma(out);
        hki_bench_json_integer(out, "segments", rival->segments);
        comma(out);
        hki_bench_json_number(out, "predicted_us", rival->predicted_us > 0 ? rival->predicted_us : NAN);
        comma(out);
        hki_bench_json_number(out, "odd_us", rival->odd_us);
        comma(out);
        hki_bench_json_number(out, "even_us", rival->even_us);
        comma(out);
        hki_bench_json_number(out, "low_us", rival->low_us);
        comma(out);
        hki_bench_json_number(out, "high_us", rival->high_us);
        fputc('}', out);
    }
    fputc(']', out);
}

void hki_bench_cell_json(FILE *out, const char *library, const char *transport, const hki_bench_cell *cell,
                         const hki_bench_result *result)
{
    const struct {
        const char *name, *value;
    } texts[] = {{"library", library},     {"collective", hki_bench_traits_of(cell->kind)->name},
                 {"transport", transport}, {"type", type_of(cell)},
                 {"op", op_of(cell)},      {"algorithm", result->algorithm},
                 {"why", result->why}};
    const struct {
        const char *name;
        int64_t value;
    } integers[] = {{"ranks", cell->ranks},          {"root", cell->root},     {"bytes", (int64_t)cell->bytes},
                    {"count", (int64_t)cell->count}, {"batch", result->batch}, {"samples", result->samples}};

    fputc('{', out);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        hki_bench_json_text(out, texts[i].name, texts[i].value);
        comma(out);
    }
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        hki_bench_json_integer(out, integers[i].name, integers[i].value);
        comma(out);
    }
    hki_bench_json_truth(out, "in_place", cell->in_place);
    comma(out);
    times_json(out, &result->time);
    comma(out);
    hki_bench_json_number(out, "algbw", hki_bench_algorithm_bandwidth(cell, result->time.p50));
    comma(out);
    hki_bench_json_number(out, "busbw", hki_bench_bus_bandwidth(cell, result->time.p50));
    comma(out);
    hki_bench_json_truth(out, "correct", result->correct);
    comma(out);
    hki_bench_json_number(out, "predicted_us", result->predicted_us > 0 ? result->predicted_us : NAN);
    if (result->regret != NULL) {
        comma(out);
        hki_bench_json_number(out, "simulated_us", result->simulated_us > 0 ? result->simulated_us : NAN);
        comma(out);
        hki_bench_json_number(out, "state", result->state > 0 ? result->state : NAN);
        rivals_json(out, result->regret);
    }
    fputc('}', out);
}

void hki_bench_csv_heading(FILE *out, bool regret)
{
    fputs("library,collective,transport,ranks,bytes,count,type,op,algorithm,min_us,p50_us,avg_us,p99_us,"
          "algbw_gbs,busbw_gbs,correct",
          out);
    fputs(regret ? ",predicted_us,simulated_us,state,best,best_us,regret\n" : "\n", out);
}

/* What is not known is left empty. */
static void put_known(FILE *out, double value)
{
    fputc(',', out);
    if (value > 0)
        fprintf(out, "%.6g", value);
}

static void regret_csv(FILE *out, const hki_bench_result *result)
{
    const hki_bench_regret *regret = result->regret;
    const hki_bench_rival *best = &regret->rivals[regret->best];
    put_known(out, result->predicted_us);
    put_known(out, result->simulated_us);
    put_known(out, result->state);
    fprintf(out, ",%s,%.6g,%.6g", best->algorithm, best->even_us, regret->value);
}

void hki_bench_cell_csv(FILE *out, const char *library, const char *transport, const hki_bench_cell *cell,
                        const hki_bench_result *result)
{
    const hki_bench_times *time = &result->time;
    fprintf(out, "%s,%s,%s,%d,%llu,%llu,%s,%s,%s,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%s", library,
            hki_bench_traits_of(cell->kind)->name, transport, cell->ranks, (unsigned long long)cell->bytes,
            (unsigned long long)cell->count, type_of(cell), op_of(cell), result->algorithm, time->min, time->p50,
            time->avg, time->p99, hki_bench_algorithm_bandwidth(cell, time->p50),
            hki_bench_bus_bandwidth(cell, time->p50),
            result->correct == 1   ? "yes"
            : result->correct == 0 ? "no"
                                   : "");
    if (result->regret != NULL)
        regret_csv(out, result);
    fputc('\n', out);
}

void hki_bench_size_text(uint64_t bytes, char *text, size_t room)
{
    static const char suffixes[] = {'\0', 'K', 'M', 'G', 'T'};
    size_t i = 0;
    while (bytes > 0 && bytes % 1024 == 0 && i + 1 < sizeof suffixes) {
        bytes /= 1024;
        i++;
    }
    snprintf(text, room, i == 0 ? "%llu" : "%llu%c", (unsigned long long)bytes, suffixes[i]);
}

void hki_bench_table_heading(FILE *out)
{
    fprintf(out, "%-16s %12s %12s  %-24s %10s %10s %10s %10s  %8s %8s  %s\n", "collective", "bytes", "count",
            "algorithm", "min us", "p50 us", "avg us", "p99 us", "algbw", "busbw", "correct");
}

/* Four significant digits, without an exponent. */
static const char *figure(double value, char *text, size_t room)
{
    int digits = value >= 1000.0 ? 0 : value >= 100.0 ? 1 : value >= 10.0 ? 2 : 3;
    snprintf(text, room, "%.*f", digits, value);
    return text;
}

void hki_bench_cell_row(FILE *out, const hki_bench_cell *cell, const hki_bench_result *result)
{
    char text[6][32];
    const hki_bench_times *time = &result->time;
    const char *correct = result->correct == 1 ? "yes" : result->correct == 0 ? "NO" : "-";
    fprintf(out, "%-16s %12llu %12llu  %-24s %10s %10s %10s %10s  %8s %8s  %s\n", hki_bench_traits_of(cell->kind)->name,
            (unsigned long long)cell->bytes, (unsigned long long)cell->count,
            result->algorithm[0] != '\0' ? result->algorithm : "-", figure(time->min, text[0], sizeof text[0]),
            figure(time->p50, text[1], sizeof text[1]), figure(time->avg, text[2], sizeof text[2]),
            figure(time->p99, text[3], sizeof text[3]),
            figure(hki_bench_algorithm_bandwidth(cell, time->p50), text[4], sizeof text[4]),
            figure(hki_bench_bus_bandwidth(cell, time->p50), text[5], sizeof text[5]), correct);
}

void hki_bench_regret_heading(FILE *out)
{
    fprintf(out, "%-16s %12s  %-24s %10s %10s %9s %10s  %-24s %10s %8s\n", "collective", "bytes", "chosen", "p50 us",
            "predicted", "/measured", "simulated", "best", "p50 us", "regret %");
}

static void name_text(const hki_bench_rival *rival, char *text, size_t room)
{
    if (rival->segments > 1)
        snprintf(text, room, "%s/%u", rival->algorithm, rival->segments);
    else
        snprintf(text, room, "%s", rival->algorithm);
}

void hki_bench_regret_row(FILE *out, const hki_bench_cell *cell, const hki_bench_result *result)
{
    char text[4][32], chosen[80], name[80];
    const hki_bench_regret *regret = result->regret;
    const hki_bench_rival *best = &regret->rivals[regret->best];
    name_text(&regret->rivals[0], chosen, sizeof chosen);
    name_text(best, name, sizeof name);
    fprintf(out, "%-16s %12llu  %-24s %10s %10s %9.2f %10s  %-24s %10s %8.1f%s\n",
            hki_bench_traits_of(cell->kind)->name, (unsigned long long)cell->bytes, chosen,
            figure(result->time.p50, text[0], sizeof text[0]), figure(result->predicted_us, text[1], sizeof text[1]),
            result->predicted_us / result->time.p50, figure(result->simulated_us, text[3], sizeof text[3]), name,
            figure(best->even_us, text[2], sizeof text[2]), 100 * regret->value,
            result->correct == 0 ? "  WRONG RESULT" : "");
}

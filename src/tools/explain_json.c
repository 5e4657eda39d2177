/* hocket explain for programs. Times are microseconds. */
#include "bench/bench_cell.h"
#include "bench/bench_json.h"
#include "tools/explain.h"

static void put_integer(FILE *out, const char *name, uint64_t value)
{
    fputs(", ", out);
    hki_bench_json_integer(out, name, (int64_t)value);
}

static void put_text(FILE *out, const char *name, const char *value)
{
    fputs(", ", out);
    hki_bench_json_text(out, name, value);
}

static void put_us(FILE *out, const char *name, uint64_t ps)
{
    fputs(", ", out);
    hki_bench_json_number(out, name, (double)ps / 1e6);
}

static void put_meta(FILE *out, const hki_explanation *explanation)
{
    const hki_explain_request *request = explanation->request;
    const hki_cluster *cluster = explanation->cluster;
    fputs("  \"meta\": {", out);
    hki_bench_json_text(out, "version", hk_version(NULL, NULL, NULL));
    put_text(out, "collective", hki_collective_name(request->collective));
    put_integer(out, "bytes", request->bytes);
    put_integer(out, "chosen_bytes", explanation->choice.question.bytes);
    put_integer(out, "priced_bytes", explanation->question.bytes);
    put_integer(out, "ranks", cluster->rank_count);
    put_integer(out, "hosts", cluster->host_count);
    put_integer(out, "root", request->root);
    put_text(out, "cluster", cluster->source);
    put_text(out, "type", hki_bench_type_name(request->type));
    if (hki_collective_reduces(request->collective))
        put_text(out, "op", hki_bench_op_name(request->op));
    fputs("},\n", out);
}

/* What a job chooses, for chosen_bytes, and the line that it logs. */
static void put_choice(FILE *out, const hki_explanation *explanation)
{
    const hki_candidate *best = &explanation->choice.candidates[0];
    char text[HKI_CHOICE_TEXT];
    fputs("  \"choice\": {", out);
    hki_bench_json_text(out, "algorithm", best->algorithm->name);
    put_integer(out, "segments", best->segments);
    if (best->price.total_ps)
        put_us(out, "predicted_us", best->price.total_ps);
    fputs(", ", out);
    hki_bench_json_truth(out, "forced", explanation->choice.forced);
    put_text(out, "text", hki_choice_text(&explanation->choice, text, sizeof text));
    fputs("},\n", out);
}

static void put_candidate(FILE *out, const hki_candidate *candidate)
{
    static const char *const words[] = {
        [HKI_PRICED] = "priced",       [HKI_OUTRUN] = "outrun",       [HKI_TOO_LONG] = "too_long",
        [HKI_SPRAWLING] = "sprawling", [HKI_FORBIDDEN] = "forbidden", [HKI_REFUSING] = "refusing"};
    const hki_price *price = &candidate->price;
    fputs("    {", out);
    hki_bench_json_text(out, "algorithm", candidate->algorithm->name);
    put_integer(out, "segments", candidate->segments);
    put_text(out, "candidacy", words[candidate->candidacy]);
    if (candidate->why)
        put_text(out, "why", candidate->why);
    if (candidate->candidacy == HKI_PRICED) {
        put_us(out, "predicted_us", price->total_ps);
        put_us(out, "alpha_us", price->alpha_ps);
        put_us(out, "beta_us", price->beta_ps);
        put_us(out, "gamma_us", price->gamma_ps);
        put_us(out, "contention_us", price->contention_ps);
        put_integer(out, "rounds", price->rounds);
        put_integer(out, "bytes_sent", price->bytes_sent);
    }
    fputc('}', out);
}

static void put_crossovers(FILE *out, const hki_explanation *explanation)
{
    fputs("  \"crossovers\": [", out);
    for (uint32_t i = 0; i < explanation->crossover_count; i++) {
        const hki_crossover *crossover = &explanation->crossovers[i];
        fputs(i ? ",\n    {" : "\n    {", out);
        hki_bench_json_integer(out, "bytes", (int64_t)crossover->bytes);
        put_text(out, "algorithm", crossover->algorithm ? crossover->algorithm->name : "");
        put_integer(out, "segments", crossover->segments);
        put_us(out, "predicted_us", crossover->price_ps);
        fputc('}', out);
    }
    fputs("\n  ],\n", out);
}

static void put_link(FILE *out, const char *before, hki_link_class link, const hki_link_figures *figures)
{
    fprintf(out, "%s\n      {", before);
    hki_bench_json_text(out, "link", hki_link_class_name(link));
    put_text(out, "origin", hki_origin_name(figures->origin));
    fputs(", \"ranges\": [", out);
    for (uint32_t i = 0; i < figures->ranges; i++) {
        const hki_range_figures *range = &figures->range[i];
        fputs(i ? ", {" : "{", out);
        if (range->upto == UINT64_MAX)
            fputs("\"upto\": null", out);
        else
            hki_bench_json_integer(out, "upto", (int64_t)range->upto);
        put_us(out, "alpha_us", range->alpha_ps);
        put_us(out, "overhead_us", range->overhead_ps);
        put_us(out, "beta_us_per_kib", range->beta_ps);
        put_us(out, "core_us_per_kib", range->core_ps);
        fputs(", ", out);
        hki_bench_json_truth(out, "rendezvous", range->rendezvous);
        fputc('}', out);
    }
    fputs("]}", out);
}

static void put_figures(FILE *out, const hki_explanation *explanation)
{
    const hki_figures *figures = &explanation->request->figures;
    const hki_question *question = &explanation->question;
    uint32_t links = hki_explain_links(explanation->cluster);
    const char *before = "";
    fputs("  \"figures\": {", out);
    hki_bench_json_text(out, "source", figures->source);
    fputs(", \"links\": [", out);
    for (int link = 0; link < HKI_LINK_CLASSES; link++)
        if (links >> link & 1) {
            put_link(out, before, (hki_link_class)link, &figures->link[link]);
            before = ",";
        }
    fputs("],\n    ", out);
    hki_bench_json_text(out, "reduce_origin", hki_origin_name(figures->reduce_origin));
    put_us(out, "gamma_us_per_kib", figures->gamma_ps[question->type][question->operators]);
    put_us(out, "copy_us_per_kib", figures->copy_ps);
    put_us(out, "step_us", figures->step_ps);
    put_text(out, "host_origin", hki_origin_name(figures->host_origin));
    put_us(out, "switch_us", figures->switch_ps);
    put_integer(out, "memory_rate", figures->memory_rate);
    put_integer(out, "nic_rate", figures->nic_rate);
    fputs("}\n", out);
}

void hki_explain_json(FILE *out, const hki_explanation *explanation)
{
    fputs("{\n", out);
    put_meta(out, explanation);
    put_choice(out, explanation);
    fputs("  \"candidates\": [\n", out);
    for (uint32_t i = 0; i < explanation->count; i++) {
        put_candidate(out, &explanation->candidates[i]);
        fputs(i + 1 < explanation->count ? ",\n" : "\n", out);
    }
    fputs("  ],\n", out);
    put_crossovers(out, explanation);
    put_figures(out, explanation);
    fputs("}\n", out);
}

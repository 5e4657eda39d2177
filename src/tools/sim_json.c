/* hocket sim for programs. Times are microseconds. */
#include "bench/bench_cell.h"
#include "bench/bench_json.h"
#include "tools/sim.h"

#include <hocket/hocket.h>

#include <stdlib.h>

enum { TEXT = 64 };

static void put_us(FILE *out, const char *name, uint64_t ps)
{
    fprintf(out, "\"%s\": %llu.%06llu", name, (unsigned long long)(ps / 1000000), (unsigned long long)(ps % 1000000));
}

static void put_parts(FILE *out, uint64_t alpha, uint64_t beta, uint64_t gamma, uint64_t copy, uint64_t local,
                      uint64_t contention)
{
    put_us(out, "alpha_us", alpha);
    fputs(", ", out);
    put_us(out, "beta_us", beta);
    fputs(", ", out);
    put_us(out, "gamma_us", gamma);
    fputs(", ", out);
    put_us(out, "copy_us", copy);
    fputs(", ", out);
    put_us(out, "local_us", local);
    fputs(", ", out);
    put_us(out, "contention_us", contention);
}

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

static void put_meta(FILE *out, const hki_sim_study *study)
{
    const hki_sim_request *request = study->request;
    fputs("  \"meta\": {", out);
    hki_bench_json_text(out, "version", hk_version(NULL, NULL, NULL));
    put_text(out, "collective", hki_collective_name(request->collective));
    put_integer(out, "bytes", request->bytes);
    put_integer(out, "ranks", study->cluster->rank_count);
    put_integer(out, "hosts", study->cluster->host_count);
    put_integer(out, "root", request->root);
    put_text(out, "cluster", study->cluster->source);
    put_text(out, "type", hki_bench_type_name(request->type));
    if (hki_collective_reduces(request->collective))
        put_text(out, "op", hki_bench_op_name(request->op));
    put_text(out, "figures", request->figures_name);
    fputs("},\n", out);
}

static void put_candidate(FILE *out, const hki_sim_candidate *candidate)
{
    const hki_sim_path *path = &candidate->path;
    fputs("    {", out);
    hki_bench_json_text(out, "algorithm", candidate->algorithm->name);
    put_integer(out, "segments", candidate->segments);
    fputs(", ", out);
    hki_bench_json_truth(out, "fewer_segments", candidate->fewer);
    if (candidate->skipped) {
        put_text(out, "skipped", candidate->skipped);
    } else {
        fputs(", ", out);
        put_us(out, "time_us", candidate->total_ps);
        fputs(", ", out);
        put_parts(out, path->alpha_ps, path->beta_ps, path->gamma_ps, path->copy_ps, path->local_ps,
                  path->contention_ps);
        put_integer(out, "path_messages", path->messages);
        put_integer(out, "steps", candidate->steps);
        put_integer(out, "messages", candidate->messages);
        put_integer(out, "busiest_bytes", candidate->busiest_bytes);
    }
    fputc('}', out);
}

static void put_candidates(FILE *out, const hki_sim_study *study)
{
    fputs("  \"candidates\": [\n", out);
    for (size_t i = 0; i < study->count; i++) {
        put_candidate(out, &study->candidates[i]);
        fputs(i + 1 < study->count ? ",\n" : "\n", out);
    }
    fputs("  ],\n", out);
}

static void put_links(FILE *out, const hki_sim_study *study)
{
    hki_sim_link *links = malloc((study->request->top + (size_t)1) * sizeof *links);
    uint32_t count = links ? hki_sim_busiest(study, links, study->request->top) : 0;
    fputs("  \"busiest_links\": [", out);
    for (uint32_t i = 0; i < count; i++) {
        const hki_sim_load *load = &study->sim->loads[links[i].resource];
        char name[TEXT];
        hki_sim_link_text(study, &(hki_sim_link){links[i].resource, 1}, name, sizeof name);
        fputs(i ? ",\n    {" : "\n    {", out);
        hki_bench_json_text(out, "link", name);
        put_integer(out, "alike", links[i].alike);
        put_integer(out, "bytes", load->bytes);
        if (load->limits) {
            fputs(", ", out);
            put_us(out, "busy_us", load->busy_ps);
            put_integer(out, "most_flows", load->most);
        }
        fputc('}', out);
    }
    fputs("\n  ],\n", out);
    free(links);
}

static void put_leg(FILE *out, const hki_sim_study *study, const hki_sim_leg *leg)
{
    fputs("    {", out);
    hki_bench_json_text(out, "kind", hki_sim_leg_name(leg->kind));
    put_integer(out, "rank", leg->rank);
    if (leg->rank != leg->peer) {
        put_integer(out, "peer", leg->peer);
        put_text(out, "link", hki_link_class_name(hki_cluster_link(study->cluster, leg->rank, leg->peer)));
        put_integer(out, "bytes", study->sim->world.works[study->sim->world.steps[leg->step].work].bytes);
    }
    fputs(", ", out);
    put_us(out, "begin_us", leg->begin_ps);
    fputs(", ", out);
    put_us(out, "end_us", leg->end_ps);
    fputs(", ", out);
    put_parts(out, leg->alpha_ps, leg->beta_ps, leg->gamma_ps, leg->copy_ps, leg->local_ps, leg->contention_ps);
    fputc('}', out);
}

static void put_best(FILE *out, const hki_sim_study *study)
{
    const hki_sim_path *path = &study->candidates[study->best].path;
    fputs("  ", out);
    hki_bench_json_text(out, "best", study->sim->algorithm->name);
    fputs(",\n", out);
    put_links(out, study);
    fputs("  \"critical_path\": [\n", out);
    for (uint32_t i = 0; i < path->count; i++) {
        put_leg(out, study, &path->legs[i]);
        fputs(i + 1 < path->count ? ",\n" : "\n", out);
    }
    fputs("  ]\n", out);
}

void hki_sim_json(FILE *out, const hki_sim_study *study)
{
    fputs("{\n", out);
    put_meta(out, study);
    put_candidates(out, study);
    if (study->sim)
        put_best(out, study);
    else
        fputs("  \"best\": null\n", out);
    fputs("}\n", out);
}

/* hocket sim for people. */
#include "bench/bench_cell.h"
#include "bench/bench_report.h"
#include "tools/sim.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT = 64 };

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void print_heading(FILE *out, const hki_sim_study *study)
{
    const hki_sim_request *request = study->request;
    const hki_cluster *cluster = study->cluster;
    char size[TEXT];
    hki_bench_size_text(request->bytes, size, sizeof size);
    fprintf(out, "%s", hki_collective_name(request->collective));
    if (request->collective != HKI_COLL_BARRIER)
        fprintf(out, " of %s bytes, %s%s%s,", size, hki_bench_type_name(request->type),
                hki_collective_reduces(request->collective) ? " " : "",
                hki_collective_reduces(request->collective) ? hki_bench_op_name(request->op) : "");
    fprintf(out, " among %u rank%s on %u host%s (%s); figures: %s\n\n", cluster->rank_count,
            cluster->rank_count == 1 ? "" : "s", cluster->host_count, cluster->host_count == 1 ? "" : "s",
            cluster->source, request->figures_name);
}

static void print_candidate(FILE *out, const hki_sim_candidate *candidate, const hki_sim_study *study)
{
    char text[TEXT];
    const hki_sim_path *path = &candidate->path;
    uint64_t whole = candidate->total_ps, best = study->candidates[study->best].total_ps;
    fprintf(out, "%-25s %7u%c ", candidate->algorithm->name, candidate->segments, candidate->fewer ? '*' : ' ');
    fprintf(out, "%10s %7.2f %8u %6.1f %6.1f %6.1f %6.1f %7.1f", hki_sim_time_text(whole, text, sizeof text),
            best ? (double)whole / (double)best : 1, path->messages, percent(path->alpha_ps, whole),
            percent(path->beta_ps, whole), percent(path->gamma_ps, whole), percent(path->contention_ps, whole),
            percent(path->copy_ps + path->local_ps, whole));
    double vector = (double)study->request->bytes;
    vector > 0 ? fprintf(out, " %8.4g\n", (double)candidate->busiest_bytes / vector) : fprintf(out, " %8s\n", "-");
}

static void print_candidates(FILE *out, const hki_sim_study *study)
{
    const hki_sim_candidate **ranking = malloc((study->count + 1) * sizeof *ranking);
    size_t count = ranking ? hki_sim_ranking(study, ranking) : 0;
    fprintf(out, "%-25s %8s %10s %7s %8s %6s %6s %6s %6s %7s %8s\n", "algorithm", "segments", "time", "/best",
            "messages", "alpha%", "beta%", "gamma%", "wait%", "local%", "sent/n");
    for (size_t i = 0; i < count; i++)
        print_candidate(out, ranking[i], study);
    for (size_t i = 0; i < study->count; i++)
        if (study->candidates[i].skipped)
            fprintf(out, "%-25s not simulated: %s\n", study->candidates[i].algorithm->name,
                    study->candidates[i].skipped);
    fprintf(out,
            "\nmessages, alpha ... local: on the critical path; wait: for shared links; local: making steps, copies,\n"
            "turns; sent/n: by the busiest rank\n");
    free(ranking);
}

/* ---- the best one ---- */

static void print_best(FILE *out, const hki_sim_study *study)
{
    const hki_sim *sim = study->sim;
    char total[TEXT], first[TEXT];
    uint64_t earliest = sim->total_ps;
    for (uint32_t rank = 0; rank < sim->call.ranks; rank++)
        if (sim->rank_end[rank] < earliest)
            earliest = sim->rank_end[rank];
    fprintf(out, "\n%s: %s; the first rank is done after %s. %llu messages in %u steps, %llu bytes in all\n",
            sim->algorithm->name, hki_sim_time_text(sim->total_ps, total, sizeof total),
            hki_sim_time_text(earliest, first, sizeof first), (unsigned long long)sim->world.messages,
            sim->world.step_count, (unsigned long long)sim->world.bytes);
}

static void print_links(FILE *out, const hki_sim_study *study)
{
    hki_sim_link *links = malloc((study->request->top + (size_t)1) * sizeof *links);
    uint32_t count = links ? hki_sim_busiest(study, links, study->request->top) : 0;
    if (count)
        fprintf(out, "\n%-36s %14s %10s %6s %6s\n", "busiest links", "bytes", "busy", "busy%", "flows");
    for (uint32_t i = 0; i < count; i++) {
        const hki_sim_load *load = &study->sim->loads[links[i].resource];
        char name[TEXT], text[TEXT];
        hki_sim_link_text(study, &links[i], name, sizeof name);
        fprintf(out, "%-36s %14llu", name, (unsigned long long)load->bytes);
        if (load->limits)
            fprintf(out, " %10s %6.1f %6u\n", hki_sim_time_text(load->busy_ps, text, sizeof text),
                    percent(load->busy_ps, study->sim->total_ps), load->most);
        else
            fprintf(out, "  never in the way\n");
    }
    free(links);
}

/* Time on the critical path by what it was: messages by link class, then what ranks did. */
static void print_sums(FILE *out, const hki_sim_study *study, const hki_sim_path *path)
{
    uint64_t link_ps[HKI_LINK_CLASSES] = {0}, own_ps[HKI_SIM_LEG_TURN + 1] = {0};
    uint32_t messages[HKI_LINK_CLASSES] = {0}, own[HKI_SIM_LEG_TURN + 1] = {0};
    char text[TEXT];
    for (uint32_t i = 0; i < path->count; i++) {
        const hki_sim_leg *leg = &path->legs[i];
        bool message = leg->rank != leg->peer;
        uint32_t kind = message ? hki_cluster_link(study->cluster, leg->rank, leg->peer) : (uint32_t)leg->kind;
        *(message ? &link_ps[kind] : &own_ps[kind]) += leg->end_ps - leg->begin_ps;
        ++*(message ? &messages[kind] : &own[kind]);
    }
    fprintf(out, "\ncritical path: %u legs\n", path->count);
    for (unsigned link = 0; link < HKI_LINK_CLASSES; link++)
        if (messages[link])
            fprintf(out, "  %8u messages by %-10s %10s %5.1f %%\n", messages[link],
                    hki_link_class_name((hki_link_class)link), hki_sim_time_text(link_ps[link], text, sizeof text),
                    percent(link_ps[link], study->sim->total_ps));
    for (unsigned kind = 0; kind <= HKI_SIM_LEG_TURN; kind++)
        if (own[kind])
            fprintf(out, "  %8u times %-13s %10s %5.1f %%\n", own[kind], hki_sim_leg_name((hki_sim_leg_kind)kind),
                    hki_sim_time_text(own_ps[kind], text, sizeof text), percent(own_ps[kind], study->sim->total_ps));
}

static void print_part(FILE *out, const char *name, uint64_t ps)
{
    char text[TEXT];
    if (ps)
        fprintf(out, " %s %s", name, hki_sim_time_text(ps, text, sizeof text));
}

static void print_leg(FILE *out, const hki_sim_study *study, const hki_sim_leg *leg)
{
    char begin[TEXT], length[TEXT], who[TEXT], what[TEXT];
    const hki_sim_step *step = &study->sim->world.steps[leg->step];
    bool message = leg->rank != leg->peer;
    snprintf(who, sizeof who, message ? "%u -> %u" : "%u", leg->rank, leg->peer);
    if (message)
        snprintf(what, sizeof what, "%llu B by %s%s", (unsigned long long)study->sim->world.works[step->work].bytes,
                 hki_link_class_name(hki_cluster_link(study->cluster, leg->rank, leg->peer)),
                 leg->kind == HKI_SIM_LEG_WAY ? ", in the way" : "");
    else
        snprintf(what, sizeof what, "%s", hki_sim_leg_name(leg->kind));
    fprintf(out, "  %10s %10s  %-16s %-28s", hki_sim_time_text(leg->begin_ps, begin, sizeof begin),
            hki_sim_time_text(leg->end_ps - leg->begin_ps, length, sizeof length), who, what);
    print_part(out, "alpha", leg->alpha_ps);
    print_part(out, "beta", leg->beta_ps);
    print_part(out, "gamma", leg->gamma_ps);
    print_part(out, "copy", leg->copy_ps);
    print_part(out, "local", leg->local_ps);
    print_part(out, "wait", leg->contention_ps);
    fputc('\n', out);
}

/* The length of the shortest of the `top` longest legs; shorter ones are left out. */
static uint64_t threshold(const hki_sim_path *path, uint32_t top)
{
    uint64_t least = 0, most = UINT64_MAX;
    if (top >= path->count)
        return 0;
    while (least < most) { /* the greatest length that at least `top` legs reach, by bisection */
        uint64_t middle = least + (most - least) / 2 + 1;
        uint32_t reach = 0;
        for (uint32_t i = 0; i < path->count; i++)
            reach += path->legs[i].end_ps - path->legs[i].begin_ps >= middle;
        if (reach >= top)
            least = middle;
        else
            most = middle - 1;
    }
    return least;
}

static void print_path(FILE *out, const hki_sim_study *study)
{
    const hki_sim_path *path = &study->candidates[study->best].path;
    uint32_t top = study->request->top, shown = 0;
    print_sums(out, study, path);
    uint64_t least = threshold(path, top);
    if (top)
        fprintf(out, top < path->count ? "its %u longest legs:\n" : "all legs:\n", top);
    for (uint32_t i = 0; i < path->count && shown < top; i++)
        if (path->legs[i].end_ps - path->legs[i].begin_ps >= least) {
            print_leg(out, study, &path->legs[i]);
            shown++;
        }
}

void hki_sim_report(FILE *out, const hki_sim_study *study)
{
    print_heading(out, study);
    print_candidates(out, study);
    if (!study->sim)
        return;
    print_best(out, study);
    print_links(out, study);
    print_path(out, study);
}

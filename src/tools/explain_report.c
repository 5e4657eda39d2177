/* hocket explain for people. */
#include "base/error.h"
#include "bench/bench_cell.h"
#include "bench/bench_report.h"
#include "sched/dump.h"
#include "sched/model.h"
#include "tools/explain.h"
#include "tools/sim.h"

#include <string.h>

enum { TEXT = 64 };

/* What a choice is asked about, where that is not the call itself. */
static void print_class(FILE *out, const hki_explanation *explanation)
{
    const hki_explain_request *request = explanation->request;
    const hki_question *asked = &explanation->choice.question, *priced = &explanation->question;
    if (hki_size_is_private(request->collective))
        fprintf(out, "not all ranks know the size of their %s: priced, and chosen, for %llu bytes\n",
                hki_collective_name(request->collective), (unsigned long long)asked->bytes);
    else if (asked->bytes != priced->bytes)
        fprintf(out, "chosen for %llu bytes, as all sizes of this quarter of an octave; the table is for %llu\n",
                (unsigned long long)asked->bytes, (unsigned long long)priced->bytes);
    if (hki_promise_rooted(request->collective) && request->root != asked->call.root)
        fprintf(out, "chosen, and priced, for root %u: on one host it does not matter who the root is\n",
                asked->call.root);
}

static void print_heading(FILE *out, const hki_explanation *explanation)
{
    const hki_explain_request *request = explanation->request;
    const hki_cluster *cluster = explanation->cluster;
    bool reduces = hki_collective_reduces(request->collective);
    char size[TEXT];
    hki_bench_size_text(request->bytes, size, sizeof size);
    fprintf(out, "%s", hki_collective_name(request->collective));
    if (request->collective != HKI_COLL_BARRIER)
        fprintf(out, " of %s bytes, %s%s%s,", size, hki_bench_type_name(request->type), reduces ? " " : "",
                reduces ? hki_bench_op_name(request->op) : "");
    fprintf(out, " among %u rank%s on %u host%s (%s)", cluster->rank_count, cluster->rank_count == 1 ? "" : "s",
            cluster->host_count, cluster->host_count == 1 ? "" : "s", cluster->source);
    if (cluster->host_count == 1)
        fprintf(out, ", of which %u run at once",
                cluster->hosts[0].capacity < cluster->rank_count ? cluster->hosts[0].capacity : cluster->rank_count);
    fputc('\n', out);
    print_class(out, explanation);
    fputc('\n', out);
}

static void print_time(FILE *out, uint64_t ps)
{
    char text[TEXT];
    fprintf(out, " %9s", ps ? hki_sim_time_text(ps, text, sizeof text) : "-");
}

static void print_candidate(FILE *out, const hki_explanation *explanation, const hki_candidate *candidate)
{
    const hki_price *price = &candidate->price;
    uint64_t first = explanation->candidates[0].price.total_ps;
    fprintf(out, "%-25s %8u", candidate->algorithm->name, candidate->segments);
    print_time(out, price->total_ps);
    fprintf(out, " %6.2f", first ? (double)price->total_ps / (double)first : 1.0);
    print_time(out, price->alpha_ps);
    print_time(out, price->beta_ps);
    print_time(out, price->gamma_ps);
    print_time(out, price->contention_ps);
    fprintf(out, " %6u %12llu\n", price->rounds, (unsigned long long)price->bytes_sent);
}

static const char *why_not(const hki_candidate *candidate)
{
    switch (candidate->candidacy) {
    case HKI_OUTRUN:
        return "by its textbook form it takes a third longer than the best";
    case HKI_TOO_LONG:
        return "its schedule has too many steps to walk";
    case HKI_FORBIDDEN:
        return "HOCKET_ALGORITHM forbids it";
    default:
        return candidate->why ? candidate->why : "it cannot serve";
    }
}

/* The cheapest of all; the one chosen, if no other is cheaper. */
static const hki_candidate *find_cheapest(const hki_explanation *explanation)
{
    const hki_candidate *all = explanation->candidates, *cheapest = all;
    for (uint32_t i = 1; i < explanation->count; i++)
        if (all[i].candidacy == HKI_PRICED && all[i].price.total_ps < cheapest->price.total_ps)
            cheapest = &all[i];
    return cheapest;
}

/* Why a job does not choose what is cheaper for just this size. */
static const char *why_preferred(const hki_explanation *explanation, const hki_candidate *cheaper)
{
    const hki_choice *choice = &explanation->choice;
    const hki_candidate *chosen = &choice->candidates[0], *seen = NULL;
    for (uint32_t i = 0; i < choice->count; i++)
        if (choice->candidates[i].algorithm == cheaper->algorithm)
            seen = &choice->candidates[i];
    if (!seen || seen->candidacy != HKI_PRICED || seen->segments != cheaper->segments)
        return "a job does not walk what too little speaks for before it is walked";
    if (seen->price.total_ps > chosen->price.total_ps)
        return "a job chooses for the least of a class of sizes";
    return "prices so close count as equal, and what is chosen is the simplest of these";
}

/* Why one that is not the cheapest comes first. */
static void print_preference(FILE *out, const hki_explanation *explanation)
{
    const hki_candidate *chosen = &explanation->candidates[0], *cheapest = find_cheapest(explanation);
    if (explanation->choice.forced) {
        fprintf(out, "%s comes first because HOCKET_ALGORITHM asks for it\n", chosen->algorithm->name);
        return;
    }
    if (cheapest == chosen || chosen->candidacy != HKI_PRICED)
        return;
    uint64_t saved = chosen->price.total_ps - cheapest->price.total_ps;
    fputs(cheapest->algorithm->name, out);
    if (cheapest->segments > 1)
        fprintf(out, " in %u segments", cheapest->segments);
    fprintf(out, " is %.2g %% cheaper for just this size: %s\n", 100.0 * (double)saved / (double)chosen->price.total_ps,
            why_preferred(explanation, cheapest));
}

static void print_candidates(FILE *out, const hki_explanation *explanation)
{
    fprintf(out, "%-25s %8s %9s %6s %9s %9s %9s %9s %6s %12s\n", "algorithm", "segments", "time", "/first", "alpha",
            "beta", "gamma", "contend", "rounds", "bytes sent");
    for (uint32_t i = 0; i < explanation->count; i++)
        if (explanation->candidates[i].candidacy == HKI_PRICED)
            print_candidate(out, explanation, &explanation->candidates[i]);
    fprintf(
        out,
        "parts are those of the rank that ends last, rounds the most messages in a row, bytes of the busiest rank\n");
    print_preference(out, explanation);
    for (uint32_t i = 0; i < explanation->count; i++)
        if (explanation->candidates[i].candidacy != HKI_PRICED)
            fprintf(out, "  not %s: %s\n", explanation->candidates[i].algorithm->name,
                    why_not(&explanation->candidates[i]));
}

/* The choice, as ranks log it at HOCKET_LOG=debug. */
static void print_choice(FILE *out, const hki_explanation *explanation)
{
    char text[HKI_CHOICE_TEXT];
    fprintf(out, "%s\n\n", hki_choice_text(&explanation->choice, text, sizeof text));
}

static void print_crossovers(FILE *out, const hki_explanation *explanation)
{
    if (explanation->crossover_count < 2)
        return;
    fprintf(out, "\nchoices by size:\n");
    for (uint32_t i = 0; i < explanation->crossover_count; i++) {
        const hki_crossover *crossover = &explanation->crossovers[i];
        char size[TEXT];
        hki_bench_size_text(crossover->bytes, size, sizeof size);
        fprintf(out, "  from %8s bytes  %s", size, crossover->algorithm ? crossover->algorithm->name : "none");
        if (crossover->segments > 1)
            fprintf(out, " in %u segments", crossover->segments);
        fputc('\n', out);
    }
}

/* ---- figures ---- */

static void print_range(FILE *out, const hki_range_figures *range)
{
    char upto[TEXT] = "beyond", alpha[TEXT], busy[TEXT];
    if (range->upto != UINT64_MAX) {
        memcpy(upto, "up to ", sizeof "up to ");
        hki_bench_size_text(range->upto, upto + strlen(upto), sizeof upto - strlen(upto));
    }
    fprintf(out, "    %-12s alpha %9s, busy for %9s of it, beta %7.4g ns/KiB, cores %7.4g ns/KiB%s\n", upto,
            hki_sim_time_text(range->alpha_ps, alpha, sizeof alpha),
            hki_sim_time_text(range->overhead_ps, busy, sizeof busy), (double)range->beta_ps / 1e3,
            (double)range->core_ps / 1e3, range->rendezvous ? ", rendezvous" : "");
}

static void print_figures(FILE *out, const hki_explanation *explanation)
{
    const hki_figures *figures = &explanation->request->figures;
    const hki_question *question = &explanation->question;
    uint32_t links = hki_explain_links(explanation->cluster);
    char text[TEXT];
    fprintf(out, "\nfigures%s%s:\n", figures->source[0] ? " from " : "", figures->source);
    for (int link = 0; link < HKI_LINK_CLASSES; link++) {
        const hki_link_figures *one = &figures->link[link];
        if (!(links >> link & 1))
            continue;
        fprintf(out, "  %s, %s\n", hki_link_class_text((hki_link_class)link), hki_origin_name(one->origin));
        for (uint32_t i = 0; i < one->ranges; i++)
            print_range(out, &one->range[i]);
    }
    if (hki_collective_reduces(question->call.collective))
        fprintf(out, "  gamma %.4g ns/KiB (%s, operators like %s), %s\n",
                (double)figures->gamma_ps[question->type][question->operators] / 1e3,
                hki_bench_type_name(question->type), hki_op_class_name(question->operators),
                hki_origin_name(figures->reduce_origin));
    fprintf(out, "  copy %.4g ns/KiB, %s; a step %s, %s\n", (double)figures->copy_ps / 1e3,
            hki_origin_name(figures->reduce_origin), hki_sim_time_text(figures->step_ps, text, sizeof text),
            hki_origin_name(figures->step_ps == hki_figures_built_in.step_ps ? HKI_BUILT_IN : figures->host_origin));
    fprintf(out, "  one rank giving way to another %s, memory of a NUMA node %.4g GB/s, %s\n",
            hki_sim_time_text(figures->switch_ps, text, sizeof text), (double)figures->memory_rate / 1e9,
            hki_origin_name(figures->host_origin));
}

void hki_explain_report(FILE *out, const hki_explanation *explanation)
{
    print_heading(out, explanation);
    print_choice(out, explanation);
    print_candidates(out, explanation);
    print_crossovers(out, explanation);
    print_figures(out, explanation);
}

hk_status hki_explain_schedule(FILE *out, const hki_explanation *explanation)
{
    const hki_candidate *best = &explanation->choice.candidates[0];
    hki_call call = explanation->question.call;
    hki_schedule *schedule;
    call.root = explanation->request->root;
    call.segments = best->segments;
    call.rank = explanation->request->rank;
    if (call.ranks == 1) {
        fprintf(out, "\none rank: no messages\n");
        return HK_OK;
    }
    HK_TRY(hki_algorithm_schedule(best->algorithm, &call, &schedule));
    fprintf(out, "\nsteps of rank %u by %s:\n", call.rank, best->algorithm->name);
    hki_schedule_dump(schedule, out);
    hki_schedule_free(schedule);
    return HK_OK;
}

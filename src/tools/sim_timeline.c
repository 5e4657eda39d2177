/*
 * hocket sim --timeline: Chrome's trace format (JSON), which Perfetto and chrome://tracing open. A process for each
 * host, three tracks for each rank (what its core does, its way out, its way in), arrows from sends to receives, and
 * the critical path as a process of its own. Of large worlds only some ranks are drawn; the document says how many.
 */
#include "bench/bench_json.h"
#include "tools/sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { RANKS_MOST = 128, STEPS_MOST = 50000, LANES = HKI_SIM_LANES, PATH_PROCESS = 0 };

typedef struct timeline {
    FILE *out;
    const hki_sim_study *study;
    const hki_sim *sim;
    bool *drawn; /* by rank */
    bool behind; /* there is an event already */
} timeline;

static void begin_event(timeline *to, char phase, uint32_t process, uint32_t thread)
{
    fprintf(to->out, "%s\n{\"ph\":\"%c\",\"pid\":%u,\"tid\":%u", to->behind ? "," : "", phase, process, thread);
    to->behind = true;
}

static void put_time(FILE *out, const char *name, uint64_t ps)
{
    fprintf(out, ",\"%s\":%llu.%06llu", name, (unsigned long long)(ps / 1000000), (unsigned long long)(ps % 1000000));
}

static uint32_t process_of(const timeline *to, uint32_t rank)
{
    return to->study->cluster->seats[rank].host + 1;
}

static uint32_t thread_of(uint32_t rank, hki_sim_lane lane)
{
    return rank * LANES + (uint32_t)lane + 1;
}

static void put_name(timeline *to, uint32_t process, uint32_t thread, const char *what, const char *name)
{
    begin_event(to, 'M', process, thread);
    fprintf(to->out, ",\"name\":\"%s\",\"args\":{", what);
    hki_bench_json_text(to->out, "name", name);
    fputs("}}", to->out);
}

static void put_rank_names(timeline *to, uint32_t rank)
{
    static const char *const lanes[LANES] = {"core", "out", "in"};
    char name[64];
    snprintf(name, sizeof name, "host %u", process_of(to, rank) - 1);
    put_name(to, process_of(to, rank), thread_of(rank, HKI_SIM_CORE), "process_name", name);
    for (uint32_t lane = 0; lane < LANES; lane++) {
        snprintf(name, sizeof name, "rank %u %s", rank, lanes[lane]);
        put_name(to, process_of(to, rank), thread_of(rank, (hki_sim_lane)lane), "thread_name", name);
        begin_event(to, 'M', process_of(to, rank), thread_of(rank, (hki_sim_lane)lane));
        fprintf(to->out, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%u}}",
                thread_of(rank, (hki_sim_lane)lane));
    }
}

static const char *verb_name(uint32_t verb)
{
    static const char *const names[] = {"send", "recv", "recv_reduce", "copy", "reduce"};
    return names[verb];
}

static void put_stretch(timeline *to, uint32_t rank, const hki_sim_stretch *stretch)
{
    const hki_sim_step *step = &to->sim->world.steps[stretch->step];
    unsigned long long bytes = to->sim->world.works[step->work].bytes;
    begin_event(to, 'X', process_of(to, rank), thread_of(rank, stretch->lane));
    put_time(to->out, "ts", stretch->begin_ps);
    put_time(to->out, "dur", stretch->end_ps - stretch->begin_ps);
    if (stretch->lane == HKI_SIM_CORE)
        fprintf(to->out, ",\"name\":\"%s %s\"", hki_sim_leg_name(stretch->kind), verb_name(step->verb));
    else
        fprintf(to->out, ",\"name\":\"%s %u\"", stretch->lane == HKI_SIM_OUT ? "to" : "from", step->peer);
    fprintf(to->out, ",\"args\":{\"bytes\":%llu,\"step\":%u}}", bytes, stretch->step - to->sim->world.first[rank]);
}

/* One end of the arrow that a message is; the middle of its stretch, where no other can be meant. */
static void put_arrow(timeline *to, uint32_t rank, const hki_sim_stretch *stretch)
{
    const hki_sim_step *step = &to->sim->world.steps[stretch->step];
    bool sends = stretch->lane == HKI_SIM_OUT;
    if (!to->drawn[step->peer])
        return;
    begin_event(to, sends ? 's' : 'f', process_of(to, rank), thread_of(rank, stretch->lane));
    put_time(to->out, "ts", stretch->begin_ps + (stretch->end_ps - stretch->begin_ps) / 2);
    fprintf(to->out, ",\"id\":%u,\"cat\":\"message\",\"name\":\"message\"%s}", sends ? stretch->step : step->match,
            sends ? "" : ",\"bp\":\"e\"");
}

static hk_status put_rank(timeline *to, uint32_t rank)
{
    hki_sim_stretch *stretches;
    uint32_t count;
    HK_TRY(hki_sim_stretches(to->sim, rank, &stretches, &count));
    put_rank_names(to, rank);
    for (uint32_t i = 0; i < count; i++) {
        put_stretch(to, rank, &stretches[i]);
        if (stretches[i].lane != HKI_SIM_CORE)
            put_arrow(to, rank, &stretches[i]);
    }
    free(stretches);
    return HK_OK;
}

static void put_path(timeline *to)
{
    const hki_sim_path *path = &to->study->candidates[to->study->best].path;
    put_name(to, PATH_PROCESS, 0, "process_name", "critical path");
    for (uint32_t i = 0; i < path->count; i++) {
        const hki_sim_leg *leg = &path->legs[i];
        if (leg->begin_ps == leg->end_ps)
            continue;
        begin_event(to, 'X', PATH_PROCESS, 0);
        put_time(to->out, "ts", leg->begin_ps);
        put_time(to->out, "dur", leg->end_ps - leg->begin_ps);
        if (leg->rank != leg->peer)
            fprintf(to->out, ",\"name\":\"%u to %u\"", leg->rank, leg->peer);
        else
            fprintf(to->out, ",\"name\":\"%s on %u\"", hki_sim_leg_name(leg->kind), leg->rank);
        fprintf(to->out, ",\"args\":{\"alpha_ps\":%llu,\"beta_ps\":%llu,\"gamma_ps\":%llu,\"contention_ps\":%llu}}",
                (unsigned long long)leg->alpha_ps, (unsigned long long)leg->beta_ps, (unsigned long long)leg->gamma_ps,
                (unsigned long long)leg->contention_ps);
    }
}

hk_status hki_sim_timeline(FILE *out, const hki_sim_study *study)
{
    uint32_t ranks[RANKS_MOST], count = hki_sim_sample(study->sim, STEPS_MOST, ranks, RANKS_MOST);
    timeline to = {
        .out = out, .study = study, .sim = study->sim, .drawn = calloc(study->sim->call.ranks, sizeof(bool))};
    if (!to.drawn)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a timeline of %u ranks", study->sim->call.ranks);
    for (uint32_t i = 0; i < count; i++)
        to.drawn[ranks[i]] = true;
    fputs("{\"displayTimeUnit\":\"ns\",\"otherData\":{", out);
    hki_bench_json_text(out, "algorithm", study->sim->algorithm->name);
    fputc(',', out);
    hki_bench_json_text(out, "collective", hki_collective_name(study->request->collective));
    fprintf(out, ",\"ranks\":%u,\"ranks_drawn\":%u},\"traceEvents\":[", study->sim->call.ranks, count);
    put_path(&to);
    hk_status status = HK_OK;
    for (uint32_t i = 0; i < count && status == HK_OK; i++)
        status = put_rank(&to, ranks[i]);
    fputs("\n]}\n", out);
    free(to.drawn);
    if (status == HK_OK && count < study->sim->call.ranks)
        fprintf(stderr, "hocket sim: the timeline shows %u of %u ranks\n", count, study->sim->call.ranks);
    return status;
}

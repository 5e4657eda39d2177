/* The cluster and the candidates of hocket sim. */
#include "tools/sim.h"

#include "base/error.h"
#include "cost/candidate.h"
#include "topo/cluster_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* So many steps of one candidate are simulated when it is named (which takes about 7 GiB), when it is one of several,
 * and of all of those together: a minute or so on one core. Where nobody asked for the segments, there are only as many
 * as `segments_most` steps allow. */
static const uint64_t named_most = UINT64_C(100000000), one_most = UINT64_C(8000000), all_most = UINT64_C(24000000),
                      segments_most = UINT64_C(8000000);

/* Among more ranks a choice of segments would take longer than what is simulated: there is one. */
enum { SEGMENTS_RANKS = 1 << 16 };

/* Ranks of a cluster on its first hosts, so many on each, as a list of `hosts`·`per_host` (or all there are, where 0 is
 * given). HK_ERR_ARGUMENT: there are fewer. */
static hk_status pick_ranks(const hki_cluster *cluster, uint32_t hosts, uint32_t per_host, uint32_t *picked,
                            uint32_t *count, uint32_t *taken)
{
    for (uint32_t rank = 0; rank < cluster->rank_count; rank++) {
        uint32_t host = cluster->seats[rank].host;
        if ((hosts && host >= hosts) || (per_host && taken[host] == per_host))
            continue;
        taken[host]++;
        picked[(*count)++] = rank;
    }
    if (hosts > cluster->host_count)
        return hki_error(HK_ERR_ARGUMENT, "%s has %u hosts, not %u", cluster->source, cluster->host_count, hosts);
    for (uint32_t host = 0; per_host && host < (hosts ? hosts : cluster->host_count); host++)
        if (taken[host] < per_host)
            return hki_error(HK_ERR_ARGUMENT, "host %u of %s has %u ranks, not %u", host, cluster->source, taken[host],
                             per_host);
    return HK_OK;
}

/* Reads the file, and leaves out what the command line does. */
static hk_status read_cluster(hki_sim_study *study)
{
    const hki_sim_request *request = study->request;
    HK_TRY(hki_cluster_read(request->topology, &study->cluster));
    hki_cluster *whole = study->cluster, *part = NULL;
    if (!request->hosts && !request->per_host)
        return HK_OK;
    uint32_t count = 0, *picked = malloc(whole->rank_count * sizeof *picked);
    uint32_t *taken = calloc(whole->host_count, sizeof *taken);
    hk_status status =
        picked && taken ? HK_OK : hki_error(HK_ERR_NO_MEMORY, "no memory for %u ranks", whole->rank_count);
    if (status == HK_OK)
        status = pick_ranks(whole, request->hosts, request->per_host, picked, &count, taken);
    if (status == HK_OK)
        status = hki_cluster_members(whole, picked, count, &part);
    free(picked);
    free(taken);
    if (status != HK_OK)
        return status;
    hki_cluster_free(whole);
    study->cluster = part;
    return HK_OK;
}

static hk_status make_cluster(hki_sim_study *study)
{
    enum { HOSTS = 1, PER_HOST = 8 }; /* unless the command line says others */
    const hki_sim_request *request = study->request;
    if (request->topology)
        return read_cluster(study);
    uint32_t hosts = request->hosts ? request->hosts : HOSTS, each = request->per_host ? request->per_host : PER_HOST;
    if ((uint64_t)hosts * each > HKI_CLUSTER_FILE_RANKS)
        return hki_error(HK_ERR_ARGUMENT, "%u hosts of %u ranks: at most %u ranks are simulated", hosts, each,
                         HKI_CLUSTER_FILE_RANKS);
    uint32_t capacity = request->capacity ? request->capacity : each;
    if (capacity > HKI_TOPOLOGY_PUS_MAX)
        capacity = HKI_TOPOLOGY_PUS_MAX;
    return hki_cluster_uniform(hosts, each, capacity, &study->cluster);
}

static hki_call call_of(const hki_sim_study *study, uint32_t segments)
{
    return (hki_call){.collective = study->request->collective,
                      .ranks = study->cluster->rank_count,
                      .root = study->request->root,
                      .segments = segments,
                      .commutative = true,
                      .levels = study->cluster->levels};
}

/* ---- who is tried ---- */

static hk_status add_candidate(hki_sim_study *study, const hki_algorithm *algorithm)
{
    hki_sim_candidate *grown = realloc(study->candidates, (study->count + 1) * sizeof *grown);
    if (!grown)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for candidates");
    study->candidates = grown;
    hki_call call = call_of(study, 1);
    uint32_t segments = study->request->segments;
    if (!segments && call.ranks > SEGMENTS_RANKS)
        segments = 1;
    if (!segments)
        HK_TRY(hki_segments_find(&study->model, algorithm, &call, study->request->bytes, &segments));
    grown[study->count++] =
        (hki_sim_candidate){.algorithm = algorithm, .segments = algorithm->segmented ? segments : 1};
    return HK_OK;
}

static hk_status add_named(hki_sim_study *study, const char *name, size_t length)
{
    char text[64];
    const char *collective = hki_collective_name(study->request->collective);
    if (length == 0 || length >= sizeof text)
        return hki_error(HK_ERR_ARGUMENT, "no name of an algorithm: \"%s\"", study->request->algorithms);
    memcpy(text, name, length);
    text[length] = '\0';
    const hki_algorithm *found = hki_algorithm_find(study->request->collective, text);
    if (!found)
        return hki_error(HK_ERR_ARGUMENT, "there is no algorithm \"%s\" of %s; see hocket info --algorithms %s", text,
                         collective, collective);
    return add_candidate(study, found);
}

static hk_status find_candidates(hki_sim_study *study)
{
    const char *name = study->request->algorithms;
    size_t count;
    const hki_algorithm *all = hki_algorithms(&count);
    for (size_t i = 0; !name && i < count; i++)
        if (all[i].collective == study->request->collective)
            HK_TRY(add_candidate(study, &all[i]));
    while (name) {
        size_t length = strcspn(name, ",");
        HK_TRY(add_named(study, name, length));
        name = name[length] ? name + length + 1 : NULL;
    }
    return HK_OK;
}

/* ---- trying them ---- */

/* Why a candidate is not simulated, as a text of its own. */
static hk_status skip(hki_sim_candidate *candidate, const char *why)
{
    candidate->skipped = strdup(why);
    return candidate->skipped ? HK_OK : hki_error(HK_ERR_NO_MEMORY, "no memory for candidates");
}

static hk_status skip_large(hki_sim_candidate *candidate, uint64_t steps, bool named)
{
    char text[160];
    snprintf(text, sizeof text, "about %.0f million steps are too many%s", (double)steps * 1e-6,
             named ? "" : " beside the others; --algorithm tries it");
    return skip(candidate, text);
}

/* Keeps the simulation if it is the best so far. */
static hk_status take_result(hki_sim_study *study, size_t index, hki_sim *sim)
{
    hki_sim_candidate *candidate = &study->candidates[index];
    hk_status status = hki_sim_path_find(sim, &candidate->path);
    if (status != HK_OK) {
        hki_sim_free(sim);
        return status;
    }
    candidate->total_ps = sim->total_ps;
    candidate->steps = sim->world.step_count;
    candidate->messages = sim->world.messages;
    candidate->busiest_bytes = sim->world.busiest_bytes;
    hki_sim *worse = sim;
    if (!study->sim || sim->total_ps < study->sim->total_ps) {
        worse = study->sim;
        study->sim = sim;
        study->best = index;
    }
    hki_sim_free(worse);
    return HK_OK;
}

/* How many steps a candidate has, roughly. Halves its segments while there are too many and nobody asked for them. */
static hk_status estimate(const hki_sim_study *study, hki_sim_candidate *candidate, uint64_t most, uint64_t *steps)
{
    if (most > segments_most)
        most = segments_most;
    for (;;) {
        hki_call call = call_of(study, candidate->segments);
        HK_TRY(hki_sim_world_estimate(candidate->algorithm, &call, most, steps));
        if (*steps <= most || candidate->segments == 1 || study->request->segments)
            return HK_OK;
        candidate->segments /= 2;
        candidate->fewer = true;
    }
}

/* Tells a person who waits what goes on; an empty name wipes it out. */
static void show_progress(const char *name)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, name[0] ? "\r\033[Ksimulating %s" : "\r\033[K%s", name);
}

/* Simulates one; `left` is how many steps may be spent on all that follow. */
static hk_status try_candidate(hki_sim_study *study, size_t index, uint64_t *left)
{
    hki_sim_candidate *candidate = &study->candidates[index];
    hki_call call = call_of(study, candidate->segments);
    bool named = study->request->algorithms || study->count == 1;
    uint64_t steps, most = named ? named_most : one_most < *left ? one_most : *left;
    const char *why = hki_algorithm_refuses(candidate->algorithm, &call);
    if (why)
        return skip(candidate, why);
    HK_TRY(estimate(study, candidate, most, &steps));
    if (steps > most)
        return skip_large(candidate, steps, named);
    call.segments = candidate->segments;
    hki_sim *sim = NULL;
    const hki_sim_options options = {.most_steps = 2 * most, .record = true}; /* the estimate is no more than that */
    hk_status status = hki_sim_run(&study->model, candidate->algorithm, &call, study->request->bytes, &options, &sim);
    if (status == HK_ERR_COUNT)
        return skip_large(candidate, 2 * most, named);
    if (status != HK_OK)
        return status;
    *left -= *left < sim->world.step_count ? *left : sim->world.step_count;
    return take_result(study, index, sim);
}

static hk_status run(hki_sim_study *study)
{
    const hki_sim_request *request = study->request;
    HK_TRY(make_cluster(study));
    if (request->root >= study->cluster->rank_count)
        return hki_error(HK_ERR_ARGUMENT, "there is no root %u among %u rank%s", request->root,
                         study->cluster->rank_count, study->cluster->rank_count == 1 ? "" : "s");
    study->model = (hki_model){study->cluster, &request->figures, request->type, hki_op_class_of(request->op)};
    HK_TRY(find_candidates(study));
    uint64_t left = all_most;
    hk_status status = HK_OK;
    for (size_t i = 0; i < study->count && status == HK_OK; i++) {
        show_progress(study->candidates[i].algorithm->name);
        status = try_candidate(study, i, &left);
    }
    show_progress("");
    return status;
}

hk_status hki_sim_study_run(const hki_sim_request *request, hki_sim_study *study)
{
    *study = (hki_sim_study){.request = request};
    hk_status status = run(study);
    if (status != HK_OK)
        hki_sim_study_free(study);
    return status;
}

void hki_sim_study_free(hki_sim_study *study)
{
    for (size_t i = 0; i < study->count; i++) {
        hki_sim_path_free(&study->candidates[i].path);
        free(study->candidates[i].skipped);
    }
    free(study->candidates);
    hki_sim_free(study->sim);
    hki_cluster_free(study->cluster);
    *study = (hki_sim_study){0};
}

#include "bench/bench_inspect.h"

#include "algo/algo.h"
#include "base/error.h"
#include "comm/comm.h"
#include "comm/inspect.h"
#include "cost/explain.h"
#include "sim/sim.h"

#include <stdio.h>
#include <string.h>

const char *hki_bench_algorithm(void *comm)
{
    return hki_comm_last_algorithm((const hk_comm *)comm);
}

static bool complain(const hk_comm *comm, const hki_bench_cell *cell)
{
    fprintf(stderr, "hocket bench: rank %u: %s: %s\n", comm->rank, hki_bench_traits_of(cell->kind)->name,
            hk_last_error());
    return false;
}

/* The call as the entry point of the collective makes it. */
static hki_call call_of(const hk_comm *comm, const hki_bench_cell *cell, hki_collective collective)
{
    bool rooted = hki_bench_traits_of(cell->kind)->rooted;
    return (hki_call){.collective = collective,
                      .ranks = comm->size,
                      .root = rooted ? (uint32_t)cell->root : 0,
                      .segments = 1,
                      .commutative = true,
                      .levels = comm->cluster->levels};
}

/* Of the size itself: a choice is made for a class of sizes. */
static hki_question question_of(const hk_comm *comm, const hki_bench_cell *cell, hki_collective collective)
{
    const hki_call call = call_of(comm, cell, collective);
    hki_question question = hki_question_of(&call, cell->type, hki_op_class_of(cell->op), cell->bytes);
    question.bytes = cell->bytes;
    return question;
}

/* What is chosen, first, and then all others that can serve, each in the segments in which it would be. */
static hk_status find_candidates(hk_comm *comm, const hki_bench_cell *cell, hki_bench_candidates *all)
{
    hki_pricer *pricer = hki_chooser_pricer(comm->chooser);
    const hki_wishes *wishes = hki_chooser_wishes(comm->chooser);
    const hki_call call = call_of(comm, cell, all->collective);
    hki_op_class operators = hki_op_class_of(cell->op);
    hki_question question = hki_question_of(&call, cell->type, operators, cell->bytes);
    hki_candidate found[HKI_CANDIDATES_MOST], chosen = {.candidacy = HKI_PRICED};
    uint32_t count, segments;
    HK_TRY(hki_select(comm->chooser, &call, cell->type, operators, cell->bytes, &chosen.algorithm, &segments));
    chosen.segments = segments;
    HK_TRY(hki_candidates_find(pricer, wishes, &question, true, found, &count));
    all->items[all->count++] = chosen;
    for (uint32_t i = 0; i < count; i++)
        if (found[i].candidacy <= HKI_TOO_LONG &&
            (found[i].algorithm != chosen.algorithm || found[i].segments != chosen.segments))
            all->items[all->count++] = found[i];
    question = question_of(comm, cell, all->collective);
    for (int i = 0; i < all->count; i++)
        HK_TRY(hki_candidate_price(pricer, &question, all->items[i].segments, &all->items[i]));
    return HK_OK;
}

bool hki_bench_candidates_find(hk_comm *comm, const hki_bench_cell *cell, hki_bench_candidates *candidates)
{
    int collective = hki_collective_find(hki_bench_traits_of(cell->kind)->name);
    candidates->count = 0;
    if (collective < 0)
        return false;
    candidates->collective = (hki_collective)collective;
    return find_candidates(comm, cell, candidates) == HK_OK || complain(comm, cell);
}

void hki_bench_why(hk_comm *comm, const hki_bench_cell *cell, char *text, size_t room, double *predicted_us)
{
    hki_bench_candidates all;
    text[0] = '\0';
    *predicted_us = 0;
    if (comm->size < 2 || hki_bench_is_message(cell->kind) || !hki_bench_candidates_find(comm, cell, &all))
        return;
    const hki_candidate *next = NULL;
    for (int i = 1; i < all.count; i++)
        if (all.items[i].candidacy == HKI_PRICED && (!next || all.items[i].price.total_ps < next->price.total_ps))
            next = &all.items[i];
    hki_choice_reason(&all.items[0], next, text, room);
    *predicted_us = (double)all.items[0].price.total_ps / 1e6;
}

static hk_status simulate(hk_comm *comm, const hki_bench_cell *cell, hki_collective collective, double *us)
{
    static const uint64_t most_steps = 1 << 18;
    const hki_question question = question_of(comm, cell, collective);
    const hki_model model = {comm->cluster, &comm->context->figures, question.type, question.operators};
    const hki_sim_options options = {.most_steps = most_steps};
    hki_call call = question.call;
    const hki_algorithm *algorithm;
    hki_sim *sim;
    HK_TRY(hki_select(comm->chooser, &call, cell->type, hki_op_class_of(cell->op), cell->bytes, &algorithm,
                      &call.segments));
    hk_status status = hki_sim_run(&model, algorithm, &call, question.bytes, &options, &sim);
    if (status == HK_ERR_COUNT)
        return HK_OK;
    HK_TRY(status);
    *us = (double)sim->total_ps / 1e6;
    hki_sim_free(sim);
    return HK_OK;
}

double hki_bench_simulated(hk_comm *comm, const hki_bench_cell *cell)
{
    int collective = hki_collective_find(hki_bench_traits_of(cell->kind)->name);
    double us = 0;
    if (collective >= 0 && simulate(comm, cell, (hki_collective)collective, &us) != HK_OK)
        complain(comm, cell);
    return us;
}

bool hki_bench_algorithm_known(hki_bench_kind kind, const char *algorithm, char *known, size_t room)
{
    int collective = hki_collective_find(hki_bench_traits_of(kind)->name);
    if (collective >= 0 && hki_algorithm_find((hki_collective)collective, algorithm) != NULL)
        return true;
    size_t count, used = 0;
    const hki_algorithm *all = hki_algorithms(&count);
    snprintf(known, room, "none");
    for (size_t i = 0; i < count && used < room; i++)
        if (collective == (int)all[i].collective)
            used += (size_t)snprintf(known + used, room - used, "%s%s", used > 0 ? ", " : "", all[i].name);
    return false;
}

const char *hki_bench_transport(const hk_comm *comm, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (int rank = 0; rank < hk_comm_size(comm) && used < room; rank++) {
        const char *name = hki_comm_transport(comm, rank);
        if (strcmp(name, "self") != 0 && strstr(text, name) == NULL)
            used += (size_t)snprintf(text + used, room - used, "%s%s", used > 0 ? "+" : "", name);
    }
    return used > 0 ? text : "self";
}

/* What hocket explain finds out: prices of all candidates, and where the choice changes. */
#include "base/error.h"
#include "tools/explain.h"

#include <string.h>

/* Sizes for which crossovers are looked for: what `hocket bench` measures. */
static const uint64_t least_bytes = 8, most_bytes = UINT64_C(64) << 20;

static hki_call call_of(const hki_explanation *explanation)
{
    const hki_explain_request *request = explanation->request;
    return (hki_call){.collective = request->collective,
                      .ranks = explanation->cluster->rank_count,
                      .root = request->root,
                      .segments = 1,
                      .commutative = true,
                      .levels = explanation->cluster->levels};
}

static uint64_t bytes_of(const hki_explain_request *request)
{
    return request->collective == HKI_COLL_BARRIER ? 0 : request->bytes;
}

/* About a size itself, not its class; but for that as a choice is asked. */
static hki_question ask(const hki_explanation *explanation, uint64_t bytes)
{
    const hki_explain_request *request = explanation->request;
    const hki_call call = call_of(explanation);
    hki_question question = hki_question_of(&call, request->type, hki_op_class_of(request->op), bytes);
    if (!hki_size_is_private(request->collective))
        question.bytes = bytes;
    return question;
}

/* Puts what is chosen, in its number of segments, before the others. What is left of the same algorithm is another
 * number of segments, which is better for this size. */
static hk_status put_chosen_first(hki_explanation *explanation)
{
    hki_candidate *all = explanation->candidates, chosen = explanation->choice.candidates[0];
    uint32_t kept = 0, count = explanation->count;
    HK_TRY(hki_candidate_price(hki_chooser_pricer(explanation->chooser), &explanation->question, chosen.segments,
                               &chosen));
    for (uint32_t i = 0; i < count; i++)
        if (all[i].algorithm != chosen.algorithm ||
            (all[i].candidacy == HKI_PRICED && all[i].segments != chosen.segments))
            all[kept++] = all[i];
    memmove(all + 1, all, kept * sizeof *all);
    all[0] = chosen;
    explanation->count = kept + 1;
    return HK_OK;
}

/* What counts as the best is preferred to some that are cheaper by a trifle; behind what is chosen it has no place of
 * its own. */
static void order_others(hki_explanation *explanation)
{
    hki_candidate *all = explanation->candidates;
    for (uint32_t i = 2; i < explanation->count && all[i].candidacy == HKI_PRICED; i++)
        for (uint32_t k = i; k > 1 && all[k].price.total_ps < all[k - 1].price.total_ps; k--) {
            hki_candidate moved = all[k];
            all[k] = all[k - 1];
            all[k - 1] = moved;
        }
}

static hk_status price(hki_explanation *explanation)
{
    const hki_explain_request *request = explanation->request;
    const hki_call call = call_of(explanation);
    hki_op_class operators = hki_op_class_of(request->op);
    HK_TRY(hki_chooser_new(explanation->cluster, &request->figures, &explanation->chooser));
    HK_TRY(hki_choose(explanation->chooser, &call, request->type, operators, bytes_of(request), &explanation->choice));
    explanation->question = ask(explanation, bytes_of(request));
    HK_TRY(hki_candidates_find(hki_chooser_pricer(explanation->chooser), hki_chooser_wishes(explanation->chooser),
                               &explanation->question, true, explanation->candidates, &explanation->count));
    HK_TRY(put_chosen_first(explanation));
    order_others(explanation);
    return hki_crossovers_find(explanation->chooser, &call, request->type, operators, least_bytes, most_bytes,
                               explanation->crossovers, &explanation->crossover_count);
}

static hk_status study(hki_explanation *explanation)
{
    const hki_explain_request *request = explanation->request;
    HK_TRY(hki_explain_cluster(request, &explanation->cluster));
    uint32_t ranks = explanation->cluster->rank_count;
    if (request->root >= ranks)
        return hki_error(HK_ERR_ARGUMENT, "there is no root %u among %u rank%s", request->root, ranks,
                         ranks == 1 ? "" : "s");
    if (request->rank >= ranks)
        return hki_error(HK_ERR_ARGUMENT, "there is no rank %u among %u rank%s", request->rank, ranks,
                         ranks == 1 ? "" : "s");
    return price(explanation);
}

hk_status hki_explain(const hki_explain_request *request, hki_explanation *explanation)
{
    *explanation = (hki_explanation){.request = request};
    hk_status status = study(explanation);
    if (status != HK_OK)
        hki_explanation_free(explanation);
    return status;
}

hk_status hki_explain_size(const hki_explanation *explanation, uint64_t bytes,
                           hki_candidate candidates[HKI_CANDIDATES_MOST], uint32_t *count)
{
    hki_question question = ask(explanation, bytes);
    return hki_candidates_find(hki_chooser_pricer(explanation->chooser), hki_chooser_wishes(explanation->chooser),
                               &question, true, candidates, count);
}

void hki_explanation_free(hki_explanation *explanation)
{
    hki_chooser_free(explanation->chooser);
    hki_cluster_free(explanation->cluster);
    *explanation = (hki_explanation){0};
}

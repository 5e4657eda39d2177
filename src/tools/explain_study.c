/* What hocket explain finds out: prices of all candidates, and where the choice changes. */
#include "base/error.h"
#include "base/settings.h"
#include "cost/select.h"
#include "tools/explain.h"

#include <string.h>

/* Sizes for which crossovers are looked for: what `hocket bench` measures. */
static const uint64_t least_bytes = 8, most_bytes = UINT64_C(64) << 20;

static hki_question ask(const hki_explanation *explanation, uint64_t bytes)
{
    const hki_explain_request *request = explanation->request;
    const hki_call call = {.collective = request->collective,
                           .ranks = explanation->cluster->rank_count,
                           .root = request->root,
                           .segments = 1,
                           .commutative = true,
                           .levels = explanation->cluster->levels};
    if (request->collective == HKI_COLL_BARRIER)
        bytes = 0;
    return hki_question_of(&call, request->type, hki_op_class_of(request->op), bytes);
}

/* What HOCKET_ALGORITHM forces comes first, as it does in a job. */
static void put_forced_first(hki_explanation *explanation)
{
    hki_candidate *all = explanation->candidates;
    const hki_algorithm *forced =
        hki_wishes_forced(&explanation->wishes, explanation->request->collective, explanation->question.bytes);
    for (uint32_t i = 0; forced && i < explanation->count; i++)
        if (all[i].algorithm == forced) {
            hki_candidate moved = all[i];
            memmove(all + 1, all, i * sizeof *all);
            all[0] = moved;
        }
}

static hk_status price(hki_explanation *explanation)
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
    HK_TRY(hki_wishes_read(hki_setting_text(HKI_SET_ALGORITHM), &explanation->wishes));
    HK_TRY(hki_pricer_new(explanation->cluster, &request->figures, &explanation->pricer));
    explanation->question = ask(explanation, request->bytes);
    HK_TRY(hki_candidates_find(explanation->pricer, &explanation->wishes, &explanation->question, true,
                               explanation->candidates, &explanation->count));
    put_forced_first(explanation);
    return hki_crossovers_find(explanation->pricer, &explanation->wishes, &explanation->question, least_bytes,
                               most_bytes, explanation->crossovers, &explanation->crossover_count);
}

hk_status hki_explain(const hki_explain_request *request, hki_explanation *explanation)
{
    *explanation = (hki_explanation){.request = request};
    hk_status status = price(explanation);
    if (status != HK_OK)
        hki_explanation_free(explanation);
    return status;
}

hk_status hki_explain_size(const hki_explanation *explanation, uint64_t bytes,
                           hki_candidate candidates[HKI_CANDIDATES_MOST], uint32_t *count)
{
    hki_question question = ask(explanation, bytes);
    return hki_candidates_find(explanation->pricer, &explanation->wishes, &question, true, candidates, count);
}

void hki_explanation_free(hki_explanation *explanation)
{
    hki_pricer_free(explanation->pricer);
    hki_wishes_free(&explanation->wishes);
    hki_cluster_free(explanation->cluster);
    *explanation = (hki_explanation){0};
}

#include "cost/candidate.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "cost/contest.h"

enum {
    PIECE_LEAST = 4096, /* bytes: shorter pieces of a pipeline cost more to start than to move */
    /* The same with more ranks than cores on one host: 1 MiB down a chain of 4 ranks on 2 cores took 190 µs in pieces
     * of 16 KiB, which wait for slots, and 104 in pieces of 64 KiB, which are asked for. */
    CROWDED_PIECE_LEAST = 65536,
    SEGMENTS_MOST = 64,
    /* Ranks up to which algorithms may connect everyone with everyone. Connections cost memory and their making, once,
     * far more than a round of a small call: a first barrier of 128 ranks took 6 s so, and 0.3 s in log P rounds. */
    SPRAWL_MOST = 16,
    /* Ranks of a crowded host up to which a barrier's signals may go abreast. A barrier of 128 ranks on 2 cores by
     * rounds of three signals took 1.6 to 1.9 ms, the first 90, and the job 0.56 to 0.72 s; by rounds of one 1.1 to 1.2
     * ms, 70, and 0.44 to 0.47 s, with 7 connections a rank instead of 12. Of 32 ranks they take the same. */
    ABREAST_MOST = 32,
    EQUAL_PERCENT = 2, /* prices that differ by no more are equal */
    GAIN_PERCENT = 3 /* that more segments must bring: they cost a rank messages, which weigh more than a price tells */
};

/* Calls among hosts are cut in pieces of so long, if that costs nothing by their price: while a piece is on a slow
 * link, hosts do their own part of others, which takes longer than any price says on hosts that are busy. 16 MiB among
 * 2 hosts of 2 ranks, on a machine of 2 cores that worked on something else, took 167, 160, 152 and 159 ms over 1
 * Gbit/s in 1, 4, 16 and 64 segments, prices of which differ by 0.2 %. */
static const uint64_t long_piece_ps = 4000000000;

bool hki_candidate_hides(const hki_pricer *pricer, uint64_t call_ps, uint32_t segments)
{
    return hki_pricer_cluster(pricer)->host_count > 1 && call_ps / segments >= long_piece_ps;
}

/* What its pipeline cuts: every rank's share, that of each rank of a host, or the whole. */
static uint64_t piece(const hki_cluster *cluster, const hki_algorithm *algorithm, const hki_question *question)
{
    uint32_t shares = algorithm->alike    ? question->call.ranks
                      : algorithm->sliced ? cluster->hosts[cluster->seats[0].host].ranks
                                          : 1;
    return question->bytes / shares;
}

/* One host, and more ranks than cores. */
static bool is_crowded(const hki_pricer *pricer)
{
    const hki_cluster *cluster = hki_pricer_cluster(pricer);
    return cluster->host_count == 1 && cluster->hosts[0].ranks > cluster->hosts[0].capacity;
}

static uint64_t least_piece(const hki_pricer *pricer)
{
    return is_crowded(pricer) ? CROWDED_PIECE_LEAST : PIECE_LEAST;
}

uint32_t hki_candidate_finest(const hki_pricer *pricer, const hki_question *question, const hki_algorithm *algorithm)
{
    uint32_t segments = 1;
    while (algorithm->segmented && segments < SEGMENTS_MOST &&
           piece(hki_pricer_cluster(pricer), algorithm, question) / (segments * HKI_FINER) >= least_piece(pricer))
        segments *= HKI_FINER;
    return segments;
}

bool hki_candidate_gains(uint64_t fewer_ps, uint64_t more_ps)
{
    return more_ps <= fewer_ps / 100 * (100 - GAIN_PERCENT);
}

/* Prices one number of segments. *too_long: it has too many steps. */
static hk_status price(hki_pricer *pricer, const hki_question *question, const hki_algorithm *algorithm,
                       uint32_t segments, hki_price *result, bool *too_long)
{
    hki_call call = question->call;
    call.segments = segments;
    hk_status status =
        hki_pricer_price(pricer, algorithm, &call, question->type, question->operators, question->bytes, result);
    *too_long = status == HK_ERR_UNSUPPORTED;
    return *too_long ? HK_OK : status;
}

/* In the best number of segments. */
static hk_status refine(hki_pricer *pricer, const hki_question *question, hki_candidate *candidate)
{
    uint32_t most = hki_candidate_finest(pricer, question, candidate->algorithm);
    for (uint32_t more = HKI_FINER; more <= most; more *= HKI_FINER) {
        bool too_long;
        hki_price other;
        HK_TRY(price(pricer, question, candidate->algorithm, more, &other, &too_long));
        if (too_long)
            break;
        if (!hki_candidate_gains(candidate->price.total_ps, other.total_ps))
            continue;
        candidate->price = other;
        candidate->segments = more;
    }
    return HK_OK;
}

hk_status hki_candidate_price(hki_pricer *pricer, const hki_question *question, uint32_t segments,
                              hki_candidate *candidate)
{
    const hki_algorithm *algorithm = candidate->algorithm;
    bool too_long;
    candidate->segments = algorithm->segmented && segments ? segments : 1;
    HK_TRY(price(pricer, question, algorithm, candidate->segments, &candidate->price, &too_long));
    candidate->candidacy = too_long ? HKI_TOO_LONG : HKI_PRICED;
    if (too_long || segments || !algorithm->segmented)
        return HK_OK;
    return refine(pricer, question, candidate);
}

hk_status hki_segments_find(const hki_model *model, const hki_algorithm *algorithm, const hki_call *call,
                            uint64_t bytes, uint32_t *segments)
{
    hki_pricer *pricer = NULL;
    hki_candidate candidate = {.algorithm = algorithm};
    const hki_question question = {.call = *call, .type = model->type, .operators = model->operators, .bytes = bytes};
    HK_TRY(hki_pricer_new(model->cluster, model->figures, &pricer));
    hk_status status = hki_candidate_price(pricer, &question, 0, &candidate);
    hki_pricer_free(pricer);
    if (status == HK_OK)
        *segments = candidate.candidacy == HKI_PRICED ? candidate.segments : 1;
    return status;
}

/* ---- all ---- */

/* Of equals the first in algos.def is first. */
static bool better(const hki_candidate *a, const hki_candidate *b)
{
    if (a->candidacy != b->candidacy)
        return a->candidacy < b->candidacy;
    if (a->candidacy == HKI_PRICED)
        return a->price.total_ps != b->price.total_ps ? a->price.total_ps < b->price.total_ps
                                                      : a->algorithm < b->algorithm;
    return a->form_ps < b->form_ps;
}

/* Stable. */
static void sort(hki_candidate *candidates, uint32_t count,
                 bool (*comes_before)(const hki_candidate *, const hki_candidate *))
{
    for (uint32_t i = 1; i < count; i++) {
        hki_candidate moved = candidates[i];
        uint32_t k = i;
        for (; k > 0 && comes_before(&moved, &candidates[k - 1]); k--)
            candidates[k] = candidates[k - 1];
        candidates[k] = moved;
    }
}

/* Sets aside the algorithms by which some rank would connect to all of many others, if there are any that do not. */
static void spare_connections(hki_candidate *candidates, uint32_t count, uint32_t ranks)
{
    bool others = false;
    for (uint32_t i = 0; i < count; i++)
        others = others || (candidates[i].candidacy == HKI_PRICED && !candidates[i].algorithm->sprawls);
    for (uint32_t i = 0; i < count && others && ranks > SPRAWL_MOST; i++) {
        if (candidates[i].candidacy != HKI_PRICED || !candidates[i].algorithm->sprawls)
            continue;
        candidates[i].candidacy = HKI_SPRAWLING;
        candidates[i].why = "some rank would connect to all others, of which there are more than 15";
    }
}

/* Sets aside barriers with several signals a round where each is a turn of ranks that share a core, and a connection.
 */
static void spare_signals(const hki_pricer *pricer, hki_candidate *candidates, uint32_t count, const hki_call *call)
{
    if (call->collective != HKI_COLL_BARRIER || call->ranks <= ABREAST_MOST || !is_crowded(pricer))
        return;
    for (uint32_t i = 0; i < count; i++)
        if (candidates[i].candidacy == HKI_PRICED && candidates[i].algorithm->abreast > 1) {
            candidates[i].candidacy = HKI_SPRAWLING;
            candidates[i].why = "ranks share cores: each of several signals a round would be a turn, and a connection";
        }
}

/* Lists the collective's algorithms and says of each whether it may be asked at all. */
static uint32_t list(const hki_pricer *pricer, const hki_wishes *wishes, const hki_question *question,
                     hki_candidate *candidates)
{
    size_t all_count;
    uint32_t count = 0;
    const hki_algorithm *all = hki_algorithms(&all_count);
    for (size_t i = 0; i < all_count && count < HKI_CANDIDATES_MOST; i++) {
        if (all[i].collective != question->call.collective)
            continue;
        hki_candidate *candidate = &candidates[count++];
        *candidate = (hki_candidate){.algorithm = &all[i], .segments = 1};
        hki_call call = question->call;
        call.segments = 1;
        candidate->why = hki_algorithm_refuses(&all[i], &call);
        if (!candidate->why && all[i].hierarchical && !call.levels)
            candidate->why = "all ranks are equally near each other, so that it would be a flat algorithm over again";
        if (candidate->why)
            candidate->candidacy = HKI_REFUSING;
        else if (hki_wishes_forbid(wishes, &all[i], question->wished_bytes))
            candidate->candidacy = HKI_FORBIDDEN;
        call.segments = hki_candidate_finest(pricer, question, &all[i]);
        if (candidate->candidacy == HKI_PRICED)
            candidate->form_ps = hki_pricer_form(pricer, &all[i], &call, question->bytes);
    }
    spare_connections(candidates, count, question->call.ranks);
    spare_signals(pricer, candidates, count, &question->call);
    return count;
}

/* By the textbook's form; without one, those that were walked. */
static double rounds_of(const hki_candidate *candidate, const hki_call *call)
{
    double rounds = call->ranks > 1 ? candidate->algorithm->rounds(call) : 0;
    return isnan(rounds) ? candidate->price.rounds : rounds;
}

/* What prices know too little of: how often a rank has to turn to something else. Weights are fitted to what 4 and 8
 * ranks on 2 cores took for 1 MiB where prices tie: all-reduce rabenseifner 194 and 429 µs, knomial 230 and 491, direct
 * 238 and 554; all-gather direct 237 and neighbour_exchange 293. */
static double trouble(const hki_candidate *candidate, const hki_call *call)
{
    bool reduces = hki_collective_reduces(call->collective); /* a message is then a reduction as well */
    return (reduces ? 3.0 : 2.0) * candidate->price.messages_sent + (reduces ? 2.0 : 3.0) * rounds_of(candidate, call);
}

/* Whether a call can be cut in so many pieces as hide what hosts do. */
static bool can_hide(const hki_pricer *pricer, const hki_question *question, const hki_candidate *candidate,
                     uint32_t segments)
{
    return hki_candidate_hides(pricer, candidate->price.total_ps, segments) &&
           segments <= hki_candidate_finest(pricer, question, candidate->algorithm);
}

/* Whether the one has less that can go wrong: it can hide what hosts do; it has fewer segments, then fewer messages and
 * rounds; then it is the first in algos.def. */
static bool simpler(const hki_pricer *pricer, const hki_question *question, const hki_candidate *a,
                    const hki_candidate *b)
{
    bool hides_a = can_hide(pricer, question, a, HKI_FINER), hides_b = can_hide(pricer, question, b, HKI_FINER);
    if (hides_a != hides_b)
        return hides_a;
    if (a->segments != b->segments)
        return a->segments < b->segments;
    double trouble_a = trouble(a, &question->call), trouble_b = trouble(b, &question->call);
    return trouble_a < trouble_b || (!(trouble_b < trouble_a) && a->algorithm < b->algorithm);
}

/* Of those that are as good as the best, for all that a model can tell, the simplest comes first: choices change no
 * more often than they must. */
static void prefer_simple(const hki_pricer *pricer, const hki_question *question, hki_candidate *candidates,
                          uint32_t count)
{
    uint32_t first = 0;
    for (uint32_t i = 1; i < count && candidates[i].candidacy == HKI_PRICED; i++) {
        const hki_candidate *one = &candidates[i];
        if (one->price.total_ps > candidates[0].price.total_ps / 100 * (100 + EQUAL_PERCENT))
            break;
        if (simpler(pricer, question, one, &candidates[first]))
            first = i;
    }
    hki_candidate preferred = candidates[first];
    memmove(candidates + 1, candidates, first * sizeof *candidates);
    candidates[0] = preferred;
}

/* Cuts what comes first in pieces that hide what hosts do, while that takes no longer, and is not long to walk. */
static hk_status hide_hosts(hki_pricer *pricer, const hki_question *question, hki_candidate *first)
{
    enum { STEPS_MOST = 2000, NO_LONGER_PERMILLE = 1005 };
    uint64_t one_ps = first->price.total_ps / 1000 * NO_LONGER_PERMILLE, steps = first->price.effort / first->segments;
    hki_candidate finer = *first;
    while (can_hide(pricer, question, first, finer.segments * HKI_FINER) &&
           steps * finer.segments * HKI_FINER <= STEPS_MOST) {
        HK_TRY(hki_candidate_price(pricer, question, finer.segments * HKI_FINER, &finer));
        if (finer.candidacy != HKI_PRICED || finer.price.total_ps > one_ps)
            break;
        *first = finer;
    }
    return HK_OK;
}

hk_status hki_candidates_find(hki_pricer *pricer, const hki_wishes *wishes, const hki_question *question, bool fully,
                              hki_candidate candidates[HKI_CANDIDATES_MOST], uint32_t *result)
{
    uint32_t count = list(pricer, wishes, question, candidates);
    if (!fully)
        HK_TRY(hki_contest(pricer, question, candidates, count));
    for (uint32_t i = 0; i < count && fully; i++)
        if (candidates[i].candidacy == HKI_PRICED)
            HK_TRY(hki_candidate_price(pricer, question, 0, &candidates[i]));
    sort(candidates, count, better);
    prefer_simple(pricer, question, candidates, count);
    *result = count;
    return count > 0 && candidates[0].candidacy == HKI_PRICED ? hide_hosts(pricer, question, &candidates[0]) : HK_OK;
}

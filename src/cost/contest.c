#include "cost/contest.h"

#include <math.h>

#include "base/error.h"
#include "cost/lower_bound.h"
#include "cost/sample.h"

enum {
    TRIES_MOST = 4,     /* 1, 4, 16, 64 segments */
    FEWER_PERCENT = 80, /* of what more segments take beside latencies is the least that fewer do */
    FORM_PERCENT = 75,  /* of the textbook's form, which a walk may be quicker than, is a bound */
    WORTH_PERCENT = 95, /* of a price, which is no more exact: what cannot be less is not worth a walk */
    DELAY_STEPS = 1024  /* of two bounds that are equal, what is so many steps longer comes as if twice as much */
};

/* What is told of more segments is no bound: some prices are a fifth lower, most are higher. The more steps a try
 * walks, the more it has to promise, and the later it comes. Fitted to choices among 8 to 256 ranks, so that they are
 * what all prices would make them, or within 5 % of it. */
typedef struct effort {
    uint64_t steps;
    uint32_t percent; /* of what is told beyond that which any algorithm takes */
    uint32_t whole;   /* percent: of all that */
    uint32_t delay;   /* percent: comes after what promises so many times as long */
} effort;
/* In one segment: a bound tells only for how long something is occupied, so that what is long to walk has to be better
 * by it than by a price. */
static const effort first_efforts[] = {
    {800, 100, 100, 100}, {1200, 125, 100, 100}, {4200, 160, 100, 100}, {UINT64_MAX, 250, 103, 100}};
static const effort efforts[] = {{800, 85, 100, 100},
                                 {1200, 100, 100, 115},
                                 {4200, 106, 100, 150},
                                 {8400, 180, 115, 200},
                                 {UINT64_MAX, 250, 115, 300}};

static const effort *find_effort(const effort *from, uint64_t steps)
{
    while (steps > from->steps)
        from++;
    return from;
}

typedef enum stage { BY_FORM, BY_BOUND, BY_PRICE, OVER } stage;

typedef struct entrant {
    hki_candidate *candidate;
    stage stage;          /* by which least_ps is told */
    uint64_t least_ps;    /* of all that can still be tried */
    uint64_t occupied_ps; /* hki_lower_bound_find, and by any algorithm */
    uint64_t chain_ps;    /* of rounds that wait for one another */
    uint64_t steps;       /* of all ranks in one segment, about */
    uint64_t walked;      /* of them, for a price */
    double sends;         /* in the most segments, as a part of what it sends in one */
    hki_price prices[TRIES_MOST];
    bool tried[TRIES_MOST];
    uint32_t tries, next; /* how many there are; which is next */
} entrant;

typedef struct contest {
    hki_pricer *pricer;
    const hki_question *question;
    hki_model model;
    hki_builder *writer;
    uint64_t any_ps; /* no algorithm takes less */
    uint64_t best_ps;
    entrant entrants[HKI_CANDIDATES_MOST];
    uint32_t count;
} contest;

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t percent_of(uint64_t ps, uint32_t percent)
{
    return ps / 100 * percent;
}

/* By more than prices tell apart. */
static bool is_less(uint64_t ps, uint64_t than_ps)
{
    return ps <= percent_of(than_ps, WORTH_PERCENT);
}

/* What has to be less than the best for what is told to be worth the effort. */
static uint64_t weigh(const contest *c, uint64_t ps, const effort *of)
{
    uint64_t beyond = ps > c->any_ps ? ps - c->any_ps : 0;
    return percent_of(c->any_ps + percent_of(beyond, of->percent), of->whole);
}

/* Steps of a walk as they count against others: among more ranks a choice may take longer. */
static uint64_t relative(const contest *c, uint64_t steps)
{
    enum { FEW = 64, MANY = 128 };
    uint32_t ranks = c->question->call.ranks < MANY ? c->question->call.ranks : MANY;
    return ranks > FEW ? steps * FEW / ranks : steps;
}

/* Whether an entrant may still be the best, and so much quicker that it is worth its walk. */
static bool is_worth(const contest *c, const entrant *e)
{
    if (e->stage == OVER || !is_less(larger(e->least_ps, e->chain_ps), c->best_ps))
        return false;
    return e->stage != BY_BOUND ||
           is_less(weigh(c, e->least_ps, find_effort(first_efforts, relative(c, e->walked))), c->best_ps);
}

static uint32_t segments_of(uint32_t try)
{
    return 1u << 2 * try;
}
_Static_assert(HKI_FINER == 1 << 2, "a try has so many times the segments of the one before");

/* How much of what it sends in one segment an algorithm still sends in the most; at most 1. */
static double sends_of(const contest *c, const hki_algorithm *algorithm, uint32_t segments)
{
    hki_call call = c->question->call;
    if (call.ranks < 2 || segments == 1)
        return 1;
    call.segments = 1;
    double one = algorithm->sent(&call);
    call.segments = segments;
    double many = algorithm->sent(&call);
    return many < one ? many / one : 1; /* not when one is not a number */
}

static void enter(contest *c, hki_candidate *candidate)
{
    entrant *e = &c->entrants[c->count++];
    uint32_t finest = hki_candidate_finest(c->pricer, c->question, candidate->algorithm);
    *e = (entrant){.candidate = candidate,
                   .least_ps = larger(percent_of(candidate->form_ps, FORM_PERCENT), c->any_ps),
                   .sends = sends_of(c, candidate->algorithm, finest),
                   .tries = 1};
    while (e->tries < TRIES_MOST && segments_of(e->tries) <= finest)
        e->tries++;
    candidate->candidacy = HKI_OUTRUN; /* until it is priced */
}

/* Of a try of more than one segment. */
static const effort *effort_of(const contest *c, const entrant *e, uint32_t try)
{
    const hki_algorithm *algorithm = e->candidate->algorithm;
    hki_call call = c->question->call;
    call.segments = segments_of(try);
    uint64_t times = hki_price_segments(&call), steps = e->prices[0].effort * times;
    if (algorithm->alike && algorithm->alike(&call) != HKI_UNLIKE &&
        steps > HKI_SAMPLE_FULLY) /* some ranks stand for all then */
        steps = 2 * e->steps / call.ranks * times;
    return find_effort(efforts, relative(c, steps));
}

/* What comes with every message, however short. */
static uint64_t latency_of(const hki_price *price)
{
    return price->alpha_ps + price->turns_ps;
}

/* What more segments take, as a price in one tells: latency stays, or gets less as smaller messages have less; the rest
 * is divided, but what occupies something all the while is not. */
static uint64_t expect(const contest *c, const entrant *e, uint32_t try)
{
    const hki_price *one = &e->prices[0];
    uint32_t segments = segments_of(try);
    uint64_t message = one->messages_sent ? one->bytes_sent / one->messages_sent : 0;
    uint64_t first = latency_of(one),
             latency = percent_of(first, hki_pricer_latency_percent(c->pricer, message, message / segments));
    return latency + (one->total_ps - first) / segments + e->occupied_ps - e->occupied_ps / segments;
}

/* What fewer segments take at the least, as a price in more tells: latencies get less, the rest hardly. */
static uint64_t at_least(const hki_price *in_more, uint32_t times)
{
    uint64_t latency = latency_of(in_more);
    return percent_of(in_more->total_ps - latency, FEWER_PERCENT) + latency / times;
}

/* The least that is to be expected of a try: what takes longer than expected in some segments does so in more. What
 * any algorithm takes is sure, and nothing is less. */
static uint64_t promise(const contest *c, const entrant *e, uint32_t try)
{
    uint64_t ps = expect(c, e, try);
    for (uint32_t i = 1; i < try; i++)
        if (e->tried[i]) {
            uint64_t expected = expect(c, e, i), real = e->prices[i].total_ps;
            if (real > expected && expected)
                ps += (uint64_t)((double)ps * (double)(real - expected) / (double)expected);
        }
    for (uint32_t i = try + 1; i < e->tries; i++)
        if (e->tried[i])
            ps = larger(ps, at_least(&e->prices[i], segments_of(i) / segments_of(try)));
    return weigh(c, ps, effort_of(c, e, try));
}

/* What is to be tried next: of all that promise about as much as the best the fewest segments. */
static void look_ahead(const contest *c, entrant *e)
{
    uint64_t least = UINT64_MAX;
    uint64_t promises[TRIES_MOST];
    for (uint32_t i = 1; i < e->tries; i++) {
        promises[i] = e->tried[i] ? UINT64_MAX : promise(c, e, i);
        if (segments_of(i) > e->candidate->segments && !is_less(promises[i], e->candidate->price.total_ps))
            promises[i] = UINT64_MAX;
        least = promises[i] < least ? promises[i] : least;
    }
    e->stage = least == UINT64_MAX ? OVER : BY_PRICE;
    e->least_ps = least;
    e->next = 1;
    while (e->stage == BY_PRICE && promises[e->next] != least && is_less(least, promises[e->next]))
        e->next++;
}

/* Of all tries the one with the fewest segments of which none with more gains on it. */
static void settle(entrant *e)
{
    hki_candidate *candidate = e->candidate;
    uint32_t kept = UINT32_MAX;
    for (uint32_t i = 0; i < e->tries; i++)
        if (e->tried[i] && (kept == UINT32_MAX || hki_candidate_gains(e->prices[kept].total_ps, e->prices[i].total_ps)))
            kept = i;
    candidate->price = e->prices[kept];
    candidate->segments = segments_of(kept);
    candidate->candidacy = HKI_PRICED;
}

/* More than this is of no use: that of a price in one segment is to tell what more would take. */
static uint64_t limit_of(const contest *c, const entrant *e)
{
    bool is_last = e->next + 1 == e->tries;
    return is_last && c->best_ps != UINT64_MAX ? c->best_ps + c->best_ps / 100 * (100 - WORTH_PERCENT) : UINT64_MAX;
}

static void note(contest *c, entrant *e, const hki_price *price)
{
    e->prices[e->next] = *price;
    e->tried[e->next] = true;
    settle(e);
    if (price->total_ps < c->best_ps)
        c->best_ps = price->total_ps;
}

static hk_status try_next(contest *c, entrant *e)
{
    hki_candidate one = *e->candidate;
    hki_pricer_limit(c->pricer, limit_of(c, e));
    hk_status status = hki_candidate_price(c->pricer, c->question, segments_of(e->next), &one);
    hki_pricer_limit(c->pricer, UINT64_MAX);
    HK_TRY(status);
    if (one.candidacy == HKI_TOO_LONG || one.price.total_ps == HKI_PRICE_BEYOND) {
        if (e->next == 0 && one.candidacy == HKI_TOO_LONG)
            e->candidate->candidacy = HKI_TOO_LONG;
        e->tries = e->next; /* more segments would be longer */
    } else {
        note(c, e, &one.price);
    }
    if (e->tries > 0)
        look_ahead(c, e);
    else
        e->stage = OVER;
    return HK_OK;
}

/* Folded ranks are walked by all, unless they are very many. */
static bool is_walked_by_few(const contest *c, const hki_algorithm *algorithm)
{
    const hki_call *call = &c->question->call;
    hki_alike alike = hki_sample_alike(algorithm, call);
    bool folded = alike == HKI_ALIKE_IN_PAIRS && (call->ranks & (call->ranks - 1)) != 0;
    return (alike != HKI_UNLIKE && !folded) || hki_price_is_sum(c->model.cluster, algorithm, call, c->question->bytes);
}

static hk_status find_bound(contest *c, entrant *e)
{
    const hki_algorithm *algorithm = e->candidate->algorithm;
    hki_lower_bound bound;
    HK_TRY(hki_lower_bound_find(&c->model, algorithm, &c->question->call, c->question->bytes, &c->writer, &bound));
    e->steps = bound.steps;
    e->chain_ps = bound.chain_ps;
    e->walked = is_walked_by_few(c, algorithm) ? bound.steps / c->question->call.ranks : bound.steps;
    e->occupied_ps = larger((uint64_t)((double)bound.least_ps * e->sends), c->any_ps);
    e->least_ps = larger(e->least_ps, e->occupied_ps);
    e->stage = BY_BOUND;
    return HK_OK;
}

/* In which order entrants come: what promises most first, but for what is much to walk, and what cannot be cut where
 * that is to hide what hosts do: who comes second has to be better by more than prices tell apart. */
static uint64_t turn_of(const contest *c, const entrant *e)
{
    enum { UNCUT_PERCENT = 125 };
    if (e->stage == BY_PRICE)
        return percent_of(e->least_ps, effort_of(c, e, e->next)->delay);
    if (e->stage == BY_FORM)
        return e->least_ps;
    uint64_t turn = e->least_ps + e->least_ps / DELAY_STEPS * e->walked;
    bool uncut = e->tries == 1 && hki_candidate_hides(c->pricer, c->any_ps, HKI_FINER);
    return uncut ? percent_of(turn, UNCUT_PERCENT) : turn;
}

/* Who comes next; NULL: nobody who could be quicker than the best. */
static entrant *find_next(contest *c)
{
    entrant *next = NULL;
    for (uint32_t i = 0; i < c->count; i++) {
        entrant *e = &c->entrants[i];
        if (is_worth(c, e) && (!next || turn_of(c, e) < turn_of(c, next)))
            next = e;
    }
    return next;
}

static hk_status hold(contest *c)
{
    for (entrant *e = find_next(c); e; e = find_next(c))
        HK_TRY(e->stage == BY_FORM ? find_bound(c, e) : try_next(c, e));
    return HK_OK;
}

hk_status hki_contest(hki_pricer *pricer, const hki_question *question, hki_candidate *candidates, uint32_t count)
{
    contest c = {.pricer = pricer,
                 .question = question,
                 .model = {hki_pricer_cluster(pricer), hki_pricer_figures(pricer), question->type, question->operators},
                 .best_ps = UINT64_MAX};
    c.any_ps = hki_lower_bound_of_any(&c.model, &question->call, question->bytes);
    for (uint32_t i = 0; i < count; i++)
        if (candidates[i].candidacy == HKI_PRICED)
            enter(&c, &candidates[i]);
    hk_status status = hold(&c);
    hki_builder_free(c.writer);
    return status;
}

#include "cost/explain.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

static double microseconds(uint64_t ps)
{
    return (double)ps / 1e6;
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static size_t put_candidate(const hki_candidate *candidate, char *text, size_t room)
{
    int length = snprintf(text, room, "%s", candidate->algorithm->name);
    if (candidate->segments > 1)
        length += snprintf(text + length, room - (size_t)length, " in %u segments", candidate->segments);
    if (candidate->price.total_ps)
        length += snprintf(text + length, room - (size_t)length, ", %.4g us", microseconds(candidate->price.total_ps));
    return (size_t)length;
}

const char *hki_choice_reason(const hki_candidate *best, const hki_candidate *next, char *text, size_t room)
{
    const hki_price *price = &best->price;
    char first[128], second[128] = "";
    size_t used = put_candidate(best, first, sizeof first);
    if (!price->total_ps)
        snprintf(first + used, sizeof first - used, ", not priced");
    else
        snprintf(first + used, sizeof first - used, ": alpha %.0f, beta %.0f, gamma %.0f, contention %.0f %%",
                 percent(price->alpha_ps, price->total_ps), percent(price->beta_ps, price->total_ps),
                 percent(price->gamma_ps, price->total_ps), percent(price->contention_ps, price->total_ps));
    if (next && next->candidacy == HKI_PRICED)
        put_candidate(next, second, sizeof second);
    snprintf(text, room, "%s%s%s", first, second[0] ? "; next " : "", second);
    return text;
}

const char *hki_choice_text(const hki_choice *choice, char *text, size_t room)
{
    const hki_question *question = &choice->question;
    const hki_candidate *all = choice->candidates;
    char reason[HKI_CHOICE_TEXT], size[40] = "";
    if (question->call.collective != HKI_COLL_BARRIER)
        snprintf(size, sizeof size, " of %llu bytes", (unsigned long long)question->bytes);
    snprintf(text, room, "%s%s on %u rank%s: %s", hki_collective_name(question->call.collective), size,
             question->call.ranks, question->call.ranks == 1 ? "" : "s",
             hki_choice_reason(&all[0], choice->count > 1 ? &all[1] : NULL, reason, sizeof reason));
    return text;
}

/* ---- crossovers ---- */

typedef struct search {
    hki_chooser *chooser;
    const hki_call *call;
    hk_type type;
    hki_op_class operators;
    hki_crossover *found;
    uint32_t count;
} search;

static hk_status look(const search *s, uint32_t size_class, hki_crossover *result)
{
    hki_choice choice;
    uint64_t bytes = hki_size_class_least(size_class);
    *result = (hki_crossover){.bytes = bytes};
    hk_status status = hki_choose(s->chooser, s->call, s->type, s->operators, bytes, &choice);
    if (status == HK_ERR_UNSUPPORTED)
        return HK_OK;
    HK_TRY(status);
    const hki_candidate *best = &choice.candidates[0];
    *result = (hki_crossover){bytes, best->algorithm, best->segments, best->price.total_ps};
    return HK_OK;
}

static bool same(const hki_crossover *a, const hki_crossover *b)
{
    return a->algorithm == b->algorithm && a->segments == b->segments;
}

static void note(search *s, const hki_crossover *choice)
{
    if ((s->count == 0 || !same(&s->found[s->count - 1], choice)) && s->count < HKI_CROSSOVERS_MOST)
        s->found[s->count++] = *choice;
}

/* Notes the classes behind `first` up to `last`, one by one only where the ends differ. */
static hk_status note_step(search *s, uint32_t first, uint32_t last)
{
    hki_crossover end, between;
    HK_TRY(look(s, last, &end));
    for (uint32_t i = first + 1; i < last && !same(&s->found[s->count - 1], &end); i++) {
        HK_TRY(look(s, i, &between));
        note(s, &between);
    }
    note(s, &end);
    return HK_OK;
}

hk_status hki_crossovers_find(hki_chooser *chooser, const hki_call *call, hk_type type, hki_op_class operators,
                              uint64_t from, uint64_t to, hki_crossover crossovers[HKI_CROSSOVERS_MOST],
                              uint32_t *count)
{
    enum { EVERY_CLASS = 256, OCTAVE = 4 };
    search s = {chooser, call, type, operators, crossovers, 0};
    uint32_t step = call->ranks <= EVERY_CLASS ? 1 : OCTAVE;
    uint32_t first = hki_size_class(from), last = hki_size_class(to);
    hki_crossover begin;
    if (call->collective == HKI_COLL_BARRIER || hki_size_is_private(call->collective))
        last = first;
    HK_TRY(look(&s, first, &begin));
    note(&s, &begin);
    while (first < last) {
        uint32_t next = first + step < last ? first + step : last;
        HK_TRY(note_step(&s, first, next));
        first = next;
    }
    *count = s.count;
    return HK_OK;
}

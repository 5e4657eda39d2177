#include "cost/select.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "cost/explain.h"
#include "dtype/dtype.h"

/* What was chosen for a class of sizes; index 0: nothing yet. */
typedef struct choice {
    uint8_t index;         /* in hki_algorithms, from 1 */
    uint8_t segments_log2; /* of their number */
} choice;

/* The choices for one kind of call. */
typedef struct table {
    struct table *next;
    hki_collective collective;
    uint32_t root;
    hk_type type;
    hki_op_class operators;
    bool commutative;
    const hki_levels *levels;
    const hki_algorithm *demanded; /* by who measures or tests, with so many segments */
    uint32_t demanded_segments;
    uint32_t zones; /* of sizes for which HOCKET_ALGORITHM asks for different things */
    choice choices[];
} table;

/* An algorithm that is asked for, whatever the settings say. */
typedef struct demand {
    const hki_algorithm *algorithm; /* NULL: nothing */
    uint32_t segments;
} demand;

struct hki_chooser {
    hki_pricer *pricer;
    demand demands[HKI_COLL_COUNT]; /* hki_chooser_force */
    hki_wishes wishes;
    table *tables; /* the one used last first */
    const hki_cluster *cluster;
};

hk_status hki_select_check(void)
{
    hki_wishes wishes;
    HK_TRY(hki_wishes_read(hki_setting_text(HKI_SET_ALGORITHM), &wishes));
    hki_wishes_free(&wishes);
    return HK_OK;
}

hk_status hki_chooser_new(const hki_cluster *cluster, const hki_figures *figures, hki_chooser **chooser)
{
    hki_chooser *made = calloc(1, sizeof *made);
    if (!made)
        return hki_error(HK_ERR_NO_MEMORY, "no memory to choose algorithms");
    made->cluster = cluster;
    hk_status status = hki_pricer_new(cluster, figures, &made->pricer);
    if (status == HK_OK)
        status = hki_wishes_read(hki_setting_text(HKI_SET_ALGORITHM), &made->wishes);
    if (status != HK_OK) {
        hki_chooser_free(made);
        return status;
    }
    *chooser = made;
    return HK_OK;
}

void hki_chooser_free(hki_chooser *chooser)
{
    if (!chooser)
        return;
    while (chooser->tables) {
        table *next = chooser->tables->next;
        free(chooser->tables);
        chooser->tables = next;
    }
    hki_wishes_free(&chooser->wishes);
    hki_pricer_free(chooser->pricer);
    free(chooser);
}

hki_pricer *hki_chooser_pricer(hki_chooser *chooser)
{
    return chooser->pricer;
}

const hki_wishes *hki_chooser_wishes(const hki_chooser *chooser)
{
    return &chooser->wishes;
}

/* ---- sizes ---- */

/* Up to 7 bytes are classes of their own; from there on an octave has four. */
uint32_t hki_size_class(uint64_t bytes)
{
    if (bytes < 8)
        return (uint32_t)bytes;
    uint32_t octave = 63 - (uint32_t)__builtin_clzll(bytes);
    return 4 * (octave - 1) + (uint32_t)(bytes >> (octave - 2) & 3);
}

uint64_t hki_size_class_least(uint32_t size_class)
{
    if (size_class < 8)
        return size_class;
    uint32_t octave = size_class / 4 + 1;
    return (UINT64_C(4) | size_class % 4) << (octave - 2);
}

/* ---- choosing ---- */

static demand demands[HKI_COLL_COUNT]; /* hki_select_force */

static void set_demand(demand *of, const hki_algorithm *algorithm, uint32_t segments)
{
    *of = (demand){algorithm, algorithm && !algorithm->segmented ? 1 : segments};
}

void hki_select_force(hki_collective collective, const hki_algorithm *algorithm, uint32_t segments)
{
    set_demand(&demands[collective], algorithm, segments);
}

void hki_chooser_force(hki_chooser *chooser, hki_collective collective, const hki_algorithm *algorithm,
                       uint32_t segments)
{
    set_demand(&chooser->demands[collective], algorithm, segments);
}

/* Of the chooser if there is one, else of the process. */
static const demand *find_demand(const hki_chooser *chooser, hki_collective collective)
{
    return chooser->demands[collective].algorithm ? &chooser->demands[collective] : &demands[collective];
}

hki_question hki_question_of(const hki_call *call, hk_type type, hki_op_class operators, uint64_t bytes)
{
    enum { PRIVATE_SIZE = 16384 }; /* of each rank's block: guessed, and only pairwise and linear exchanges differ */
    hki_question question = {.call = *call, .type = type, .operators = operators};
    question.call.rank = 0;
    question.call.segments = 1;
    question.call.in_place = HKI_SEPARATE;
    if (!hki_collective_reduces(call->collective))
        question.operators = HKI_OPS_ADD;
    if (!hki_collective_reduces(call->collective) || !hki_type_valid(type) || (unsigned)type >= HK_TYPE_COUNT)
        question.type = HK_UINT8; /* opaque elements are a program's own operator's: there is one figure for all */
    question.bytes = hki_size_is_private(call->collective) ? (uint64_t)PRIVATE_SIZE * call->ranks
                                                           : hki_size_class_least(hki_size_class(bytes));
    return question;
}

static hk_status refuse(const hki_algorithm *algorithm, const hki_question *question)
{
    return hki_error(HK_ERR_UNSUPPORTED, "HOCKET_ALGORITHM asks for %s, which cannot serve this %s of %u ranks: %s",
                     algorithm->name, hki_collective_name(question->call.collective), question->call.ranks,
                     hki_algorithm_refuses(algorithm, &question->call));
}

/* One that was asked for, in its best number of segments or in so many. */
static hk_status serve_by(hki_chooser *chooser, const hki_question *question, const hki_algorithm *algorithm,
                          uint32_t segments, hki_candidate *best)
{
    *best = (hki_candidate){.algorithm = algorithm, .segments = segments ? segments : 1};
    if (hki_algorithm_refuses(algorithm, &question->call))
        return refuse(algorithm, question);
    if (segments || !algorithm->segmented)
        return HK_OK;
    return hki_candidate_price(chooser->pricer, question, 0, best);
}

/* Once for every class of sizes. */
static void log_choice(const hki_question *question, const hki_candidate *best, const hki_candidate *next)
{
    char text[HKI_CHOICE_TEXT];
    if (hki_log_wants(HK_LOG_DEBUG))
        hki_log(HK_LOG_DEBUG, "%s", hki_choice_text(question, best, next, text, sizeof text));
}

/* The best of all; where nothing could be walked, what the textbook promises most of. */
static hk_status choose(hki_chooser *chooser, const hki_question *question, hki_candidate *best)
{
    hki_candidate all[HKI_CANDIDATES_MOST];
    uint32_t count = 0;
    HK_TRY(hki_candidates_find(chooser->pricer, &chooser->wishes, question, false, all, &count));
    if (count == 0 || all[0].candidacy == HKI_FORBIDDEN || all[0].candidacy == HKI_REFUSING)
        return hki_error(HK_ERR_UNSUPPORTED,
                         "HOCKET_ALGORITHM forbids every algorithm that could serve this %s of %u ranks",
                         hki_collective_name(question->call.collective), question->call.ranks);
    *best = all[0];
    log_choice(question, best, count > 1 ? &all[1] : NULL);
    return HK_OK;
}

/* ---- remembering ---- */

static bool serves(const table *t, const hki_question *question, uint32_t root, const demand *demanded)
{
    const hki_call *call = &question->call;
    return t->collective == call->collective && t->root == root && t->commutative == call->commutative &&
           t->type == question->type && t->operators == question->operators && t->levels == call->levels &&
           t->demanded == demanded->algorithm && t->demanded_segments == demanded->segments;
}

/* The table of a kind of call, moved to the front; NULL: no memory. */
static table *find_table(hki_chooser *chooser, const hki_question *question, uint32_t root)
{
    const demand *demanded = find_demand(chooser, question->call.collective);
    for (table **link = &chooser->tables; *link; link = &(*link)->next) {
        table *found = *link;
        if (!serves(found, question, root, demanded))
            continue;
        *link = found->next;
        found->next = chooser->tables;
        chooser->tables = found;
        return found;
    }
    uint32_t zones = hki_wishes_zones(&chooser->wishes, question->call.collective);
    table *made = calloc(1, sizeof *made + (size_t)zones * HKI_SIZE_CLASSES * sizeof(choice));
    if (!made)
        return NULL;
    *made = (table){.next = chooser->tables,
                    .collective = question->call.collective,
                    .root = root,
                    .type = question->type,
                    .operators = question->operators,
                    .commutative = question->call.commutative,
                    .levels = question->call.levels,
                    .demanded = demanded->algorithm,
                    .demanded_segments = demanded->segments,
                    .zones = zones};
    chooser->tables = made;
    return made;
}

static uint8_t log2_of(uint32_t power)
{
    return (uint8_t)(31 - __builtin_clz(power));
}

hk_status hki_select(hki_chooser *chooser, const hki_call *call, hk_type type, hki_op_class operators, uint64_t bytes,
                     const hki_algorithm **algorithm, uint32_t *segments)
{
    hki_collective collective = call->collective;
    hki_question question = hki_question_of(call, type, operators, bytes);
    hki_candidate best = {0};
    /* On one host it does not matter who the root is. */
    if (!call->levels)
        question.call.root = 0;
    table *t = find_table(chooser, &question, question.call.root);
    if (!t)
        return hki_error(HK_ERR_NO_MEMORY, "no memory to remember a choice");
    uint32_t zone = hki_wishes_zone(&chooser->wishes, collective, bytes);
    choice *known = &t->choices[zone * HKI_SIZE_CLASSES + hki_size_class(question.bytes)];
    size_t count;
    const hki_algorithm *all = hki_algorithms(&count);
    if (!known->index) {
        const hki_algorithm *forced =
            t->demanded ? t->demanded : hki_wishes_forced(&chooser->wishes, collective, bytes);
        if (forced)
            HK_TRY(serve_by(chooser, &question, forced, t->demanded_segments, &best));
        if (forced)
            log_choice(&question, &best, NULL);
        else
            HK_TRY(choose(chooser, &question, &best));
        known->segments_log2 = log2_of(best.segments);
        known->index = (uint8_t)(best.algorithm - all + 1);
    }
    *algorithm = &all[known->index - 1];
    *segments = 1u << known->segments_log2;
    return HK_OK;
}

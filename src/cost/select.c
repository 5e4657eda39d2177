#include "cost/select.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "cost/explain.h"
#include "dtype/dtype.h"

/* What was chosen for a class of sizes; index 0: nothing yet. */
typedef struct remembered {
    uint8_t index;         /* in hki_algorithms, from 1 */
    uint8_t segments_log2; /* of their number */
} remembered;

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
    remembered choices[];
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
    if (!call->levels) /* on one host it does not matter who the root is */
        question.call.root = 0;
    question.wished_bytes = bytes;
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
static hk_status serve_by(hki_chooser *chooser, const hki_algorithm *algorithm, uint32_t segments, hki_choice *choice)
{
    hki_candidate *best = &choice->candidates[0];
    *best = (hki_candidate){.algorithm = algorithm, .segments = segments ? segments : 1};
    choice->forced = true;
    choice->count = 1;
    if (hki_algorithm_refuses(algorithm, &choice->question.call))
        return refuse(algorithm, &choice->question);
    if (segments || !algorithm->segmented)
        return HK_OK;
    return hki_candidate_price(chooser->pricer, &choice->question, 0, best);
}

/* The best of all; where nothing could be walked, what the textbook promises most of. */
static hk_status compare(hki_chooser *chooser, hki_choice *choice)
{
    const hki_question *question = &choice->question;
    const hki_candidate *best = &choice->candidates[0];
    HK_TRY(hki_candidates_find(chooser->pricer, &chooser->wishes, question, false, choice->candidates, &choice->count));
    if (choice->count == 0 || best->candidacy == HKI_FORBIDDEN || best->candidacy == HKI_REFUSING)
        return hki_error(HK_ERR_UNSUPPORTED,
                         "HOCKET_ALGORITHM forbids every algorithm that could serve this %s of %u ranks",
                         hki_collective_name(question->call.collective), question->call.ranks);
    return HK_OK;
}

hk_status hki_choose(hki_chooser *chooser, const hki_call *call, hk_type type, hki_op_class operators, uint64_t bytes,
                     hki_choice *choice)
{
    const demand *demanded = find_demand(chooser, call->collective);
    const hki_algorithm *forced = demanded->algorithm;
    choice->question = hki_question_of(call, type, operators, bytes);
    choice->forced = false;
    if (!forced)
        forced = hki_wishes_forced(&chooser->wishes, call->collective, bytes);
    uint32_t segments = demanded->algorithm ? demanded->segments : 0;
    return forced ? serve_by(chooser, forced, segments, choice) : compare(chooser, choice);
}

/* Once for every class of sizes. */
static void log_choice(const hki_choice *choice)
{
    char text[HKI_CHOICE_TEXT];
    if (hki_log_wants(HK_LOG_DEBUG))
        hki_log(HK_LOG_DEBUG, "%s", hki_choice_text(choice, text, sizeof text));
}

/* ---- remembering ---- */

static bool serves(const table *t, const hki_question *question, const demand *demanded)
{
    const hki_call *call = &question->call;
    return t->collective == call->collective && t->root == call->root && t->commutative == call->commutative &&
           t->type == question->type && t->operators == question->operators && t->levels == call->levels &&
           t->demanded == demanded->algorithm && t->demanded_segments == demanded->segments;
}

/* The table of a kind of call, moved to the front; NULL: no memory. */
static table *find_table(hki_chooser *chooser, const hki_question *question)
{
    const demand *demanded = find_demand(chooser, question->call.collective);
    for (table **link = &chooser->tables; *link; link = &(*link)->next) {
        table *found = *link;
        if (!serves(found, question, demanded))
            continue;
        *link = found->next;
        found->next = chooser->tables;
        chooser->tables = found;
        return found;
    }
    uint32_t zones = hki_wishes_zones(&chooser->wishes, question->call.collective);
    table *made = calloc(1, sizeof *made + (size_t)zones * HKI_SIZE_CLASSES * sizeof(remembered));
    if (!made)
        return NULL;
    *made = (table){.next = chooser->tables,
                    .collective = question->call.collective,
                    .root = question->call.root,
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

/* Chooses, says so, and remembers. */
static hk_status decide(hki_chooser *chooser, const hki_call *call, const hki_question *question, remembered *known)
{
    size_t count;
    hki_choice made;
    HK_TRY(hki_choose(chooser, call, question->type, question->operators, question->wished_bytes, &made));
    log_choice(&made);
    known->segments_log2 = log2_of(made.candidates[0].segments);
    known->index = (uint8_t)(made.candidates[0].algorithm - hki_algorithms(&count) + 1);
    return HK_OK;
}

hk_status hki_select(hki_chooser *chooser, const hki_call *call, hk_type type, hki_op_class operators, uint64_t bytes,
                     const hki_algorithm **algorithm, uint32_t *segments)
{
    size_t count;
    const hki_question question = hki_question_of(call, type, operators, bytes);
    table *t = find_table(chooser, &question);
    if (!t)
        return hki_error(HK_ERR_NO_MEMORY, "no memory to remember a choice");
    uint32_t zone = hki_wishes_zone(&chooser->wishes, call->collective, bytes);
    remembered *known = &t->choices[zone * HKI_SIZE_CLASSES + hki_size_class(question.bytes)];
    if (!known->index)
        HK_TRY(decide(chooser, call, &question, known));
    *algorithm = &hki_algorithms(&count)[known->index - 1];
    *segments = 1u << known->segments_log2;
    return HK_OK;
}

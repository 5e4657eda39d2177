#include "cost/select.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/settings.h"

#define ANY UINT64_MAX
#define KIB(n) (UINT64_C(n) << 10)

/* A row serves calls of at most so many ranks and bytes. The first row that fits and whose algorithm can serve wins, so
 * rows go from few ranks and bytes to many, and what keeps rank order stands behind what does not. */
typedef struct rule {
    hki_collective collective;
    uint64_t ranks, bytes;
    const char *name;
} rule;

#define REDUCE_SCATTER_RULES(COLLECTIVE)                                                                               \
    {COLLECTIVE, 2, ANY, "direct"}, {COLLECTIVE, 16, KIB(1024), "direct"}, {COLLECTIVE, 16, ANY, "pairwise"},          \
        {COLLECTIVE, ANY, KIB(256), "bruck"}, {COLLECTIVE, ANY, ANY, "ring"},                                          \
    {                                                                                                                  \
        COLLECTIVE, ANY, ANY, "direct"                                                                                 \
    }
#define ALLGATHER_RULES(COLLECTIVE)                                                                                    \
    {COLLECTIVE, 16, ANY, "direct"}, {COLLECTIVE, ANY, KIB(256), "bruck"},                                             \
    {                                                                                                                  \
        COLLECTIVE, ANY, ANY, "ring"                                                                                   \
    }
#define ONE_TO_ALL_RULES(COLLECTIVE)                                                                                   \
    {COLLECTIVE, 16, ANY, "linear"}, {COLLECTIVE, ANY, KIB(64), "binomial"},                                           \
    {                                                                                                                  \
        COLLECTIVE, ANY, ANY, "linear"                                                                                 \
    }
#define SCAN_RULES(COLLECTIVE)                                                                                         \
    {COLLECTIVE, 4, ANY, "recursive_doubling"}, {COLLECTIVE, ANY, KIB(128), "recursive_doubling"},                     \
    {                                                                                                                  \
        COLLECTIVE, ANY, ANY, "linear"                                                                                 \
    }

/* For shared memory on one host. Rows for up to 8 ranks follow measurements on two cores that all ranks share (medians,
 * float32 sum, malloc'ed buffers rewritten before each call): there messages and rounds decide while vectors are short,
 * and how often each byte is moved when they are long. Rows for more ranks are estimates, until the cost model replaces
 * them all. */
static const rule rules[] = {
    {HKI_COLL_BARRIER, 16, ANY, "flat"}, /* 8 ranks on 2 cores: 9.4 µs against 13.7; 16: 33 against 53 */
    {HKI_COLL_BARRIER, ANY, ANY, "dissemination"},

    {HKI_COLL_BROADCAST, 2, ANY, "flat"},
    {HKI_COLL_BROADCAST, 8, KIB(256), "flat"},
    {HKI_COLL_BROADCAST, ANY, KIB(64), "binomial"},
    {HKI_COLL_BROADCAST, ANY, ANY, "circulant"},

    {HKI_COLL_REDUCE, 16, KIB(32), "flat"},
    {HKI_COLL_REDUCE, 16, ANY, "binomial"},
    {HKI_COLL_REDUCE, ANY, KIB(64), "binomial"},
    {HKI_COLL_REDUCE, ANY, ANY, "reduce_scatter_gather"},
    {HKI_COLL_REDUCE, 16, ANY, "binomial_ordered"},
    {HKI_COLL_REDUCE, ANY, KIB(64), "binomial_ordered"},
    {HKI_COLL_REDUCE, ANY, ANY, "pipelined_tree"},

    {HKI_COLL_ALLREDUCE, 2, KIB(256), "recursive_doubling"},
    {HKI_COLL_ALLREDUCE, 2, ANY, "direct"},
    {HKI_COLL_ALLREDUCE, 8, KIB(1), "flat"},
    {HKI_COLL_ALLREDUCE, ANY, KIB(1), "recursive_multiplying"},
    {HKI_COLL_ALLREDUCE, ANY, KIB(32), "recursive_doubling"},
    {HKI_COLL_ALLREDUCE, 8, KIB(1024), "rabenseifner"},
    {HKI_COLL_ALLREDUCE, 8, ANY, "ring"},
    {HKI_COLL_ALLREDUCE, 16, KIB(2048), "rabenseifner"}, /* from here on: while a ring's share is below 128 KiB */
    {HKI_COLL_ALLREDUCE, 16, ANY, "ring"},
    {HKI_COLL_ALLREDUCE, 64, KIB(8192), "rabenseifner"},
    {HKI_COLL_ALLREDUCE, 64, ANY, "ring"},
    {HKI_COLL_ALLREDUCE, ANY, KIB(32768), "rabenseifner"},
    {HKI_COLL_ALLREDUCE, ANY, ANY, "ring"},
    {HKI_COLL_ALLREDUCE, 16, ANY, "direct"},
    {HKI_COLL_ALLREDUCE, ANY, KIB(512), "recursive_doubling"},
    {HKI_COLL_ALLREDUCE, ANY, ANY, "direct"},

    REDUCE_SCATTER_RULES(HKI_COLL_REDUCE_SCATTER),
    REDUCE_SCATTER_RULES(HKI_COLL_REDUCE_SCATTERV),
    ALLGATHER_RULES(HKI_COLL_ALLGATHER),
    ALLGATHER_RULES(HKI_COLL_ALLGATHERV),
    ONE_TO_ALL_RULES(HKI_COLL_GATHER),
    ONE_TO_ALL_RULES(HKI_COLL_SCATTER),
    {HKI_COLL_GATHERV, ANY, ANY, "linear"},
    {HKI_COLL_SCATTERV, ANY, ANY, "linear"},

    {HKI_COLL_ALLTOALL, 2, ANY, "linear"},
    {HKI_COLL_ALLTOALL, ANY, KIB(64), "bruck"},
    {HKI_COLL_ALLTOALL, ANY, ANY, "linear"},
    {HKI_COLL_ALLTOALLV, ANY, ANY, "linear"},

    SCAN_RULES(HKI_COLL_SCAN),
    SCAN_RULES(HKI_COLL_EXSCAN),
};

/* ---- HOCKET_ALGORITHM ---- */

/* One item of the list: collective:algorithm or collective:^algorithm. */
typedef struct wish {
    const hki_algorithm *algorithm;
    bool forbids;
} wish;

/* Writes the names of a collective's algorithms, for messages. */
static void list_names(hki_collective collective, char *text, size_t bytes)
{
    size_t count, used = 0;
    const hki_algorithm *all = hki_algorithms(&count);
    text[0] = '\0';
    for (size_t i = 0; i < count; i++)
        if (all[i].collective == collective && used + strlen(all[i].name) + 3 < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", all[i].name);
}

/* Reads the next item of *text and moves behind it; *more is false at the end. */
static hk_status next_item(const char **text, wish *item, bool *more)
{
    char word[128], names[512];
    *text += strspn(*text, ", \t");
    size_t length = strcspn(*text, ", \t");
    *more = length > 0;
    if (!*more)
        return HK_OK;
    snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), *text);
    *text += length;
    char *name = strchr(word, ':');
    if (!name)
        return hki_error(HK_ERR_SETTING, "HOCKET_ALGORITHM: \"%s\" is not of the form collective:algorithm", word);
    *name++ = '\0';
    int collective = hki_collective_find(word);
    if (collective < 0)
        return hki_error(HK_ERR_SETTING, "HOCKET_ALGORITHM: there is no collective \"%s\"", word);
    item->forbids = *name == '^';
    name += item->forbids;
    item->algorithm = hki_algorithm_find((hki_collective)collective, name);
    if (item->algorithm)
        return HK_OK;
    list_names((hki_collective)collective, names, sizeof names);
    return hki_error(HK_ERR_SETTING, "HOCKET_ALGORITHM: %s has no algorithm \"%s\"; it has %s", word, name, names);
}

/* Finds the forced algorithm of a collective (NULL: none); looks at the whole list, so that any mistake is reported. */
static hk_status find_forced(hki_collective collective, const hki_algorithm **forced)
{
    const char *text = hki_setting_text(HKI_SET_ALGORITHM);
    const hki_algorithm *first[HKI_COLL_COUNT] = {NULL};
    wish item;
    bool more;
    for (;;) {
        HK_TRY(next_item(&text, &item, &more));
        if (!more)
            break;
        const hki_algorithm **known = &first[item.algorithm->collective];
        if (!item.forbids && *known && *known != item.algorithm)
            return hki_error(HK_ERR_SETTING, "HOCKET_ALGORITHM: names both %s and %s for %s", (*known)->name,
                             item.algorithm->name, hki_collective_name(item.algorithm->collective));
        if (!item.forbids)
            *known = item.algorithm;
    }
    *forced = first[collective];
    return HK_OK;
}

static bool is_forbidden(const hki_algorithm *algorithm)
{
    const char *text = hki_setting_text(HKI_SET_ALGORITHM);
    wish item;
    bool more = true;
    while (next_item(&text, &item, &more) == HK_OK && more)
        if (item.forbids && item.algorithm == algorithm)
            return true;
    return false;
}

hk_status hki_select_check(void)
{
    const hki_algorithm *forced;
    return find_forced(HKI_COLL_BARRIER, &forced);
}

/* ---- the choice ---- */

/* What hki_select_force asks for, per collective. */
static struct {
    const hki_algorithm *algorithm; /* NULL: nothing */
    uint32_t segments;
} demands[HKI_COLL_COUNT];

void hki_select_force(hki_collective collective, const hki_algorithm *algorithm, uint32_t segments)
{
    demands[collective].algorithm = algorithm;
    demands[collective].segments = algorithm && !algorithm->segmented ? 1 : segments;
}

static bool serves(const hki_algorithm *algorithm, const hki_call *call)
{
    return algorithm && !hki_algorithm_refuses(algorithm, call) && !is_forbidden(algorithm);
}

static const hki_algorithm *by_rules(const hki_call *call, uint64_t bytes)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const rule *row = &rules[i];
        if (row->collective != call->collective || call->ranks > row->ranks || bytes > row->bytes)
            continue;
        const hki_algorithm *algorithm = hki_algorithm_find(row->collective, row->name);
        if (serves(algorithm, call))
            return algorithm;
    }
    size_t count;
    const hki_algorithm *all = hki_algorithms(&count);
    for (size_t i = 0; i < count; i++)
        if (all[i].collective == call->collective && serves(&all[i], call))
            return &all[i];
    return NULL;
}

/* Pieces of 64 KiB at least: below, a piece of a pipeline costs more to start than to move. Ring steps of
 * reduce-scatter and all-gather are left whole, since messages are streamed into the reduction anyway. */
uint32_t hki_select_segments(const hki_algorithm *algorithm, const hki_call *call, uint64_t bytes)
{
    const uint64_t least = KIB(64);
    if (!algorithm->segmented || (strcmp(algorithm->name, "ring") == 0))
        return 1;
    if (strcmp(algorithm->name, "segmented_ring") == 0)
        bytes /= call->ranks;
    uint32_t segments = 1;
    while (segments < 64 && bytes / (2 * segments) >= least)
        segments *= 2;
    return segments;
}

hk_status hki_select(const hki_call *given, uint64_t bytes, const hki_algorithm **algorithm, uint32_t *segments)
{
    hki_call call = *given;
    call.segments = 1;
    const hki_algorithm *chosen = demands[call.collective].algorithm;
    uint32_t demanded = chosen ? demands[call.collective].segments : 0;
    if (!chosen && *hki_setting_text(HKI_SET_ALGORITHM))
        HK_TRY(find_forced(call.collective, &chosen));
    if (chosen) {
        const char *why = hki_algorithm_refuses(chosen, &call);
        if (why)
            return hki_error(HK_ERR_UNSUPPORTED,
                             "HOCKET_ALGORITHM asks for %s, which cannot serve this %s of %u ranks: %s", chosen->name,
                             hki_collective_name(call.collective), call.ranks, why);
    } else {
        chosen = by_rules(&call, bytes);
    }
    if (!chosen)
        return hki_error(HK_ERR_UNSUPPORTED,
                         "HOCKET_ALGORITHM forbids every algorithm that could serve this %s of %u ranks",
                         hki_collective_name(call.collective), call.ranks);
    *algorithm = chosen;
    *segments = demanded ? demanded : hki_select_segments(chosen, &call, bytes);
    return HK_OK;
}

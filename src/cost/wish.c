#include "cost/wish.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/settings.h"

bool hki_size_is_private(hki_collective collective)
{
    return collective == HKI_COLL_GATHERV || collective == HKI_COLL_SCATTERV || collective == HKI_COLL_ALLTOALLV;
}

/* ---- reading ---- */

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

/* Reads "LOW-HIGH", either of which may be missing. */
static hk_status read_sizes(const char *word, char *sizes, hki_wish *wish)
{
    char *dash = strchr(sizes, '-');
    bool right = dash && sizes[1] != '\0';
    if (right) {
        *dash = '\0';
        right = (*sizes == '\0' || hki_parse_bytes(sizes, &wish->low)) &&
                (dash[1] == '\0' || hki_parse_bytes(dash + 1, &wish->high)) && wish->low < wish->high;
        *dash = '-';
    }
    if (!right)
        return hki_error(HK_ERR_SETTING,
                         "HOCKET_ALGORITHM: %s@%s: sizes are to be given as 8K-64K (at least 8 KiB, less than "
                         "64 KiB), 64K- or -8K",
                         word, sizes);
    if (hki_size_is_private(wish->algorithm->collective))
        return hki_error(
            HK_ERR_SETTING,
            "HOCKET_ALGORITHM: %s@%s: not all ranks know the size of their %s, so it cannot be chosen by size", word,
            sizes, hki_collective_name(wish->algorithm->collective));
    return HK_OK;
}

/* Cuts "@LOW-HIGH" off; NULL: there is none. */
static char *cut_sizes(char *word)
{
    char *sizes = strchr(word, '@');
    if (sizes)
        *sizes++ = '\0';
    return sizes;
}

/* Reads "collective:algorithm", in two parts. */
static hk_status read_wish(char *word, char *name, hki_wish *wish)
{
    *wish = (hki_wish){.high = UINT64_MAX};
    char *sizes = cut_sizes(name), names[512];
    int collective = hki_collective_find(word);
    if (collective < 0)
        return hki_error(HK_ERR_SETTING, "HOCKET_ALGORITHM: there is no collective \"%s\"", word);
    wish->forbids = *name == '^';
    name += wish->forbids;
    wish->algorithm = hki_algorithm_find((hki_collective)collective, name);
    if (wish->algorithm)
        return sizes ? read_sizes(name, sizes, wish) : HK_OK;
    list_names((hki_collective)collective, names, sizeof names);
    return hki_error(HK_ERR_SETTING, "HOCKET_ALGORITHM: %s has no algorithm \"%s\"; it has %s", word, name, names);
}

static bool overlap(const hki_wish *a, const hki_wish *b)
{
    return a->low < b->high && b->low < a->high;
}

static hk_status check_against(const hki_wishes *before, const hki_wish *wish)
{
    for (uint32_t i = 0; i < before->count; i++) {
        const hki_wish *other = &before->items[i];
        if (other->forbids != wish->forbids && other->algorithm == wish->algorithm && overlap(other, wish))
            return hki_error(HK_ERR_SETTING, "HOCKET_ALGORITHM: asks for %s for %s of some size, and forbids it there",
                             wish->algorithm->name, hki_collective_name(wish->algorithm->collective));
        if (!other->forbids && !wish->forbids && other->algorithm != wish->algorithm &&
            other->algorithm->collective == wish->algorithm->collective && overlap(other, wish))
            return hki_error(HK_ERR_SETTING, "HOCKET_ALGORITHM: names both %s and %s for %s of the same size",
                             other->algorithm->name, wish->algorithm->name,
                             hki_collective_name(wish->algorithm->collective));
    }
    return HK_OK;
}

static hk_status add(hki_wishes *wishes, const hki_wish *wish)
{
    HK_TRY(check_against(wishes, wish));
    wishes->items[wishes->count++] = *wish;
    return HK_OK;
}

/* "^algorithm": not that one, for whatever collective has it; by size only those the size of which all ranks know. */
static hk_status forbid_everywhere(char *name, hki_wishes *wishes)
{
    char *sizes = cut_sizes(name);
    bool exists = false;
    for (int collective = 0; collective < HKI_COLL_COUNT; collective++) {
        hki_wish wish = {.forbids = true, .high = UINT64_MAX};
        wish.algorithm = hki_algorithm_find((hki_collective)collective, name);
        exists = exists || wish.algorithm;
        if (!wish.algorithm || (sizes && hki_size_is_private((hki_collective)collective)))
            continue;
        if (sizes)
            HK_TRY(read_sizes(name, sizes, &wish));
        HK_TRY(add(wishes, &wish));
    }
    return exists ? HK_OK : hki_error(HK_ERR_SETTING, "HOCKET_ALGORITHM: no collective has an algorithm \"%s\"", name);
}

/* Reads one item; cuts it into its parts. */
static hk_status read_item(char *word, hki_wishes *wishes)
{
    hki_wish wish;
    char *name = strchr(word, ':');
    if (!name && *word == '^')
        return forbid_everywhere(word + 1, wishes);
    if (!name)
        return hki_error(HK_ERR_SETTING,
                         "HOCKET_ALGORITHM: \"%s\" is none of collective:algorithm, collective:^algorithm (not that "
                         "one) and ^algorithm (not for any collective)",
                         word);
    *name++ = '\0';
    HK_TRY(read_wish(word, name, &wish));
    return add(wishes, &wish);
}

static hk_status read_all(char *text, hki_wishes *wishes)
{
    char *rest = NULL;
    bool says_something = *text != '\0';
    for (char *word = strtok_r(text, ", \t", &rest); word; word = strtok_r(NULL, ", \t", &rest))
        HK_TRY(read_item(word, wishes));
    if (says_something && wishes->count == 0)
        return hki_error(HK_ERR_SETTING, "HOCKET_ALGORITHM: the list names no algorithm");
    return HK_OK;
}

hk_status hki_wishes_read(const char *text, hki_wishes *wishes)
{
    size_t items = strlen(text) / 2 + 1;
    *wishes = (hki_wishes){0};
    char *copy = strdup(text);
    wishes->items = calloc(items * HKI_COLL_COUNT, sizeof *wishes->items);
    hk_status status = copy && wishes->items ? read_all(copy, wishes)
                                             : hki_error(HK_ERR_NO_MEMORY, "no memory to read HOCKET_ALGORITHM");
    free(copy);
    if (status != HK_OK)
        hki_wishes_free(wishes);
    return status;
}

void hki_wishes_free(hki_wishes *wishes)
{
    free(wishes->items);
    *wishes = (hki_wishes){0};
}

/* ---- asking ---- */

static bool applies(const hki_wish *wish, uint64_t bytes)
{
    return wish->low <= bytes && bytes < wish->high;
}

const hki_algorithm *hki_wishes_forced(const hki_wishes *wishes, hki_collective collective, uint64_t bytes)
{
    for (uint32_t i = 0; i < wishes->count; i++) {
        const hki_wish *wish = &wishes->items[i];
        if (!wish->forbids && wish->algorithm->collective == collective && applies(wish, bytes))
            return wish->algorithm;
    }
    return NULL;
}

bool hki_wishes_forbid(const hki_wishes *wishes, const hki_algorithm *algorithm, uint64_t bytes)
{
    for (uint32_t i = 0; i < wishes->count; i++)
        if (wishes->items[i].forbids && wishes->items[i].algorithm == algorithm && applies(&wishes->items[i], bytes))
            return true;
    return false;
}

/* Every begin or end of a range that lies at or below a size tells two zones apart. */
uint32_t hki_wishes_zone(const hki_wishes *wishes, hki_collective collective, uint64_t bytes)
{
    uint32_t zone = 0;
    for (uint32_t i = 0; i < wishes->count; i++)
        if (wishes->items[i].algorithm->collective == collective)
            zone += (uint32_t)(wishes->items[i].low <= bytes) + (uint32_t)(wishes->items[i].high <= bytes);
    return zone;
}

uint32_t hki_wishes_zones(const hki_wishes *wishes, hki_collective collective)
{
    return hki_wishes_zone(wishes, collective, UINT64_MAX) + 1;
}

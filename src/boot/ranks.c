#include "boot/ranks.h"

#include <stdio.h>
#include <string.h>

static int run_end(const bool *members, int first, int ranks)
{
    int last = first;
    while (last + 1 < ranks && members[last + 1])
        last++;
    return last;
}

/* One run of consecutive ranks: "3", "3, 4" or "3-7". */
static void run_text(char *text, size_t capacity, int first, int last)
{
    if (first == last)
        snprintf(text, capacity, "%d", first);
    else
        snprintf(text, capacity, last == first + 1 ? "%d, %d" : "%d-%d", first, last);
}

const char *hki_ranks_text(char *text, size_t capacity, const bool *members, int ranks)
{
    int total = 0;
    for (int rank = 0; rank < ranks; rank++)
        total += members[rank];
    snprintf(text, capacity, total == 0 ? "no rank" : total == 1 ? "rank " : "ranks ");
    size_t reserve = sizeof ", … (2147483647 in all)";
    bool first_run = true;
    for (int rank = 0; rank < ranks; rank++) {
        if (!members[rank])
            continue;
        char run[32];
        int last = run_end(members, rank, ranks);
        run_text(run, sizeof run, rank, last);
        size_t used = strlen(text);
        if (used + strlen(run) + 2 + reserve > capacity) {
            snprintf(text + used, capacity - used, "%s… (%d in all)", first_run ? "" : ", ", total);
            break;
        }
        snprintf(text + used, capacity - used, "%s%s", first_run ? "" : ", ", run);
        first_run = false;
        rank = last;
    }
    return text;
}

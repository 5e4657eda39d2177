#include "bench/bench_inspect.h"

#include "algo/algo.h"
#include "comm/inspect.h"

#include <stdio.h>
#include <string.h>

const char *hki_bench_algorithm(void *comm)
{
    return hki_comm_last_algorithm((const hk_comm *)comm);
}

void hki_bench_why(hki_bench_kind kind, const char *algorithm, char *text, size_t room)
{
    int collective = hki_collective_find(hki_bench_traits_of(kind)->name);
    const hki_algorithm *found = collective >= 0 ? hki_algorithm_find((hki_collective)collective, algorithm) : NULL;
    text[0] = '\0';
    if (found != NULL)
        snprintf(text, room, "rounds: %s; sent: %s", found->rounds_text, found->sent_text);
}

bool hki_bench_algorithm_known(hki_bench_kind kind, const char *algorithm, char *known, size_t room)
{
    int collective = hki_collective_find(hki_bench_traits_of(kind)->name);
    if (collective >= 0 && hki_algorithm_find((hki_collective)collective, algorithm) != NULL)
        return true;
    size_t count, used = 0;
    const hki_algorithm *all = hki_algorithms(&count);
    snprintf(known, room, "none");
    for (size_t i = 0; i < count && used < room; i++)
        if (collective == (int)all[i].collective)
            used += (size_t)snprintf(known + used, room - used, "%s%s", used > 0 ? ", " : "", all[i].name);
    return false;
}

const char *hki_bench_transport(const hk_comm *comm, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (int rank = 0; rank < hk_comm_size(comm) && used < room; rank++) {
        const char *name = hki_comm_transport(comm, rank);
        if (strcmp(name, "self") != 0 && strstr(text, name) == NULL)
            used += (size_t)snprintf(text + used, room - used, "%s%s", used > 0 ? "+" : "", name);
    }
    return used > 0 ? text : "self";
}

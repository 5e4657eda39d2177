/* What the processes of a job are called: ranks, or hosts where each is an agent. */
#include "tools/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *run_name(const run_options *options, int index, char *text, size_t capacity)
{
    if (options->hosts)
        snprintf(text, capacity, "host %s", options->hosts[index].name);
    else
        snprintf(text, capacity, "rank %d", (options->share ? options->share->first : 0) + index);
    return text;
}

static const char *host_names(const run_options *options, const bool *members, char *text, size_t capacity)
{
    int count = 0;
    for (int i = 0; i < options->ranks; i++)
        count += members[i];
    size_t used = (size_t)snprintf(text, capacity, count == 1 ? "host" : "hosts");
    for (int i = 0, named = 0; i < options->ranks && used < capacity; i++) {
        if (!members[i])
            continue;
        const char *name = options->hosts[i].name;
        if (used + strlen(name) + sizeof ", … (4096 in all)" >= capacity) {
            snprintf(text + used, capacity - used, " … (%d in all)", count);
            break;
        }
        used += (size_t)snprintf(text + used, capacity - used, "%s %s", named++ > 0 ? "," : "", name);
    }
    return text;
}

const char *run_names(const run_options *options, const bool *members, char *text, size_t capacity)
{
    if (options->hosts)
        return host_names(options, members, text, capacity);
    if (!options->share)
        return hki_ranks_text(text, capacity, members, options->ranks);
    int first = options->share->first;
    bool *shifted = calloc((size_t)first + (size_t)options->ranks, sizeof *shifted);
    if (!shifted)
        return "some ranks";
    memcpy(shifted + first, members, (size_t)options->ranks * sizeof *members);
    hki_ranks_text(text, capacity, shifted, first + options->ranks);
    free(shifted);
    return text;
}

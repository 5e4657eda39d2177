#include "comm/inspect.h"

#include "comm/comm.h"

#include <string.h>

const char *hki_comm_last_algorithm(const hk_comm *comm)
{
    return comm->last_algorithm ? comm->last_algorithm->name : "";
}

uint32_t hki_comm_last_segments(const hk_comm *comm)
{
    return comm->last_segments;
}

const char *hki_comm_transport(const hk_comm *comm, int rank)
{
    if (rank < 0 || rank >= (int)comm->size)
        return "none";
    const hki_channel *channel = hki_comm_channel(comm, (uint32_t)rank);
    return channel->self ? "self" : channel->ops ? channel->ops->name : "none";
}

static uint64_t core_counter(const hki_context *context, const char *name)
{
    const struct {
        const char *name;
        uint64_t value;
    } counters[] = {
        {"unexpected_bytes", context->endpoint.unexpected_bytes},
        {"unexpected_peak", context->endpoint.unexpected_peak},
        {"sleeps", context->engine.sleeps},
        {"plan_hits", context->plans.hits},
        {"plan_misses", context->plans.misses},
        {"plan_bytes", context->plans.bytes},
    };
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        if (strcmp(counters[i].name, name) == 0)
            return counters[i].value;
    }
    return UINT64_MAX;
}

uint64_t hki_comm_counter(const hk_comm *comm, const char *name)
{
    enum { MOST = 64 };
    const hki_context *context = comm->context;
    const char *names[MOST];
    uint64_t values[MOST];
    for (uint32_t i = 0; i < context->transport_count; i++) {
        size_t prefix = strlen(context->ops[i]->name);
        if (strncmp(name, context->ops[i]->name, prefix) != 0 || name[prefix] != '.')
            continue;
        size_t count = context->ops[i]->counters(context->transports[i], names, values, MOST);
        for (size_t k = 0; k < count && k < MOST; k++) {
            if (strcmp(names[k], name + prefix + 1) == 0)
                return values[k];
        }
    }
    return core_counter(context, name);
}

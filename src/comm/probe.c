#include "comm/probe.h"

#include "base/error.h"
#include "comm/place.h"
#include "comm/services.h"
#include "comm/transports.h"

#include <string.h>

hk_status hki_probe(const hk_transport_ops *ops, hki_probe_log *log, hk_transport_limits *limits)
{
    static const uint8_t token[32];
    hk_peer self = {.local_ranks = 1};
    hk_transport_services services;
    hk_transport *transport;
    hki_place_self(&self);
    hki_services_fill(&services, NULL, &self, 1, token);
    if (log)
        services.log = log;
    HK_TRY(ops->open(&services, &transport, limits));
    if (ops->measure)
        ops->measure(transport, limits);
    ops->close(transport, 0);
    return HK_OK;
}

const hk_transport_ops *hki_probe_find(const char *name)
{
    if (hki_transports_check() != HK_OK)
        return NULL;
    for (const hk_transport_ops *const *one = hki_transports_usable(); *one; one++)
        if (strcmp((*one)->name, name) == 0)
            return *one;
    return NULL;
}

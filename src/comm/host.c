/* What this host is made of, for whoever asks. */
#include "comm/context.h"

#include "base/error.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

hk_status hki_context_keep_topology(hki_context *context, const hki_place *place)
{
    if (!place->topology)
        return HK_OK;
    context->packed_topology = malloc(place->topology_bytes);
    if (!context->packed_topology)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for the topology of this host");
    memcpy(context->packed_topology, place->topology, place->topology_bytes);
    context->packed_bytes = place->topology_bytes;
    return HK_OK;
}

hk_status hki_context_topology(hki_context *context, const hki_topology **topology)
{
    hk_status status = HK_OK;
    if (!context->topology && context->packed_topology) {
        status = hki_topology_unpack(context->packed_topology, context->packed_bytes, &context->topology);
        if (status == HK_ERR_ARGUMENT)
            hki_log(HK_LOG_WARN, "topology is read from /sys, since what the launcher handed on is damaged: %s",
                    hk_last_error());
    }
    /* Not through hwloc, which is for programs: a library does not load another into a stranger's process. */
    if (!context->topology && status != HK_ERR_NO_MEMORY)
        status = hki_topology_load_system(&context->topology);
    if (status == HK_OK)
        *topology = context->topology;
    return status;
}

void hki_context_drop_topology(hki_context *context)
{
    hki_topology_free(context->topology);
    free(context->packed_topology);
}

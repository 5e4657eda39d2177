/* Descriptions of clusters: what is read is a whole cluster whose every rank has a way to the first; else an error says
 * why. */
#include "topo/cluster_file.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hki_cluster *cluster;
    hk_status status = hki_cluster_parse((const char *)data, size, "input", NULL, &cluster);
    if (status != HK_OK) {
        if (status == HK_ERR_INTERNAL || !*hk_last_error())
            abort();
        return 0;
    }
    uint32_t resources[HKI_ROUTE_MOST];
    uint64_t hops;
    for (uint32_t rank = 0; rank < cluster->rank_count; rank += cluster->rank_count / 64 + 1) {
        uint32_t count = hki_cluster_route(cluster, rank, 0, resources, &hops);
        if (count == 0 || count > HKI_ROUTE_MOST || hki_cluster_link(cluster, rank, 0) >= HKI_LINK_CLASSES)
            abort();
        for (uint32_t i = 0; i < count; i++)
            if (resources[i] >= hki_cluster_resources(cluster))
                abort();
    }
    hki_cluster_free(cluster);
    return 0;
}

/* What text and picture of a cluster have in common: who hangs below whom, what is alike and so is shown once, and how
 * things are called. */
#ifndef HKI_TOPO_CLUSTER_VIEW_H
#define HKI_TOPO_CLUSTER_VIEW_H

#include "topo/cluster.h"

enum { HKI_VIEW_TEXT = 160 };

typedef struct hki_cluster_view {
    const hki_cluster *cluster;
    uint32_t *first, *ranks; /* ranks by host, then by place on it: those of host h are ranks[first[h]] … */
    uint32_t *below;         /* ranks below each switch */
} hki_cluster_view;

/* HK_ERR_NO_MEMORY. */
hk_status hki_view_open(const hki_cluster *cluster, hki_cluster_view *view);
void hki_view_close(hki_cluster_view *view);

/* Called for switches and hosts from the top down, `count` neighbours that are alike at once, of which `number` is the
 * first. `within` is what on_switch returned for the switch above; NULL at the top. */
typedef struct hki_view_visitor {
    void *self;
    void *(*on_switch)(void *self, void *within, uint32_t number, uint32_t count);
    void (*on_host)(void *self, void *within, uint32_t host, uint32_t count);
} hki_view_visitor;
void hki_view_walk(const hki_cluster_view *view, const hki_view_visitor *visitor);

/* "hosts 0-3: 16 ranks each (0-63), 16 cores, 2 NUMA nodes" and the like. */
void hki_view_title(const hki_cluster_view *view, char text[HKI_VIEW_TEXT]);
void hki_view_switch(const hki_cluster_view *view, uint32_t number, uint32_t count, char text[HKI_VIEW_TEXT]);
void hki_view_host(const hki_cluster_view *view, uint32_t host, uint32_t count, char text[HKI_VIEW_TEXT]);
void hki_view_nics(uint32_t count, uint64_t rate, char text[HKI_VIEW_TEXT]);

#endif

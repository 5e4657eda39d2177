/* A host and a cluster as pictures. */
#include "base/error.h"
#include "topo/boxes.h"
#include "topo/cluster.h"
#include "topo/cluster_view.h"

#include <stdlib.h>

/* ---------------------------------------------------------------------------------------------------------------
 * A host
 * ------------------------------------------------------------------------------------------------------------- */

/* "32 MiB": sizes of caches and memory are whole numbers of some unit, nearly. */
static uint64_t scaled(uint64_t bytes, const char **unit)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int i = 0;
    for (; bytes >= 10240 || (bytes >= 1024 && bytes % 1024 == 0); i++)
        bytes = (bytes + 512) / 1024;
    *unit = units[i];
    return bytes;
}

/* The boxes that a PU is in; those that it shares with the one before are there already. */
typedef struct nest {
    hki_box *package, *numa, *l3, *l2, *core;
} nest;

static void add_caches(hki_boxes *boxes, const hki_topology *topology, const hki_pu *pu, const hki_pu *before, nest *at)
{
    const char *unit;
    bool same = before && before->numa == pu->numa && before->package == pu->package;
    if (!same || before->l3 != pu->l3) {
        at->l3 = at->numa;
        if (pu->l3 != HKI_TOPOLOGY_NO_CACHE) {
            unsigned long long size = scaled(topology->l3_bytes[pu->l3], &unit);
            at->l3 = hki_box_add(boxes, at->numa, HKI_BOX_CACHE, "L3 of %llu %s", size, unit);
        }
    }
    if (!same || before->l3 != pu->l3 || before->l2 != pu->l2) {
        at->l2 = at->l3;
        if (pu->l2 != HKI_TOPOLOGY_NO_CACHE) {
            unsigned long long size = scaled(topology->l2_bytes[pu->l2], &unit);
            at->l2 = hki_box_add(boxes, at->l3, HKI_BOX_CACHE, "L2 of %llu %s", size, unit);
        }
    }
}

static void add_pu(hki_boxes *boxes, const hki_topology *topology, const hki_pu *pu, const hki_pu *before, nest *at)
{
    const char *unit;
    if (!before || before->package != pu->package)
        at->package = hki_box_add(boxes, NULL, HKI_BOX_PACKAGE, "package %u", pu->package);
    if (!before || before->package != pu->package || before->numa != pu->numa) {
        const hki_numa_node *node = &topology->numas[pu->numa];
        unsigned long long size = scaled(node->bytes, &unit);
        at->numa = at->package;
        if (node->os != HKI_TOPOLOGY_UNKNOWN_NODE)
            at->numa = hki_box_add(boxes, at->package, HKI_BOX_NUMA,
                                   node->bytes ? "NUMA node %u, %llu %s" : "NUMA node %u", node->os, size, unit);
    }
    add_caches(boxes, topology, pu, before, at);
    if (!before || before->core != pu->core)
        at->core = hki_box_add(boxes, at->l2, HKI_BOX_CACHE, "core %u", pu->core);
    hki_box_add(boxes, at->core, pu->usable ? HKI_BOX_CORE : HKI_BOX_UNUSABLE, "CPU %u", pu->os);
}

hk_status hki_topology_picture(const hki_topology *topology, const hki_nics *nics, const char *title, FILE *file)
{
    hki_boxes *boxes = hki_boxes_new(title);
    char text[HKI_VIEW_TEXT];
    if (nics) {
        hki_view_nics(nics->count, nics->rate, text);
        hki_box_add(boxes, NULL, HKI_BOX_NIC, "%s", text);
    }
    nest at = {0};
    for (uint32_t i = 0; i < topology->pu_count; i++)
        add_pu(boxes, topology, &topology->pus[i], i > 0 ? &topology->pus[i - 1] : NULL, &at);
    hk_status status = hki_boxes_write(boxes, file);
    hki_boxes_free(boxes);
    return status;
}

/* ---------------------------------------------------------------------------------------------------------------
 * A cluster
 * ------------------------------------------------------------------------------------------------------------- */

enum { RANKS_DRAWN = 128 }; /* on one host; of more, only their number is said */

typedef struct canvas {
    const hki_cluster_view *view;
    hki_boxes *boxes;
} canvas;

/* The box for one kind of place (a NUMA node, a cache …) of a rank: that of the rank before, unless it is elsewhere. */
static hki_box *place(const canvas *on, hki_box *within, hki_box_kind kind, const char *name, uint16_t number,
                      bool moved, hki_box *before)
{
    if (!moved)
        return before;
    return number == HKI_TOPOLOGY_NO_CACHE ? within : hki_box_add(on->boxes, within, kind, "%s %u", name, number);
}

static void add_ranks(const canvas *on, hki_box *box, uint32_t host)
{
    const hki_seat *before = NULL;
    hki_box *package = NULL, *numa = NULL, *l3 = NULL;
    uint32_t count, *ranks = on->view->ranks + on->view->first[host];
    count = on->view->first[host + 1] - on->view->first[host];
    if (count > RANKS_DRAWN) {
        hki_box_add(on->boxes, box, HKI_BOX_RANK, "%u ranks", count);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const hki_seat *seat = &on->view->cluster->seats[ranks[i]];
        bool moved = !before || before->package != seat->package;
        package = place(on, box, HKI_BOX_PACKAGE, "package", seat->package, moved, package);
        moved = moved || before->numa != seat->numa;
        numa = place(on, package, HKI_BOX_NUMA, "NUMA", seat->numa, moved, numa);
        moved = moved || before->l3 != seat->l3;
        l3 = place(on, numa, HKI_BOX_CACHE, "L3", seat->l3, moved, l3);
        hki_box_add(on->boxes, l3, HKI_BOX_RANK, "%u", ranks[i]);
        before = seat;
    }
}

static void add_host(void *canvas_on, void *within, uint32_t host, uint32_t count)
{
    const canvas *on = canvas_on;
    char text[HKI_VIEW_TEXT];
    hki_view_host(on->view, host, count, text);
    hki_box *box = hki_box_add(on->boxes, within, HKI_BOX_HOST, "%s", text);
    hki_view_nics(on->view->cluster->hosts[host].nics, on->view->cluster->hosts[host].nic_rate, text);
    hki_box_add(on->boxes, box, HKI_BOX_NIC, "%s", text);
    add_ranks(on, box, host);
    if (count > 1)
        hki_box_stack(box);
}

static void *add_switch(void *canvas_on, void *within, uint32_t number, uint32_t count)
{
    const canvas *on = canvas_on;
    char text[HKI_VIEW_TEXT];
    hki_view_switch(on->view, number, count, text);
    hki_box *box = hki_box_add(on->boxes, within, HKI_BOX_SWITCH, "%s", text);
    if (count > 1)
        hki_box_stack(box);
    return box;
}

hk_status hki_cluster_picture(const hki_cluster *cluster, FILE *file)
{
    char title[HKI_VIEW_TEXT];
    hki_cluster_view view;
    HK_TRY(hki_view_open(cluster, &view));
    hki_view_title(&view, title);
    canvas on = {.view = &view, .boxes = hki_boxes_new(title)};
    hki_view_walk(&view, &(hki_view_visitor){.self = &on, .on_switch = add_switch, .on_host = add_host});
    hk_status status = hki_boxes_write(on.boxes, file);
    hki_boxes_free(on.boxes);
    hki_view_close(&view);
    return status;
}

#include "topo/cluster_view.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------------------
 * Order
 * ------------------------------------------------------------------------------------------------------------- */

/* Ranks are sorted with their seats at hand. */
typedef struct seated {
    hki_seat seat;
    uint32_t rank;
} seated;

static int compare(const void *left_rank, const void *right_rank)
{
    const seated *a = left_rank, *b = right_rank;
    const uint32_t keys[][2] = {{a->seat.host, b->seat.host},
                                {a->seat.package, b->seat.package},
                                {a->seat.numa, b->seat.numa},
                                {a->seat.l3, b->seat.l3},
                                {a->rank, b->rank}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

static void sort_ranks(const hki_cluster *cluster, seated *sorted, hki_cluster_view *view)
{
    for (uint32_t rank = 0; rank < cluster->rank_count; rank++) {
        sorted[rank] = (seated){cluster->seats[rank], rank};
        view->first[cluster->seats[rank].host + 1]++;
    }
    for (uint32_t host = 0; host < cluster->host_count; host++)
        view->first[host + 1] += view->first[host];
    qsort(sorted, cluster->rank_count, sizeof *sorted, compare);
    for (uint32_t i = 0; i < cluster->rank_count; i++)
        view->ranks[i] = sorted[i].rank;
}

hk_status hki_view_open(const hki_cluster *cluster, hki_cluster_view *view)
{
    *view = (hki_cluster_view){.cluster = cluster};
    seated *sorted = malloc(cluster->rank_count * sizeof *sorted);
    view->first = calloc((size_t)cluster->host_count + 1, sizeof *view->first);
    view->ranks = malloc(cluster->rank_count * sizeof *view->ranks);
    view->below = calloc(cluster->switch_count, sizeof *view->below);
    if (!sorted || !view->first || !view->ranks || !view->below) {
        free(sorted);
        hki_view_close(view);
        return hki_error(HK_ERR_NO_MEMORY, "no memory for drawing %u ranks", cluster->rank_count);
    }
    sort_ranks(cluster, sorted, view);
    free(sorted);
    for (uint32_t host = 0; host < cluster->host_count; host++)
        for (uint32_t at = cluster->hosts[host].above; at != UINT32_MAX; at = cluster->switches[at].above)
            view->below[at] += cluster->hosts[host].ranks;
    return HK_OK;
}

void hki_view_close(hki_cluster_view *view)
{
    free(view->first);
    free(view->ranks);
    free(view->below);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Walking
 * ------------------------------------------------------------------------------------------------------------- */

/* Ranks are elsewhere; what a host has, and how its ranks sit on it, is the same. */
static bool hosts_alike(const hki_cluster_view *view, uint32_t left, uint32_t right)
{
    const hki_cluster_host *a = &view->cluster->hosts[left], *b = &view->cluster->hosts[right];
    if (a->above != b->above || a->ranks != b->ranks || a->capacity != b->capacity || a->numas != b->numas ||
        a->nics != b->nics || a->nic_rate != b->nic_rate)
        return false;
    for (uint32_t i = 0; i < a->ranks; i++) {
        hki_seat one = view->cluster->seats[view->ranks[view->first[left] + i]];
        hki_seat other = view->cluster->seats[view->ranks[view->first[right] + i]];
        one.host = other.host = 0;
        if (memcmp(&one, &other, sizeof one) != 0)
            return false;
    }
    return true;
}

/* Switches with equal uplinks and as many ranks below count as alike, whatever hosts those are on. */
static bool switches_alike(const hki_cluster_view *view, uint32_t left, uint32_t right)
{
    const hki_cluster_switch *a = &view->cluster->switches[left], *b = &view->cluster->switches[right];
    return a->above == b->above && a->uplink_rate == b->uplink_rate && a->hop_ps == b->hop_ps &&
           view->below[left] == view->below[right];
}

static void walk_hosts(const hki_cluster_view *view, const hki_view_visitor *visitor, uint32_t above, void *within)
{
    const hki_cluster *cluster = view->cluster;
    for (uint32_t host = 0, count; host < cluster->host_count; host += count) {
        count = 1;
        if (cluster->hosts[host].above != above)
            continue;
        while (host + count < cluster->host_count && hosts_alike(view, host, host + count))
            count++;
        visitor->on_host(visitor->self, within, host, count);
    }
}

/* As deep as switches are above one another. */
static void walk_below(const hki_cluster_view *view, const hki_view_visitor *visitor, uint32_t above, void *within)
{
    const hki_cluster *cluster = view->cluster;
    for (uint32_t number = 0, count; number < cluster->switch_count; number += count) {
        count = 1;
        if (cluster->switches[number].above != above || view->below[number] == 0)
            continue;
        while (number + count < cluster->switch_count && switches_alike(view, number, number + count))
            count++;
        void *box = visitor->on_switch(visitor->self, within, number, count);
        walk_below(view, visitor, number, box);
        walk_hosts(view, visitor, number, box);
    }
}

void hki_view_walk(const hki_cluster_view *view, const hki_view_visitor *visitor)
{
    walk_below(view, visitor, UINT32_MAX, NULL);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Words
 * ------------------------------------------------------------------------------------------------------------- */

static const char *plural(uint32_t count)
{
    return count == 1 ? "" : "s";
}

void hki_view_title(const hki_cluster_view *view, char text[HKI_VIEW_TEXT])
{
    const hki_cluster *cluster = view->cluster;
    snprintf(text, HKI_VIEW_TEXT, "%u rank%s on %u host%s (%s)", cluster->rank_count, plural(cluster->rank_count),
             cluster->host_count, plural(cluster->host_count), cluster->source);
}

void hki_view_switch(const hki_cluster_view *view, uint32_t number, uint32_t count, char text[HKI_VIEW_TEXT])
{
    const hki_cluster_switch *one = &view->cluster->switches[number];
    int used = count > 1
                   ? snprintf(text, HKI_VIEW_TEXT, "%u switches alike, %u … %u", count, number, number + count - 1)
                   : snprintf(text, HKI_VIEW_TEXT, "switch %u", number);
    if (one->above != UINT32_MAX && one->uplink_rate > 0)
        used += snprintf(text + used, HKI_VIEW_TEXT - (size_t)used, ", uplink%s of %g Gbit/s", plural(count),
                         (double)one->uplink_rate / 125e6);
    if (one->hop_ps > 0)
        snprintf(text + used, HKI_VIEW_TEXT - (size_t)used, ", %g µs", (double)one->hop_ps / 1e6);
}

/* "0-63", "0,2,4 …": ranks of hosts, as one range where they are. */
static void put_ranks(const hki_cluster_view *view, uint32_t host, uint32_t count, char *text, size_t bytes)
{
    uint32_t begin = view->first[host], end = view->first[host + count], least = UINT32_MAX, most = 0;
    for (uint32_t i = begin; i < end; i++) {
        uint32_t rank = view->ranks[i];
        least = rank < least ? rank : least;
        most = rank > most ? rank : most;
    }
    if (end - begin == 1)
        snprintf(text, bytes, "%u", least);
    else
        snprintf(text, bytes, most - least == end - begin - 1 ? "%u-%u" : "among %u-%u", least, most);
}

void hki_view_host(const hki_cluster_view *view, uint32_t host, uint32_t count, char text[HKI_VIEW_TEXT])
{
    const hki_cluster_host *one = &view->cluster->hosts[host];
    char ranks[48];
    put_ranks(view, host, count, ranks, sizeof ranks);
    int used = count > 1 ? snprintf(text, HKI_VIEW_TEXT, "%u hosts alike, %u … %u: each", count, host, host + count - 1)
                         : snprintf(text, HKI_VIEW_TEXT, "host %u:", host);
    snprintf(text + used, HKI_VIEW_TEXT - (size_t)used, " %u rank%s (%s), room for %u, %u NUMA node%s", one->ranks,
             plural(one->ranks), ranks, one->capacity, one->numas, plural(one->numas));
}

void hki_view_nics(uint32_t count, uint64_t rate, char text[HKI_VIEW_TEXT])
{
    int used = snprintf(text, HKI_VIEW_TEXT, "%u NIC%s", count, plural(count));
    if (rate > 0)
        snprintf(text + used, HKI_VIEW_TEXT - (size_t)used, ", %g Gbit/s%s", (double)rate / 125e6,
                 count > 1 ? " together" : "");
}

/* ---------------------------------------------------------------------------------------------------------------
 * Text
 * ------------------------------------------------------------------------------------------------------------- */

/* What is written, and how deep: `within` of the visitor is the depth, as a pointer. */
typedef struct page {
    const hki_cluster_view *view;
    FILE *file;
} page;

static void indent(const page *on, uintptr_t depth)
{
    for (; depth > 0; depth--)
        fputs("  ", on->file);
}

static void *write_switch(void *self, void *within, uint32_t number, uint32_t count)
{
    const page *on = self;
    char text[HKI_VIEW_TEXT];
    hki_view_switch(on->view, number, count, text);
    indent(on, (uintptr_t)within);
    fprintf(on->file, "%s\n", text);
    return (void *)((uintptr_t)within + 1);
}

/* Which parts of the (first) host its ranks sit on, one line each. */
static void write_seats(const page *on, uintptr_t depth, uint32_t host)
{
    static const char *const names[] = {"package", "NUMA node", "L3"};
    const hki_cluster_view *view = on->view;
    for (uint32_t i = view->first[host], end; i < view->first[host + 1]; i = end) {
        const hki_seat *seat = &view->cluster->seats[view->ranks[i]];
        const uint16_t numbers[] = {seat->package, seat->numa, seat->l3};
        for (end = i + 1; end < view->first[host + 1]; end++) {
            const hki_seat *other = &view->cluster->seats[view->ranks[end]];
            if (other->package != seat->package || other->numa != seat->numa || other->l3 != seat->l3)
                break;
        }
        indent(on, depth);
        const char *comma = "";
        for (int kind = 0; kind < 3; kind++)
            if (numbers[kind] != HKI_TOPOLOGY_NO_CACHE) {
                fprintf(on->file, "%s%s %u", comma, names[kind], numbers[kind]);
                comma = ", ";
            }
        fprintf(on->file, "%srank%s", *comma ? ": " : "not bound: ", plural(end - i));
        for (uint32_t j = i; j < end && j < i + 32; j++)
            fprintf(on->file, " %u", view->ranks[j]);
        fputs(end > i + 32 ? " …\n" : "\n", on->file);
    }
}

static void write_host(void *self, void *within, uint32_t host, uint32_t count)
{
    const page *on = self;
    char text[HKI_VIEW_TEXT], nics[HKI_VIEW_TEXT];
    hki_view_host(on->view, host, count, text);
    hki_view_nics(on->view->cluster->hosts[host].nics, on->view->cluster->hosts[host].nic_rate, nics);
    indent(on, (uintptr_t)within);
    fprintf(on->file, "%s, %s\n", text, nics);
    write_seats(on, (uintptr_t)within + 1, host);
}

hk_status hki_cluster_draw(const hki_cluster *cluster, FILE *file)
{
    char title[HKI_VIEW_TEXT];
    hki_cluster_view view;
    HK_TRY(hki_view_open(cluster, &view));
    hki_view_title(&view, title);
    fprintf(file, "%s\n", title);
    page on = {.view = &view, .file = file};
    hki_view_walk(&view, &(hki_view_visitor){.self = &on, .on_switch = write_switch, .on_host = write_host});
    hki_view_close(&view);
    return HK_OK;
}

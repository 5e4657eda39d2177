/* Clusters from JSON. Every value is checked where it is taken, and named by its path: "hosts[1].ranks". */
#include "topo/cluster_file.h"

#include "base/error.h"
#include "base/json.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS_MOST = 256, COPIES_MOST = 1 << 20, PATH_BYTES = 64 };

/* An entry of "hosts": so many hosts alike. */
typedef struct host_kind {
    uint32_t count, ranks, switches; /* index into switch_kinds */
    hki_topology *topology;          /* NULL: nothing is known but `cores` */
    uint32_t cores;
    bool bound;
    uint16_t reach;
    uint32_t nics;
    uint64_t nic_rate;
} host_kind;

/* An entry of "switches": so many alike, which take equal shares, in order, of what is plugged into the entry. */
typedef struct switch_kind {
    const char *name; /* borrowed from the document */
    uint32_t count, first, above;
    double uplink_gbit, hop_us, oversubscription; /* negative: not given */
    uint32_t plugged;                             /* hosts and switches, in all its copies */
} switch_kind;

typedef struct reader {
    const char *name, *folder;
    uint32_t host_kinds, switch_kinds;
    host_kind hosts[KINDS_MOST];
    switch_kind switches[KINDS_MOST];
    bool cyclic; /* ranks are dealt round the hosts */
} reader;

/* ---------------------------------------------------------------------------------------------------------------
 * Values
 * ------------------------------------------------------------------------------------------------------------- */

/* Where a value is: `path` of its object, and its name there. */
static hk_status wrong(const reader *file, const char *path, const char *name, const char *what)
{
    return hki_error(HK_ERR_ARGUMENT, "%s: %s%s%s %s", file->name, path, *path && *name ? "." : "", name, what);
}

static hk_status check_members(const reader *file, const hki_json *object, const char *path, const char *const *known)
{
    char what[256];
    const char *unknown = hki_json_unknown(object, known);
    if (!unknown)
        return HK_OK;
    int used = snprintf(what, sizeof what, "is not known; there are");
    for (size_t i = 0; known[i] && used < (int)sizeof what; i++)
        used += snprintf(what + used, sizeof what - (size_t)used, "%s %s", i ? "," : "", known[i]);
    char name[PATH_BYTES];
    snprintf(name, sizeof name, "%s", unknown);
    return wrong(file, path, name, what);
}

/* A whole number from `low` to `high`; `standard` where there is none, unless that is below `low`. */
static hk_status take_count(const reader *file, const hki_json *object, const char *path, const char *name,
                            const int64_t limits[2], int64_t standard, uint32_t *result)
{
    char what[80];
    int64_t value = standard;
    const hki_json *member = hki_json_member(object, name);
    if (!member && standard < limits[0])
        return wrong(file, path, name, "is missing");
    if (member && (!hki_json_integer(member, &value) || value < limits[0] || value > limits[1])) {
        snprintf(what, sizeof what, "is no whole number from %lld to %lld", (long long)limits[0], (long long)limits[1]);
        return wrong(file, path, name, what);
    }
    *result = (uint32_t)value;
    return HK_OK;
}

/* A number from 0 to `most`; negative where there is none. */
static hk_status take_measure(const reader *file, const hki_json *object, const char *path, const char *name,
                              double most, double *result)
{
    char what[80];
    const hki_json *member = hki_json_member(object, name);
    *result = -1;
    if (!member)
        return HK_OK;
    if (hki_json_number(member, result) && *result >= 0 && *result <= most)
        return HK_OK;
    snprintf(what, sizeof what, "is no number from 0 to %g", most);
    return wrong(file, path, name, what);
}

/* A text; NULL where there is none. */
static hk_status take_text(const reader *file, const hki_json *object, const char *path, const char *name,
                           const char **result)
{
    const hki_json *member = hki_json_member(object, name);
    *result = hki_json_text(member);
    return member && !*result ? wrong(file, path, name, "is no text") : HK_OK;
}

/* One of two words; the first where there is none. */
static hk_status take_choice(const reader *file, const hki_json *object, const char *path, const char *name,
                             const char *const words[2], bool *second)
{
    const char *word;
    char what[80];
    HK_TRY(take_text(file, object, path, name, &word));
    *second = word && strcmp(word, words[1]) == 0;
    if (!word || *second || strcmp(word, words[0]) == 0)
        return HK_OK;
    snprintf(what, sizeof what, "is neither \"%s\" nor \"%s\"", words[0], words[1]);
    return wrong(file, path, name, what);
}

/* Gbit/s, or 0: what the tuning says. So little that times would not fit is a slip. */
static hk_status take_gbit(const reader *file, const hki_json *object, const char *path, const char *name,
                           double *result)
{
    static const double gbit_least = 0.008, gbit_most = 1e6;
    HK_TRY(take_measure(file, object, path, name, gbit_most, result));
    return *result > 0 && *result < gbit_least ? wrong(file, path, name, "is neither 0 nor at least 0.008 (1 MB/s)")
                                               : HK_OK;
}

static uint64_t bytes_of_gbit(double gbit)
{
    return gbit > 0 ? (uint64_t)llround(gbit * 125e6) : 0;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Entries
 * ------------------------------------------------------------------------------------------------------------- */

static const int64_t copies[2] = {1, COPIES_MOST};
static const double us_most = 1e6;

static hk_status find_switch(const reader *file, const hki_json *entry, const char *path, const char *name,
                             uint32_t *found)
{
    const char *wanted;
    HK_TRY(take_text(file, entry, path, name, &wanted));
    *found = UINT32_MAX;
    for (uint32_t i = 0; wanted && i < file->switch_kinds; i++)
        if (strcmp(file->switches[i].name, wanted) == 0)
            *found = i;
    return wanted && *found == UINT32_MAX ? wrong(file, path, name, "names no entry of switches") : HK_OK;
}

static hk_status take_switch(reader *file, const hki_json *entry, const char *path)
{
    static const char *const known[] = {"name", "count", "above", "uplink_gbit", "oversubscription", "hop_us", NULL};
    switch_kind *kind = &file->switches[file->switch_kinds];
    HK_TRY(check_members(file, entry, path, known));
    HK_TRY(take_text(file, entry, path, "name", &kind->name));
    if (!kind->name)
        return wrong(file, path, "name", "is missing");
    for (uint32_t i = 0; i < file->switch_kinds; i++)
        if (strcmp(file->switches[i].name, kind->name) == 0)
            return wrong(file, path, "name", "is that of another entry");
    HK_TRY(take_count(file, entry, path, "count", copies, 1, &kind->count));
    HK_TRY(take_gbit(file, entry, path, "uplink_gbit", &kind->uplink_gbit));
    HK_TRY(take_measure(file, entry, path, "oversubscription", 1000, &kind->oversubscription));
    HK_TRY(take_measure(file, entry, path, "hop_us", us_most, &kind->hop_us));
    if (kind->uplink_gbit >= 0 && kind->oversubscription >= 0)
        return wrong(file, path, "oversubscription", "says again what uplink_gbit says");
    if (kind->oversubscription == 0)
        return wrong(file, path, "oversubscription", "is 0; 1 is a network that blocks nobody");
    file->switch_kinds++;
    return HK_OK;
}

/* What a host is made of: "xml", "topology" or "cores". */
static hk_status take_made_of(reader *file, const hki_json *entry, const char *path, host_kind *kind)
{
    static const int64_t cores[2] = {1, HKI_TOPOLOGY_PUS_MAX};
    const char *xml, *description;
    char full[PATH_MAX];
    HK_TRY(take_text(file, entry, path, "xml", &xml));
    HK_TRY(take_text(file, entry, path, "topology", &description));
    bool cores_given = hki_json_member(entry, "cores") != NULL;
    if ((xml != NULL) + (description != NULL) + cores_given > 1)
        return wrong(file, path, "", "is described more than once: xml, topology or cores is enough");
    HK_TRY(take_count(file, entry, path, "cores", cores, kind->ranks < HKI_TOPOLOGY_PUS_MAX ? kind->ranks : cores[1],
                      &kind->cores));
    if (!xml && !description)
        return HK_OK;
    if (!file->folder)
        return wrong(file, path, xml ? "xml" : "topology", "is not looked at here");
    snprintf(full, sizeof full, "%s%s%s", xml && *xml != '/' ? file->folder : "", xml && *xml != '/' ? "/" : "",
             xml ? xml : "");
    hk_status status =
        xml ? hki_topology_load_xml(full, &kind->topology) : hki_topology_load_synthetic(description, &kind->topology);
    if (status != HK_ERR_ARGUMENT)
        return status;
    char why[256];
    snprintf(why, sizeof why, "cannot be used: %s", hk_last_error());
    return wrong(file, path, xml ? "xml" : "topology", why);
}

static hk_status take_reach(const reader *file, const hki_json *entry, const char *path, uint16_t *reach)
{
    static const char *const names[] = {"shm", "tcp", "verbs"};
    const hki_json *list = hki_json_member(entry, "transports");
    *reach = HKI_REACH_SHM | HKI_REACH_TCP;
    if (!list)
        return HK_OK;
    if (hki_json_count(list) == 0)
        return wrong(file, path, "transports", "is no list of \"shm\", \"tcp\" and \"verbs\"");
    *reach = 0;
    for (size_t i = 0; i < hki_json_count(list); i++) {
        const char *name = hki_json_text(hki_json_item(list, i));
        unsigned bit = 0;
        while (bit < 3 && !(name && strcmp(name, names[bit]) == 0))
            bit++;
        if (bit == 3)
            return wrong(file, path, "transports", "has something else than \"shm\", \"tcp\" and \"verbs\"");
        *reach = (uint16_t)(*reach | 1u << bit);
    }
    return *reach & (HKI_REACH_TCP | HKI_REACH_VERBS)
               ? HK_OK
               : wrong(file, path, "transports", "has none that reaches other hosts");
}

static hk_status take_host(reader *file, const hki_json *entry, const char *path)
{
    static const char *const known[] = {"count",      "ranks", "xml",      "topology", "cores", "binding",
                                        "transports", "nics",  "nic_gbit", "switch",   NULL};
    static const char *const bindings[2] = {"core", "none"};
    static const int64_t nics[2] = {1, 64};
    host_kind *kind = &file->hosts[file->host_kinds];
    double gbit;
    bool loose;
    HK_TRY(check_members(file, entry, path, known));
    HK_TRY(take_count(file, entry, path, "count", copies, 1, &kind->count));
    HK_TRY(take_count(file, entry, path, "ranks", copies, 0, &kind->ranks));
    HK_TRY(take_choice(file, entry, path, "binding", bindings, &loose));
    HK_TRY(take_reach(file, entry, path, &kind->reach));
    HK_TRY(take_count(file, entry, path, "nics", nics, 1, &kind->nics));
    HK_TRY(take_gbit(file, entry, path, "nic_gbit", &gbit));
    HK_TRY(find_switch(file, entry, path, "switch", &kind->switches));
    if (kind->switches == UINT32_MAX && file->switch_kinds > 1)
        return wrong(file, path, "switch", "is missing");
    kind->switches = kind->switches == UINT32_MAX ? 0 : kind->switches;
    kind->nic_rate = bytes_of_gbit(gbit) * kind->nics;
    kind->bound = !loose;
    file->host_kinds++;
    return take_made_of(file, entry, path, kind);
}

static hk_status take_entries(reader *file, const hki_json *document, const char *name,
                              hk_status (*take)(reader *file, const hki_json *entry, const char *path))
{
    const hki_json *list = hki_json_member(document, name);
    size_t count = hki_json_count(list);
    char path[PATH_BYTES];
    if (count == 0 || count > KINDS_MOST)
        return wrong(file, "", name, "is no list of 1 to 256 entries");
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s[%zu]", name, i);
        HK_TRY(take(file, hki_json_item(list, i), path));
    }
    return HK_OK;
}

static hk_status take_document(reader *file, const hki_json *document)
{
    static const char *const known[] = {"comment", "hosts", "switches", "order", NULL};
    static const char *const orders[2] = {"host", "cyclic"};
    const char *comment;
    HK_TRY(check_members(file, document, "", known));
    HK_TRY(take_text(file, document, "", "comment", &comment));
    HK_TRY(take_choice(file, document, "", "order", orders, &file->cyclic));
    const hki_json *switches = hki_json_member(document, "switches");
    if (switches)
        HK_TRY(take_entries(file, document, "switches", take_switch));
    else
        file->switches[file->switch_kinds++] =
            (switch_kind){.name = "", .count = 1, .uplink_gbit = -1, .hop_us = -1, .oversubscription = -1};
    for (uint32_t i = 0; i < file->switch_kinds; i++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "switches[%u]", i);
        HK_TRY(find_switch(file, hki_json_item(switches, i), path, "above", &file->switches[i].above));
    }
    return take_entries(file, document, "hosts", take_host);
}

/* ---------------------------------------------------------------------------------------------------------------
 * The cluster
 * ------------------------------------------------------------------------------------------------------------- */

/* Of `all` things that are plugged into an entry, which of its copies the `n`-th gets. */
static uint32_t copy_of(const switch_kind *kind, uint32_t n)
{
    return kind->first + (uint32_t)((uint64_t)n * kind->count / kind->plugged);
}

static void count_plugged(reader *file)
{
    for (uint32_t i = 0; i < file->host_kinds; i++)
        file->switches[file->hosts[i].switches].plugged += file->hosts[i].count;
    for (uint32_t i = 0; i < file->switch_kinds; i++)
        if (file->switches[i].above != UINT32_MAX)
            file->switches[file->switches[i].above].plugged += file->switches[i].count;
}

/* Switches, each plugged into a copy of what is above it. Within an entry hosts come first. */
static void make_switches(const reader *file, uint32_t *next, hki_cluster *made)
{
    for (uint32_t i = 0; i < file->switch_kinds; i++) {
        const switch_kind *kind = &file->switches[i];
        for (uint32_t copy = 0; copy < kind->count; copy++) {
            hki_cluster_switch *one = &made->switches[kind->first + copy];
            one->above = UINT32_MAX;
            one->uplink_rate = bytes_of_gbit(kind->uplink_gbit);
            one->hop_ps = kind->hop_us > 0 ? (uint64_t)llround(kind->hop_us * 1e6) : 0;
            if (kind->above != UINT32_MAX)
                one->above = copy_of(&file->switches[kind->above], next[kind->above]++);
        }
    }
}

/* An uplink by its oversubscription: what is plugged in below, divided by it. Finer switches come first, as many levels
 * as there may be. */
static hk_status divide_uplinks(const reader *file, hki_cluster *made)
{
    double *below = malloc(made->switch_count * sizeof *below);
    if (!below)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for %u switches", made->switch_count);
    for (uint32_t level = 0; level < HKI_SWITCH_LEVELS; level++) {
        memset(below, 0, made->switch_count * sizeof *below);
        for (uint32_t i = 0; i < made->host_count; i++)
            below[made->hosts[i].above] += (double)made->hosts[i].nic_rate;
        for (uint32_t i = 0; i < made->switch_count; i++)
            if (made->switches[i].above != UINT32_MAX)
                below[made->switches[i].above] += (double)made->switches[i].uplink_rate;
        for (uint32_t i = 0; i < file->switch_kinds; i++)
            for (uint32_t copy = 0; copy < file->switches[i].count && file->switches[i].oversubscription > 0; copy++) {
                uint32_t number = file->switches[i].first + copy;
                made->switches[number].uplink_rate = (uint64_t)(below[number] / file->switches[i].oversubscription);
            }
    }
    free(below);
    for (uint32_t i = 0; i < file->switch_kinds; i++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "switches[%u]", i);
        if (file->switches[i].oversubscription > 0 && made->switches[file->switches[i].first].uplink_rate == 0)
            return wrong(file, path, "oversubscription", "needs the nic_gbit of the hosts below");
    }
    return HK_OK;
}

static void make_hosts(const reader *file, uint32_t *next, hki_cluster *made)
{
    uint32_t host = 0;
    for (uint32_t i = 0; i < file->host_kinds; i++) {
        const host_kind *kind = &file->hosts[i];
        for (uint32_t copy = 0; copy < kind->count; copy++)
            made->hosts[host++] =
                (hki_cluster_host){.capacity = kind->topology ? hki_topology_capacity(kind->topology) : kind->cores,
                                   .numas = kind->topology ? kind->topology->numa_count : 1,
                                   .nics = kind->nics,
                                   .nic_rate = kind->nic_rate,
                                   .above = copy_of(&file->switches[kind->switches], next[kind->switches]++)};
    }
}

static int compare(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* Seats of a host's ranks: bound as `hocket run --bind core` does, to one CPU each, spread over the host and in their
 * order; or to none. */
static hk_status find_seats(const host_kind *kind, hki_seat *seats)
{
    const hki_topology *topology = kind->topology;
    uint32_t *order = calloc(topology ? topology->pu_count : 1, sizeof *order), usable = 0;
    hk_status status = order ? HK_OK : hki_error(HK_ERR_NO_MEMORY, "no memory for the CPUs of a host");
    if (status == HK_OK && topology)
        status = hki_topology_order(topology, order, &usable);
    uint32_t chosen = usable < kind->ranks ? usable : kind->ranks;
    if (status == HK_OK)
        qsort(order, chosen, sizeof *order, compare);
    for (uint32_t i = 0; status == HK_OK && i < kind->ranks; i++) {
        hki_cpus cpus = {{0}};
        for (uint32_t j = 0; topology && j < topology->pu_count; j++)
            if (!kind->bound || chosen == 0 ? topology->pus[j].usable : j == order[i % chosen])
                hki_cpus_add(&cpus, topology->pus[j].os);
        seats[i] = hki_seat_of(topology, &cpus);
        if (!topology) {
            uint16_t core = (uint16_t)(kind->bound ? i % kind->cores : HKI_TOPOLOGY_NO_CACHE);
            seats[i] = (hki_seat){.l2 = core, .core = core};
        }
        seats[i].reach = kind->reach;
    }
    free(order);
    return status;
}

/* Ranks host by host, or one to each host in turn as long as it has room. */
static void number_ranks(const reader *file, hki_seat *const *seats, hki_cluster *made)
{
    uint32_t rank = 0, most = 0;
    for (uint32_t i = 0; i < file->host_kinds; i++)
        most = file->hosts[i].ranks > most ? file->hosts[i].ranks : most;
    for (uint32_t turn = 0; turn < (file->cyclic ? most : 1); turn++) {
        uint32_t host = 0;
        for (uint32_t i = 0; i < file->host_kinds; i++) {
            const host_kind *kind = &file->hosts[i];
            uint32_t first = file->cyclic ? turn : 0, end = file->cyclic ? turn + 1 : kind->ranks;
            for (uint32_t copy = 0; copy < kind->count; copy++, host++)
                for (uint32_t member = first; member < end && member < kind->ranks; member++, rank++) {
                    made->seats[rank] = seats[i][member];
                    made->seats[rank].host = host;
                }
        }
    }
}

static hk_status make_seats(const reader *file, hki_cluster *made)
{
    hki_seat *seats[KINDS_MOST] = {NULL};
    hk_status status = HK_OK;
    for (uint32_t i = 0; i < file->host_kinds && status == HK_OK; i++) {
        seats[i] = malloc(file->hosts[i].ranks * sizeof *seats[i]);
        status = seats[i] ? find_seats(&file->hosts[i], seats[i]) : hki_error(HK_ERR_NO_MEMORY, "no memory for seats");
    }
    if (status == HK_OK)
        number_ranks(file, seats, made);
    for (uint32_t i = 0; i < file->host_kinds; i++)
        free(seats[i]);
    return status;
}

/* How much there is in all; refused where it is too much. */
static hk_status count_all(reader *file, uint32_t *ranks, uint32_t *hosts, uint32_t *switches)
{
    uint64_t all_ranks = 0, all_hosts = 0, all_switches = 0;
    for (uint32_t i = 0; i < file->host_kinds; i++) {
        all_hosts += file->hosts[i].count;
        all_ranks += (uint64_t)file->hosts[i].count * file->hosts[i].ranks;
    }
    for (uint32_t i = 0; i < file->switch_kinds; i++) {
        file->switches[i].first = (uint32_t)all_switches;
        all_switches += file->switches[i].count;
    }
    if (all_ranks > HKI_CLUSTER_FILE_RANKS || all_switches > HKI_CLUSTER_FILE_RANKS)
        return hki_error(HK_ERR_ARGUMENT, "%s: more than 2^20 ranks or switches", file->name);
    *ranks = (uint32_t)all_ranks;
    *hosts = (uint32_t)all_hosts;
    *switches = (uint32_t)all_switches;
    return HK_OK;
}

static hk_status fill(const reader *file, hki_cluster *made)
{
    uint32_t next[KINDS_MOST] = {0};
    make_hosts(file, next, made);
    make_switches(file, next, made);
    HK_TRY(make_seats(file, made));
    hk_status status = hki_cluster_settle(made);
    if (status == HK_ERR_ARGUMENT)
        return hki_error(status, "%s: %s", file->name, hk_last_error());
    return status == HK_OK ? divide_uplinks(file, made) : status;
}

static hk_status make_cluster(reader *file, hki_cluster **cluster)
{
    uint32_t ranks = 0, hosts = 0, switches = 0;
    HK_TRY(count_all(file, &ranks, &hosts, &switches));
    count_plugged(file);
    for (uint32_t i = 0; i < file->switch_kinds; i++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "switches[%u]", i);
        if (file->switches[i].plugged == 0)
            return wrong(file, path, "", "has nothing plugged in");
    }
    hki_cluster *made = hki_cluster_new(ranks, hosts, switches, file->name);
    if (!made)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a cluster of %u hosts", hosts);
    hk_status status = fill(file, made);
    if (status == HK_OK)
        *cluster = made;
    else
        hki_cluster_free(made);
    return status;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Files
 * ------------------------------------------------------------------------------------------------------------- */

static hk_status take(const hki_json *document, const char *name, const char *folder, hki_cluster **cluster)
{
    reader *file = calloc(1, sizeof *file);
    if (!file)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for reading a cluster");
    file->name = name;
    file->folder = folder;
    hk_status status = take_document(file, document);
    if (status == HK_OK)
        status = make_cluster(file, cluster);
    for (uint32_t i = 0; i < KINDS_MOST; i++)
        hki_topology_free(file->hosts[i].topology);
    free(file);
    return status;
}

hk_status hki_cluster_parse(const char *text, size_t bytes, const char *name, const char *folder, hki_cluster **cluster)
{
    hki_json *document;
    HK_TRY(hki_json_parse(text, bytes, name, &document));
    hk_status status = take(document, name, folder, cluster);
    hki_json_free(document);
    return status;
}

hk_status hki_cluster_read(const char *path, hki_cluster **cluster)
{
    hki_json *document;
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash - path) : 1;
    snprintf(folder, sizeof folder, "%.*s", length, !slash ? "." : length ? path : "/");
    HK_TRY(hki_json_read(path, &document));
    hk_status status = take(document, path, folder, cluster);
    hki_json_free(document);
    return status;
}

#include "cost/tuning.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/settings.h"

#define FORMAT "hocket-tuning-1"
static const int64_t most_ps = INT64_C(1) << 40; /* a second, for a message or a KiB: more is nonsense */
static const uint64_t least_rate = 1000000;      /* bytes a second: less is, too, and times would not fit */

/* ---- reading ---- */

static hk_status wrong(const char *name, const char *where, const char *member, const char *wanted)
{
    return hki_error(HK_ERR_ARGUMENT, "%s: %s: \"%s\" is missing or is no %s", name, where, member, wanted);
}

/* A whole number from 0 to `most`. */
static hk_status read_integer(const hki_json *object, const char *name, const char *where, const char *member,
                              int64_t most, uint64_t *result)
{
    int64_t value;
    if (!hki_json_integer(hki_json_member(object, member), &value) || value < 0 || value > most)
        return wrong(name, where, member, "whole number in range");
    *result = (uint64_t)value;
    return HK_OK;
}

/* The same of what files of earlier versions do not have: the built-in figure stays then. */
static hk_status read_if_there(const hki_json *object, const char *name, const char *where, const char *member,
                               uint64_t *result)
{
    return hki_json_member(object, member) ? read_integer(object, name, where, member, most_ps, result) : HK_OK;
}

/* Bytes a second, or 0: never in the way. */
static hk_status read_rate(const hki_json *object, const char *name, const char *where, const char *member,
                           uint64_t *rate)
{
    HK_TRY(read_integer(object, name, where, member, INT64_MAX, rate));
    return *rate == 0 || *rate >= least_rate ? HK_OK : wrong(name, where, member, "rate from 1 MB/s on, or 0");
}

static hk_status read_text(const hki_json *object, const char *name, const char *member, char *to, size_t bytes)
{
    const char *text = hki_json_text(hki_json_member(object, member));
    if (!text || strlen(text) >= bytes)
        return wrong(name, "the document", member, "short text");
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) /* it is shown on terminals and in logs */
            return wrong(name, "the document", member, "text without control characters");
    memcpy(to, text, strlen(text) + 1);
    return HK_OK;
}

static hk_status read_range(const hki_json *object, const char *name, const char *where, hki_range_figures *range,
                            hki_fit_quality *quality)
{
    int64_t upto, samples, rendezvous;
    *range = (hki_range_figures){.upto = UINT64_MAX};
    if (hki_json_integer(hki_json_member(object, "upto"), &upto) && upto > 0)
        range->upto = (uint64_t)upto;
    HK_TRY(read_integer(object, name, where, "alpha_ps", most_ps, &range->alpha_ps));
    HK_TRY(read_integer(object, name, where, "beta_ps_per_kib", most_ps, &range->beta_ps));
    HK_TRY(read_integer(object, name, where, "overhead_ps", most_ps, &range->overhead_ps));
    HK_TRY(read_integer(object, name, where, "core_ps_per_kib", most_ps, &range->core_ps));
    if (!hki_json_integer(hki_json_member(object, "rendezvous"), &rendezvous))
        return wrong(name, where, "rendezvous", "0 or 1");
    range->rendezvous = rendezvous != 0;
    hki_json_number(hki_json_member(object, "residual"), &quality->residual);
    hki_json_number(hki_json_member(object, "confidence"), &quality->confidence);
    if (hki_json_integer(hki_json_member(object, "samples"), &samples) && samples > 0 && samples < 1 << 30)
        quality->samples = (uint32_t)samples;
    return HK_OK;
}

/* Files of earlier versions have none: nothing is known of it then. */
static hk_status read_bulk(const hki_json *object, const char *name, const char *where, hki_bulk_figures *bulk)
{
    const hki_json *found = hki_json_member(object, "bulk");
    *bulk = (hki_bulk_figures){0};
    if (!found)
        return HK_OK;
    HK_TRY(read_integer(found, name, where, "from", INT64_MAX, &bulk->from));
    HK_TRY(read_integer(found, name, where, "full", INT64_MAX, &bulk->full));
    HK_TRY(read_integer(found, name, where, "beta_ps_per_kib", most_ps, &bulk->beta_ps));
    HK_TRY(read_integer(found, name, where, "core_ps_per_kib", most_ps, &bulk->core_ps));
    return bulk->full > bulk->from ? HK_OK : wrong(name, where, "full", "size above that of \"from\"");
}

static hk_status read_link(const hki_json *object, const char *name, hki_tuning *tuning)
{
    const char *class = hki_json_text(hki_json_member(object, "class"));
    int link = class ? hki_link_class_find(class) : -1;
    if (link < 0)
        return wrong(name, "links", "class", "kind of link");
    hki_link_figures *figures = &tuning->figures.link[link];
    const hki_json *ranges = hki_json_member(object, "ranges");
    size_t count = hki_json_count(ranges);
    if (count == 0 || count > HKI_FIGURE_RANGES)
        return wrong(name, class, "ranges", "list of 1 to 6 ranges");
    if (figures->origin == HKI_TUNED)
        return hki_error(HK_ERR_ARGUMENT, "%s: links: \"%s\" is there twice", name, class);
    *figures = (hki_link_figures){.ranges = (uint32_t)count, .origin = HKI_TUNED};
    for (size_t i = 0; i < count; i++) {
        HK_TRY(read_range(hki_json_item(ranges, i), name, class, &figures->range[i], &tuning->quality[link][i]));
        bool last = i + 1 == count, grows = i == 0 || figures->range[i].upto > figures->range[i - 1].upto;
        if (!grows || last != (figures->range[i].upto == UINT64_MAX))
            return wrong(name, class, "upto", "size above the one before, or null in the last range alone");
    }
    return read_bulk(object, name, class, &figures->bulk);
}

static hk_status read_gamma(const hki_json *object, const char *name, hki_figures *figures)
{
    const char *type = hki_json_text(hki_json_member(object, "type"));
    int found = -1;
    for (int i = 0; type && i < HK_TYPE_COUNT; i++)
        if (strcmp(hk_type_name((hk_type)i), type) == 0)
            found = i;
    if (found < 0)
        return wrong(name, "gamma", "type", "element type");
    for (int i = 0; i < HKI_OP_CLASSES; i++)
        HK_TRY(read_integer(object, name, type, hki_op_class_name((hki_op_class)i), most_ps,
                            &figures->gamma_ps[found][i]));
    return HK_OK;
}

static hk_status read_reduction(const hki_json *document, const char *name, hki_figures *figures)
{
    const hki_json *gamma = hki_json_member(document, "gamma_ps_per_kib");
    if (!gamma)
        return HK_OK;
    if (hki_json_count(gamma) == 0)
        return wrong(name, "the document", "gamma_ps_per_kib", "list of types");
    for (size_t i = 0; i < hki_json_count(gamma); i++)
        HK_TRY(read_gamma(hki_json_item(gamma, i), name, figures));
    figures->reduce_origin = HKI_TUNED;
    HK_TRY(read_integer(document, name, "the document", "copy_ps_per_kib", most_ps, &figures->copy_ps));
    figures->copy_far_ps = figures->copy_ps;
    HK_TRY(read_if_there(document, name, "the document", "copy_far_ps_per_kib", &figures->copy_far_ps));
    return read_if_there(document, name, "the document", "copy_bulk_ps_per_kib", &figures->copy_bulk_ps);
}

static hk_status read_host(const hki_json *document, const char *name, hki_figures *figures)
{
    const hki_json *host = hki_json_member(document, "host");
    if (!host)
        return HK_OK;
    figures->host_origin = HKI_TUNED;
    HK_TRY(read_integer(host, name, "host", "step_ps", most_ps, &figures->step_ps));
    HK_TRY(read_integer(host, name, "host", "switch_ps", most_ps, &figures->switch_ps));
    HK_TRY(read_if_there(host, name, "host", "counts_ps", &figures->counts_ps));
    HK_TRY(read_rate(host, name, "host", "memory_rate", &figures->memory_rate));
    return read_rate(host, name, "host", "nic_rate", &figures->nic_rate);
}

static hk_status read_document(const hki_json *document, const char *name, hki_tuning *tuning)
{
    const char *format = hki_json_text(hki_json_member(document, "format"));
    *tuning = (hki_tuning){.figures = hki_figures_built_in};
    if (!format || strcmp(format, FORMAT) != 0)
        return wrong(name, "the document", "format", "\"" FORMAT "\"");
    HK_TRY(read_text(document, name, "machine", tuning->machine, sizeof tuning->machine));
    HK_TRY(read_text(document, name, "date", tuning->date, sizeof tuning->date));
    HK_TRY(read_text(document, name, "version", tuning->version, sizeof tuning->version));
    const hki_json *links = hki_json_member(document, "links");
    if (links && !hki_json_is_array(links))
        return wrong(name, "the document", "links", "list of kinds of links");
    for (size_t i = 0; i < hki_json_count(links); i++)
        HK_TRY(read_link(hki_json_item(links, i), name, tuning));
    HK_TRY(read_reduction(document, name, &tuning->figures));
    HK_TRY(read_host(document, name, &tuning->figures));
    const char *slash = strrchr(name, '/');
    snprintf(tuning->figures.source, sizeof tuning->figures.source, "%.40s, %s", slash ? slash + 1 : name,
             tuning->date);
    return HK_OK;
}

hk_status hki_tuning_parse(const char *text, size_t bytes, const char *name, hki_tuning *tuning)
{
    hki_json *document = NULL;
    HK_TRY(hki_json_parse(text, bytes, name, &document));
    hk_status status = read_document(document, name, tuning);
    hki_json_free(document);
    return status;
}

static bool is_of_this_machine(const hki_tuning *tuning)
{
    char id[HKI_MACHINE_BYTES];
    hki_machine_id(id);
    return strcmp(id, tuning->machine) == 0;
}

hk_status hki_tuning_read(const char *path, hki_tuning *tuning)
{
    hki_json *document = NULL;
    HK_TRY(hki_json_read(path, &document));
    hk_status status = read_document(document, path, tuning);
    hki_json_free(document);
    if (status == HK_OK && !is_of_this_machine(tuning)) {
        char *source = tuning->figures.source;
        size_t used = strlen(source);
        snprintf(source + used, sizeof tuning->figures.source - used, ", of another machine");
    }
    return status;
}

/* ---- writing ---- */

static void write_link(hki_json *links, const hki_tuning *tuning, int link)
{
    const hki_link_figures *figures = &tuning->figures.link[link];
    hki_json *object = hki_json_add_object(links);
    hki_json_put_text(object, "class", hki_link_class_name((hki_link_class)link));
    hki_json *ranges = hki_json_put_array(object, "ranges");
    for (uint32_t i = 0; i < figures->ranges; i++) {
        const hki_range_figures *range = &figures->range[i];
        const hki_fit_quality *quality = &tuning->quality[link][i];
        hki_json *one = hki_json_add_object(ranges);
        if (i + 1 < figures->ranges)
            hki_json_put_integer(one, "upto", (int64_t)range->upto);
        hki_json_put_integer(one, "alpha_ps", (int64_t)range->alpha_ps);
        hki_json_put_integer(one, "beta_ps_per_kib", (int64_t)range->beta_ps);
        hki_json_put_integer(one, "overhead_ps", (int64_t)range->overhead_ps);
        hki_json_put_integer(one, "core_ps_per_kib", (int64_t)range->core_ps);
        hki_json_put_integer(one, "rendezvous", range->rendezvous);
        hki_json_put_number(one, "residual", quality->residual);
        hki_json_put_number(one, "confidence", quality->confidence);
        hki_json_put_integer(one, "samples", quality->samples);
    }
    if (figures->bulk.full == 0)
        return;
    hki_json *bulk = hki_json_put_object(object, "bulk");
    hki_json_put_integer(bulk, "from", (int64_t)figures->bulk.from);
    hki_json_put_integer(bulk, "full", (int64_t)figures->bulk.full);
    hki_json_put_integer(bulk, "beta_ps_per_kib", (int64_t)figures->bulk.beta_ps);
    hki_json_put_integer(bulk, "core_ps_per_kib", (int64_t)figures->bulk.core_ps);
}

/* Links that were measured, with what is not believed: who reads the file sees why they are not in it. */
static void write_doubts(hki_json *document, const hki_tuning *tuning)
{
    hki_json *doubts = NULL;
    for (int link = 0; link < HKI_LINK_CLASSES; link++) {
        const hki_fit_quality *worst = &tuning->doubtful[link];
        if (!worst->samples && !tuning->bulk_doubtful[link])
            continue;
        doubts = doubts ? doubts : hki_json_put_array(document, "not_believed");
        hki_json *one = hki_json_add_object(doubts);
        hki_json_put_text(one, "class", hki_link_class_name((hki_link_class)link));
        hki_json_put_text(one, "figures", worst->samples ? "ranges" : "bulk");
        if (!worst->samples)
            continue;
        hki_json_put_number(one, "residual", worst->residual);
        hki_json_put_number(one, "confidence", worst->confidence);
        hki_json_put_integer(one, "samples", worst->samples);
    }
}

static void write_reduction(hki_json *document, const hki_figures *figures)
{
    hki_json *gamma = hki_json_put_array(document, "gamma_ps_per_kib");
    for (int type = 0; type < HK_TYPE_COUNT; type++) {
        hki_json *one = hki_json_add_object(gamma);
        hki_json_put_text(one, "type", hk_type_name((hk_type)type));
        for (int i = 0; i < HKI_OP_CLASSES; i++)
            hki_json_put_integer(one, hki_op_class_name((hki_op_class)i), (int64_t)figures->gamma_ps[type][i]);
    }
    hki_json_put_integer(document, "copy_ps_per_kib", (int64_t)figures->copy_ps);
    hki_json_put_integer(document, "copy_far_ps_per_kib", (int64_t)figures->copy_far_ps);
    hki_json_put_integer(document, "copy_bulk_ps_per_kib", (int64_t)figures->copy_bulk_ps);
}

static void write_host(hki_json *document, const hki_figures *figures)
{
    hki_json *host = hki_json_put_object(document, "host");
    hki_json_put_integer(host, "step_ps", (int64_t)figures->step_ps);
    hki_json_put_integer(host, "switch_ps", (int64_t)figures->switch_ps);
    hki_json_put_integer(host, "counts_ps", (int64_t)figures->counts_ps);
    hki_json_put_integer(host, "memory_rate", (int64_t)figures->memory_rate);
    hki_json_put_integer(host, "nic_rate", (int64_t)figures->nic_rate);
}

static void fill_in(hki_tuning *tuning)
{
    time_t now = time(NULL);
    struct tm parts;
    if (!*tuning->machine)
        hki_machine_id(tuning->machine);
    if (!*tuning->version)
        snprintf(tuning->version, sizeof tuning->version, "%d.%d.%d", HK_VERSION_MAJOR, HK_VERSION_MINOR,
                 HK_VERSION_PATCH);
    if (!*tuning->date && gmtime_r(&now, &parts))
        strftime(tuning->date, sizeof tuning->date, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

hk_status hki_tuning_write(hki_tuning *tuning, const char *path)
{
    hki_json *document = NULL;
    HK_TRY(hki_json_new(&document));
    fill_in(tuning);
    hki_json_put_text(document, "format", FORMAT);
    hki_json_put_text(document, "machine", tuning->machine);
    hki_json_put_text(document, "date", tuning->date);
    hki_json_put_text(document, "version", tuning->version);
    hki_json *links = hki_json_put_array(document, "links");
    for (int link = 0; link < HKI_LINK_CLASSES; link++)
        if (tuning->figures.link[link].origin != HKI_BUILT_IN)
            write_link(links, tuning, link);
    write_doubts(document, tuning);
    if (tuning->figures.reduce_origin != HKI_BUILT_IN)
        write_reduction(document, &tuning->figures);
    if (tuning->figures.host_origin != HKI_BUILT_IN)
        write_host(document, &tuning->figures);
    hk_status status = hki_json_write(document, path);
    hki_json_free(document);
    return status;
}

/* ---- which machine, which file ---- */

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

void hki_machine_id(char id[HKI_MACHINE_BYTES])
{
    char line[512] = "", host[256] = "";
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "model name", 10) == 0 || strncmp(line, "CPU part", 8) == 0)
            break;
    if (file)
        fclose(file);
    gethostname(host, sizeof host - 1);
    uint64_t hash = hash_text(hash_text(UINT64_C(0xcbf29ce484222325), line), host);
    hash = (hash ^ (uint64_t)sysconf(_SC_NPROCESSORS_CONF)) * UINT64_C(0x100000001b3);
    snprintf(id, HKI_MACHINE_BYTES, "%016llx", (unsigned long long)hash);
}

bool hki_tuning_cache_path(char *path, size_t bytes, bool make)
{
    char id[HKI_MACHINE_BYTES];
    const char *cache = hki_environment("XDG_CACHE_HOME"), *home = hki_environment("HOME");
    bool own = cache && *cache == '/';
    if (!own && (!home || *home != '/'))
        return false;
    hki_machine_id(id);
    int used = snprintf(path, bytes, "%s%s", own ? cache : home, own ? "" : "/.cache");
    if (used < 0 || (size_t)used + 64 > bytes)
        return false;
    if (make && mkdir(path, 0700) != 0 && errno != EEXIST)
        return false;
    snprintf(path + used, bytes - (size_t)used, "/hocket");
    if (make && mkdir(path, 0700) != 0 && errno != EEXIST)
        return false;
    snprintf(path + strlen(path), bytes - strlen(path), "/tuning-%s.json", id);
    return true;
}

/* The named file; another machine's is used all the same. */
static hk_status use_named(const char *path, hki_figures *figures)
{
    hki_tuning tuning;
    char id[HKI_MACHINE_BYTES];
    if (hki_tuning_read(path, &tuning) != HK_OK) {
        char why[512];
        snprintf(why, sizeof why, "%s", hk_last_error());
        return hki_error(HK_ERR_SETTING, "HOCKET_TUNING: %s", why);
    }
    hki_machine_id(id);
    if (strcmp(id, tuning.machine) != 0)
        hki_log(HK_LOG_WARN, "HOCKET_TUNING: %s was measured on another machine (%s, this is %s)", path, tuning.machine,
                id);
    *figures = tuning.figures;
    return HK_OK;
}

static void use_cached(hki_figures *figures)
{
    hki_tuning tuning;
    char id[HKI_MACHINE_BYTES], path[512];
    if (!hki_tuning_cache_path(path, sizeof path, false) || access(path, R_OK) != 0)
        return;
    hki_machine_id(id);
    if (hki_tuning_read(path, &tuning) != HK_OK)
        hki_log(HK_LOG_WARN, "the tuning file is not used: %s", hk_last_error());
    else if (strcmp(id, tuning.machine) != 0)
        hki_log(HK_LOG_WARN, "%s was measured on another machine (%s, this is %s): it is not used", path,
                tuning.machine, id);
    else
        *figures = tuning.figures;
}

hk_status hki_tuning_find(hki_figures *figures)
{
    const char *named = hki_setting_text(HKI_SET_TUNING);
    *figures = hki_figures_built_in;
    if (*named && strcmp(named, "none") != 0)
        return use_named(named, figures);
    if (!*named)
        use_cached(figures);
    return HK_OK;
}

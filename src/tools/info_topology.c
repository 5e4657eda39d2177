/* `hocket info --topology`: this host, one of a file, or a whole cluster; as text or as a picture. */
#include "tools/info.h"

#include "base/settings.h"
#include "comm/comm.h"
#include "topo/cluster_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What is shown: a host, or a cluster. */
typedef struct subject {
    hki_topology *host;
    const hki_nics *nics; /* of the host; NULL: not known */
    const char *title;
    const hki_cluster *cluster;
} subject;

static hk_status draw(const subject *shown, bool as_picture, FILE *file)
{
    if (shown->cluster)
        return (as_picture ? hki_cluster_picture : hki_cluster_draw)(shown->cluster, file);
    if (as_picture)
        return hki_topology_picture(shown->host, shown->nics, shown->title, file);
    hki_topology_draw(shown->host, file);
    if (shown->nics && shown->nics->rate > 0)
        fprintf(file, "NICs: %u, %g Gbit/s each way%s\n", shown->nics->count, (double)shown->nics->rate / 125e6,
                shown->nics->count > 1 ? ", all together" : "");
    return HK_OK;
}

/* 2: the user has it in hand, a file that is wrong. */
static int complain(hk_status status)
{
    fprintf(stderr, "hocket info: %s\n", hk_last_error());
    return status == HK_ERR_ARGUMENT || status == HK_ERR_SETTING ? 2 : 1;
}

static int show(const subject *shown, const char *picture)
{
    FILE *file = picture ? fopen(picture, "we") : stdout;
    if (!file) {
        fprintf(stderr, "hocket info: %s cannot be written: %s\n", picture, strerror(errno));
        return 1;
    }
    hk_status status = draw(shown, picture != NULL, file);
    bool written = !ferror(file);
    if (picture)
        written = fclose(file) == 0 && written;
    if (status != HK_OK)
        return complain(status);
    if (!written)
        fprintf(stderr, "hocket info: %s cannot be written\n", picture ? picture : "standard output");
    return !written;
}

/* Whether a file is JSON: it begins with a brace, where XML has an angle bracket. */
static bool is_cluster(const char *name)
{
    FILE *file = fopen(name, "re");
    int letter = file ? fgetc(file) : EOF;
    while (letter == ' ' || letter == '\t' || letter == '\r' || letter == '\n')
        letter = fgetc(file);
    if (file)
        fclose(file);
    return letter == '{';
}

static int show_file(const char *name, const char *picture)
{
    subject shown = {.title = name};
    hki_cluster *cluster = NULL;
    if (access(name, R_OK) != 0) {
        fprintf(stderr, "hocket info: %s cannot be read: %s\n", name, strerror(errno));
        return 1;
    }
    bool many = is_cluster(name);
    hk_status status = many ? hki_cluster_read(name, &cluster) : hki_topology_load_xml(name, &shown.host);
    shown.cluster = cluster;
    int result = status == HK_OK ? show(&shown, picture) : complain(status);
    hki_topology_free(shown.host);
    hki_cluster_free(cluster);
    return result;
}

/* Whether something started this process as one of several ranks. */
static bool is_launched(void)
{
    static const char *const signs[] = {"PMIX_RANK", "PMI_RANK", "PMI_FD", "RANK"};
    bool launched = hki_setting_given(HKI_SET_LAUNCH) || hki_setting_given(HKI_SET_RANK);
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        launched |= hki_environment(signs[i]) != NULL;
    return launched;
}

/* By which figures algorithms are chosen in this job. */
static void show_figures(const hki_figures *figures)
{
    char text[HKI_ORIGINS_TEXT];
    printf("figures of the cost model%s%s: %s\n", *figures->source ? ", " : "", figures->source,
           hki_figures_origins(figures, text, sizeof text));
    for (int link = 0; link < HKI_LINK_CLASSES; link++) {
        const hki_link_figures *one = &figures->link[link];
        if (one->origin != HKI_BUILT_IN)
            printf("  %s: small messages take %.2f us, large ones %.4f ns a byte, %s\n",
                   hki_link_class_text((hki_link_class)link), (double)one->range[0].alpha_ps / 1e6,
                   (double)one->range[one->ranges - 1].beta_ps / 1024e3, hki_origin_name(one->origin));
    }
}

static int show_job(const char *picture)
{
    hk_comm *comm;
    hk_status status = hk_init(&comm);
    if (status != HK_OK)
        return complain(status);
    int result = hk_comm_rank(comm) == 0 ? show(&(subject){.cluster = comm->cluster}, picture) : 0;
    if (hk_comm_rank(comm) == 0 && !picture)
        show_figures(&comm->context->figures);
    hk_barrier(comm);
    hk_comm_free(comm);
    return result;
}

static int show_host(const char *picture)
{
    hki_nics nics = hki_nics_find();
    subject shown = {.nics = &nics, .title = "This host. Grey: not usable by this process"};
    hk_status status = hki_topology_load(&shown.host);
    int result = status == HK_OK ? show(&shown, picture) : complain(status);
    hki_topology_free(shown.host);
    return result;
}

int info_topology(const char *file, const char *picture)
{
    if (file)
        return show_file(file, picture);
    return is_launched() ? show_job(picture) : show_host(picture);
}

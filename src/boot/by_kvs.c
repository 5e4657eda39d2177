/*
 * Joining under a launcher that offers a key-value space. Only one thing goes through it: rank 0's meeting point, with
 * a random key. All else goes through the store there, which names who is missing, and which costs one round trip a
 * record where a key-value space takes P² gets, 1 KiB at a time. The launcher is told goodbye after the first context;
 * rank 0 keeps its listeners for further ones.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "boot/kvs.h"
#include "boot/meeting.h"
#include "boot/source.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    const hki_kvs *launcher; /* NULL: not asked yet */
    bool open;               /* the connection to it */
    hk_status status;        /* how asking it ended */
    char error[512];
    hki_kvs_place place;
    hki_meeting meeting;
    hki_listeners listeners; /* of rank 0 */
    unsigned joined;
} kvs;

static const hki_kvs *find_launcher(void)
{
    static const hki_kvs *const all[] = {&hki_kvs_pmix, &hki_kvs_pmi1};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char mark[HKI_MARK_TEXT];
        if (!all[i]->present())
            continue;
        all[i]->mark(mark);
        if (!hki_boot_place_taken(mark))
            return all[i];
    }
    return NULL;
}

bool hki_boot_kvs_place(void)
{
    return find_launcher() != NULL;
}

static void close_launcher(void)
{
    if (kvs.open)
        kvs.launcher->close();
    kvs.open = false;
}

static void end_joining(void)
{
    close_launcher();
    hki_boot_end_turn();
}

static hk_status share_meeting(uint64_t deadline)
{
    char text[HKI_MEETING_TEXT] = "";
    if (kvs.place.ranks == 1)
        return HK_OK;
    if (kvs.place.rank == 0) {
        HK_TRY(hki_meeting_make(kvs.place.one_host, &kvs.meeting, &kvs.listeners));
        hki_meeting_text(&kvs.meeting, text);
    }
    hk_status status = kvs.launcher->share(&kvs.place, text, sizeof text, deadline);
    if (status == HK_OK && !hki_meeting_parse(text, &kvs.meeting))
        status =
            hki_error(HK_ERR_BOOTSTRAP, "%s: what rank 0 left there is no meeting point: another version of Hocket?",
                      kvs.launcher->name);
    explicit_bzero(text, sizeof text);
    return status;
}

/* At the process's first context. What comes of it holds for the later ones, too. */
static hk_status ask_launcher(void)
{
    char mark[HKI_MARK_TEXT];
    uint64_t deadline = hki_now() + (uint64_t)(hki_setting_seconds(HKI_SET_JOIN_TIMEOUT) * 1e9);
    if (kvs.launcher)
        return kvs.status == HK_OK ? HK_OK : hki_error_set(kvs.status, kvs.error);
    kvs.launcher = find_launcher();
    kvs.launcher->mark(mark);
    hki_boot_take_place(mark);
    kvs.status = kvs.launcher->open(&kvs.place, deadline);
    kvs.open = kvs.status == HK_OK;
    if (kvs.open)
        kvs.status = share_meeting(deadline);
    if (kvs.status != HK_OK) {
        snprintf(kvs.error, sizeof kvs.error, "%s", hk_last_error());
        close_launcher();
    } else {
        hki_log(HK_LOG_DEBUG, "%s: rank %d of %d", kvs.launcher->name, kvs.place.rank, kvs.place.ranks);
    }
    return kvs.status;
}

hk_status hki_boot_by_kvs(const hk_options *given, hki_boot **boot)
{
    hk_options options = *given;
    (void)hki_boot_take_turn();
    hk_status status = ask_launcher();
    if (status != HK_OK) {
        hki_boot_end_turn();
        return status;
    }
    options.rank = kvs.place.rank;
    options.ranks = kvs.place.ranks;
    if (options.ranks == 1) {
        end_joining();
        return hki_boot_alone(&options, kvs.launcher->name, boot);
    }
    return hki_meeting_join(&kvs.meeting, options.rank == 0 ? &kvs.listeners : NULL, kvs.joined++, &options,
                            kvs.launcher->name, end_joining, boot);
}

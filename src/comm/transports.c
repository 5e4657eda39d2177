#include "comm/transports.h"

#include "base/error.h"
#include "base/settings.h"
#include "comm/plugin.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

extern const hk_transport_ops hk_transport_shm, hk_transport_tcp;

enum { MOST = 8, NAME_ROOM = 64 };

static const hk_transport_ops *all[MOST + 1] = {&hk_transport_shm, &hk_transport_tcp};
static int count = 2;
static const hk_transport_ops *usable[MOST + 1];
static int used;
static bool chosen, named;
static hk_status trouble; /* what was wrong with HOCKET_TRANSPORT when it was read */
static char trouble_text[1536];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Comes with the library, but apart from it: used when it is there, before this one. */
static const char *const module = "verbs", *const module_before = "tcp";

static const hk_transport_ops *built_in(const char *name)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    }
    return NULL;
}

static hk_status allow(const hk_transport_ops *ops)
{
    for (int i = 0; i < used; i++) {
        if (usable[i] == ops)
            return HK_OK;
    }
    if (used == MOST)
        return hki_error(HK_ERR_SETTING, "HOCKET_TRANSPORT names more than %d transports", MOST);
    usable[used++] = ops;
    return HK_OK;
}

static hk_status allow_name(const char *name)
{
    const hk_transport_ops *ops = built_in(name);
    for (int i = 0; i < used && !ops; i++) /* a plug-in that is named twice */
        ops = strcmp(usable[i]->name, name) == 0 ? usable[i] : NULL;
    if (!ops)
        HK_TRY(hki_plugin_load(name, &ops));
    return allow(ops);
}

static hk_status forbid(const char *name)
{
    const hk_transport_ops *ops = built_in(name);
    bool ours = strcmp(name, module) == 0;
    for (int i = 0; i < used && ours; i++)
        ops = strcmp(usable[i]->name, name) == 0 ? usable[i] : ops;
    if (!ops && !ours)
        return hki_error(HK_ERR_SETTING, "HOCKET_TRANSPORT forbids %s, which is not a transport of this library", name);
    int kept = 0;
    for (int i = 0; i < used; i++) {
        if (usable[i] != ops)
            usable[kept++] = usable[i];
    }
    usable[kept] = NULL;
    used = kept;
    return HK_OK;
}

/* Whether the list says "^name". */
static bool forbids_name(const char *text, const char *name)
{
    for (size_t length; *text; text += length + (text[length] == ',')) {
        length = strcspn(text, ",");
        if (*text == '^' && strlen(name) == length - 1 && memcmp(text + 1, name, length - 1) == 0)
            return true;
    }
    return false;
}

/* The module is not loaded where the list forbids it. */
static hk_status allow_all(const char *text)
{
    bool wanted = !forbids_name(text, module);
    for (int i = 0; i < count; i++) {
        const hk_transport_ops *ops;
        if (wanted && strcmp(all[i]->name, module_before) == 0 && hki_plugin_load(module, &ops) == HK_OK)
            HK_TRY(allow(ops));
        HK_TRY(allow(all[i]));
    }
    return HK_OK;
}

/* "shm,tcp" allows those, in order of preference; "^tcp" all that there are but that one. */
static hk_status parse(const char *text)
{
    if (*text == '^' || *text == '\0')
        HK_TRY(allow_all(text));
    else
        named = true;
    while (*text) {
        char name[NAME_ROOM];
        bool forbids = *text == '^';
        text += forbids;
        size_t length = strcspn(text, ",");
        if (length >= sizeof name)
            return hki_error(HK_ERR_SETTING, "HOCKET_TRANSPORT names %.*s, which is not a transport", (int)length,
                             text);
        memcpy(name, text, length);
        name[length] = '\0';
        if (length)
            HK_TRY(forbids ? forbid(name) : allow_name(name));
        text += length + (text[length] == ',');
    }
    if (used == 0)
        return hki_error(HK_ERR_SETTING, "HOCKET_TRANSPORT=%s leaves no transport",
                         hki_setting_text(HKI_SET_TRANSPORT));
    return HK_OK;
}

static void choose(void)
{
    trouble = parse(hki_setting_text(HKI_SET_TRANSPORT));
    if (trouble != HK_OK)
        snprintf(trouble_text, sizeof trouble_text, "%s", hk_last_error());
    chosen = true;
}

const hk_transport_ops *const *hki_transports_all(void)
{
    return all;
}

bool hki_transports_add(const hk_transport_ops *ops)
{
    if (count == MOST || chosen)
        return false;
    memmove(all + 1, all, (size_t)count * sizeof *all);
    all[0] = ops;
    count++;
    return true;
}

const hk_transport_ops *const *hki_transports_usable(void)
{
    pthread_once(&once, choose);
    return usable;
}

bool hki_transports_ordered(void)
{
    pthread_once(&once, choose);
    return named;
}

bool hki_transports_named(const hk_transport_ops *ops)
{
    return named || built_in(ops->name) != NULL;
}

hk_status hki_transports_check(void)
{
    pthread_once(&once, choose);
    return trouble == HK_OK ? HK_OK : hki_error_set(trouble, trouble_text);
}

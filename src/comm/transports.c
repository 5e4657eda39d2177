#include "comm/transports.h"

#include "base/error.h"
#include "base/settings.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

extern const hk_transport_ops hk_transport_shm;

enum { MOST = 8 };

static const hk_transport_ops *all[MOST + 1] = {&hk_transport_shm};
static int count = 1;
static const hk_transport_ops *usable[MOST + 1];
static bool chosen;
static char unknown[64];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int find(const char *name, size_t length)
{
    for (int i = 0; i < count; i++) {
        if (strlen(all[i]->name) == length && memcmp(all[i]->name, name, length) == 0)
            return i;
    }
    return -1;
}

/* "shm,tcp" allows those, "^tcp" all but that one. */
static void choose(void)
{
    const char *text = hki_setting_text(HKI_SET_TRANSPORT);
    bool forbids = *text == '^' || *text == '\0';
    bool allowed[MOST];
    for (int i = 0; i < count; i++)
        allowed[i] = forbids;
    while (*text) {
        size_t skip = *text == '^', length = strcspn(text, ",");
        int i = find(text + skip, length - skip);
        if (i < 0)
            snprintf(unknown, sizeof unknown, "%.*s", (int)(length - skip), text + skip);
        else
            allowed[i] = !skip;
        text += length + (text[length] == ',');
    }
    int used = 0;
    for (int i = 0; i < count; i++) {
        if (allowed[i])
            usable[used++] = all[i];
    }
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

hk_status hki_transports_check(void)
{
    pthread_once(&once, choose);
    if (unknown[0])
        return hki_error(HK_ERR_SETTING, "HOCKET_TRANSPORT names %s, which is not a transport", unknown);
    if (!usable[0])
        return hki_error(HK_ERR_SETTING, "HOCKET_TRANSPORT=%s leaves no transport",
                         hki_setting_text(HKI_SET_TRANSPORT));
    return HK_OK;
}

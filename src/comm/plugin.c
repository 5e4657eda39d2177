#include "comm/plugin.h"

#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"

#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Where the libraries are installed, seen from the programs. */
#ifndef HKI_LIBRARIES_FROM_PROGRAMS
#define HKI_LIBRARIES_FROM_PROGRAMS "../lib"
#endif

enum { NAME_LONGEST = 32, SEARCHED = 1024, WHY = 512 };

/* ---- what a plug-in must have ---- */

/* Functions without which there is no transport, and those that a capability needs. */
static const struct need {
    const char *name;
    size_t offset;
    uint32_t capability; /* 0: always */
} needs[] = {
#define NEED(FUNCTION, CAPABILITY)                                                                                     \
    {                                                                                                                  \
#FUNCTION, offsetof(hk_transport_ops, FUNCTION), CAPABILITY                                                    \
    }
    NEED(open, 0),
    NEED(close, 0),
    NEED(address, 0),
    NEED(connect, 0),
    NEED(link_state, 0),
    NEED(send, 0),
    NEED(peek, 0),
    NEED(consume, 0),
    NEED(poll, 0),
    NEED(check, 0),
    NEED(arm, 0),
    NEED(disarm, 0),
    NEED(event_fd, 0),
    NEED(counters, 0),
    NEED(describe, HK_TRANSPORT_MAP | HK_TRANSPORT_GET | HK_TRANSPORT_PUT),
    NEED(map, HK_TRANSPORT_MAP),
    NEED(get, HK_TRANSPORT_GET),
    NEED(put, HK_TRANSPORT_PUT),
    NEED(put_result, HK_TRANSPORT_PUT),
    NEED(withdraw, HK_TRANSPORT_PUT),
    NEED(sleep, HK_TRANSPORT_SLEEP),
#undef NEED
};

/* The first function that is NULL though it is needed, always (capabilities 0) or for one of the capabilities. */
static const char *missing(const hk_transport_ops *ops, uint32_t capabilities)
{
    static const unsigned char null[sizeof(void (*)(void))];
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        bool needed = needs[i].capability == 0 || (needs[i].capability & capabilities) != 0;
        if (needed && memcmp((const char *)ops + needs[i].offset, null, sizeof null) == 0)
            return needs[i].name;
    }
    return NULL;
}

hk_status hki_plugin_complete(const hk_transport_ops *ops, const char *name, const char *where,
                              hk_transport_ops *complete)
{
    hk_transport_ops whole = {0};
    if (ops->size < offsetof(hk_transport_ops, name) + sizeof ops->name || ops->size % sizeof(void (*)(void)) != 0)
        return hki_error(HK_ERR_UNSUPPORTED, "%s: hk_transport_%s.size is %zu: not sizeof(hk_transport_ops)", where,
                         name, ops->size);
    if (ops->abi != HK_TRANSPORT_ABI)
        return hki_error(HK_ERR_UNSUPPORTED,
                         "%s was compiled for version %u of the transport interface; this library has version %u",
                         where, ops->abi, HK_TRANSPORT_ABI);
    if (ops->size > sizeof whole)
        return hki_error(HK_ERR_UNSUPPORTED,
                         "%s was compiled with a newer <hocket/transport.h>: its operations take %zu bytes, those of "
                         "this library (%s, interface version %u) %zu",
                         where, ops->size, hk_version(NULL, NULL, NULL), HK_TRANSPORT_ABI, sizeof whole);
    memcpy(&whole, ops, ops->size);
    whole.size = sizeof whole;
    if (!whole.name || strcmp(whole.name, name) != 0)
        return hki_error(HK_ERR_UNSUPPORTED, "%s: hk_transport_%s.name is \"%s\"", where, name,
                         whole.name ? whole.name : "NULL");
    const char *lacks = missing(&whole, 0);
    if (lacks)
        return hki_error(HK_ERR_UNSUPPORTED, "%s: hk_transport_%s lacks the function \"%s\"", where, name, lacks);
    *complete = whole;
    return HK_OK;
}

hk_status hki_plugin_check_limits(const hk_transport_ops *ops, const hk_transport_limits *limits)
{
    const char *lacks = missing(ops, limits->capabilities);
    if (lacks)
        return hki_error(HK_ERR_TRANSPORT, "transport %s claims capabilities %#x but lacks the function \"%s\"",
                         ops->name, limits->capabilities, lacks);
    if (limits->eager_bytes < HK_TRANSPORT_WHOLE)
        return hki_error(HK_ERR_TRANSPORT, "transport %s carries frames of %zu bytes; %u are the least", ops->name,
                         limits->eager_bytes, HK_TRANSPORT_WHOLE);
    if (limits->piece_bytes == 0)
        return hki_error(HK_ERR_TRANSPORT, "transport %s has pieces of no bytes", ops->name);
    return HK_OK;
}

/* ---- looking for it ---- */

typedef struct search {
    const char *name;
    void *object;            /* from dlopen */
    char path[PATH_MAX];     /* of the object */
    char searched[SEARCHED]; /* directories, for the error */
    char why[WHY];           /* a file that is there, but does not load */
} search;

/* True when the search is over: found, or there but not usable. */
static bool look_in(search *s, const char *directory, size_t length)
{
    size_t used = strlen(s->searched);
    if (length == 0)
        return false;
    snprintf(s->searched + used, sizeof s->searched - used, "%s%.*s", used ? ", " : "", (int)length, directory);
    int written = snprintf(s->path, sizeof s->path, "%.*s/libhocket_transport_%s.so", (int)length, directory, s->name);
    if (written < 0 || (size_t)written >= sizeof s->path || access(s->path, F_OK) != 0)
        return false;
    /* All its symbols now rather than at a first call, and none of them for anybody else. */
    s->object = dlopen(s->path, RTLD_NOW | RTLD_LOCAL);
    if (!s->object) {
        const char *why = dlerror();
        snprintf(s->why, sizeof s->why, "%s", why ? why : "dlopen failed");
    }
    return true;
}

static bool look_in_path(search *s)
{
    const char *path = hki_setting_text(HKI_SET_TRANSPORT_PATH);
    if (*path && getauxval(AT_SECURE)) {
        hki_log(HK_LOG_WARN, "HOCKET_TRANSPORT_PATH is ignored: this program has privileges of its own");
        return false;
    }
    while (*path) {
        size_t length = strcspn(path, ":");
        if (look_in(s, path, length))
            return true;
        path += length + (path[length] == ':');
    }
    return false;
}

/* Relative to where this code lies, since an installed package may be moved: beside the shared library, or where the
 * libraries are as seen from a program that contains the static one. */
static bool look_beside(search *s)
{
    static const char marker;
    char self[PATH_MAX], directory[PATH_MAX];
    Dl_info info;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    bool shared = dladdr(&marker, &info) != 0 && info.dli_fname && strstr(info.dli_fname, "libhocket.so") != NULL;
    if (shared && !realpath(info.dli_fname, self))
        return false;
    char *slash = strrchr(self, '/');
    if (!slash)
        return false;
    *slash = '\0';
    int written = shared ? snprintf(directory, sizeof directory, "%s/hocket", self)
                         : snprintf(directory, sizeof directory, "%s/%s/hocket", self, HKI_LIBRARIES_FROM_PROGRAMS);
    return written > 0 && (size_t)written < sizeof directory && look_in(s, directory, (size_t)written);
}

/* The name becomes part of a file's name and of a symbol's: letters, digits and underscores. */
static bool is_name(const char *name)
{
    size_t length = strlen(name);
    for (const char *at = name; *at; at++) {
        if (!isalnum((unsigned char)*at) && *at != '_')
            return false;
    }
    return length > 0 && length <= NAME_LONGEST;
}

/* Finds the operations in a loaded object. They are kept for good, and so is the object. */
static hk_status adopt(const search *s, const hk_transport_ops **ops)
{
    char symbol[NAME_LONGEST + sizeof "hk_transport_"];
    snprintf(symbol, sizeof symbol, "hk_transport_%s", s->name);
    const hk_transport_ops *found = dlsym(s->object, symbol);
    if (!found)
        return hki_error(HK_ERR_UNSUPPORTED, "%s has no symbol %s", s->path, symbol);
    hk_transport_ops *complete = malloc(sizeof *complete);
    if (!complete)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for the operations of transport %s", s->name);
    hk_status status = hki_plugin_complete(found, s->name, s->path, complete);
    if (status != HK_OK) {
        free(complete);
        return status;
    }
    *ops = complete;
    return HK_OK;
}

hk_status hki_plugin_load(const char *name, const hk_transport_ops **ops)
{
    search s = {.name = name};
    if (!is_name(name))
        return hki_error(HK_ERR_SETTING, "\"%s\" is not the name of a transport", name);
    if (!look_in_path(&s) && !look_beside(&s))
        return hki_error(HK_ERR_SETTING,
                         "transport %s is not built in, and libhocket_transport_%s.so is not in any of: %s "
                         "(HOCKET_TRANSPORT_PATH names more directories)",
                         name, name, s.searched);
    if (!s.object)
        return hki_error(HK_ERR_SETTING, "transport %s does not load: %s", name, s.why);
    hk_status status = adopt(&s, ops);
    if (status != HK_OK)
        dlclose(s.object);
    else
        hki_log(HK_LOG_INFO, "transport %s comes from %s", name, s.path);
    return status;
}

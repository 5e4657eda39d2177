#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static hki_verbs_library library;
static bool tried, loaded;
static char reason[256];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* dlsym gives an object pointer where a function is meant: POSIX wants it copied, not cast. */
static bool find(void *object, const char *name, void *function)
{
    void *symbol = dlsym(object, name);
    memcpy(function, &symbol, sizeof symbol);
    if (symbol == NULL)
        snprintf(reason, sizeof reason, "libibverbs has no function %s", name);
    return symbol != NULL;
}

static bool load(const char *path)
{
    void *object = dlopen(*path != '\0' ? path : "libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    if (object == NULL) {
        const char *why = dlerror();
        snprintf(reason, sizeof reason, "libibverbs does not load: %s", why != NULL ? why : "dlopen failed");
        return false;
    }
#define HKI_VERBS_FIND(NAME)                                                                                           \
    if (!find(object, "ibv_" #NAME, &library.NAME))                                                                    \
        return false;
    HKI_VERBS_FUNCTIONS(HKI_VERBS_FIND)
#undef HKI_VERBS_FIND
    (void)find(object, "_ibv_query_gid_table", &library.query_gid_table);
    return true;
}

const hki_verbs_library *hki_verbs_load(const char *path, const char **why)
{
    pthread_mutex_lock(&lock);
    if (!tried)
        loaded = load(path);
    tried = true;
    pthread_mutex_unlock(&lock);
    *why = reason;
    return loaded ? &library : NULL;
}

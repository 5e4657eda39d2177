/*
 * PMIx, which Open MPI's mpirun, PRRTE and `srun --mpi=pmix` offer their processes. The library is loaded only when one
 * of them started this process. Declared here is the little of its interface (PMIx Standard 4) that is used, so that
 * building does not take its headers.
 *
 * Rank 0's value is fetched without a fence: a rank that never comes then keeps nobody from learning, in the store,
 * which one it is.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/settings.h"
#include "boot/kvs.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PMIX_OK = 0, PMIX_TYPE_STRING = 3, PMIX_TYPE_UINT32 = 14, PMIX_SCOPE_GLOBAL = 3 };
static const uint32_t pmix_rank_wildcard = UINT32_MAX - 1;
static const char pmix_job_size[] = "pmix.job.size", pmix_local_size[] = "pmix.local.size";
static const char key_of_meeting[] = "hocket.meeting";

typedef struct pmix_process {
    char job[256];
    uint32_t rank;
} pmix_process;

typedef struct pmix_value {
    uint16_t type;
    union {
        char *string;
        uint32_t number;
        uint64_t room[8]; /* the library's own is 24 to 32 bytes, by version */
    } data;
} pmix_value;

typedef void pmix_value_function(int status, pmix_value *value, void *context);

static struct {
    void *library;
    int (*init)(pmix_process *self, void *info, size_t infos);
    int (*finalize)(const void *info, size_t infos);
    int (*put)(uint8_t scope, const char *key, pmix_value *value);
    int (*commit)(void);
    int (*get)(const pmix_process *of, const char *key, const void *info, size_t infos, pmix_value **value);
    int (*get_nb)(const pmix_process *of, const char *key, const void *info, size_t infos,
                  pmix_value_function *function, void *context);
    const char *(*error_string)(int status);
    pmix_process self;
} pmix;

static bool present(void)
{
    return hki_environment("PMIX_RANK") != NULL && hki_environment("PMIX_NAMESPACE") != NULL;
}

static void mark(char text[HKI_MARK_TEXT])
{
    snprintf(text, HKI_MARK_TEXT, "PMIX %.300s %.20s", hki_environment("PMIX_NAMESPACE"), hki_environment("PMIX_RANK"));
}

static hk_status failed(const char *what, int status)
{
    return hki_error(HK_ERR_BOOTSTRAP, "PMIx: %s: %s", what, pmix.error_string(status));
}

static hk_status load(void)
{
    const struct {
        const char *name;
        void *to; /* a pointer to a function pointer */
    } symbols[] = {{"PMIx_Init", &pmix.init},
                   {"PMIx_Finalize", &pmix.finalize},
                   {"PMIx_Put", &pmix.put},
                   {"PMIx_Commit", &pmix.commit},
                   {"PMIx_Get", &pmix.get},
                   {"PMIx_Get_nb", &pmix.get_nb},
                   {"PMIx_Error_string", &pmix.error_string}};
    if (!pmix.library)
        pmix.library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!pmix.library)
        return hki_error(HK_ERR_BOOTSTRAP,
                         "a launcher started this process by PMIx (PMIX_RANK is set), but %s; install the library "
                         "(libpmix2)",
                         dlerror());
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(pmix.library, symbols[i].name);
        if (!found)
            return hki_error(HK_ERR_BOOTSTRAP, "libpmix.so.2 has no %s", symbols[i].name);
        memcpy(symbols[i].to, &found, sizeof found);
    }
    return HK_OK;
}

/* 0 when the launcher does not tell. */
static uint32_t number(const char *key)
{
    pmix_process job = pmix.self;
    pmix_value *value = NULL;
    uint32_t result = 0;
    job.rank = pmix_rank_wildcard;
    if (pmix.get(&job, key, NULL, 0, &value) == PMIX_OK && value && value->type == PMIX_TYPE_UINT32)
        result = value->data.number;
    free(value); /* a number owns nothing else */
    return result;
}

static hk_status open_pmix(hki_kvs_place *place, uint64_t deadline)
{
    (void)deadline;
    HK_TRY(load());
    int status = pmix.init(&pmix.self, NULL, 0);
    if (status != PMIX_OK)
        return failed("the launcher that PMIX_NAMESPACE and PMIX_RANK speak of cannot be reached", status);
    uint32_t ranks = number(pmix_job_size);
    if (ranks == 0 || ranks > INT32_MAX || pmix.self.rank >= ranks) {
        pmix.finalize(NULL, 0);
        return hki_error(HK_ERR_BOOTSTRAP, "PMIx: this process is rank %u of %u, says the launcher", pmix.self.rank,
                         ranks);
    }
    *place =
        (hki_kvs_place){.rank = (int)pmix.self.rank, .ranks = (int)ranks, .one_host = number(pmix_local_size) == ranks};
    return HK_OK;
}

static void close_pmix(void)
{
    pmix.finalize(NULL, 0);
}

/* ---- fetching with a deadline: PMIx_Get has none that launchers keep ---- */

typedef struct fetch {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int references; /* by the one who waits, and by the library until it has called back */
    bool done;
    int status;
    char text[1024];
} fetch;

static void release(fetch *self)
{
    pthread_mutex_lock(&self->lock);
    bool last = --self->references == 0;
    pthread_mutex_unlock(&self->lock);
    if (!last)
        return;
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

static void fetched(int status, pmix_value *value, void *context)
{
    fetch *self = context;
    pthread_mutex_lock(&self->lock);
    self->status = status;
    if (status == PMIX_OK && value && value->type == PMIX_TYPE_STRING && value->data.string)
        snprintf(self->text, sizeof self->text, "%s", value->data.string);
    self->done = true;
    pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->lock);
    release(self);
}

static fetch *fetch_new(void)
{
    pthread_condattr_t attributes;
    fetch *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->references = 2;
    pthread_mutex_init(&self->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&self->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return self;
}

/* False at the deadline. */
static bool await(fetch *self, uint64_t deadline)
{
    struct timespec at = {.tv_sec = (time_t)(deadline / 1000000000u), .tv_nsec = (long)(deadline % 1000000000u)};
    int failure = 0;
    pthread_mutex_lock(&self->lock);
    while (!self->done && failure == 0)
        failure = pthread_cond_timedwait(&self->changed, &self->lock, &at);
    bool done = self->done;
    pthread_mutex_unlock(&self->lock);
    return done;
}

/* One question. HK_ERR_TIMEOUT: no answer before the deadline. *found: with rank 0's value. */
static hk_status ask(char *text, size_t capacity, uint64_t deadline, bool *found)
{
    pmix_process first = pmix.self;
    first.rank = 0;
    *found = false;
    fetch *self = fetch_new();
    if (!self)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for joining");
    int status = pmix.get_nb(&first, key_of_meeting, NULL, 0, fetched, self);
    if (status != PMIX_OK) {
        release(self); /* there will be no call back */
        release(self);
        return HK_OK;
    }
    bool done = await(self, deadline);
    if (done && self->status == PMIX_OK && strlen(self->text) < capacity) {
        memcpy(text, self->text, strlen(self->text) + 1);
        *found = true;
    }
    release(self);
    return done ? HK_OK : HK_ERR_TIMEOUT;
}

static hk_status get(char *text, size_t capacity, uint64_t deadline)
{
    static const struct timespec pause = {.tv_nsec = 20000000};
    bool found = false;
    for (;;) { /* some servers wait until the value is there, some say at once that it is not */
        hk_status status = ask(text, capacity, deadline, &found);
        if (found || (status != HK_OK && status != HK_ERR_TIMEOUT))
            return status;
        if (status == HK_ERR_TIMEOUT || hki_now() >= deadline)
            return hki_error(HK_ERR_BOOTSTRAP,
                             "PMIx: rank 0 did not join within the time of rank %u (HOCKET_JOIN_TIMEOUT)",
                             pmix.self.rank);
        nanosleep(&pause, NULL);
    }
}

static hk_status share(const hki_kvs_place *place, char *text, size_t capacity, uint64_t deadline)
{
    pmix_value value = {.type = PMIX_TYPE_STRING, .data.string = text};
    if (place->rank != 0)
        return get(text, capacity, deadline);
    int status = pmix.put(PMIX_SCOPE_GLOBAL, key_of_meeting, &value);
    if (status == PMIX_OK)
        status = pmix.commit();
    return status == PMIX_OK ? HK_OK : failed("rank 0 cannot put its meeting point", status);
}

const hki_kvs hki_kvs_pmix = {
    .name = "PMIx", .present = present, .mark = mark, .open = open_pmix, .share = share, .close = close_pmix};

/* The fake libibverbs for tests: a folder as its fabric, and what can be made to go wrong in it. */
#ifndef HKI_TESTS_FAKE_FABRIC_H
#define HKI_TESTS_FAKE_FABRIC_H

#include "../fake_verbs/faults.h"

#include <dlfcn.h>
#include <ftw.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAKE_VERBS_LIBRARY HOCKET_BUILD "/tests/fake_verbs/libibverbs.so.1"

static fake_faults *faults;
static void (*raise_event)(int type);
/* The devices that there are, as fake_verbs/fabric.h has it. */
static const char *fabric_devices = "fake0,fake1";
static char fabric_folder[] = "/tmp/hocket-fake-verbs-XXXXXX";

static bool fabric_find(void *object, const char *name, void *function)
{
    void *symbol = dlsym(object, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* Whether it has been built; says so if not. */
static bool fabric_there(void)
{
    if (access(FAKE_VERBS_LIBRARY, R_OK) == 0)
        return true;
    fprintf(stderr, "SKIPPED: built without libibverbs-dev: the verbs transport was NOT tried\n");
    return false;
}

/* A group's set-up. */
static int fabric_start(void **state)
{
    (void)state;
    fake_faults *(*get_faults)(void);
    if (mkdtemp(fabric_folder) == NULL || setenv("FAKE_VERBS_FABRIC", fabric_folder, 1) != 0 ||
        setenv("FAKE_VERBS_DEVICES", fabric_devices, 1) != 0)
        return -1;
    void *object = dlopen(FAKE_VERBS_LIBRARY, RTLD_NOW);
    if (object == NULL || !fabric_find(object, "fake_verbs_faults", &get_faults) ||
        !fabric_find(object, "fake_verbs_event", &raise_event))
        return -1;
    faults = get_faults();
    return 0;
}

static int fabric_delete(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

static int fabric_end(void **state)
{
    (void)state;
    return nftw(fabric_folder, fabric_delete, 16, FTW_DEPTH | FTW_PHYS);
}

/* A test's set-up: nothing goes wrong. */
static int fabric_whole(void **state)
{
    (void)state;
    int64_t queue_pairs = atomic_load(&faults->queue_pairs), regions = atomic_load(&faults->regions);
    memset(faults, 0, sizeof *faults);
    atomic_store(&faults->queue_pairs, queue_pairs);
    atomic_store(&faults->regions, regions);
    return 0;
}

/* The n-th send with the opcode from now on fails. */
static inline void fabric_fail(enum ibv_wr_opcode opcode, enum ibv_wc_status status, uint32_t n)
{
    atomic_store(&faults->fail_status, (int)status);
    atomic_store(&faults->fail_opcode, (int)opcode);
    atomic_store(&faults->fail_in, n);
}

#endif

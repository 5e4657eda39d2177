/* Launchers with a key-value space: what by_kvs.c needs of them. */
#ifndef HKI_BOOT_KVS_H
#define HKI_BOOT_KVS_H

#include "boot/boot.h"

#include <stdbool.h>
#include <stddef.h>

enum { HKI_MARK_TEXT = 400 };

typedef struct hki_kvs_place {
    int rank, ranks;
    bool one_host; /* all ranks are on this host, as far as the launcher tells */
} hki_kvs_place;

/* One connection to the launcher a process. All functions are called by one thread at a time; deadlines are of
 * hki_now(). Errors: HK_ERR_BOOTSTRAP. */
typedef struct hki_kvs {
    const char *name; /* "PMIx" */
    bool (*present)(void);
    /* Tells this place from those of other launchers. */
    void (*mark)(char mark[HKI_MARK_TEXT]);
    hk_status (*open)(hki_kvs_place *place, uint64_t deadline);
    /* Called once by every rank: what rank 0 gives as text, at most 1,000 characters without spaces, comes out on all.
     */
    hk_status (*share)(const hki_kvs_place *place, char *text, size_t capacity, uint64_t deadline);
    /* After everyone has what was shared. */
    void (*close)(void);
} hki_kvs;

extern const hki_kvs hki_kvs_pmix, hki_kvs_pmi1;

/* The value of field `key` in a line "cmd=get_result rc=0 value=…" of PMI-1: fields may come in any order. False when
 * it is not there, or does not fit. */
bool hki_pmi_field(const char *line, const char *key, char *value, size_t capacity);

#endif

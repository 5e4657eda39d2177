/*
 * Finding each other: from the environment, a launcher or a store to a rank, a number of ranks, a job key, and an
 * all-gather of small records over all ranks. Used while a context is made, and not after.
 */
#ifndef HKI_BOOT_BOOT_H
#define HKI_BOOT_BOOT_H

#include <hocket/hocket.h>
#include <hocket/store.h>

#include <stdbool.h>

enum { HKI_KEY_BYTES = 32 };

typedef struct hki_boot hki_boot;

/* Where this process stands; valid until hki_boot_leave. */
typedef struct hki_place {
    int rank, ranks;
    bool has_key;               /* a job key is known: ranks of other hosts may be trusted */
    uint8_t key[HKI_KEY_BYTES]; /* derived from the job key; zero without */
    const char *source;         /* "hocket run", "store", "PMIx", "alone" and so on: for logs */
    /* What this host is made of, packed, as one process of it read it for all, and as that one may use it. NULL when
     * nobody handed it on. Not checked. */
    const void *topology;
    size_t topology_bytes;
} hki_place;

/* Finds the place: options->rank and ranks, with store or id; else, in this order, HOCKET_RANK with HOCKET_RANKS and
 * HOCKET_STORE; what `hocket run` handed on (HOCKET_LAUNCH, consumed); PMIx; PMI-1; RANK, WORLD_SIZE, MASTER_ADDR and
 * MASTER_PORT, all four; else rank 0 of 1. The key: options->key, else HOCKET_KEY_FILE, else the launcher's, else one
 * that rank 0 makes and passes on through the store. HK_ERR_BOOTSTRAP, HK_ERR_REFUSED, HK_ERR_ARGUMENT, HK_ERR_SETTING.
 */
hk_status hki_boot_join(const hk_options *options, hki_boot **boot);
const hki_place *hki_boot_place(const hki_boot *boot);
/* All-gather: every rank gives `bytes` bytes; all (ranks·bytes, in rank order) on every rank. The n-th exchange of one
 * rank meets the n-th of the others. HK_ERR_BOOTSTRAP names the ranks that did not arrive within `timeout` seconds. */
hk_status hki_boot_exchange(hki_boot *boot, const void *mine, size_t bytes, void *all, double timeout);
void hki_boot_leave(hki_boot *boot);

#endif

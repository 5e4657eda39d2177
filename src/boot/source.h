/*
 * The sources of a place, behind hki_boot: each is one file (by_store.c, by_launcher.c, by_environment.c, by_kvs.c,
 * unique_id.c; "alone" is in boot.c).
 */
#ifndef HKI_BOOT_SOURCE_H
#define HKI_BOOT_SOURCE_H

#include "boot/boot.h"

typedef struct hki_boot_ops {
    /* hki_boot_exchange, with arguments checked and ranks > 1. */
    hk_status (*exchange)(hki_boot *boot, const void *mine, size_t bytes, void *all, double timeout);
    /* Ends joining and frees boot. */
    void (*leave)(hki_boot *boot);
} hki_boot_ops;

/* First member of each source's own struct. */
struct hki_boot {
    const hki_boot_ops *ops;
    hki_place place;
};

/* A job of one rank. */
hk_status hki_boot_alone(const hk_options *options, const char *source, hki_boot **boot);

/* Joins through options->store as options->rank of options->ranks (both already checked). Collective. */
hk_status hki_boot_by_store(const hk_options *options, hki_boot **boot);

/* The same through a store that is made for this: it is freed when joining ends, or cannot begin, and then `ended` (if
 * not NULL) is called. source: see hki_place. */
hk_status hki_boot_by_own_store(const hk_options *options, hk_store *store, const char *source, void (*ended)(void),
                                hki_boot **boot);

/* By HOCKET_RANK, HOCKET_RANKS and HOCKET_STORE; or, only when no launcher is there, RANK, WORLD_SIZE, MASTER_ADDR and
 * MASTER_PORT. */
bool hki_boot_settings_place(void);
hk_status hki_boot_by_settings(const hk_options *options, hki_boot **boot);
bool hki_boot_torch_place(void);
hk_status hki_boot_by_torch(const hk_options *options, hki_boot **boot);

/* By a launcher's key-value space: PMIx, or PMI-1. */
bool hki_boot_kvs_place(void);
hk_status hki_boot_by_kvs(const hk_options *options, hki_boot **boot);

/* By options->id. */
hk_status hki_boot_by_unique_id(const hk_options *options, hki_boot **boot);

/* A place that the environment gives belongs to the process that joins first, not to what that starts. `mark` says
 * which place: another launcher, started by a rank, gives another. Taken is false again for the process that took it.
 */
bool hki_boot_place_taken(const char *mark);
void hki_boot_take_place(const char *mark);

/* Joining through the environment: one context after the other, each from join to leave. Returns how many there were
 * before in this process. */
unsigned hki_boot_take_turn(void);
void hki_boot_end_turn(void);

/* The key of a file or of the caller, if any: options with key and key_bytes filled in. `secret` holds it. Reads
 * HOCKET_KEY_FILE, which only its owner may be able to read. HK_ERR_SETTING, HK_ERR_REFUSED. */
enum { HKI_SECRET_MOST = 64 };
hk_status hki_boot_fill_key(hk_options *options, uint8_t secret[HKI_SECRET_MOST]);
/* HOCKET_KEY=none: other hosts may join without a key. */
bool hki_boot_keyless(void);

/* True when `hocket run` started this process: HOCKET_LAUNCH is there to be consumed, or this process (not a child of
 * it) consumed it before. */
bool hki_boot_launched(void);
hk_status hki_boot_by_launcher(const hk_options *options, hki_boot **boot);

/* The key that ranks prove to each other, from the secret of the job and its name: two jobs that share a secret but not
 * a name cannot be mistaken for one another. */
void hki_boot_derive_key(const void *secret, size_t bytes, const char *name, uint8_t key[HKI_KEY_BYTES]);
/* options->name or its default. */
const char *hki_boot_name(const hk_options *options);
/* Random bytes from the kernel. HK_ERR_SYSTEM. */
hk_status hki_boot_random(void *bytes, size_t count);

#endif

/* The sources of a place, behind hki_boot: each is one file (by_store.c, by_launcher.c; "alone" is in boot.c). */
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

/* Joins through options->store as options->rank of options->ranks (both already checked). Collective. */
hk_status hki_boot_by_store(const hk_options *options, hki_boot **boot);

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

/* A place that all ranks are told of: rank 0 serves a store over TCP there, and the others go to it. */
#ifndef HKI_BOOT_SPOT_H
#define HKI_BOOT_SPOT_H

#include "boot/boot.h"
#include "boot/store_tcp.h"

typedef struct hki_spot {
    char host[HKI_HOST_TEXT];
    uint16_t first; /* rank 0 takes the first of the ports first … first+ports-1 that is free */
    unsigned ports;
    const char *settings; /* that say so, for errors */
} hki_spot;

/* Joins as options->rank of options->ranks. Without a key, only on loopback, or with HOCKET_KEY=none. One context at a
 * time; number: of it in this process, from 0. `ended`, if not NULL, is called when joining ends, or cannot begin.
 * HK_ERR_SETTING, and as hki_boot_join. */
hk_status hki_boot_at_spot(const hki_spot *where, const hk_options *options, unsigned number, const char *source,
                           void (*ended)(void), hki_boot **boot);

#endif

/*
 * A meeting point: where one rank serves a store over TCP while the others look for it, and the key that all prove
 * there. It is made once, by the rank that will serve, and handed to the others as bytes (hk_unique_id) or text (a
 * launcher's key-value space).
 */
#ifndef HKI_BOOT_MEETING_H
#define HKI_BOOT_MEETING_H

#include "boot/boot.h"
#include "boot/store_tcp.h"

enum {
    HKI_MEETING_ADDRESSES = HKI_LISTEN_MOST,
    HKI_MEETING_BYTES = 48 + HKI_MEETING_ADDRESSES * HKI_ADDRESS_WIRE, /* of the longest */
    HKI_MEETING_TEXT = 2 * HKI_MEETING_BYTES + 1                       /* in hexadecimal; PMI-1 allows 1,023 */
};

typedef struct hki_meeting {
    uint8_t key[HKI_KEY_BYTES];
    uint64_t id;
    int count;
    hki_address at[HKI_MEETING_ADDRESSES]; /* with the port */
} hki_meeting;

/* Listens: on loopback only if all ranks are on this host, else at the interfaces that HOCKET_INTERFACE chooses.
 * HK_ERR_SETTING, HK_ERR_TRANSPORT, HK_ERR_SYSTEM. */
hk_status hki_meeting_make(bool one_host, hki_meeting *meeting, hki_listeners *listeners);

/* 4 bytes "HKM" and the version · u32 count · u64 id · key · addresses in wire form. Returns the length. */
size_t hki_meeting_write(const hki_meeting *meeting, uint8_t bytes[HKI_MEETING_BYTES]);
/* False when malformed. `bytes` may be longer than what was written. */
bool hki_meeting_read(const uint8_t *bytes, size_t length, hki_meeting *meeting);
void hki_meeting_text(const hki_meeting *meeting, char text[HKI_MEETING_TEXT]);
bool hki_meeting_parse(const char *text, hki_meeting *meeting);

/* Joins as options->rank of options->ranks there: serving, if listeners is not NULL. number: of this meeting at the
 * same point, from 0. Without a key in options, the meeting's own makes the job key. source and ended as for
 * hki_boot_by_own_store. */
hk_status hki_meeting_join(const hki_meeting *meeting, const hki_listeners *listeners, unsigned number,
                           const hk_options *options, const char *source, void (*ended)(void), hki_boot **boot);

#endif

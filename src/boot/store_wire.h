/*
 * What a client asks a store over TCP, once both have proved that they know the key (net/handshake.h), and what it is
 * told. Integers are little-endian. One question at a time:
 *
 *   client   u32 kind · u32 bytes of the key · u64 argument · key · value (SET only)
 *            SET: argument = bytes of the value; GET: argument = milliseconds to wait
 *   server   u32 hk_status · u32 zero · u64 bytes · value (GET that succeeded only)
 *
 * The client hangs up when it is done.
 */
#ifndef HKI_BOOT_STORE_WIRE_H
#define HKI_BOOT_STORE_WIRE_H

#include "boot/store_made.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HKI_STORE_SET = 1, HKI_STORE_GET = 2 };
enum { HKI_STORE_HEADER = 16 };

void hki_store_write_question(uint8_t header[HKI_STORE_HEADER], uint32_t kind, size_t key_bytes, uint64_t argument);
void hki_store_write_answer(uint8_t header[HKI_STORE_HEADER], hk_status status, uint64_t bytes);
/* False when malformed. */
bool hki_store_read_answer(const uint8_t header[HKI_STORE_HEADER], hk_status *status, uint64_t *bytes);

/* A question while it arrives. Start with zeros. */
typedef struct hki_question {
    uint8_t header[HKI_STORE_HEADER];
    size_t moved;  /* bytes so far */
    uint8_t *body; /* value, if any; owned */
    uint32_t kind; /* valid when complete, as what follows */
    uint64_t argument;
    size_t key_bytes;
    char key[HKI_STORE_KEY_MAX + 1];
} hki_question;

typedef enum hki_question_state { HKI_QUESTION_MORE, HKI_QUESTION_COMPLETE, HKI_QUESTION_BAD } hki_question_state;

/* Where the next bytes go, and how many at most (never 0 while more are needed). */
void *hki_question_room(hki_question *question, size_t *bytes);
/* So many bytes have come there. BAD: malformed, or no memory for the value. */
hki_question_state hki_question_took(hki_question *question, size_t bytes);
/* Frees the value, and makes ready for the next one. */
void hki_question_clear(hki_question *question);

#endif

/*
 * Two ranks between whom a link is measured, by `hocket tune` and by calibration: what is called, not how it is timed.
 * Calls are collectives of two ranks with one message each way, since those are what the figures are to predict:
 * messages with tags take another way through the library.
 *
 *   exchange  an all-gather in place: one message each way
 *   one way   a broadcast by rank 0 and one by rank 1, in turn: twice a message
 *   stream    broadcasts by rank 0, which need not wait for the other
 */
#ifndef HKI_COMM_DUET_H
#define HKI_COMM_DUET_H

#include "comm/comm.h"
#include "cost/points.h"

/* Two communicators, so that each remembers its own last call: broadcasts by two roots in turn would be looked up anew
 * every time. */
typedef struct hki_duet {
    hk_comm *comm, *back;
} hki_duet;

/* Collective over comm, which stays the caller's, and whose collectives go by algorithms of one round of messages,
 * whatever the choice would be, until the duet is closed: as do those of communicators at the same places. */
hk_status hki_duet_open(hki_duet *duet, hk_comm *comm);
hk_status hki_duet_close(hki_duet *duet);

/* One call of HKI_TUNE_ONE_WAY, _EXCHANGE or _STREAM with messages of count elements. send and recv as hk_allgather
 * takes them; the others send from send and receive into recv. Errors as those of collectives. */
hk_status hki_duet_call(const hki_duet *duet, hki_tune_series series, void *send, void *recv, uint64_t count,
                        hk_type type);

/* Microseconds of one of many such messages in a row, of the slower rank, once the link has nothing left that it saved
 * up while it was idle: one that is shaped by a token bucket lets bursts pass at another rate than it sustains. For
 * about window_us after half as much that is not counted; message_us: what such a message took so far, alike on both
 * ranks. Two messages are counted at least. *us is the same on both ranks. Errors as those of collectives. */
hk_status hki_duet_sustain(const hki_duet *duet, hki_tune_series series, void *send, void *recv, uint64_t bytes,
                           double message_us, double window_us, double *us);

/* The largest message between the two that goes eager, in bytes. */
uint64_t hki_duet_eager_limit(const hki_duet *duet);

#endif

/*
 * What a test can make go wrong in the fake libibverbs. One record, in memory that all processes of a fabric share; a
 * test finds it by the symbol fake_verbs_faults of the library that the transport has loaded.
 */
#ifndef HKI_TESTS_FAKE_VERBS_FAULTS_H
#define HKI_TESTS_FAKE_VERBS_FAULTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct fake_faults {
    /* The send that comes after so many more fails: 0, none does. Only those of `fail_opcode`, an enum ibv_wr_opcode.
     */
    _Atomic uint32_t fail_in;
    _Atomic int fail_opcode, fail_status;  /* … with this enum ibv_wc_status */
    _Atomic uint32_t queue_limit;          /* sends that a queue pair takes at a time; 0: as it was made */
    _Atomic uint32_t refuse_registrations; /* so many more are refused with ENOMEM */
    _Atomic uint32_t pass_datagrams;       /* after so many more … */
    _Atomic uint32_t drop_datagrams;       /* … so many get lost */
    _Atomic bool delay; /* what is posted (but datagrams) happens only when its completion queue is polled, one request
                           at a time, from now this queue pair and now that one */
    _Atomic uint32_t slow_flush;  /* a queue pair that is told to fail is flushed after so many polls */
    _Atomic uint32_t late_device; /* of the device of this number in the list, 1, 2, …, completions come only … */
    _Atomic uint32_t late_polls;  /* … after so many polls that would have found one */
    /* What has happened. */
    _Atomic uint64_t not_ready; /* sends that found no receive posted */
    _Atomic uint64_t sends, datagrams;
    _Atomic uint64_t on_demand;           /* registrations that pin nothing */
    _Atomic uint64_t unflushed;           /* queue pairs that were destroyed between failing and being flushed */
    _Atomic uint64_t astray;              /* requests and datagrams that went where the peer is not */
    _Atomic int64_t queue_pairs, regions; /* that there are */
} fake_faults;

/* The record of this process's fabric. */
fake_faults *fake_verbs_faults(void);
/* An asynchronous event: of the port of every device of this process, or of each of its reliable queue pairs. */
void fake_verbs_event(int type);

#endif

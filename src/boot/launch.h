/*
 * How a rank and `hocket run` talk: over a stream socket pair whose rank's end is inherited, its number in
 * HOCKET_LAUNCH. Both ends are on one host, so integers are in its byte order. Every message is a header and `bytes`
 * bytes. The rank speaks first and then waits for the one answer:
 *
 *   rank                                 launcher
 *   JOIN      hki_launch_join        →   PLACE    hki_launch_place, and the host's topology in its packed form
 *   EXCHANGE  the rank's record      →   RESULT   the records of all ranks, in rank order, once all are in
 *   WHO       (the rank's time is up) →  FAIL     which ranks are missing; or the RESULT, if that is ready by now
 *   LEAVE                                (no answer; the rank may JOIN again for another context)
 *
 * FAIL (a text) may answer anything, also an EXCHANGE that cannot be completed any more. It ends the joining: the rank
 * then sends LEAVE. The n-th exchange after the k-th JOIN of a rank meets those of the others.
 */
#ifndef HKI_BOOT_LAUNCH_H
#define HKI_BOOT_LAUNCH_H

#include <stdint.h>

enum {
    HKI_LAUNCH_MAGIC = 0x484b4c33, /* "HKL3": the version is in it */
    HKI_LAUNCH_KEY_BYTES = 32,
    HKI_LAUNCH_RECORD_MAX = 1 << 20,
    HKI_LAUNCH_TOPOLOGY_MAX = 1 << 20,
    HKI_LAUNCH_TEXT_MAX = 1024,
    HKI_LAUNCH_HOST_MAX = 256
};

enum {
    HKI_LAUNCH_JOIN = 1,
    HKI_LAUNCH_PLACE,
    HKI_LAUNCH_EXCHANGE,
    HKI_LAUNCH_RESULT,
    HKI_LAUNCH_WHO,
    HKI_LAUNCH_FAIL,
    HKI_LAUNCH_LEAVE
};

typedef struct hki_launch_header {
    uint32_t magic, kind;
    uint64_t bytes;
} hki_launch_header;

typedef struct hki_launch_join {
    uint64_t nonce; /* comes back in the answer, which so cannot be another process's */
    int32_t pid;
    int32_t zero;
} hki_launch_join;

typedef struct hki_launch_place {
    uint64_t nonce;
    int32_t rank, ranks;
    int32_t local_rank, local_ranks; /* among the ranks of this host */
    uint8_t key[HKI_LAUNCH_KEY_BYTES];
    /* With ranks on other hosts there is no EXCHANGE: all meet in a store that rank 0 serves on this host, at one of so
     * many ports from `port`. "": all ranks are here. */
    char host[HKI_LAUNCH_HOST_MAX];
    uint16_t port, ports;
    uint32_t zero;
    uint64_t topology_bytes; /* that follow; 0: the launcher knows none */
} hki_launch_place;

#endif

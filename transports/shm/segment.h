/*
 * The memory that one context shares with its peers on the same host: a memfd, sealed against resizing.
 *
 *   control   sleep word, doorbell bits, whether the owner has left          written by all
 *   credits   one hki_credit for each local rank                              written by the owner
 *   rings     one inbound ring for each local rank, one page each             written by that rank
 *   slots     32 KiB each: payloads of the owner's larger frames              written by the owner
 *
 * Peers map the slots read-only. Pages are allocated before a peer may touch them, so that memory that has run out is
 * an error here and not a SIGBUS there; rings and slots that are never used are not allocated.
 */
#ifndef HKI_SHM_SEGMENT_H
#define HKI_SHM_SEGMENT_H

#include "ring.h"

enum {
    HKI_PAGE = 4096,
    HKI_SLOT_BYTES = 32768,    /* four of them in flight reach 90 % of what larger ones move, and 256 ranks fit */
    HKI_SPARE_SLOTS = 16,      /* beside the one that every local rank is guaranteed */
    HKI_LOCAL_RANKS_MAX = 4096 /* contexts on one host; a guess that keeps sizes within reason */
};

typedef struct hki_control {
    _Atomic uint32_t departed; /* the owner has left in order: nothing comes after what lies in the rings */
    uint64_t nonce;            /* equal to what lies at nonce_address in the owner's memory: proves that a copy */
    uint64_t nonce_address;    /* from the owner's process id reads the owner and nobody else */
    alignas(HKI_APART) _Atomic uint32_t sleep;
    alignas(HKI_APART) _Atomic uint64_t bells[]; /* bit i: the ring of local rank i has something */
} hki_control;

/* Offsets follow from the two numbers alone, so that both ends compute the same. */
typedef struct hki_layout {
    uint32_t ranks, slots;
    size_t credits, rings, slot_pool, bytes; /* offsets, and the whole length */
} hki_layout;

typedef struct hki_segment {
    hki_layout layout;
    int fd; /* own segment only; -1 for a peer's */
    unsigned char *base;
} hki_segment;

hki_layout hki_layout_of(uint32_t local_ranks);
/* Makes the own segment; control and credits are allocated. Returns 0 or an errno. */
int hki_segment_create(hki_segment *segment, uint32_t local_ranks);
/* Maps a peer's segment; takes nothing of fd. Returns 0, or an errno: EBADMSG when it is not sealed or too small. */
int hki_segment_attach(hki_segment *segment, int fd, uint32_t local_ranks);
void hki_segment_release(hki_segment *segment);
/* Allocates pages of the own segment, and faults them in. Returns 0 or an errno. */
int hki_segment_populate(hki_segment *segment, size_t offset, size_t bytes);
/* A memfd of that length, sealed against resizing; -1 and errno on failure. Length is in pages. */
int hki_memfd_create(const char *name, size_t bytes);
/* True when the descriptor is sealed against shrinking and holds at least that many bytes. */
bool hki_memfd_sound(int fd, size_t bytes);

static inline hki_control *hki_segment_control(const hki_segment *segment)
{
    return (hki_control *)(void *)segment->base;
}

static inline hki_credit *hki_segment_credit(const hki_segment *segment, uint32_t local_index)
{
    return (hki_credit *)(void *)(segment->base + segment->layout.credits) + local_index;
}

static inline hki_line *hki_segment_ring(const hki_segment *segment, uint32_t local_index)
{
    return ((hki_ring *)(void *)(segment->base + segment->layout.rings))[local_index].line;
}

static inline unsigned char *hki_segment_slot(const hki_segment *segment, uint32_t slot)
{
    return segment->base + segment->layout.slot_pool + (size_t)slot * HKI_SLOT_BYTES;
}

#endif

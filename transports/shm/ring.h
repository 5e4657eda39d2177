/*
 * One direction between two ranks of a host: a ring of 64-byte lines in the receiver's segment, the credit that the
 * receiver gives back, the doorbell bit that says which ring to look at, and the word that says how a rank sleeps.
 * Everything here works on memory that two processes (or, in tests, two threads) share; nothing makes a system call.
 *
 * Memory order. A line is published by one release store of its head word, which holds the sequence number; the reader
 * acquires it. Credit is a release store by the reader, acquired by the writer before it writes the line again. Who
 * publishes (data or credit) then makes a full fence and reads the doorbell and the sleep word; who goes to sleep or
 * clears a doorbell bit stores, makes a full fence, and looks at the rings again. One of the two sees the other.
 */
#ifndef HKI_SHM_RING_H
#define HKI_SHM_RING_H

#include <hocket/transport.h>

#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>

enum {
    HKI_RING_LINES = 64,                   /* a root may run this many small messages ahead */
    HKI_CREDIT_LINES = HKI_RING_LINES / 2, /* credit is returned every half ring */
    HKI_LINE_PAYLOAD = 48,
    HKI_WIDE_PAYLOAD = 40, /* what is left of the payload beside a 32-bit ordinal and length */
    HKI_APART = 128        /* words written by different ranks: two lines, since prefetchers fetch pairs */
};

/* Length field of a head: 0 … 48 bytes of payload in the line, or one of these. */
enum {
    HKI_LENGTH_WIDE = 61,    /* payload: hki_wide, then up to 40 bytes */
    HKI_LENGTH_SLOT = 63,    /* payload: hki_wide, whose slot of the sender's segment holds the bytes */
    HKI_ORDINAL_LIMIT = 2047 /* larger ordinals need a wide line or a slot */
};

/* The head word: communicator 32 | ordinal 11 | kind 4 | length 6 | sequence 11. */
enum { HKI_SHIFT_LENGTH = 11, HKI_SHIFT_KIND = 17, HKI_SHIFT_ORDINAL = 21, HKI_SHIFT_COMMUNICATOR = 32 };
enum { HKI_MASK_SEQUENCE = 2047, HKI_MASK_LENGTH = 63, HKI_MASK_KIND = 15, HKI_MASK_ORDINAL = 2047 };

typedef struct hki_line {
    _Atomic uint64_t head; /* published last */
    uint64_t call;         /* operation 32 | fingerprint 32 */
    unsigned char payload[HKI_LINE_PAYLOAD];
} hki_line;
_Static_assert(sizeof(hki_line) == 64, "a line is one cache line");

typedef struct hki_wide {
    uint32_t ordinal, bytes;
} hki_wide;

typedef struct hki_slot_ref {
    hki_wide wide;
    uint32_t slot;
} hki_slot_ref;

typedef struct hki_ring {
    hki_line line[HKI_RING_LINES];
} hki_ring;
_Static_assert(sizeof(hki_ring) == 4096, "a ring is one page, so that an unused one costs nothing");

/* Written by the ring's reader, read by its writer. */
typedef struct hki_credit {
    alignas(HKI_APART) _Atomic uint32_t lines; /* how many were consumed, modulo 2^32, in steps of half a ring */
    _Atomic uint32_t get_refused;              /* the reader cannot copy from the writer's memory */
    alignas(HKI_APART) _Atomic uint32_t slots; /* how many were consumed, modulo 2^32 */
} hki_credit;

/* How a rank sleeps. */
enum { HKI_AWAKE = 0, HKI_ASLEEP_FUTEX = 1, HKI_ASLEEP_EVENT = 2 };

/* The writer's end; private to the writer. */
typedef struct hki_outbox {
    hki_line *lines; /* in the reader's segment */
    uint32_t sent;   /* lines published so far */
    uint32_t limit;  /* lines that may be published before credit must be looked at; == sent: none */
    const hki_credit *credit;
    _Atomic uint64_t *bell; /* the reader's doorbell word for this writer */
    uint64_t bell_bit;
    _Atomic uint32_t *sleep; /* the reader's */
} hki_outbox;

/* The reader's end; private to the reader. */
typedef struct hki_inbox {
    const hki_line *lines; /* in the own segment */
    uint32_t taken;        /* lines consumed so far */
    uint32_t slots_taken;
    hki_credit *credit;
    _Atomic uint32_t *sleep; /* the writer's */
} hki_inbox;

/* Orders earlier stores before later loads. A locked add to the stack is cheaper than mfence, and ThreadSanitizer,
 * which does not model fences, has nothing to complain of. */
static inline void hki_full_fence(void)
{
#if defined(__x86_64__)
    __asm__ volatile("lock; addl $0, -4(%%rsp)" ::: "memory", "cc");
#elif defined(__SANITIZE_THREAD__)
    _Atomic int dummy = 0;
    atomic_fetch_add(&dummy, 1);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Copies 0 … 48 bytes by at most three moves, which may overlap. */
static inline void hki_copy_line(unsigned char *to, const unsigned char *from, size_t bytes)
{
    if (bytes >= 16) {
        memcpy(to, from, 16);
        if (bytes > 32)
            memcpy(to + 16, from + 16, 16);
        memcpy(to + bytes - 16, from + bytes - 16, 16);
    } else if (bytes >= 8) {
        memcpy(to, from, 8);
        memcpy(to + bytes - 8, from + bytes - 8, 8);
    } else if (bytes >= 4) {
        memcpy(to, from, 4);
        memcpy(to + bytes - 4, from + bytes - 4, 4);
    } else if (bytes > 0) {
        to[0] = from[0];
        to[bytes / 2] = from[bytes / 2];
        to[bytes - 1] = from[bytes - 1];
    }
}

/* kind is at most 15, and ordinal at most 2047. */
static inline uint64_t hki_head(const hk_frame *frame, uint32_t ordinal, uint32_t length)
{
    return (uint64_t)frame->communicator << HKI_SHIFT_COMMUNICATOR | (uint64_t)ordinal << HKI_SHIFT_ORDINAL |
           (uint64_t)frame->kind << HKI_SHIFT_KIND | (uint64_t)length << HKI_SHIFT_LENGTH;
}

static inline uint32_t hki_head_length(uint64_t head)
{
    return (uint32_t)(head >> HKI_SHIFT_LENGTH) & HKI_MASK_LENGTH;
}

static inline void hki_frame_unpack(hk_frame *frame, uint64_t head, uint64_t call)
{
    frame->communicator = (uint32_t)(head >> HKI_SHIFT_COMMUNICATOR);
    frame->operation = (uint32_t)(call >> 32);
    frame->fingerprint = (uint32_t)call;
    frame->ordinal = (uint32_t)(head >> HKI_SHIFT_ORDINAL) & HKI_MASK_ORDINAL;
    frame->kind = (uint32_t)(head >> HKI_SHIFT_KIND) & HKI_MASK_KIND;
}

/* Takes what credit has come. Returns false when the credit is not one that an honest reader can have given. */
static inline bool hki_outbox_refresh(hki_outbox *out)
{
    uint32_t taken = atomic_load_explicit(&out->credit->lines, memory_order_acquire);
    if (out->sent - taken > HKI_RING_LINES)
        return false;
    out->limit = taken + HKI_RING_LINES;
    return true;
}

/* The line to fill next; only when sent != limit. */
static inline hki_line *hki_outbox_line(hki_outbox *out)
{
    return &out->lines[out->sent % HKI_RING_LINES];
}

/* Publishes the filled line, which hki_outbox_line gave. Sequence numbers start at 1, so that fresh (zero) memory holds
 * no line. */
static inline void hki_outbox_publish(hki_outbox *out, hki_line *line, uint64_t head)
{
    uint32_t sent = out->sent + 1;
    out->sent = sent;
#ifdef HKI_WEAKEN_RELEASE /* for the test that shows that ThreadSanitizer would notice */
    atomic_store_explicit(&line->head, head | (sent & HKI_MASK_SEQUENCE), memory_order_relaxed);
#else
    atomic_store_explicit(&line->head, head | (sent & HKI_MASK_SEQUENCE), memory_order_release);
#endif
}

/* After publishing: sets the doorbell bit if it is clear. Returns true when the reader sleeps and must be woken. */
static inline bool hki_outbox_notify(hki_outbox *out)
{
    hki_full_fence();
    if ((atomic_load_explicit(out->bell, memory_order_relaxed) & out->bell_bit) == 0) {
        atomic_fetch_or(out->bell, out->bell_bit);
        hki_full_fence(); /* the bit, too, is stored before the sleep word is read */
    }
    return atomic_load_explicit(out->sleep, memory_order_relaxed) != HKI_AWAKE;
}

/* The head of the ring, if there is one: its line, and its head word, read once. */
static inline const hki_line *hki_inbox_head(const hki_inbox *in, uint64_t *head)
{
    const hki_line *line = &in->lines[in->taken % HKI_RING_LINES];
    *head = atomic_load_explicit(&line->head, memory_order_acquire);
    return ((*head ^ (in->taken + 1)) & HKI_MASK_SEQUENCE) == 0 ? line : NULL;
}

/* Credit has been given back: returns true when the writer sleeps and must be woken. */
static inline bool hki_inbox_notify(const hki_inbox *in)
{
    hki_full_fence();
    return atomic_load_explicit(in->sleep, memory_order_relaxed) != HKI_AWAKE;
}

/* Drops the head. `slot`: it referred to a slot, which is given back at once; lines are given back every half ring.
 * Returns true when the writer sleeps and must be woken. */
static inline bool hki_inbox_consume(hki_inbox *in, bool slot)
{
    in->taken++;
    bool returned = slot;
    if (slot)
        atomic_store_explicit(&in->credit->slots, ++in->slots_taken, memory_order_release);
    if (in->taken % HKI_CREDIT_LINES == 0) {
        atomic_store_explicit(&in->credit->lines, in->taken, memory_order_release);
        returned = true;
    }
    return returned && hki_inbox_notify(in);
}

/* Clears a doorbell bit of a ring that was found empty; sets it again when a line came meanwhile. Returns true when the
 * bit stays clear. */
static inline bool hki_bell_clear(_Atomic uint64_t *bell, uint64_t bit, const hki_inbox *in)
{
    uint64_t head;
    atomic_fetch_and(bell, ~bit);
    hki_full_fence();
    if (hki_inbox_head(in, &head) == NULL)
        return true;
    atomic_fetch_or(bell, bit);
    return false;
}

/* Going to sleep: announce it, then look once more at every ring (the fence makes that look safe). */
static inline void hki_sleep_announce(_Atomic uint32_t *sleep, uint32_t how)
{
    atomic_store_explicit(sleep, how, memory_order_relaxed);
    hki_full_fence();
}

/* Ends the announcement; returns how the rank was announced until now (AWAKE: someone has woken it). */
static inline uint32_t hki_sleep_end(_Atomic uint32_t *sleep)
{
    return atomic_exchange_explicit(sleep, HKI_AWAKE, memory_order_acq_rel);
}

#endif

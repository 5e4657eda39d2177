/*
 * The shared-memory transport's own structures, and what its files offer one another. See README.md for the wire format
 * and the memory order.
 */
#ifndef HKI_SHM_SHM_H
#define HKI_SHM_SHM_H

#include "segment.h"

#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

enum {
    HKI_SLOTS_IN_FLIGHT = 8, /* a peer's largest share of the slots; a power of two */
    HKI_REASON_BYTES = 160,
    HKI_TOKEN_BYTES = 32
};

typedef struct hki_shm_counts {
    uint64_t slots, slot_bytes, maps, map_bytes, gets, get_bytes, hellos, sleeps, wakes;
} hki_shm_counts;

/* Memory of hk_alloc: a memfd, cut into pieces. The page after it is the transport's: `freed` there tells peers to
 * unmap. */
typedef struct hki_region {
    struct hki_region *next;
    uint64_t id; /* never used again */
    int fd;
    unsigned char *base;
    size_t bytes, pages;
    size_t *piece; /* by page: pages of the piece that starts there, else 0 */
    size_t pieces;
    size_t fresh;    /* pages from here on were never given to anybody, and are zero */
    uint64_t *given; /* bit i: local rank i has the descriptor */
    uint64_t *due;   /* bit i: it is still to be sent */
} hki_region;

/* A peer's region, mapped here. */
typedef struct hki_mapping {
    struct hki_mapping *next;
    uint64_t id;
    unsigned char *base;
    size_t bytes;
    uint64_t seen[]; /* bit i: page i is faulted in */
} hki_mapping;

typedef enum hki_get_state { HKI_GET_UNTRIED, HKI_GET_WORKS, HKI_GET_REFUSED } hki_get_state;

struct hk_link {
    alignas(64) hki_outbox out; /* the first two lines are what a frame touches */
    hki_inbox in;
    bool readable;     /* the peer's segment is mapped and its lines can be trusted */
    bool head_is_slot; /* of the head that peek last saw */
    hk_link_state state;
    hk_transport *transport;
    hki_segment segment; /* the peer's */

    /* slots that the peer has not given back: numbers of the last slots_sent - slots_back */
    uint32_t slot[HKI_SLOTS_IN_FLIGHT];
    uint32_t slots_sent, slots_back;
    bool starved;         /* the last send found no room: credit is awaited */
    bool starved_of_slot; /* what it did not find was a slot */
    uint32_t empty_polls; /* in a row, with the doorbell bit set */
    bool news;            /* the link has ended, and poll has not said so yet */

    /* connecting */
    bool wanted;     /* needed, or the peer has knocked */
    bool needed;     /* this rank has tried to send, to receive or to describe */
    bool knocked;    /* our knock was handed to the kernel */
    bool hello_due;  /* the peer has proved itself */
    bool hello_sent; /* handed to the kernel */
    struct sockaddr_un address;
    socklen_t address_bytes;
    hk_peer peer;
    uint64_t start_time; /* of the peer's process, where there is no pidfd; 0: unknown */
    char reason[HKI_REASON_BYTES];

    /* pulling */
    hki_mapping *mappings;
    hki_get_state get;
};

/* A knock that came before `connect` had named the peer. */
typedef struct hki_knock {
    uint64_t context;
    int32_t rank, pid;
} hki_knock;

struct hk_transport {
    const hk_transport_services *services;
    hki_segment segment;
    uint32_t local_ranks, local_index;
    pid_t pid;
    uint64_t nonce;     /* what a peer that copies from this process must find here */
    uint32_t protocols; /* MAP, GET: what HOCKET_PROTOCOL allows */
    size_t get_bytes;   /* smallest message for which GET is offered */

    hk_link **link;     /* by local index; NULL where connect was not called */
    hki_knock *knock;   /* by local index; context 0: none */
    uint32_t unsettled; /* links that are wanted but not up */
    uint32_t settled;   /* links to others that are up, or were */

    uint32_t *free_slot;             /* a stack: the one given back last is the warmest */
    uint32_t free_slots, idle_links; /* idle: local ranks that hold no slot; free_slots >= idle_links always */
    uint32_t slots_ready;            /* slots 0 … slots_ready-1 have pages */
    uint32_t starved;                /* links whose last send found no room */

    int socket;
    struct sockaddr_un address;
    socklen_t address_bytes;
    uint32_t polls; /* since the socket was last looked at */
    uint32_t patience;
    bool look;                                          /* look at the socket at the next poll */
    bool listening;                                     /* the socket is being emptied */
    uint32_t calm;                                      /* sleeps since a link was last made */
    uint32_t checks;                                    /* calls of check */
    _Atomic uint32_t by_futex, longest_sleep, sleepers; /* how to sleep; µs; threads that do */
    uint32_t news, changed; /* links that ended: not yet reported by poll; since the last check */
    struct pollfd *watch;   /* pidfds by local index; -1: none */

    hki_region *regions;
    uint64_t next_region;
    uint32_t gifts_due; /* regions' descriptors still to be sent */
    hki_shm_counts counts;
};

static inline _Atomic uint32_t *hki_shm_sleep_word(const hk_transport *transport)
{
    return &hki_segment_control(&transport->segment)->sleep;
}

static inline _Atomic uint64_t *hki_shm_bell(const hki_segment *segment, uint32_t local_index)
{
    return &hki_segment_control(segment)->bells[local_index / 64];
}

static inline bool hki_shm_departed(const hk_link *link)
{
    return atomic_load_explicit(&hki_segment_control(&link->segment)->departed, memory_order_acquire) != 0;
}

/* ---- shm.c ---- */

/* Ends the link with a text for link_state; the first reason stays. state is GOODBYE or LOST. */
void hki_shm_end(hk_link *link, hk_link_state state, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same for a peer that broke the format: nothing more is read from it. */
void hki_shm_distrust(hk_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* True when a send that found no room would find some now. */
bool hki_shm_has_room(hk_link *link);

/* ---- slots.c ---- */

int hki_slots_open(hk_transport *transport);
/* Takes a slot for one more frame to that peer; false when there is none to be had now, or the link has ended. */
bool hki_slots_take(hk_link *link, uint32_t *slot);
/* Notes what the peer gave back. */
void hki_slots_reclaim(hk_link *link);
/* The peer is gone: all of its slots are free. */
void hki_slots_reclaim_all(hk_link *link);
bool hki_slots_available(hk_link *link);

/* ---- connect.c ---- */

int hki_connect_open(hk_transport *transport);
/* This rank needs the link: does what can be done at once. */
void hki_connect_need(hk_link *link);
/* A knock may have come before the link was made. */
void hki_connect_adopt(hk_link *link);
/* Takes what came on the socket and sends what is due. Returns true when anything but a wake-up came. */
bool hki_connect_progress(hk_transport *transport);
/* Looks whether peers live; ends links whose peers do not. */
void hki_connect_check(hk_transport *transport);
/* True while notes wait for room in a peer's queue, so that a sleep must be short. */
bool hki_connect_unsent(const hk_transport *transport);
/* Hands a region's descriptor to a peer: true when it is with the kernel. */
bool hki_connect_give(hk_link *link, const hki_region *region);
/* Wakes a rank that sleeps on its socket. */
void hki_connect_nudge(hk_link *link);
void hki_connect_nudge_self(hk_transport *transport);

/* ---- sleep.c ---- */

/* Wakes the peer if it sleeps. */
void hki_shm_wake(hk_link *link);
bool hki_shm_arm(hk_transport *transport);
void hki_shm_disarm(hk_transport *transport);
int hki_shm_event_fd(hk_transport *transport);
void hki_shm_sleep(hk_transport *transport, uint32_t microseconds);

/* ---- region.c ---- */

void *hki_shm_alloc(hk_transport *transport, size_t bytes);
bool hki_shm_free(hk_transport *transport, void *memory);
/* The region in which all of it lies; NULL: in none. */
hki_region *hki_region_of(const hk_transport *transport, const void *memory, size_t bytes);
void hki_region_release_all(hk_transport *transport);

/* In the page that follows a region: 1 when the owner has freed it. */
static inline _Atomic uint32_t *hki_freed_word(unsigned char *base, size_t bytes)
{
    return (_Atomic uint32_t *)(void *)(base + bytes);
}

/* ---- memory.c ---- */

hk_transport_result hki_shm_describe(hk_link *link, const void *memory, size_t bytes, hk_remote *remote,
                                     uint32_t *protocols);
hk_transport_result hki_shm_map(hk_link *link, const hk_remote *remote, size_t bytes, const void **memory);
hk_transport_result hki_shm_get(hk_link *link, const hk_remote *remote, uint64_t offset, void *destination,
                                size_t bytes);
/* Sends descriptors that are due. */
void hki_memory_progress(hk_transport *transport);
/* A descriptor came from the peer; takes it. */
void hki_memory_received(hk_link *link, uint64_t id, size_t bytes, int fd);
/* Unmaps what peers have freed. */
void hki_memory_sweep(hk_link *link);
void hki_memory_release_link(hk_link *link);

#endif

/*
 * The plug-in interface between Hocket and a transport: how frames and bulk data move between two processes.
 *
 * A transport is a shared object libhocket_transport_NAME.so (or an in-tree folder) that exports one symbol, `const
 * hk_transport_ops hk_transport_NAME`, needs nothing of the library, and is not unloaded. It knows peers and links; it
 * knows nothing of communicators, collectives or schedules. Matching, eager and rendezvous, credits and reductions are
 * the core's (src/msg), written once for all transports.
 *
 * Rules that hold for every function below unless its comment says otherwise:
 *  - Never blocks. What cannot be done now returns HK_TRANSPORT_AGAIN and has changed nothing.
 *  - Called by one thread at a time per transport object. A transport never calls back into the core but through
 *    hk_transport_services, and never with a lock of its own held.
 *  - Functions named with a capability (MAP, GET, PUT, SLEEP) may be NULL when its bit is absent, and must not be when
 *    it is set; `describe` belongs to the first three. Others are NULL only where their comment says NULL-able.
 *  - Bytes from outside are validated after they were copied out of memory that the peer can write.
 */
#ifndef HOCKET_TRANSPORT_H
#define HOCKET_TRANSPORT_H

#include <hocket/hocket.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HK_TRANSPORT_ABI 1u
/* A frame whose payload is no longer than this is handed over whole: peek says AGAIN until all of it is here, and never
 * gives data == NULL for it. */
#define HK_TRANSPORT_WHOLE 1024u

typedef struct hk_transport hk_transport; /* one context's instance; the transport defines it */
typedef struct hk_link hk_link;           /* one peer as seen from here; the transport defines it */

typedef enum hk_transport_result {
    HK_TRANSPORT_OK = 0,
    HK_TRANSPORT_AGAIN,  /* no room, nothing there, or still connecting */
    HK_TRANSPORT_LOST,   /* the peer is gone, in order or not, or the link failed: see link_state; nothing more comes */
    HK_TRANSPORT_REFUSED /* this protocol is not possible with this peer or memory; another may be */
} hk_transport_result;

/* The header of every frame. The core fills it; a transport carries it and may pack it. */
typedef struct hk_frame {
    uint32_t communicator; /* what its ranks have agreed to call it; equal at both ends */
    uint32_t operation; /* low half of the operation number, or a point-to-point tag; any 32 bits, as are the others */
    uint32_t fingerprint; /* of the call that sent it */
    uint32_t ordinal;     /* n-th message from this sender to this receiver in the operation */
    uint32_t kind;        /* 0 … 15, the core's */
} hk_frame;

/* A frame that has arrived and lies at the head of a link's FIFO. */
typedef struct hk_arrival {
    hk_frame frame;
    const void *data; /* what is left of the payload where it lies, valid until `consume`; NULL: take it with `read` */
    size_t bytes;     /* what is left of the payload: all of it, but what `read` has moved */
} hk_arrival;

/* Describes memory so that a peer can reach it; opaque to the core, made by `describe`, used by map and get. */
typedef struct hk_remote {
    uint64_t word[4];
} hk_remote;

typedef enum hk_link_state {
    HK_LINK_CONNECTING,
    HK_LINK_UP,
    HK_LINK_GOODBYE, /* the peer left in order; what it sent before can still be taken */
    HK_LINK_LOST     /* the peer died or the connection broke; what arrived before can still be taken */
} hk_link_state;

enum {                                   /* capabilities */
       HK_TRANSPORT_MAP = 1u << 0,       /* map: peers' hk_alloc memory can be read directly */
       HK_TRANSPORT_GET = 1u << 1,       /* get: peers' memory can be copied from */
       HK_TRANSPORT_PUT = 1u << 2,       /* put: peers' memory can be written */
       HK_TRANSPORT_SLEEP = 1u << 3,     /* sleep: can wait by itself when it is the only transport in use */
       HK_TRANSPORT_LOCAL = 1u << 4,     /* reaches ranks of the same host only */
       HK_TRANSPORT_ENCRYPTED = 1u << 5, /* what links carry can neither be read nor changed on the network; without
                                          * this or LOCAL, HOCKET_TLS=required leaves the transport out */
       HK_TRANSPORT_COSTED = 1u << 6,    /* alpha_ns and beta_ns were measured or read from the hardware: the cost model
                                          * uses them where nothing was tuned, also to choose among transports. 0: not
                                          * known. Without this bit both are estimates, which it does not use */
       HK_TRANSPORT_INFINIBAND = 1u << 7 /* of verbs: it uses InfiniBand, and reaches no rank whose verbs use RoCE */
};

/* What a transport promises about its sizes; filled by open. */
typedef struct hk_transport_limits {
    uint32_t capabilities;
    size_t inline_bytes; /* a payload up to this travels with its header in one go (cheapest) */
    size_t eager_bytes;  /* largest message that is sent without being asked for: at least HK_TRANSPORT_WHOLE */
    size_t piece_bytes;  /* best size of one piece when a large message is streamed; a multiple of 4096 is best */
    size_t get_bytes;    /* smallest message for which `get` is worth a call; SIZE_MAX: only when forced */
    double alpha_ns;     /* one hand-over of a small message; see HK_TRANSPORT_COSTED */
    double beta_ns;      /* ns per byte, streamed; likewise */
} hk_transport_limits;

/* Who a peer is. Equal host and context identify a process's context; rank is its index in the context's world. */
typedef struct hk_peer {
    uint64_t host;    /* hash of boot id, namespaces and HOCKET_HOST */
    uint64_t context; /* random id of the context */
    int32_t pid;
    int32_t rank;
    int32_t local_index; /* index among the ranks of its host, 0 … */
    int32_t local_ranks; /* ranks on its host */
    char host_name[64];
} hk_peer;

/* What the core lends a transport. Valid until close returns. */
typedef struct hk_transport_services {
    size_t size;
    uint32_t abi;
    void *core;
    /* Writes one log line. */
    void (*log)(void *core, hk_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));
    /* Value of HOCKET_<NAME>, or its default; never NULL. Names that the library does not know are "": a plug-in that
     * has settings of its own reads variables that do not begin with HOCKET_, since those are reported as unknown. */
    const char *(*setting)(void *core, const char *name);
    /* Monotonic nanoseconds. */
    uint64_t (*now)(void *core);
    /* Records why a function failed, for hk_last_error. */
    void (*error)(void *core, hk_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
    const hk_peer *self;
    uint32_t ranks;       /* size of the context's world */
    const uint8_t *token; /* 32 bytes that only ranks of this job know (derived from the job key) */
} hk_transport_services;

typedef struct hk_transport_ops {
    size_t size;  /* sizeof(hk_transport_ops) of the header it was compiled with */
    uint32_t abi; /* HK_TRANSPORT_ABI */
    const char *name;

    /* Makes the instance of one context; may block briefly. Checks that services->size covers what it uses. On failure
     * records why with services->error. */
    hk_status (*open)(const hk_transport_services *services, hk_transport **transport, hk_transport_limits *limits);
    /* Flushes what is queued, says goodbye on every link, frees everything, all links included. Blocks at most
     * `timeout` seconds for peers that still pull from this process. */
    void (*close)(hk_transport *transport, double timeout);

    /* Writes what a peer needs in order to connect (at most *bytes, 512) and sets *bytes. */
    hk_status (*address)(hk_transport *transport, void *address, size_t *bytes);
    /* Makes a link to a peer whose address came through the bootstrap. Returns at once; the link may still be
     * connecting. Costs nothing else until it is used. HK_ERR_UNSUPPORTED: this transport cannot reach that peer. */
    hk_status (*connect)(hk_transport *transport, const hk_peer *peer, const void *address, size_t bytes,
                         hk_link **link);
    /* State of a link; reason (NULL-able) receives a text that lives as long as the link. */
    hk_link_state (*link_state)(hk_link *link, const char **reason);

    /* Puts one frame of at most limits.eager_bytes or limits.piece_bytes, whichever is larger, on the link, in order.
     * All or nothing; the payload may be reused at once. After OK the frame arrives even if this process makes no other
     * call for long: it is with the kernel, in shared memory, with a thread or with hardware. Wakes a sleeping peer.
     * After AGAIN for want of room, arm refuses, or the sleep ends, as soon as there is some. The first send or peek
     * makes the connection. */
    hk_transport_result (*send)(hk_link *link, const hk_frame *frame, const void *payload, size_t bytes);
    /* Looks at the head of the link's FIFO of frames. AGAIN when empty. Repeating it without read or consume gives the
     * same frame; a larger one may come with data == NULL before all of it is here, and with data later. What arrived
     * before the peer left or died comes first; then, or when the rest of the head will never come, LOST. */
    hk_transport_result (*peek)(hk_link *link, hk_arrival *arrival);
    /* NULL-able unless peek can give data == NULL: moves up to `bytes` of the head's payload to destination. OK with
     * *moved > 0; AGAIN when no more of it is here yet; LOST when no more will come. */
    hk_transport_result (*read)(hk_link *link, void *destination, size_t bytes, size_t *moved);
    /* Drops the head, also what has not been read of it. */
    void (*consume)(hk_link *link);

    /* Describes [memory, memory+bytes) for this link's peer; *protocols gets the bits among MAP, GET, PUT by which the
     * peer may reach it. On entry it says for what: PUT, the peer is to write there, once; 0, it is to read (MAP, GET).
     * Returns REFUSED when by none. Lives until `withdraw`, or where there is no such function until the operation
     * ends. */
    hk_transport_result (*describe)(hk_link *link, const void *memory, size_t bytes, hk_remote *remote,
                                    uint32_t *protocols);
    /* MAP: a pointer through which the peer's memory can be read now. Valid until the peer frees it. */
    hk_transport_result (*map)(hk_link *link, const hk_remote *remote, size_t bytes, const void **memory);
    /* GET: copies bytes from offset of the peer's memory; blocks for the copy only. REFUSED: fall back, for good. */
    hk_transport_result (*get)(hk_link *link, const hk_remote *remote, uint64_t offset, void *destination,
                               size_t bytes);
    /* PUT (asynchronous): writes to the peer's memory; `frame` is delivered to the peer after the data, in no order
     * with other frames. The n-th that gives OK is the link's put n; put_result says what becomes of it. */
    hk_transport_result (*put)(hk_link *link, const hk_remote *remote, uint64_t offset, const void *source,
                               size_t bytes, const hk_frame *frame);

    /* Links that have something new to peek or to read although nobody polls them (doorbells), or that have ended since
     * it was last said: up to `capacity` ranks. Also accepts connections, and moves what is queued. */
    size_t (*poll)(hk_transport *transport, uint32_t *ranks, size_t capacity);
    /* Looks whether peers of connected links still live; called every 20 ms or so while something is waited for.
     * Returns how many links have ended since the last call. */
    size_t (*check)(hk_transport *transport);

    /* Sleeping. arm: from now on an arrival, room for a send that found none, or the end of a link makes event_fd
     * readable (or ends `sleep`); returns false, and is not armed, when such a thing is pending already: a frame that
     * peek would show and that has not been consumed, or more of a head than peek and read have given so far. A head
     * that has been read as far as it is here is not pending. disarm: the process is awake again. event_fd is the same
     * for the life of the instance; only its becoming readable means anything. */
    bool (*arm)(hk_transport *transport);
    void (*disarm)(hk_transport *transport);
    int (*event_fd)(hk_transport *transport);
    /* SLEEP: waits armed until an arrival or for `microseconds`. */
    void (*sleep)(hk_transport *transport, uint32_t microseconds);

    /* Memory for hk_alloc that peers can map or reach by RDMA; NULL when it cannot be had. NULL-able. */
    void *(*alloc)(hk_transport *transport, size_t bytes);
    /* True when the memory was this transport's, and is freed now. NULL-able with alloc. */
    bool (*free)(hk_transport *transport, void *memory);
    /* NULL-able: hk_register / hk_unregister. */
    hk_status (*register_memory)(hk_transport *transport, void *memory, size_t bytes);
    void (*unregister_memory)(hk_transport *transport, void *memory);

    /* Named counters since open (frames, bytes and messages by protocol), for `hocket info`, bench and tests. Returns
     * how many there are; names live as long as the transport. */
    size_t (*counters)(hk_transport *transport, const char **names, uint64_t *values, size_t capacity);

    /* Spreading the news of lost ranks, so that those learn of it, too, that have no link to them. Both NULL-able.
     * acquaint: where a rank is to be found that another transport serves, for that purpose alone; after all connects.
     * report_lost: the rank is lost, which this or another transport has seen; true when this one tells all others. A
     * link to a rank that others have reported ends as LOST. */
    void (*acquaint)(hk_transport *transport, const hk_peer *peer, const void *address, size_t bytes);
    bool (*report_lost)(hk_transport *transport, uint32_t rank);

    /* PUT: what has become of the link's put `number` (1, 2, …), and whether its source may be used again. AGAIN: under
     * way. OK: the data are there, and the frame is on its way. REFUSED: the peer's memory cannot be written (it may
     * have been withdrawn); the frame will not come, and another protocol may serve. LOST: the link has ended. After
     * anything but AGAIN the source is not read any more. Ends of puts come in order; one forbids arming, and ends a
     * sleep, like an arrival. */
    hk_transport_result (*put_result)(hk_link *link, uint64_t number);
    /* PUT; NULL-able otherwise: the description is not needed any more. revoke: the peer may still be about to write by
     * it; when this returns, it cannot, and its put will be REFUSED. */
    void (*withdraw)(hk_link *link, const hk_remote *remote, bool revoke);

    /* NULL-able. Measures what `open` took no time to: what the transport itself goes by, and alpha_ns and beta_ns with
     * HK_TRANSPORT_COSTED in *limits. Called once after open, and only where ranks do not all share memory. Takes a few
     * milliseconds at most. */
    void (*measure)(hk_transport *transport, hk_transport_limits *limits);
} hk_transport_ops;

#ifdef __cplusplus
}
#endif
#endif

/*
 * The verbs transport's own structures, and what its files offer one another. README.md has the protocol, and says
 * which thread touches what.
 *
 * Two threads: the caller's (any thread of the application, one at a time) sends and receives; the control thread makes
 * connections and hears of asynchronous events. What both touch is marked.
 */
#ifndef HKI_VERBS_VERBS_H
#define HKI_VERBS_VERBS_H

#include "library.h"

#include "base/list.h"

#include <hocket/transport.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#define HKI_UNLIKELY(x) __builtin_expect(!!(x), 0)

enum {
    HKI_VERBS_LANES = 4,       /* ports that a context uses at most */
    HKI_VERBS_REASON = 448,    /* bytes of a text */
    HKI_VERBS_UNIT = 64,       /* rings are handed out by units of so many bytes */
    HKI_VERBS_HEADER = 24,     /* bytes of a frame's header in the ring */
    HKI_VERBS_FRAMES = 256,    /* frames that a peer may have under way; a power of two */
    HKI_VERBS_RESERVE = 32,    /* receives beyond those: for returned credit, and those not posted again yet */
    HKI_VERBS_SENDS = 128,     /* work requests of a link that have not completed */
    HKI_VERBS_SIGNAL = 32,     /* every so many of them is signalled */
    HKI_VERBS_INLINE = 256,    /* bytes that are asked to fit into a work request */
    HKI_VERBS_BULK_SENDS = 64, /* work requests of a bulk queue beside a last one, and receives */
    HKI_VERBS_PUTS = 32,       /* of a link under way */
    HKI_VERBS_GRANTS = 48,     /* memory that a peer may put to at a time: each takes one of its receives in the end */
    HKI_VERBS_DESCRIPTIONS = 256
};

/* What a completion belongs to: the high half of its wr_id. The low one is the number of the work request. */
enum hki_verbs_kind { HKI_OF_RECEIVE, HKI_OF_FRAME, HKI_OF_PROBE, HKI_OF_BULK_RECEIVE, HKI_OF_BULK, HKI_OF_BULK_END };

/* One port of one device; a context uses the first HKI_VERBS_LANES that it is told to. */
typedef struct hki_port {
    hk_transport *transport;
    char device[64];
    uint8_t number;
    bool ethernet; /* RoCE: addressed by GID. Else InfiniBand: by LID */
    uint16_t lid;
    int gid_index;
    union ibv_gid gid;
    enum ibv_mtu mtu;
    uint32_t rd_atomic; /* RDMA reads that a queue may have under way */
    uint32_t longest;   /* bytes of one message */
    double ns_per_byte; /* of the port's width and speed; 0: not known */
    bool on_demand;     /* memory for one message need not be pinned */
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    _Atomic bool down; /* both threads */
} hki_port;

/* How a peer's port is reached; from its published address. */
typedef struct hki_port_address {
    union ibv_gid gid;
    uint16_t lid;
    uint8_t mtu;
    bool ethernet;
} hki_port_address;

/* What is said about one end of a lane's queue pairs. */
typedef struct hki_lane_end {
    uint32_t frames_number, frames_psn; /* queue pair for frames; only of the home lane */
    uint32_t bulk_number, bulk_psn;
    uint32_t rd_atomic;
} hki_lane_end;

/* What is said about one end of a link. */
typedef struct hki_link_end {
    uint64_t ring; /* address of its ring for arrivals */
    uint32_t ring_key;
    uint32_t ring_units;
    hki_lane_end lane[HKI_VERBS_LANES];
} hki_link_end;

/* A link's share of one port. */
typedef struct hki_lane {
    hk_link *link;
    hki_port *port;
    struct ibv_cq *cq;                               /* of all the lane's queues */
    struct ibv_qp *bulk;                             /* data of large messages; fails without taking the link with it */
    bool armed;                                      /* a completion will make an event */
    uint32_t bulk_posted, bulk_done, bulk_signalled; /* work requests */
    uint32_t receives_due;                           /* to be posted again */
    uint32_t receives_out;                           /* posted, and not completed */
    bool ended;                                      /* all requests before the last one have completed */
    uint32_t put_arrived;                            /* number of the last put whose share has come over this lane */
} hki_lane;

/* Memory that the hardware knows, at every port. */
typedef struct hki_region {
    hki_node node; /* in transport.regions */
    char *memory;
    size_t bytes; /* whole pages */
    struct ibv_mr *key[HKI_VERBS_LANES];
    uint32_t uses; /* registrations, hk_alloc, descriptions, puts */
    bool kept;     /* of hk_alloc or hk_register: found by others */
    bool own;      /* made by alloc */
} hki_region;

/* One call of register_memory: several may share a region. */
typedef struct hki_registration {
    hki_node node; /* in transport.registrations, oldest first */
    const void *memory;
    hki_region *region;
} hki_registration;

/* Memory that a peer has been told of. */
typedef struct hki_description {
    hki_region *region; /* NULL: free */
    bool to_write;
} hki_description;

/* A put under way: each lane writes its share [at, end). */
typedef struct hki_put {
    hk_frame frame;
    hk_remote remote;
    hki_region *region; /* of the source */
    const char *source;
    uint64_t at[HKI_VERBS_LANES], end[HKI_VERBS_LANES];
    uint64_t place;                 /* at the peer */
    uint32_t last[HKI_VERBS_LANES]; /* number of the share's last work request */
    uint32_t lanes;                 /* bits: those that have a share */
} hki_put;

/* A frame that has come and lies in the ring. */
typedef struct hki_slot {
    uint32_t unit, bytes; /* where, and how much with its header */
} hki_slot;

/* How far connecting has come. */
enum hki_wiring {
    HKI_WIRING_NONE,
    HKI_WIRING_MADE,   /* queues exist */
    HKI_WIRING_JOINED, /* and know the peer's */
    HKI_WIRING_UP,     /* and the peer's know them */
    HKI_WIRING_LEFT,   /* the peer has left in order before that */
    HKI_WIRING_FAILED  /* see reason */
};

struct hk_link {
    hk_transport *transport;
    hk_peer peer;
    hk_link_state state;
    char reason[HKI_VERBS_REASON];

    /* connecting: the control thread's, but as marked */
    _Atomic int wiring; /* both threads; the caller's reads what follows once it says UP */
    hki_node dialling;
    uint64_t again, pause, deadline;
    struct ibv_ah *handle;
    bool wanted;          /* the caller's: this rank has tried to send or to receive */
    hk_link *next_wanted; /* both threads: stack of links to connect */
    uint32_t dial_number; /* of the peer's datagram queue */
    hki_port_address address[HKI_VERBS_LANES];
    uint32_t lane_count, home; /* lanes that both ends have; the one that carries frames */
    _Atomic int event;         /* both threads: an enum ibv_event_type that ends the link, + 1 */
    _Atomic bool gone;         /* both threads: the peer's process has ended */

    /* queues */
    hki_lane lane[HKI_VERBS_LANES];
    struct ibv_qp *frames;
    uint32_t inline_bytes;
    hki_link_end far;
    hki_link_end near;     /* the control thread's: it may have to say this again when the queues are gone */
    unsigned char *memory; /* ring for arrivals, then the stage for departures */
    size_t memory_bytes;
    struct ibv_mr *region;

    /* departures */
    uint64_t head, freed;              /* units of the peer's ring given out, and free again */
    uint32_t frames_out, frames_freed; /* likewise frames */
    uint32_t posted, completed, signalled;
    bool starved; /* a send found no room */

    /* arrivals */
    hki_slot slot[HKI_VERBS_FRAMES];
    uint32_t arrived, consumed; /* frames */
    uint64_t tail;              /* units of the own ring that are free again */
    uint64_t tail_told;         /* … as the peer knows */
    uint32_t consumed_told;
    uint32_t receives_due; /* to be posted again */
    bool credit_due;       /* credit that found no room to be told */

    /* large messages */
    hki_put put[HKI_VERBS_PUTS];
    uint64_t puts_taken, puts_posted, puts_done; /* numbers */
    bool bulk_failing, bulk_broken;              /* is to be given up; has been, and all puts are refused */
    bool bulk_untold;                            /* the peer does not know that yet */
    bool put_news;                               /* one has ended, and nobody has asked yet */
    hki_description description[HKI_VERBS_DESCRIPTIONS];
    uint32_t grants; /* descriptions to write to */
    uint32_t asked;  /* how often a put's result was asked for in vain */

    /* the end */
    int pidfd;    /* of a peer on this host, or -1 */
    bool failing; /* reason is set; the queues are to be ended */
    bool goodbye; /* the peer's has come */
    bool departed;
    bool news;  /* the link has ended, and poll has not said so */
    bool heard; /* something came since the last check */
    bool probing;
    uint64_t probe_at;
};

typedef struct hki_verbs_counts {
    uint64_t connections, work_requests, inline_sends, frames_out, frames_in, bytes_written, bytes_copied, credits,
        probes, room_waits, puts, put_bytes, puts_refused, gets, get_bytes, registrations, revocations;
} hki_verbs_counts;

typedef struct hki_verbs_control {
    pthread_t thread;
    bool running;
    int epoll, event;
    _Atomic bool stop;
    _Atomic(hk_link *) wanted; /* both threads */
    _Atomic bool gone;         /* both threads: of a link that is not up, it has to be looked at */
    hki_node dialling;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_qp *queue; /* datagrams */
    struct ibv_mr *region;
    unsigned char *memory; /* of datagrams: those that come, then those that go */
    uint32_t sends;        /* slot of the next that goes */
    uint32_t sends_out;
    _Atomic uint64_t refused; /* both threads */
} hki_verbs_control;

/* When memory that is not kept is registered for one message. */
typedef struct hki_memory_cost {
    uint64_t from;                     /* bytes; UINT64_MAX: never */
    bool given;                        /* by HOCKET_VERBS_REGISTER */
    double fixed_ns, byte_ns, copy_ns; /* of registering and letting go, and of copying a byte; all 0: not measured */
} hki_memory_cost;

struct hk_transport {
    const hk_transport_services *services;
    const hki_verbs_library *library;
    pid_t pid;
    hki_port port[HKI_VERBS_LANES];
    uint32_t port_count;
    uint32_t ring_units;                /* of each link's ring */
    double connect_timeout, latency_ns; /* one way, measured; 0: it could not be */
    bool puts, gets;                    /* HOCKET_PROTOCOL allows them */
    hki_memory_cost memory;
    hki_node regions, registrations;
    hki_region *bounce;        /* for reads into memory that is not registered */
    _Atomic(hk_link *) *links; /* by rank; set by connect, read by both threads */
    int epoll, event;          /* the caller's: completion channels, peers' ends, and a bell of the control thread */
    bool relieved;             /* a starved link found room, and arm has not said so */
    uint32_t changed;          /* links that ended since the last check */
    hki_verbs_counts counts;
    hki_verbs_control control;
};

static inline hk_link *hki_verbs_link(hk_transport *transport, uint32_t rank)
{
    return rank < transport->services->ranks ? atomic_load_explicit(&transport->links[rank], memory_order_acquire)
                                             : NULL;
}

/* ---- device.c ---- */

/* Chooses and opens ports. HK_ERR_UNSUPPORTED: there is none. Errors are recorded. */
hk_status hki_verbs_open_ports(hk_transport *transport);
void hki_verbs_close_ports(hk_transport *transport);
/* Bytes a nanosecond of all ports together; 0: not known. */
double hki_verbs_rate(const hk_transport *transport);
/* ibv_query_port as the header's inline function does it, by the loaded library. */
int hki_verbs_query_port(const hki_verbs_library *library, struct ibv_context *context, uint8_t number,
                         struct ibv_port_attr *attributes);

/* ---- queue.c ---- */

/* Makes the link's queues and memory. False, with link->reason: not possible. */
bool hki_verbs_make(hk_link *link);
/* Joins them with the peer's (link->far). False, with link->reason. */
bool hki_verbs_join(hk_link *link);
/* Ends all queues: when this returns, no hardware touches memory on the link's behalf any more. */
void hki_verbs_drop_queues(hk_link *link);
void hki_verbs_drop_memory(hk_link *link);
/* Whether memory for a link could be registered, so that where it cannot another transport serves from the start. The
 * error is recorded. */
hk_status hki_verbs_try_memory(hk_transport *transport);
/* How to reach a peer's port from one's own. */
void hki_verbs_route(const hki_port *from, const hki_port_address *to, struct ibv_ah_attr *route);

/* ---- frames.c ---- */

hk_transport_result hki_verbs_send(hk_link *link, const hk_frame *frame, const void *payload, size_t bytes);
hk_transport_result hki_verbs_peek(hk_link *link, hk_arrival *arrival);
void hki_verbs_consume(hk_link *link);
/* Takes what has completed on the link's queues. */
void hki_verbs_progress(hk_link *link);
/* Puts the goodbye on the link; false: no room yet. */
bool hki_verbs_say_goodbye(hk_link *link);
/* Asks the peer's hardware for a sign of life. */
void hki_verbs_probe(hk_link *link);
/* Ends the link for this reason, once. The rest happens in hki_verbs_progress. */
void hki_verbs_fail(hk_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline bool hki_verbs_pending(const hk_link *link)
{
    return link->arrived != link->consumed || link->news;
}
/* Writes a frame of the transport's own for a put; false: no room yet. */
bool hki_verbs_send_put_frame(hk_link *link, const hk_frame *frame, uint32_t number, uint32_t lanes);
/* Whether there is room for one more of them; then it is kept until the put ends. */
bool hki_verbs_put_fits(const hk_link *link);
/* Takes what has completed on one lane. */
void hki_verbs_take_completions(hki_lane *lane);
/* Tells the peer that this end's bulk queues are gone; false: later. */
bool hki_verbs_tell_bulk_broken(hk_link *link);

/* ---- bulk.c ---- */

hk_transport_result hki_verbs_put(hk_link *link, const hk_remote *remote, uint64_t offset, const void *source,
                                  size_t bytes, const hk_frame *frame);
hk_transport_result hki_verbs_put_result(hk_link *link, uint64_t number);
hk_transport_result hki_verbs_get(hk_link *link, const hk_remote *remote, uint64_t offset, void *destination,
                                  size_t bytes);
/* A completion of a lane's bulk queue. */
void hki_verbs_bulk_completed(hki_lane *lane, const struct ibv_wc *completion);
/* Goes on with puts, and with the end of the bulk queues. */
void hki_verbs_bulk_progress(hk_link *link);
/* Puts that have not ended will not; their sources are free. After the queues have been dropped. */
void hki_verbs_bulk_drop(hk_link *link);
/* Ends the bulk queues, when all that was posted has completed or been flushed: no hardware touches memory for them any
 * more, and what the peer has written before is known. */
void hki_verbs_bulk_end(hk_link *link);
/* Posts all receives of a new queue. */
bool hki_verbs_bulk_receive(hki_lane *lane);

/* ---- memory.c ---- */

hk_transport_result hki_verbs_describe(hk_link *link, const void *memory, size_t bytes, hk_remote *remote,
                                       uint32_t *protocols);
void hki_verbs_withdraw(hk_link *link, const hk_remote *remote, bool revoke);
void *hki_verbs_alloc(hk_transport *transport, size_t bytes);
bool hki_verbs_free(hk_transport *transport, void *memory);
hk_status hki_verbs_register(hk_transport *transport, void *memory, size_t bytes);
void hki_verbs_unregister(hk_transport *transport, void *memory);
/* At every port, or at none. */
bool hki_region_register(hk_transport *transport, hki_region *region);
void hki_region_deregister(const hk_transport *transport, hki_region *region);
/* A region that holds the memory, kept or made for it; NULL: none can be had. Let go with hki_region_drop. */
hki_region *hki_region_for(hk_transport *transport, const void *memory, size_t bytes);
void hki_region_drop(hk_transport *transport, hki_region *region);
/* The kept region that holds the memory, not counted; or NULL. */
hki_region *hki_region_kept(const hk_transport *transport, const void *memory, size_t bytes);
void hki_verbs_drop_regions(hk_transport *transport);

/* ---- crossover.c ---- */

/* transport->memory as HOCKET_VERBS_REGISTER says, or as is guessed until it is measured. */
void hki_verbs_set_memory(hk_transport *transport);
/* Measures it unless it was given. A few milliseconds, so it is not done where ranks share memory. */
void hki_verbs_measure(hk_transport *transport, hk_transport_limits *limits);

/* ---- verbs.c ---- */

/* For whoever waits for the link's hardware alone: sees whether the peer still lives. */
void hki_verbs_look(hk_link *link);
/* From now on the end of the peer's process ends the link. Not before it is needed or made: a peer that leaves in order
 * without ever having had to do with this one is not lost. */
void hki_verbs_watch(hk_link *link);

/* ---- control.c, wiring.c: the control thread ---- */

hk_status hki_verbs_control_open(hk_transport *transport);
hk_status hki_verbs_control_start(hk_transport *transport);
void hki_verbs_control_stop(hk_transport *transport);
/* The link is needed: the control thread is told. */
void hki_verbs_need(hk_link *link);
/* The peer's process has ended while connecting: the control thread knows whether it left in order. */
void hki_verbs_tell_gone(hk_link *link);
/* Tells the caller's thread that a link has changed. */
void hki_verbs_ring(hk_transport *transport);
uint32_t hki_verbs_key(const hk_transport *transport);

/* A datagram came. */
void hki_verbs_hear(hk_transport *transport, const unsigned char *text, size_t bytes);
/* A link is wanted. */
void hki_verbs_dial(hk_link *link);
/* Looks at times; returns when to look again. */
uint64_t hki_verbs_dial_times(hk_transport *transport, uint64_t now);
/* The peer's process has ended: nothing more can be heard from it, and everything has been. */
void hki_verbs_hear_end(hk_link *link);
/* Tells those that are about to connect that this rank leaves. */
void hki_verbs_say_leave(hk_transport *transport);
/* Sends a datagram to the link's peer; best effort. */
void hki_verbs_say(hk_link *link, const unsigned char *text, size_t bytes);

#endif

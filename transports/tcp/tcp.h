/*
 * The TCP transport's own structures, and what its files offer one another. README.md has the wire format and says
 * which thread touches what.
 *
 * Two threads: the caller's (any thread of the application, one at a time) reads and writes established connections;
 * the control thread makes them. What both touch is marked.
 */
#ifndef HKI_TCP_TCP_H
#define HKI_TCP_TCP_H

#include "frame.h"

#include "base/list.h"
#include "net/address.h"
#include "net/handshake.h"
#include "net/interfaces.h"
#include "net/refusals.h"
#include "net/stream.h"

#include <hocket/transport.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#define HKI_UNLIKELY(x) __builtin_expect(!!(x), 0)

enum {
    HKI_TCP_ADDRESSES = 20, /* of one rank that are published */
    HKI_TCP_LISTENERS = HKI_TCP_ADDRESSES,
    HKI_TCP_REASON = 512,
    HKI_TCP_CONGESTION = 16, /* longest name of the kernel's, and its end */
    HKI_TCP_EAGER = 64 << 10,
    HKI_TCP_PIECE = 1 << 20, /* of a stream: each ends with a short packet, so pieces of 256 KiB took a fifth longer */
    HKI_TCP_PIECE_LANED = 256 << 10, /* where there are lanes, among which pieces are dealt out */
    HKI_TCP_LANED = 128 << 10, /* payloads from here on may go by a lane: for less, a second call costs more; guessed */
    HKI_TCP_BUFFER = 128 << 10, /* of arrivals: an eager frame fits whole, many small ones come by one call */
    HKI_TCP_SPARE_BUFFERS = 8,
    HKI_TCP_WATCHES = 64, /* two for each power of two below the number of ranks */
    HKI_TCP_WATCH_MESSAGE = 16,
    HKI_TCP_VERDICT = 192
};

/* A rank that is lost, why, and who has seen it (watch.c). */
typedef struct hki_loss {
    uint32_t rank, cause, witness;
} hki_loss;

/* A connection over which two ranks see whether the other lives (watch.c). The control thread's. */
typedef struct hki_watch {
    uint32_t rank;     /* the other end */
    bool dials;        /* this rank makes it */
    bool counts;       /* the other end has said that it is there: from then on its silence means something */
    bool over;         /* it has left, or is lost, or is not to be had */
    hki_stream stream; /* the connection; fd -1: none */
    _Atomic int fd;    /* the same, for fork */
    struct hki_attempt *attempt;
    uint32_t candidate;  /* to try */
    uint32_t passes;     /* over all candidates so far */
    uint32_t unanswered; /* of them since the other end's kernel answered last */
    uint32_t refused;    /* passes in a row in which every candidate refused */
    bool others;         /* this pass met something else than a refusal */
    uint64_t again, deadline;
    uint32_t told; /* of control.losses */
    bool greeted, blocked;
    size_t in_bytes, out_left;
    unsigned char in[HKI_TCP_WATCH_MESSAGE], out[HKI_TCP_WATCH_MESSAGE];
} hki_watch;

/* One connection that is not established: being dialled, or accepted and unproved. The control thread's. */
typedef struct hki_attempt {
    hki_node node;
    hki_stream stream; /* fd = -1: over, to be freed after this round of events */
    bool dialled, connecting;
    hk_link *link;    /* dialled: to whom; accepted: from whom, once it has proved itself */
    hki_watch *watch; /* for which it is, instead of a link */
    uint32_t lane;    /* as which it is to serve the link; 0: as its own connection */
    hk_transport *transport;
    uint64_t deadline;
    hki_address address; /* of the other end */
    hki_handshake shake;
} hki_attempt;

/* Bytes of accepted frames that the kernel has not taken. Under transport.owing_lock. */
typedef struct hki_owed {
    unsigned char *bytes; /* NULL: none */
    size_t start, end;
} hki_owed;

/* A connection beside the link's own, for payloads, one way (lanes.c). */
typedef struct hki_lane {
    hk_link *link;
    struct hki_lane *next_offer; /* both threads: stack of lanes that are connected */
    hki_stream stream;           /* fd -1: over */
    hki_address other_end;
    uint32_t number;
    bool outgoing;
    bool ready, short_read; /* incoming: as of a link */
    hki_owed owed;          /* outgoing */
} hki_lane;

/* A link as the control thread sees it. */
typedef struct hki_dial {
    hki_node node;        /* in control.dialling while a connection is wanted and there is none */
    bool established;     /* handed over, or given up */
    hki_attempt *attempt; /* own, in progress */
    hki_attempt *half;    /* accepted from the peer, not confirmed yet */
    uint32_t next;        /* candidate to try */
    uint32_t passes;      /* over all candidates so far */
    uint32_t refused;     /* passes in a row in which every candidate refused */
    bool others;          /* this pass met something else than a refusal */
    uint64_t again;       /* when to try next */
    uint64_t pause;       /* before that, next time */
    uint64_t deadline;    /* when to give up */
    char tried[HKI_TCP_REASON / 2];
} hki_dial;

struct hk_link {
    hk_transport *transport;
    hk_peer peer;
    hki_stream stream;
    hk_link_state state;

    /* arrivals: in[start … end), a part of the stream */
    unsigned char *in;
    size_t start, end, capacity;
    hk_frame head;   /* of the frame whose header has been taken off the stream */
    bool headed;     /* there is one */
    size_t length;   /* of its payload */
    size_t left;     /* of its payload, not yet taken */
    size_t skip;     /* bytes to drop before the next header */
    uint32_t lane;   /* over which the payload comes; 0: it follows the header */
    uint64_t rested; /* when the socket may be asked again for the payload that is being read; 0: now */
    uint32_t bulk;   /* > 0: large payloads come, so do not buffer what can be read straight to its place */
    bool short_read;
    bool ready;                /* the socket may have something: set by events, cleared by an empty read */
    bool hung_up;              /* all that will ever come is in the kernel */
    bool ended;                /* and has been read, or will not be */
    int error;                 /* why it hung up, if known; 0: the peer closed the connection */
    const hki_address *blamed; /* the end of the connection that did; NULL: of the link's own */
    bool news;                 /* the link has ended, and poll has not said so yet */
    uint32_t round;
    hki_node lively; /* in transport.lively while there may be something to take */

    /* departures */
    bool starved;       /* the last send met a full socket */
    bool gated;         /* … or was not tried, since only a part would fit */
    bool tight;         /* the socket was full lately */
    bool departed;      /* our goodbye is said */
    _Atomic bool owing; /* both threads: something is owed, here or on a lane */
    _Atomic bool unsendable;
    hki_owed owed;

    /* lanes, once they are connected */
    hki_lane *from[HKI_TCP_LANES];   /* the peer's, by number */
    size_t from_skip[HKI_TCP_LANES]; /* bytes of payloads on them that nobody wants */
    hki_lane *to[HKI_TCP_LANES];     /* ours, to[0 … to_count); changed under transport.owing_lock */
    uint32_t to_count, turn;
    bool lanes_asked;
    _Atomic bool lanes_wanted; /* both threads */

    /* connecting */
    bool wanted;              /* this rank has tried to send or to receive */
    hki_address *candidates;  /* where the peer may be reached, best first; the control thread reads it */
    uint32_t candidate_count; /* fixed before the link is wanted */
    hki_dial dial;            /* the control thread's */
    hk_link *next_wanted;     /* both threads: stack of links to dial */
    hk_link *next_offer;      /* both threads: stack of links that are connected, or have failed */
    hki_stream offered;       /* the connection; fd = -1: failed, see reason */
    hki_address other_end;    /* of the connection */
    char reason[HKI_TCP_REASON];

    /* watching */
    bool acquaintance;             /* another transport serves this rank: there is no connection for frames */
    char verdict[HKI_TCP_VERDICT]; /* why the rank is lost; written before `condemned` is set */
    _Atomic bool condemned;        /* both threads: so the control thread has heard */
};

typedef struct hki_tcp_counts {
    uint64_t frames_out, bytes_out, sends, partial, frames_in, receives, empty, lanes, laned;
} hki_tcp_counts;

typedef struct hki_tcp_control {
    pthread_t thread;
    bool running;
    int epoll, event;
    _Atomic bool stop;
    _Atomic(hk_link *) wanted; /* both threads */
    _Atomic bool lanes_wanted; /* both threads: some link wants lanes */
    _Atomic bool watching;     /* both threads: it looks after links that owe */
    uint64_t owing_at, owing_pause;
    int owing_rounds;
    hki_node dialling; /* links */
    hki_node attempts;
    hki_node over;        /* attempts to be freed */
    uint32_t strangers;   /* accepted, unproved */
    uint64_t accept_from; /* no descriptors left: accept again from then on */
    hki_refusals refusals;
    _Atomic uint64_t refused; /* both threads */
    hki_watch watches[HKI_TCP_WATCHES];
    _Atomic uint32_t watch_count; /* both threads, for fork */
    bool watching_began;
    uint64_t watch_from;
    uint64_t watch_due;   /* when the watches were to be looked at again; UINT64_MAX: never */
    _Atomic bool reports; /* both threads: some rank's `lost` is HKI_REPORTED */
    hki_loss *losses;     /* as they became known; at most one a rank */
    uint32_t loss_count;
} hki_tcp_control;

struct hk_transport {
    const hk_transport_services *services;
    pid_t pid;
    uint64_t machine;     /* tells whether a peer's loopback is ours */
    bool wide;            /* other machines may be talked to: there is a job key, or it is said not to matter */
    hki_tls_context *tls; /* NULL: off */
    size_t buffer;        /* of sockets */
    char congestion[HKI_TCP_CONGESTION]; /* control of connections; "": reno within this machine, else the system's */
    uint32_t streams;                    /* to a peer, on each interface */
    bool striped;                        /* HOCKET_INTERFACE names interfaces: large messages go over all of them */
    double connect_timeout;
    double heartbeat;                              /* seconds; 0: nobody watches */
    hki_interface interfaces[HKI_INTERFACES_MOST]; /* of this machine, all */
    hki_interface chosen[HKI_INTERFACES_MOST];     /* those that may be used */
    int interface_count, chosen_count;
    int listeners[HKI_TCP_LISTENERS];
    uint32_t listener_count;
    hki_address published[HKI_TCP_ADDRESSES];
    uint32_t published_count, unpublished;

    _Atomic(hk_link *) *links;   /* by rank; set by connect, read by both threads */
    _Atomic unsigned char *lost; /* by rank, both threads: HKI_ALIVE … */
    _Atomic bool condemned;      /* both threads: some link is, which check has not seen yet */
    uint32_t connected;          /* links made by connect */
    uint32_t up;                 /* connections, ever */
    int epoll, event;            /* the caller's: connections (edges), and a bell for offers */
    _Atomic(hk_link *) offers;   /* both threads */
    _Atomic(hki_lane *) lanes;   /* both threads: offered */
    hki_node lively;
    uint32_t round, seen, crowd; /* links polled since the round began, and in the last one */
    bool relieved;               /* a starved link found room, and arm has not said so */
    uint32_t gated;              /* links */
    uint32_t changed;            /* links that ended since the last check */
    uint64_t next_look;          /* at silent connections */
    pthread_mutex_t owing_lock;
    _Atomic uint32_t owing; /* links */
    unsigned char *spare[HKI_TCP_SPARE_BUFFERS];
    uint32_t spares;
    hki_tcp_counts counts;
    hki_tcp_control control;
    hki_node registered; /* among the process's transports, for fork */
};

enum { HKI_ALIVE = 0, HKI_REPORTED = 1, HKI_KNOWN_LOST = 2 };

static inline hk_link *hki_tcp_link(hk_transport *transport, uint32_t rank)
{
    return rank < transport->services->ranks ? atomic_load_explicit(&transport->links[rank], memory_order_acquire)
                                             : NULL;
}

/* ---- tcp.c ---- */

/* This rank needs the link: the control thread is told once. */
void hki_tcp_need(hk_link *link);
/* Takes over connections that the control thread has made, and what it has given up. */
void hki_tcp_adopt(hk_transport *transport);
/* Takes note of what the kernel says about connections. */
void hki_tcp_harvest(hk_transport *transport);
/* Has events of a connection reported: of a link's own (lane NULL) or of a lane. False, with errno. */
bool hki_tcp_listen_to(hk_link *link, const hki_lane *lane, int fd);
/* The connection is known to be gone, or one of its lanes: the link ends when it is looked at next. */
void hki_tcp_hang_up(hk_link *link, int error);
/* Room for a send that found none. */
void hki_tcp_relieve(hk_link *link);
/* Puts the link among those with something to take. */
static inline void hki_tcp_enliven(hk_link *link)
{
    if (hki_list_empty(&link->lively))
        hki_list_append(&link->transport->lively, &link->lively);
}

/* ---- send.c ---- */

hk_transport_result hki_tcp_send(hk_link *link, const hk_frame *frame, const void *payload, size_t bytes);
/* Sends what the link owes. True when nothing is left. Either thread. */
bool hki_tcp_pay(hk_link *link);
/* Sends what links owe, as far as it goes. */
void hki_tcp_pay_all(hk_transport *transport);
/* True when a send that was not tried for want of room would find some now; else the kernel will say so. */
bool hki_tcp_gate_open(hk_link *link);
void hki_tcp_gate(hk_link *link, bool closed);
/* Says goodbye; false when it is owed. */
bool hki_tcp_say_goodbye(hk_link *link);
void hki_tcp_forget_owed(hk_link *link);

/* ---- receive.c ---- */

hk_transport_result hki_tcp_peek(hk_link *link, hk_arrival *arrival);
hk_transport_result hki_tcp_read(hk_link *link, void *destination, size_t bytes, size_t *moved);
void hki_tcp_consume(hk_link *link);
/* Whether peek or read would get further than before; looks into the socket if that may have something. */
bool hki_tcp_pending(hk_link *link);
/* The connection has hung up: takes what has come, and ends the link. */
void hki_tcp_end(hk_link *link);
void hki_tcp_release_buffer(hk_link *link);
/* The link ends here: its peer has left, if that is what was read last, or is lost. error 0: it hung up. */
/* The reader of a large payload lets some of it come before it asks the socket again. */
bool hki_tcp_rests(hk_link *link);
void hki_tcp_finish(hk_link *link, int error);

/* ---- listen.c ---- */

/* Reads settings, chooses interfaces, listens. */
hk_status hki_tcp_listen(hk_transport *transport);
/* What `address` publishes. */
hk_status hki_tcp_publish(const hk_transport *transport, void *address, size_t *bytes);
/* Fills the link's candidates, best first, from what the peer has published. */
hk_status hki_tcp_candidates(hk_link *link, const void *address, size_t bytes);
/* Gives a connection that was made its congestion control. */
void hki_tcp_congestion(const hk_transport *transport, int fd);

/* ---- measure.c ---- */

/* The latency of this host's own stack, and what the interfaces in use carry. */
void hki_tcp_measure(hk_transport *transport, hk_transport_limits *limits);

/* ---- control.c ---- */

hk_status hki_tcp_control_start(hk_transport *transport);
/* Ends the thread. What it was about to hand over is offered, and half-made connections are told goodbye. */
void hki_tcp_control_stop(hk_transport *transport);
/* Wakes the control thread. */
void hki_tcp_control_ring(hk_transport *transport);
/* Hands a connection (fd = -1: the link has failed, link->reason says why) to the caller's thread. */
void hki_tcp_offer(hk_link *link, hki_stream stream);

/* ---- dial.c: the control thread's side of links ---- */

/* A connection is wanted. */
void hki_dial_want(hk_link *link);
/* The attempt's socket has something to say. */
void hki_attempt_event(hki_attempt *attempt);
/* A new connection from somebody. */
void hki_attempt_accept(hk_transport *transport, int fd, const hki_address *from);
void hki_attempt_drop(hki_attempt *attempt);
/* Starts to connect to one of the places where the link's rank may be, as hki_socket_connect. NULL, with errno. */
hki_attempt *hki_attempt_dial(hk_link *link, const hki_address *from, const hki_address *to, uint64_t deadline);
/* Takes the attempt out of everything and returns its connection. */
hki_stream hki_attempt_release(hki_attempt *attempt);
/* Gives up a link that has no connection yet; why becomes its reason. */
void hki_dial_condemn(hk_link *link, const char *why);
/* Looks at deadlines; returns when to look again (UINT64_MAX: never). */
uint64_t hki_dial_times(hk_transport *transport, uint64_t now);

/* ---- lanes.c: the control thread's side ---- */

/* Dials the lanes of links that want some. */
void hki_lanes_dial(hk_transport *transport);
/* Decides about a client that knows the key and wants to send payloads. */
hki_verdict_code hki_lane_admit(hki_attempt *attempt, const hki_parties *parties);
/* The attempt has its connection; has come to nothing. */
void hki_lane_establish(hki_attempt *attempt);
void hki_lane_failed(hki_attempt *attempt, const char *why);

/* ---- lanes.c: the caller's side ---- */

/* Takes over lanes that are connected. */
void hki_lanes_adopt(hk_transport *transport);
/* Something large is to be sent: lanes are wanted. */
void hki_lanes_want(hk_link *link);
/* What the kernel says about a lane. */
void hki_lane_note(hki_lane *lane, uint32_t events);
/* Whether the payload of the link's head can still come; whether more of it may be there than read has given. */
bool hki_lane_lives(hk_link *link);
bool hki_lane_pending(const hk_link *link);
/* As hki_tcp_read, for a head whose payload comes by a lane; and what remains of it is dropped. */
hk_transport_result hki_lane_read(hk_link *link, void *destination, size_t bytes, size_t *moved);
void hki_lane_skip(hk_link *link, size_t bytes);
/* Closes all lanes of a link and frees them. */
void hki_lanes_release(hk_link *link);

/* ---- watch.c ---- */

/* Memory, and when to begin. False: out of memory. */
bool hki_watch_open(hk_transport *transport);
/* Says goodbye and closes. The control thread has ended. */
void hki_watch_close(hk_transport *transport);
/* The control thread's: looks at deadlines and at what has been reported; returns when to look again. */
uint64_t hki_watch_times(hk_transport *transport, uint64_t now);
void hki_watch_event(hk_transport *transport, hki_watch *watch, uint32_t events);
/* Decides about a client that knows the key and wants to watch this rank. */
hki_verdict_code hki_watch_admit(hki_attempt *attempt, const hki_parties *parties);
/* The other end's kernel has answered: its host is there. */
void hki_watch_answered(hki_watch *watch, const hk_transport *transport);
/* The attempt has its connection; has come to nothing. */
void hki_watch_establish(hki_attempt *attempt);
void hki_watch_failed(hki_attempt *attempt, bool refusal);
/* How soon the kernel finds out that the other end's is silent. */
void hki_watch_keep_alive(const hk_transport *transport, int fd);
/* The caller's thread: ends links whose rank is lost, as others have told. */
void hki_watch_judge(hk_transport *transport);
void hki_watch_acquaint(hk_transport *transport, const hk_peer *peer, const void *address, size_t bytes);
bool hki_watch_report(hk_transport *transport, uint32_t rank);

#endif

/*
 * Messages between two ranks of a context: matching, eager and rendezvous, credits, sinks; once for all transports.
 *
 * An endpoint is one context's share of it; a channel is one peer; a transfer is one message on its way. Everything is
 * called by one thread at a time per endpoint. Nothing blocks.
 *
 * Protocols. Up to the eager limit a message travels with its header, within the credit that the receiver gave. A
 * larger one is announced by the sender as soon as it is posted, with a description of its memory, and a receiver that
 * expects it grants it as soon as the receive is posted; whichever arrives first settles it, so that a known schedule
 * pays no extra round trip:
 *
 *   put      the receiver has described its memory in the grant: the sender writes there, then says PUT
 *   pull     the sender's memory can be mapped or copied from: the receiver takes it and says DONE
 *   stream   otherwise the sender, once granted, cuts it into DATA frames that always have a place to go
 *
 * Where only streams can serve, a grant is all that the sender of a known schedule needs: it announces a message only
 * when the grant has not come after a few turns, for then the peer may have called something else. The grants that the
 * start of an operation gives one peer leave in one frame.
 *
 * Point-to-point, where no schedule is known, the beginning of a message follows its announcement at once, as credit
 * for eager bytes allows: while it is on its way the grant comes back.
 *
 * A copying receive grants a put where it can; a sender that cannot do as the grant says streams. So nothing above the
 * eager limit enters the FIFO before the receiver has granted it: its head is always consumable.
 *
 * Credits bound what a receiver may have to keep of messages that nobody has asked for yet: eager bytes by
 * HKI_EAGER_WINDOW a peer, announcements by HKI_ANNOUNCE_WINDOW. Without credit a message waits at the sender.
 */
#ifndef HKI_MSG_MSG_H
#define HKI_MSG_MSG_H

#include <hocket/transport.h>

#include "base/list.h"
#include "dtype/dtype.h"

#include <string.h>
#include <sys/uio.h>

enum hki_frame_kind {
    HKI_FRAME_EAGER,          /* collective message, whole */
    HKI_FRAME_ANNOUNCE,       /* collective message to be fetched: hki_announcement */
    HKI_FRAME_POINT_EAGER,    /* point-to-point, whole */
    HKI_FRAME_POINT_ANNOUNCE, /* point-to-point, to be fetched */
    HKI_FRAME_GRANT,          /* one or several hki_grant: send it as DATA */
    HKI_FRAME_DATA,           /* communicator = receiver's token, operation = number of the piece */
    HKI_FRAME_DONE,           /* communicator = sender's token: pulled */
    HKI_FRAME_CREDIT,         /* communicator = eager bytes returned, operation = announcements returned */
    HKI_FRAME_ABORT,          /* communicator is poisoned: ordinal = status, operation = op number; text */
    HKI_FRAME_QUERY,          /* where are you in operation `operation` of this communicator? */
    HKI_FRAME_ANSWER,         /* hki_answer */
    HKI_FRAME_PUT,            /* communicator = receiver's token: its memory has been written */
    HKI_FRAME_HEAD,           /* piece 0 of a stream, before it is granted; communicator = sender's token */
    HKI_FRAME_KINDS
};

enum {
    HKI_EAGER_WINDOW = 256 * 1024, /* bytes of eager messages that a peer may have under way; guessed */
    HKI_EAGER_OVERHEAD = 192,      /* what each of them costs beside its payload */
    HKI_HEAD_BYTES = 60 * 1024, /* of a message that follow its announcement: one packet over loopback, which takes as
                                 * long to send as the grant to come */
    HKI_HEAD_WINDOW =
        HKI_EAGER_WINDOW / 4 * 3, /* eager bytes under way that heads may lead to: the rest is for others */
    HKI_ANNOUNCE_WINDOW = 1024,   /* announcements that a peer may have under way; guessed */
    HKI_GRANTS = 8,               /* that leave together: they fit in HK_TRANSPORT_WHOLE */
    HKI_PULL_PIECE = 256 * 1024   /* a pull yields to other work after so many bytes; measured best for get */
};

typedef struct hki_announcement {
    uint64_t bytes;
    uint32_t token;     /* of the sender's transfer */
    uint32_t protocols; /* HK_TRANSPORT_MAP | GET, or 0: only as a stream */
    hk_remote remote;
} hki_announcement;

typedef struct hki_grant {
    uint32_t receiver_token;
    uint32_t sender_token; /* 0: unknown, find it by key */
    uint32_t ordinal;      /* of the key; the rest of it is the frame's */
    uint32_t credit;       /* eager bytes returned, as by a CREDIT frame */
    uint64_t length;       /* of the message that the receiver expects, which counts if it is found by key */
    uint64_t bytes;        /* that may be put; 0: only a stream may come */
    uint64_t from;         /* where the stream begins: what is before has been pulled */
    hk_remote remote;      /* where to put */
} hki_grant;

/* Where incoming bytes go: copied to, or reduced into, a list of pieces; elements may be split between two feeds. */
typedef struct hki_sink {
    const struct iovec *destination;
    const struct iovec *local;  /* reducing: the other operand, cut like destination; may be equal to it */
    const hki_reducer *reducer; /* NULL: copy */
    uint32_t pieces, piece;     /* number, and where the cursor is */
    size_t offset;              /* cursor within the piece */
    uint64_t room;              /* bytes that still fit */
    uint32_t divisor;           /* > 1: finish of an average */
    uint32_t carried;           /* bytes of a split element in `carry` */
    bool incoming_left;
    bool streaming; /* result is large and not read soon: non-temporal stores */
    bool failed;    /* no memory for a split element */
    unsigned char small[16];
    unsigned char *carry; /* `small`, or allocated for larger elements */
} hki_sink;

void hki_sink_copy(hki_sink *sink, const struct iovec *destination, uint32_t pieces, uint64_t bytes);
/* Takes bytes; what exceeds the room is dropped. */
void hki_sink_feed(hki_sink *sink, const void *data, size_t bytes);
/* For transports that read: where the next bytes can go directly (copying sinks); 0 if they cannot. */
size_t hki_sink_direct(const hki_sink *sink, void **where);
void hki_sink_advance(hki_sink *sink, size_t bytes); /* after a direct read */
void hki_sink_close(hki_sink *sink);

typedef struct hki_endpoint hki_endpoint;
typedef struct hki_channel hki_channel;
typedef struct hki_matcher hki_matcher;
typedef struct hki_transfer hki_transfer;

typedef enum hki_transfer_state {
    HKI_TRANSFER_IDLE,
    HKI_TRANSFER_QUEUED,    /* send: waits for credit, room or the link */
    HKI_TRANSFER_ANNOUNCED, /* send: waits for GRANT or DONE */
    HKI_TRANSFER_STREAMING, /* send: granted; receive: DATA is coming */
    HKI_TRANSFER_POSTED,    /* receive: nothing has come yet (a GRANT may be out) */
    HKI_TRANSFER_PULLING,   /* receive: taking it from the peer's memory */
    HKI_TRANSFER_PUTTING,   /* send: being written to the peer's memory */
    HKI_TRANSFER_DONE
} hki_transfer_state;

/* Called once when the transfer has ended; the transfer may be freed or used again in it. */
typedef void hki_transfer_done(hki_transfer *transfer, hk_status status);

struct hki_transfer {
    hki_node node;        /* in one list of its channel or matcher */
    hki_channel *channel; /* receive from any source: NULL until matched */
    hk_frame frame;
    hki_transfer_state state;
    bool is_send, point, granted, truncated;
    bool unsaid; /* send: ANNOUNCED, but the announcement has not left: a grant is expected to come first */
    uint32_t protocols;
    uint32_t token, peer_token;
    uint32_t pieces_moved;      /* DATA frames sent or taken */
    uint64_t bytes, moved;      /* length of the message (receive: of the buffer, until matched), and so far */
    const struct iovec *pieces; /* send: source, and its cursor */
    uint32_t piece_count, piece;
    size_t offset;
    struct iovec one, one_local; /* storage for the common single piece */
    hki_sink sink;
    hk_remote remote;    /* the peer's memory: to be pulled or put to */
    hk_remote described; /* own memory, as the peer knows it */
    bool describes;      /* … which is to be withdrawn */
    bool put_granted;    /* receive: the peer may write to it */
    uint64_t put;        /* send: number of the put; 0: the link has not taken it yet */
    const char *mapped;
    hki_matcher *matcher;
    int tag; /* receive: wanted, then got */
    hki_transfer_done *done;
    void *owner;
    uint32_t step;
};

/* What messages need to know of the layers above. */
typedef enum hki_verdict {
    HKI_KEEP,    /* will be asked for later */
    HKI_DROP,    /* for something that is over */
    HKI_MISMATCH /* the operation is known here under another fingerprint */
} hki_verdict;

typedef struct hki_listener {
    void *context;
    /* A collective message that no receive waits for: what about it? */
    hki_verdict (*stray)(void *context, hki_channel *channel, const hk_frame *frame);
    /* A message whose fingerprint differs from the operation's here. */
    void (*mismatch)(void *context, hki_channel *channel, const hk_frame *frame);
    /* ABORT, QUERY, ANSWER frames. */
    void (*control)(void *context, hki_channel *channel, const hk_frame *frame, const void *data, size_t bytes);
    /* The peer is gone: all its transfers have been failed already. */
    void (*lost)(void *context, hki_channel *channel, hk_status status, const char *reason);
} hki_listener;

/* A record kept of a message or grant that came before anybody asked. */
typedef struct hki_unexpected {
    hki_node node; /* in its channel (collective) or matcher (point-to-point) */
    hki_channel *channel;
    hk_frame frame;
    uint64_t bytes;
    bool complete;                 /* all its bytes are here (announcements: always) */
    bool repaid;                   /* the credit that it took went back already */
    hki_announcement announcement; /* of a grant: token of the receiver, bytes and place of a put */
    hki_transfer *own;             /* a rank's message to itself, not copied */
    unsigned char *head;           /* HKI_HEAD_BYTES that followed the announcement, in the sink; NULL: none */
    hki_sink sink;                 /* while it is being read */
    struct iovec piece;
    unsigned char data[];
} hki_unexpected;

/* A small frame that found no room and goes out first when there is some. */
typedef struct hki_control {
    hki_node node;
    hk_frame frame;
    size_t bytes;
    unsigned char data[];
} hki_control;

struct hki_channel {
    hki_endpoint *endpoint;
    const hk_transport_ops *ops;
    hk_link *link;
    hk_transport_limits limits;
    size_t eager_limit;
    uint32_t rank; /* in the context's world */
    bool self, lost, peer_pulls, polled;
    bool unsaid;           /* some announcement has not left */
    uint32_t unsaid_turns; /* of progress since then */
    bool departed;         /* lost because the peer left in order: harms only what still needs it */
    bool awaited;          /* within one look at all requests: somebody waits for a message of this peer */
    uint32_t interest;     /* receives and answers awaited: poll it while > 0 */
    hki_node poll_node;
    hki_node work_node;  /* in endpoint.working while something waits to be sent */
    hki_node controls;   /* hki_control */
    uint64_t full_since; /* while there are controls: since when there has been no room for the first of them */
    hki_node queued;     /* sends, in order */
    hki_node announced;  /* sends */
    hki_node streams;    /* sends */
    hki_node putting;    /* sends */
    hki_node posted;     /* collective receives */
    hki_node receiving;  /* receives that stream or pull */
    hki_node unexpected; /* hki_unexpected, collective messages and early grants */
    uint64_t eager_out, eager_owed;
    uint64_t credit_step; /* so much is owed when credit goes back */
    uint32_t announce_out, announce_owed;
    uint64_t puts;                      /* that the link has taken */
    hki_transfer *reading;              /* the head frame is being read into this transfer … */
    hki_unexpected *reading_unexpected; /* … or this record … */
    bool skipping;                      /* … or is dropped */
};

/* Point-to-point matching of one communicator. */
struct hki_matcher {
    hki_node node; /* in endpoint.matchers */
    hki_endpoint *endpoint;
    uint32_t communicator;
    hki_node posted;     /* receives, in order of posting */
    hki_node unexpected; /* hki_unexpected, in order of arrival */
    uint32_t any_source; /* receives posted without a source: poll everybody */
};

/* Grants that leave in one frame. */
typedef struct hki_grant_batch {
    hki_channel *channel;
    hk_frame frame;
    uint32_t count;
    hki_grant grant[HKI_GRANTS];
} hki_grant_batch;

struct hki_endpoint {
    hki_channel *channels; /* one a rank of the world */
    uint32_t ranks, self;
    hki_listener listener;
    hki_node polled;  /* channels with interest */
    hki_node working; /* channels with something to send */
    hki_node matchers;
    hki_transfer **tokens;
    uint32_t token_count, token_free;
    uint16_t *token_generation;
    uint32_t *token_next;
    uint32_t pulling;    /* transfers in state PULLING */
    uint32_t any_source; /* receives that any rank may answer: poll everybody */
    const hk_transport_ops *transports[4];
    hk_transport *instances[4];
    uint32_t transport_count;
    uint32_t turns;        /* of progress, to look at doorbells now and then */
    unsigned char *bounce; /* HKI_PULL_PIECE bytes */
    uint64_t unexpected_bytes, unexpected_peak;
    uint32_t freed_ids[1024]; /* communicators that are gone: their messages are dropped */
    uint32_t freed_count;
    hki_node spare; /* transfers for reuse */
    size_t eager_setting;
    bool holding; /* early grants wait in `held` */
    hki_grant_batch held;
    bool news_spreads; /* some transport tells all ranks which are lost */
};

/* Endpoint. connect gives channel `rank` its transport and link (made by the caller). */
hk_status hki_endpoint_open(hki_endpoint *endpoint, uint32_t ranks, uint32_t self, const hki_listener *listener);
/* Also of a zeroed one that was never opened. */
void hki_endpoint_close(hki_endpoint *endpoint);
/* In a child after fork: the links are the parent's, nothing more is sent or read. */
void hki_endpoint_disown(hki_endpoint *endpoint);
void hki_endpoint_add_transport(hki_endpoint *endpoint, const hk_transport_ops *ops, hk_transport *transport);
void hki_channel_attach(hki_channel *channel, const hk_transport_ops *ops, hk_link *link,
                        const hk_transport_limits *limits);

/* Moves everything that can move. Returns true if anything did. */
bool hki_msg_progress(hki_endpoint *endpoint);
/* Takes what lies at the head of one channel, up to a bound; true if anything was there. */
bool hki_channel_drain(hki_channel *channel);
/* Looks for dead peers; fails what needs them. */
void hki_msg_check(hki_endpoint *endpoint);
/* Between these, early grants to one peer are gathered; release sends them. What takes long (a step of computing, a
 * large send) is to be begun after release only. */
static inline void hki_msg_hold(hki_endpoint *endpoint)
{
    endpoint->holding = true;
}
void hki_msg_release(hki_endpoint *endpoint);
/* This rank is about to sleep: what it has not announced yet, in the hope of a grant, is announced now. */
void hki_msg_announce_all(hki_endpoint *endpoint);
/* Sends a frame of the control kinds; never fails for want of room. */
hk_status hki_channel_control(hki_channel *channel, const hk_frame *frame, const void *data, size_t bytes);
/* This rank waits for a message of the peer, and has waited a while: what it keeps of other messages must not use up
 * the credit that the awaited one needs, so that credit goes back now. Only then does memory for kept messages grow
 * beyond the credits. */
void hki_channel_relieve(hki_channel *channel);
/* True while frames that this rank owes wait for room with somebody who still takes some: not with peers that have
 * taken nothing for a second before `now`. Those are stopped, or gone without a trace. */
bool hki_msg_busy(const hki_endpoint *endpoint, uint64_t now);

/* Transfers. New ones come from a pool; release gives them back. */
hki_transfer *hki_transfer_new(hki_endpoint *endpoint);
void hki_transfer_release(hki_endpoint *endpoint, hki_transfer *transfer);
/* Collective: frame.communicator, operation, fingerprint, ordinal, pieces/sink, bytes, done set by the caller. `done`
 * may be called before these return. */
void hki_msg_send(hki_channel *channel, hki_transfer *transfer);
void hki_msg_recv(hki_channel *channel, hki_transfer *transfer);
/* Detaches a transfer that has not ended: its buffers are not touched any more when this returns. `done` is not
 * called. */
void hki_msg_cancel(hki_endpoint *endpoint, hki_transfer *transfer);

/* Point-to-point. Tags below HK_ANY_TAG are the library's own: HK_ANY_TAG does not take them. */
void hki_matcher_open(hki_endpoint *endpoint, hki_matcher *matcher, uint32_t communicator);
void hki_matcher_close(hki_matcher *matcher);
void hki_point_send(hki_matcher *matcher, hki_channel *channel, hki_transfer *transfer);
void hki_point_recv(hki_matcher *matcher, hki_channel *channel, hki_transfer *transfer);
/* The first kept message that fits, or NULL. */
const hki_unexpected *hki_point_probe(hki_matcher *matcher, const hki_channel *channel, int tag);

/* Forgets what was kept for a communicator, and drops what still comes for it. */
void hki_msg_forget(hki_endpoint *endpoint, uint32_t communicator);
/* True for the last 1,024 communicators that were forgotten. */
bool hki_endpoint_freed(const hki_endpoint *endpoint, uint32_t communicator);

/* --- the fast way for small messages --------------------------------------------------------------------------------
 */

/* Returns credit for an eager message or an announcement that was taken. */
void hki_channel_owe(hki_channel *channel, uint64_t eager_bytes, uint32_t announcements);
const void *hki_msg_take_slowly(hki_channel *channel, const hk_frame *frame, size_t bytes, hki_unexpected **kept);
void hki_msg_free_kept(hki_unexpected *kept);

/* Sends an eager message: true if it is sent and its buffer free; else nothing has happened. A lost channel has no
 * credit left. */
static inline bool hki_msg_send_now(hki_channel *channel, const hk_frame *frame, const void *data, size_t bytes)
{
    uint64_t out = channel->eager_out + bytes + HKI_EAGER_OVERHEAD;
    if (out > HKI_EAGER_WINDOW || !hki_list_empty(&channel->work_node) ||
        channel->ops->send(channel->link, frame, data, bytes) != HK_TRANSPORT_OK)
        return false;
    channel->eager_out = out;
    return true;
}

/* The payload of the expected eager message where it lies, if it is at the head of the FIFO or has been kept; then
 * hki_msg_take_end. NULL if it has not come (other frames at the head are dealt with). A length other than `bytes` is a
 * mismatch. */
static inline const void *hki_msg_take(hki_channel *channel, const hk_frame *frame, size_t bytes, hki_unexpected **kept)
{
    hk_arrival arrival;
    *kept = NULL;
    if (hki_list_empty(&channel->unexpected)) {
        hk_transport_result result = channel->ops->peek(channel->link, &arrival);
        if (result == HK_TRANSPORT_AGAIN)
            return NULL;
        if (result == HK_TRANSPORT_OK && memcmp(&arrival.frame, frame, sizeof *frame) == 0 && arrival.bytes == bytes &&
            arrival.data)
            return arrival.data;
    }
    return hki_msg_take_slowly(channel, frame, bytes, kept);
}

static inline void hki_msg_take_end(hki_channel *channel, size_t bytes, hki_unexpected *kept)
{
    if (kept) {
        hki_msg_free_kept(kept);
        return;
    }
    channel->ops->consume(channel->link);
    channel->eager_owed += bytes + HKI_EAGER_OVERHEAD;
    if (channel->eager_owed >= channel->credit_step)
        hki_channel_owe(channel, 0, 0);
}

#endif

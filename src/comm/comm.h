/* Communicators and requests, as the files of this layer see them. */
#ifndef HKI_COMM_COMM_H
#define HKI_COMM_COMM_H

#include "comm/context.h"
#include "cost/select.h"

enum { HKI_RECENT_CALLS = 64, HKI_COMM_MAGIC = 0x686b636f, HKI_REQUEST_MAGIC = 0x686b7271, HKI_REASON_BYTES = 512 };

/* What a call has in common on all ranks, in one piece: repeated calls are recognised by it. */
typedef struct hki_signature {
    uint64_t count; /* elements: of the vector, or of each rank's block; v: of this rank's own block */
    hk_type type;
    hk_op op;
    int32_t root;
    uint32_t collective;
} hki_signature;

/* One collective call, as its entry point was given it. */
typedef struct hki_arguments {
    hki_signature is;
    const void *send;
    void *recv;
    const uint64_t *counts[2], *displacements[2]; /* of the send and the receive side */
    uint32_t within; /* HKI_COLL_DUP or _SPLIT: as a part of it, and known by its name; 0: the program's own call */
} hki_arguments;

/* In a signature: what makes communicators, called by all ranks in turn with the collectives. */
#define HKI_COLL_DUP ((uint32_t)HKI_COLL_COUNT)
#define HKI_COLL_SPLIT ((uint32_t)HKI_COLL_COUNT + 1)

/* What is remembered of calls, to recognise and describe them: operations first … last were all this call. */
typedef struct hki_call_record {
    hki_signature is;
    uint64_t first, last;
    uint32_t fingerprint;
    bool used;
} hki_call_record;

/* The last plan: the common repeated call costs one comparison. */
typedef struct hki_memo {
    hki_signature is;
    uint32_t in_place, fingerprint, divisor;
    uint64_t bytes[2];    /* of the send and the receive side */
    hki_binding *binding; /* NULL: empty */
    const hki_algorithm *algorithm;
    hki_reducer reducer;
    hki_task task; /* ready to run along the line but for base and position, when `quick` */
    hki_line_step *line;
    uint32_t record; /* of its calls, in hk_comm.recent, as long as that is the newest */
    bool separate;   /* in_place is HKI_SEPARATE */
    bool quick;
} hki_memo;

typedef struct hki_group_count {
    uint64_t list; /* hash of ranks and tag */
    uint64_t made;
} hki_group_count;

struct hk_comm {
    uint32_t magic;
    hki_context *context;
    hki_node node; /* in context.comms */
    uint64_t id;
    uint32_t wire; /* what messages call it: see wires.h */
    uint32_t rank, size;
    uint32_t *world;      /* rank here → rank in the context's world; NULL = identity */
    hki_chooser *chooser; /* shared like the cluster */
    hki_cluster *cluster; /* where the members are: the context's, or one that communicators share (see comm.c) */
    uint64_t operations;
    double timeout;
    hk_status poisoned;
    hk_status pending; /* a failure seen among the messages, to be dealt with at the end of the turn of progress */
    bool asked;        /* a mismatch was seen here; the peer's own description of its call is awaited */
    bool quiet;        /* failures of single messages do not poison it (agreement among survivors) */
    uint32_t asked_rank;
    uint64_t asked_at;
    char reason[HKI_REASON_BYTES];
    hki_memo memo;
    hki_matcher matcher;
    hki_call_record recent[HKI_RECENT_CALLS]; /* a ring; `newest` is its last */
    uint32_t newest;
    hki_group_count *groups; /* how often a list of ranks was made into a communicator, so that ids differ */
    uint32_t group_count;
    hk_comm *council; /* in which the members vote on who is alive; NULL until the first hk_comm_shrink */
    uint32_t shrinks;
    const hki_algorithm *last_algorithm;
    uint32_t last_segments;
};

typedef enum hki_request_kind { HKI_REQUEST_COLLECTIVE, HKI_REQUEST_SEND, HKI_REQUEST_RECV } hki_request_kind;

struct hk_request {
    uint32_t magic;
    hki_request_kind kind;
    hki_node node;   /* in context.requests while in flight */
    hki_node bucket; /* collective: in context.operations while in flight */
    hk_comm *comm;
    hki_task task; /* of collectives; `ended` and `status` serve all kinds */
    hki_transfer *transfer;
    hki_call_record record;
    uint64_t operation;
    hki_binding *binding;
    hki_reducer reducer;
    void *scratch, *scaled;
    hk_message message;
    int peer, tag;
    double timeout;              /* seconds; negative: the communicator's */
    uint64_t started;            /* when the first patient look saw it; 0: not yet */
    bool reported;               /* it was late, and that was logged */
    bool compared;               /* with the calls of those that it waits for */
    struct hki_inquiry *inquiry; /* under way: who has not arrived? */
};

/* Entry. Each public function begins with one of these: NULL, freed, forked and poisoned communicators are refused. */
hk_status hki_comm_enter_slowly(hk_comm *comm);
static inline hk_status hki_comm_enter(hk_comm *comm)
{
    if (__builtin_expect(comm && comm->magic == HKI_COMM_MAGIC && hki_context_here(comm->context) &&
                             !comm->context->locking && comm->poisoned == HK_OK,
                         1))
        return HK_OK;
    return hki_comm_enter_slowly(comm);
}
static inline void hki_comm_leave(hk_comm *comm)
{
    hki_context_leave(comm->context);
}

static inline uint32_t hki_comm_world(const hk_comm *comm, uint32_t rank)
{
    return comm->world ? comm->world[rank] : rank;
}
/* Rank in comm of a rank of the world; -1 if it is not a member. */
int hki_comm_rank_of(const hk_comm *comm, uint32_t world);
/* "rank 3 on host h (pid 12)". */
void hki_comm_describe_rank(const hk_comm *comm, uint32_t rank, char *text, size_t bytes);
static inline hki_channel *hki_comm_channel(const hk_comm *comm, uint32_t rank)
{
    return &comm->context->endpoint.channels[hki_comm_world(comm, rank)];
}

/* Both equal on all members; the wire identifier is no other communicator's at any of them. */
typedef struct hki_comm_name {
    uint64_t id;
    uint32_t wire;
} hki_comm_name;

/* Makes a communicator object within a context. world is owned by it afterwards. */
hk_status hki_comm_new(hki_context *context, hki_comm_name name, uint32_t rank, uint32_t size, uint32_t *world,
                       hk_comm **comm);

/* Finishes what the communicator has in flight and frees it; the context stays. True: it has no communicator any more.
 */
bool hki_comm_end(hk_comm *comm);

/* Collectives (collective.c): blocking and not. */
hk_status hki_collective_run(hk_comm *comm, const hki_arguments *arguments);
hk_status hki_collective_begin(hk_comm *comm, const hki_arguments *arguments, hk_request **request);
/* A collective that is part of another call (arguments.within), which bears that one's name in messages and errors. */
hk_status hki_collective_within(hk_comm *comm, const hki_arguments *arguments);

void hki_memo_clear(hki_memo *memo);

/* Arguments (arguments.c): everything that can be wrong with a call is found here, before anything changes. */
typedef struct hki_prepared {
    hki_call call;
    hki_sizes sizes;
    void *base[2];
    uint64_t bytes;       /* what the choice of an algorithm may depend on; 0: on nothing but P */
    uint64_t input_bytes; /* of this rank's INPUT */
    bool even;            /* equal counts: the binding can serve the next call */
} hki_prepared;
hk_status hki_arguments_check(const hk_comm *comm, const hki_arguments *arguments, hki_reducer *reducer,
                              hki_prepared *prepared);
/* The in-place form of a call, and where INPUT and OUTPUT begin; HK_ERR_BUFFER when they overlap otherwise. */
hk_status hki_arguments_buffers(const hk_comm *comm, const hki_arguments *arguments, uint32_t element_bytes,
                                uint32_t *in_place, void *base[2]);
/* Bytes from a side's begin to the end of what is used of it: 0 = send, 1 = receive. */
hk_status hki_arguments_extent(const hk_comm *comm, const hki_arguments *arguments, int side, uint32_t element_bytes,
                               uint64_t *bytes);
uint32_t hki_fingerprint(const hki_arguments *arguments, const hk_comm *comm, const hki_algorithm *algorithm,
                         uint32_t segments, const hki_reducer *reducer);
/* "allreduce of 4 float32, sum": for messages. */
void hki_describe_call(const hki_call_record *record, char *text, size_t bytes);
/* Notes a call that is about to begin, for mismatches and messages. A run of equal calls is one record. */
void hki_record_call(hk_comm *comm, const hki_signature *is, uint32_t fingerprint);

/* Requests (request.c). */
hk_request *hki_request_new(hk_comm *comm, hki_request_kind kind); /* NULL: out of memory, recorded */
/* Takes what a finished operation held, and gives its final status: the communicator's failure if there is one. */
hk_status hki_request_finish(hk_request *request);
void hki_request_wait(hk_request *request);
/* Lets a collective be found by what its messages bear: communicator and operation of its task's frame. */
void hki_request_index(hk_request *request);
/* A collective that has not ended, by its communicator's wire identifier; NULL: there is none. */
hk_request *hki_request_find(hki_context *context, uint32_t wire, uint32_t operation);
/* "send to", "receive from": what a message was for, in texts that go on with the other rank. */
const char *hki_direction_text(const hk_request *request);

/* Point-to-point (point.c): requests that have begun; NULL: no memory. Tags from here down are hk_comm_create_group's
 * own, which HK_ANY_TAG does not take. */
enum { HKI_TAG_GROUP = HK_ANY_TAG - 1 };
hk_request *hki_point_begin_send(hk_comm *comm, const void *buffer, uint64_t bytes, int destination, int tag);
hk_request *hki_point_begin_recv(hk_comm *comm, void *buffer, uint64_t bytes, int source, int tag);
/* Waits for one of them and frees it. message is NULL-able. HK_ERR_NO_MEMORY if request is NULL. */
hk_status hki_point_finish(hk_request *request, hk_message *message);

/* Failure (failure.c), and who has not arrived (inquiry.c). */
/* Poisons comm and tells its members; cancels its requests. The text becomes comm's and the thread's last error. */
hk_status hki_comm_fail(hk_comm *comm, hk_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
extern const hki_listener hki_failure_listener; /* context to be filled in */
void hki_failure_slow(void *context, uint64_t now);
void hki_failure_attend(void *context);
/* Fails a communicator on which a mismatch was seen (asked) without waiting longer for the other's description. */
hk_status hki_failure_settle(hk_comm *comm);
/* Ends what comm has in flight; its buffers are quiet when this returns. */
void hki_comm_cancel(hk_comm *comm, hk_status status);
hk_comm *hki_comm_find(hki_context *context, uint32_t wire);
/* True if this rank has made the frame's operation, lately, and it was another call. */
bool hki_call_differs(const hk_comm *comm, const hk_frame *frame);

/* Asks the ranks that a late operation waits for where they are, and those whom they wait for. */
hk_status hki_inquiry_begin(hk_request *request, uint64_t now);
/* Has the ranks that an operation waits for look whether they made the same call: ranks that differ may wait for each
 * other without a message that would show it (two roots of one reduction). */
void hki_inquiry_compare(hk_request *request);
/* True when nothing more is to be expected: the text then says who has not arrived. */
bool hki_inquiry_ended(const hk_request *request, uint64_t now);
void hki_inquiry_report(const hk_request *request, char *text, size_t bytes);
void hki_inquiry_free(hk_request *request);
void hki_inquiry_on_query(hki_context *context, hki_channel *channel, const hk_frame *frame);
void hki_inquiry_on_answer(hki_context *context, hki_channel *channel, const hk_frame *frame, const void *data,
                           size_t bytes);

#endif

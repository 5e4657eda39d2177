/*
 * Hocket: collective communication for programs that move arrays between processes.
 *
 * This header is the whole API for a program that links the library. Conventions:
 *
 *  - Every function that can fail returns an hk_status; outputs are set on success only. The text of the most
 *    recent failure is in hk_last_error() (this thread) and hk_comm_last_error() (this communicator).
 *  - Arguments stand in MPI's order: send, receive, count, type, operator, root, communicator.
 *  - Counts are elements, 64 bits. Sizes are bytes, 64 bits. Times are seconds (double) unless a name says otherwise.
 *  - Collectives are called by every rank of a communicator, in the same order, with equal type, operator, root and
 *    (unless the name ends in v) equal count. A rank that calls something else fails with HK_ERR_MISMATCH everywhere.
 *  - A send buffer may be read until the call returns (or the request completes); INPUT is never written.
 *  - One thread at a time may use a context (a communicator and all that was split or dup'ed from it), unless
 *    hk_options.threads asks for HK_THREADS_MULTIPLE. Different contexts are independent.
 *  - Errors that any collective or message may return besides those listed with it: HK_ERR_TIMEOUT (names the ranks
 *    that did not arrive), HK_ERR_PEER_LOST, HK_ERR_MISMATCH, HK_ERR_ABORTED, HK_ERR_NO_MEMORY, HK_ERR_TRANSPORT.
 *    After one of these the communicator is poisoned: later calls on it return the same error, until hk_comm_shrink
 *    gives the survivors a new one. An argument error changes nothing and poisons nothing.
 */
#ifndef HOCKET_HOCKET_H
#define HOCKET_HOCKET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HK_API __attribute__((visibility("default")))
#else
#define HK_API
#endif

#define HK_VERSION_MAJOR 0
#define HK_VERSION_MINOR 1
#define HK_VERSION_PATCH 0

/* ---------------------------------------------------------------------------------------------------------------
 * Status
 * ------------------------------------------------------------------------------------------------------------- */

/* The one list of status codes: X(name, value, text). */
#define HK_STATUS_LIST(X)                                                                                              \
    X(HK_OK, 0, "success")                                                                                             \
    X(HK_ERR_ARGUMENT, 1, "invalid argument")                                                                          \
    X(HK_ERR_TYPE, 2, "unknown data type")                                                                             \
    X(HK_ERR_OPERATOR, 3, "unknown operator, or operator does not fit the type")                                       \
    X(HK_ERR_ROOT, 4, "root or rank out of range")                                                                     \
    X(HK_ERR_BUFFER, 5, "buffer is NULL, overlaps another, or is in device memory")                                    \
    X(HK_ERR_COUNT, 6, "count or displacement is negative or too large")                                               \
    X(HK_ERR_COMM, 7, "not a live communicator")                                                                       \
    X(HK_ERR_REQUEST, 8, "not a live request")                                                                         \
    X(HK_ERR_UNSUPPORTED, 9, "not supported")                                                                          \
    X(HK_ERR_NO_MEMORY, 10, "out of memory")                                                                           \
    X(HK_ERR_SYSTEM, 11, "system call failed")                                                                         \
    X(HK_ERR_SETTING, 12, "invalid setting")                                                                           \
    X(HK_ERR_BOOTSTRAP, 13, "ranks could not find each other")                                                         \
    X(HK_ERR_REFUSED, 14, "refused: key, user or identity did not match")                                              \
    X(HK_ERR_TRANSPORT, 15, "no transport reaches the peer, or it failed")                                             \
    X(HK_ERR_TIMEOUT, 16, "timed out waiting for ranks")                                                               \
    X(HK_ERR_PEER_LOST, 17, "a rank died or disconnected")                                                             \
    X(HK_ERR_MISMATCH, 18, "ranks made different calls")                                                               \
    X(HK_ERR_ABORTED, 19, "communicator was aborted")                                                                  \
    X(HK_ERR_TRUNCATED, 20, "message is longer than the receive buffer")                                               \
    X(HK_ERR_FORKED, 21, "context belongs to the parent process")                                                      \
    X(HK_ERR_INTERNAL, 22, "internal error")

typedef enum hk_status {
#define HK_X(name, value, text) name = value,
    HK_STATUS_LIST(HK_X)
#undef HK_X
} hk_status;

/* The fixed text of a status, never NULL. */
HK_API const char *hk_status_string(hk_status status);

/* The symbolic name of a status ("HK_ERR_TIMEOUT"), never NULL. */
HK_API const char *hk_status_name(hk_status status);

/* What went wrong in this thread's most recent failed call: rank, host, operation, argument. Never NULL; "" if nothing
 * failed yet. Valid until the thread's next failing call. */
HK_API const char *hk_last_error(void);

/* Library version as "major.minor.patch"; each pointer may be NULL. */
HK_API const char *hk_version(int *major, int *minor, int *patch);

/* ---------------------------------------------------------------------------------------------------------------
 * Types and operators
 * ------------------------------------------------------------------------------------------------------------- */

/* The one list of element types: X(NAME, name, C storage type, bytes). float16 and bfloat16 are stored as uint16_t. */
#define HK_TYPE_LIST(X)                                                                                                \
    X(INT8, int8, int8_t, 1)                                                                                           \
    X(UINT8, uint8, uint8_t, 1)                                                                                        \
    X(INT16, int16, int16_t, 2)                                                                                        \
    X(UINT16, uint16, uint16_t, 2)                                                                                     \
    X(INT32, int32, int32_t, 4)                                                                                        \
    X(UINT32, uint32, uint32_t, 4)                                                                                     \
    X(INT64, int64, int64_t, 8)                                                                                        \
    X(UINT64, uint64, uint64_t, 8)                                                                                     \
    X(FLOAT16, float16, uint16_t, 2)                                                                                   \
    X(BFLOAT16, bfloat16, uint16_t, 2)                                                                                 \
    X(FLOAT32, float32, float, 4)                                                                                      \
    X(FLOAT64, float64, double, 8)

/* An element type: one of HK_INT8 … HK_FLOAT64, or HK_OPAQUE(bytes). */
typedef uint32_t hk_type;
enum {
#define HK_X(NAME, name, storage, bytes) HK_##NAME,
    HK_TYPE_LIST(HK_X)
#undef HK_X
        HK_TYPE_COUNT
};
#define HK_BYTE HK_UINT8

/* An element of fixed size (1 … 2^24 bytes) that Hocket moves but cannot reduce, except with a user-defined operator.
 */
#define HK_OPAQUE(bytes) ((hk_type)(UINT32_C(0x80000000) | (uint32_t)(bytes)))

/* Bytes of one element; 0 for an unknown type. */
HK_API size_t hk_type_size(hk_type type);
/* "float32", "opaque"; "unknown" for an unknown type. */
HK_API const char *hk_type_name(hk_type type);

/* The one list of operators: X(NAME, name). Bitwise operators take integers only; logical ones take integers and
 * return 0 or 1; average divides by the number of ranks (integers truncate towards zero) and does not serve scans.
 * Integer sums and products wrap, also those of an average. Min and max propagate NaN as one canonical NaN, and
 * min(-0, +0) = -0. A single rank's contribution is the result as it is: no operator is applied. */
#define HK_OP_LIST(X)                                                                                                  \
    X(SUM, sum)                                                                                                        \
    X(PROD, prod)                                                                                                      \
    X(MIN, min)                                                                                                        \
    X(MAX, max)                                                                                                        \
    X(AVG, avg)                                                                                                        \
    X(BAND, band)                                                                                                      \
    X(BOR, bor)                                                                                                        \
    X(BXOR, bxor)                                                                                                      \
    X(LAND, land)                                                                                                      \
    X(LOR, lor)                                                                                                        \
    X(LXOR, lxor)

/* A reduction operator: one of the list, or made by hk_op_create / hk_op_create_premul_sum. */
typedef uint32_t hk_op;
enum {
#define HK_X(NAME, name) HK_##NAME,
    HK_OP_LIST(HK_X)
#undef HK_X
        HK_OP_COUNT
};

/* "sum", "user", "premul_sum"; "unknown" for an unknown operator. */
HK_API const char *hk_op_name(hk_op op);

/* out[i] = left[i] op right[i] for count elements; out may equal left or right, never overlaps them otherwise. */
typedef void hk_op_function(const void *left, const void *right, void *out, uint64_t count, hk_type type,
                            void *context);

/* Makes an operator from a function that must be associative. Non-commutative operators (commutative = 0) are always
 * applied in rank order. Every rank makes the same operator in the same order: the n-th made by one rank is taken to
 * be the n-th made by another. Errors: HK_ERR_ARGUMENT (NULL), HK_ERR_NO_MEMORY (1,024 live operators). */
HK_API hk_status hk_op_create(hk_op_function *function, int commutative, void *context, hk_op *op);

/* Makes "sum of scalar × input": each rank's own scalar multiplies its input before the sum. scalar points to one
 * element of a floating-point or integer type; the operator serves that type only. */
HK_API hk_status hk_op_create_premul_sum(const void *scalar, hk_type type, hk_op *op);

/* Frees a made operator; requests in flight keep it alive. HK_ERR_OPERATOR for a predefined or unknown one. */
HK_API hk_status hk_op_free(hk_op op);

/* ---------------------------------------------------------------------------------------------------------------
 * Contexts and communicators
 * ------------------------------------------------------------------------------------------------------------- */

typedef struct hk_comm hk_comm;
typedef struct hk_request hk_request;
struct hk_store; /* <hocket/store.h> */

typedef enum hk_log_level { HK_LOG_NONE, HK_LOG_ERROR, HK_LOG_WARN, HK_LOG_INFO, HK_LOG_DEBUG } hk_log_level;
/* Called with one line without newline, from any thread of the library; must not call Hocket. */
typedef void hk_log_function(hk_log_level level, const char *line, void *context);
/* Sends log lines to a function of the caller's; NULL restores the default (standard error, and only at or below
 * HOCKET_LOG: none, error, warn, info, debug; default none: nothing is printed unless asked). Process-wide. */
HK_API void hk_set_log(hk_log_function *function, hk_log_level level, void *context);

typedef enum hk_threads {
    HK_THREADS_SERIALIZED, /* the caller lets one thread at a time into a context */
    HK_THREADS_MULTIPLE    /* Hocket locks */
} hk_threads;

/* Where the ranks of one new context meet, and the key by which they know each other: bytes for the program to pass on
 * by means of its own, in secret. The process that makes it must be one of the ranks; it serves the others while it
 * joins. Each id serves one hk_comm_create on each rank. */
typedef struct hk_unique_id {
    unsigned char bytes[256];
} hk_unique_id;
/* Listens at the interfaces that HOCKET_INTERFACE chooses. Errors: HK_ERR_SETTING, HK_ERR_TRANSPORT, HK_ERR_SYSTEM. */
HK_API hk_status hk_unique_id_create(hk_unique_id *id);
/* Only for an id with which the process that made it does not join after all. */
HK_API hk_status hk_unique_id_free(const hk_unique_id *id);

/* Options of a new context. Initialise with HK_OPTIONS_INIT; fields added later keep their defaults. */
typedef struct hk_options {
    size_t size;                  /* sizeof(hk_options), set by the initialiser */
    int rank;                     /* 0 … ranks-1; -1 = take rank, ranks and place from the environment */
    int ranks;                    /* number of ranks */
    const struct hk_store *store; /* where ranks find each other; NULL = from the environment */
    const char *name;             /* name of the job within the store; NULL = "hocket" */
    const void *key;              /* job key: proves membership; NULL = from the environment */
    size_t key_bytes;             /* 16 … 64 */
    double timeout;               /* seconds per operation, 0 = never, negative = HOCKET_TIMEOUT (30 min) */
    hk_threads threads;
    const hk_unique_id *id; /* where ranks find each other, instead of a store; with rank and ranks */
} hk_options;
#define HK_OPTIONS_INIT                                                                                                \
    {                                                                                                                  \
        .size = sizeof(hk_options), .rank = -1, .ranks = 0, .store = NULL, .name = NULL, .key = NULL, .key_bytes = 0,  \
        .timeout = -1.0, .threads = HK_THREADS_SERIALIZED, .id = NULL                                                  \
    }

/* Joins the job that the environment describes (a launcher's), as a new context; a program started without a launcher
 * becomes rank 0 of 1. Collective over all ranks of the job. Errors: HK_ERR_BOOTSTRAP (names the missing ranks),
 * HK_ERR_SETTING, HK_ERR_REFUSED. */
HK_API hk_status hk_init(hk_comm **comm);

/* The same with explicit options: what a framework embeds. May be called many times; each makes its own context. */
HK_API hk_status hk_comm_create(const hk_options *options, hk_comm **comm);

/* This process's rank in comm (0 … size-1), and the number of ranks; -1 if comm is NULL. */
HK_API int hk_comm_rank(const hk_comm *comm);
HK_API int hk_comm_size(const hk_comm *comm);
/* Rank of this process in the communicator that its context was made with. */
HK_API int hk_comm_world_rank(const hk_comm *comm);
/* Why comm last failed; "" if it did not. Valid until the next failure on comm. */
HK_API const char *hk_comm_last_error(const hk_comm *comm);

/* Cuts comm by colour: ranks of equal colour (≥ 0) form a new communicator, ordered by (key, rank). A negative colour
 * (HK_UNDEFINED) takes part but gets NULL. Collective over comm: one small exchange among its ranks. */
#define HK_UNDEFINED (-1)
HK_API hk_status hk_comm_split(hk_comm *comm, int color, int key, hk_comm **result);

/* A communicator of the listed ranks of comm, in the listed order. Called by the listed ranks only, each with the same
 * list and tag; waits for them. Errors: HK_ERR_ARGUMENT (a rank twice, or the caller not listed), HK_ERR_ROOT. */
HK_API hk_status hk_comm_create_group(hk_comm *comm, const int *ranks, int count, int tag, hk_comm **result);

/* A communicator of the same ranks, with operations and messages of its own. Collective: one small exchange. */
HK_API hk_status hk_comm_dup(hk_comm *comm, hk_comm **result);

/* Waits for the operations in flight on comm (their requests are freed with it), then frees it; the last one of a
 * context says goodbye to the peers and frees the context. Local: does not wait for other ranks' calls. comm may be
 * NULL. */
HK_API hk_status hk_comm_free(hk_comm *comm);

/* Frees everyone who waits on comm, here and on other ranks: their operations end with HK_ERR_ABORTED and the reason.
 * comm stays poisoned. Not collective. reason may be NULL. */
HK_API hk_status hk_comm_abort(hk_comm *comm, const char *reason);

/* After a failure: a working communicator of the ranks that still live, in the old order. Collective over survivors. */
HK_API hk_status hk_comm_shrink(hk_comm *comm, hk_comm **result);

/* Seconds that an operation of comm may take before HK_ERR_TIMEOUT; 0 = never. */
HK_API hk_status hk_comm_set_timeout(hk_comm *comm, double seconds);

/* ---------------------------------------------------------------------------------------------------------------
 * Memory
 * ------------------------------------------------------------------------------------------------------------- */

/* Memory that peers of the context may map or reach by RDMA: transfers from it need no copy on the way. 4 KiB-aligned,
 * zeroed. Freed by hk_free, or with the context. No bytes give NULL. Errors: HK_ERR_ARGUMENT, HK_ERR_NO_MEMORY. */
HK_API hk_status hk_alloc(hk_comm *comm, size_t bytes, void **memory);
HK_API hk_status hk_free(hk_comm *comm, void *memory);
/* Tells Hocket that the caller's memory will be used often and stays mapped until hk_unregister. A hint: without a
 * transport that profits it costs nothing. */
HK_API hk_status hk_register(hk_comm *comm, void *memory, size_t bytes);
HK_API hk_status hk_unregister(hk_comm *comm, void *memory);

/* ---------------------------------------------------------------------------------------------------------------
 * Collectives
 *
 * In-place, in any of these ways (the same on all ranks or not):
 *   HK_IN_PLACE as `send` (MPI): all-reduce, reduce-scatter(v), scans, all-gather(v), all-to-all(v); at the root:
 *   reduce, gather(v); as `recv` at the root: scatter(v).
 *   equal pointers: all-reduce, reduce (root), scans, all-to-all.
 *   the aligned slice (NCCL): all-gather send == recv + rank·count; reduce-scatter recv == send + rank·count;
 *   gather and scatter likewise at the root.
 * Any other overlap of the two buffers is HK_ERR_BUFFER. Where a buffer is not significant it may be NULL.
 * ------------------------------------------------------------------------------------------------------------- */

#define HK_IN_PLACE ((void *)(intptr_t)-1)

/* The ranks meet: none returns before all have called. */
HK_API hk_status hk_barrier(hk_comm *comm);
/* buffer: count elements, input at root and output elsewhere. */
HK_API hk_status hk_broadcast(void *buffer, uint64_t count, hk_type type, int root, hk_comm *comm);
/* recv (at root) = send_0 op send_1 op … ; count elements each. */
HK_API hk_status hk_reduce(const void *send, void *recv, uint64_t count, hk_type type, hk_op op, int root,
                           hk_comm *comm);
/* recv (everywhere, the same bits) = send_0 op send_1 op …; count elements each. */
HK_API hk_status hk_allreduce(const void *send, void *recv, uint64_t count, hk_type type, hk_op op, hk_comm *comm);
/* send: size·count elements; recv: count elements, share `rank` of the reduction. */
HK_API hk_status hk_reduce_scatter(const void *send, void *recv, uint64_t count, hk_type type, hk_op op, hk_comm *comm);
/* counts[size], equal on all ranks: rank r receives counts[r] elements; send: their sum, packed in rank order. */
HK_API hk_status hk_reduce_scatterv(const void *send, void *recv, const uint64_t *counts, hk_type type, hk_op op,
                                    hk_comm *comm);
/* send: count elements; recv: size·count elements, in rank order. */
HK_API hk_status hk_allgather(const void *send, void *recv, uint64_t count, hk_type type, hk_comm *comm);
/* counts[size] and displacements[size] (elements from recv; NULL = packed): counts equal on all ranks. */
HK_API hk_status hk_allgatherv(const void *send, uint64_t count, void *recv, const uint64_t *counts,
                               const uint64_t *displacements, hk_type type, hk_comm *comm);
/* recv (at root): size·count elements, in rank order. */
HK_API hk_status hk_gather(const void *send, void *recv, uint64_t count, hk_type type, int root, hk_comm *comm);
/* counts and displacements are significant at root only. */
HK_API hk_status hk_gatherv(const void *send, uint64_t count, void *recv, const uint64_t *counts,
                            const uint64_t *displacements, hk_type type, int root, hk_comm *comm);
/* send (at root): size·count elements; recv: count elements. */
HK_API hk_status hk_scatter(const void *send, void *recv, uint64_t count, hk_type type, int root, hk_comm *comm);
HK_API hk_status hk_scatterv(const void *send, const uint64_t *counts, const uint64_t *displacements, void *recv,
                             uint64_t count, hk_type type, int root, hk_comm *comm);
/* send and recv: size·count elements; block i of send goes to rank i, block j of recv comes from rank j. */
HK_API hk_status hk_alltoall(const void *send, void *recv, uint64_t count, hk_type type, hk_comm *comm);
/* send_counts[i] here equals recv_counts[rank] on rank i; displacements NULL = packed. In place: recv_counts and
 * recv_displacements serve both directions, and must be symmetric between each pair of ranks. */
HK_API hk_status hk_alltoallv(const void *send, const uint64_t *send_counts, const uint64_t *send_displacements,
                              void *recv, const uint64_t *recv_counts, const uint64_t *recv_displacements, hk_type type,
                              hk_comm *comm);
/* recv = send_0 op … op send_rank (inclusive). */
HK_API hk_status hk_scan(const void *send, void *recv, uint64_t count, hk_type type, hk_op op, hk_comm *comm);
/* recv = send_0 op … op send_(rank-1); rank 0's recv is left as it is. */
HK_API hk_status hk_exscan(const void *send, void *recv, uint64_t count, hk_type type, hk_op op, hk_comm *comm);

/* ---------------------------------------------------------------------------------------------------------------
 * Messages
 * ------------------------------------------------------------------------------------------------------------- */

#define HK_ANY_SOURCE (-1)
#define HK_ANY_TAG (-1)

/* What arrived. */
typedef struct hk_message {
    int source;     /* rank in the communicator */
    int tag;        /* 0 … 2^31-1 */
    uint64_t bytes; /* length of the message, as sent */
} hk_message;

/* Messages between two ranks do not overtake one another (MPI's rule). Tags are 0 … 2^31-1. message may be NULL. A
 * message longer than the buffer is HK_ERR_TRUNCATED at the receiver: the buffer then holds its beginning, and the
 * communicator stays usable. */
HK_API hk_status hk_send(const void *buffer, uint64_t count, hk_type type, int destination, int tag, hk_comm *comm);
HK_API hk_status hk_recv(void *buffer, uint64_t count, hk_type type, int source, int tag, hk_comm *comm,
                         hk_message *message);
HK_API hk_status hk_sendrecv(const void *send, uint64_t send_count, int destination, int send_tag, void *recv,
                             uint64_t recv_count, int source, int recv_tag, hk_type type, hk_comm *comm,
                             hk_message *message);
/* Waits for a message that a matching hk_recv would take, and describes it without taking it. */
HK_API hk_status hk_probe(int source, int tag, hk_comm *comm, hk_message *message);
/* Looks once: *found = 1 and message set, or *found = 0. */
HK_API hk_status hk_iprobe(int source, int tag, hk_comm *comm, int *found, hk_message *message);

/* ---------------------------------------------------------------------------------------------------------------
 * Non-blocking forms: the same arguments, and a request. Any number in flight, completed in any order; buffers belong
 * to Hocket until the request completes (argument arrays of counts and displacements are copied).
 * ------------------------------------------------------------------------------------------------------------- */

HK_API hk_status hk_ibarrier(hk_comm *comm, hk_request **request);
HK_API hk_status hk_ibroadcast(void *buffer, uint64_t count, hk_type type, int root, hk_comm *comm,
                               hk_request **request);
HK_API hk_status hk_ireduce(const void *send, void *recv, uint64_t count, hk_type type, hk_op op, int root,
                            hk_comm *comm, hk_request **request);
HK_API hk_status hk_iallreduce(const void *send, void *recv, uint64_t count, hk_type type, hk_op op, hk_comm *comm,
                               hk_request **request);
HK_API hk_status hk_ireduce_scatter(const void *send, void *recv, uint64_t count, hk_type type, hk_op op, hk_comm *comm,
                                    hk_request **request);
HK_API hk_status hk_ireduce_scatterv(const void *send, void *recv, const uint64_t *counts, hk_type type, hk_op op,
                                     hk_comm *comm, hk_request **request);
HK_API hk_status hk_iallgather(const void *send, void *recv, uint64_t count, hk_type type, hk_comm *comm,
                               hk_request **request);
HK_API hk_status hk_iallgatherv(const void *send, uint64_t count, void *recv, const uint64_t *counts,
                                const uint64_t *displacements, hk_type type, hk_comm *comm, hk_request **request);
HK_API hk_status hk_igather(const void *send, void *recv, uint64_t count, hk_type type, int root, hk_comm *comm,
                            hk_request **request);
HK_API hk_status hk_igatherv(const void *send, uint64_t count, void *recv, const uint64_t *counts,
                             const uint64_t *displacements, hk_type type, int root, hk_comm *comm,
                             hk_request **request);
HK_API hk_status hk_iscatter(const void *send, void *recv, uint64_t count, hk_type type, int root, hk_comm *comm,
                             hk_request **request);
HK_API hk_status hk_iscatterv(const void *send, const uint64_t *counts, const uint64_t *displacements, void *recv,
                              uint64_t count, hk_type type, int root, hk_comm *comm, hk_request **request);
HK_API hk_status hk_ialltoall(const void *send, void *recv, uint64_t count, hk_type type, hk_comm *comm,
                              hk_request **request);
HK_API hk_status hk_ialltoallv(const void *send, const uint64_t *send_counts, const uint64_t *send_displacements,
                               void *recv, const uint64_t *recv_counts, const uint64_t *recv_displacements,
                               hk_type type, hk_comm *comm, hk_request **request);
HK_API hk_status hk_iscan(const void *send, void *recv, uint64_t count, hk_type type, hk_op op, hk_comm *comm,
                          hk_request **request);
HK_API hk_status hk_iexscan(const void *send, void *recv, uint64_t count, hk_type type, hk_op op, hk_comm *comm,
                            hk_request **request);
HK_API hk_status hk_isend(const void *buffer, uint64_t count, hk_type type, int destination, int tag, hk_comm *comm,
                          hk_request **request);
HK_API hk_status hk_irecv(void *buffer, uint64_t count, hk_type type, int source, int tag, hk_comm *comm,
                          hk_request **request);

/* Makes progress and looks: *done = 1 (the request is freed, *request set to NULL, the operation's status returned), or
 * *done = 0. A NULL request is complete. */
HK_API hk_status hk_test(hk_request **request, int *done);
/* Waits, frees the request, sets *request to NULL and returns the operation's status. */
HK_API hk_status hk_wait(hk_request **request);
/* hk_wait that also describes what a receive took; message may be NULL. */
HK_API hk_status hk_wait_message(hk_request **request, hk_message *message);
/* Waits for all; NULL entries are skipped. Returns the first failure, after all have ended. */
HK_API hk_status hk_wait_all(size_t count, hk_request **requests);
/* Seconds from now that this request may take; 0 = never times out. Overrides the communicator's. */
HK_API hk_status hk_request_set_timeout(hk_request *request, double seconds);
/* Lets operations in flight on comm's context move on without waiting for one: for overlap with computing. */
HK_API hk_status hk_progress(hk_comm *comm);

#ifdef __cplusplus
}
#endif
#endif

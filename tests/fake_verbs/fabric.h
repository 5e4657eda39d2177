/*
 * A fake libibverbs for fault tests: reliable queue pairs and datagrams between the threads and processes that share a
 * folder, FAKE_VERBS_FABRIC. Tables of completion queues, queue pairs and regions lie in a file of that folder, under
 * one lock; a posted request is carried out at once by whoever posts it, or as faults.h says. Bytes go to another
 * process by process_vm_writev. Completion events and asynchronous events are bytes in FIFOs of the folder.
 */
#ifndef HKI_TESTS_FAKE_VERBS_FABRIC_H
#define HKI_TESTS_FAKE_VERBS_FABRIC_H

#include "faults.h"

#include <infiniband/verbs.h>

#include <pthread.h>
#include <sys/types.h>

enum { CQS = 512, QPS = 1024, REGIONS = 4096, ENTRIES = 1024, RECEIVES = 512, ROUTE_BYTES = 40, DEVICES = 8 };

/*
 * What a device is: a part of FAKE_VERBS_DEVICES, whose devices are separated by commas. A name, and then, each behind
 * a slash: ib (InfiniBand, not RoCE), ports=N, odp (it pages on demand), node=N (of NUMA), subnet=N, width=N and
 * speed=N (codes of ibv_port_attr), latency=NS (of a datagram), register=NS and page=NS (a registration, and each of
 * its pages).
 */
typedef struct fake_device {
    struct ibv_device device;
    char text[128]; /* as it was said */
    bool infiniband, odp;
    uint32_t number; /* in the list */
    uint32_t ports, subnet, width, speed, latency, registration, page;
} fake_device;

/* Where a queue pair is, or where a peer is to be found. */
typedef struct fabric_place {
    bool infiniband, global;
    uint16_t lid;
    union ibv_gid gid;
} fabric_place;

typedef struct fabric_cq {
    bool used, armed;
    pid_t pid;
    uint32_t channel; /* number of the FIFO */
    uint64_t handle;  /* struct ibv_cq * in that process */
    uint32_t head, tail;
    struct ibv_wc entry[ENTRIES];
} fabric_cq;

typedef struct fabric_receive {
    uint64_t wr_id, address;
    uint32_t bytes;
} fabric_receive;

typedef struct fabric_qp {
    bool used, datagrams;
    pid_t pid;
    uint32_t number, peer, key;
    enum ibv_qp_state state;
    uint8_t port;
    fabric_place place, route; /* its own, and the peer's as it was told */
    uint32_t send_cq, recv_cq;
    uint32_t head, tail;
    fabric_receive receive[RECEIVES];
} fabric_qp;

typedef struct fabric_region {
    bool used;
    pid_t pid;
    uint32_t key;
    uint64_t address, bytes;
    int access;
} fabric_region;

typedef struct fabric {
    pthread_mutex_t lock; /* robust, shared between processes */
    _Atomic int ready;
    uint32_t numbers; /* given out so far, to queue pairs, keys and FIFOs */
    fake_faults faults;
    fabric_cq cq[CQS];
    fabric_qp qp[QPS];
    fabric_region region[REGIONS];
} fabric;

/* A request that has been posted and not carried out. */
typedef struct fake_request {
    struct fake_request *next;
    struct ibv_send_wr wr;
    struct ibv_sge piece[4];
    fabric_place route; /* of a datagram */
    unsigned char inline_data[512];
} fake_request;

/* This process's side of a queue pair. */
typedef struct fake_qp {
    struct ibv_qp qp; /* first: what the caller sees */
    uint32_t index;
    bool signals_all;
    uint32_t limit, waiting;
    uint32_t flush_in;       /* polls; 0: it is not about to be flushed */
    uint32_t unacknowledged; /* asynchronous events */
    fake_request *first, *last;
    struct fake_qp *next; /* of this process */
} fake_qp;

typedef struct fake_channel {
    struct ibv_comp_channel channel;
    uint32_t number;
    char path[256];
} fake_channel;

typedef struct fake_cq {
    struct ibv_cq cq;
    uint32_t index;
} fake_cq;

typedef struct fake_ah {
    struct ibv_ah ah;
    fabric_place route;
} fake_ah;

typedef struct fake_context {
    struct verbs_context extended; /* the caller sees extended.context, the last in it */
    uint32_t number;               /* of the FIFO for asynchronous events */
    char path[256];
    struct fake_context *next;
} fake_context;

/* ---- devices.c ---- */

fake_context *fake_context_of(struct ibv_context *context);
fake_device *fake_device_of(struct ibv_context *context);
/* Where a port is. */
fabric_place fake_place(struct ibv_context *context, uint8_t port);
fabric_place fake_route(struct ibv_context *context, const struct ibv_ah_attr *route);
/* As slow hardware would. */
void fake_spin(uint64_t nanoseconds);

/* ---- fabric.c ---- */

/* The shared memory; made by the first call. */
fabric *fake_fabric(void);
void fake_lock(void);
void fake_unlock(void);
uint32_t fake_number(void); /* locked */
/* The folder that all share. */
const char *fake_folder(void);
/* Opens FIFO `number` of this process to read from, and says its path. -1 with errno. */
int fake_fifo(uint32_t number, char path[256]);
/* Writes to a FIFO of any process; lost when nobody has it open. */
void fake_ring(pid_t pid, uint32_t number, const void *text, size_t bytes);
/* A slot that is not used, or whose process has ended; SIZE_MAX: none. Locked. */
size_t fake_slot(const void *table, size_t count, size_t bytes, size_t used, size_t pid);
bool fake_copy(pid_t pid, uint64_t to, const void *from, size_t bytes); /* to a process's memory */
bool fake_fetch(pid_t pid, void *to, uint64_t from, size_t bytes);      /* from it */

/* ---- wire.c ---- */

/* Puts a completion into a queue, and rings if it is armed. Locked. */
void fake_complete(uint32_t cq, const struct ibv_wc *entry);
/* Carries out what can be of the queue's requests; at most `most`. Locked. */
void fake_run(fake_qp *queue, uint32_t most);
/* A queue pair fails: everything posted is flushed. Locked. */
void fake_break(fabric_qp *queue);
void fake_flush(fake_qp *queue);
/* The queue pair fails, and is flushed later, as its completion queue is polled. Locked. */
void fake_break_slowly(fake_qp *queue, uint32_t polls);
/* One poll has passed. Locked. */
void fake_poll_passed(fake_qp *queue);
/* This process's queue pairs. Under fake_lock. */
extern fake_qp *fake_queues;
extern fake_context *fake_contexts;

#endif

/* The collectives of the API: each names its arguments; collective.c does the rest. */
#include "comm/comm.h"

#define HKI_ARGUMENTS(NAME, ...) (&(const hki_arguments){.is.collective = HKI_COLL_##NAME, __VA_ARGS__})

/* Defines hk_name (blocking) and hk_iname (with a request) from one list of parameters and one of arguments. */
#define HKI_ENTRY(NAME, name, parameters, ...)                                                                         \
    hk_status hk_##name(HKI_UNPACK parameters, hk_comm *comm)                                                          \
    {                                                                                                                  \
        return hki_collective_run(comm, HKI_ARGUMENTS(NAME, __VA_ARGS__));                                             \
    }                                                                                                                  \
    hk_status hk_i##name(HKI_UNPACK parameters, hk_comm *comm, hk_request **request)                                   \
    {                                                                                                                  \
        return hki_collective_begin(comm, HKI_ARGUMENTS(NAME, __VA_ARGS__), request);                                  \
    }
#define HKI_UNPACK(...) __VA_ARGS__

hk_status hk_barrier(hk_comm *comm)
{
    return hki_collective_run(comm, HKI_ARGUMENTS(BARRIER, .is.count = 0));
}

hk_status hk_ibarrier(hk_comm *comm, hk_request **request)
{
    return hki_collective_begin(comm, HKI_ARGUMENTS(BARRIER, .is.count = 0), request);
}

HKI_ENTRY(BROADCAST, broadcast, (void *buffer, uint64_t count, hk_type type, int root), .recv = buffer,
          .is.count = count, .is.type = type, .is.root = root)

HKI_ENTRY(REDUCE, reduce, (const void *send, void *recv, uint64_t count, hk_type type, hk_op op, int root),
          .send = send, .recv = recv, .is.count = count, .is.type = type, .is.op = op, .is.root = root)

HKI_ENTRY(ALLREDUCE, allreduce, (const void *send, void *recv, uint64_t count, hk_type type, hk_op op), .send = send,
          .recv = recv, .is.count = count, .is.type = type, .is.op = op)

HKI_ENTRY(REDUCE_SCATTER, reduce_scatter, (const void *send, void *recv, uint64_t count, hk_type type, hk_op op),
          .send = send, .recv = recv, .is.count = count, .is.type = type, .is.op = op)

HKI_ENTRY(REDUCE_SCATTERV, reduce_scatterv,
          (const void *send, void *recv, const uint64_t *counts, hk_type type, hk_op op), .send = send, .recv = recv,
          .counts = {counts}, .is.type = type, .is.op = op)

HKI_ENTRY(ALLGATHER, allgather, (const void *send, void *recv, uint64_t count, hk_type type), .send = send,
          .recv = recv, .is.count = count, .is.type = type)

HKI_ENTRY(ALLGATHERV, allgatherv,
          (const void *send, uint64_t count, void *recv, const uint64_t *counts, const uint64_t *displacements,
           hk_type type),
          .send = send, .is.count = count, .recv = recv, .counts = {NULL, counts},
          .displacements = {NULL, displacements}, .is.type = type)

HKI_ENTRY(GATHER, gather, (const void *send, void *recv, uint64_t count, hk_type type, int root), .send = send,
          .recv = recv, .is.count = count, .is.type = type, .is.root = root)

HKI_ENTRY(GATHERV, gatherv,
          (const void *send, uint64_t count, void *recv, const uint64_t *counts, const uint64_t *displacements,
           hk_type type, int root),
          .send = send, .is.count = count, .recv = recv, .counts = {NULL, counts},
          .displacements = {NULL, displacements}, .is.type = type, .is.root = root)

HKI_ENTRY(SCATTER, scatter, (const void *send, void *recv, uint64_t count, hk_type type, int root), .send = send,
          .recv = recv, .is.count = count, .is.type = type, .is.root = root)

HKI_ENTRY(SCATTERV, scatterv,
          (const void *send, const uint64_t *counts, const uint64_t *displacements, void *recv, uint64_t count,
           hk_type type, int root),
          .send = send, .counts = {counts}, .displacements = {displacements}, .recv = recv, .is.count = count,
          .is.type = type, .is.root = root)

HKI_ENTRY(ALLTOALL, alltoall, (const void *send, void *recv, uint64_t count, hk_type type), .send = send, .recv = recv,
          .is.count = count, .is.type = type)

HKI_ENTRY(ALLTOALLV, alltoallv,
          (const void *send, const uint64_t *send_counts, const uint64_t *send_displacements, void *recv,
           const uint64_t *recv_counts, const uint64_t *recv_displacements, hk_type type),
          .send = send, .recv = recv, .counts = {send_counts, recv_counts},
          .displacements = {send_displacements, recv_displacements}, .is.type = type)

HKI_ENTRY(SCAN, scan, (const void *send, void *recv, uint64_t count, hk_type type, hk_op op), .send = send,
          .recv = recv, .is.count = count, .is.type = type, .is.op = op)

HKI_ENTRY(EXSCAN, exscan, (const void *send, void *recv, uint64_t count, hk_type type, hk_op op), .send = send,
          .recv = recv, .is.count = count, .is.type = type, .is.op = op)

#include "bench/bench_hocket.h"

enum { TAG = 1 };

/* One side of a message each way between ranks 0 and 1; the other ranks have nothing to do. */
static hk_status pingpong(const hki_bench_cell *cell, const void *send, void *recv, hk_comm *comm)
{
    if (cell->rank > 1)
        return HK_OK;
    int peer = 1 - cell->rank;
    hk_status status = HK_OK;
    if (cell->rank == 0)
        status = hk_send(send, cell->count, cell->type, peer, TAG, comm);
    if (status == HK_OK)
        status = hk_recv(recv, cell->count, cell->type, peer, TAG, comm, NULL);
    if (status == HK_OK && cell->rank == 1)
        status = hk_send(send, cell->count, cell->type, peer, TAG, comm);
    return status;
}

/* One message from rank 0 to rank 1. */
static hk_status stream(const hki_bench_cell *cell, const void *send, void *recv, hk_comm *comm)
{
    if (cell->rank > 1)
        return HK_OK;
    return cell->rank == 0 ? hk_send(send, cell->count, cell->type, 1, TAG, comm)
                           : hk_recv(recv, cell->count, cell->type, 0, TAG, comm, NULL);
}

static hk_status exchange(const hki_bench_cell *cell, const void *send, void *recv, hk_comm *comm)
{
    int right = (cell->rank + 1) % cell->ranks, left = (cell->rank + cell->ranks - 1) % cell->ranks;
    return hk_sendrecv(send, cell->count, right, TAG, recv, cell->count, left, TAG, cell->type, comm, NULL);
}

static hk_status dispatch(hk_comm *comm, const hki_bench_cell *cell, void *send, void *recv)
{
    switch (cell->kind) {
    case HKI_BENCH_BARRIER:
        return hk_barrier(comm);
    case HKI_BENCH_BROADCAST:
        return hk_broadcast(recv, cell->count, cell->type, cell->root, comm);
    case HKI_BENCH_REDUCE:
        return hk_reduce(send, recv, cell->count, cell->type, cell->op, cell->root, comm);
    case HKI_BENCH_ALLREDUCE:
        return hk_allreduce(send, recv, cell->count, cell->type, cell->op, comm);
    case HKI_BENCH_REDUCE_SCATTER:
        return hk_reduce_scatter(send, recv, cell->count, cell->type, cell->op, comm);
    case HKI_BENCH_REDUCE_SCATTERV:
        return hk_reduce_scatterv(send, recv, cell->counts, cell->type, cell->op, comm);
    case HKI_BENCH_ALLGATHER:
        return hk_allgather(send, recv, cell->count, cell->type, comm);
    case HKI_BENCH_ALLGATHERV:
        return hk_allgatherv(send, cell->count, recv, cell->counts, cell->displacements, cell->type, comm);
    case HKI_BENCH_GATHER:
        return hk_gather(send, recv, cell->count, cell->type, cell->root, comm);
    case HKI_BENCH_GATHERV:
        return hk_gatherv(send, cell->count, recv, cell->counts, cell->displacements, cell->type, cell->root, comm);
    case HKI_BENCH_SCATTER:
        return hk_scatter(send, recv, cell->count, cell->type, cell->root, comm);
    case HKI_BENCH_SCATTERV:
        return hk_scatterv(send, cell->counts, cell->displacements, recv, cell->count, cell->type, cell->root, comm);
    case HKI_BENCH_ALLTOALL:
        return hk_alltoall(send, recv, cell->count, cell->type, comm);
    case HKI_BENCH_ALLTOALLV:
        return hk_alltoallv(send, cell->counts, cell->displacements, recv, cell->counts, cell->displacements,
                            cell->type, comm);
    case HKI_BENCH_SCAN:
        return hk_scan(send, recv, cell->count, cell->type, cell->op, comm);
    case HKI_BENCH_EXSCAN:
        return hk_exscan(send, recv, cell->count, cell->type, cell->op, comm);
    case HKI_BENCH_SENDRECV:
        return exchange(cell, send, recv, comm);
    case HKI_BENCH_STREAM:
        return stream(cell, send, recv, comm);
    default:
        return pingpong(cell, send, recv, comm);
    }
}

static int call(void *context, const hki_bench_cell *cell, void *send, void *recv)
{
    return (int)dispatch((hk_comm *)context, cell, send, recv);
}

static int barrier(void *context)
{
    return (int)hk_barrier((hk_comm *)context);
}

static int maximum(void *context, double *values, int count)
{
    return (int)hk_allreduce(HK_IN_PLACE, values, (uint64_t)count, HK_FLOAT64, HK_MAX, (hk_comm *)context);
}

static const char *error(void *context)
{
    (void)context;
    return hk_last_error();
}

static void *allocate(void *context, size_t bytes)
{
    void *memory = NULL;
    return hk_alloc((hk_comm *)context, bytes, &memory) == HK_OK ? memory : NULL;
}

static void release(void *context, void *memory)
{
    (void)hk_free((hk_comm *)context, memory);
}

void hki_bench_hocket(hk_comm *comm, bool mappable, hki_bench_library *library)
{
    *library = (hki_bench_library){.name = "hocket",
                                   .context = comm,
                                   .rank = hk_comm_rank(comm),
                                   .ranks = hk_comm_size(comm),
                                   .in_place = HK_IN_PLACE,
                                   .call = call,
                                   .barrier = barrier,
                                   .maximum = maximum,
                                   .error = error,
                                   .allocate = mappable ? allocate : NULL,
                                   .release = mappable ? release : NULL};
}

void hki_bench_hocket_pace(hki_bench_library *library, hk_comm *pacer)
{
    library->pace = barrier;
    library->pacer = pacer;
}

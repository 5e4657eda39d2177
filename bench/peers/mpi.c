/* Driver of any MPI over its public interface: compiled with that MPI's own compiler wrapper. Counts are `int` there,
 * so a cell of more than 2^31 − 1 elements is refused. */
#include "bench/peers/driver.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 1 };

/* What the calls of one run need in MPI's terms. */
typedef struct peer {
    MPI_Datatype type;
    MPI_Op op;
    int *counts, *displacements; /* of the cell at hand: MPI wants them as int */
    char error[MPI_MAX_ERROR_STRING + 64];
} peer;

static bool map_type(hk_type type, MPI_Datatype *mapped)
{
    const struct {
        hk_type ours;
        MPI_Datatype theirs;
    } known[] = {{HK_INT8, MPI_INT8_T},   {HK_UINT8, MPI_UINT8_T},   {HK_INT16, MPI_INT16_T}, {HK_UINT16, MPI_UINT16_T},
                 {HK_INT32, MPI_INT32_T}, {HK_UINT32, MPI_UINT32_T}, {HK_INT64, MPI_INT64_T}, {HK_UINT64, MPI_UINT64_T},
                 {HK_FLOAT32, MPI_FLOAT}, {HK_FLOAT64, MPI_DOUBLE}}; /* MPI has no 16-bit floats */
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].ours == type) {
            *mapped = known[i].theirs;
            return true;
        }
    }
    return false;
}

static bool map_op(hk_op op, MPI_Op *mapped)
{
    const struct {
        hk_op ours;
        MPI_Op theirs;
    } known[] = {{HK_SUM, MPI_SUM},   {HK_PROD, MPI_PROD}, {HK_MIN, MPI_MIN},   {HK_MAX, MPI_MAX},
                 {HK_BAND, MPI_BAND}, {HK_BOR, MPI_BOR},   {HK_BXOR, MPI_BXOR}, {HK_LAND, MPI_LAND},
                 {HK_LOR, MPI_LOR},   {HK_LXOR, MPI_LXOR}}; /* MPI has no average */
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].ours == op) {
            *mapped = known[i].theirs;
            return true;
        }
    }
    return false;
}

static int outcome(peer *p, int code)
{
    if (code == MPI_SUCCESS)
        return 0;
    int length = 0;
    MPI_Error_string(code, p->error, &length);
    return 1;
}

static int pingpong(const hki_bench_cell *cell, int count, MPI_Datatype type, void *send, void *recv)
{
    if (cell->rank > 1)
        return MPI_SUCCESS;
    int other = 1 - cell->rank, code = MPI_SUCCESS;
    if (cell->rank == 0)
        code = MPI_Send(send, count, type, other, TAG, MPI_COMM_WORLD);
    if (code == MPI_SUCCESS)
        code = MPI_Recv(recv, count, type, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS && cell->rank == 1)
        code = MPI_Send(send, count, type, other, TAG, MPI_COMM_WORLD);
    return code;
}

/* One message from rank 0 to rank 1. */
static int stream(const hki_bench_cell *cell, int count, MPI_Datatype type, void *send, void *recv)
{
    if (cell->rank > 1)
        return MPI_SUCCESS;
    return cell->rank == 0 ? MPI_Send(send, count, type, 1, TAG, MPI_COMM_WORLD)
                           : MPI_Recv(recv, count, type, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Makes MPI's int forms of the cell's counts. */
static int prepare(void *context, const hki_bench_cell *cell)
{
    peer *p = (peer *)context;
    if (cell->count > INT_MAX || cell->bytes / cell->element > INT_MAX) {
        snprintf(p->error, sizeof p->error, "more than INT_MAX elements");
        return 1;
    }
    free(p->counts);
    p->counts = (int *)calloc(2 * (size_t)cell->ranks, sizeof *p->counts);
    if (p->counts == NULL) {
        snprintf(p->error, sizeof p->error, "out of memory");
        return 1;
    }
    p->displacements = p->counts + cell->ranks;
    for (int r = 0; r < cell->ranks && cell->counts != NULL; r++) {
        p->counts[r] = (int)cell->counts[r];
        p->displacements[r] = (int)cell->displacements[r];
    }
    return 0;
}

static int call(void *context, const hki_bench_cell *cell, void *send, void *recv)
{
    peer *p = (peer *)context;
    const int n = (int)cell->count, root = cell->root, *counts = p->counts, *at = p->displacements;
    const MPI_Comm world = MPI_COMM_WORLD;
    const MPI_Datatype type = p->type;
    int right = (cell->rank + 1) % cell->ranks, left = (cell->rank + cell->ranks - 1) % cell->ranks;
    switch (cell->kind) {
    case HKI_BENCH_BARRIER:
        return outcome(p, MPI_Barrier(world));
    case HKI_BENCH_BROADCAST:
        return outcome(p, MPI_Bcast(recv, n, type, root, world));
    case HKI_BENCH_REDUCE:
        return outcome(p, MPI_Reduce(send, recv, n, type, p->op, root, world));
    case HKI_BENCH_ALLREDUCE:
        return outcome(p, MPI_Allreduce(send, recv, n, type, p->op, world));
    case HKI_BENCH_REDUCE_SCATTER:
        return outcome(p, MPI_Reduce_scatter_block(send, recv, n, type, p->op, world));
    case HKI_BENCH_REDUCE_SCATTERV:
        return outcome(p, MPI_Reduce_scatter(send, recv, counts, type, p->op, world));
    case HKI_BENCH_ALLGATHER:
        return outcome(p, MPI_Allgather(send, n, type, recv, n, type, world));
    case HKI_BENCH_ALLGATHERV:
        return outcome(p, MPI_Allgatherv(send, n, type, recv, counts, at, type, world));
    case HKI_BENCH_GATHER:
        return outcome(p, MPI_Gather(send, n, type, recv, n, type, root, world));
    case HKI_BENCH_GATHERV:
        return outcome(p, MPI_Gatherv(send, n, type, recv, counts, at, type, root, world));
    case HKI_BENCH_SCATTER:
        return outcome(p, MPI_Scatter(send, n, type, recv, n, type, root, world));
    case HKI_BENCH_SCATTERV:
        return outcome(p, MPI_Scatterv(send, counts, at, type, recv, n, type, root, world));
    case HKI_BENCH_ALLTOALL:
        return outcome(p, MPI_Alltoall(send, n, type, recv, n, type, world));
    case HKI_BENCH_ALLTOALLV:
        return outcome(p, MPI_Alltoallv(send, counts, at, type, recv, counts, at, type, world));
    case HKI_BENCH_SCAN:
        return outcome(p, MPI_Scan(send, recv, n, type, p->op, world));
    case HKI_BENCH_EXSCAN:
        return outcome(p, MPI_Exscan(send, recv, n, type, p->op, world));
    case HKI_BENCH_SENDRECV:
        return outcome(p, MPI_Sendrecv(send, n, type, right, TAG, recv, n, type, left, TAG, world, MPI_STATUS_IGNORE));
    case HKI_BENCH_STREAM:
        return outcome(p, stream(cell, n, type, send, recv));
    default:
        return outcome(p, pingpong(cell, n, type, send, recv));
    }
}

static int barrier(void *context)
{
    return outcome((peer *)context, MPI_Barrier(MPI_COMM_WORLD));
}

static int maximum(void *context, double *values, int count)
{
    return outcome((peer *)context, MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
}

static const char *error(void *context)
{
    return ((peer *)context)->error;
}

static int run(const hki_peer_options *options)
{
    peer p = {.error = "no error"};
    bool reduces = hki_bench_traits_of(options->request.kind)->reduces;
    if (!map_type(options->request.type, &p.type) || (reduces && !map_op(options->request.op, &p.op))) {
        fprintf(stderr, "mpi: no MPI form of type %s with operator %s\n", hki_bench_type_name(options->request.type),
                hki_bench_op_name(options->request.op));
        return 2;
    }
#ifdef OMPI_MAJOR_VERSION
    const char *name = "openmpi";
#else
    const char *name = "mpich";
#endif
    hki_bench_library library = {.name = name,
                                 .context = &p,
                                 .in_place = MPI_IN_PLACE,
                                 .prepare = prepare,
                                 .call = call,
                                 .barrier = barrier,
                                 .maximum = maximum,
                                 .error = error};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &library.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &library.ranks);
    int status = hki_peer_run(&library, options);
    free(p.counts);
    return status;
}

int main(int argc, char **argv)
{
    hki_peer_options options;
    if (!hki_peer_parse(argc, argv, &options))
        return 2;
    hki_peer_bind();
    int code = MPI_Init(&argc, &argv);
    if (code != MPI_SUCCESS) {
        fprintf(stderr, "mpi: MPI_Init failed with code %d\n", code);
        return 1;
    }
    int status = run(&options);
    if (status != 0)
        MPI_Abort(MPI_COMM_WORLD, status);
    MPI_Finalize();
    return status;
}

// Driver of Gloo over its public interface. Gloo has no launcher, so the driver forks its ranks (GLOO_RANKS of them),
// which find each other through a directory. They are not bound: beside the caller each has a thread that waits for the
// network, and the two on one CPU cost a scheduler's tick (4 ms) for each message. Gloo has no reduce-scatter, scan or
// send-receive of this kind, and reduces the types and operators that its templates are instantiated for below.
#include "bench/peers/driver.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace
{

using Reduce = gloo::AllreduceOptions::Func;
using Context = std::shared_ptr<gloo::Context>;

struct Peer {
    Context context;
    Reduce reduce;
    std::string error = "no error";
};

template <typename T> Reduce reduction(hk_op op)
{
    void (*function)(void *, const void *, const void *, size_t) = nullptr;
    if (op == HK_SUM)
        function = &gloo::sum<T>;
    else if (op == HK_PROD)
        function = &gloo::product<T>;
    else if (op == HK_MAX)
        function = &gloo::max<T>;
    else if (op == HK_MIN)
        function = &gloo::min<T>;
    return function != nullptr ? Reduce(function) : Reduce();
}

Reduce reduction_for(hk_type type, hk_op op)
{
    switch (type) {
    case HK_FLOAT32:
        return reduction<float>(op);
    case HK_FLOAT64:
        return reduction<double>(op);
    case HK_INT32:
        return reduction<int32_t>(op);
    case HK_INT64:
        return reduction<int64_t>(op);
    default:
        return Reduce();
    }
}

// Input and output as Gloo wants them: T only says how long an element is.
template <typename T> void call_typed(const Peer &peer, const hki_bench_cell *cell, T *send, T *recv)
{
    const size_t n = cell->count, all = n * static_cast<size_t>(cell->ranks);
    const bool root = cell->rank == cell->root;
    switch (cell->kind) {
    case HKI_BENCH_ALLREDUCE: {
        gloo::AllreduceOptions options(peer.context);
        if (send != recv)
            options.setInput(send, n);
        options.setOutput(recv, n);
        options.setReduceFunction(peer.reduce);
        return gloo::allreduce(options);
    }
    case HKI_BENCH_REDUCE: {
        gloo::ReduceOptions options(peer.context);
        options.setInput(send, n);
        options.setOutput(recv, n);
        options.setRoot(cell->root);
        options.setReduceFunction(peer.reduce);
        return gloo::reduce(options);
    }
    case HKI_BENCH_BROADCAST: {
        gloo::BroadcastOptions options(peer.context);
        options.setOutput(recv, n);
        options.setRoot(cell->root);
        return gloo::broadcast(options);
    }
    case HKI_BENCH_ALLGATHER: {
        gloo::AllgatherOptions options(peer.context);
        options.setInput(send, n);
        options.setOutput(recv, all);
        return gloo::allgather(options);
    }
    case HKI_BENCH_ALLTOALL: {
        gloo::AlltoallOptions options(peer.context);
        options.setInput(send, all);
        options.setOutput(recv, all);
        return gloo::alltoall(options);
    }
    case HKI_BENCH_GATHER: {
        gloo::GatherOptions options(peer.context);
        options.setInput(send, n);
        if (root)
            options.setOutput(recv, all);
        options.setRoot(cell->root);
        return gloo::gather(options);
    }
    case HKI_BENCH_SCATTER: {
        gloo::ScatterOptions options(peer.context);
        if (root) {
            std::vector<T *> blocks;
            for (int r = 0; r < cell->ranks; r++)
                blocks.push_back(send + static_cast<size_t>(r) * n);
            options.setInputs(blocks, n);
        }
        options.setOutput(recv, n);
        options.setRoot(cell->root);
        return gloo::scatter(options);
    }
    default:
        throw std::runtime_error("Gloo has no such collective");
    }
}

void call_sized(const Peer &peer, const hki_bench_cell *cell, void *send, void *recv)
{
    switch (cell->element) {
    case 1:
        return call_typed(peer, cell, static_cast<uint8_t *>(send), static_cast<uint8_t *>(recv));
    case 2:
        return call_typed(peer, cell, static_cast<uint16_t *>(send), static_cast<uint16_t *>(recv));
    case 4:
        return call_typed(peer, cell, static_cast<uint32_t *>(send), static_cast<uint32_t *>(recv));
    default:
        return call_typed(peer, cell, static_cast<uint64_t *>(send), static_cast<uint64_t *>(recv));
    }
}

// Runs the work; an exception's text becomes the peer's error.
template <typename Work> int guarded(void *context, Work work)
{
    Peer *peer = static_cast<Peer *>(context);
    try {
        work(*peer);
        return 0;
    } catch (const std::exception &failure) {
        peer->error = failure.what();
        return 1;
    }
}

void meet(Peer &peer)
{
    gloo::BarrierOptions options(peer.context);
    gloo::barrier(options);
}

int barrier(void *context)
{
    return guarded(context, meet);
}

int prepare(void *context, const hki_bench_cell *cell)
{
    return guarded(context, [cell](Peer &peer) {
        if (cell->in_place && cell->kind != HKI_BENCH_ALLREDUCE)
            throw std::runtime_error("only all-reduce has an in-place form here");
        if (!hki_bench_traits_of(cell->kind)->reduces)
            return;
        peer.reduce = reduction_for(cell->type, cell->op);
        if (!peer.reduce)
            throw std::runtime_error("this type and operator are not built in");
    });
}

int call(void *context, const hki_bench_cell *cell, void *send, void *recv)
{
    return guarded(context, [=](Peer &peer) {
        if (cell->kind == HKI_BENCH_BARRIER)
            meet(peer);
        else
            call_sized(peer, cell, send != nullptr ? send : recv, recv);
    });
}

int maximum(void *context, double *values, int count)
{
    return guarded(context, [=](Peer &peer) {
        gloo::AllreduceOptions options(peer.context);
        options.setOutput(values, static_cast<size_t>(count));
        options.setReduceFunction(reduction<double>(HK_MAX));
        gloo::allreduce(options);
    });
}

const char *error(void *context)
{
    return static_cast<Peer *>(context)->error.c_str();
}

int run_rank(int rank, int ranks, const std::string &folder, const hki_peer_options *options)
{
    Peer peer;
    try {
        gloo::transport::tcp::attr where;
        where.iface = "lo";
        auto device = gloo::transport::tcp::CreateDevice(where);
        gloo::rendezvous::FileStore store(folder);
        auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
        context->connectFullMesh(store, device);
        peer.context = context;
    } catch (const std::exception &failure) {
        fprintf(stderr, "gloo: rank %d: %s\n", rank, failure.what());
        return 1;
    }
    hki_bench_library library{};
    library.name = "gloo";
    library.context = &peer;
    library.rank = rank;
    library.ranks = ranks;
    library.prepare = prepare;
    library.call = call;
    library.barrier = barrier;
    library.maximum = maximum;
    library.error = error;
    return hki_peer_run(&library, options);
}

// Forks the ranks and waits for them all; the first that fails gives the exit status.
int run_all(int ranks, const std::string &folder, const hki_peer_options *options)
{
    for (int rank = 0; rank < ranks; rank++) {
        pid_t child = fork();
        if (child < 0) {
            perror("gloo: fork");
            return 1;
        }
        if (child == 0) {
            int status = run_rank(rank, ranks, folder, options);
            fflush(stdout);
            _exit(status);
        }
    }
    int worst = 0;
    for (int rank = 0; rank < ranks; rank++) {
        int status = 0;
        wait(&status);
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        worst = worst != 0 ? worst : code;
    }
    return worst;
}

} // namespace

int main(int argc, char **argv)
{
    hki_peer_options options;
    if (!hki_peer_parse(argc, argv, &options))
        return 2;
    const char *wanted = getenv("GLOO_RANKS");
    int ranks = wanted != nullptr ? atoi(wanted) : 2;
    char folder[] = "/tmp/gloo-driver-XXXXXX";
    if (ranks < 1 || mkdtemp(folder) == nullptr) {
        fprintf(stderr, "gloo: GLOO_RANKS is to be 1 or more, and /tmp writable\n");
        return 2;
    }
    int status = run_all(ranks, folder, &options);
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
    return status;
}

/* What a launcher reads: an agent's record, and the messages of a rank, which may be any program. */
#include "tools/run.h"
#include "topo/topology.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_record(const uint8_t *data, size_t size)
{
    run_record record;
    char *bytes = malloc(size > 0 ? size : 1);
    memcpy(bytes, data, size);
    if (run_record_read(bytes, size, &record)) {
        size_t again;
        char *written = run_record_write(&record, &again);
        if (!written || record.options.ranks < 1 || record.share.first + record.options.ranks > record.share.total)
            abort();
        free(written);
        run_record_free(&record);
    }
    free(bytes);
}

static void lost(void *context, const char *missing, const char *waiting)
{
    (void)context;
    if (!missing || !waiting)
        abort();
}

/* Two ranks, whose messages are the two halves of the input. */
static void serve_ranks(const uint8_t *data, size_t size)
{
    static const hki_topology unknown; /* as on a machine that says nothing of itself */
    run_join join;
    int ours[2], theirs[2], poller = epoll_create1(EPOLL_CLOEXEC);
    if (!run_join_open(&join, 2, poller, &unknown))
        abort();
    join.lost = lost;
    for (int rank = 0; rank < 2; rank++) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0)
            abort();
        ours[rank] = ends[0];
        theirs[rank] = ends[1];
        join.links[rank].fd = ours[rank];
        struct epoll_event event = {.events = EPOLLIN};
        epoll_ctl(poller, EPOLL_CTL_ADD, ours[rank], &event);
    }
    for (int rank = 0; rank < 2; rank++) {
        size_t first = rank == 0 ? 0 : size / 2, end = rank == 0 ? size / 2 : size;
        (void)!send(theirs[rank], data + first, end - first, MSG_NOSIGNAL);
        run_join_readable(&join, rank);
    }
    for (int rank = 0; rank < 2; rank++) {
        close(theirs[rank]);
        run_join_readable(&join, rank);
    }
    run_join_free(&join);
    close(poller);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 4096)
        return 0;
    read_record(data, size);
    serve_ranks(data, size);
    return 0;
}

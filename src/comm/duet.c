#include "comm/duet.h"

#include "algo/algo.h"
#include "base/clock.h"
#include "base/error.h"

static void force_one_round(hk_comm *comm, bool force)
{
    static const struct {
        hki_collective collective;
        const char *name;
    } forced[] = {{HKI_COLL_ALLGATHER, "direct"}, {HKI_COLL_BROADCAST, "flat"}, {HKI_COLL_ALLREDUCE, "flat"}};
    for (size_t i = 0; i < sizeof forced / sizeof *forced; i++) {
        const hki_algorithm *algorithm = hki_algorithm_find(forced[i].collective, forced[i].name);
        hki_chooser_force(comm->chooser, forced[i].collective, force ? algorithm : NULL, 1);
    }
}

hk_status hki_duet_open(hki_duet *duet, hk_comm *comm)
{
    duet->comm = comm;
    HK_TRY(hk_comm_dup(comm, &duet->back));
    force_one_round(comm, true);
    return HK_OK;
}

hk_status hki_duet_close(hki_duet *duet)
{
    force_one_round(duet->comm, false);
    return hk_comm_free(duet->back);
}

static hk_status broadcast(hk_comm *comm, int root, void *send, void *recv, uint64_t count, hk_type type)
{
    return hk_broadcast(hk_comm_rank(comm) == root ? send : recv, count, type, root, comm);
}

hk_status hki_duet_call(const hki_duet *duet, hki_tune_series series, void *send, void *recv, uint64_t count,
                        hk_type type)
{
    if (series == HKI_TUNE_EXCHANGE)
        return hk_allgather(send, recv, count, type, duet->comm);
    HK_TRY(broadcast(duet->comm, 0, send, recv, count, type));
    return series == HKI_TUNE_ONE_WAY ? broadcast(duet->back, 1, send, recv, count, type) : HK_OK;
}

static hk_status repeat(const hki_duet *duet, hki_tune_series series, void *send, void *recv, uint64_t bytes,
                        uint32_t times)
{
    for (uint32_t i = 0; i < times; i++)
        HK_TRY(hki_duet_call(duet, series, send, recv, bytes, HK_UINT8));
    return HK_OK;
}

static uint32_t calls_for(double us, double message_us, uint32_t least)
{
    enum { MOST = 1 << 20 };
    double calls = message_us > 0 ? us / message_us : MOST;
    return calls < least ? least : calls < MOST ? (uint32_t)calls : MOST;
}

hk_status hki_duet_sustain(const hki_duet *duet, hki_tune_series series, void *send, void *recv, uint64_t bytes,
                           double message_us, double window_us, double *us)
{
    uint32_t counted = calls_for(window_us, message_us, 2);
    HK_TRY(hk_barrier(duet->comm));
    HK_TRY(repeat(duet, series, send, recv, bytes, calls_for(window_us / 2, message_us, 1)));
    uint64_t start = hki_now();
    HK_TRY(repeat(duet, series, send, recv, bytes, counted));
    double each = (double)(hki_now() - start) / 1e3 / counted;
    HK_TRY(hk_allreduce(HK_IN_PLACE, &each, 1, HK_FLOAT64, HK_MAX, duet->comm));
    *us = each;
    return HK_OK;
}

uint64_t hki_duet_eager_limit(const hki_duet *duet)
{
    return hki_comm_channel(duet->comm, 1 - duet->comm->rank)->eager_limit;
}

#include "comm/duet.h"

#include "algo/algo.h"
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

uint64_t hki_duet_eager_limit(const hki_duet *duet)
{
    return hki_comm_channel(duet->comm, 1 - duet->comm->rank)->eager_limit;
}

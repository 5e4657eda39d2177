/*
 * A tour of the collectives that move blocks: what each rank gives, and what it gets.
 */
#include "check.h"

enum { MOST = 64 }; /* ranks */

typedef struct tour {
    hk_comm *comm;
    int rank, size;
    int32_t give[MOST * MOST], get[MOST * MOST];
} tour;

static void from_one_to_all(tour *t)
{
    int root = t->size - 1;
    int32_t number = t->rank == root ? 42 : 0;
    check(hk_broadcast(&number, 1, HK_INT32, root, t->comm));
    expect(number == 42, "broadcast");

    for (int i = 0; i < t->size; i++)
        t->give[i] = 100 + i; /* significant at the root only */
    check(hk_scatter(t->rank == root ? t->give : NULL, t->get, 1, HK_INT32, root, t->comm));
    expect(t->get[0] == 100 + t->rank, "scatter");
}

static void from_all_to_one(tour *t)
{
    t->give[0] = t->rank;
    check(hk_gather(t->give, t->get, 1, HK_INT32, 0, t->comm));
    for (int i = 0; t->rank == 0 && i < t->size; i++)
        expect(t->get[i] == i, "gather");

    int32_t highest = -1;
    check(hk_reduce(&t->rank, &highest, 1, HK_INT32, HK_MAX, 0, t->comm));
    expect(t->rank != 0 || highest == t->size - 1, "reduce");
}

static void from_all_to_all(tour *t)
{
    t->give[0] = 10 * t->rank;
    check(hk_allgather(t->give, t->get, 1, HK_INT32, t->comm));
    for (int i = 0; i < t->size; i++)
        expect(t->get[i] == 10 * i, "all-gather");

    for (int i = 0; i < t->size; i++)
        t->give[i] = 1000 * t->rank + i;
    check(hk_alltoall(t->give, t->get, 1, HK_INT32, t->comm));
    for (int i = 0; i < t->size; i++)
        expect(t->get[i] == 1000 * i + t->rank, "all-to-all");

    check(hk_reduce_scatter(t->give, t->get, 1, HK_INT32, HK_SUM, t->comm));
    expect(t->get[0] == 1000 * t->size * (t->size - 1) / 2 + t->size * t->rank, "reduce-scatter");
}

/* Rank r brings r + 1 elements. */
static void of_different_length(tour *t)
{
    uint64_t counts[MOST], displacements[MOST], total = 0;
    for (int i = 0; i < t->size; i++) {
        counts[i] = (uint64_t)i + 1;
        displacements[i] = total;
        total += counts[i];
    }
    for (int i = 0; i <= t->rank; i++)
        t->give[i] = t->rank;
    check(hk_allgatherv(t->give, counts[t->rank], t->get, counts, displacements, HK_INT32, t->comm));
    for (int i = 0; i < t->size; i++)
        expect(t->get[displacements[i]] == i && t->get[displacements[i] + counts[i] - 1] == i, "all-gather, uneven");
}

static void in_rank_order(tour *t)
{
    int32_t one = 1, upto = 0, before = 0;
    check(hk_scan(&one, &upto, 1, HK_INT32, HK_SUM, t->comm));
    check(hk_exscan(&one, &before, 1, HK_INT32, HK_SUM, t->comm)); /* leaves rank 0's result as it is */
    expect(upto == t->rank + 1 && before == t->rank, "scan");
}

int main(void)
{
    static tour t;
    check(hk_init(&t.comm));
    t.rank = hk_comm_rank(t.comm);
    t.size = hk_comm_size(t.comm);
    expect(t.size <= MOST, "at most 64 ranks");

    from_one_to_all(&t);
    from_all_to_one(&t);
    from_all_to_all(&t);
    of_different_length(&t);
    in_rank_order(&t);
    check(hk_barrier(t.comm));
    if (t.rank == 0)
        printf("%d ranks have seen it all\n", t.size);
    check(hk_comm_free(t.comm));
    return 0;
}

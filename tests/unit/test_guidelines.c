/* What a collective may take at most, by the model: no longer than others that do its work, no less for fewer bytes,
 * and about as long with one rank more. J. L. Träff, W. Gropp, R. Thakur: Self-consistent MPI performance guidelines,
 * 2010.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cost/candidate.h"

/* What all guidelines are held to, and where they are held to less:
 *  - an all-reduce cuts its vector on cache lines, a reduce-scatter and an all-gather wherever blocks are: with less
 * than a line for every rank on one host, fractions of a microsecond;
 *  - the halves of a broadcast that run into each other at a host's NIC, or where a rank still waits for its share,
 * whereas a sum has one begin after the other: 17 % among 64 ranks on 8 hosts, of which the simulator sees 5, 13 %
 * among 1024 hosts of one rank. Beside that no broadcast has the quickest halves among 5 hosts of one rank (k-nomial,
 * direct: 14 %): one after the other in a schedule they take 188 µs, not 157. */
static const double tolerance = 1.10, short_of_lines = 1.25, halves = 1.18;

typedef struct place {
    hki_cluster *cluster;
    hki_pricer *pricer;
} place;

static place place_of(uint32_t ranks, uint32_t on_host)
{
    place made = {hki_cluster_new(ranks, (ranks + on_host - 1) / on_host, 1, "a test"), NULL};
    assert_non_null(made.cluster);
    made.cluster->switches[0].above = UINT32_MAX;
    for (uint32_t i = 0; i < made.cluster->host_count; i++)
        made.cluster->hosts[i] = (hki_cluster_host){.capacity = on_host, .numas = 1, .nics = 1};
    for (uint32_t rank = 0; rank < ranks; rank++)
        made.cluster->seats[rank] = (hki_seat){.host = rank / on_host,
                                               .core = (uint16_t)(rank % on_host),
                                               .l2 = (uint16_t)(rank % on_host),
                                               .reach = HKI_REACH_SHM | HKI_REACH_TCP};
    assert_int_equal(hki_cluster_settle(made.cluster), HK_OK);
    assert_int_equal(hki_pricer_new(made.cluster, &hki_figures_built_in, &made.pricer), HK_OK);
    return made;
}

static void leave(place *at)
{
    hki_pricer_free(at->pricer);
    hki_cluster_free(at->cluster);
}

/* What the collective takes when it is served as it would be, or (fully) by the best of all algorithms there are. */
static double best_of(const place *at, hki_collective collective, uint64_t bytes, bool fully)
{
    hki_candidate all[HKI_CANDIDATES_MOST];
    const hki_wishes none = {0};
    uint32_t count = 0;
    hki_question question = {.call = {.collective = collective,
                                      .ranks = at->cluster->rank_count,
                                      .segments = 1,
                                      .commutative = true,
                                      .levels = at->cluster->levels},
                             .type = HK_FLOAT32,
                             .bytes = bytes};
    assert_int_equal(hki_candidates_find(at->pricer, &none, &question, fully, all, &count), HK_OK);
    assert_int_equal(all[0].candidacy, HKI_PRICED);
    return (double)all[0].price.total_ps;
}

static double best(const place *at, hki_collective collective, uint64_t bytes)
{
    return best_of(at, collective, bytes, false);
}

static void expect_at_most(double value, double limit, double factor, const char *what, const place *at, uint64_t bytes)
{
    if (value > limit * factor)
        fail_msg("%s: %llu bytes among %u ranks on %u hosts take %.2f µs, not at most %.2f", what,
                 (unsigned long long)bytes, at->cluster->rank_count, at->cluster->host_count, value / 1e6, limit / 1e6);
}

/* Every rank's block has whole elements. */
static void check_compositions(const place *at, uint64_t least)
{
    uint64_t unit = 4 * (uint64_t)at->cluster->rank_count, bytes = (least + unit - 1) / unit * unit;
    double allreduce = best(at, HKI_COLL_ALLREDUCE, bytes), broadcast = best(at, HKI_COLL_BROADCAST, bytes);
    double reduce = best(at, HKI_COLL_REDUCE, bytes), allgather = best(at, HKI_COLL_ALLGATHER, bytes);
    double reduce_scatter = best(at, HKI_COLL_REDUCE_SCATTER, bytes);
    double gather = best(at, HKI_COLL_GATHER, bytes), scatter = best(at, HKI_COLL_SCATTER, bytes);
    double few = best(at, HKI_COLL_ALLREDUCE, 4), barrier = best(at, HKI_COLL_BARRIER, 0);
    bool is_short = at->cluster->host_count == 1 && bytes < UINT64_C(64) * at->cluster->rank_count;
    bool alone = at->cluster->host_count == 1;
    expect_at_most(allreduce, reduce + broadcast, tolerance, "all-reduce by reduce and broadcast", at, bytes);
    expect_at_most(allreduce, reduce_scatter + allgather, is_short ? short_of_lines : tolerance,
                   "all-reduce by its halves", at, bytes);
    expect_at_most(broadcast, scatter + allgather, alone ? tolerance : halves, "broadcast by scatter and all-gather",
                   at, bytes);
    expect_at_most(allgather, gather + broadcast, tolerance, "all-gather by gather and broadcast", at, bytes);
    expect_at_most(reduce, allreduce, tolerance, "reduce by all-reduce", at, bytes);
    expect_at_most(barrier, few, tolerance, "barrier by all-reduce", at, bytes);
}

static const uint32_t numbers[] = {2, 3, 4, 5, 7, 8, 9, 12, 16, 31, 32, 64, 100, 127, 256, 512, 1023, 1024};
static const uint64_t sizes[] = {8, 1024, 65536, 1 << 20, 64 << 20};
enum { NUMBERS = sizeof numbers / sizeof *numbers, SIZES = sizeof sizes / sizeof *sizes };

static void no_collective_takes_longer_than_others_that_do_its_work(void **state)
{
    (void)state;
    for (int i = 0; i < NUMBERS; i++)
        for (uint32_t on_host = 1; on_host <= 1024; on_host = on_host == 8 ? 1024 : 8 * on_host) {
            if (on_host > 8 && numbers[i] > 128)
                continue; /* more on one host than there are cores anywhere */
            place at = place_of(numbers[i], on_host);
            for (int k = 0; k < SIZES; k++)
                check_compositions(&at, sizes[k]);
            leave(&at);
        }
}

static void fewer_bytes_take_no_longer(void **state)
{
    (void)state;
    static const hki_collective all[] = {HKI_COLL_BROADCAST, HKI_COLL_REDUCE,         HKI_COLL_ALLREDUCE,
                                         HKI_COLL_ALLGATHER, HKI_COLL_REDUCE_SCATTER, HKI_COLL_GATHER,
                                         HKI_COLL_ALLTOALL};
    for (int i = 0; i < NUMBERS; i += 2) {
        place at = place_of(numbers[i], 8);
        for (size_t c = 0; c < sizeof all / sizeof *all; c++) {
            double last = 0;
            for (uint64_t bytes = 8; bytes <= 64 << 20; bytes *= 4) {
                double now = best(&at, all[c], bytes);
                expect_at_most(last, now, 1.02, hki_collective_name(all[c]), &at, bytes);
                last = now;
            }
        }
        leave(&at);
    }
}

static uint32_t log2_up(uint32_t n)
{
    uint32_t log = 0;
    while (n > UINT32_C(1) << log)
        log++;
    return log;
}

/* What one rank more than `ranks` may cost, as rounds and bytes explain: the fewest rounds are one more beyond a power
 * of two, and what passes a host's memory, or a root, grows with the other ranks. */
static double explained(uint32_t ranks)
{
    double rounds = (double)log2_up(ranks + 1) / log2_up(ranks), others = (double)ranks / (ranks - 1);
    return rounds > others ? rounds : others;
}

/* Beyond that no more than a fifth: below a power of two ranks are folded where whole vectors are exchanged, which is
 * one round more than the fewest. A host more is another network, and not looked at. */
static void one_rank_more_is_no_cliff(void **state)
{
    (void)state;
    static const uint32_t edges[] = {2, 3, 4, 6, 7, 8, 9, 15, 16, 31, 32, 63, 64, 127, 128};
    static const hki_collective all[] = {HKI_COLL_BROADCAST, HKI_COLL_REDUCE, HKI_COLL_ALLREDUCE, HKI_COLL_ALLGATHER,
                                         HKI_COLL_REDUCE_SCATTER};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        for (uint32_t on_host = 1; on_host <= 1024; on_host *= 1024) {
            place here = place_of(edges[i], on_host), more = place_of(edges[i] + 1, on_host);
            for (int k = 0; k < SIZES; k++)
                for (size_t c = 0; c < sizeof all / sizeof *all; c++)
                    expect_at_most(best(&more, all[c], sizes[k]), best(&here, all[c], sizes[k]),
                                   1.22 * explained(edges[i]), hki_collective_name(all[c]), &more, sizes[k]);
            leave(&here);
            leave(&more);
        }
}

/* What promises too little is not walked. What more segments would take is told by a rule of thumb, so that one choice
 * in a hundred is not the best there is, by little. */
static void what_is_not_walked_is_hardly_ever_the_best(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {16, 33, 64, 100};
    uint32_t cases = 0, worse = 0;
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        for (uint32_t on_host = 1; on_host <= 8; on_host *= 8) {
            place at = place_of(ranks[i], on_host);
            for (hki_collective collective = 0; collective < HKI_COLL_COUNT; collective++)
                for (int k = 0; k < SIZES; k++) {
                    double chosen = best(&at, collective, sizes[k]);
                    double least = best_of(&at, collective, sizes[k], true);
                    cases++;
                    worse += chosen > least * 1.05;
                    expect_at_most(chosen, least, 1.25, hki_collective_name(collective), &at, sizes[k]);
                }
            leave(&at);
        }
    if (worse > cases / 100)
        fail_msg("%u of %u choices are not the best by more than 5 %%", worse, cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_collective_takes_longer_than_others_that_do_its_work),
        cmocka_unit_test(fewer_bytes_take_no_longer),
        cmocka_unit_test(one_rank_more_is_no_cliff),
        cmocka_unit_test(what_is_not_walked_is_hardly_ever_the_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

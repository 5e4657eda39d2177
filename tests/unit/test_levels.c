/* Ranks in groups within groups. */
#include "topo/cluster.h"
#include "topo/found.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NONE = HKI_TOPOLOGY_NO_CACHE };

static hki_levels *levels_of(uint32_t ranks, const uint32_t *const *labels, uint32_t count, uint32_t split)
{
    hki_levels *levels = NULL;
    assert_true(hki_levels_new(ranks, labels, count, split, &levels));
    return levels;
}

static void ranks_that_are_all_alike_have_no_levels(void **state)
{
    (void)state;
    const uint32_t together[] = {7, 7, 7, 7}, apart[] = {3, 1, 2, 0};
    assert_null(levels_of(4, (const uint32_t *const[]){apart, together}, 2, 1));
    assert_null(levels_of(1, (const uint32_t *const[]){apart}, 1, 0));
}

static void groups_nest_and_are_neighbours(void **state)
{
    (void)state;
    const uint32_t cache[] = {0, 0, 1, 0, 0, 1, 1, 0}, host[] = {5, 9, 5, 5, 9, 9, 5, 9};
    const uint32_t places[] = {0, 3, 2, 6, 1, 4, 7, 5};
    hki_levels *levels = levels_of(8, (const uint32_t *const[]){cache, host}, 2, 1);
    assert_non_null(levels);
    assert_int_equal(levels->count, 2);
    assert_int_equal(levels->split, 1);
    assert_false(levels->in_order);
    assert_int_equal(levels->level[0].groups, 4); /* cache 0 of one host is not that of the other */
    assert_int_equal(levels->level[1].groups, 2);
    assert_int_equal(levels->level[0].smallest, 1);
    assert_int_equal(levels->level[0].largest, 3);
    assert_memory_equal(levels->rank_at, places, sizeof places);
    for (uint32_t place = 0; place < 8; place++) {
        assert_int_equal(levels->place_of[levels->rank_at[place]], place);
        for (uint32_t level = 0; level < 2; level++) {
            const hki_level *of = &levels->level[level];
            assert_in_range(place, of->start[of->group[place]], of->start[of->group[place] + 1] - 1);
        }
    }
    hki_levels_free(levels);
}

static void partitions_that_tell_nothing_are_left_out(void **state)
{
    (void)state;
    const uint32_t apart[] = {0, 1, 2, 3, 4, 5}, pairs[] = {0, 0, 1, 1, 2, 2}, same[] = {4, 4, 3, 3, 8, 8},
                   one[] = {1, 1, 1, 1, 1, 1};
    hki_levels *levels = levels_of(6, (const uint32_t *const[]){apart, pairs, same, one}, 4, 2);
    assert_non_null(levels);
    assert_int_equal(levels->count, 1);
    assert_int_equal(levels->split, 0);
    hki_levels_free(levels);
}

static void the_split_is_the_nearest_level_there_is(void **state)
{
    (void)state;
    const uint32_t fine[] = {0, 0, 1, 1, 2, 2, 3, 3}, host[] = {0, 0, 0, 0, 0, 0, 0, 0},
                   rack[] = {0, 0, 0, 0, 1, 1, 1, 1}, apart[] = {0, 1, 2, 3, 4, 5, 6, 7};
    hki_levels *levels = levels_of(8, (const uint32_t *const[]){fine, host}, 2, 1);
    assert_int_equal(levels->split, 0);
    hki_levels_free(levels);
    levels = levels_of(8, (const uint32_t *const[]){host, apart, rack}, 3, 1);
    assert_int_equal(levels->count, 1);
    assert_int_equal(levels->split, 0);
    assert_int_equal(levels->level[0].groups, 2);
    hki_levels_free(levels);
}

static void equal_levels_are_equal(void **state)
{
    (void)state;
    const uint32_t host[] = {0, 0, 1, 1}, relabelled[] = {3, 3, 7, 7}, other[] = {0, 1, 0, 1}, uneven[] = {0, 0, 0, 1};
    hki_levels *left = levels_of(4, (const uint32_t *const[]){host}, 1, 0);
    const uint32_t *const others[] = {relabelled, other, uneven};
    for (size_t i = 0; i < 3; i++) {
        hki_levels *right = levels_of(4, &others[i], 1, 0);
        assert_int_equal(hki_levels_equal(left, right), i == 0);
        hki_levels_free(right);
    }
    assert_false(hki_levels_equal(left, NULL));
    assert_true(hki_levels_equal(NULL, NULL));
    hki_levels_free(left);
}

/* Two packages of two caches of two cores of two threads each, made up without hwloc. */
static hki_topology *two_packages(void)
{
    hki_found_pu found[16];
    hki_topology *topology;
    for (uint32_t i = 0; i < 16; i++)
        found[i] = (hki_found_pu){.os = i, .package = i / 8, .numa = i / 8, .l3 = i / 4, .l2 = i / 2, .core = i / 2};
    assert_int_equal(hki_topology_make(found, 16, HKI_TOPOLOGY_BY_SYSFS, &topology), HK_OK);
    return topology;
}

static hki_seat seat_on(const hki_topology *topology, uint32_t first, uint32_t last)
{
    hki_cpus cpus = {{0}};
    for (uint32_t cpu = first; cpu <= last; cpu++)
        hki_cpus_add(&cpus, cpu);
    return hki_seat_of(topology, &cpus);
}

static void a_seat_is_what_holds_all_cpus(void **state)
{
    (void)state;
    hki_topology *topology = two_packages();
    hki_seat seat = seat_on(topology, 10, 10);
    const hki_seat core5 = {0, 1, 1, 2, 5, 5, 0};
    assert_memory_equal(&seat, &core5, sizeof seat);
    seat = seat_on(topology, 8, 11);
    const hki_seat cache2 = {0, 1, 1, 2, NONE, NONE, 0};
    assert_memory_equal(&seat, &cache2, sizeof seat);
    seat = seat_on(topology, 0, 15);
    const hki_seat nowhere = {0, NONE, NONE, NONE, NONE, NONE, 0};
    assert_memory_equal(&seat, &nowhere, sizeof seat);
    seat = seat_on(topology, 15, 16); /* a CPU that is not there */
    assert_memory_equal(&seat, &nowhere, sizeof seat);
    seat = seat_on(NULL, 0, 0);
    assert_memory_equal(&seat, &nowhere, sizeof seat);
    hki_topology_free(topology);
}

/* Four hosts of two caches of two ranks below two switches below a third. */
static hki_cluster *racks(void)
{
    hki_cluster *cluster = hki_cluster_new(16, 4, 3, "racks");
    assert_non_null(cluster);
    for (uint32_t i = 0; i < 3; i++)
        cluster->switches[i].above = i < 2 ? 2 : UINT32_MAX;
    for (uint32_t i = 0; i < 4; i++)
        cluster->hosts[i] = (hki_cluster_host){.capacity = 4, .numas = 1, .nics = 1, .above = i / 2};
    for (uint32_t rank = 0; rank < 16; rank++)
        cluster->seats[rank] = (hki_seat){.host = rank / 4, .l3 = (uint16_t)(rank / 2 % 2)};
    assert_int_equal(hki_cluster_settle(cluster), HK_OK);
    return cluster;
}

static void a_cluster_has_levels_by_cache_host_and_switch(void **state)
{
    (void)state;
    hki_cluster *cluster = racks();
    assert_non_null(cluster->levels);
    assert_int_equal(cluster->levels->count, 3);
    assert_int_equal(cluster->levels->split, 1);
    assert_int_equal(cluster->levels->level[0].groups, 8);
    assert_int_equal(cluster->levels->level[1].groups, 4);
    assert_int_equal(cluster->levels->level[2].groups, 2);
    assert_true(cluster->levels->in_order);
    hki_cluster_free(cluster);
}

static void members_number_hosts_as_they_appear(void **state)
{
    (void)state;
    hki_cluster *cluster = racks(), *members, *others;
    const uint32_t world[] = {13, 12, 4, 5}, alike[] = {9, 8, 0, 1}, not_alike[] = {13, 14, 4, 5};
    assert_int_equal(hki_cluster_members(cluster, world, 4, &members), HK_OK);
    assert_int_equal(members->host_count, 2);
    assert_int_equal(members->hosts[0].ranks, 2);
    assert_int_equal(members->hosts[0].above, 1);
    assert_int_equal(members->seats[3].host, 1);
    assert_int_equal(hki_cluster_link(members, 0, 1), hki_cluster_link(cluster, 13, 12));
    assert_int_equal(members->levels->count, 1);
    assert_int_equal(hki_cluster_members(cluster, alike, 4, &others), HK_OK);
    assert_true(hki_cluster_equal(members, others));
    hki_cluster_free(others);
    assert_int_equal(hki_cluster_members(cluster, not_alike, 4, &others), HK_OK);
    assert_false(hki_cluster_equal(members, others));
    hki_cluster_free(others);
    hki_cluster_free(members);
    hki_cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_are_all_alike_have_no_levels),
        cmocka_unit_test(groups_nest_and_are_neighbours),
        cmocka_unit_test(partitions_that_tell_nothing_are_left_out),
        cmocka_unit_test(the_split_is_the_nearest_level_there_is),
        cmocka_unit_test(equal_levels_are_equal),
        cmocka_unit_test(a_seat_is_what_holds_all_cpus),
        cmocka_unit_test(a_cluster_has_levels_by_cache_host_and_switch),
        cmocka_unit_test(members_number_hosts_as_they_appear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

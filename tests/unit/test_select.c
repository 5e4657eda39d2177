/* The static choice of an algorithm, and HOCKET_ALGORITHM. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "cost/select.h"

static void set(const char *value)
{
    if (value)
        setenv("HOCKET_ALGORITHM", value, 1);
    else
        unsetenv("HOCKET_ALGORITHM");
    hki_settings_reset();
}

static int forget(void **state)
{
    (void)state;
    set(NULL);
    return 0;
}

static hki_call call_of(hki_collective collective, uint32_t ranks)
{
    return (hki_call){.collective = collective, .ranks = ranks, .segments = 1, .commutative = true};
}

static const char *chosen(const hki_call *call, uint64_t bytes)
{
    const hki_algorithm *algorithm = NULL;
    uint32_t segments = 0;
    assert_int_equal(hki_select(call, bytes, &algorithm, &segments), HK_OK);
    hki_call with = *call;
    with.segments = segments;
    assert_null(hki_algorithm_refuses(algorithm, &with));
    return algorithm->name;
}

static void every_call_is_served(void **state)
{
    (void)state;
    for (int collective = 0; collective < HKI_COLL_COUNT; collective++)
        for (uint32_t ranks = 1; ranks < 300; ranks += 1 + ranks / 8)
            for (uint64_t bytes = 0; bytes < UINT64_C(1) << 40; bytes = bytes * 7 + 1)
                for (int commutative = 0; commutative < 2; commutative++) {
                    hki_call call = call_of((hki_collective)collective, ranks);
                    call.commutative = commutative;
                    call.root = ranks - 1;
                    chosen(&call, bytes);
                }
}

static void small_and_large_all_reduces_differ(void **state)
{
    (void)state;
    hki_call two = call_of(HKI_COLL_ALLREDUCE, 2), eight = call_of(HKI_COLL_ALLREDUCE, 8);
    hki_call five = call_of(HKI_COLL_ALLREDUCE, 5), many = call_of(HKI_COLL_ALLREDUCE, 100);
    assert_string_equal(chosen(&two, 8), "recursive_doubling");
    assert_string_equal(chosen(&two, 1 << 20), "direct");
    assert_string_equal(chosen(&five, 8), "flat");
    assert_string_equal(chosen(&eight, 8), "flat");
    assert_string_equal(chosen(&many, 8), "recursive_multiplying");
    assert_string_equal(chosen(&eight, 8192), "recursive_doubling");
    assert_string_equal(chosen(&eight, 65536), "rabenseifner");
    assert_string_equal(chosen(&eight, 4 << 20), "ring");
    assert_string_equal(chosen(&many, 64 << 20), "ring");
    many.commutative = false;
    assert_string_equal(chosen(&many, 64 << 20), "direct");
}

/* Ranks may differ in rank and in-place form only; neither may change the choice. */
static void what_differs_between_ranks_changes_nothing(void **state)
{
    (void)state;
    for (int collective = 0; collective < HKI_COLL_COUNT; collective++)
        for (uint64_t bytes = 1; bytes < UINT64_C(1) << 30; bytes *= 8) {
            hki_call call = call_of((hki_collective)collective, 12);
            const char *first = chosen(&call, bytes);
            call.rank = 7;
            call.in_place = HKI_ALIGNED;
            assert_string_equal(chosen(&call, bytes), first);
        }
}

static void segments_grow_with_the_vector(void **state)
{
    (void)state;
    const hki_algorithm *chain = hki_algorithm_find(HKI_COLL_BROADCAST, "chain");
    const hki_algorithm *flat = hki_algorithm_find(HKI_COLL_BROADCAST, "flat");
    hki_call call = call_of(HKI_COLL_BROADCAST, 8);
    assert_int_equal(hki_select_segments(chain, &call, 100), 1);
    assert_int_equal(hki_select_segments(chain, &call, 1 << 20), 16);
    assert_int_equal(hki_select_segments(chain, &call, UINT64_C(1) << 40), 64);
    assert_int_equal(hki_select_segments(flat, &call, UINT64_C(1) << 40), 1);
}

static void a_setting_forces_and_forbids(void **state)
{
    (void)state;
    hki_call call = call_of(HKI_COLL_ALLREDUCE, 8), broadcast = call_of(HKI_COLL_BROADCAST, 3);
    hki_call call_of_three = call_of(HKI_COLL_ALLREDUCE, 3);
    set("allreduce:ring, broadcast:^flat");
    assert_string_equal(chosen(&call, 8), "ring");
    assert_string_not_equal(chosen(&broadcast, 8), "flat");
    set("allreduce:^flat,allreduce:^recursive_multiplying");
    assert_string_equal(chosen(&call_of_three, 8), "recursive_doubling");
}

static void expect_refusal(const char *setting, const hki_call *call, hk_status status, const char *word)
{
    const hki_algorithm *algorithm = NULL;
    uint32_t segments = 0;
    set(setting);
    assert_int_equal(hki_select(call, 8, &algorithm, &segments), status);
    assert_non_null(strstr(hk_last_error(), word));
    assert_null(algorithm);
}

static void what_cannot_be_had_is_an_error(void **state)
{
    (void)state;
    hki_call call = call_of(HKI_COLL_ALLREDUCE, 8), odd = call_of(HKI_COLL_ALLGATHER, 7);
    expect_refusal("allreduce:rign", &call, HK_ERR_SETTING, "rign");
    expect_refusal("allreduce:rign", &odd, HK_ERR_SETTING, "segmented_ring");
    expect_refusal("alreduce:ring", &call, HK_ERR_SETTING, "alreduce");
    expect_refusal("ring", &call, HK_ERR_SETTING, "collective:algorithm");
    expect_refusal("allreduce:ring,allreduce:flat", &call, HK_ERR_SETTING, "both");
    expect_refusal("allgather:neighbour_exchange", &odd, HK_ERR_UNSUPPORTED, "even");
    expect_refusal("gatherv:^linear", &(hki_call){.collective = HKI_COLL_GATHERV, .ranks = 3, .commutative = true},
                   HK_ERR_UNSUPPORTED, "forbids");
    call.commutative = false;
    expect_refusal("allreduce:ring", &call, HK_ERR_UNSUPPORTED, "rank order");
    set("allreduce:nothing");
    assert_int_equal(hki_select_check(), HK_ERR_SETTING);
    set("allreduce:ring");
    assert_int_equal(hki_select_check(), HK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_is_served),
        cmocka_unit_test(small_and_large_all_reduces_differ),
        cmocka_unit_test(what_differs_between_ranks_changes_nothing),
        cmocka_unit_test(segments_grow_with_the_vector),
        cmocka_unit_test_teardown(a_setting_forces_and_forbids, forget),
        cmocka_unit_test_teardown(what_cannot_be_had_is_an_error, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

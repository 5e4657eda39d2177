/* The builder: numbering of messages, derived dependencies, cost. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "sched/dump.h"

static hki_shape even_shape(uint32_t ranks, uint32_t rank, uint32_t parts)
{
    return (hki_shape){.collective = HKI_COLL_ALLREDUCE,
                       .ranks = ranks,
                       .rank = rank,
                       .segments = 1,
                       .grid = {{.cut = HKI_CUT_EVEN, .parts = parts, .segments = 1},
                                {.cut = HKI_CUT_EVEN, .parts = parts, .segments = 1}}};
}

static hki_group world(const hki_shape *shape)
{
    return (hki_group){.size = shape->ranks, .rank = shape->rank, .stride = 1};
}

static hki_schedule *finish(hki_builder *builder)
{
    hk_status status;
    hki_schedule *schedule = hki_builder_finish(builder, &status);
    assert_int_equal(status, HK_OK);
    assert_non_null(schedule);
    return schedule;
}

static void assert_deps(const hki_schedule *schedule, uint32_t step, uint32_t count, ...)
{
    assert_true(step < schedule->step_count);
    assert_int_equal(schedule->steps[step].dep_count, count);
    va_list list;
    va_start(list, count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(schedule->deps[schedule->steps[step].first_dep + i], va_arg(list, int));
    va_end(list);
}

static void read_after_write_waits_for_the_writer(void **state)
{
    (void)state;
    hki_shape shape = even_shape(4, 1, 4);
    hki_group group = world(&shape);
    hki_builder *b = hki_builder_new(&shape);
    hki_region out = hki_whole(b, HKI_OUTPUT, 4);
    hki_recv(b, &group, 0, hki_share(&out, 0));
    hki_recv(b, &group, 0, hki_share(&out, 1));
    hki_send(b, &group, 2, hki_share(&out, 1));
    hki_send(b, &group, 2, hki_shares(&out, 3, 2)); /* blocks 3 and 0 */
    hki_schedule *s = finish(b);
    assert_deps(s, 0, 0);
    assert_deps(s, 1, 0);
    assert_deps(s, 2, 1, 1);
    assert_deps(s, 3, 1, 0);
    hki_schedule_free(s);
}

static void write_after_read_waits_for_the_readers_only(void **state)
{
    (void)state;
    hki_shape shape = even_shape(4, 1, 4);
    hki_group group = world(&shape);
    hki_builder *b = hki_builder_new(&shape);
    hki_region out = hki_whole(b, HKI_OUTPUT, 4);
    hki_recv(b, &group, 0, hki_all(&out));
    hki_send(b, &group, 2, hki_share(&out, 1));
    hki_send(b, &group, 3, hki_share(&out, 1));
    hki_recv(b, &group, 0, hki_share(&out, 1)); /* its readers waited for step 0 */
    hki_recv(b, &group, 0, hki_share(&out, 2)); /* nobody has read: after the writer */
    hki_recv(b, &group, 0, hki_all(&out));
    hki_schedule *s = finish(b);
    assert_deps(s, 3, 2, 1, 2);
    assert_deps(s, 4, 1, 0);
    assert_deps(s, 5, 2, 3, 4); /* step 4 waited for step 0 */
    hki_schedule_free(s);
}

static void a_step_in_place_does_not_wait_for_itself(void **state)
{
    (void)state;
    hki_shape shape = even_shape(2, 0, 2);
    hki_group group = world(&shape);
    hki_builder *b = hki_builder_new(&shape);
    hki_region in = hki_whole(b, HKI_INPUT, 2), out = hki_whole(b, HKI_OUTPUT, 2);
    hki_copy(b, hki_all(&out), hki_all(&in), false);
    hki_recv_reduce(b, &group, 1, hki_share(&out, 0), hki_share(&out, 0), false, true);
    hki_schedule *s = finish(b);
    assert_deps(s, 1, 1, 0);
    assert_int_equal(s->steps[1].flags, HKI_FINISH);
    hki_schedule_free(s);
}

static void input_is_ordered_only_where_it_is_output(void **state)
{
    (void)state;
    hki_shape shape = even_shape(4, 1, 4);
    for (int aliased = 0; aliased < 2; aliased++) {
        shape.alias = (hki_alias){.input = 0, .output = 2, .count = aliased ? 2 : 0};
        hki_group group = world(&shape);
        hki_builder *b = hki_builder_new(&shape);
        hki_region in = hki_whole(b, HKI_INPUT, 4), out = hki_whole(b, HKI_OUTPUT, 4);
        hki_send(b, &group, 0, hki_share(&in, 1)); /* the same bytes as OUTPUT 3 */
        hki_send(b, &group, 0, hki_shares(&in, 2, 2));
        hki_recv(b, &group, 0, hki_shares(&out, 2, 2));
        hki_schedule *s = finish(b);
        if (aliased)
            assert_deps(s, 2, 1, 0);
        else
            assert_deps(s, 2, 0);
        hki_schedule_free(s);
    }
}

static void unknown_overlap_orders_all_input_reads_before_output_writes(void **state)
{
    (void)state;
    hki_shape shape = even_shape(4, 1, 4);
    shape.alias.whole = true;
    hki_group group = world(&shape);
    hki_builder *b = hki_builder_new(&shape);
    hki_region in = hki_whole(b, HKI_INPUT, 4), out = hki_whole(b, HKI_OUTPUT, 4);
    hki_send(b, &group, 0, hki_share(&in, 1));
    hki_send(b, &group, 0, hki_share(&in, 3));
    hki_recv(b, &group, 0, hki_share(&out, 0));
    hki_schedule *s = finish(b);
    assert_deps(s, 2, 2, 0, 1);
    hki_schedule_free(s);
}

static void scratch_slots_are_separate_and_views_agree_on_them(void **state)
{
    (void)state;
    hki_shape shape = even_shape(4, 0, 8);
    hki_group group = world(&shape);
    hki_builder *b = hki_builder_new(&shape);
    hki_region in = hki_whole(b, HKI_INPUT, 4);
    hki_region scratch = hki_scratch_like(b, &in);
    uint32_t slot = hki_scratch_slot(b);
    hki_recv(b, &group, 1, hki_shares(&scratch, 3, 2));           /* blocks 6 7 0 1 */
    hki_recv(b, &group, 1, hki_share_segment(&scratch, 1, 1, 2)); /* block 3 */
    hki_recv(b, &group, 1, hki_in_slot(slot, hki_all(&in)));
    hki_region share = hki_subregion(&scratch, 1, 2); /* blocks 2 and 3 */
    hki_send(b, &group, 2, hki_share(&share, 1));
    hki_send(b, &group, 2, hki_share_segment(&scratch, 0, 1, 2)); /* block 1 */
    hki_send(b, &group, 2, hki_in_slot(slot, hki_share(&in, 0)));
    hki_region recut = hki_recut(&scratch, 8);
    hki_send(b, &group, 2, hki_share(&recut, 7));
    hki_schedule *s = finish(b);
    assert_int_equal(s->slots, 9);
    assert_deps(s, 3, 1, 1);
    assert_deps(s, 4, 1, 0);
    assert_deps(s, 5, 1, 2);
    assert_deps(s, 6, 1, 0);
    hki_schedule_free(s);
}

static void strided_ranges_touch_their_blocks_only(void **state)
{
    (void)state;
    hki_shape shape = even_shape(4, 0, 8);
    hki_group group = world(&shape);
    hki_builder *b = hki_builder_new(&shape);
    hki_region out = hki_whole(b, HKI_OUTPUT, 8);
    hki_span odd = hki_all(&out);
    odd.blocks = (hki_range){.first = 1, .count = 4, .run = 1, .stride = 2, .wrap = 8};
    hki_recv(b, &group, 1, odd);
    hki_send(b, &group, 1, hki_share(&out, 2));
    hki_send(b, &group, 1, hki_share(&out, 7));
    hki_schedule *s = finish(b);
    assert_deps(s, 1, 0);
    assert_deps(s, 2, 1, 0);
    hki_schedule_free(s);
}

static void a_group_wraps_within_its_own_blocks(void **state)
{
    (void)state;
    hki_shape shape = even_shape(8, 0, 8);
    hki_builder *b = hki_builder_new(&shape);
    hki_region out = hki_whole(b, HKI_OUTPUT, 2);
    hki_region half = hki_subregion(&out, 1, 4); /* blocks 4 … 7 */
    static const uint32_t edges[] = {2, 3, 6, 8};
    hki_region uneven = {.buffer = HKI_OUTPUT, .of = HKI_OUTPUT, .first = 2, .shares = 3, .edges = edges};
    static const uint32_t of_half[] = {7, 4, 5}, of_uneven[] = {6, 7, 2};
    hki_span span = hki_shares(&half, 3, 3), other = hki_shares(&uneven, 2, 2);
    assert_int_equal(span.blocks.count, 3);
    assert_int_equal(other.blocks.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(hki_range_index(&span.blocks, i), of_half[i]);
        assert_int_equal(hki_range_index(&other.blocks, i), of_uneven[i]);
    }
    hki_schedule_free(finish(b));
}

static void messages_are_numbered_per_peer_and_direction(void **state)
{
    (void)state;
    hki_shape shape = even_shape(100, 50, 1);
    static const uint32_t map[] = {50, 7, 99};
    hki_group group = {.size = 3, .map = map};
    hki_builder *b = hki_builder_new(&shape);
    hki_region out = hki_whole(b, HKI_OUTPUT, 1);
    for (uint32_t i = 0; i < 3; i++) {
        hki_send(b, &group, 1, hki_all(&out));
        hki_send(b, &group, 2, hki_all(&out));
        hki_recv(b, &group, 1, hki_all(&out));
    }
    hki_schedule *s = finish(b);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(s->steps[i].ordinal, i / 3);
        assert_int_equal(s->steps[i].peer, i % 3 == 1 ? 99 : 7);
    }
    assert_int_equal(s->peer_count, 2);
    assert_int_equal(s->peers[0], 7);
    assert_int_equal(s->peers[1], 99);
    hki_schedule_free(s);
}

static void a_fence_waits_for_what_nobody_waits_for_yet(void **state)
{
    (void)state;
    hki_shape shape = even_shape(8, 0, 1);
    hki_group group = world(&shape);
    hki_span signal = {0};
    hki_builder *b = hki_builder_new(&shape);
    for (uint32_t distance = 1; distance < 8; distance *= 2) {
        hki_fence(b);
        hki_send(b, &group, distance, signal);
        hki_recv(b, &group, 8 - distance, signal);
    }
    hki_schedule *s = finish(b);
    assert_deps(s, 0, 0);
    assert_deps(s, 1, 0);
    assert_deps(s, 2, 2, 0, 1);
    assert_deps(s, 3, 0);
    assert_deps(s, 4, 2, 2, 3);
    hki_schedule_free(s);
}

static void a_window_waits_for_the_same_verb(void **state)
{
    (void)state;
    hki_shape shape = even_shape(8, 0, 1);
    hki_group group = world(&shape);
    hki_builder *b = hki_builder_new(&shape);
    hki_region in = hki_whole(b, HKI_INPUT, 1);
    for (uint32_t i = 0; i < 4; i++) {
        hki_window(b, 2);
        hki_send(b, &group, 1 + i, hki_all(&in));
        hki_recv(b, &group, 1 + i, (hki_span){0});
    }
    hki_schedule *s = finish(b);
    assert_deps(s, 2, 0);
    assert_deps(s, 3, 0);
    assert_deps(s, 4, 1, 0);
    assert_deps(s, 6, 1, 2);
    hki_schedule_free(s);
}

static void wrong_spans_and_peers_are_refused(void **state)
{
    (void)state;
    hki_shape shape = even_shape(4, 1, 4);
    hki_group group = world(&shape);
    hki_span beyond = {.buffer = HKI_OUTPUT, .of = HKI_OUTPUT, .blocks = {4, 1, 1, 1, 5, 0}};
    hki_span input = {.buffer = HKI_INPUT, .of = HKI_INPUT, .blocks = {0, 1, 1, 1, 4, 0}};
    hki_span slot = {.buffer = HKI_SCRATCH, .of = HKI_INPUT, .slots = 1, .blocks = {0, 1, 1, 1, 4, 0}};
    for (int fault = 0; fault < 6; fault++) {
        hki_builder *b = hki_builder_new(&shape);
        hk_status status = HK_OK;
        if (fault == 0)
            hki_send(b, &group, 0, beyond);
        if (fault == 1)
            hki_recv(b, &group, 0, input);
        if (fault == 2)
            hki_recv(b, &group, 0, slot);
        if (fault == 3)
            hki_send(b, &group, 1, input);
        if (fault == 4)
            hki_send(b, &group, 4, input);
        if (fault == 5)
            hki_reduce(b, hki_in_slot(hki_scratch_slot(b), input), NULL, 0, false);
        assert_null(hki_builder_finish(b, &status));
        assert_int_equal(status, HK_ERR_INTERNAL);
        assert_true(strlen(hk_last_error()) > 0);
    }
}

/* Recursive halving and doubling over P blocks: few steps over huge ranges. */
static void halve_and_double(hki_builder *b, const hki_shape *shape)
{
    hki_group group = world(shape);
    hki_region in = hki_whole(b, HKI_INPUT, shape->ranks), out = hki_whole(b, HKI_OUTPUT, shape->ranks);
    uint32_t first = 0, rank = shape->rank;
    for (uint32_t half = shape->ranks / 2; half; half /= 2) {
        uint32_t keep = rank & half ? first + half : first, give = first + half - (keep - first);
        hki_region *from = half == shape->ranks / 2 ? &in : &out;
        hki_send(b, &group, rank ^ half, hki_shares(from, give, half));
        hki_recv_reduce(b, &group, rank ^ half, hki_shares(&out, keep, half), hki_shares(from, keep, half),
                        (rank & half) != 0, half == 1);
        first = keep;
    }
    for (uint32_t half = 1; half < shape->ranks; half *= 2) {
        hki_send(b, &group, rank ^ half, hki_shares(&out, rank & ~(half - 1), half));
        hki_recv(b, &group, rank ^ half, hki_shares(&out, (rank & ~(half - 1)) ^ half, half));
    }
}

static void log_steps_over_65536_ranks_stay_small(void **state)
{
    (void)state;
    hki_shape shape = even_shape(65536, 12345, 65536);
    size_t before = mallinfo2().uordblks;
    hki_builder *b = hki_builder_new(&shape);
    halve_and_double(b, &shape);
    size_t building = mallinfo2().uordblks - before;
    hki_schedule *s = finish(b);
    assert_int_equal(s->step_count, 64);
    assert_in_range(s->rounds, 16, 32);
    assert_true(s->bytes < 64 * sizeof(hki_step) + 2048);
    assert_in_range(building, 0, 32 * 1024);
    hki_schedule_free(s);
}

/* A ring writes the blocks one by one: one stretch each, and one dependency for each forwarded block. */
static void a_ring_over_many_ranks_is_linear(void **state)
{
    (void)state;
    enum { RANKS = 16384 };
    hki_shape shape = even_shape(RANKS, 777, RANKS);
    hki_group group = world(&shape);
    size_t before = mallinfo2().uordblks;
    hki_builder *b = hki_builder_new(&shape);
    hki_region out = hki_whole(b, HKI_OUTPUT, RANKS);
    for (uint32_t i = 0; i + 1 < RANKS; i++) {
        hki_send(b, &group, 778, hki_share(&out, (777 + RANKS - i) % RANKS));
        hki_recv(b, &group, 776, hki_share(&out, (776 + RANKS - i) % RANKS));
    }
    size_t building = mallinfo2().uordblks + mallinfo2().hblkhd - before;
    assert_in_range(building, 0, 2 * RANKS * 400);
    hki_schedule *s = finish(b);
    assert_int_equal(s->dep_count, RANKS - 2);
    hki_schedule_free(s);
}

/* A fence in every round must not list all earlier steps again. */
static void fences_cost_what_is_unawaited(void **state)
{
    (void)state;
    hki_shape shape = even_shape(2, 0, 1);
    hki_group group = world(&shape);
    hki_builder *b = hki_builder_new(&shape);
    for (uint32_t i = 0; i < 1000; i++) {
        hki_fence(b);
        hki_send(b, &group, 1, (hki_span){0});
        hki_recv(b, &group, 1, (hki_span){0});
    }
    hki_schedule *s = finish(b);
    assert_int_equal(s->dep_count, 2 * 999);
    hki_schedule_free(s);
}

/* Dependencies of random steps, against a plain quadratic computation over single blocks. */
static void derived_order_equals_that_of_single_blocks(void **state)
{
    (void)state;
    enum { BLOCKS = 24, STEPS = 200 };
    uint32_t seed = 12345;
    hki_shape shape = even_shape(2, 0, BLOCKS);
    hki_group group = world(&shape);
    hki_builder *b = hki_builder_new(&shape);
    hki_region out = hki_whole(b, HKI_OUTPUT, BLOCKS);
    static bool touches[STEPS][BLOCKS], writes[STEPS], reaches[STEPS][STEPS];
    for (uint32_t s = 0; s < STEPS; s++) {
        seed = seed * 1664525u + 1013904223u;
        hki_span span = hki_shares(&out, seed >> 8 & 15, 1 + (seed >> 16 & 7));
        if (seed >> 28 < 4)
            span.blocks = (hki_range){seed >> 9 & 15, 4, 1, 5, BLOCKS, 0};
        for (uint32_t i = 0; i < span.blocks.count; i++)
            touches[s][hki_range_index(&span.blocks, i)] = true;
        writes[s] = seed >> 30 & 1;
        if (writes[s])
            hki_recv(b, &group, 1, span);
        else
            hki_send(b, &group, 1, span);
    }
    hki_schedule *schedule = finish(b);
    for (uint32_t s = 0; s < STEPS; s++) {
        bool conflict[STEPS] = {false};
        for (uint32_t t = 0; t < s; t++)
            for (uint32_t k = 0; k < BLOCKS; k++)
                conflict[t] |= touches[s][k] && touches[t][k] && (writes[s] || writes[t]);
        for (uint32_t i = 0; i < schedule->steps[s].dep_count; i++) {
            uint32_t dep = schedule->deps[schedule->steps[s].first_dep + i];
            assert_true(conflict[dep]); /* nothing superfluous */
            reaches[s][dep] = true;
            for (uint32_t t = 0; t < dep; t++)
                reaches[s][t] |= reaches[dep][t];
        }
        for (uint32_t t = 0; t < s; t++)
            assert_true(!conflict[t] || reaches[s][t]); /* nothing missing */
    }
    hki_schedule_free(schedule);
}

/* Compares two schedules step by step, as texts. */
static void expect_same(const hki_schedule *left, const hki_schedule *right)
{
    char texts[2][512];
    assert_int_equal(left->step_count, right->step_count);
    assert_int_equal(left->slots, right->slots);
    assert_int_equal(left->rounds, right->rounds);
    for (uint32_t i = 0; i < left->step_count; i++) {
        hki_step_text(left, i, texts[0], sizeof texts[0]);
        hki_step_text(right, i, texts[1], sizeof texts[1]);
        assert_string_equal(texts[0], texts[1]);
    }
}

/* One builder, renewed for each, writes what a new one would. */
static void a_renewed_builder_remembers_nothing(void **state)
{
    (void)state;
    size_t count;
    const hki_algorithm *all = hki_algorithms(&count);
    hki_builder *reused = NULL;
    for (size_t i = 0; i < count; i++)
        for (uint32_t rank = 0; rank < 6; rank++) {
            const hki_call call = {.collective = all[i].collective,
                                   .ranks = 6,
                                   .rank = rank,
                                   .segments = all[i].segmented ? 4 : 1,
                                   .in_place = rank % 2 ? HKI_ALIGNED : HKI_SEPARATE,
                                   .commutative = true};
            const hki_schedule *seen = NULL;
            hki_schedule *made = NULL;
            if (hki_algorithm_refuses(&all[i], &call))
                continue;
            assert_int_equal(hki_algorithm_schedule(&all[i], &call, &made), HK_OK);
            assert_int_equal(hki_algorithm_look(&all[i], &call, false, &reused, &seen), HK_OK);
            expect_same(seen, made);
            hki_schedule_free(made);
        }
    hki_builder_free(reused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_after_write_waits_for_the_writer),
        cmocka_unit_test(write_after_read_waits_for_the_readers_only),
        cmocka_unit_test(a_step_in_place_does_not_wait_for_itself),
        cmocka_unit_test(input_is_ordered_only_where_it_is_output),
        cmocka_unit_test(unknown_overlap_orders_all_input_reads_before_output_writes),
        cmocka_unit_test(scratch_slots_are_separate_and_views_agree_on_them),
        cmocka_unit_test(strided_ranges_touch_their_blocks_only),
        cmocka_unit_test(a_group_wraps_within_its_own_blocks),
        cmocka_unit_test(messages_are_numbered_per_peer_and_direction),
        cmocka_unit_test(a_fence_waits_for_what_nobody_waits_for_yet),
        cmocka_unit_test(a_window_waits_for_the_same_verb),
        cmocka_unit_test(wrong_spans_and_peers_are_refused),
        cmocka_unit_test(log_steps_over_65536_ranks_stay_small),
        cmocka_unit_test(a_ring_over_many_ranks_is_linear),
        cmocka_unit_test(fences_cost_what_is_unawaited),
        cmocka_unit_test(derived_order_equals_that_of_single_blocks),
        cmocka_unit_test(a_renewed_builder_remembers_nothing),
    };
    return cmocka_run_group_tests_name("builder", tests, NULL, NULL);
}

/* Binding: edges, pieces, dropped steps, limits; and schedules as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sched/bind.h"
#include "sched/builder.h"
#include "sched/dump.h"

static const hki_group two = {.size = 2, .stride = 1};

static hki_shape shape_of(hki_grid input, hki_grid output)
{
    return (hki_shape){.collective = HKI_COLL_ALLREDUCE, .ranks = 2, .segments = 1, .grid = {input, output}};
}

static hki_grid even(uint32_t parts, uint32_t segments)
{
    return (hki_grid){.cut = HKI_CUT_EVEN, .parts = parts, .segments = segments};
}

static hki_schedule *finish(hki_builder *builder)
{
    hk_status status;
    hki_schedule *schedule = hki_builder_finish(builder, &status);
    assert_int_equal(status, HK_OK);
    return schedule;
}

static hki_bound *bind(const hki_schedule *schedule, const hki_sizes *sizes)
{
    hki_bound *bound = NULL;
    assert_int_equal(hki_bind(schedule, sizes, &bound), HK_OK);
    return bound;
}

static void assert_piece(const hki_bound *bound, uint32_t piece, hki_buffer base, uint64_t offset, uint64_t bytes)
{
    assert_int_equal(bound->pieces[piece].base, base);
    assert_int_equal(bound->pieces[piece].offset, offset);
    assert_int_equal(bound->pieces[piece].bytes, bytes);
}

static void cuts_fall_on_cache_lines_and_cover_everything(void **state)
{
    (void)state;
    static const uint32_t element_bytes[] = {1, 2, 4, 8, 12, 64, 128};
    static const uint64_t counts[] = {0, 1, 2, 15, 16, 17, 100, 1000, 4099, UINT64_C(1) << 40};
    for (size_t e = 0; e < sizeof element_bytes / sizeof *element_bytes; e++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (uint32_t parts = 1; parts < 9; parts++) {
                hki_schedule schedule = {.ranks = 2, .grid = {even(parts, 4), even(parts, 1)}};
                hki_sizes sizes = {.count = counts[c], .element_bytes = element_bytes[e]};
                uint64_t first, length, end = 0;
                for (uint32_t block = 0; block < 4 * parts; block++) {
                    hki_block_extent(&schedule, &sizes, HKI_INPUT, block, &first, &length);
                    assert_int_equal(first, end);
                    if (64 % element_bytes[e] == 0 && first != counts[c])
                        assert_int_equal(first * element_bytes[e] % 64, 0);
                    if (block % 4 == 0) {
                        uint64_t part, part_length;
                        hki_block_extent(&schedule, &sizes, HKI_OUTPUT, block / 4, &part, &part_length);
                        assert_int_equal(part, first);
                    }
                    end = first + length;
                }
                assert_int_equal(end, counts[c]);
            }
}

static void equal_fractions_give_equal_edges(void **state)
{
    (void)state;
    static const hki_fraction edges[] = {{0, 6}, {1, 3}, {1, 2}, {4, 6}, {1, 1}};
    hki_schedule schedule = {.ranks = 2, .grid = {even(6, 1), {.cut = HKI_CUT_FRACTION, .parts = 4, .segments = 1}}};
    schedule.grid[1].edges = edges;
    static const uint32_t sixths[] = {0, 2, 3, 4};
    for (uint64_t n = 0; n < 5000; n += 37) {
        hki_sizes sizes = {.count = n, .element_bytes = 4};
        uint64_t first, length, other, end = 0;
        for (uint32_t i = 0; i < 4; i++) {
            hki_block_extent(&schedule, &sizes, HKI_OUTPUT, i, &first, &length);
            hki_block_extent(&schedule, &sizes, HKI_INPUT, sixths[i], &other, &(uint64_t){0});
            assert_int_equal(first, other);
            end = first + length;
        }
        assert_int_equal(end, n);
    }
}

static void neighbouring_blocks_become_one_piece(void **state)
{
    (void)state;
    hki_shape shape = shape_of(even(8, 1), even(8, 1));
    hki_builder *b = hki_builder_new(&shape);
    hki_region in = hki_whole(b, HKI_INPUT, 8);
    hki_region scratch = hki_scratch_like(b, &in);
    hki_send(b, &two, 1, hki_shares(&in, 6, 4));
    hki_recv(b, &two, 1, hki_shares(&scratch, 1, 3));
    hki_schedule *s = finish(b);
    hki_bound *bound = bind(s, &(hki_sizes){.count = 8 * 32, .element_bytes = 4});
    assert_int_equal(bound->step_count, 2);
    assert_int_equal(bound->steps[0].source_count, 2);
    assert_int_equal(bound->steps[0].bytes, 512);
    assert_int_equal(bound->steps[0].operands, 1);
    assert_piece(bound, bound->steps[0].source, HKI_INPUT, 6 * 128, 256);
    assert_piece(bound, bound->steps[0].source + 1, HKI_INPUT, 0, 256);
    assert_int_equal(bound->steps[1].destination_count, 1);
    assert_piece(bound, bound->steps[1].destination, HKI_SCRATCH, 0, 384); /* slot 0 is unused, so it has no size */
    assert_int_equal(bound->scratch_bytes, 384);
    assert_int_equal(bound->largest_message, 512);
    hki_bound_free(bound);
    hki_schedule_free(s);
}

static void operands_are_cut_at_common_edges(void **state)
{
    (void)state;
    hki_shape shape = shape_of(even(4, 1), even(4, 1));
    hki_builder *b = hki_builder_new(&shape);
    hki_region in = hki_whole(b, HKI_INPUT, 4), out = hki_whole(b, HKI_OUTPUT, 4);
    uint32_t slot = hki_scratch_slot(b);
    hki_recv(b, &two, 1, hki_in_slot(slot, hki_shares(&in, 2, 4)));
    hki_span sources[2] = {hki_in_slot(slot, hki_shares(&in, 2, 4)), hki_shares(&in, 3, 4)};
    hki_reduce(b, hki_shares(&out, 2, 4), sources, 2, true);
    hki_schedule *s = finish(b);
    hki_bound *bound = bind(s, &(hki_sizes){.count = 64, .element_bytes = 4}); /* blocks of 64 bytes */
    const hki_bound_step *step = &bound->steps[1];
    assert_int_equal(step->operands, 2);
    assert_int_equal(step->destination_count, 3);
    assert_int_equal(step->source_count, 6);
    assert_piece(bound, step->destination, HKI_OUTPUT, 128, 64);
    assert_piece(bound, step->destination + 1, HKI_OUTPUT, 192, 64);
    assert_piece(bound, step->destination + 2, HKI_OUTPUT, 0, 128);
    assert_piece(bound, step->source, HKI_SCRATCH, 0, 64);
    assert_piece(bound, step->source + 2, HKI_SCRATCH, 128, 128);
    assert_piece(bound, step->source + 3, HKI_INPUT, 192, 64);
    assert_piece(bound, step->source + 4, HKI_INPUT, 0, 64);
    assert_piece(bound, step->source + 5, HKI_INPUT, 64, 128);
    assert_int_equal(step->waits, 1);
    assert_int_equal(bound->steps[0].successor_count, 1);
    assert_int_equal(bound->successors[bound->steps[0].first_successor], 1);
    hki_bound_free(bound);
    hki_schedule_free(s);
}

static void displaced_parts_keep_their_gaps(void **state)
{
    (void)state;
    hki_shape shape = shape_of((hki_grid){.cut = HKI_CUT_ONE, .parts = 1, .segments = 2, .own = 1},
                               (hki_grid){.cut = HKI_CUT_COUNTS, .parts = 4, .segments = 2});
    hki_builder *b = hki_builder_new(&shape);
    hki_region in = hki_whole(b, HKI_INPUT, 1), out = hki_whole(b, HKI_OUTPUT, 4);
    hki_send(b, &two, 1, hki_all(&in));
    hki_send(b, &two, 1, hki_all(&out));
    hki_schedule *s = finish(b);
    static const uint64_t counts[] = {3, 40, 0, 5}, displacements[] = {100, 200, 7, 103};
    hki_bound *bound = bind(s, &(hki_sizes){.counts = {NULL, counts}, .element_bytes = 8});
    assert_piece(bound, bound->steps[0].source, HKI_INPUT, 0, 320);
    assert_int_equal(bound->steps[1].source_count, 1);
    assert_piece(bound, bound->steps[1].source, HKI_OUTPUT, 0, 48 * 8);
    hki_bound_free(bound);
    bound = bind(s, &(hki_sizes){.counts = {NULL, counts}, .displacements = {NULL, displacements}, .element_bytes = 8});
    assert_int_equal(bound->steps[1].source_count, 3);
    assert_piece(bound, bound->steps[1].source, HKI_OUTPUT, 800, 24);
    assert_piece(bound, bound->steps[1].source + 1, HKI_OUTPUT, 1600, 320);
    assert_piece(bound, bound->steps[1].source + 2, HKI_OUTPUT, 824, 40);
    hki_bound_free(bound);
    hki_schedule_free(s);
}

static void steps_without_bytes_vanish_and_pass_on_their_order(void **state)
{
    (void)state;
    hki_shape shape = shape_of(even(2, 1), even(2, 1));
    hki_builder *b = hki_builder_new(&shape);
    hki_region in = hki_whole(b, HKI_INPUT, 2);
    hki_send(b, &two, 1, hki_share(&in, 1));
    hki_fence(b);
    hki_send(b, &two, 1, hki_share(&in, 0)); /* no bytes when the count is small */
    hki_fence(b);
    hki_send(b, &two, 1, (hki_span){0}); /* a signal stays */
    hki_fence(b);
    hki_send(b, &two, 1, hki_share(&in, 1));
    hki_schedule *s = finish(b);
    hki_bound *bound = bind(s, &(hki_sizes){.count = 2, .element_bytes = 4});
    assert_int_equal(bound->step_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(bound->steps[i].waits, i ? 1 : 0);
        assert_int_equal(bound->steps[i].successor_count, i < 2 ? 1 : 0);
        assert_int_equal(bound->steps[i].ordinal, i ? i + 1 : 0);
        if (i < 2)
            assert_int_equal(bound->successors[bound->steps[i].first_successor], i + 1);
    }
    assert_int_equal(bound->steps[1].bytes, 0);
    assert_int_equal(bound->steps[1].source_count, 0);
    hki_bound_free(bound);
    bound = bind(s, &(hki_sizes){.count = 0, .element_bytes = 4});
    assert_int_equal(bound->step_count, 1);
    hki_bound_free(bound);
    hki_schedule_free(s);
}

static void slots_hold_the_largest_content(void **state)
{
    (void)state;
    hki_shape shape = shape_of(even(4, 1), even(4, 1));
    hki_builder *b = hki_builder_new(&shape);
    hki_region in = hki_whole(b, HKI_INPUT, 4);
    uint32_t first = hki_scratch_slot(b), second = hki_scratch_slot(b);
    hki_recv(b, &two, 1, hki_in_slot(first, hki_share(&in, 0)));
    hki_recv(b, &two, 1, hki_in_slot(first, hki_share(&in, 3)));
    hki_recv(b, &two, 1, hki_in_slot(second, hki_all(&in)));
    hki_schedule *s = finish(b);
    hki_bound *bound = bind(s, &(hki_sizes){.count = 70, .element_bytes = 4}); /* 64, 64, 64, 88 bytes */
    assert_piece(bound, bound->steps[0].destination, HKI_SCRATCH, 0, 64);
    assert_piece(bound, bound->steps[1].destination, HKI_SCRATCH, 0, 88);
    assert_piece(bound, bound->steps[2].destination, HKI_SCRATCH, 128, 280);
    assert_int_equal(bound->scratch_bytes, 128 + 320);
    hki_bound_free(bound);
    hki_schedule_free(s);
}

static void sizes_beyond_63_bits_are_refused(void **state)
{
    (void)state;
    hki_shape shape = shape_of((hki_grid){.cut = HKI_CUT_COUNTS, .parts = 2, .segments = 1}, even(2, 1));
    hki_builder *b = hki_builder_new(&shape);
    hki_region in = hki_whole(b, HKI_INPUT, 2);
    hki_send(b, &two, 1, hki_all(&in));
    hki_schedule *s = finish(b);
    static const uint64_t huge[] = {UINT64_MAX, 2}, far[] = {0, UINT64_MAX / 8}, one[] = {1, 1};
    const hki_sizes bad[] = {
        {.count = UINT64_C(1) << 60, .element_bytes = 8},
        {.count = UINT64_MAX, .element_bytes = 1},
        {.count = 1, .counts = {huge, NULL}, .element_bytes = 1},
        {.count = 1, .counts = {one, NULL}, .displacements = {far, NULL}, .element_bytes = 8},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hki_bound *bound = NULL;
        assert_int_equal(hki_bind(s, &bad[i], &bound), HK_ERR_COUNT);
        assert_null(bound);
    }
    hki_bound *bound = bind(s, &(hki_sizes){.count = UINT64_C(1) << 58, .element_bytes = 8});
    assert_int_equal(bound->steps[0].bytes, UINT64_C(1) << 62);
    hki_bound_free(bound);
    hki_schedule_free(s);
}

/* Operands of unequal length are the generator's mistake. */
static void unequal_operands_are_refused(void **state)
{
    (void)state;
    hki_shape shape = shape_of(even(4, 1), even(4, 1));
    hki_builder *b = hki_builder_new(&shape);
    hki_region in = hki_whole(b, HKI_INPUT, 4), out = hki_whole(b, HKI_OUTPUT, 4);
    hki_copy(b, hki_share(&out, 0), hki_shares(&in, 0, 2), true);
    hki_schedule *s = finish(b);
    hki_bound *bound = NULL;
    assert_int_equal(hki_bind(s, &(hki_sizes){.count = 1000, .element_bytes = 4}, &bound), HK_ERR_INTERNAL);
    hki_schedule_free(s);
}

/* The pieces of random spans, against their blocks one by one. */
static void pieces_equal_blocks_one_by_one(void **state)
{
    (void)state;
    static const uint64_t counts[] = {5, 0, 100, 33, 1, 0, 0, 64}, displacements[] = {500, 0, 20, 130, 164, 9, 9, 300};
    uint32_t seed = 1;
    for (int round = 0; round < 300; round++) {
        seed = seed * 1664525u + 1013904223u;
        hki_shape shape = shape_of((hki_grid){.cut = HKI_CUT_COUNTS, .parts = 8, .segments = 2}, even(8, 2));
        hki_builder *b = hki_builder_new(&shape);
        hki_region in = hki_whole(b, HKI_INPUT, 16);
        hki_span span = hki_shares(&in, seed >> 8 & 15, 1 + (seed >> 16 & 15));
        if (seed >> 28 < 6)
            span.blocks = (hki_range){seed >> 9 & 7, 6, 2, 5, 14, seed >> 12 & 1};
        hki_send(b, &two, 1, span);
        hki_schedule *s = finish(b);
        hki_sizes sizes = {.counts = {counts, NULL}, .element_bytes = 4};
        sizes.displacements[0] = seed >> 27 & 1 ? displacements : NULL;
        hki_bound *bound = bind(s, &sizes);
        uint64_t at = 0, offset = 0;
        uint32_t piece = 0;
        for (uint32_t i = 0; i < span.blocks.count; i++) {
            uint64_t first, length;
            hki_block_extent(s, &sizes, HKI_INPUT, hki_range_index(&span.blocks, i), &first, &length);
            for (uint64_t k = 0; k < length; k++, at += 4, offset += 4) {
                if (offset == bound->pieces[piece].bytes)
                    piece++, offset = 0;
                assert_int_equal(bound->pieces[piece].offset + offset, (first + k) * 4);
            }
        }
        if (bound->step_count) {
            assert_int_equal(bound->steps[0].bytes, at);
            assert_int_equal(bound->steps[0].source_count, piece + 1);
            assert_int_equal(bound->pieces[piece].bytes, offset);
        } else {
            assert_int_equal(at, 0);
        }
        hki_bound_free(bound);
        hki_schedule_free(s);
    }
}

static void a_step_reads_well_as_text(void **state)
{
    (void)state;
    hki_shape shape = shape_of(even(8, 1), even(8, 1));
    hki_builder *b = hki_builder_new(&shape);
    hki_region in = hki_whole(b, HKI_INPUT, 8), out = hki_whole(b, HKI_OUTPUT, 8);
    uint32_t slot = hki_scratch_slot(b);
    hki_recv(b, &two, 1, hki_in_slot(slot, hki_shares(&in, 4, 2)));
    hki_recv_reduce(b, &two, 1, hki_shares(&out, 7, 2), hki_shares(&in, 7, 2), true, true);
    hki_send(b, &two, 1, hki_shares(&out, 0, 1));
    hki_send(b, &two, 1, (hki_span){0});
    hki_span sources[2] = {hki_share(&in, 4), hki_in_slot(slot, hki_share(&in, 4))};
    hki_reduce(b, hki_share(&out, 4), sources, 2, false);
    hki_schedule *s = finish(b);
    static const char *const expected[] = {
        "0: recv from 1 #0: scratch slot 0 of input[4..5]",
        "1: recv_reduce from 1 #1: output[7,0] = incoming op input[7,0], finish",
        "2: send to 1 #0: output[0]; after 1",
        "3: send to 1 #1: signal",
        "4: reduce output[4] = input[4] op scratch slot 0 of input[4]; after 0",
    };
    for (uint32_t i = 0; i < 5; i++) {
        char text[200], cut[8];
        assert_int_equal(hki_step_text(s, i, text, sizeof text), strlen(expected[i]));
        assert_string_equal(text, expected[i]);
        assert_int_equal(hki_step_text(s, i, cut, sizeof cut), strlen(expected[i]));
        assert_memory_equal(cut, expected[i], 7);
    }
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    hki_schedule_dump(s, file);
    fclose(file);
    assert_non_null(strstr(text, "allreduce, rank 0 of 2, root 0: input even 8×1, output even 8×1, 1 slots, 5 steps"));
    assert_non_null(strstr(text, expected[4]));
    free(text);
    hki_schedule_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_fall_on_cache_lines_and_cover_everything),
        cmocka_unit_test(equal_fractions_give_equal_edges),
        cmocka_unit_test(neighbouring_blocks_become_one_piece),
        cmocka_unit_test(operands_are_cut_at_common_edges),
        cmocka_unit_test(displaced_parts_keep_their_gaps),
        cmocka_unit_test(steps_without_bytes_vanish_and_pass_on_their_order),
        cmocka_unit_test(slots_hold_the_largest_content),
        cmocka_unit_test(sizes_beyond_63_bits_are_refused),
        cmocka_unit_test(unequal_operands_are_refused),
        cmocka_unit_test(pieces_equal_blocks_one_by_one),
        cmocka_unit_test(a_step_reads_well_as_text),
    };
    return cmocka_run_group_tests_name("bind", tests, NULL, NULL);
}

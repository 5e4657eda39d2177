/* Every vector set against the reference, bit for bit: all lengths 0 … 257 and all alignments, every type and operator,
 * 1 … 9 sources, in place on any of them, non-temporal stores; nothing written outside the result. */
#include "dtype/kernels.h"
#include "dtype_values.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SOURCES = 9, LONGEST = 9300, MARGIN = 64, ROOM = LONGEST * 8 + 64 + 2 * MARGIN };

static const hki_kernel_set *vector_sets[3];
static unsigned set_count;

/* One array of a test: an allocation of its own size, so that a sanitizer sees reads beyond it, at any alignment. */
typedef struct array {
    char *memory, *data;
} array;

static char values[SOURCES][ROOM]; /* the sources' contents */

/* What one check does. */
typedef struct plan {
    hk_type type;
    hk_op op;
    uint64_t count;
    unsigned sources;
    int in_place;       /* source that is also the result; -1: none */
    unsigned align[10]; /* of sources, and of the result last */
    uint32_t divisor;
} plan;

static array make_array(uint64_t bytes, unsigned align)
{
    array made = {.memory = aligned_alloc(64, 64 + (align + bytes + 63) / 64 * 64)};
    assert_non_null(made.memory);
    made.data = made.memory + align;
    return made;
}

static void fail_plan(const hki_kernel_set *set, const plan *p, const char *form, const char *why)
{
    fail_msg("%s %s %s %s: %s (count %llu, %u sources, in place %d, result at %u, first sources at %u and %u)",
             set->name, hk_type_name(p->type), hk_op_name(p->op), form, why, (unsigned long long)p->count, p->sources,
             p->in_place, p->align[9], p->align[0], p->align[1]);
}

/* Runs `many`, or one of the two-operand forms, of a set; compares with `expected`. */
static void check_form(const hki_kernel_set *set, const plan *p, const char *form, hki_kernel2 *two, hki_kernel *many,
                       const char *expected)
{
    static char out[ROOM], blank[ROOM];
    uint64_t bytes = p->count * hk_type_size(p->type);
    array arrays[SOURCES];
    const void *sources[SOURCES];
    memset(out, 0x5a, 64 + bytes + 2 * MARGIN);
    char *result = out + MARGIN + p->align[9];
    for (unsigned s = 0; s < p->sources; s++) {
        arrays[s] = make_array(bytes, p->align[s]);
        sources[s] = arrays[s].data;
        if ((int)s == p->in_place)
            sources[s] = result;
        memcpy((char *)(uintptr_t)sources[s], values[s], bytes);
    }
    if (two != NULL)
        two(result, sources[0], sources[1], p->count);
    else
        many(result, sources, p->sources, p->count, p->divisor);
    if (memcmp(result, expected, bytes) != 0)
        fail_plan(set, p, form, "other bits than the reference");
    for (unsigned s = 0; s < p->sources; s++) {
        if ((int)s != p->in_place && memcmp(arrays[s].data, values[s], bytes) != 0)
            fail_plan(set, p, form, "a source was written");
        free(arrays[s].memory);
    }
    memset(blank, 0x5a, 64 + bytes + 2 * MARGIN);
    memcpy(result, blank, bytes);
    if (memcmp(out, blank, 64 + bytes + 2 * MARGIN) != 0)
        fail_plan(set, p, form, "wrote outside the result");
}

static void check_plan(const hki_kernel_set *set, const plan *p)
{
    static char expected[ROOM];
    const hki_kernel_entry *entry = &set->entries[p->type][p->op];
    const hki_kernel_entry *reference = &hki_kernels_reference.entries[p->type][p->op];
    const void *sources[SOURCES];
    for (unsigned s = 0; s < p->sources; s++)
        sources[s] = values[s];
    reference->many(expected, sources, p->sources, p->count, p->divisor);
    check_form(set, p, "many", NULL, entry->many, expected);
    if (p->sources != 2)
        return;
    reference->two(expected, sources[0], sources[1], p->count);
    check_form(set, p, "two", entry->two, NULL, expected);
    if (entry->two_stream != NULL)
        check_form(set, p, "two_stream", entry->two_stream, NULL, expected);
}

/* Alignments, sources and in-place form by chance, half of the time two sources. */
static plan next_plan(hk_type type, hk_op op, uint64_t count, uint64_t *state)
{
    uint64_t random = next_random(state);
    plan p = {
        .type = type, .op = op, .count = count, .sources = random & 1 ? 2 : 1 + (unsigned)(random >> 8 & 0xff) % 9};
    p.in_place = (int)((random >> 16 & 0xff) % (2 * p.sources)) - (int)p.sources;
    p.in_place = p.in_place < 0 ? -1 : p.in_place;
    p.divisor = op == HK_AVG ? (uint32_t)(random >> 24 & 0xff) % 11 : 1;
    if ((random >> 33 & 7) == 0 && op == HK_AVG)
        p.divisor = (uint32_t)next_random(state);
    for (unsigned i = 0; i < 10; i++)
        p.align[i] = (unsigned)(next_random(state) >> 20) % 64;
    return p;
}

static void refill(hk_type type, uint64_t *state)
{
    for (unsigned s = 0; s < SOURCES; s++)
        fill_values(values[s], LONGEST, type, state);
}

/* Calls check(set, type, op, state) for each vector set and each pair that fits. */
static void for_each_pair(void (*check)(const hki_kernel_set *, hk_type, hk_op, uint64_t *))
{
    uint64_t state = 8675309;
    if (set_count == 0)
        skip();
    for (unsigned v = 0; v < set_count; v++)
        for (hk_type type = 0; type < HK_TYPE_COUNT; type++)
            for (hk_op op = 0; op < HK_OP_COUNT; op++)
                if (vector_sets[v]->entries[type][op].two != NULL) {
                    refill(type, &state);
                    check(vector_sets[v], type, op, &state);
                }
}

static void check_lengths(const hki_kernel_set *set, hk_type type, hk_op op, uint64_t *state)
{
    for (uint64_t count = 0; count <= 257; count++) {
        plan p = next_plan(type, op, count, state);
        check_plan(set, &p);
    }
}

static void all_lengths_give_the_reference_bits(void **state)
{
    (void)state;
    for_each_pair(check_lengths);
}

static void check_alignments(const hki_kernel_set *set, hk_type type, hk_op op, uint64_t *state)
{
    for (unsigned align = 0; align < 64; align++) {
        plan p = next_plan(type, op, 60 + align % 13, state);
        p.sources = 2;
        p.in_place = (int)(align % 3) - 1;
        p.align[9] = align;
        check_plan(set, &p);
    }
}

static void all_alignments_give_the_reference_bits(void **state)
{
    (void)state;
    for_each_pair(check_alignments);
}

/* Long enough for non-temporal stores, at all alignments of the result that matter. */
static void check_streams(const hki_kernel_set *set, hk_type type, hk_op op, uint64_t *state)
{
    uint64_t bytes = hk_type_size(type);
    for (unsigned align = 0; align < 64; align += 7) {
        plan p = next_plan(type, op, (8192 + next_random(state) % 1000) / bytes, state);
        p.sources = 2;
        p.in_place = (int)(align % 3) - 1;
        p.align[9] = align % 2 ? align : align / (unsigned)bytes * (unsigned)bytes;
        check_plan(set, &p);
    }
}

static void non_temporal_stores_give_the_reference_bits(void **state)
{
    (void)state;
    for_each_pair(check_streams);
}

static void check_sources(const hki_kernel_set *set, hk_type type, hk_op op, uint64_t *state)
{
    for (unsigned k = 1; k <= SOURCES; k++)
        for (int in_place = -1; in_place < (int)k; in_place++) {
            plan p = next_plan(type, op, 17 + (uint64_t)in_place * 16 + k, state);
            p.sources = k;
            p.in_place = in_place;
            check_plan(set, &p);
        }
}

static void any_source_may_be_the_result(void **state)
{
    (void)state;
    for_each_pair(check_sources);
}

/* The awkward values of a type, each against each. */
static void check_awkward(hk_type type, const uint64_t *list, uint64_t length)
{
    size_t bytes = hk_type_size(type);
    for (uint64_t i = 0; i < length * length; i++) {
        memcpy(values[0] + i * bytes, &list[i / length], bytes);
        memcpy(values[1] + i * bytes, &list[i % length], bytes);
    }
    for (unsigned v = 0; v < set_count; v++)
        for (hk_op op = 0; op < HK_OP_COUNT; op++)
            if (vector_sets[v]->entries[type][op].two != NULL) {
                plan p = {.type = type, .op = op, .count = length * length, .sources = 2, .in_place = -1, .divisor = 3};
                check_plan(vector_sets[v], &p);
            }
}

static void awkward_values_meet_each_other(void **state)
{
    (void)state;
    if (set_count == 0)
        skip();
#define CHECK(type, list) check_awkward(type, list, sizeof list / sizeof list[0])
    CHECK(HK_FLOAT16, awkward_float16);
    CHECK(HK_BFLOAT16, awkward_bfloat16);
    CHECK(HK_FLOAT32, awkward_float32);
    CHECK(HK_FLOAT64, awkward_float64);
    for (hk_type type = 0; type < HK_FLOAT16; type++)
        CHECK(type, awkward_integer);
#undef CHECK
}

/* The average of one source is its division. */
static void check_division(hk_type type, const void *source, uint64_t count, uint32_t divisor)
{
    static char expected[ROOM * 2], out[ROOM * 2];
    hki_kernels_reference.entries[type][HK_AVG].many(expected, &source, 1, count, divisor);
    for (unsigned v = 0; v < set_count; v++) {
        vector_sets[v]->entries[type][HK_AVG].many(out, &source, 1, count, divisor);
        assert_memory_equal(out, expected, count * hk_type_size(type));
    }
}

/* Each of the 65,536 values, through widening, division and narrowing. */
static void all_16_bit_values_divide_alike(void **state)
{
    (void)state;
    static const uint32_t divisors[] = {1,   2,    3,     5,     7,     10,    255,        256,
                                        257, 1000, 32767, 32768, 65535, 65537, 4294967295u};
    static uint16_t all[65536];
    for (unsigned i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    for (hk_type type = HK_INT8; type <= HK_BFLOAT16; type++)
        for (unsigned d = 0; d < sizeof divisors / sizeof divisors[0] && hk_type_size(type) <= 2; d++)
            check_division(type, all, 65536, divisors[d]);
}

/* Around whole multiples of the divisor, where a rounded quotient would show. */
static void integers_divide_exactly(void **state)
{
    (void)state;
    static uint64_t wide_values[3 * 2000];
    static uint32_t narrow_values[3 * 2000];
    uint64_t random = 4711;
    for (unsigned round = 0; round < 60; round++) {
        uint32_t divisor = (uint32_t)(next_random(&random) >> (32 + next_random(&random) % 31)) | 2;
        for (unsigned i = 0; i < 6000; i++) {
            uint64_t multiple = next_random(&random) >> (next_random(&random) % 63);
            wide_values[i] = multiple / divisor * divisor + i % 3 - 1;
            narrow_values[i] = (uint32_t)multiple / divisor * divisor + i % 3 - 1;
        }
        check_division(HK_INT32, narrow_values, 6000, divisor);
        check_division(HK_UINT32, narrow_values, 6000, divisor);
        check_division(HK_INT64, wide_values, 6000, divisor);
        check_division(HK_UINT64, wide_values, 6000, divisor);
    }
}

static void streamed_copies_are_copies(void **state)
{
    (void)state;
    static char in[20000], out[20000], expected[20000];
    uint64_t random = 77;
    fill_values(in, sizeof in / 8, HK_UINT64, &random);
    for (unsigned v = 0; v < set_count; v++)
        for (unsigned i = 0; i < 600 && vector_sets[v]->copy_stream != NULL; i++) {
            size_t bytes = next_random(&random) % (i % 2 ? 300 : 19000);
            size_t from = next_random(&random) % 64, to = next_random(&random) % 64 + 64;
            memset(out, 0x5a, sizeof out);
            memset(expected, 0x5a, sizeof expected);
            memcpy(expected + to, in + from, bytes);
            vector_sets[v]->copy_stream(out + to, in + from, bytes);
            assert_memory_equal(out, expected, sizeof out);
        }
}

/* A vector set that had lost an entry would silently run at the reference's speed. */
static void vector_sets_override_every_entry(void **state)
{
    (void)state;
    for (unsigned v = 0; v < set_count; v++)
        for (hk_type type = 0; type < HK_TYPE_COUNT; type++)
            for (hk_op op = 0; op < HK_OP_COUNT; op++) {
                const hki_kernel_entry *entry = &vector_sets[v]->entries[type][op];
                bool fits = hki_kernels_reference.entries[type][op].two != NULL;
                assert_true((entry->two != NULL) == fits && (entry->many != NULL) == fits);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vector_sets_override_every_entry),
        cmocka_unit_test(all_lengths_give_the_reference_bits),
        cmocka_unit_test(all_alignments_give_the_reference_bits),
        cmocka_unit_test(non_temporal_stores_give_the_reference_bits),
        cmocka_unit_test(any_source_may_be_the_result),
        cmocka_unit_test(awkward_values_meet_each_other),
        cmocka_unit_test(all_16_bit_values_divide_alike),
        cmocka_unit_test(integers_divide_exactly),
        cmocka_unit_test(streamed_copies_are_copies),
    };
    const char *const names[] = {"avx2", "avx512", "neon"};
    for (unsigned i = 0; i < 3; i++)
        if (hki_kernels_choose(names[i])) {
            (void)hki_kernels_current(&vector_sets[set_count++]);
            print_message("with the %s kernels of this CPU\n", names[i]);
        }
    return cmocka_run_group_tests_name("dtype kernels", tests, NULL, NULL);
}
